// test_kernels.c: every fast kernel against its naive twin, on random data: odd sizes, all dtype mixes, arguments
// absent, results added to what is there; and the same bits whatever the number of threads. gemm has test_gemm.c, what
// moves elements test_kernels_shape.c.
//
// In slacks F is one rounding to f32 and D one to f64, relative: "6 roundings of numbers up to 3" is 6 * 3 * F. A sum
// of n terms up to 1 in double is off by at most n * n * D.
#include "tests/ops/twins.h"

static bool same_pointers(const hst_backend *a, const hst_backend *b) {
#define SAME(name) a->name == b->name ||
    return HST_KERNELS(SAME) false;
}

// So that no test below compares a kernel with itself.
static void check_backend(hst_context *ctx) {
    cr_assert_str_eq(ctx->backend->name, hst_isa(ctx));
    cr_assert_eq(ctx->backend->abi, HST_BACKEND_ABI);
    const hst_backend *naive = hst_cpu_backend("naive");
    if (ctx->backend != naive) cr_assert_not(same_pointers(ctx->backend, naive), "%s", hst_isa(ctx));
}

Test(ops, every_isa_has_kernels_of_its_own) {
    for_each_isa(check_backend);
    cr_assert_null(hst_cpu_backend("abacus"));
    cr_assert_eq(hst_cpu_backend("auto"), hst_cpu_backend(NULL));
}

// ---- elements ----

// Flags 1, 2: a transposed and a repeated source. Flag 3: a gapped target.
static bool copy_case(run *r) {
    int64_t rows = r->rows, width = r->width;
    hst_copy_args args = {.rank = 2, .shape = {rows, width}, .from_stride = {width, 1}, .to_stride = {width, 1}};
    if (has(r, 1)) args.from_stride[0] = 1, args.from_stride[1] = rows;
    if (has(r, 2)) args.from_stride[has(r, 1)] = 0;
    if (has(r, 3)) args.to_stride[0] = 2 * width, args.to_stride[1] = 2;
    args.from = in(r, 0, rows * width, -300, 300);
    hst_dtype dtype = dtype_of(r, 1);
    args.to.data = output(r, dtype, 2 * rows * width, -300, 300, has(r, 0) ? 600 * F : EXACT);
    args.to.dtype = dtype;
    args.to.add = has(r, 0);
    return r->ctx->backend->copy(r->ctx, &args);
}
Test(ops, copy_matches) { sweep("copy", copy_case, 2, HST_DTYPES, 4); }

// 1 / (1 - p), the product and the addition: 3 roundings of numbers up to 3.
static bool dropout_case(run *r) {
    int64_t count = r->rows * r->width, repeats = has(r, 2) ? 3 : 1;
    hst_dropout_args args = {
        .repeats = repeats, .count = count, .p = has(r, 1) ? 0.25 : 0.7, .key = {12345678901234567u, 9, 3}};
    args.x = in(r, 0, repeats * count, -1, 1);
    args.y = out(r, 1, repeats * count, 3 * 3 * F);
    return r->ctx->backend->dropout(r->ctx, &args);
}
Test(ops, dropout_matches) { sweep("dropout", dropout_case, 2, 3, 3); }

// h is up to 1.3 and of 4 roundings; m and v are sums of two products of numbers below 2. v >= 0.1 b2, so the step is
// at most 1.1 / (1.5 sqrt(0.1 b2)) + shrink w < 3, or 1.1 without the division; of about 14 roundings.
static bool adam_case(run *r) {
    int64_t count = r->rows * r->width;
    hst_adam_args args = {.count = count,
                          .factor = 0.5,
                          .l2 = has(r, 1) ? 0.3 : 0,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .shrink = has(r, 1) ? 0 : 0.01,
                          .rate = 0.7,
                          .scale = 1.5,
                          .eps = 1e-8,
                          .adaptive = !has(r, 2)};
    args.w = reals(r, count, -1, 1, 0.7 * 3 * 14 * F);
    args.m = reals(r, count, -1, 1, 9 * 2 * F);
    args.v = reals(r, count, 0.1, 1, 9 * 2 * F);
    args.g = in(r, 0, count, -2, 2);
    return r->ctx->backend->adam(r->ctx, &args);
}
Test(ops, adam_matches) { sweep("adam", adam_case, 1, 3, 3); }

