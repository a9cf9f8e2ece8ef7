// sums_drivers.c: how each row of ops/sums.c is made to add given terms; those of norms and recurrence are in
// sums_by_kernels.c. The other factor of a product is 1, so that terms as the kernel forms them are the given ones,
// exactly.
#include "tests/ops/sums_drivers.h"

#include "autograd/op.h"
#include "ops/ops.h"
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>

// ---- tensors, and results ----

// The distance of neighbouring numbers at x: 2^(exponent - digits), and never less than the subnormals'.
double ulp_of(hst_dtype dtype, double x) {
    static const struct {
        int digits, least;
    } formats[HST_DTYPES] = {
        [HST_F32] = {24, -149}, [HST_F16] = {11, -24}, [HST_BF16] = {8, -133}, [HST_F64] = {53, -1074}};
    int exponent = 0;
    frexp(x, &exponent);
    int last = exponent - formats[dtype].digits;
    return ldexp(1, last > formats[dtype].least ? last : formats[dtype].least);
}

static hst_tensor *leaf(const probe *p, int rank, const int64_t *shape) {
    hst_tensor *t = ones(p, rank, shape);
    hst_attach_grad(t, HST_WRITE, p->dtype);
    return t;
}

// The gradient of x where y gets the terms as its gradient; y has TERMS elements.
static void drive_gradient(probe *p, hst_tensor *x, hst_tensor *y, double factor) {
    hst_tensor *dy = y ? terms(p, hst_rank(y), y->shape) : NULL;
    hst_backward_from(p->ctx, 1, &y, &dy);
    found(p, first_of(hst_grad(x)), p->dtype, factor, TERMS);
}

// ---- products ----

static void linear_y(probe *p) {
    found(p, first_of(hst_linear(terms(p, HST_SHAPE(1, TERMS)), ones(p, HST_SHAPE(TERMS, 1)), NULL)), p->dtype, 1,
          TERMS);
}
static void linear_dx(probe *p) {
    hst_tensor *x = leaf(p, HST_SHAPE(1, 1));
    drive_gradient(p, x, hst_linear(x, ones(p, HST_SHAPE(1, TERMS)), NULL), 1);
}
static void linear_dw(probe *p) {
    hst_tensor *w = leaf(p, HST_SHAPE(1, 1));
    drive_gradient(p, w, hst_linear(ones(p, HST_SHAPE(TERMS, 1)), w, NULL), 1);
}
static void linear_dbias(probe *p) {
    hst_tensor *bias = leaf(p, HST_SHAPE(1));
    drive_gradient(p, bias, hst_linear(ones(p, HST_SHAPE(TERMS, 1)), ones(p, HST_SHAPE(1, 1)), bias), 1);
}
static void matmul_y(probe *p) {
    found(p, first_of(hst_matmul(terms(p, HST_SHAPE(1, TERMS)), ones(p, HST_SHAPE(TERMS, 1)))), p->dtype, 1, TERMS);
}
static void matmul_da(probe *p) {
    hst_tensor *a = leaf(p, HST_SHAPE(1, 1));
    drive_gradient(p, a, hst_matmul(a, ones(p, HST_SHAPE(2, 1, TERMS / 2))), 1);
}
static void matmul_db(probe *p) {
    hst_tensor *b = leaf(p, HST_SHAPE(1, 1));
    drive_gradient(p, b, hst_matmul(ones(p, HST_SHAPE(2, TERMS / 2, 1)), b), 1);
}

// ---- scatter-adds, broadcasting ----

static void embedding_dtable(probe *p) {
    hst_tensor *table = leaf(p, HST_SHAPE(2, 1));
    drive_gradient(p, table, hst_embedding(table, hst_zeros(p->ctx, HST_U8, HST_SHAPE(TERMS))), 1);
}
// A row of ones, whose 1-norm is their number n, is cut to half of that: each becomes 1/2, M / (n + 1e-7) rounded.
static void embedding_norm(probe *p) {
    hst_embedding_options options = hst_embedding_defaults();
    options.max_norm = TERMS / 2, options.norm_power = 1;
    hst_tensor *table = ones(p, HST_SHAPE(1, TERMS));
    double cut = first_of(hst_embedding_with(table, hst_zeros(p->ctx, HST_U8, HST_SHAPE(1)), &options));
    p->got = options.max_norm / cut;
    p->want = p->sizes = p->count = TERMS;
    p->ulp = ulp_of(p->dtype, cut) / cut * TERMS;
    p->other = 1e-7;
}
static void take_dx(probe *p) {
    hst_tensor *x = leaf(p, HST_SHAPE(1, 2));
    drive_gradient(p, x, hst_take(x, hst_zeros(p->ctx, HST_I32, HST_SHAPE(TERMS)), 1), 1);
}
static void broadcast_dx(probe *p) {
    hst_tensor *x = leaf(p, HST_SHAPE(1));
    drive_gradient(p, x, hst_broadcast_to(x, HST_SHAPE(TERMS)), 1);
}
static void where_da(probe *p) {
    hst_tensor *a = leaf(p, HST_SHAPE(1));
    drive_gradient(p, a, hst_where(hst_full(p->ctx, HST_U8, HST_SHAPE(TERMS), 1), a, ones(p, HST_SHAPE(1))), 1);
}
static void where_db(probe *p) {
    hst_tensor *b = leaf(p, HST_SHAPE(1));
    drive_gradient(p, b, hst_where(hst_zeros(p->ctx, HST_U8, HST_SHAPE(TERMS)), ones(p, HST_SHAPE(1)), b), 1);
}

