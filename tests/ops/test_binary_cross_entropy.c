// test_binary_cross_entropy.c: how exact the losses are, what the two operations make of the ends of the numbers, and
// what they refuse. PyTorch's numbers are in test_torch_fixture.c.
#include "ops/ops.h"
#include "tests/ops/isas.h"
#include "tests/tensor/expect.h"

// ---- accuracy ----

// In long double, where log(1 - p) and log(1 + e) have all digits of a double's.
static long double exact(bool logits, long double x, long double t) {
    if (logits) return (x > 0 ? x * (1 - t) : -x * t) + log1pl(expl(-fabsl(x)));
    return -(t * fmaxl(logl(x), -100) + (1 - t) * fmaxl(log1pl(-x), -100));
}

// Numbers of all sizes: p = 2^-k and 1 - 2^-k, x = 2^k and -2^k, in between too, with six targets.
static int64_t arguments(bool logits, float *x, float *t) {
    static const float targets[] = {0, 1, 0.5f, 0.1f, 0.999f, 0x1p-20f};
    int64_t count = 0;
    for (int k = logits ? -30 : 1; k <= (logits ? 10 : 149); k++)
        for (int j = 0; j < 24; j++) {
            float size = ldexpf(1 + (float)(j / 12) * 0.37f, logits ? k : -k);
            x[count] = j % 2 ? size : logits ? -size : 1 - size;
            t[count++] = targets[j / 2 % 6];
        }
    return count;
}

// A loss is formed in double and rounded once: half a place. In double it is a sum of two numbers of one sign: a
// logarithm within two roundings, 1 - t, a product and the sum.
static void check_accuracy(hst_context *ctx) {
    enum { MOST = 149 * 24 };
    static float x[MOST], t[MOST];
    static hst_real loss[MOST];
    for (int logits = 0; logits < 2; logits++) {
        int64_t count = arguments(logits, x, t);
        cr_assert_leq(count, MOST);
        hst_tensor *xs = hst_from_array(ctx, HST_F32, HST_SHAPE(count), HST_F32, x);
        hst_tensor *ts = hst_from_array(ctx, HST_F32, HST_SHAPE(count), HST_F32, t);
        hst_bce_args args = {
            .logits = logits, .count = count, .x = F32(hst_raw(xs)), .targets = F32(hst_raw(ts)), .loss = loss};
        cr_assert(ctx->backend->bce(ctx, &args));
        for (int64_t i = 0; i < count; i++) {
            double want = (double)exact(logits, x[i], t[i]);
            double allowed = (EPSILON / 2 + 5 * 0x1p-53) * fabs(want) + 0x1p-150; // half a place of subnormals
            cr_assert(fabs(loss[i] - want) <= allowed, "%s: loss of %s %a, target %a, is %a, not %a", hst_isa(ctx),
                      logits ? "logit" : "p", x[i], t[i], loss[i], want);
        }
    }
}
Test(ops, binary_cross_entropy_is_accurate) { for_each_isa(check_accuracy); }

// ---- edges ----

typedef struct edge {
    bool logits;
    double x, t, loss, slope;
} edge;

static const edge edges[] = {{false, 0, 0, 0, 0},
                             {false, 0, 1, 100, -1e12},
                             {false, 0, 0.5, 50, -0.5e12},
                             {false, 1, 1, 0, 0},
                             {false, 1, 0, 100, 1e12},
                             {false, 1, 0.25, 75, 0.75e12},
                             {false, 0x1p-149, 1, 100, -1e12},
                             {false, 0.5, 0.5, 0.69314718055994531, 0},
                             {false, -0.125, 0, NAN, -0.125e12}, // no probabilities
                             {false, 1.5, 1, NAN, 0.5e12},
                             {false, NAN, 0, NAN, NAN},
                             {false, 0.5, NAN, NAN, NAN},
                             {true, 0, 0.5, 0.69314718055994531, 0},
                             {true, 100, 1, 3.7200759760208361e-44, 0}, // exp(-100)
                             {true, -100, 0, 3.7200759760208361e-44, 0},
                             {true, 100, 0, 100, 1},
                             {true, -100, 1, 100, -1},
                             {true, 1e30, 0, 1e30, 1},
                             {true, 1e30, 1, 0, 0},
                             {true, -1e30, 0, 0, 0},
                             {true, -1e30, 1, 1e30, -1},
                             {true, INFINITY, 0.5, INFINITY, 0.5},
                             {true, -INFINITY, 0.5, INFINITY, -0.5},
                             {true, INFINITY, 1, NAN, 0}, // infinity times 0, as in PyTorch
                             {true, -INFINITY, 0, NAN, 0},
                             {true, NAN, 1, NAN, NAN},
                             {true, 1, NAN, NAN, NAN}};

