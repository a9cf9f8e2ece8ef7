// bench_machine.c: what this machine can do at all: multiplications in registers, reads and copies of memory, each by
// as many threads at once as the kernels beside them have. `halfstep bench machine` prints it; the other subjects take
// turns with it.
#include "train/cli/bench.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

// ---- a crew: threads that do their parts of a work at the same time ----

enum { MAX_THREADS = 256 };

typedef void crew_work(const void *arg, int part, int parts);
typedef struct crew {
    crew_work *work;
    const void *arg;
    int parts;
    atomic_int ready;
    atomic_bool go;
} crew;
typedef struct member {
    crew *crew;
    int part;
    double began, ended;
} member;

static void do_part(member *m) {
    m->began = bench_now(m->crew->parts);
    m->crew->work(m->crew->arg, m->part, m->crew->parts);
    m->ended = bench_now(m->crew->parts);
}

static void *wait_and_do(void *arg) {
    member *m = arg;
    atomic_fetch_add(&m->crew->ready, 1);
    while (!atomic_load(&m->crew->go)) sched_yield();
    do_part(m);
    return NULL;
}

// Seconds from the first part's beginning to the last one's end. Parts for which there is no thread are the caller's.
static double work_together(int parts, crew_work *work, const void *arg) {
    pthread_t threads[MAX_THREADS];
    member members[MAX_THREADS];
    crew c = {.work = work, .arg = arg, .parts = parts < MAX_THREADS ? parts : MAX_THREADS};
    int started = 0;
    for (int i = 0; i < c.parts; i++) members[i] = (member){&c, i, 0, 0};
    while (started < c.parts - 1 && pthread_create(&threads[started], NULL, wait_and_do, &members[started]) == 0)
        started++;
    while (atomic_load(&c.ready) < started) sched_yield();
    atomic_store(&c.go, true);
    for (int i = started; i < c.parts; i++) do_part(&members[i]);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    double began = members[0].began, ended = members[0].ended;
    for (int i = 1; i < c.parts; i++) {
        if (members[i].began < began) began = members[i].began;
        if (members[i].ended > ended) ended = members[i].ended;
    }
    return ended - began;
}

// ---- loops in the widest vectors of each instruction set ----

// A multiplication waits four to six cycles for its sum and two begin in one: so many sums hide that, and fit into
// sixteen registers.
enum { CHAINS = 12, ROUNDS = 1000000 };

#ifdef __clang__
#define UNROLL // it does so unasked
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// sum = step(sum, x, y), again and again. The result is used, so that the compiler keeps the loop.
#define MULTIPLIES(name, target, bytes, step)                                                                          \
    target static void name(const void *arg, int part, int parts) {                                                    \
        typedef float vector __attribute__((vector_size(bytes)));                                                      \
        vector sum[CHAINS], x = (vector){0} + 0.999f, y = (vector){0} + 0.001f;                                        \
        const int rounds = *(const int *)arg;                                                                          \
        (void)part, (void)parts;                                                                                       \
        UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = (vector){0} + (float)i;                                       \
        for (int r = 0; r < rounds; r++) UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = step(sum[i], x, y);          \
        UNROLL for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];                                                      \
        volatile float used = sum[0][0];                                                                               \
        (void)used;                                                                                                    \
    }

typedef struct stretch {
    const char *from;
    size_t bytes;
    int64_t times;
} stretch;

enum { SUMS = 8, LINES = 512 }; // the loop below reads SUMS vectors in a round: a part of so many bytes

static size_t lines_of(size_t bytes) { return (bytes + LINES - 1) / LINES; }

// A part of the stretch, in whole LINES.
#define READS(name, target, width)                                                                                     \
    target static void name(const void *arg, int part, int parts) {                                                    \
        typedef int64_t vector __attribute__((vector_size(width), may_alias));                                         \
        const stretch *s = arg;                                                                                        \
        int64_t lines = (int64_t)lines_of(s->bytes), first = lines * part / parts, end = lines * (part + 1) / parts;   \
        vector sum[SUMS] = {0};                                                                                        \
        for (int64_t t = 0; t < s->times; t++)                                                                         \
            for (const char *at = s->from + first * LINES; at < s->from + end * LINES; at += sizeof sum)               \
                UNROLL for (int i = 0; i < SUMS; i++) sum[i] ^= ((const vector *)(const void *)at)[i];                 \
        UNROLL for (int i = 1; i < SUMS; i++) sum[0] ^= sum[i];                                                        \
        volatile int64_t used = sum[0][0];                                                                             \
        (void)used;                                                                                                    \
    }

