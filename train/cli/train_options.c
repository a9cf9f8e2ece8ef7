// train_options.c: what `halfstep train` can be told, and which of it goes together.
#include "train/cli/train_options.h"
#include "train/cli/folder.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define AT(field) offsetof(cli_train_values, field)

const cli_option cli_train_options[] = {
    {.help = "The run"},
    {"output", 'o', "RUN", CLI_FOLDER, AT(output), .standard = "book.run for book.txt",
     .help = "folder for the model and the log, made if missing (its parent must exist)"},
    {"resume", 0, NULL, CLI_FLAG, AT(resume),
     .help = "go on with the run in the folder, given the same TEXT; its settings are the run's"},
    {"from", 0, "MODEL", CLI_FILE, AT(from), .standard = "",
     .help = "start from a model's weights, a file or a run folder; its shape and symbols are the model's"},
    {"force", 'f', NULL, CLI_FLAG, AT(force), .help = "start over in a folder that holds a run"},
    {"deepspeed-config", 0, "FILE", CLI_FILE, AT(deepspeed), .standard = "",
     .help =
         "take options from DeepSpeed's JSON: fp16, bf16, gradient_clipping, the batch sizes, optimizer, scheduler; "
         "an option that the file sets too is an error"},
    {"steps", 0, "N", CLI_INT64, AT(train.steps), .low = 1, .high = 1e12, .standard = "", .help = "train for N steps"},
    {"time", 0, "TIME", CLI_SECONDS, AT(train.seconds), .low = 0, .high = 1e8, .ends = CLI_ABOVE_LOW, .standard = "",
     .help =
         "train for about a duration, 90s, 3m or 1h30m; the speed is measured first and gives the number of steps, and "
         "--layers, --hidden, --batch, --length, --dropout, --lr and --precision where they are not given"},
    {"epochs", 0, "N", CLI_REAL, AT(train.epochs), .low = 0, .high = 1e6, .ends = CLI_ABOVE_LOW,
     .help = "train for N passes over the text"},
    {"eval-every", 0, "STEPS", CLI_INT64, AT(train.eval_every), .low = 0, .high = 1e12,
     .standard = "0, eight times a run, or fewer in a short one", .help = "how often to evaluate on the held-out text"},
    {"save-every", 0, "STEPS", CLI_INT64, AT(train.save_every), .low = 0, .high = 1e12,
     .standard = "0, after evaluations, at most once a minute, and at the end",
     .help = "how often to save the newest model"},
    {"patience", 0, "N", CLI_INT64, AT(train.patience), .low = 0, .high = 1e12, .standard = "0, go on to the end",
     .help = "stop after N evaluations in a row without a new best"},
    {"dry-run", 'n', NULL, CLI_FLAG, AT(dry_run),
     .help = "check everything, try a few steps, print the plan with its memory and time, write nothing"},
    {"seed", 0, "SEED", CLI_SEED, AT(train.seed), .help = "the same seed gives the same model"},
    {.help = "The model"},
    {"layers", 0, "N", CLI_INT, AT(train.layers), .low = 1, .high = 256, .help = "how many SRU layers"},
    {"hidden", 0, "D", CLI_INT64, AT(train.hidden), .low = 1, .high = 65536, .help = "how wide each is"},
    {"dropout", 0, "P", CLI_REAL, AT(train.dropout), .low = 0, .high = 0.999,
     .help = "share of what a layer hands on that is dropped while training"},
    {"tied", 0, NULL, CLI_FLAG, AT(train.tied), .help = "use the embedding's table as the output layer"},
    {"projection", 0, "P", CLI_INT64, AT(train.projection), .low = 0, .high = 65536, .standard = "0, one matrix",
     .help = "two matrices in each layer, by way of a width of P below D"},
    {"layer-norm", 0, NULL, CLI_CHOICE, AT(train.layer_norm), .choices = "before|after|none",
     .help = "where each layer normalizes: before its product, after its recurrence"},
    {"highway-bias", 0, "BIAS", CLI_REAL, AT(train.highway_bias), .low = -100, .high = 100,
     .help = "where the gates between a layer's input and its output start; at -2 a layer starts close to a copy"},
    {"no-rescale", 0, NULL, CLI_FLAG, AT(train.no_rescale),
     .help = "do not enlarge what goes around a layer to keep its size"},
    {"tanh", 0, NULL, CLI_FLAG, AT(train.tanh), .help = "a layer's output from the tanh of its state"},
    {.help = "The text"},
    {"tokenizer", 0, NULL, CLI_CHOICE, AT(tokenizer), .choices = "bytes|characters",
     .help = "what a symbol is; characters are those of TEXT, which must be UTF-8"},
    {"unknown", 0, NULL, CLI_CHOICE, AT(unknown), .choices = CLI_UNKNOWN_CHOICES,
     .help = "what to do with characters that are not in the vocabulary, with --val or --from"},
    {"batch", 0, "B", CLI_INT64, AT(train.batch), .low = 1, .high = 65536,
     .help = "how many places of the text are read at once"},
    {"length", 0, "L", CLI_INT64, AT(train.length), .low = 1, .high = 65536,
     .help = "how many symbols of each in a step"},
    {"fresh-share", 0, "SHARE", CLI_REAL, AT(train.fresh_share), .low = 0, .high = 1,
     .help = "share of the places that start a step from an empty state instead of the carried one"},
    {"val", 0, "FILE", CLI_FILE, AT(val), .standard = "the end of TEXT",
     .help = "a text of its own (a file, a folder or -) to evaluate on; all of TEXT is then learned from"},
    {"val-split", 0, "SHARE", CLI_REAL, AT(val_split), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .help = "share of the text, at its end, that is held out for evaluation"},
    {.help = "The optimizer"},
    {"optimizer", 0, NULL, CLI_CHOICE, AT(train.optimizer), .choices = "adamw|sgd|adam|radam",
     .help = "how gradients move weights"},
    {"lr", 0, "RATE", CLI_REAL, AT(train.lr), .low = 0, .high = 1e6,
     .help = "peak learning rate; sgd needs a larger one, 0.5 say"},
    {"schedule", 0, NULL, CLI_CHOICE, AT(train.schedule), .choices = "cosine|linear|constant|invsqrt|step",
     .help = "how the rate goes on after the warm-up; invsqrt falls as 1 / sqrt(step)"},
    {"warmup", 0, "SHARE", CLI_REAL, AT(train.warmup), .low = 0, .high = 1, .help = "share of the run up to the peak"},
    {"floor", 0, "SHARE", CLI_REAL, AT(train.floor), .low = 0, .high = 1,
     .help = "share of the peak that the rate ends at, or does not fall below"},
    {"lr-step-every", 0, "SHARE", CLI_REAL, AT(train.lr_step_every), .low = 0, .high = 1, .ends = CLI_ABOVE_LOW,
     .help = "with --schedule step: share of the run from one drop of the rate to the next"},
    {"lr-step-factor", 0, "F", CLI_REAL, AT(train.lr_step_factor), .low = 0, .high = 1,
     .help = "with --schedule step: what a drop multiplies the rate by"},
    {"accumulate", 0, "N", CLI_INT64, AT(train.accumulate), .low = 1, .high = 65536,
     .help = "how many batches make a step; it uses their mean, and the memory of one"},
    {"clip", 0, "NORM", CLI_REAL, AT(train.clip), .low = 0, .high = INFINITY,
     .help = "scale longer gradients down to this norm; 0 leaves all as they are"},
    {"weight-decay", 0, "RATE", CLI_REAL, AT(train.weight_decay), .low = 0, .high = 1e6,
     .standard = "0.3 with adamw, else 0",
     .help = "pull of matrices to zero; with all but adamw a part of the gradient"},
    {"momentum", 0, "M", CLI_REAL, AT(train.momentum), .low = 0, .high = 0.9999, .help = "sgd's momentum"},
    {"nesterov", 0, NULL, CLI_FLAG, AT(train.nesterov), .help = "let sgd's momentum look ahead, as Nesterov's"},
    {"beta1", 0, "B", CLI_REAL, AT(train.beta1), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .help = "adam's average of gradients (adamw's and radam's too): what it keeps of itself in a step"},
    {"beta2", 0, "B", CLI_REAL, AT(train.beta2), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .help = "the same of its average of squares"},
    {"eps", 0, "E", CLI_REAL, AT(train.eps), .low = 1e-30, .high = 1,
     .help = "what is added to the root of that average"},
    {"ema", 0, "D", CLI_REAL, AT(train.ema), .low = 0, .high = 0.999999, .standard = "0, the weights themselves",
     .help = "evaluate and save an average of the weights that keeps the share D of itself in a step"},
    {.help = CLI_PRECISION_HEADING},
    {"precision", 0, "PRESET", CLI_CHOICE, AT(train.precision),
     .choices = "fp32|amp-fp16|amp-bf16|apex-O1|apex-O2|apex-O3|deepspeed-fp16|deepspeed-bf16|mxnet-amp",
     .help = "as which system trains: fp32, amp-fp16, amp-bf16 (PyTorch), apex-O1, apex-O2, apex-O3, deepspeed-fp16, "
             "deepspeed-bf16, mxnet-amp; with --resume the run goes on in it"},
    {"amp-recurrence-fp16", 0, NULL, CLI_SWITCH, AT(train.recurrence_f32), .choices = "on|off",
     .help = "whether in an autocast region the layers hand on 16 bits or f32; their states have f32 in any case"},
    {"op-list", 0, "LIST", CLI_CHOICE, AT(train.op_list),
     .choices = "halfstep|torch_cuda|torch_cpu|mxnet_fp16|mxnet_bf16|apex_o1", .standard = "the preset's",
     .help = "which operations have 16 bits in an autocast region: halfstep, torch_cuda, torch_cpu, mxnet_fp16, "
             "mxnet_bf16, apex_o1; `halfstep info` can print them"},
    {"scaler", 0, "PROFILE", CLI_CHOICE, AT(train.scaler),
     .choices = "none|static|torch|apex|deepspeed_zero|deepspeed_fused|mxnet", .standard = "the preset's",
     .help = "whose loss scaler: none, static, torch, apex, deepspeed_zero, deepspeed_fused, mxnet"},
    {"loss-scale", 0, "dynamic|S", CLI_REAL, AT(loss_scale), .low = 0, .high = FLT_MAX, .ends = CLI_ABOVE_LOW,
     .choices = "dynamic", .standard = "the preset's",
     .help = "what the loss is multiplied by, where that is constant"},
    {"init-scale", 0, "S", CLI_REAL, AT(train.init_scale), .low = 0, .high = FLT_MAX, .ends = CLI_ABOVE_LOW,
     .standard = "the scaler's", .help = "the first loss scale"},
    {"growth-factor", 0, "F", CLI_REAL, AT(train.growth), .low = 1, .high = 1e6, .ends = CLI_ABOVE_LOW,
     .standard = "the scaler's", .help = "what raises the scale"},
    {"backoff-factor", 0, "F", CLI_REAL, AT(train.backoff), .low = 1e-6, .high = 1, .ends = CLI_BELOW_HIGH,
     .standard = "the scaler's", .help = "what lowers it"},
    {"growth-interval", 0, "N", CLI_INT64, AT(train.growth_interval), .low = 1, .high = 1e12,
     .standard = "the scaler's", .help = "after how many steps without an overflow it is raised"},
    {"hysteresis", 0, "N", CLI_INT64, AT(train.hysteresis), .low = 1, .high = 1e12, .standard = "the scaler's",
     .help = "how many overflows it takes to lower it"},
    {"consecutive-hysteresis", 0, NULL, CLI_FLAG, AT(train.consecutive_hysteresis),
     .help = "count overflows anew after each step without one, not only after growth"},
    {"min-scale", 0, "S", CLI_REAL, AT(train.min_scale), .low = 0, .high = FLT_MAX, .standard = "the scaler's",
     .help = "the least that it is lowered to; 0 for no limit"},
    {"max-scale", 0, "S", CLI_REAL, AT(train.max_scale), .low = 0, .high = FLT_MAX, .standard = "the scaler's",
     .help = "the most that it is raised to; 0 for no limit"},
    {"max-skips", 0, "N", CLI_INT64, AT(train.max_consecutive_skips), .low = 0, .high = 1e12,
     .standard = "the scaler's", .help = "how many skipped steps in a row end the run; 0 for no limit"},
    {.help = "Teaching"},
    {"unsafe-accumulation", 0, NULL, CLI_FLAG, AT(common.unsafe),
     .help = "round after each addition of every sum, with slow kernels: what `halfstep doctor accumulate` shows"},
    {.help = "Reports"},
    {"quiet", 'q', NULL, CLI_FLAG, AT(quiet), .help = "print only warnings and errors"},
    {"json", 0, NULL, CLI_FLAG, AT(json), .help = "print the result as one JSON object on standard output"},
    {0}};

