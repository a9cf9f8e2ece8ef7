// eval.c: `halfstep eval`: a model's loss on texts.
#include "train/cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_values {
    cli_common common;
    int64_t reset;
    double share;
    int unknown, weights;
    bool per_token, json;
} eval_values;

static const cli_option options[] = {
    {.help = "Protocol"},
    {"reset", 0, "N", CLI_INT64, offsetof(eval_values, reset), .low = 0, .high = 1e15,
     .standard = "0, the state is carried on", .help = "start from an empty state every N predictions"},
    {"val-split", 0, "SHARE", CLI_REAL, offsetof(eval_values, share), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .standard = "0, all of it", .help = "only this share at the text's end, what train's --val-split holds out"},
    {"unknown", 0, NULL, CLI_CHOICE, offsetof(eval_values, unknown), .choices = CLI_UNKNOWN_CHOICES,
     .help = "what to do with characters that the model has never seen"},
    {"weights", 0, NULL, CLI_CHOICE, offsetof(eval_values, weights), .choices = CLI_WEIGHTS_CHOICES,
     .help = "dtype in which products read the weights, rounded to it if need be, as in `halfstep generate`"},
    {.help = "Output"},
    {"per-token", 0, NULL, CLI_FLAG, offsetof(eval_values, per_token),
     .help = "print each prediction: the symbol's first byte in the text, the symbol, its loss in nats"},
    {"json", 0, NULL, CLI_FLAG, offsetof(eval_values, json), .help = "print one JSON object, or one a prediction"},
    {0}};

// What is evaluated: a model on the symbols of a text.
typedef struct evaluation {
    const eval_values *v;
    hst_context *ctx;
    hst_lm *model;
    hst_tokenizer *tokenizer;
    hst_corpus *text;
} evaluation;

static int64_t symbol_at(hst_symbols text, int64_t i) {
    return text.dtype == HST_U8 ? ((const uint8_t *)text.data)[i] : ((const int32_t *)text.data)[i];
}

// nats: the mean of a symbol. Every symbol but the first has been predicted, and all bytes but its own.
static void print_result(const evaluation *e, double nats) {
    const char *unit = hst_tokenizer_unit(e->tokenizer);
    hst_symbols text = hst_corpus_symbols(e->text);
    int64_t predictions = text.count - 1;
    size_t first;
    hst_tokenizer_decode(e->tokenizer, symbol_at(text, 0), &first);
    double bits_per_byte = nats * (double)predictions / M_LN2 / (double)(hst_corpus_size(e->text) - (int64_t)first);
    char name[32];
    if (e->v->json) {
        json_object json = json_begin(stdout);
        snprintf(name, sizeof name, "nats_per_%s", unit);
        json_real(&json, name, nats);
        json_real(&json, "bits_per_byte", bits_per_byte);
        json_real(&json, "perplexity", exp(nats));
        json_integer(&json, "predictions", predictions);
        json_integer(&json, "reset", e->v->reset);
        json_end(&json);
        return;
    }
    snprintf(name, sizeof name, "nats per %s", unit);
    printf("%-18s %.4f\n", name, nats);
    printf("%-18s %.4f\n", "bits per byte", bits_per_byte);
    printf("%-18s %.4f\n", "perplexity", exp(nats));
    printf("%-18s %lld\n", "predictions", (long long)predictions);
}

// A character as it is; control characters and bytes that are no character alone as C writes them.
static void print_symbol(const char *bytes, size_t length) {
    unsigned char first = (unsigned char)*bytes;
    if (first == '\n' || first == '\t' || first == '\r' || first == '\\')
        printf("\\%c", first == '\n' ? 'n' : first == '\t' ? 't' : first == '\r' ? 'r' : '\\');
    else if (length == 1 && (first < 0x20 || first >= 0x7f))
        printf("\\x%02x", first);
    else
        fwrite(bytes, 1, length, stdout);
}

// One line a prediction: place, symbol, loss.
static void print_losses(const evaluation *e, const float *losses) {
    hst_symbols text = hst_corpus_symbols(e->text);
    for (int64_t i = 0, at = 0; i < text.count; i++) {
        size_t length;
        int64_t symbol = symbol_at(text, i);
        const char *bytes = hst_tokenizer_decode(e->tokenizer, symbol, &length);
        char spelling[8] = "";
        memcpy(spelling, bytes, length);
        if (i > 0 && e->v->json) {
            json_object json = json_begin(stdout);
            json_integer(&json, "byte", at);
            json_integer(&json, "symbol", symbol);
            json_text(&json, "text", spelling);
            json_real(&json, "nats", losses[i - 1]);
            json_end(&json);
        } else if (i > 0) {
            printf("%lld\t", (long long)at);
            print_symbol(bytes, length);
            printf("\t%.6g\n", losses[i - 1]);
        }
        at += (int64_t)length;
    }
}

static int evaluate(const evaluation *e) {
    double nats;
    hst_symbols text = hst_corpus_symbols(e->text);
    if (text.count < 2) {
        cli_error("%lld %s of text is too little: a prediction needs at least 2", (long long)text.count,
                  hst_tokenizer_unit(e->tokenizer));
        return CLI_INPUT;
    }
    float *losses = e->v->per_token ? malloc((size_t)text.count * sizeof *losses) : NULL;
    if (e->v->per_token && !losses) {
        cli_error("out of memory for %lld losses", (long long)text.count);
        return CLI_FAILED;
    }
    hst_status status =
        hst_lm_evaluate_as(e->model, cli_weights(e->v->weights, e->model), text, e->v->reset, losses, &nats);
    if (status == HST_OK && losses)
        print_losses(e, losses);
    else if (status == HST_OK)
        print_result(e, nats);
    free(losses);
    return status ? cli_failure(e->ctx, false) : CLI_DONE;
}

static bool read_inputs(evaluation *e, int count, char **operands) {
    e->model = cli_read_model(e->ctx, operands[0], &e->tokenizer);
    e->text = hst_get_status(e->ctx) ? NULL : cli_read_texts(e->ctx, count - 1, operands + 1);
    if (e->text && e->v->share > 0) {
        hst_corpus *last = hst_corpus_split(e->text, e->v->share);
        hst_corpus_free(e->text);
        e->text = last;
    }
    return hst_corpus_encode(e->text, e->tokenizer, e->v->unknown == CLI_UNKNOWN_SKIP) == HST_OK;
}

static int run(const void *values, int count, char **operands) {
    int code = CLI_DONE;
    evaluation e = {.v = values};
    e.ctx = cli_open(&e.v->common, cli_print_message, NULL, &code);
    if (!e.ctx) return code;
    code = read_inputs(&e, count, operands) ? evaluate(&e) : cli_failure(e.ctx, true);
    hst_corpus_free(e.text);
    hst_tokenizer_free(e.tokenizer);
    hst_lm_free(e.model);
    hst_close(e.ctx);
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
    .details =
        "Predicts every symbol of the texts from those before it and prints the mean loss. MODEL is a file, or a "
        "run folder (then its model.safetensors); TEXT is a file, a folder, or - for standard input.",
    .examples = examples,
    .options = options,
    .size = sizeof(eval_values),
    .run = run,
};
