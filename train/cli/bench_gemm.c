// bench_gemm.c: `halfstep bench gemm`: the products of language models beside the multiplications that the registers
// allow, and those of few rows, as when text is generated, beside a plain read of the weights. Each product takes turns
// with its ceiling, so that a busy machine is busy for both.
#include "train/cli/bench.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SHAPES = 45, DTYPES = 3 };
static const hst_dtype dtypes[DTYPES] = {HST_F32, HST_BF16, HST_F16};

// A product gets as many rounds as are asked for, but no more after so many seconds: one, if it takes that long.
#define ENOUGH 0.1

// M x N x K. Which operand lies transposed in memory: neither (forward), A (the gradient of the weights, K symbols
// summed), B (the gradient of x).
typedef struct form {
    const char *name;
    bool a_transposed, b_transposed;
    int64_t m[4], n[6], k[6]; // to a 0
} form;
static const form forms[] = {
    {"A B", false, false, {512, 1024, 4096}, {65, 512, 1536, 3072, 10000}, {256, 512, 1024}},
    {"A^T B", true, false, {256, 512, 1024}, {65, 512, 1536, 3072, 10000}, {4096}},
    {"A B^T", false, true, {4096}, {256, 512, 1024}, {65, 512, 1536, 3072, 10000}},
};
static const struct { int64_t n, k; } weights[] = {{1536, 512}, {10000, 1024}};

typedef struct product {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    hst_dtype dtype;
    hst_tensor *a, *b;
} product;

typedef struct figures {
    double rate, ceiling; // of a round: operations, or bytes, a second
} figures;

static int64_t divided(const bench_run *b, int64_t size) { return (size + b->v->divide - 1) / b->v->divide; }

// The operands, and the result's memory, which is then the pool's.
static bool make(hst_context *ctx, product *p) {
    hst_tensor *a =
        hst_uniform(ctx, p->dtype, HST_SHAPE(p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k), -1, 1);
    hst_tensor *b =
        hst_uniform(ctx, p->dtype, HST_SHAPE(p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n), -1, 1);
    p->a = p->a_transposed ? hst_transpose(a, 0, 1) : a;
    p->b = p->b_transposed ? hst_transpose(b, 0, 1) : b;
    hst_scope_begin(ctx);
    hst_zeros(ctx, p->dtype, HST_SHAPE(p->m, p->n));
    hst_scope_end(ctx, NULL);
    return hst_get_status(ctx) == HST_OK;
}

static double seconds_of(hst_context *ctx, const product *p, int64_t times) {
    double began = bench_now(hst_thread_count(ctx));
    for (int64_t i = 0; i < times; i++) {
        hst_scope_begin(ctx);
        hst_matmul(p->a, p->b);
        hst_scope_end(ctx, NULL);
    }
    return (bench_now(hst_thread_count(ctx)) - began) / (double)times;
}

static void print_header(const bench_run *b, const hst_context *ctx, const char *what, hst_dtype dtype,
                         const char *columns) {
    if (!b->v->json)
        printf("%s, %s, %d thread%s, %s kernels, median of up to %d rounds (least to most): %s\n", what,
               hst_dtype_name(dtype), hst_thread_count(ctx), hst_thread_count(ctx) == 1 ? "" : "s", hst_isa(ctx),
               b->v->runs, columns);
}

// ---- many rows: floating-point operations ----

static int measure(const bench_run *b, hst_context *ctx, const product *p, figures *rounds) {
    double spent = 0, flop = 2 * (double)p->m * (double)p->n * (double)p->k;
    int done = 0;
    bool warm = false;
    while (done < b->v->runs && (done == 0 || spent < ENOUGH)) {
        rounds[done].ceiling = bench_multiply(ctx, p->dtype, b->v->divide);
        double seconds = seconds_of(ctx, p, 1);
        spent += seconds;
        rounds[done].rate = flop / seconds;
        done += warm || seconds > ENOUGH; // else the first warms up
        warm = true;
    }
    return done;
}

// The median, and its share of the ceiling, for the means.
static figures print_product(const bench_run *b, const hst_context *ctx, const form *f, const product *p,
                             const figures *rounds, int done) {
    bench_spread rate = BENCH_SPREAD(rounds, done, rate);
    double ceiling = BENCH_SPREAD(rounds, done, ceiling).most;
    if (b->v->json) {
        json_object json = bench_json("gemm", ctx, done);
        json_text(&json, "form", f->name);
        json_text(&json, "dtype", hst_dtype_name(p->dtype));
        json_integer(&json, "m", p->m);
        json_integer(&json, "n", p->n);
        json_integer(&json, "k", p->k);
        bench_json_spread(&json, "flops", rate);
        json_real(&json, "ceiling_flops", ceiling);
        json_real(&json, "share_of_ceiling", rate.median / ceiling);
        json_end(&json);
    } else {
        printf("  %5lld x %5lld x %5lld  %8.1f (%.1f to %.1f)  %.2f of %.1f\n", (long long)p->m, (long long)p->n,
               (long long)p->k, 1e-9 * rate.median, 1e-9 * rate.least, 1e-9 * rate.most, rate.median / ceiling,
               1e-9 * ceiling);
        fflush(stdout);
    }
    return (figures){rate.median, ceiling};
}