void cli_train_defaults(void *values) {
    cli_train_values *v = values;
    hst_train_defaults(&v->train, sizeof v->train);
    v->val_split = 0.1;
    v->loss_scale = -1;
}

bool cli_train_is_given(const cli_train_values *values, const char *name) {
    return cli_is_given(cli_train_options, values, cli_find_option(cli_train_options, name, strlen(name)));
}

// Options of the optimizer or the schedule that the chosen one does not have: the sentence about the first, or NULL.
static const char *find_misfit(const hst_train_options *o, const hst_train_options *standard) {
    bool sgd = o->optimizer == HST_SGD;
    bool betas = o->beta1 != standard->beta1 || o->beta2 != standard->beta2 || o->eps != standard->eps;
    bool drops = o->lr_step_every != standard->lr_step_every || o->lr_step_factor != standard->lr_step_factor;
    const struct {
        bool given, fits;
        const char *sentence;
    } rules[] = {
        {o->momentum != standard->momentum, sgd, "--momentum is sgd's; the other optimizers have none"},
        {o->nesterov, sgd, "--nesterov is sgd's; the other optimizers have no such momentum"},
        {o->nesterov, o->momentum > 0, "--nesterov needs a --momentum above 0"},
        {betas, !sgd, "--beta1, --beta2 and --eps are adam's, adamw's and radam's; sgd has none"},
        {drops, o->schedule == HST_STEP_DECAY, "--lr-step-every and --lr-step-factor are for --schedule step"},
        {o->floor != standard->floor, o->schedule != HST_CONSTANT, "--floor means nothing with --schedule constant"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].given && !rules[i].fits) return rules[i].sentence;
    return NULL;
}