// A step of three products of numbers up to 1, 7 roundings; Nesterov's of five.
static bool sgd_case(run *r) {
    int64_t count = r->rows * r->width;
    hst_sgd_args args = {
        .count = count, .lr = 0.1, .momentum = 0.9, .decay = 0.1, .factor = 0.5, .nesterov = has(r, 2)};
    args.w = reals(r, count, -1, 1, 0.1 * (has(r, 2) ? 5 * 12 : 3 * 7) * F);
    if (has(r, 1)) args.m = reals(r, count, -1, 1, 3 * 7 * F);
    args.g = in(r, 0, count, -2, 2);
    return r->ctx->backend->sgd(r->ctx, &args);
}
Test(ops, sgd_matches) { sweep("sgd", sgd_case, 1, 3, 3); }

// Both in double: 3 roundings there, and one to f32, which they may tip over.
static bool average_case(run *r) {
    int64_t count = r->rows * r->width;
    hst_average_args args = {.count = count, .decay = has(r, 1) ? 0.9999 : 0.3};
    args.average = reals(r, count, -1, 1, 3 * D);
    args.w = draw(r, HST_F32, count, -1, 1)->values.data;
    return r->ctx->backend->average(r->ctx, &args);
}
Test(ops, average_matches) { sweep("average", average_case, 1, 1, 2); }

// ---- sums ----

// Flag 1: all elements; else flag 2: rows, flag 3: one of three planes at a time.
static bool sum_case(run *r) {
    int64_t n = has(r, 1) ? r->rows * r->width : has(r, 2) ? r->width : r->rows;
    hst_sum_args args = {.outer = has(r, 1)   ? 1
                                  : has(r, 2) ? r->rows
                                  : has(r, 3) ? 3
                                              : 1,
                         .rows = n,
                         .width = has(r, 1) || has(r, 2) ? 1 : r->width,
                         .factor = 1 / 7.0};
    args.x = in(r, 0, args.outer * args.rows * args.width, -1, 1);
    args.y = out(r, 1, args.outer * args.width, (double)(n * n) * D);
    return r->ctx->backend->sum(r->ctx, &args);
}
Test(ops, sum_matches) { sweep("sum", sum_case, 2, 3, 4); }

static bool square_sum_case(run *r) {
    int64_t count = r->rows * r->width;
    hst_source x = in(r, 0, count, -1, 1);
    double *sum = output(r, HST_F64, 1, 0, 0, (double)(count * count) * D), value;
    if (!r->ctx->backend->square_sum(r->ctx, &(hst_square_sum_args){count, x, &value})) return false;
    memcpy(sum, &value, sizeof value);
    return true;
}
Test(ops, square_sum_matches) { sweep("square_sum", square_sum_case, 1, 3, 0); }

// The product of two floats is exact in double, so both round once; the sum is that of the same numbers.
static bool unscale_case(run *r) {
    int64_t count = r->rows * r->width;
    hst_real *g = reals(r, count, -1, 1, EXACT);
    double *sum = output(r, HST_F64, 1, 0, 0, (double)(count * count) * D), value;
    double factor = has(r, 0) ? 0x1p-16 : (double)(1 / 3.0f);
    if (!r->ctx->backend->unscale(r->ctx, &(hst_unscale_args){count, g, factor, &value})) return false;
    memcpy(sum, &value, sizeof value);
    return true;
}
Test(ops, unscale_matches) { sweep("unscale", unscale_case, 1, 1, 1); }

// ---- rows ----

// eps = 0.01 keeps rstd below 10, so that x up to 2 normed is below 2 * 2 * 10; 8 roundings on the way. The variance is
// off by up to 4 width D, hence rstd = (variance + eps)^-1/2 by rstd^3 / 2 = 500 times that.
static bool norm_case(run *r) {
    hst_norm_args args = {.rows = r->rows, .width = r->width, .eps = 0.01};
    args.x = in(r, 0, r->rows * r->width, -2, 2);
    if (!has(r, 1)) args.gain = in(r, 1, r->width, -1, 1);
    if (!has(r, 2)) args.bias = in(r, 1, r->width, -1, 1);
    args.y = out(r, 2, r->rows * r->width, 8 * 40 * F);
    if (has(r, 3)) args.mean = output(r, HST_F64, r->rows, 0, 0, (double)r->width * 2 * D);
    if (has(r, 3)) args.rstd = output(r, HST_F64, r->rows, 0, 0, (double)r->width * 4 * 500 * D);
    args.rms = has(r, 4);
    return r->ctx->backend->norm(r->ctx, &args);
}
Test(ops, norm_matches) { sweep("norm", norm_case, 3, 3, 5); }

