// doctor_precision.c: what 16 bits would do to a model on a text: one forward and backward pass under the eyes of the
// library's numerics doctor (amp/numerics.h), and its findings as tables.
#include "train/cli/doctor_precision.h"

#include <math.h>
#include <string.h>

void doctor_precision_defaults(doctor_precision *v) {
    v->batch = 4;
    v->length = 32;
    v->scale = 1;
}

// ---- one pass ----

static void watch_weights(hst_numerics *n, const hst_lm *model) {
    hst_parameters *list = hst_lm_parameters(model);
    for (int i = 0; i < hst_parameter_count(list); i++)
        hst_numerics_watch(n, hst_parameter_value(list, i), hst_parameter_name(list, i));
}

// Forward and backward on the stream's first batch; *nats gets the loss.
static void run_once(const doctor_precision *v, const hst_lm *model, hst_stream *stream, hst_dtype dtype,
                     double *nats) {
    hst_context *ctx = hst_parameters_context(hst_lm_parameters(model));
    hst_scope_begin(ctx);
    hst_tensor *ids = hst_zeros(ctx, dtype, HST_SHAPE(v->length, v->batch));
    hst_tensor *targets = hst_zeros(ctx, dtype, HST_SHAPE(v->length, v->batch));
    if (hst_stream_next(stream, ids, targets, NULL) == HST_OK) {
        hst_tensor *loss = hst_cross_entropy(hst_lm_forward(model, ids, NULL, false, NULL), targets);
        *nats = hst_item(loss, NULL);
        hst_backward(ctx, hst_scale(loss, v->scale));
    }
    hst_scope_end(ctx, NULL);
}

// NULL after an error, which is the context's.
static hst_numerics *examine(const doctor_precision *v, const hst_lm *model, const hst_corpus *text, double *nats) {
    hst_context *ctx = hst_corpus_context(text);
    hst_stream *stream = hst_stream_new(text, v->batch, v->length, 0);
    hst_numerics *n = stream ? hst_numerics_begin(ctx, v->scale) : NULL;
    watch_weights(n, model);
    if (n) run_once(v, model, stream, hst_corpus_symbols(text).dtype, nats);
    hst_stream_free(stream);
    if (hst_numerics_end(n) == HST_OK) return n;
    hst_numerics_free(n);
    return NULL;
}

// ---- as tables ----

static const char *const kinds[] = {[HST_NUMERICS_WEIGHT] = "weight",
                                    [HST_NUMERICS_WEIGHT_GRADIENT] = "its gradient",
                                    [HST_NUMERICS_RESULT] = "result",
                                    [HST_NUMERICS_RESULT_GRADIENT] = "its gradient"};

static void print_narrowing(const hst_narrowing *n) {
    printf("  %8.3g %8.3g %8.3g", 100 * n->zero, 100 * n->subnormal, 100 * n->infinite);
}

static void print_tensors(const hst_numerics *n) {
    printf("Tensors, worst first. In %% of the numbers that are not 0: what becomes 0, subnormal, infinite.\n\n"
           "%-40s %-12s %-5s %9s  %-26s  %s\n%-68s",
           "", "", "", "largest", "fp16", "bf16", "");
    for (int i = 0; i < 2; i++) printf("  %8s %8s %8s", "zero", "subn.", "inf.");
    putchar('\n');
    for (int i = 0; i < hst_numerics_tensor_count(n); i++) {
        const hst_numerics_tensor *t = hst_numerics_tensor_at(n, i);
        printf("%-40s %-12s %-5s %9.3g", t->name, kinds[t->kind], hst_dtype_name(t->dtype), t->largest);
        print_narrowing(&t->f16);
        print_narrowing(&t->bf16);
        putchar('\n');
    }
}

static void print_sums(const hst_numerics *n) {
    printf("\nSums, worst first. In %% of the fp32 result: how far it is off, rounded after each addition, or once.\n\n"
           "%-48s %7s  %-19s  %s\n%-56s",
           "", "results", "fp16", "bf16", "");
    for (int i = 0; i < 2; i++) printf("  %9s %9s", "added", "stored");
    puts("  terms");
    for (int i = 0; i < hst_numerics_sum_count(n); i++) {
        const hst_numerics_sum *s = hst_numerics_sum_at(n, i);
        printf("%-48s %7lld  %9.3g %9.3g  %9.3g %9.3g  (%c) %s\n", s->name, (long long)s->count, 100 * s->f16_added,
               100 * s->f16_stored, 100 * s->bf16_added, 100 * s->bf16_stored, s->kind, s->terms);
    }
}

