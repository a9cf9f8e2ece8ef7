// info.c: `halfstep info`: what a model file holds; without one, what this program and machine have.
#include "train/cli/cli.h"
#include "train/cli/png.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void print_configuration(const hst_lm_config *c) {
    printf("vocabulary    %" PRId64 "\n", c->vocabulary);
    printf("hidden        %" PRId64 "\n", c->hidden);
    printf("layers        %d\n", c->layers);
    printf("dropout       %g\n", c->dropout);
    printf("highway bias  %g\n", c->highway_bias);
    printf("layer norm    %s\n", !c->layer_norm ? "no" : c->normalize_after ? "after the recurrence" : "yes");
    printf("rescale       %s\n", c->rescale ? "yes" : "no");
    printf("tied          %s\n", c->tied ? "yes" : "no");
    if (c->projection_size) printf("projection    %" PRId64 "\n", c->projection_size);
    if (c->use_tanh) printf("tanh          yes\n");
    if (!c->has_skip_term) printf("skip term     no\n");
    if (c->v1) printf("v1            yes\n");
    if (c->rnn_dropout > 0) printf("rnn dropout   %g\n", c->rnn_dropout);
}

static void print_tensors(const hst_parameters *list) {
    int width = 0;
    for (int i = 0; i < hst_parameter_count(list); i++) {
        int length = (int)strlen(hst_parameter_name(list, i));
        if (length > width) width = length;
    }
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const hst_tensor *t = hst_parameter_value(list, i);
        printf("  %-*s  %s (", width, hst_parameter_name(list, i), hst_dtype_name(hst_dtype_of(t)));
        for (int axis = 0; axis < hst_rank(t); axis++) printf("%s%" PRId64, axis ? ", " : "", hst_dim(t, axis));
        printf(")\n");
    }
}

// Of a checkpoint: in what precision its run trains.
static void print_precision(hst_context *ctx, const char *path) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    if (!hst_trainer_read_options(ctx, path, &o)) return;
    printf("precision     %s", hst_precision_of(o.precision)->name);
    if (o.scaler > HST_SCALER_NONE) printf(", loss scaler %s", hst_scaler_name((hst_scaler_profile)o.scaler));
    putchar('\n');
}

static int describe_model(hst_context *ctx, const char *path) {
    hst_tokenizer *tokenizer;
    hst_lm *model = cli_read_model(ctx, path, &tokenizer);
    if (!model) return cli_failure(ctx, true);
    const hst_parameters *list = hst_lm_parameters(model);
    print_configuration(hst_lm_configuration(model));
    if (tokenizer) printf("symbols       %ss\n", hst_tokenizer_unit(tokenizer));
    char inside[PATH_MAX];
    print_precision(ctx, cli_model_path(path, inside, sizeof inside));
    printf("parameters    %" PRId64 "\n", hst_parameter_elements(list));
    printf("tensors       %d, in memory (rows, columns)\n", hst_parameter_count(list));
    print_tensors(list);
    hst_tokenizer_free(tokenizer);
    hst_lm_free(model);
    return hst_get_status(ctx) ? cli_failure(ctx, true) : CLI_DONE;
}

static int describe_machine(const hst_context *ctx) {
    printf("halfstep  %s\n", hst_version());
    printf("isa       %s (this CPU runs: %s)\n", hst_isa(ctx), hst_isa_names());
    printf("threads   %d\n", hst_thread_count(ctx));
    printf("pictures  %s\n", cli_has_png ? "yes" : "no, it was built without stb_image_write.h");
    return CLI_DONE;
}

typedef struct info_values {
    cli_common common;
    bool ops;
} info_values;

static const cli_option options[] = {
    {.help = "Output"},
    {"ops", 0, NULL, CLI_FLAG, offsetof(info_values, ops),
     .help = "print the table of operations and the list of all sums, as in ops/README.md"},
    {0}};

// Prints what `list` writes as snprintf does; false without memory for it.
static bool print_list(const char *heading, size_t (*list)(char *text, size_t size)) {
    size_t size = list(NULL, 0) + 1;
    char *text = malloc(size);
    if (!text) return cli_error("out of memory"), false;
    list(text, size);
    printf("%s\n\n%s", heading, text);
    free(text);
    return true;
}

static int describe_operations(void) {
    if (!print_list("Operations, with their cast classes by each op list", hst_op_names)) return CLI_FAILED;
    putchar('\n');
    return print_list("Sums: operation, result, kind, terms", hst_op_sums) ? CLI_DONE : CLI_FAILED;
}

static int run(const void *values, int count, char **operands) {
    if (((const info_values *)values)->ops) return describe_operations();
    int code = CLI_DONE;
    hst_context *ctx = cli_open(values, NULL, NULL, &code);
    if (!ctx) return code;
    code = count ? describe_model(ctx, operands[0]) : describe_machine(ctx);
    hst_close(ctx);
    return code;
}

static const cli_term examples[] = {{"halfstep info book.run", "what the model is made of"},
                                    {"halfstep info", "what this program and this machine have"},
                                    {"halfstep info --ops", "every operation and every sum"},
                                    {NULL, NULL}};

const cli_command cli_info = {
    .name = "info",
    .operands = "[MODEL]",
    .at_most = 1,
    .summary = "what a model holds; without one, what this program has",
    .details = "Prints a model's configuration, size and tensors. MODEL is a file, or a run folder (then its "
               "model.safetensors). Without one it prints the version, the kernels that this CPU runs, the number of "
               "threads, and whether `plot` can draw.",
    .examples = examples,
    .options = options,
    .size = sizeof(info_values),
    .run = run,
};
