// twins.h: runs a fast kernel and its naive twin on the same random arguments and compares what they wrote.
//
// A case draws its arrays (in, ids, out, reals) and runs one kernel of run->ctx; sweep() calls it on both backends with
// the same settings. Two results that differ by d before they are rounded to a dtype with epsilon e differ by at most
// e |result| + d afterwards; the case states the d of each output as `slack`, derived from its sums and magnitudes.
#ifndef TESTS_OPS_TWINS_H
#define TESTS_OPS_TWINS_H

#include "tests/ops/isas.h"

#include <math.h>
#include <stdlib.h>

static const double F = 0x1p-24; // one rounding to f32, relative
static const double D = 0x1p-53; // one rounding to f64
static const double EXACT = -1;  // the slack of an output whose last rounding is its only one

typedef struct array {
    char *memory;
    hst_source values;
    int64_t count;
    bool is_output;
    double slack;
} array;

// One run of one kernel: the settings, and the arrays it drew.
typedef struct run {
    hst_context *ctx;
    int64_t rows, width;
    int mix, base;  // operand i has the dtype whose number is digit i of mix in this base: 3 for floats, 7 for all
    unsigned flags; // bit 0: add to outputs; the others are the case's own
    int arrays;
    array array[24];
} run;

static const hst_source absent = {0};
static bool has(const run *r, int flag) { return r->flags >> flag & 1; }

static hst_dtype dtype_of(const run *r, int operand) {
    int digits = r->mix;
    while (operand-- > 0) digits /= r->base;
    return (hst_dtype)(digits % r->base);
}

// A new array of random numbers in [low, high). It starts one element into its block: kernels may not count on
// alignment.
static array *draw(run *r, hst_dtype dtype, int64_t count, double low, double high) {
    cr_assert_lt(r->arrays, (int)(sizeof r->array / sizeof *r->array));
    hst_random_key key = {.seed = 1, .operation = (uint32_t)r->arrays};
    array *a = &r->array[r->arrays++];
    a->memory = malloc((size_t)(count + 1) * hst_dtype_size(dtype));
    cr_assert(a->memory);
    a->values = (hst_source){a->memory + hst_dtype_size(dtype), dtype};
    a->count = count;
    hst_target target = {a->memory + hst_dtype_size(dtype), dtype, false};
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) hst_philox(key, (uint64_t)i / 4, words);
        hst_store(target, i, low + (high - low) * (double)hst_unit(words[i % 4]));
    }
    return a;
}

static hst_source in(run *r, int operand, int64_t count, double low, double high) {
    return draw(r, dtype_of(r, operand), count, low, high)->values;
}

static inline hst_source ids(run *r, int64_t count, int64_t limit) {
    static const hst_dtype dtypes[] = {HST_U8, HST_I32, HST_I64, HST_I64};
    return draw(r, dtypes[r->flags >> 1 & 3], count, 0, (double)limit)->values;
}

static void *output(run *r, hst_dtype dtype, int64_t count, double low, double high, double slack) {
    array *a = draw(r, dtype, count, low, high);
    a->is_output = true;
    a->slack = slack;
    return a->memory + hst_dtype_size(dtype);
}

static hst_target out(run *r, int operand, int64_t count, double slack) {
    hst_dtype dtype = dtype_of(r, operand);
    return (hst_target){output(r, dtype, count, -1, 1, slack), dtype, has(r, 0)};
}

static inline hst_real *reals(run *r, int64_t count, double low, double high, double slack) {
    return output(r, HST_F32, count, low, high, slack);
}

static void release(run *r) {
    for (int i = 0; i < r->arrays; i++) free(r->array[i].memory);
}

// ---- comparing two runs ----

static double epsilon(hst_dtype dtype) {
    static const double epsilons[HST_DTYPES] = {0x1p-23, 0x1p-10, 0x1p-7, 0x1p-52};
    return epsilons[dtype];
}

static double smallest(hst_dtype dtype) { return dtype == HST_F16 ? 0x1p-24 : 0; } // step of the subnormals

