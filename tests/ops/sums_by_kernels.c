// sums_by_kernels.c: drivers of the sums in norms and in the recurrence, which call the kernel itself: its arguments
// can be such that the terms are the given ones.
#include "tests/ops/sums_drivers.h"

#include <stdlib.h>

// ---- norms: their statistics are arguments, and can be such that terms are exact ----

static bool norm(const probe *p, bool rms, double *mean, double *rstd) {
    hst_tensor *x = terms(p, HST_SHAPE(TERMS)), *y = ones(p, HST_SHAPE(TERMS));
    hst_norm_args args = {.rows = 1,
                          .width = TERMS,
                          .rms = rms,
                          .eps = 0,
                          .x = hst_source_of(x),
                          .y = hst_target_of(y),
                          .mean = mean,
                          .rstd = rstd};
    return x && y && p->ctx->backend->norm(p->ctx, &args);
}

// The mean as the kernel leaves it, in double.
void norm_mean(probe *p) {
    double mean = NAN, rstd;
    norm(p, false, &mean, &rstd);
    found(p, mean, HST_F64, 1.0 / TERMS, TERMS);
}

// rstd = 1 / sqrt(v): the mean of the squares of x, less the mean where it is not rms. Eight roundings of a double
// between v and rstd^-2 and its terms.
static void norm_squares(probe *p, bool rms) {
    double mean = 0, rstd = NAN;
    norm(p, rms, &mean, &rstd);
    double center = rms ? 0 : p->prefix[TERMS] / TERMS;
    long double sum = 0;
    for (int i = 0; i < TERMS; i++) sum += ((long double)p->terms[i] - center) * (p->terms[i] - center);
    p->got = 1 / (rstd * rstd);
    p->want = (double)sum / TERMS;
    p->ulp = ulp_of(HST_F64, p->want);
    p->count = TERMS;
    p->sizes = p->want;
    // an error e of the mean moves the mean square by e^2, and 2 e times the mean deviation, which is 0
    double e = p->size[TERMS] * 0x1p-53;
    p->other = 8 * 0x1p-53 * p->want + e * e;
}
void norm_variance(probe *p) { norm_squares(p, false); }
void norm_mean_square(probe *p) { norm_squares(p, true); }

// rows x width numbers dy, x = n = `value` everywhere, mean 0 and rstd 1.
static void norm_gradient(const probe *p, int64_t rows, int64_t width, bool rms, double value, hst_target dx,
                          hst_target dgain, hst_target dbias) {
    double *mean = calloc((size_t)rows, sizeof *mean), *rstd = calloc((size_t)rows, sizeof *rstd);
    hst_tensor *x = hst_full(p->ctx, p->dtype, HST_SHAPE(TERMS), value), *dy = terms(p, HST_SHAPE(TERMS));
    for (int64_t i = 0; i < rows; i++) rstd[i] = 1;
    hst_norm_grad_args args = {.rows = rows,
                               .width = width,
                               .rms = rms,
                               .dy = hst_source_of(dy),
                               .x = hst_source_of(x),
                               .mean = mean,
                               .rstd = rstd,
                               .dx = dx,
                               .dgain = dgain,
                               .dbias = dbias};
    cr_assert(x && dy && p->ctx->backend->norm_grad(p->ctx, &args));
    free(mean);
    free(rstd);
}

// dx = dn - mean(dn) - n mean(dn n), at the last element, where dn = 0. mean(dn) is alone where n = 0, and mean(dn n)
// where it is RMS norm and n = 1; rounded to f32 in the kernel before dx is rounded.
static void norm_dx(probe *p, bool rms) {
    hst_tensor *dx = ones(p, HST_SHAPE(TERMS));
    norm_gradient(p, 1, TERMS, rms, rms ? 1 : 0, hst_target_of(dx), (hst_target){0}, (hst_target){0});
    found(p, hst_load(hst_source_of(dx), TERMS - 1), p->dtype, -1.0 / TERMS, TERMS);
    p->other = ulp_of(HST_F32, p->want / TERMS) * TERMS;
}
void norm_dx_sum(probe *p) { norm_dx(p, false); }
void norm_dx_product(probe *p) { norm_dx(p, true); }

// The same for layer norm: n = 1 has both means, which are equal.
void norm_dx_both(probe *p) {
    hst_tensor *dx = ones(p, HST_SHAPE(TERMS));
    norm_gradient(p, 1, TERMS, false, 1, hst_target_of(dx), (hst_target){0}, (hst_target){0});
    found(p, hst_load(hst_source_of(dx), TERMS - 1), p->dtype, -2.0 / TERMS, TERMS);
    p->other = 2 * ulp_of(HST_F32, p->want / TERMS) * TERMS;
}

