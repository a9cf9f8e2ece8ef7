// test_sums.c: the proof that every sum is safe. Each row of ops/sums.c adds terms that make naive sums stall, drift,
// cancel or vanish, on every instruction set, and the result is compared with the exact sum: |r - s| <= 1/2 ulp(r) + g
// sum |x|. With options.unsafe_accumulation, kernels that round after each addition, every row must break that bound:
// so the test sees what it looks for. And the chapter has the same list.
#include "tests/ops/sums.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

// ---- terms: multiples of 2^unit, so that 64-bit integers add them exactly ----

enum { EQUAL, ALTERNATING, HUGE_FIRST, SUBNORMAL, KINDS };
static const char *const kind_names[KINDS] = {"equal terms", "alternating signs", "one huge term", "subnormals"};

static int digits_of(hst_dtype dtype) { return dtype == HST_F32 ? 24 : dtype == HST_F16 ? 11 : 8; }

// 0.01 as the dtype has it, in units of its last place at 0.01.
static int64_t hundredth(hst_dtype dtype, int *unit) {
    *unit = -6 - digits_of(dtype); // 2^-7 < 0.01 < 2^-6
    return (int64_t)rint(ldexp(0.01, -*unit));
}

static int64_t multiple(int kind, hst_dtype dtype, int i, int *unit) {
    int digits = digits_of(dtype);
    int64_t small = hundredth(dtype, unit);
    switch (kind) {
    case EQUAL:
        return small;
    case ALTERNATING: // 1, -(1 - 2^-digits), 1, ...: the sum is 2^-digits of the terms' sizes
        *unit = -digits;
        return i % 2 ? -(((int64_t)1 << digits) - 1) : (int64_t)1 << digits;
    case HUGE_FIRST: // so large that nothing is added to it one by one, 2^15 in f16, else 2^20
        return i == 0 ? (int64_t)1 << ((dtype == HST_F16 ? 15 : 20) - *unit) : small;
    default: // 8 to 56 times the smallest number: a quarter of them is still one
        *unit = dtype == HST_F32 ? -149 : dtype == HST_F16 ? -24 : -133;
        return 8 * (1 + i % 7);
    }
}

static double *terms_of(int kind, hst_dtype dtype, double *prefix, double *size) {
    double *terms = malloc(TERMS * sizeof *terms);
    int64_t sum = 0, sizes = 0;
    int unit;
    cr_assert(terms);
    for (int i = 0; i < TERMS; i++) {
        int64_t m = i == TERMS - 1 ? 0 : multiple(kind, dtype, i, &unit);
        multiple(kind, dtype, 0, &unit);
        prefix[i] = ldexp((double)sum, unit);
        size[i] = ldexp((double)sizes, unit);
        terms[i] = ldexp((double)m, unit);
        sum += m;
        sizes += m < 0 ? -m : m;
    }
    prefix[TERMS] = ldexp((double)sum, unit);
    size[TERMS] = ldexp((double)sizes, unit);
    cr_assert_lt(sizes, (int64_t)1 << 53, "the exact sums are integers that a double holds");
    return terms;
}

// ---- the property ----

// g, ops/README.md. The double build of these rows would have others; it does not run this.
static double gamma_of(hst_sum_kind kind, double n) {
    switch (kind) {
    case HST_SUM_PRODUCT:
        return (256 + ceil(n / 256)) * 0x1p-24;
    case HST_SUM_RECURRENCE:
        return 64 * 0x1p-24 + n * 0x1p-53;
    default: // carried: the driver's `other` has a rounding for each call
        return n * 0x1p-53;
    }
}

// By how much the error of a row exceeds its bound, as a share of it; <= 1 holds.
static double drive(int row, probe *p) {
    hst_scope_begin(p->ctx);
    driven_rows[row].drive(p);
    hst_scope_end(p->ctx, NULL);
    cr_assert_eq(hst_get_status(p->ctx), HST_OK, "%s: %s", hst_sum_table[row].operation, hst_error(p->ctx));
    double bound = p->ulp / 2 + gamma_of(hst_sum_table[row].kind, p->count) * p->sizes + p->other;
    double error = fabs(p->got - p->want);
    return error <= bound ? error / bound : bound > 0 ? error / bound : INFINITY;
}