// A loss is rounded once; a slope, of the size that is stated, five times (test_torch_fixture.c), its 10^-12 among
// them.
static void check_edges(hst_context *ctx) {
    enum { N = 19 };
    for (int i = 0; i < COUNT(edges); i++) {
        const edge *e = &edges[i];
        hst_real x[N], t[N], dloss[N], loss[N], dx[N];
        for (int j = 0; j < N; j++) x[j] = (hst_real)e->x, t[j] = (hst_real)e->t, dloss[j] = 1;
        hst_bce_args args = {.logits = e->logits, .count = N, .x = F32(x), .targets = F32(t), .loss = loss};
        hst_bce_grad_args grad = {
            .logits = e->logits, .count = N, .x = F32(x), .targets = F32(t), .dloss = F32(dloss), .dx = TO_F32(dx)};
        cr_assert(ctx->backend->bce(ctx, &args) && ctx->backend->bce_grad(ctx, &grad));
        for (int j = 0; j < N; j++) {
            char what[96];
            snprintf(what, sizeof what, "loss of %s %g, target %g", e->logits ? "logit" : "p", e->x, e->t);
            expect(ctx, what, loss[j], e->loss, EPSILON * fabs(e->loss) + (sizeof(hst_real) == 4 ? 0x1p-149 : 0));
            snprintf(what, sizeof what, "slope at %s %g, target %g", e->logits ? "logit" : "p", e->x, e->t);
            expect(ctx, what, dx[j], e->slope, 3 * EPSILON * fmax(fabs(e->slope), 1e-30));
        }
    }
}
Test(ops, binary_cross_entropy_at_its_edges) { for_each_isa(check_edges); }

// ---- dtypes, gradients, and what is refused ----

typedef hst_tensor *loss_function(hst_tensor *x, hst_tensor *targets);
static loss_function *const functions[] = {hst_binary_cross_entropy, hst_binary_cross_entropy_with_logits};

// Losses are f32 whatever is given, and what asked for a gradient of the targets gets none.
static void check_dtypes(hst_context *ctx) {
    for (int mix = 0; mix < 9; mix++)
        for (int f = 0; f < 2; f++) {
            hst_tensor *x = hst_full(ctx, (hst_dtype)(mix / 3), HST_SHAPE(2, 3), 0.5);
            hst_tensor *t = hst_full(ctx, (hst_dtype)(mix % 3), HST_SHAPE(2, 3), 1);
            hst_attach_grad(x, HST_WRITE, hst_dtype_of(x));
            hst_attach_grad(t, HST_WRITE, HST_F32);
            hst_tensor *losses = functions[f](x, t);
            cr_assert(losses, "%s", hst_error(ctx));
            cr_expect_eq(hst_dtype_of(losses), HST_F32);
            cr_assert_eq(hst_backward(ctx, hst_sum(losses)), HST_OK, "%s", hst_error(ctx));
            cr_expect_eq(hst_dtype_of(hst_grad(x)), hst_dtype_of(x));
            // Five roundings (test_torch_fixture.c), and half a place in x's dtype.
            double slope = f ? 1 / (1 + exp(-0.5)) - 1 : -2; // (p - 1) / (p (1 - p)) = -1 / p
            double places = (double[]){EPSILON, 0x1p-10, 0x1p-7}[mix / 3];
            expect(ctx, "gradient", hst_item(hst_grad(x), (int64_t[]){1, 2}), slope, 5 * EPSILON + places / 2);
            expect(ctx, "gradient of the targets", hst_item(hst_grad(t), (int64_t[]){1, 2}), 0, 0);
        }
    hst_tensor *none = hst_zeros(ctx, HST_F16, HST_SHAPE(0, 3));
    for (int f = 0; f < 2; f++) cr_expect_eq(hst_count(functions[f](none, none)), 0);
    cr_expect_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}
Test(ops, binary_cross_entropy_in_all_dtypes) { for_each_isa(check_dtypes); }

Test(ops, bad_arguments_of_binary_cross_entropy) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(2, 3), 0.5), *ids = hst_zeros(ctx, HST_I32, HST_SHAPE(2, 3));
    hst_tensor *row = hst_zeros(ctx, HST_F16, HST_SHAPE(3));
    cr_assert_null(hst_binary_cross_entropy(x, row));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE,
                    "binary_cross_entropy: argument targets is f16 (3); its shape should be (2, 3)");
    cr_assert_null(hst_binary_cross_entropy_with_logits(x, row));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE,
                    "binary_cross_entropy_with_logits: argument targets is f16 (3); its shape should be (2, 3)");
    cr_assert_null(hst_binary_cross_entropy(ids, x));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "binary_cross_entropy: argument p is i32 (2, 3); f32, f16 or bf16 is needed");
    cr_assert_null(hst_binary_cross_entropy_with_logits(ids, x));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "binary_cross_entropy_with_logits: argument logits is i32 (2, 3)");
    cr_assert_null(hst_binary_cross_entropy_with_logits(x, ids));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "binary_cross_entropy_with_logits: argument targets is i32 (2, 3)");
    cr_assert_null(hst_binary_cross_entropy(x, NULL));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "targets");
    hst_close(ctx);
}
