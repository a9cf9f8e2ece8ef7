// bench.c (make bench): the products of a training step and the step itself, beside what this machine can do, all
// measured in the same run. Figures are medians; machines are shared, so compare ratios, not figures of different runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ops/cpu/vector.h"
#include "tensor/context.h"
#include "train/halfstep.h"
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { RUNS = 9 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) { return *(const double *)a > *(const double *)b ? 1 : -1; }

// The median of RUNS timings of f(arg), after one that is not counted.
static double median(void (*f)(void *arg), void *arg) {
    double seconds[RUNS];
    f(arg);
    for (int i = 0; i < RUNS; i++) {
        double began = now();
        f(arg);
        seconds[i] = now() - began;
    }
    qsort(seconds, RUNS, sizeof *seconds, ascending);
    return seconds[RUNS / 2];
}

// ---- ceilings ----

enum { FMA_ROUNDS = 2000000, FMA_CHAINS = 12 };

#if defined __x86_64__
__attribute__((target("avx2,fma"))) static void fma_task(void *arg, int64_t task) {
    __m256 acc[FMA_CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    UNROLL for (int i = 0; i < FMA_CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < FMA_ROUNDS; r++)
        UNROLL for (int i = 0; i < FMA_CHAINS; i++) acc[i] = _mm256_fmadd_ps(acc[i], x, y);
    UNROLL for (int i = 1; i < FMA_CHAINS; i++) acc[0] = _mm256_add_ps(acc[0], acc[i]);
    ((float *)arg)[16 * task] = acc[0][0]; // used, so that the compiler keeps the loop
}
static bool has_fma(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
static void fma_task(void *arg, int64_t task) { (void)arg, (void)task; }
static bool has_fma(void) { return false; }
#endif

static float fma_results[16 * 256];
static void fma_job(void *arg) {
    hst_context *ctx = arg;
    hst_parallel(ctx, hst_thread_count(ctx), fma_task, fma_results);
}

// GFLOP/s of all threads together in 256-bit fused multiply-adds; 0 where the CPU has none.
static double fma_ceiling(hst_context *ctx) {
    return has_fma() ? 2e-9 * 8 * FMA_CHAINS * FMA_ROUNDS * hst_thread_count(ctx) / median(fma_job, ctx) : 0;
}

enum { COPIED = 1 << 26 };
static char *copy_from, *copy_to;
static void copy_job(void *arg) { (void)arg, memcpy(copy_to, copy_from, COPIED); }

// ---- products ----

typedef struct product {
    hst_context *ctx;
    hst_gemm_args gemm;
} product;

static void product_job(void *arg) {
    product *p = arg;
    p->ctx->backend->gemm(p->ctx, &p->gemm);
}

static void bench_product(hst_context *ctx, const char *name, int64_t m, int64_t n, int64_t k, bool a_transposed,
                          bool b_transposed, double ceiling) {
    hst_scope_begin(ctx);
    hst_tensor *a = hst_uniform(ctx, HST_F32, HST_SHAPE(m, k), -1, 1),
               *b = hst_uniform(ctx, HST_F32, HST_SHAPE(k, n), -1, 1);
    hst_tensor *c = hst_empty(ctx, HST_F32, HST_SHAPE(m, n));
    product p = {ctx,
                 {.m = m,
                  .n = n,
                  .k = k,
                  .a = {hst_data(a), HST_F32},
                  .b = {hst_data(b), HST_F32},
                  .c = {hst_mutable_data(c), HST_F32, false},
                  .a_row = a_transposed ? 1 : k,
                  .a_col = a_transposed ? m : 1,
                  .b_row = b_transposed ? 1 : n,
                  .b_col = b_transposed ? k : 1,
                  .c_row = n}};
    double rate = 2e-9 * (double)(m * n * k) / median(product_job, &p);
    printf("  %-14s %5lld x %5lld x %5lld   %7.1f GFLOP/s", name, (long long)m, (long long)n, (long long)k, rate);
    printf(ceiling > 0 ? "   %.2f of the ceiling\n" : "\n", rate / ceiling);
    hst_scope_end(ctx, NULL);
}

// ---- a step ----

static void step_job(void *arg) {
    for (int i = 0; i < 4; i++) hst_trainer_step(arg, NULL);
}

static void bench_step(hst_context *ctx, double ceiling) {
    hst_corpus *text = hst_corpus_new(ctx);
    for (int i = 0; i < 4000; i++) {
        char line[64];
        hst_corpus_add_bytes(text, line, (size_t)snprintf(line, sizeof line, "line %d of the text\n", i));
    }
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.steps = 1000;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    if (t) {
        double tokens = (double)(o.batch * o.length), seconds = median(step_job, t) / 4, d = (double)o.hidden;
        double flop = 6 * tokens * (3 * d * d * o.layers + 256 * d); // three products a weight: forward, dx, dw
        printf("step  %lld x %lld, batch %lld, length %lld: %.1f ms, %.0f tokens/s", (long long)o.layers,
               (long long)o.hidden, (long long)o.batch, (long long)o.length, 1e3 * seconds, tokens / seconds);
        printf(ceiling > 0 ? ", products at the ceiling would take %.2f of it\n" : "\n",
               flop / (1e9 * ceiling) / seconds);
    } else {
        printf("step  %s\n", hst_error(ctx));
    }
    hst_trainer_free(t);
    hst_corpus_free(text);
}

int main(void) {
    hst_context *ctx = hst_open(NULL);
    copy_from = malloc(COPIED);
    copy_to = malloc(COPIED);
    if (!ctx || !copy_from || !copy_to) return 1;
    memset(copy_from, 1, COPIED);
    double ceiling = fma_ceiling(ctx);
    printf("%d threads, %s kernels\n", hst_thread_count(ctx), hst_isa(ctx));
    if (ceiling > 0) printf("ceiling: %.1f GFLOP/s in 256-bit fused multiply-adds\n", ceiling);
    printf("copy: %.1f GB/s read and written, one thread\n", 2e-9 * COPIED / median(copy_job, NULL));
    printf("products, f32\n");
    bench_product(ctx, "U = x W", 1024, 768, 256, false, false, ceiling);
    bench_product(ctx, "dx = dU W^T", 1024, 256, 768, false, true, ceiling);
    bench_product(ctx, "dW = x^T dU", 256, 768, 1024, true, false, ceiling);
    bench_product(ctx, "logits", 1024, 256, 256, false, true, ceiling);
    bench_product(ctx, "U, 512 wide", 4096, 1536, 512, false, false, ceiling);
    bench_product(ctx, "one row", 1, 1536, 512, false, false, ceiling);
    bench_step(ctx, ceiling);
    free(copy_from);
    free(copy_to);
    hst_close(ctx);
    return 0;
}