// y = f(a, b), where a, or b, is one number for all.
#define ARITHMETIC(op, factor_b)                                                                                       \
    static void op##_da(probe *p) {                                                                                    \
        hst_tensor *a = leaf(p, HST_SHAPE(1));                                                                         \
        drive_gradient(p, a, hst_##op(a, ones(p, HST_SHAPE(TERMS))), 1);                                               \
    }                                                                                                                  \
    static void op##_db(probe *p) {                                                                                    \
        hst_tensor *b = leaf(p, HST_SHAPE(1));                                                                         \
        drive_gradient(p, b, hst_##op(ones(p, HST_SHAPE(TERMS)), b), factor_b);                                        \
    }
ARITHMETIC(add, 1)
ARITHMETIC(sub, -1)
ARITHMETIC(mul, 1)
ARITHMETIC(div, -1)

// ---- reductions ----

static void sum_y(probe *p) { found(p, first_of(hst_sum(terms(p, HST_SHAPE(TERMS)))), HST_F32, 1, TERMS); }
static void mean_y(probe *p) { found(p, first_of(hst_mean(terms(p, HST_SHAPE(TERMS)))), HST_F32, 1.0 / TERMS, TERMS); }

static void gradient_norm(probe *p) {
    hst_tensor *x = terms(p, HST_SHAPE(TERMS));
    long double sum = 0;
    p->got = 0;
    p->ctx->backend->square_sum(p->ctx, &(hst_square_sum_args){TERMS, hst_source_of(x), &p->got});
    for (int i = 0; i < TERMS; i++) sum += (long double)p->terms[i] * p->terms[i];
    p->want = p->sizes = (double)sum;
    p->ulp = ulp_of(HST_F64, p->want);
    p->count = TERMS;
    p->other = 0;
}

// Gradients are f32 here whatever the terms were; 1/2 of each term is a number of f32 too.
static void unscaled_norm(probe *p) {
    hst_tensor *g = hst_from_array(p->ctx, HST_F32, HST_SHAPE(TERMS), HST_F64, p->terms);
    long double sum = 0;
    p->got = 0;
    p->ctx->backend->unscale(p->ctx, &(hst_unscale_args){TERMS, (hst_real *)hst_raw(g), 0.5, &p->got});
    for (int i = 0; i < TERMS; i++) sum += (long double)p->terms[i] * p->terms[i] / 4;
    p->want = p->sizes = (double)sum;
    p->ulp = ulp_of(HST_F64, p->want);
    p->count = TERMS;
    p->other = 0;
}

// All x are the greatest: each gets 1 / TERMS.
static void max_dx(probe *p) {
    hst_tensor *x = leaf(p, HST_SHAPE(TERMS)), *y = hst_max(x), *dy = ones(p, HST_SCALAR);
    hst_backward_from(p->ctx, 1, &y, &dy);
    p->got = 1 / first_of(hst_grad(x));
    p->want = p->sizes = p->count = TERMS;
    p->ulp = 0; // of 2^-17, a number of every dtype
    p->other = 0;
}

// ---- softmax ----

// One logit 0 and 2^18 of -17.5, whose exponentials are just below half an ulp of 1 in f32: s = 1.0066, where a sum in
// f32 remains 1. An exponential is within 1.01 ulp.
enum { CLASSES = 1 << 18 };
static hst_tensor *logits(probe *p) {
    double *x = malloc(CLASSES * sizeof *x);
    for (int i = 0; x && i < CLASSES; i++) x[i] = i == 0 ? 0 : -17.5;
    hst_tensor *t = hst_from_array(p->ctx, p->dtype, HST_SHAPE(1, CLASSES), HST_F64, x);
    hst_attach_grad(t, HST_WRITE, p->dtype);
    free(x);
    return t;
}
static double normaliser(void) { return 1 + (CLASSES - 1) * exp(-17.5); }