static void print_means(const bench_run *b, const hst_context *ctx, const form *f, hst_dtype dtype,
                        const figures *shapes, int count) {
    double rate = 0, share = 0;
    for (int i = 0; i < count; i++) {
        rate += log(shapes[i].rate) / count;
        share += log(shapes[i].rate / shapes[i].ceiling) / count;
    }
    if (b->v->json) {
        json_object json = bench_json("gemm_mean", ctx, b->v->runs);
        json_text(&json, "form", f->name);
        json_text(&json, "dtype", hst_dtype_name(dtype));
        json_integer(&json, "shapes", count);
        json_real(&json, "flops", exp(rate));
        json_real(&json, "share_of_ceiling", exp(share));
        json_end(&json);
    } else
        printf("  geometric mean of %d    %8.1f  %.2f of the ceiling\n", count, 1e-9 * exp(rate), exp(share));
}

static bool bench_form(const bench_run *b, hst_context *ctx, const form *f, hst_dtype dtype) {
    static figures rounds[BENCH_MAX_RUNS];
    figures shapes[MOST_SHAPES];
    int count = 0;
    print_header(b, ctx, f->name, dtype, "M x N x K, GFLOP/s, share of the ceiling");
    for (const int64_t *m = f->m; *m; m++)
        for (const int64_t *n = f->n; *n; n++)
            for (const int64_t *k = f->k; *k; k++) {
                product p = {divided(b, *m),  divided(b, *n), divided(b, *k), f->a_transposed,
                             f->b_transposed, dtype,          NULL,           NULL};
                hst_scope_begin(ctx);
                int done = make(ctx, &p) ? measure(b, ctx, &p, rounds) : 0;
                hst_scope_end(ctx, NULL);
                if (hst_get_status(ctx) != HST_OK) return false;
                shapes[count++] = print_product(b, ctx, f, &p, rounds, done);
            }
    print_means(b, ctx, f, dtype, shapes, count);
    return true;
}

// ---- few rows: bytes of weights ----

static void measure_few(const bench_run *b, hst_context *ctx, const product *p, char *room, figures *rounds) {
    size_t bytes = (size_t)(p->n * p->k) * hst_dtype_size(p->dtype);
    int64_t whole = (int64_t)bytes * b->v->divide * b->v->divide, times = 1 + (1 << 24) / whole; // a millisecond
    for (int i = -1; i < b->v->runs; i++) {                                                      // the first warms up
        figures *f = &rounds[i < 0 ? 0 : i];
        bench_read(ctx, room, bytes, 1); // into the cache that it fits
        f->ceiling = bench_read(ctx, room, bytes, times);
        seconds_of(ctx, p, 1);
        f->rate = (double)bytes / seconds_of(ctx, p, times);
    }
}

static void print_few(const bench_run *b, const hst_context *ctx, const product *p, const figures *rounds) {
    bench_spread rate = BENCH_SPREAD(rounds, b->v->runs, rate);
    double read = BENCH_SPREAD(rounds, b->v->runs, ceiling).most;
    const char *stored = p->b_transposed ? "N x K" : "K x N";
    if (b->v->json) {
        json_object json = bench_json("gemm_few_rows", ctx, b->v->runs);
        json_text(&json, "stored", stored);
        json_text(&json, "dtype", hst_dtype_name(p->dtype));
        json_integer(&json, "m", p->m);
        json_integer(&json, "n", p->n);
        json_integer(&json, "k", p->k);
        bench_json_spread(&json, "bytes_per_second", rate);
        json_real(&json, "read_bytes_per_second", read);
        json_real(&json, "share_of_read", rate.median / read);
        json_end(&json);
        return;
    }
    printf("  %5lld x %5lld x %5lld, %s  %6.1f (%.1f to %.1f)  %.2f of %.1f\n", (long long)p->m, (long long)p->n,
           (long long)p->k, stored, 1e-9 * rate.median, 1e-9 * rate.least, 1e-9 * rate.most, rate.median / read,
           1e-9 * read);
    fflush(stdout);
}

static bool bench_few(const bench_run *b, hst_context *ctx, hst_dtype dtype) {
    static figures rounds[BENCH_MAX_RUNS];
    print_header(b, ctx, "few rows", dtype, "M x N x K, GB/s of weights, share of a plain read");
    for (int w = 0; w < (int)(sizeof weights / sizeof *weights); w++)
        for (int i = 0; i < 4; i++) {
            product p = {.m = i / 2 ? 4 : 1,
                         .n = divided(b, weights[w].n),
                         .k = divided(b, weights[w].k),
                         .b_transposed = i % 2,
                         .dtype = dtype};
            char *room = bench_bytes(ctx, (size_t)(p.n * p.k) * hst_dtype_size(dtype));
            hst_scope_begin(ctx);
            bool made = room && make(ctx, &p);
            if (made) measure_few(b, ctx, &p, room, rounds);
            hst_scope_end(ctx, NULL);
            free(room);
            if (hst_get_status(ctx) != HST_OK) return false;
            print_few(b, ctx, &p, rounds);
        }
    return true;
}

static bool bench_context(const bench_run *b, hst_context *ctx) {
    bool going = hst_no_grad_begin(ctx) == HST_OK;
    for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++)
        for (int d = 0; going && d < DTYPES; d++) going = bench_form(b, ctx, &forms[f], dtypes[d]);
    for (int d = 0; going && d < DTYPES; d++) going = bench_few(b, ctx, dtypes[d]);
    return going;
}

bool bench_gemm(const bench_run *b) {
    hst_context *contexts[2];
    int count = bench_open_each(b, contexts);
    bool going = count > 0;
    for (int i = 0; i < count; i++) {
        if (going) bench_context(b, contexts[i]);
        going = bench_close(b, contexts[i]) && going;
    }
    return going;
}
