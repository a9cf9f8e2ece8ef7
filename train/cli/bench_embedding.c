// bench_embedding.c: `halfstep bench embedding`: forward and gradient beside a copy of memory.
//
// The embedding moves memory and computes next to nothing, so the machine's limit is that of a copy. Counted is what
// must be moved at least: forward reads and writes a row for each token, the gradient reads one for each token and
// writes each row of the table.
#include "train/cli/bench.h"

#include <stdlib.h>
#include <string.h>

// Tokens as in a text: the symbol of rank r comes 1/r as often as the first (Zipf). The symbols are numbered by rank.
static bool draw_tokens(int64_t *ids, int64_t count, int64_t vocabulary) {
    double *cumulative = malloc((size_t)vocabulary * sizeof *cumulative), sum = 0;
    uint64_t state = 1;
    if (!cumulative) return false;
    for (int64_t r = 0; r < vocabulary; r++) cumulative[r] = sum += 1 / (double)(r + 1);
    for (int64_t i = 0; i < count; i++) {
        double u = bench_draw(&state) * sum;
        int64_t low = 0, high = vocabulary - 1;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (cumulative[middle] <= u)
                low = middle + 1;
            else
                high = middle;
        }
        ids[i] = low;
    }
    free(cumulative);
    return true;
}

typedef struct figures {
    double forward, gradient, copy; // of a round: seconds, and bytes a second of the copy
    double rate, share;             // bytes a second of forward and gradient together, and their share of the copy's
} figures;

typedef struct table {
    const bench_values *v;
    hst_context *ctx;
    int64_t rows;
    hst_tensor *weights, *ids, *dy;
    bench_copy copy;
} table;

static bool make_table(table *t, int64_t *ids) {
    int64_t count = t->v->tokens, width = t->v->hidden;
    if (!draw_tokens(ids, count, t->rows)) return hst_fail(t->ctx, HST_ERROR_MEMORY, "out of memory"), false;
    t->weights = hst_uniform(t->ctx, HST_F32, HST_SHAPE(t->rows, width), -1, 1);
    t->ids = hst_from_array(t->ctx, HST_I64, HST_SHAPE(count), HST_I64, ids);
    t->dy = hst_uniform(t->ctx, HST_F32, HST_SHAPE(count, width), -1, 1);
    hst_tensor *from = hst_zeros(t->ctx, HST_F32, HST_SHAPE(count, width)),
               *to = hst_zeros(t->ctx, HST_F32, HST_SHAPE(count, width));
    if (hst_get_status(t->ctx) || hst_attach_grad(t->weights, HST_WRITE, HST_F32)) return false;
    size_t bytes = (size_t)(count * width) * sizeof(float);
    t->copy = (bench_copy){hst_mutable_data(to), hst_data(from), bytes, bytes};
    return true;
}

static figures measure_round(const table *t) {
    double row = (double)t->v->hidden * sizeof(float), tokens = (double)t->v->tokens, rows = (double)t->rows;
    figures f;
    f.copy = 2 * (double)t->copy.bytes / bench_time_copy(&t->copy, hst_thread_count(t->ctx));
    hst_scope_begin(t->ctx);
    double began = bench_now(hst_thread_count(t->ctx));
    hst_tensor *y = hst_embedding(t->weights, t->ids), *dy = t->dy;
    double between = bench_now(hst_thread_count(t->ctx));
    if (y) hst_backward_from(t->ctx, 1, &y, &dy);
    f.gradient = bench_now(hst_thread_count(t->ctx)) - between;
    f.forward = between - began;
    hst_scope_end(t->ctx, NULL);
    f.rate = (3 * tokens + rows) * row / (f.forward + f.gradient);
    f.share = f.rate / f.copy;
    return f;
}

static void print_table(const table *t, const figures *rounds, int runs) {
    bench_spread forward = BENCH_SPREAD(rounds, runs, forward), gradient = BENCH_SPREAD(rounds, runs, gradient);
    bench_spread rate = BENCH_SPREAD(rounds, runs, rate), copied = BENCH_SPREAD(rounds, runs, copy),
                 share = BENCH_SPREAD(rounds, runs, share);
    if (t->v->json) {
        json_object json = json_begin(stdout);
        json_text(&json, "what", "embedding");
        json_integer(&json, "vocabulary", t->rows);
        json_integer(&json, "hidden", t->v->hidden);
        json_integer(&json, "tokens", t->v->tokens);
        json_integer(&json, "threads", hst_thread_count(t->ctx));
        json_text(&json, "isa", hst_isa(t->ctx));
        json_integer(&json, "runs", runs);
        json_real(&json, "forward_seconds", forward.median);
        json_real(&json, "gradient_seconds", gradient.median);
        json_real(&json, "bytes_per_second", rate.median);
        json_real(&json, "copy_bytes_per_second", copied.median);
        json_real(&json, "share_of_copy", share.median);
        json_real(&json, "share_of_copy_least", share.least);
        json_real(&json, "share_of_copy_most", share.most);
        json_end(&json);
        return;
    }
    printf("%lld rows\n", (long long)t->rows);
    printf("  forward   %8.2f ms   (%.2f to %.2f)\n", 1e3 * forward.median, 1e3 * forward.least, 1e3 * forward.most);
    printf("  gradient  %8.2f ms   (%.2f to %.2f)\n", 1e3 * gradient.median, 1e3 * gradient.least, 1e3 * gradient.most);
    printf("  both      %8.2f GB/s (%.2f to %.2f)\n", 1e-9 * rate.median, 1e-9 * rate.least, 1e-9 * rate.most);
    printf("  a copy    %8.2f GB/s (%.2f to %.2f)\n", 1e-9 * copied.median, 1e-9 * copied.least, 1e-9 * copied.most);
    printf("  share     %8.2f      (%.2f to %.2f)\n", share.median, share.least, share.most);
}

static bool bench_table(hst_context *ctx, const bench_values *v, int64_t rows, int64_t *ids) {
    figures rounds[BENCH_MAX_RUNS];
    table t = {.v = v, .ctx = ctx, .rows = rows};
    hst_scope_begin(ctx);
    bool made = make_table(&t, ids);
    for (int i = -1; made && i < v->runs; i++) rounds[i < 0 ? 0 : i] = measure_round(&t); // the first warms up
    hst_scope_end(ctx, NULL);
    if (hst_get_status(ctx)) return false;
    print_table(&t, rounds, v->runs);
    return true;
}

bool bench_embedding(const bench_run *b) {
    hst_context *ctx = b->ctx;
    const bench_values *v = b->v;
    int64_t *ids = malloc((size_t)v->tokens * sizeof *ids);
    if (!ids) hst_fail(ctx, HST_ERROR_MEMORY, "out of memory for %lld tokens", (long long)v->tokens);
    if (ids && !v->json)
        printf("embedding, f32: %lld tokens of %lld numbers, %d threads, %s kernels, median of %d\n",
               (long long)v->tokens, (long long)v->hidden, hst_thread_count(ctx), hst_isa(ctx), v->runs);
    bool done = ids && bench_table(ctx, v, v->vocabulary, ids) && bench_table(ctx, v, 8, ids);
    free(ids);
    return done;
}
