// eval.c: `halfstep eval`: a model's loss on texts.
#include "train/cli/cli.h"

#include <math.h>

typedef struct eval_values {
    cli_common common;
    int64_t reset;
    double share;
    bool json;
} eval_values;

static const cli_option options[] = {
    {.help = "Protocol"},
    {"reset", 0, "N", CLI_INT64, offsetof(eval_values, reset), .low = 0, .high = 1e15,
     .standard = "0, the state is carried on", .help = "start from an empty state every N predictions"},
    {"val-split", 0, "SHARE", CLI_REAL, offsetof(eval_values, share), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .standard = "0, all of it", .help = "only this share at the text's end, what train's --val-split holds out"},
    {"json", 0, NULL, CLI_FLAG, offsetof(eval_values, json), .help = "print one JSON object"},
    {0}};

static void print_result(const eval_values *v, double nats, int64_t predictions) {
    if (v->json) {
        json_object json = json_begin(stdout);
        json_real(&json, "nats_per_byte", nats);
        json_real(&json, "bits_per_byte", nats / M_LN2);
        json_real(&json, "perplexity", exp(nats));
        json_integer(&json, "predictions", predictions);
        json_integer(&json, "reset", v->reset);
        json_end(&json);
        return;
    }
    printf("nats per byte  %.4f\n", nats);
    printf("bits per byte  %.4f\n", nats / M_LN2);
    printf("perplexity     %.4f\n", exp(nats));
    printf("predictions    %lld\n", (long long)predictions);
}

static int evaluate(hst_context *ctx, const eval_values *v, const hst_lm *model, const hst_corpus *text) {
    double nats;
    int64_t size = hst_corpus_size(text);
    if (size < 2) {
        cli_error("%lld byte of text is too little: a prediction needs at least 2", (long long)size);
        return CLI_INPUT;
    }
    if (hst_lm_evaluate(model, hst_corpus_bytes(text), size, v->reset, &nats)) return cli_failure(ctx, false);
    print_result(v, nats, size - 1);
    return CLI_DONE;
}

static int run(const void *values, int count, char **operands) {
    const eval_values *v = values;
    int code = CLI_DONE;
    hst_context *ctx = cli_open(&v->common, NULL, NULL, &code);
    if (!ctx) return code;
    hst_lm *model = cli_read_byte_model(ctx, operands[0]);
    hst_corpus *text = model ? cli_read_texts(ctx, count - 1, operands + 1) : NULL;
    hst_corpus *last = text && v->share > 0 ? hst_corpus_split(text, v->share) : NULL;
    if (hst_get_status(ctx))
        code = cli_failure(ctx, true);
    else
        code = evaluate(ctx, v, model, last ? last : text);
    hst_corpus_free(last);
    hst_corpus_free(text);
    hst_lm_free(model);
    hst_close(ctx);
    return code;
}

static const cli_term examples[] = {
    {"halfstep eval book.run other.txt", "predicts another text"},
    {"halfstep eval book.run book.txt --val-split 0.1", "predicts what train held out of this one"},
    {NULL, NULL}};

const cli_command cli_eval = {
    .name = "eval",
    .operands = "MODEL TEXT...",
    .at_least = 2,
    .at_most = -1,
    .summary = "a model's loss on texts",
    .details = "Predicts every byte of the texts from those before it and prints the mean loss. MODEL is a file, or a "
               "run folder (then its model.safetensors); TEXT is a file, a folder, or - for standard input.",
    .examples = examples,
    .options = options,
    .size = sizeof(eval_values),
    .run = run,
};