static void print_advice(const hst_numerics *n) {
    printf("\nAdvice\n\nLoss scale: %s\n", hst_numerics_scale_of(n).advice);
    for (int i = 0; i < hst_numerics_tensor_count(n); i++) {
        const hst_numerics_tensor *t = hst_numerics_tensor_at(n, i);
        bool gradient = t->kind == HST_NUMERICS_WEIGHT_GRADIENT || t->kind == HST_NUMERICS_RESULT_GRADIENT;
        if (*t->advice) printf("%s%s: %s\n", t->name, gradient ? ", gradient" : "", t->advice);
    }
    for (int i = 0; i < hst_numerics_sum_count(n); i++) {
        const hst_numerics_sum *s = hst_numerics_sum_at(n, i);
        if (*s->advice) printf("%s: %s\n", s->name, s->advice);
    }
}

// ---- as JSON ----

static void write_narrowing(json_object *json, const char *dtype, const hst_narrowing *n) {
    const struct {
        const char *name;
        double share;
    } fields[] = {{"zero", n->zero}, {"subnormal", n->subnormal}, {"infinite", n->infinite}, {"lost", n->lost}};
    char key[32];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        snprintf(key, sizeof key, "%s_%s", dtype, fields[i].name);
        json_real(json, key, fields[i].share);
    }
}

static void write_tensor(const hst_numerics_tensor *t) {
    static const char *const names[] = {"weight", "weight_gradient", "result", "result_gradient"};
    json_object json = json_begin(stdout);
    json_text(&json, "row", "tensor");
    json_text(&json, "name", t->name);
    json_text(&json, "kind", names[t->kind]);
    json_text(&json, "dtype", hst_dtype_name(t->dtype));
    json_integer(&json, "count", t->count);
    json_integer(&json, "zeros", t->zeros);
    json_integer(&json, "not_finite", t->not_finite);
    json_real(&json, "largest", t->largest);
    write_narrowing(&json, "fp16", &t->f16);
    write_narrowing(&json, "bf16", &t->bf16);
    json_text(&json, "advice", t->advice);
    json_end(&json);
}

static void write_sum(const hst_numerics_sum *s) {
    json_object json = json_begin(stdout);
    json_text(&json, "row", "sum");
    json_text(&json, "name", s->name);
    json_text(&json, "kind", (char[]){s->kind, 0});
    json_text(&json, "terms", s->terms);
    json_integer(&json, "count", s->count);
    json_real(&json, "fp16_added", s->f16_added);
    json_real(&json, "fp16_stored", s->f16_stored);
    json_real(&json, "bf16_added", s->bf16_added);
    json_real(&json, "bf16_stored", s->bf16_stored);
    json_text(&json, "advice", s->advice);
    json_end(&json);
}

static void write_findings(const hst_numerics *n, double nats) {
    hst_numerics_scale scale = hst_numerics_scale_of(n);
    json_object json = json_begin(stdout);
    json_text(&json, "row", "model");
    json_real(&json, "loss", nats);
    json_real(&json, "loss_scale", scale.used);
    json_real(&json, "least_loss_scale", scale.least);
    json_real(&json, "most_loss_scale", scale.most);
    json_text(&json, "advice", scale.advice);
    json_end(&json);
    for (int i = 0; i < hst_numerics_tensor_count(n); i++) write_tensor(hst_numerics_tensor_at(n, i));
    for (int i = 0; i < hst_numerics_sum_count(n); i++) write_sum(hst_numerics_sum_at(n, i));
}

// ---- the command ----

int doctor_show_precision(const doctor_precision *v, bool json, hst_context *ctx, int count, char **operands) {
    double nats = NAN;
    hst_tokenizer *tokenizer = NULL;
    hst_lm *model = cli_read_model(ctx, operands[0], &tokenizer);
    hst_corpus *text = model ? cli_read_texts(ctx, count - 1, operands + 1) : NULL;
    bool read = hst_corpus_encode(text, tokenizer, true) == HST_OK;
    hst_numerics *n = read ? examine(v, model, text, &nats) : NULL;
    if (n && json) write_findings(n, nats);
    if (n && !json) {
        printf("%s on %lld x %lld symbols of %s: %.4f nats a symbol, loss scale %.10g\n\n", operands[0],
               (long long)v->length, (long long)v->batch, operands[1], nats, v->scale);
        print_tensors(n);
        print_sums(n);
        print_advice(n);
    }
    int code = n ? CLI_DONE : cli_failure(ctx, true);
    hst_numerics_free(n);
    hst_corpus_free(text);
    hst_tokenizer_free(tokenizer);
    hst_lm_free(model);
    return code;
}
