// test_gradients.c: every row of the op table against central differences, in the double build, where an f32 tensor
// holds doubles. The bar is 1e-7 norm-wise: with h = cbrt(2^-52) the truncation error is near h^2 = 4e-11 of the third
// derivative and the rounding error near 2^-52 / h = 4e-11, so three digits are left for the functions themselves.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "ops/ops.h"
#include "ops/table.h"
#include "models/models.h"

typedef struct shape {
    int rank;
    int64_t extent[3];
} shape;

// One case: the operation it exercises, how many leaves of which shapes, and the function with its options.
typedef struct gradient_case {
    const char *op, *what;
    hst_tensor *(*f)(hst_context *ctx, hst_tensor *const *x, void *user);
    shape leaves[6];
    int option;
} gradient_case;

static hst_tensor *with_ids(hst_context *ctx, int rank, const int64_t *extent, int64_t below) {
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = (int32_t)((i * 7 + 3) % below);
    return hst_from_array(ctx, HST_I32, rank, extent, HST_I32, ids);
}

static hst_tensor *linear(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    hst_tensor *w = c->option & 1 ? hst_transpose(x[1], 0, 1) : x[1];
    hst_tensor *in = c->option & 4 ? hst_transpose(x[0], 0, 1) : x[0];
    return hst_linear(in, w, c->option & 2 ? x[2] : NULL);
}
static hst_tensor *square(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_matmul(x[0], x[0]);
}
static hst_tensor *embedding(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_embedding(x[0], with_ids(ctx, 2, (int64_t[]){3, 4}, 5));
}
static hst_tensor *norm(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    return hst_layer_norm(x[0], c->option & 1 ? x[1] : NULL, c->option & 2 ? x[2] : NULL, c->option & 4 ? 0.5 : 1e-5);
}
static hst_tensor *dropout(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_dropout(x[0], 0.4);
}
static hst_tensor *add(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_add(x[0], x[1]);
}
static hst_tensor *add_itself(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_add(x[0], x[0]);
}
static hst_tensor *scale(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_scale(x[0], -1.75);
}
static hst_tensor *cast(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_cast(hst_transpose(x[0], 0, 1), HST_F32);
}
static hst_tensor *sum(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_sum(x[0]);
}
static hst_tensor *mean(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_mean(x[0]);
}
static hst_tensor *token_losses(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_token_losses(x[0], with_ids(ctx, 2, (int64_t[]){3, 2}, 5));
}
static hst_tensor *cross_entropy(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_cross_entropy(x[0], with_ids(ctx, 2, (int64_t[]){3, 2}, 5));
}
static hst_tensor *reshape(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_reshape(x[0], 2, (int64_t[]){-1, 4});
}
static hst_tensor *slice(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_add(hst_slice(x[0], 1, 1, 3), hst_slice(x[0], 1, 0, 2)); // overlapping uses
}
static hst_tensor *transpose(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_transpose(x[0], 0, -1);
}

enum { SKIP = 1, GATES = 2, STATE = 4, MASK = 8, PAD = 16, LAST = 32, FOUR = 64, SCALED = 128 };

// L 5, B 2, D 3. Leaves: u, x, v, bias, c0.
static hst_tensor *recurrence(hst_context *ctx, hst_tensor *const *x, void *user) {
    int o = ((const gradient_case *)user)->option;
    static const uint8_t pads[10] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 1}; // front, middle and end
    hst_tensor *mask =
        o & MASK ? hst_from_array(ctx, HST_F32, HST_SHAPE(2, 3), HST_F64, (double[]){2, 0, 1, 0, 1.25, 0.5}) : NULL;
    hst_tensor *pad = o & PAD ? hst_from_array(ctx, HST_U8, HST_SHAPE(5, 2), HST_U8, pads) : NULL, *c_last;
    hst_recurrence options = {o & FOUR ? 4 : 3, o & SCALED ? 1.7 : 1.0};
    hst_tensor *h = hst_sru_recurrence(x[0], o & SKIP ? x[1] : NULL, o & GATES ? x[2] : NULL, x[3],
                                       o & STATE ? x[4] : NULL, mask, pad, options, &c_last);
    if (!(o & LAST)) return h;
    return hst_add(hst_sum(h), hst_scale(hst_mean(c_last), 3)); // both results used
}