// With mean and rstd at most 1, n is at most 3: dx is at most 1 + 1 + 3 * 3, of 8 roundings; dgain has terms up to 3,
// rounded up to three times before they are summed in double.
static bool norm_grad_case(run *r) {
    int64_t rows = r->rows, width = r->width;
    hst_norm_grad_args args = {.rows = rows, .width = width};
    args.dy = in(r, 0, rows * width, -1, 1);
    args.x = in(r, 1, rows * width, -2, 2);
    if (!has(r, 1)) args.gain = in(r, 2, width, -1, 1);
    args.rms = has(r, 5);
    args.mean = output(r, HST_F64, rows, -1, 1, 0);
    args.rstd = output(r, HST_F64, rows, 0.5, 1, 0);
    if (!has(r, 2)) args.dx = out(r, 3, rows * width, 8 * 11 * F);
    if (!has(r, 3)) args.dgain = out(r, 4, width, (double)rows * 3 * 3 * F);
    if (!has(r, 4)) args.dbias = out(r, 4, width, (double)(rows * rows + 1) * D);
    return r->ctx->backend->norm_grad(r->ctx, &args);
}
Test(ops, norm_grad_matches) { sweep("norm_grad", norm_grad_case, 5, 3, 6); }

// Logits up to 8 and log width up to 6: a logsumexp up to 14, of which the exponentials' sum may be 8 roundings off.
static bool nll_case(run *r) {
    hst_nll_args args = {.rows = r->rows, .width = r->width};
    args.logits = in(r, 0, r->rows * r->width, -8, 8);
    args.targets = ids(r, r->rows, r->width < 256 ? r->width : 256);
    args.loss = reals(r, r->rows, 0, 0, (8 + 2 * 22) * F);
    args.logsumexp = output(r, HST_F64, r->rows, 0, 0, (8 + 14) * F);
    return r->ctx->backend->nll(r->ctx, &args);
}
Test(ops, nll_matches) { sweep("nll", nll_case, 1, 3, 3); }

// softmax = exp(x - logsumexp) is at most e^-1 here; its argument, up to 25, is rounded twice, and 8 roundings follow.
// It is multiplied by dloss, at most 1/2.
static bool nll_grad_case(run *r) {
    hst_nll_grad_args args = {.rows = r->rows, .width = r->width};
    args.logits = in(r, 0, r->rows * r->width, -8, 8);
    args.targets = ids(r, r->rows, r->width < 256 ? r->width : 256);
    args.dloss = in(r, 1, r->rows, -0.5, 0.5);
    args.logsumexp = output(r, HST_F64, r->rows, 9, 17, 0);
    args.dlogits = out(r, 2, r->rows * r->width, (2 * 25 + 8) * 0.5 * F);
    return r->ctx->backend->nll_grad(r->ctx, &args);
}
Test(ops, nll_grad_matches) { sweep("nll_grad", nll_grad_case, 3, 3, 3); }

// Flag 1: logits. Losses up to 100 (p = 1) are doubles of a few roundings until the last.
static bool bce_case(run *r) {
    hst_bce_args args = {.logits = has(r, 1), .count = r->rows * r->width};
    args.x = in(r, 0, args.count, args.logits ? -8 : 0, args.logits ? 8 : 1);
    args.targets = in(r, 1, args.count, 0, 1);
    args.loss = reals(r, args.count, 0, 0, 8 * 100 * D);
    return r->ctx->backend->bce(r->ctx, &args);
}
Test(ops, bce_matches) { sweep("bce", bce_case, 2, 3, 2); }

// s is up to 1, within 5 roundings; of p in 1/8 .. 7/8 slopes are up to 8, of 5 roundings. Two more follow, the
// product with dloss and the addition to a number up to 1.
static bool bce_grad_case(run *r) {
    hst_bce_grad_args args = {.logits = has(r, 1), .count = r->rows * r->width};
    args.x = in(r, 0, args.count, args.logits ? -8 : 0.125, args.logits ? 8 : 0.875);
    args.targets = in(r, 1, args.count, 0, 1);
    args.dloss = in(r, 2, args.count, -1, 1);
    args.dx = out(r, 3, args.count, (5 + 2) * (args.logits ? 2 : 9) * F);
    return r->ctx->backend->bce_grad(r->ctx, &args);
}
Test(ops, bce_grad_matches) { sweep("bce_grad", bce_grad_case, 4, 3, 2); }

// ---- recurrence ----

// Inputs are up to 1, v and v_steps together up to 0.5 and biases at most -2, so f <= s(-0.5) < 0.38. An error in c
// then shrinks from step to step: by f + |p - U0| f (1 - f) |v| <= f (2 - f) < 0.62, so it stays below 1 / (1 - 0.62) <
// 3 times what one step adds, about 16 roundings of numbers up to 2, and with tanh, whose slope is at most 1, 3 for
// tanh and 3 for 1 - a^2. Whatever the length: 3 * 22 * 2 F.
enum { SRU_ROUNDINGS = 3 * 22 };