static double prefix[TERMS + 1], size[TERMS + 1];
static const hst_dtype dtypes[] = {HST_F16, HST_BF16, HST_F32};

static void check_all(hst_context *ctx) {
    for (int d = 0; d < 3; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            double *terms = terms_of(kind, dtypes[d], prefix, size);
            for (int row = 0; row < driven_row_count; row++) {
                probe p = {.ctx = ctx, .dtype = dtypes[d], .terms = terms, .prefix = prefix, .size = size};
                if (kind > 0 && driven_rows[row].own_terms) continue;
                double share = drive(row, &p);
                cr_expect(share <= 1, "%s: %s of %s, %s in %s: %.17g, exactly %.17g; %.3g times the bound",
                          hst_isa(ctx), driven_rows[row].result, driven_rows[row].operation, kind_names[kind],
                          hst_dtype_name(dtypes[d]), p.got, p.want, share);
            }
            free(terms);
        }
}
Test(sums, every_row_keeps_its_bound, .timeout = 600) { for_each_isa(check_all); }

Test(sums, a_kernel_that_rounds_while_adding_fails_every_row, .timeout = 600) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .unsafe_accumulation = true});
    cr_assert_str_eq(hst_isa(ctx), "unsafe");
    for (int d = 0; d < 3; d++) {
        double worst[256] = {0};
        for (int kind = 0; kind < KINDS; kind++) {
            double *terms = terms_of(kind, dtypes[d], prefix, size);
            for (int row = 0; row < driven_row_count; row++) {
                probe p = {
                    .ctx = ctx, .planted = true, .dtype = dtypes[d], .terms = terms, .prefix = prefix, .size = size};
                if (worst[row] > 1 || (kind > 0 && driven_rows[row].own_terms)) continue;
                worst[row] = fmax(worst[row], drive(row, &p));
            }
            free(terms);
        }
        for (int row = 0; row < driven_row_count; row++) {
            const driven_row *r = &driven_rows[row];
            bool fails = !r->always_f32 && !(r->f32_is_meant && dtypes[d] == HST_F32);
            cr_expect(!fails || worst[row] > 1, "%s of %s in %s: a planted kernel keeps the bound, %.3g of it",
                      r->result, r->operation, hst_dtype_name(dtypes[d]), worst[row]);
        }
    }
    hst_close(ctx);
}

// ---- the list ----

static bool is_operation(const char *name) {
    for (int i = 0; i < hst_op_count; i++)
        if (!strcmp(hst_op_table[i]->name, name)) return true;
    return !strncmp(name, "hst_", 4); // a function that adds
}

static char *read_chapter(void) {
    FILE *file = fopen("ops/README.md", "r");
    char *text = calloc(1, 1 << 20);
    cr_assert(file && text);
    cr_assert_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
    fclose(file);
    return text;
}

// The drivers, the list and the table of the chapter have the same rows, in the same order.
Test(sums, the_chapter_has_the_list) {
    char *chapter = read_chapter(), *at = strstr(chapter, "| adds | into | kind | terms |\n|---|---|---|---|\n");
    cr_assert(at, "the table of sums is not in the chapter");
    at = strstr(at, "|---|\n") + 6;
    cr_assert_eq(driven_row_count, hst_sum_count);
    for (int i = 0; i < hst_sum_count; i++) {
        const hst_sum_row *s = &hst_sum_table[i];
        char line[256];
        cr_expect(is_operation(s->operation), "%s is no operation", s->operation);
        cr_expect_str_eq(driven_rows[i].operation, s->operation);
        cr_expect_str_eq(driven_rows[i].result, s->result);
        snprintf(line, sizeof line, "| `%s` | %s | (%c) | %s |\n", s->operation, s->result, "abcd"[s->kind],
                 s -> terms);
        cr_assert_eq(strncmp(at, line, strlen(line)), 0, "the chapter's next row should be: %s", line);
        at += strlen(line);
    }
    cr_assert_neq(*at, '|', "the chapter has rows that the list has not: %.80s", at);
    free(chapter);
}