// What a run that goes on has already, and its files say: the first such option that is given, or NULL.
static const cli_option *find_setting(const cli_train_values *v) {
    for (const cli_option *o = cli_train_options; cli_table_goes_on(o); o++) {
        bool setting =
            o->offset - AT(train) < sizeof v->train || o->offset == AT(tokenizer) || o->offset == AT(deepspeed);
        if (o->name && setting && !cli_is_of_precision(o) && cli_is_given(cli_train_options, v, o)) return o;
    }
    return NULL;
}

bool cli_train_options_fit(const cli_train_values *v) {
    hst_train_options standard;
    hst_train_defaults(&standard, sizeof standard);
    const hst_train_options *o = &v->train;
    const char *misfit = find_misfit(o, &standard);
    const cli_option *setting = v->resume ? find_setting(v) : NULL;
    if ((o->steps > 0) + (o->seconds > 0) + (o->epochs != standard.epochs) > 1)
        cli_error("--steps, --time and --epochs exclude each other");
    else if (!*v->output)
        cli_error("--output needs the name of a folder");
    else if (v->val && v->val_split != 0.1)
        cli_error("--val and --val-split exclude each other");
    else if (misfit)
        cli_error("%s", misfit);
    else if (v->from && (o->hidden != standard.hidden || o->layers != standard.layers || o->tied != standard.tied ||
                         o->projection != standard.projection || o->layer_norm != standard.layer_norm ||
                         o->highway_bias != standard.highway_bias || o->no_rescale != standard.no_rescale ||
                         o->tanh != standard.tanh || v->tokenizer != CLI_BYTES))
        cli_error("--from takes the model's shape and symbols; leave --hidden, --layers, --tied, --projection, "
                  "--layer-norm, --highway-bias, --no-rescale, --tanh and --tokenizer out");
    else if (v->from && v->resume)
        cli_error("--from starts a run and --resume goes on with one; they exclude each other");
    else if (o->patience > 0 && !v->val && v->val_split <= 0)
        cli_error("--patience needs a held-out text; --val-split 0 leaves none");
    else if (v->resume && v->force)
        cli_error("--resume and --force exclude each other");
    else if (setting)
        cli_error("--resume takes the run's settings, all but those of mixed precision; leave --%s out", setting->name);
    else if (v->resume && !cli_folder_in_use(v->output))
        cli_error("%s: holds no run to go on with", v->output);
    else if (!v->resume && cli_folder_in_use(v->output) && !v->force)
        cli_error("%s: holds a run already; --resume goes on with it, --force starts over, -o names another folder",
                  v->output);
    else
        return true;
    return false;
}
