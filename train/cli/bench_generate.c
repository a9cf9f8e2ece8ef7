// bench_generate.c: `halfstep bench generate`: one symbol after the other, which reads every weight once for each, but
// the embedding's, of which it reads a row. So the machine's limit is a plain read of as many bytes from where they
// fit, and the two take turns.
#include "train/cli/bench.h"

#include <stdlib.h>
#include <string.h>

enum { DTYPES = 3 };
static const hst_dtype dtypes[DTYPES] = {HST_F32, HST_F16, HST_BF16}; // in which the products see the weights

typedef struct figures {
    double rate, read, of_f32; // of a round: symbols a second, bytes a second of the read, rate by f32's in that round
} figures;

typedef struct clock {
    int threads;
    int64_t symbols;
    double began, ended;
} clock;

static bool note(int64_t symbol, void *user) {
    clock *c = user;
    (void)symbol;
    c->ended = bench_now(c->threads);
    if (c->symbols++ == 0) c->began = c->ended;
    return true;
}

// Bytes read for a symbol: matrices in this dtype, vectors in f32.
static size_t bytes_of(const hst_lm *model, hst_dtype dtype) {
    const hst_parameters *list = hst_lm_parameters(model);
    size_t bytes = (size_t)hst_lm_configuration(model)->hidden * sizeof(float); // a row of the embedding
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const hst_tensor *t = hst_parameter_value(list, i);
        if (strcmp(hst_parameter_name(list, i), "embedding_layer.weight") != 0)
            bytes += (size_t)hst_count(t) * (hst_rank(t) > 1 ? hst_dtype_size(dtype) : sizeof(float));
    }
    return bytes;
}

static figures measure_round(const bench_run *b, const hst_lm *model, hst_dtype dtype, const char *room) {
    hst_context *ctx = hst_parameters_context(hst_lm_parameters(model));
    size_t bytes = bytes_of(model, dtype);
    int64_t whole = (int64_t)bytes * b->v->divide * b->v->divide, symbols = 2 + (1 << 28) / whole; // some tens of ms
    clock c = {.threads = hst_thread_count(ctx)};
    figures f;
    hst_sampling sampling = hst_sampling_defaults();
    sampling.weights = dtype;
    bench_read(ctx, room, bytes, 1); // into the cache that it fits
    f.read = bench_read(ctx, room, bytes, symbols / 2);
    hst_lm_generate(model, hst_byte_symbols("The ", 4), symbols, &sampling, note, &c);
    f.rate = (double)(symbols - 1) / (c.ended - c.began);
    return f;
}

static void print_figures(const bench_run *b, const hst_lm *model, hst_dtype dtype, const figures *rounds) {
    const hst_lm_config *m = hst_lm_configuration(model);
    const hst_context *ctx = hst_parameters_context(hst_lm_parameters(model));
    bench_spread rate = BENCH_SPREAD(rounds, b->v->runs, rate), of_f32 = BENCH_SPREAD(rounds, b->v->runs, of_f32);
    double bytes = (double)bytes_of(model, dtype);
    double read = BENCH_SPREAD(rounds, b->v->runs, read).most;
    if (b->v->json) {
        json_object json = bench_json("generate", ctx, b->v->runs);
        json_integer(&json, "layers", m->layers);
        json_integer(&json, "hidden", m->hidden);
        json_text(&json, "dtype", hst_dtype_name(dtype));
        bench_json_spread(&json, "tokens_per_second", rate);
        json_real(&json, "weights_bytes", bytes);
        json_real(&json, "read_bytes_per_second", read);
        json_real(&json, "share_of_read", rate.median * bytes / read);
        bench_json_spread(&json, "of_f32", of_f32);
        json_end(&json);
        return;
    }
    printf("  %d x %-4lld %-5s %8.1f (%.1f to %.1f) %8.1f MB  %5.2f of %.1f GB/s  %5.2f (%.2f to %.2f)\n", m->layers,
           (long long)m->hidden, hst_dtype_name(dtype), rate.median, rate.least, rate.most, 1e-6 * bytes,
           rate.median * bytes / read, 1e-9 * read, of_f32.median, of_f32.least, of_f32.most);
    fflush(stdout);
}

static void bench_weights(const bench_run *b, hst_context *ctx, int layers, int64_t hidden) {
    static figures rounds[DTYPES][BENCH_MAX_RUNS];
    hst_lm_config config = hst_lm_defaults();
    config.layers = layers;
    config.hidden = hidden;
    hst_lm *model = hst_lm_new(ctx, &config);
    char *room = model ? bench_bytes(ctx, bytes_of(model, HST_F32)) : NULL;
    for (int i = -1; room && i < b->v->runs; i++) // the first warms up
        for (int d = 0; d < DTYPES; d++) {
            figures *f = &rounds[d][i < 0 ? 0 : i];
            *f = measure_round(b, model, dtypes[d], room);
            f->of_f32 = f->rate / rounds[0][i < 0 ? 0 : i].rate;
        }
    for (int d = 0; hst_get_status(ctx) == HST_OK && d < DTYPES; d++) print_figures(b, model, dtypes[d], rounds[d]);
    free(room);
    hst_lm_free(model);
}

// A model that the last-level cache holds, and one that it does not.
bool bench_generate(const bench_run *b) {
    hst_context *contexts[2];
    int count = bench_open_each(b, contexts);
    bool going = count > 0;
    for (int i = 0; i < count; i++) {
        int threads = hst_thread_count(contexts[i]);
        if (going && !b->v->json)
            printf("generating, one text, %d thread%s, %s kernels, median of %d (least to most)\n  layers   weights "
                   "tokens/s         read for each   share of a plain read  rate to f32's\n",
                   threads, threads == 1 ? "" : "s", hst_isa(contexts[i]), b->v->runs);
        if (going) bench_weights(b, contexts[i], 2, b->v->hidden / b->v->divide);
        if (going) bench_weights(b, contexts[i], 6, 2 * b->v->hidden / b->v->divide);
        going = bench_close(b, contexts[i]) && going;
    }
    return going;
}