// `got` should be `want`, whose error is the relative one of the normaliser, and further roundings to f32 of `size`.
static void softmax_found(probe *p, double got, double want, hst_dtype dtype, double size) {
    p->got = got;
    p->want = want;
    p->ulp = ulp_of(dtype, want);
    p->count = CLASSES;
    p->sizes = normaliser();
    p->other = 3 * 0x1p-24 * size;
}
static void softmax_y(probe *p) {
    softmax_found(p, first_of(hst_softmax(logits(p), 1)), 1 / normaliser(), p->dtype, 1);
}
static void log_softmax_y(probe *p) {
    softmax_found(p, first_of(hst_log_softmax(logits(p), 1)), -log(normaliser()), p->dtype, 0.01);
}
static void token_losses(probe *p) {
    hst_tensor *loss = hst_token_losses(logits(p), hst_zeros(p->ctx, HST_U8, HST_SHAPE(1)));
    softmax_found(p, first_of(loss), log(normaliser()), HST_F32, 0.01);
}
static void token_dlogits(probe *p) {
    hst_tensor *x = logits(p), *loss = hst_token_losses(x, hst_full(p->ctx, HST_U8, HST_SHAPE(1), 1));
    hst_tensor *dy = hst_full(p->ctx, HST_F32, HST_SHAPE(1), 1);
    hst_backward_from(p->ctx, 1, &loss, &dy);
    softmax_found(p, first_of(hst_grad(x)), 1 / normaliser(), p->dtype, 1);
}

// By the kernel, with y = 1 (its logarithm 0) everywhere: dx = y (dy - sum of dy y), -sum where dy = 0.
static void softmax_gradient(probe *p, bool log) {
    hst_tensor *y = hst_full(p->ctx, p->dtype, HST_SHAPE(TERMS), log ? 0 : 1), *dx = ones(p, HST_SHAPE(TERMS));
    hst_tensor *dy = terms(p, HST_SHAPE(TERMS));
    hst_softmax_grad_args args = {.outer = 1,
                                  .rows = TERMS,
                                  .width = 1,
                                  .log = log,
                                  .dy = hst_source_of(dy),
                                  .y = hst_source_of(y),
                                  .dx = hst_target_of(dx)};
    cr_assert(p->ctx->backend->softmax_grad(p->ctx, &args));
    found(p, hst_load(hst_source_of(dx), TERMS - 1), p->dtype, -1, TERMS);
}
static void softmax_dx(probe *p) { softmax_gradient(p, false); }
static void log_softmax_dx(probe *p) { softmax_gradient(p, true); }

// ---- what is carried from call to call: one rounding to f32 a call ----

// x goes into one tensor that is used STEPS times.
static void several_uses(probe *p) {
    static hst_tensor *y[STEPS], *dy[STEPS];
    hst_tensor *x = leaf(p, HST_SHAPE(1)), *used = hst_scale(x, 1);
    for (int i = 0; i < STEPS; i++) {
        y[i] = hst_scale(used, 1);
        dy[i] = hst_full(p->ctx, p->dtype, HST_SHAPE(1), p->terms[i]);
    }
    hst_backward_from(p->ctx, STEPS, y, dy);
    found(p, first_of(hst_grad(x)), p->dtype, 1, STEPS);
    p->other = STEPS * 0x1p-24 * p->sizes;
}

// A gradient in f32, as one is made unless the program says otherwise; planted: in the tensor's own dtype.
static void added_gradient(probe *p) {
    hst_dtype dtype = p->planted ? p->dtype : HST_F32;
    hst_tensor *x = ones(p, HST_SHAPE(1));
    hst_attach_grad(x, HST_ADD, dtype);
    for (int i = 0; i < STEPS; i++) {
        hst_scope_begin(p->ctx);
        hst_tensor *y = hst_scale(x, 1), *dy = hst_full(p->ctx, p->dtype, HST_SHAPE(1), p->terms[i]);
        hst_backward_from(p->ctx, 1, &y, &dy);
        hst_scope_end(p->ctx, NULL);
    }
    found(p, first_of(hst_grad(x)), dtype, 1, STEPS);
    p->other = STEPS * 0x1p-24 * p->sizes;
}

