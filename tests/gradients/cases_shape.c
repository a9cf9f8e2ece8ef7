// cases_shape.c: products in all their forms, and the operations that move elements.
#include "tests/gradients/cases.h"

// ---- matmul: bit 0 of the option turns a, bit 1 b; both are stored with the first and last axes exchanged ----

static hst_tensor *matmul(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    return hst_matmul(c->option & 1 ? hst_transpose(x[0], 0, -1) : x[0],
                      c->option & 2 ? hst_transpose(x[1], 0, -1) : x[1]);
}
static hst_tensor *matmul_itself(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_matmul(x[0], hst_transpose(x[0], 0, 1));
}
static hst_tensor *matmul_heads(hst_context *ctx, hst_tensor *const *x, void *user) { // (L, B, heads, width) scores
    hst_tensor *q = hst_transpose(x[0], 0, 2), *k = hst_transpose(x[1], 0, 2);
    return (void)ctx, (void)user, hst_matmul(q, hst_transpose(k, 2, 3));
}

// clang-format off
const gradient_case cases_shape[] = {
    {"matmul", "matrices", matmul, {X34, {2, {4, 5}}}, 0},
    {"matmul", "a turned", matmul, {{2, {4, 3}}, {2, {4, 5}}}, 1},
    {"matmul", "b turned", matmul, {X34, {2, {5, 4}}}, 2},
    {"matmul", "both turned", matmul, {{2, {4, 3}}, {2, {5, 4}}}, 3},
    {"matmul", "a row", matmul, {{1, {4}}, {2, {4, 5}}}, 0},
    {"matmul", "a column", matmul, {X34, {1, {4}}}, 0},
    {"matmul", "two vectors", matmul, {{1, {4}}, {1, {4}}}, 0},
    {"matmul", "rows of a batch, b a matrix", matmul, {{3, {2, 3, 4}}, {2, {4, 5}}}, 0},
    {"matmul", "a turned batch, b a matrix", matmul, {{3, {4, 3, 2}}, {2, {4, 5}}}, 1},
    {"matmul", "a a matrix, b a batch", matmul, {X34, {3, {2, 4, 5}}}, 0},
    {"matmul", "equal batches", matmul, {{3, {2, 3, 4}}, {3, {2, 4, 5}}}, 0},
    {"matmul", "equal batches, turned", matmul, {{3, {4, 3, 2}}, {3, {5, 4, 2}}}, 3},
    {"matmul", "b repeated inside", matmul, {{4, {2, 2, 3, 4}}, {4, {2, 1, 4, 2}}}, 0},
    {"matmul", "b repeated outside", matmul, {{4, {2, 2, 3, 4}}, {3, {2, 4, 2}}}, 0},
    {"matmul", "each repeated", matmul, {{4, {2, 1, 3, 4}}, {3, {3, 4, 2}}}, 0},
    {"matmul", "a batch and a column", matmul, {{3, {2, 3, 4}}, {1, {4}}}, 0},
    {"matmul", "a row and a batch", matmul, {{1, {4}}, {3, {2, 4, 5}}}, 0},
    {"matmul", "one element", matmul, {{2, {1, 1}}, {2, {1, 1}}}, 0},
    {"matmul", "one tensor twice", matmul_itself, {X34}, 0},
    {"matmul", "heads", matmul_heads, {{4, {3, 2, 2, 2}}, {4, {3, 2, 2, 2}}}, 0},
    {0}};
// clang-format on
