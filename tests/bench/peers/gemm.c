// gemm.c: the products of language models, beside OpenBLAS's: gemm.sh gets it, and builds and runs this. The two take
// turns, so that a busy machine is busy for both, and each ratio is that of two medians. One thread is timed by its own
// clock, which stands still while others use the processor; several by the wall's.
//
//     gemm LIBOPENBLAS THREADS ROUNDS [f32|f16|bf16]           the dtype of our operands; OpenBLAS's are f32
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tensor/context.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, MAX_ROUNDS = 101 };

typedef void sgemm_function(int order, int a_form, int b_form, int m, int n, int k, float alpha, const float *a,
                            int a_row, const float *b, int b_row, float beta, float *c, int c_row);
typedef struct peers {
    hst_context *ctx;
    sgemm_function *sgemm;
    hst_dtype dtype;
    int rounds;
    clockid_t clock;
} peers;

static double now(const peers *p) {
    struct timespec t;
    clock_gettime(p->clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) { return *(const double *)a > *(const double *)b ? 1 : -1; }
static double median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    return seconds[count / 2];
}

// One shape; which operand lies transposed in memory: 'n' none, 'a', 'b'. Returns OpenBLAS's seconds by ours.
static double compare(const peers *p, char form, int64_t m, int64_t n, int64_t k) {
    hst_scope_begin(p->ctx);
    hst_tensor *a = hst_uniform(p->ctx, HST_F32, HST_SHAPE(m, k), -1, 1);
    hst_tensor *b = hst_uniform(p->ctx, HST_F32, HST_SHAPE(k, n), -1, 1);
    hst_tensor *c = hst_zeros(p->ctx, HST_F32, HST_SHAPE(m, n)), *own_c = hst_zeros(p->ctx, p->dtype, HST_SHAPE(m, n));
    hst_tensor *own_a = hst_zeros(p->ctx, p->dtype, HST_SHAPE(m, k)),
               *own_b = hst_zeros(p->ctx, p->dtype, HST_SHAPE(k, n));
    hst_copy_tensor(own_a, a, false);
    hst_copy_tensor(own_b, b, false);
    if (hst_get_status(p->ctx)) {
        fprintf(stderr, "%s\n", hst_error(p->ctx));
        exit(1);
    }
    bool a_turned = form == 'a', b_turned = form == 'b';
    hst_gemm_args g = {.m = m,
                       .n = n,
                       .k = k,
                       .a = {hst_data(own_a), p->dtype},
                       .b = {hst_data(own_b), p->dtype},
                       .c = {hst_mutable_data(own_c), p->dtype, false},
                       .a_row = a_turned ? 1 : k,
                       .a_col = a_turned ? m : 1,
                       .b_row = b_turned ? 1 : n,
                       .b_col = b_turned ? k : 1,
                       .c_row = n};
    double theirs[MAX_ROUNDS], ours[MAX_ROUNDS], flop = 2e-9 * (double)(m * n * k);
    for (int i = -1; i < p->rounds; i++) { // the first does not count
        double began = now(p);
        p->sgemm(ROW_MAJOR, a_turned ? TRANSPOSED : PLAIN, b_turned ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, 1,
                 hst_data(a), a_turned ? (int)m : (int)k, hst_data(b), b_turned ? (int)k : (int)n, 0,
                 hst_mutable_data(c), (int)n);
        double between = now(p);
        p->ctx->backend->gemm(p->ctx, &g);
        ours[i < 0 ? 0 : i] = now(p) - between;
        theirs[i < 0 ? 0 : i] = between - began;
    }
    double their_time = median(theirs, p->rounds), our_time = median(ours, p->rounds);
    printf("  %5lld x %5lld x %4lld  %7.1f %7.1f GFLOP/s  %.3f   fastest %7.1f %7.1f  %.3f\n", (long long)m,
           (long long)n, (long long)k, flop / their_time, flop / our_time, their_time / our_time, flop / theirs[0],
           flop / ours[0], theirs[0] / ours[0]);
    hst_scope_end(p->ctx, NULL);
    return their_time / our_time;
}

// Geometric mean over all shapes.
static void table(const peers *p, const char *name, char form, const int64_t *m, const int64_t *n, const int64_t *k) {
    double logarithms = 0;
    int shapes = 0;
    printf("%s (M x N x K): OpenBLAS, ours, ratio of medians; the same of the fastest rounds\n", name);
    for (int i = 0; m[i]; i++)
        for (int j = 0; n[j]; j++)
            for (int l = 0; k[l]; l++, shapes++) logarithms += log(compare(p, form, m[i], n[j], k[l]));
    printf("%s: geometric mean of %d ratios %.3f\n", name, shapes, exp(logarithms / shapes));
}

int main(int count, char **arguments) {
    static const int64_t rows[] = {512, 1024, 4096, 0}, vocabularies[] = {65, 512, 1536, 3072, 10000, 0},
                         hidden[] = {256, 512, 1024, 0}, tokens[] = {4096, 0};
    int threads = count > 2 ? atoi(arguments[2]) : 0, rounds = count > 3 ? atoi(arguments[3]) : 0;
    void *library = count > 3 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library || threads < 1 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: gemm LIBOPENBLAS THREADS ROUNDS [f32|f16|bf16], rounds up to %d\n", MAX_ROUNDS);
        return 2;
    }
    void (*set_threads)(int);
    peers p = {.ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = threads}),
               .rounds = rounds,
               .clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC};
    while (count > 4 && p.dtype < HST_BF16 && strcmp(hst_dtype_name(p.dtype), arguments[4]) != 0) p.dtype++;
    *(void **)&p.sgemm = dlsym(library, "cblas_sgemm"); // POSIX's way to make a function of a pointer
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (!p.ctx || !p.sgemm || !set_threads) return 1;
    set_threads(threads);
    printf("%d threads, %s kernels, operands %s, %d rounds\n", threads, hst_isa(p.ctx), hst_dtype_name(p.dtype),
           rounds);
    table(&p, "A B", 'n', rows, vocabularies, hidden);
    table(&p, "A^T B", 'a', hidden, vocabularies, tokens);
    table(&p, "A B^T", 'b', tokens, hidden, vocabularies);
    hst_close(p.ctx);
    return 0;
}