// m and v of a constant g = 0.5 are g (1 - b^k) and g^2 (1 - b^k). Each step rounds three times, and of what b keeps of
// an error 1 / (1 - b) steps are left; b and 1 - b are rounded to f32 too.
static void moments(probe *p, bool second) {
    const double b = 0.99, g = 0.5, size = second ? g * g : g;
    hst_real w = 1, m = 0, v = 0;
    hst_tensor *gradient = hst_full(p->ctx, p->dtype, HST_SHAPE(1), g);
    hst_adam_args args = {.count = 1,
                          .w = &w,
                          .m = &m,
                          .v = &v,
                          .g = hst_source_of(gradient),
                          .factor = 1,
                          .beta1 = b,
                          .beta2 = b,
                          .rate = 1e-6,
                          .scale = 1,
                          .eps = 1e-8,
                          .adaptive = true};
    for (int i = 0; i < 300; i++) p->ctx->backend->adam(p->ctx, &args);
    p->got = second ? v : m;
    p->want = size * (1 - pow(b, 300));
    p->ulp = ulp_of(HST_F32, p->want);
    p->count = 300;
    p->sizes = size;
    p->other = 5 * 0x1p-24 * size / (1 - b);
}
static void first_moment(probe *p) { moments(p, false); }
static void second_moment(probe *p) { moments(p, true); }

// The average of w = 1 that starts at 0 is 1 - d^k.
static void average(probe *p) {
    const double d = 0.999;
    hst_real mean = 0, w = 1;
    for (int i = 0; i < STEPS; i++)
        p->ctx->backend->average(p->ctx, &(hst_average_args){.count = 1, .average = &mean, .w = &w, .decay = d});
    p->got = mean;
    p->want = 1 - pow(d, STEPS);
    p->ulp = ulp_of(HST_F32, p->want);
    p->count = STEPS;
    p->sizes = 1;
    p->other = 0x1p-24 / (1 - d);
}

#define T true
const driven_row driven_rows[] = {
    {"linear", "y", linear_y},
    {"linear", "dx", linear_dx},
    {"linear", "dw", linear_dw},
    {"linear", "dbias", linear_dbias},
    {"matmul", "y", matmul_y},
    {"matmul", "da", matmul_da},
    {"matmul", "db", matmul_db},
    {"embedding", "dtable", embedding_dtable},
    {"embedding", "the norm for max_norm", embedding_norm, .own_terms = T, .f32_is_meant = T},
    {"layer_norm", "y", norm_mean},
    {"layer_norm", "y", norm_variance},
    {"layer_norm", "dx", norm_dx_sum},
    {"layer_norm", "dx", norm_dx_both},
    {"layer_norm", "dgain", norm_dgain},
    {"layer_norm", "dbias", norm_dbias},
    {"rms_norm", "y", norm_mean_square},
    {"rms_norm", "dx", norm_dx_product},
    {"rms_norm", "dgain", norm_dgain},
    {"sru_recurrence", "h", recurrence_h, .own_terms = T, .f32_is_meant = T},
    {"sru_recurrence", "dc0", recurrence_dc0, .f32_is_meant = T},
    {"sru_recurrence", "dv", recurrence_dv},
    {"sru_recurrence", "dbias", recurrence_dbias},
    {"add", "da", add_da},
    {"add", "db", add_db},
    {"sub", "da", sub_da},
    {"sub", "db", sub_db},
    {"mul", "da", mul_da},
    {"mul", "db", mul_db},
    {"div", "da", div_da},
    {"div", "db", div_db},
    {"sum", "y", sum_y},
    {"mean", "y", mean_y},
    {"max", "dx", max_dx, .own_terms = T, .f32_is_meant = T},
    {"softmax", "y", softmax_y, .own_terms = T},
    {"softmax", "dx", softmax_dx},
    {"log_softmax", "y", log_softmax_y, .own_terms = T},
    {"log_softmax", "dx", log_softmax_dx},
    {"token_losses", "losses", token_losses, .own_terms = T},
    {"token_losses", "dlogits", token_dlogits, .own_terms = T},
    {"broadcast_to", "dx", broadcast_dx},
    {"where", "da", where_da},
    {"where", "db", where_db},
    {"take", "dx", take_dx},
    {"hst_backward", "dy of a result used several times", several_uses, .f32_is_meant = T},
    {"hst_backward", "a gradient that is added to", added_gradient, .f32_is_meant = T},
    {"hst_gradient_norm", "the norm", gradient_norm},
    {"hst_unscale_gradients", "the norm", unscaled_norm},
    {"hst_optimizer_step", "m", first_moment, .own_terms = T, .always_f32 = T},
    {"hst_optimizer_step", "v", second_moment, .own_terms = T, .always_f32 = T},
    {"hst_ema_update", "the average", average, .own_terms = T, .always_f32 = T},
};
#undef T
const int driven_row_count = sizeof driven_rows / sizeof *driven_rows;
