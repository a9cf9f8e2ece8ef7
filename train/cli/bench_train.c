// bench_train.c: `halfstep bench train`: a step of training, beside the time that its products would take if they did
// nothing but multiply. Steps and multiplications take turns.
#include "train/cli/bench.h"

#include <string.h>

enum { WARM = 2 }; // steps that are not timed: they ask the system for memory

// ---- a text, where none is given ----

// Words that follow each other by chance, some more often than others.
static void add_words(hst_corpus *text, int64_t symbols) {
    static const char *const words[] = {"the ",  "unit ",   "reads ", "a ",     "line ", "of ",   "text\n", "and ",
                                        "then ", "writes ", "it ",    "again ", "with ", "half ", "its ",   "bits. "};
    uint64_t state = 1;
    hst_status status = HST_OK;
    for (int64_t written = 0; written < symbols && status == HST_OK;) {
        double u = bench_draw(&state);
        const char *word = words[(int)(16 * u * u)]; // the first more often
        status = hst_corpus_add_bytes(text, word, strlen(word));
        written += (int64_t)strlen(word);
    }
}

// Characters: each of the vocabulary once, then by chance. From U+4E00 on they have three bytes each in UTF-8, and
// there are 35,000 of them before those that are no characters.
static void add_characters(hst_corpus *text, int64_t symbols, int64_t vocabulary) {
    uint64_t state = 1;
    hst_status status = HST_OK;
    for (int64_t i = 0; i < vocabulary + symbols && status == HST_OK; i++) {
        double u = bench_draw(&state);
        int c = 0x4E00 + (int)(i < vocabulary ? (double)i : (double)vocabulary * u * u);
        char bytes[3] = {(char)(0xE0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3F)), (char)(0x80 | (c & 0x3F))};
        status = hst_corpus_add_bytes(text, bytes, sizeof bytes);
    }
}

hst_trainer *bench_trainer(hst_context *ctx, const bench_run *b, const bench_model *m, hst_precision_kind precision,
                           int64_t steps) {
    hst_corpus *text = hst_corpus_new(ctx);
    int64_t symbols = 2 * m->batch * m->length * steps;
    if (m->vocabulary != 256) {
        add_characters(text, symbols, m->vocabulary);
        hst_corpus_encode(text, hst_tokenizer_characters(text), false);
    } else if (b->text)
        hst_corpus_add_bytes(text, hst_corpus_bytes(b->text), (size_t)hst_corpus_size(b->text));
    else
        add_words(text, symbols);
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = m->hidden, o.layers = m->layers, o.batch = m->batch, o.length = m->length;
    o.steps = steps, o.precision = precision;
    return hst_trainer_new(ctx, &o, text, NULL);
}

// ---- what a step multiplies ----

// Floating-point operations of a step's products. A product y (R, n) = x (R, k) W (k, n) has 2 R k n, and so has each
// of the two for its gradients, of x and of W: 6 R k n for each matrix of weights. k = D in all of them. The output
// layer has n = V, an SRU layer n = 3 D. Rows are the T = L B symbols, but the first layer multiplies the embedding's
// table instead where that has fewer.
static double flop_of_step(const bench_model *m) {
    double t = (double)(m->length * m->batch), d = (double)m->hidden, v = (double)m->vocabulary;
    double layers = (v < t ? v : t) + t * (m->layers - 1), output = t * v;
    return 6 * d * (layers * 3 * d + output);
}

// ---- measuring ----

typedef struct figures {
    double seconds, ceiling; // of a step; floating-point operations a second
} figures;

static void print_figures(const bench_run *b, const hst_context *ctx, const bench_model *m, hst_precision_kind p,
                          const figures *rounds) {
    int runs = b->v->runs;
    bench_spread seconds = BENCH_SPREAD(rounds, runs, seconds);
    double ceiling = BENCH_SPREAD(rounds, runs, ceiling).most, tokens = (double)(m->batch * m->length);
    double least = flop_of_step(m) / ceiling;
    const char *name = hst_precision_of(p)->name;
    if (b->v->json) {
        json_object json = bench_json("train", ctx, runs);
        json_integer(&json, "layers", m->layers);
        json_integer(&json, "hidden", m->hidden);
        json_integer(&json, "vocabulary", m->vocabulary);
        json_integer(&json, "batch", m->batch);
        json_integer(&json, "length", m->length);
        json_text(&json, "preset", name);
        bench_json_spread(&json, "seconds", seconds);
        json_real(&json, "tokens_per_second", tokens / seconds.median);
        json_real(&json, "flop", flop_of_step(m));
        json_real(&json, "ceiling_flops", ceiling);
        json_real(&json, "products_seconds", least);
        json_real(&json, "share_of_ceiling", least / seconds.median);
        json_end(&json);
        return;
    }
    printf("  %d x %-4lld  %6lld  %-9s %8.1f ms (%.1f to %.1f) %8.0f %9.2f %8.1f %8.1f ms  %.2f\n", m->layers,
           (long long)m->hidden, (long long)m->vocabulary, name, 1e3 * seconds.median, 1e3 * seconds.least,
           1e3 * seconds.most, tokens / seconds.median, 1e-9 * flop_of_step(m), 1e-9 * ceiling, 1e3 * least,
           least / seconds.median);
    fflush(stdout);
}

static bool bench_step(const bench_run *b, const bench_model *m, hst_precision_kind p) {
    static figures rounds[BENCH_MAX_RUNS];
    int threads = hst_thread_count(b->ctx), runs = b->v->runs;
    hst_context *ctx = bench_open(b, threads);
    hst_trainer *trainer = bench_trainer(ctx, b, m, p, WARM + runs);
    for (int i = -WARM; trainer && i < runs && hst_get_status(ctx) == HST_OK; i++) {
        figures *f = &rounds[i < 0 ? 0 : i];
        f->ceiling = bench_multiply(ctx, hst_precision_of(p)->region.dtype, b->v->divide);
        double began = bench_now(threads);
        hst_trainer_step(trainer, NULL);
        f->seconds = bench_now(threads) - began;
    }
    if (!bench_close(b, ctx)) return false;
    print_figures(b, b->ctx, m, p, rounds);
    return true;
}

// Two models of bytes, and one of many symbols, whose output layer is most of the work.
bool bench_train(const bench_run *b) {
    int64_t d = b->v->hidden, divide = b->v->divide;
    const bench_model models[] = {{2, d / divide, 256, b->v->batch, b->v->length},
                                  {4, 2 * d / divide, 256, b->v->batch, b->v->length},
                                  {2, 5 * d / 4 / divide, 10000 / divide, b->v->batch, b->v->length}};
    static const hst_precision_kind precisions[] = {HST_FP32, HST_AMP_BF16};
    if (!b->v->json)
        printf("a step of training, batch %lld, length %lld, %d threads, %s kernels, median of %d (least to most);\n"
               "its products alone, and their share of it, at the ceiling of multiplications\n"
               "  layers   symbols  preset           a step                tokens/s     GFLOP  GFLOP/s  products  "
               "share\n",
               (long long)b->v->batch, (long long)b->v->length, hst_thread_count(b->ctx), hst_isa(b->ctx), b->v->runs);
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 2; p++)
            if (!bench_step(b, &models[i], precisions[p])) return false;
    return true;
}
