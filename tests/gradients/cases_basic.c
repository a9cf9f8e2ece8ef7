// cases_basic.c: products, lookups, norms, losses and views.
#include "tests/gradients/cases.h"

static hst_tensor *linear(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    hst_tensor *w = c->option & 1 ? hst_transpose(x[1], 0, 1) : x[1];
    hst_tensor *in = c->option & 4 ? hst_transpose(x[0], 0, 1) : x[0];
    return hst_linear(in, w, c->option & 2 ? x[2] : NULL);
}
static hst_tensor *square(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_linear(x[0], x[0], NULL);
}
static hst_tensor *embedding(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_embedding(x[0], with_ids(ctx, 2, (int64_t[]){3, 4}, 5));
}
// Option 1: padding; 4: ids that wrap around.
static hst_tensor *embedding_with(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    hst_embedding_options o = hst_embedding_defaults();
    if (c->option & 1) o.padding_index = hst_dim(x[0], 0) - 1; // no id names it: a padding row's gradient is no slope
    if (c->option & 4) o.mode = HST_INDEX_WRAP;
    return hst_embedding_with(x[0], with_ids(ctx, 2, (int64_t[]){3, 4}, c->option & 4 ? 20 : 5), &o);
}
static hst_tensor *norm(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    return hst_layer_norm(x[0], c->option & 1 ? x[1] : NULL, c->option & 2 ? x[2] : NULL, c->option & 4 ? 0.5 : 1e-5);
}
static hst_tensor *dropout(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_dropout(x[0], 0.4);
}
static hst_tensor *variational_dropout(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_variational_dropout(x[0], 0.4);
}
static hst_tensor *scale(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_scale(x[0], -1.75);
}
static hst_tensor *cast(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_cast(hst_transpose(x[0], 0, 1), HST_F32);
}
static hst_tensor *token_losses(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_token_losses(x[0], with_ids(ctx, 2, (int64_t[]){3, 2}, 5));
}
static hst_tensor *cross_entropy(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_cross_entropy(x[0], with_ids(ctx, 2, (int64_t[]){3, 2}, 5));
}
static hst_tensor *linear_cross_entropy(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return hst_linear_cross_entropy(x[0], x[1], c->option ? x[2] : NULL, with_ids(ctx, 2, (int64_t[]){3, 2}, 5));
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

// clang-format off
const gradient_case cases_basic[] = {
    {"linear", "matrix", linear, {X34, {2, {4, 5}}}, 0},
    {"linear", "bias, three dimensions", linear, {{3, {2, 3, 4}}, {2, {4, 1}}, {1, {1}}}, 2},
    {"linear", "w transposed", linear, {X34, {2, {5, 4}}, {1, {5}}}, 3},
    {"linear", "x transposed", linear, {{2, {4, 3}}, {2, {4, 5}}, {1, {5}}}, 6},
    {"linear", "a vector", linear, {{1, {4}}, {2, {4, 5}}}, 0},
    {"linear", "one tensor twice", square, {{2, {3, 3}}}, 0},
    {"embedding", "repeated and unused rows", embedding, {{2, {7, 3}}}, 0},
    {"embedding", "a padding row", embedding_with, {{2, {7, 3}}}, 1},
    {"embedding", "ids that wrap", embedding_with, {{2, {7, 3}}}, 4},
    {"layer_norm", "plain", norm, {X34}, 0},
    {"layer_norm", "gain and bias", norm, {{3, {2, 2, 5}}, {1, {5}}, {1, {5}}}, 3},
    {"layer_norm", "gain, large eps", norm, {X34, {1, {4}}}, 5},
    {"layer_norm", "bias", norm, {X34, {1, {4}}, {1, {4}}}, 2},
    {"dropout", "0.4", dropout, {{2, {5, 7}}}, 0},
    {"dropout", "one mask for all steps", variational_dropout, {{3, {3, 2, 5}}}, 0},
    {"scale", "negative", scale, {X34}, 0},
    {"cast", "a strided view", cast, {X34}, 0},
    {"token_losses", "rows", token_losses, {{3, {3, 2, 5}}}, 0},
    {"token_losses", "mean", cross_entropy, {{3, {3, 2, 5}}}, 0},
    {"linear_cross_entropy", "bias", linear_cross_entropy, {{3, {3, 2, 4}}, {2, {5, 4}}, {1, {5}}}, 1},
    {"linear_cross_entropy", "no bias", linear_cross_entropy, {{3, {3, 2, 4}}, {2, {5, 4}}}, 0},
    {"reshape", "-1", reshape, {{3, {2, 2, 4}}}, 0},
    {"slice", "overlapping", slice, {X34}, 0},
    {"transpose", "first and last", transpose, {{3, {2, 3, 4}}}, 0},
    {0}};
// clang-format on