static void compare(const char *kernel, const run *fast, const run *naive) {
    for (int n = 0; n < fast->arrays; n++) {
        const array *a = &fast->array[n], *b = &naive->array[n];
        for (int64_t i = 0; a->is_output && i < a->count; i++) {
            double x = hst_load(a->values, i), y = hst_load(b->values, i);
            double rounding = epsilon(a->values.dtype) * fabs(y) + smallest(a->values.dtype);
            double allowed = b->slack == EXACT ? 0 : rounding + b->slack;
            cr_assert(fabs(x - y) <= allowed || (isnan(x) && isnan(y)),
                      "%s %s (%lld, %lld) mix %d flags %u: array %d [%lld] (%s) is %.9g, naive %.9g, allowed %.3g",
                      hst_isa(fast->ctx), kernel, (long long)fast->rows, (long long)fast->width, fast->mix, fast->flags,
                      n, (long long)i, hst_dtype_name(a->values.dtype), x, y, allowed);
        }
    }
}

static void compare_bits(const char *kernel, const run *one, const run *many) {
    for (int n = 0; n < one->arrays; n++) {
        size_t bytes = (size_t)one->array[n].count * hst_dtype_size(one->array[n].values.dtype);
        cr_assert_eq(memcmp(one->array[n].values.data, many->array[n].values.data, bytes), 0,
                     "%s %s: array %d differs between 1 and %d threads", hst_isa(one->ctx), kernel, n,
                     hst_thread_count(many->ctx));
    }
}

// ---- running a case ----

typedef bool kernel_case(run *r);

static run execute(kernel_case *body, hst_context *ctx, run setting) {
    setting.ctx = ctx;
    cr_assert(body(&setting), "%s: %s", hst_isa(ctx), hst_error(ctx));
    return setting;
}

static uint32_t word(int i) {
    uint32_t words[4];
    hst_philox((hst_random_key){.seed = 2}, (uint64_t)i, words);
    return words[0];
}

// Every mix of the operands' dtypes (or 1000 of them), each with other sizes and flags.
static void sweep_sizes(const char *name, kernel_case *body, hst_context *fast, hst_context *naive, int mixes, int base,
                        int flags) {
    static const int64_t rows[] = {1, 2, 3, 7, 17, 33}, widths[] = {1, 3, 7, 8, 17, 33, 65};
    int runs = mixes < 300 ? 300 : mixes > 1000 ? 1000 : mixes;
    for (int i = 0; i < runs; i++) {
        uint32_t random = word(i);
        run setting = {.rows = rows[random % 6],
                       .width = widths[(random >> 8) % 7],
                       .base = base,
                       .mix = mixes > runs ? (int)(word(i + runs) % (uint32_t)mixes) : i % mixes,
                       .flags = (random >> 16) % (1u << flags)};
        run a = execute(body, fast, setting), b = execute(body, naive, setting);
        compare(name, &a, &b);
        release(&a);
        release(&b);
    }
}

// Large enough that the work is shared out and that every block of a kernel has a second one.
static void sweep_threads(const char *name, kernel_case *body, const char *isa, hst_context *naive, int mixes, int base,
                          int flags) {
    static const int threads[] = {1, 2, 3, 7};
    hst_context *team[4];
    for (int n = 0; n < 4; n++) team[n] = open_isa(isa, threads[n]);
    for (int i = 0; i < 2; i++) {
        run setting = {.rows = 67,
                       .width = 1031,
                       .base = base,
                       .mix = (int)(word(i) % (uint32_t)mixes),
                       .flags = (word(i) >> 16) % (1u << flags)};
        run one = execute(body, team[0], setting), reference = execute(body, naive, setting);
        compare(name, &one, &reference);
        release(&reference);
        for (int n = 1; n < 4; n++) {
            run many = execute(body, team[n], setting);
            compare_bits(name, &one, &many);
            release(&many);
        }
        release(&one);
    }
    for (int n = 0; n < 4; n++) hst_close(team[n]);
}

// `operands` dtypes of the first `base` ones, and `flags` bits.
static void sweep(const char *name, kernel_case *body, int operands, int base, int flags) {
    char names[128], *rest = names;
    snprintf(names, sizeof names, "%s", hst_isa_names());
    int mixes = 1;
    for (int i = 0; i < operands; i++) mixes *= base;
    hst_context *naive = open_isa("naive", 1);
    for (const char *isa; (isa = strtok_r(rest, " ", &rest)) && strcmp(isa, "naive");) {
        hst_context *fast = open_isa(isa, 1);
        sweep_sizes(name, body, fast, naive, mixes, base, flags);
        sweep_threads(name, body, isa, naive, mixes, base, flags);
        hst_close(fast);
    }
    hst_close(naive);
}

#endif