#define MULTIPLY_AND_ADD(sum, x, y) ((sum) * (x) + (y)) // two instructions: the portable kernels have no fused one
MULTIPLIES(multiply_portable, , 16, MULTIPLY_AND_ADD)
READS(read_portable, , 16)

#if defined __x86_64__
#define FUSED_256(sum, x, y) _mm256_fmadd_ps(sum, x, y)
#define FUSED_512(sum, x, y) _mm512_fmadd_ps(sum, x, y)
#define PAIRS_512(sum, x, y) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(y))
#define TARGET(isa) __attribute__((target(isa)))
MULTIPLIES(multiply_avx2, TARGET("avx2,fma"), 32, FUSED_256)
MULTIPLIES(multiply_avx512, TARGET("avx512f"), 64, FUSED_512)
MULTIPLIES(multiply_bf16, TARGET("avx512f,avx512bf16"), 64, PAIRS_512)
READS(read_avx2, TARGET("avx2"), 32)
READS(read_avx512, TARGET("avx512f"), 64)
#endif

// By the name of the kernels: the loops, and floats in a vector; the last row is for all others.
typedef struct loops {
    const char *isa;
    int floats;
    crew_work *multiply, *multiply_bf16, *read; // multiply_bf16 NULL: 16 bits are widened, and multiplied as floats
} loops;
static const loops all_loops[] = {
#if defined __x86_64__
    {"avx512bf16", 16, multiply_avx512, multiply_bf16, read_avx512},
    {"avx512", 16, multiply_avx512, NULL, read_avx512},
    {"avx2", 8, multiply_avx2, NULL, read_avx2},
#endif
    {NULL, 4, multiply_portable, NULL, read_portable}};

static const loops *loops_of(const hst_context *like) {
    const loops *l = all_loops;
    while (l->isa && strcmp(l->isa, hst_isa(like)) != 0) l++;
    return l;
}

bool bench_multiplies_bf16(const hst_context *like) { return loops_of(like)->multiply_bf16; }

enum { TRIES = 4 };

double bench_multiply(const hst_context *like, hst_dtype dtype, int64_t divide) {
    const loops *l = loops_of(like);
    bool pairs = dtype == HST_BF16 && l->multiply_bf16;
    int threads = hst_thread_count(like);
    int rounds = (int)(1 + ROUNDS / divide);
    double flop = 2.0 * CHAINS * rounds * l->floats * (pairs ? 2 : 1) * threads;
    double best = 0; // of several short ones: all threads have to be running at the same time
    for (int i = 0; i < TRIES; i++)
        best = fmax(best, flop / work_together(threads, pairs ? l->multiply_bf16 : l->multiply, &rounds));
    return best;
}

double bench_read(const hst_context *like, const char *from, size_t bytes, int64_t times) {
    stretch s = {from, bytes, times};
    double seconds = work_together(hst_thread_count(like), loops_of(like)->read, &s);
    return (double)(lines_of(bytes) * LINES) * (double)times / seconds;
}

static void copy_part(const void *arg, int part, int parts) {
    const bench_copy *c = arg;
    size_t at = c->bytes / (size_t)parts * (size_t)part, end = at + c->bytes / (size_t)parts;
    if (part == parts - 1) end = c->bytes;
    for (; at < end; at += c->piece) memcpy(c->to + at, c->from + at, end - at < c->piece ? end - at : c->piece);
}

double bench_time_copy(const bench_copy *whole, int threads) { return work_together(threads, copy_part, whole); }

// ---- `halfstep bench machine` ----

// More than the last-level cache holds, and more than the caches before it hold of a thread's part.
enum { IN_MEMORY = 1 << 29, IN_CACHE = 1 << 22 };