static hst_sru_args sru_inputs(run *r) {
    int64_t length = r->rows, batch = 3, width = r->width;
    int64_t rows = length * batch, k = has(r, 1) ? 4 : 3;
    hst_sru_args args = {.length = length, .batch = batch, .width = width, .k = (int)k, .scale_x = 1.25};
    args.tanh = has(r, 7);
    if (has(r, 8)) args.backward_columns = (width + 1) / 2; // no vector begins there
    args.u = in(r, 0, rows * k * width, -1, 1);
    if (k == 3 && !has(r, 2)) args.x = in(r, 1, rows * width, -0.8, 0.8);
    if (!has(r, 3)) args.v = in(r, 2, 2 * width, -0.25, 0.25);
    if (!has(r, 9)) args.v_steps = in(r, 4, 2 * rows * width, -0.25, 0.25);
    args.bias = in(r, 2, 2 * width, -2.5, -2);
    if (!has(r, 4)) args.c0 = in(r, 3, batch * width, -1, 1);
    if (!has(r, 5)) args.mask = in(r, 4, batch * width, 0, 2);
    if (!has(r, 6)) args.pad = draw(r, HST_U8, rows, 0, 1.3)->values;
    return args;
}

static bool is_naive(const run *r) { return !strcmp(hst_isa(r->ctx), "naive"); }
static int64_t segments_of(const hst_sru_args *args) { return (args->length + HST_SRU_SEGMENT - 1) / HST_SRU_SEGMENT; }

static bool run_sru(run *r, bool upstream) {
    hst_sru_args args = sru_inputs(r);
    int64_t states = args.batch * args.width;
    args.h = out(r, 5, args.length * states, SRU_ROUNDINGS * 4 * F);
    if (has(r, 10)) args.c = reals(r, segments_of(&args) * states, 0, 0, SRU_ROUNDINGS * 2 * F);
    args.c_last = reals(r, states, 0, 0, SRU_ROUNDINGS * 2 * F);
    if (!upstream || is_naive(r)) return r->ctx->backend->sru(r->ctx, &args);
    hst_upstream_sru(&args);
    return true;
}
static bool sru_case(run *r) { return run_sru(r, false); }
Test(ops, sru_matches) { sweep("sru", sru_case, 6, 3, 11); }

// Backward in the same way: gc <= 2 r + g and g <= 0.62 gc + |gr vr| keep every gradient below 4; dv and dbias are sums
// of L B of them, each that far off, in double over blocks of at most 64 steps in f32.
static bool run_sru_grad(run *r, bool upstream) {
    hst_sru_grad_args args = {.forward = sru_inputs(r)};
    int64_t rows = args.forward.length * args.forward.batch, width = args.forward.width;
    int64_t states = args.forward.batch * width;
    double slack = SRU_ROUNDINGS * 4 * F, terms = upstream ? (double)rows : 64; // added in f32
    args.forward.c = reals(r, segments_of(&args.forward) * states, -1, 1, 0);   // any states will do
    if (!has(r, 10)) args.dh = in(r, 5, rows * width, -1, 1);
    if (!has(r, 11)) args.dc_last = in(r, 5, states, -1, 1);
    if (!has(r, 12)) args.du = out(r, 6, rows * args.forward.k * width, slack);
    if (args.forward.x.data && !has(r, 13)) args.dx = out(r, 6, rows * width, slack);
    if (args.forward.v.data && !has(r, 14)) args.dv = out(r, 7, 2 * width, (double)rows * (slack + terms * 4 * F));
    if (args.forward.v_steps.data && !has(r, 14)) args.dv_steps = out(r, 6, 2 * rows * width, slack);
    if (!has(r, 15)) args.dbias = out(r, 7, 2 * width, (double)rows * (slack + terms * 4 * F));
    if (args.forward.c0.data && !has(r, 15)) args.dc0 = out(r, 3, states, slack);
    if (!upstream || is_naive(r)) return r->ctx->backend->sru_grad(r->ctx, &args);
    hst_upstream_sru_grad(&args);
    return true;
}
static bool sru_grad_case(run *r) { return run_sru_grad(r, false); }
Test(ops, sru_grad_matches) { sweep("sru_grad", sru_grad_case, 8, 3, 16); }

// SRU's own kernel, whose 16-bit type is that of h: where h is f32 it has no other roundings than those counted above.
static bool upstream_case(run *r) { return run_sru(r, true); }
static bool upstream_grad_case(run *r) { return run_sru_grad(r, true); }
Test(ops, upstream_sru_in_f32_matches) { sweep("upstream_sru", upstream_case, 5, 3, 11); }
Test(ops, upstream_sru_grad_in_f32_matches) { sweep("upstream_sru_grad", upstream_grad_case, 8, 3, 16); }