// clang-format off
#define X34 {2, {3, 4}}
#define SRU(option, planes) \
    {"sru_recurrence", #option, recurrence, {{3, {5, 2, 3 * planes}}, {3, {5, 2, 3}}, {1, {6}}, {1, {6}}, {2, {2, 3}}}, option}
// clang-format on

static const gradient_case cases[] = {
    {"linear", "matrix", linear, {X34, {2, {4, 5}}}, 0},
    {"linear", "bias, three dimensions", linear, {{3, {2, 3, 4}}, {2, {4, 1}}, {1, {1}}}, 2},
    {"linear", "w transposed", linear, {X34, {2, {5, 4}}, {1, {5}}}, 3},
    {"linear", "x transposed", linear, {{2, {4, 3}}, {2, {4, 5}}, {1, {5}}}, 6},
    {"linear", "a vector", linear, {{1, {4}}, {2, {4, 5}}}, 0},
    {"linear", "one tensor twice", square, {{2, {3, 3}}}, 0},
    {"embedding", "repeated and unused rows", embedding, {{2, {7, 3}}}, 0},
    {"layer_norm", "plain", norm, {X34}, 0},
    {"layer_norm", "gain and bias", norm, {{3, {2, 2, 5}}, {1, {5}}, {1, {5}}}, 3},
    {"layer_norm", "gain, large eps", norm, {X34, {1, {4}}}, 5},
    {"layer_norm", "bias", norm, {X34, {1, {4}}, {1, {4}}}, 2},
    {"dropout", "0.4", dropout, {{2, {5, 7}}}, 0},
    {"add", "two", add, {X34, X34}, 0},
    {"add", "one twice", add_itself, {X34}, 0},
    {"scale", "negative", scale, {X34}, 0},
    {"cast", "a strided view", cast, {X34}, 0},
    {"sum", "all", sum, {{3, {2, 3, 4}}}, 0},
    {"mean", "all", mean, {{3, {2, 3, 4}}}, 0},
    {"token_losses", "rows", token_losses, {{3, {3, 2, 5}}}, 0},
    {"token_losses", "mean", cross_entropy, {{3, {3, 2, 5}}}, 0},
    {"reshape", "-1", reshape, {{3, {2, 2, 4}}}, 0},
    {"slice", "overlapping", slice, {X34}, 0},
    {"transpose", "first and last", transpose, {{3, {2, 3, 4}}}, 0},
    SRU(0, 3),
    SRU(SKIP, 3),
    SRU(GATES, 3),
    SRU(SKIP | GATES, 3),
    SRU(SKIP | GATES | STATE, 3),
    SRU(SKIP | GATES | STATE | SCALED, 3),
    SRU(SKIP | GATES | STATE | MASK, 3),
    SRU(SKIP | GATES | STATE | PAD, 3),
    SRU(SKIP | GATES | STATE | MASK | PAD | LAST | SCALED, 3),
    SRU(GATES | STATE | MASK | PAD | LAST, 3),
    SRU(FOUR, 4),
    SRU(FOUR | GATES | STATE, 4),
    SRU(FOUR | GATES | STATE | MASK | PAD | LAST, 4),
    SRU(LAST, 3),
};
enum { CASES = sizeof cases / sizeof *cases };

static double error_of(const gradient_case *c) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 7, .threads = 1});
    hst_tensor *leaves[6];
    int count = 0;
    for (; count < 6 && c->leaves[count].rank > 0; count++)
        leaves[count] = hst_uniform(ctx, HST_F32, c->leaves[count].rank, c->leaves[count].extent, -1.5, 1.5);
    double error = 1;
    hst_status status = hst_gradcheck(ctx, c->f, (void *)c, count, leaves, &error);
    cr_expect(status == HST_OK, "%s, %s: %s", c->op, c->what, hst_error(ctx));
    hst_close(ctx);
    return error;
}

Test(gradients, every_operation_and_option) {
    cr_assert(hst_dtype_size(HST_F32) == 8, "this suite is meant for the double build");
    for (int i = 0; i < CASES; i++) {
        double error = error_of(&cases[i]);
        cr_expect(error < 1e-7, "%s, %s: relative error %g", cases[i].op, cases[i].what, error);
    }
}

Test(gradients, every_row_of_the_op_table_has_a_case) {
    for (int row = 0; row < hst_op_count; row++) {
        bool found = !hst_op_table[row]->backward;
        for (int i = 0; i < CASES; i++) found |= !strcmp(cases[i].op, hst_op_table[row]->name);
        cr_expect(found, "%s has a gradient and no case here", hst_op_table[row]->name);
    }
}

// A whole model: every parameter of a two-layer language model with everything on.
static hst_tensor *model_loss(hst_context *ctx, hst_tensor *const *x, void *user) {
    (void)x;
    hst_tensor *c, *logits = hst_lm_forward(user, with_ids(ctx, 2, (int64_t[]){4, 2}, 6), NULL, true, &c);
    return hst_cross_entropy(logits, with_ids(ctx, 2, (int64_t[]){4, 2}, 5));
}

Test(gradients, the_language_model) {
    for (int tied = 0; tied < 2; tied++) {
        hst_context *ctx = hst_open(NULL);
        hst_lm *model = hst_lm_new(ctx, &(hst_lm_config){6, 3, 2, 0.3, -1, true, true, tied});
        hst_parameters *list = hst_lm_parameters(model);
        hst_tensor *leaves[32];
        int count = hst_parameter_count(list);
        // The initial embedding is so small (0.1) that the layer norm behind it bends within a few steps of the
        // differences.
        double table[18];
        for (int i = 0; i < 18; i++) table[i] = (i * 5 % 18) / 9.0 - 1;
        hst_copy_in(hst_parameter_value(list, 0), HST_F64, table);
        for (int i = 0; i < count; i++) leaves[i] = hst_parameter_value(list, i);
        double error = 1;
        hst_gradcheck(ctx, model_loss, model, count, leaves, &error);
        cr_expect(hst_get_status(ctx) == HST_OK, "%s", hst_error(ctx));
        cr_expect(error < 1e-7, "relative error %g", error);
        hst_lm_free(model);
        hst_close(ctx);
    }
}

// The checker itself must be able to fail: a function whose gradient is cut off in the middle has a wrong one.
static hst_tensor *detached(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_add(x[0], hst_detach(hst_scale(x[0], 2)));
}

Test(gradients, a_wrong_gradient_is_found) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(3, 4), -1, 1);
    double error = 0;
    hst_gradcheck(ctx, detached, NULL, 1, &x, &error);
    cr_expect(error > 0.5, "%g", error); // analytic 1, numeric 3
    hst_close(ctx);
}