static void norm_parameter(probe *p, bool bias) {
    hst_tensor *sums = ones(p, HST_SHAPE(1)), *none = ones(p, HST_SHAPE(1));
    hst_target dgain = hst_target_of(bias ? none : sums), dbias = hst_target_of(bias ? sums : none);
    norm_gradient(p, TERMS, 1, !bias, 1, (hst_target){0}, dgain, dbias);
    found(p, first_of(sums), p->dtype, 1, TERMS);
}
void norm_dgain(probe *p) { norm_parameter(p, false); }
void norm_dbias(probe *p) { norm_parameter(p, true); }

// ---- the recurrence ----

// One column of `length` steps with constant U and c before and after; h and c_last, or gradients, in p->dtype.
typedef struct column {
    hst_real *u, *c;
    hst_real bias[2], last[1];
} column;

static column column_of(int64_t length, double u0, double u1, double u2, double c) {
    int64_t segments = (length + HST_SRU_SEGMENT - 1) / HST_SRU_SEGMENT;
    column s = {.u = malloc((size_t)(3 * length) * sizeof *s.u), .c = malloc((size_t)segments * sizeof *s.c)};
    cr_assert(s.u && s.c);
    for (int64_t i = 0; i < segments; i++) s.c[i] = (hst_real)c;
    for (int64_t t = 0; t < length; t++)
        s.u[3 * t] = (hst_real)u0, s.u[3 * t + 1] = (hst_real)u1, s.u[3 * t + 2] = (hst_real)u2;
    return s;
}
static hst_sru_args forward_of(const column *s, int64_t length) {
    return (hst_sru_args){.length = length,
                          .batch = 1,
                          .width = 1,
                          .k = 3,
                          .u = F32(s->u),
                          .bias = F32(s->bias),
                          .c = s->c,
                          .c_last = (hst_real *)s->last};
}
static void free_column(column *s) {
    free(s->u);
    free(s->c);
}

// U0 = 1, c0 = 0 and f = s(8.5) give c = 1 - f^L, each step adding (1 - f)(1 - c) or about 1/5000. r = s(40) = 1, x' =
// 0: h = c. f has an error of at most 2^-23 and c is rounded twice a step, all of numbers up to 1.
void recurrence_h(probe *p) {
    enum { L = 2048 };
    column s = column_of(L, 1, 8.5, 40, 0);
    hst_tensor *h = ones(p, HST_SHAPE(L));
    hst_sru_args args = forward_of(&s, L);
    args.h = hst_target_of(h);
    cr_assert(p->ctx->backend->sru(p->ctx, &args));
    p->got = hst_load(hst_source_of(h), L - 1);
    p->want = 1 - pow(1 / (1 + exp(-8.5)), L);
    p->ulp = ulp_of(p->dtype, p->got);
    p->count = L;
    p->sizes = 0;
    p->other = L * 0x1p-22;
    free_column(&s);
}

// f = r = 1: dc grows by dh at each step, and is rounded to f32 there.
void recurrence_dc0(probe *p) {
    column s = column_of(STEPS, 1, 40, 40, 1);
    hst_tensor *dh = terms(p, HST_SHAPE(STEPS)), *dc0 = ones(p, HST_SHAPE(1)), *du = ones(p, HST_SHAPE(3 * STEPS));
    hst_sru_grad_args args = {
        .forward = forward_of(&s, STEPS), .dh = hst_source_of(dh), .du = hst_target_of(du), .dc0 = hst_target_of(dc0)};
    cr_assert(p->ctx->backend->sru_grad(p->ctx, &args));
    found(p, first_of(dc0), p->dtype, 1, STEPS);
    p->other = STEPS * 0x1p-24 * p->sizes;
    free_column(&s);
}

// p = c = U0 = 1, r = 1/2, x' = 0: each step adds dh (c - x') r (1 - r) = dh / 4 to the gradients of br and, p times,
// vr.
static void recurrence_parameter(probe *p, bool bias) {
    column s = column_of(TERMS, 1, 0, 0, 1);
    hst_real one[1] = {1};
    hst_tensor *dh = terms(p, HST_SHAPE(TERMS)), *sums = ones(p, HST_SHAPE(2));
    hst_sru_grad_args args = {.forward = forward_of(&s, TERMS), .dh = hst_source_of(dh)};
    args.forward.c0 = F32(one);
    *(bias ? &args.dbias : &args.dv) = hst_target_of(sums);
    cr_assert(p->ctx->backend->sru_grad(p->ctx, &args));
    found(p, hst_load(hst_source_of(sums), 1), p->dtype, 0.25, TERMS);
    free_column(&s);
}
void recurrence_dv(probe *p) { recurrence_parameter(p, false); }
void recurrence_dbias(probe *p) { recurrence_parameter(p, true); }