// Of a round: floating-point operations a second, then bytes.
typedef struct figures {
    double multiply, multiply_bf16, copy, streaming_copy, read, read_cache;
} figures;

static const struct {
    const char *name, *key, *unit;
    size_t offset;
} rows[] = {{"multiply f32", "multiply_f32", "GFLOP/s", offsetof(figures, multiply)},
            {"multiply bf16", "multiply_bf16", "GFLOP/s", offsetof(figures, multiply_bf16)},
            {"copy", "copy", "GB/s, read and written, by ordinary stores", offsetof(figures, copy)},
            {"copy", "streaming_copy", "GB/s, by stores past the caches", offsetof(figures, streaming_copy)},
            {"read", "read_memory", "GB/s, of memory", offsetof(figures, read)},
            {"read", "read_cache", "GB/s, 4 MB a thread", offsetof(figures, read_cache)}};
enum { ROWS = sizeof rows / sizeof *rows };

char *bench_bytes(hst_context *ctx, size_t bytes) {
    size_t whole = (bytes + 4095) / 4096 * 4096;
    char *room = aligned_alloc(4096, whole);
    if (room)
        memset(room, 1, whole);
    else
        hst_fail(ctx, HST_ERROR_MEMORY, "out of memory: %zu bytes to read and copy", bytes);
    return room;
}

static figures measure_round(const hst_context *like, char *room, size_t bytes, size_t cached, int64_t divide) {
    int threads = hst_thread_count(like);
    if (cached * (size_t)threads < bytes) cached *= (size_t)threads;
    bench_copy plain = {room + bytes / 2, room, bytes / 2, BENCH_PLAIN}, streaming = plain;
    figures f = {.multiply = bench_multiply(like, HST_F32, divide),
                 .multiply_bf16 = bench_multiply(like, HST_BF16, divide)};
    streaming.piece = bytes;
    f.copy = (double)bytes / bench_time_copy(&plain, threads);
    f.streaming_copy = (double)bytes / bench_time_copy(&streaming, threads);
    f.read = bench_read(like, room, bytes, 1);
    bench_read(like, room, cached, 1);
    f.read_cache = bench_read(like, room, cached, 8);
    return f;
}

static void print_figures(const bench_run *b, const hst_context *like, const figures *rounds) {
    int runs = b->v->runs, threads = hst_thread_count(like);
    json_object json = {0};
    if (b->v->json)
        json = bench_json("machine", like, runs);
    else
        printf("the machine, %d thread%s, vectors of the %s kernels: best of %d rounds (median, least)\n", threads,
               threads == 1 ? "" : "s", hst_isa(like), runs);
    for (int i = 0; i < ROWS; i++) {
        bench_spread s = bench_spread_of(rounds, sizeof *rounds, runs, rows[i].offset);
        if (rows[i].offset == offsetof(figures, multiply_bf16) && !bench_multiplies_bf16(like)) continue;
        if (b->v->json)
            bench_json_spread(&json, rows[i].key, s);
        else
            printf("  %-14s %8.1f (%.1f, %.1f) %s\n", rows[i].name, 1e-9 * s.most, 1e-9 * s.median, 1e-9 * s.least,
                   rows[i].unit);
    }
    if (b->v->json) json_end(&json);
}

bool bench_machine(const bench_run *b) {
    static figures rounds[2][BENCH_MAX_RUNS];
    size_t bytes = (size_t)(IN_MEMORY / b->v->divide), cached = (size_t)(IN_CACHE / b->v->divide);
    hst_context *contexts[2];
    int count = bench_open_each(b, contexts);
    char *room = count > 0 ? bench_bytes(b->ctx, bytes) : NULL;
    for (int i = -1; room && i < b->v->runs; i++) // the first warms up
        for (int k = 0; k < count; k++)
            rounds[k][i < 0 ? 0 : i] = measure_round(contexts[k], room, bytes, cached, b->v->divide);
    for (int k = 0; room && k < count; k++) print_figures(b, contexts[k], rounds[k]);
    free(room);
    for (int k = 0; k < count; k++) hst_close(contexts[k]);
    return room;
}
