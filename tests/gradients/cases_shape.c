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

// ---- views ----

static hst_tensor *reshape_strided(hst_context *ctx, hst_tensor *const *x, void *user) { // (2, 3, 4) -> (4, 1, 3, 2)
    return (void)ctx, (void)user, hst_reshape(hst_transpose(x[0], 0, 2), 4, (int64_t[]){4, 1, 3, 2});
}
static hst_tensor *unsqueeze(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return (void)ctx, hst_unsqueeze(hst_transpose(x[0], 0, 1), c->option);
}
static hst_tensor *squeeze(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return (void)ctx, hst_squeeze(hst_slice(x[0], c->option, 1, 2), c->option);
}
static hst_tensor *broadcast_to(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_broadcast_to(x[0], 4, (int64_t[]){2, 3, 2, 4});
}
static hst_tensor *broadcast_turned(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_broadcast_to(hst_transpose(x[0], 0, 1), 3, (int64_t[]){2, 3, 4});
}
static hst_tensor *split(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    hst_tensor *parts[4];
    (void)ctx;
    hst_split(x[0], c->option, 4, (int64_t[]){2, 0, 1, 2}, parts);
    return hst_add(hst_scale(parts[0], 3), parts[3]); // the others have no gradient: zeros
}

// ---- cat, stack ----

static hst_tensor *cat(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return (void)ctx, hst_cat(3, (hst_tensor *[]){x[0], x[1], x[2]}, c->option);
}
static hst_tensor *cat_turned(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_cat(2, (hst_tensor *[]){hst_transpose(x[0], 0, 1), x[1]}, 1);
}
static hst_tensor *cat_twice(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_cat(3, (hst_tensor *[]){x[0], x[1], x[0]}, 0);
}
static hst_tensor *cat_constant(hst_context *ctx, hst_tensor *const *x, void *user) { // only the last wants a gradient
    hst_tensor *constant = hst_full(ctx, HST_F32, HST_SHAPE(3, 2), 1);
    return (void)user, hst_cat(3, (hst_tensor *[]){constant, constant, x[0]}, 1);
}
static hst_tensor *cat_many(hst_context *ctx, hst_tensor *const *x, void *user) { // 50: groups of groups
    const gradient_case *c = user;
    hst_tensor *all[50];
    (void)ctx;
    for (int i = 0; i < 50; i++) all[i] = i % 3 ? x[i % 2] : hst_scale(x[0], i);
    return c->option < 0 ? hst_stack(50, all, 1) : hst_cat(50, all, c->option);
}
static hst_tensor *stack(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return (void)ctx, hst_stack(3, (hst_tensor *[]){x[0], hst_transpose(x[1], 0, 1), x[0]}, c->option);
}

// ---- where ----

// The condition's extents are the option's digits, the last axis first; 9: no more axes.
static hst_tensor *condition(hst_context *ctx, int digits) {
    int64_t extent[3], axes[3];
    int rank = 0;
    for (; rank < 3 && digits % 10 != 9; digits /= 10) axes[rank++] = digits % 10;
    for (int i = 0; i < rank; i++) extent[i] = axes[rank - 1 - i];
    return with_ids(ctx, rank, extent, 3); // 0, 1 or 2
}
static hst_tensor *where(hst_context *ctx, hst_tensor *const *x, void *user) {
    return hst_where(condition(ctx, ((const gradient_case *)user)->option), x[0], x[1]);
}
static hst_tensor *where_turned(hst_context *ctx, hst_tensor *const *x, void *user) {
    hst_tensor *c = hst_transpose(condition(ctx, 943), 0, 1); // (4, 3), transposed
    return (void)user, hst_where(c, hst_transpose(x[0], 0, 1), x[1]);
}
static hst_tensor *where_itself(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_where(condition(ctx, 934), x[0], x[0]);
}
static hst_tensor *masked_fill(hst_context *ctx, hst_tensor *const *x, void *user) {
    return hst_masked_fill(x[0], condition(ctx, ((const gradient_case *)user)->option), -2.5);
}

// ---- take ----

static hst_tensor *take(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return hst_take(x[0], with_ids(ctx, 2, (int64_t[]){3, 4}, 3), c->option);
}
static hst_tensor *take_clipped(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    return hst_take_with(x[0], with_ids(ctx, 2, (int64_t[]){3, 4}, 9), c->option, HST_INDEX_CLIP);
}
static hst_tensor *take_turned(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)user, hst_take(hst_transpose(x[0], 0, 1), with_ids(ctx, 1, (int64_t[]){5}, 3), 1);
}
static hst_tensor *take_one(hst_context *ctx, hst_tensor *const *x, void *user) { // one id, no axis
    return (void)user, hst_take(x[0], with_ids(ctx, 0, NULL, 3), 1);
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
    {"reshape", "strided", reshape_strided, {{3, {2, 3, 4}}}, 0},
    {"reshape", "unsqueeze first", unsqueeze, {X34}, 0},
    {"reshape", "unsqueeze middle", unsqueeze, {X34}, 1},
    {"reshape", "unsqueeze last", unsqueeze, {X34}, -1},
    {"reshape", "squeeze first", squeeze, {{3, {2, 3, 4}}}, 0},
    {"reshape", "squeeze middle", squeeze, {{3, {2, 3, 4}}}, 1},
    {"reshape", "squeeze last", squeeze, {{3, {2, 3, 4}}}, -1},
    {"broadcast_to", "a missing axis, and inside", broadcast_to, {{3, {3, 1, 4}}}, 0},
    {"broadcast_to", "the last axis", broadcast_to, {{4, {1, 3, 2, 1}}}, 0},
    {"broadcast_to", "one element", broadcast_to, {{1, {1}}}, 0},
    {"broadcast_to", "the same shape", broadcast_to, {{4, {2, 3, 2, 4}}}, 0},
    {"broadcast_to", "turned", broadcast_turned, {{2, {4, 3}}}, 0},
    {"slice", "split first", split, {{2, {5, 4}}}, 0},
    {"slice", "split last", split, {{3, {2, 2, 5}}}, -1},
    {"cat", "first", cat, {{2, {2, 3}}, {2, {1, 3}}, {2, {3, 3}}}, 0},
    {"cat", "middle", cat, {{3, {2, 1, 3}}, {3, {2, 4, 3}}, {3, {2, 2, 3}}}, 1},
    {"cat", "last", cat, {{2, {3, 2}}, {2, {3, 1}}, {2, {3, 4}}}, -1},
    {"cat", "a vector", cat, {{1, {2}}, {1, {3}}, {1, {1}}}, 0},
    {"cat", "turned", cat_turned, {{2, {4, 3}}, {2, {3, 2}}}, 0},
    {"cat", "one tensor twice", cat_twice, {X34, {2, {1, 4}}}, 0},
    {"cat", "constants before it", cat_constant, {X34}, 0},
    {"cat", "many", cat_many, {{2, {2, 3}}, {2, {2, 3}}}, 1},
    {"cat", "stack of many", cat_many, {{2, {2, 3}}, {2, {2, 3}}}, -1},
    {"cat", "stack first", stack, {{2, {3, 4}}, {2, {4, 3}}}, 0},
    {"cat", "stack middle", stack, {{2, {3, 4}}, {2, {4, 3}}}, 1},
    {"cat", "stack last", stack, {{2, {3, 4}}, {2, {4, 3}}}, -1},
    {"where", "equal shapes", where, {X34, X34}, 934},
    {"where", "the condition is repeated inside", where, {{3, {2, 3, 4}}, {3, {2, 3, 4}}}, 214},
    {"where", "the condition is repeated outside", where, {{3, {2, 3, 4}}, {3, {2, 3, 4}}}, 94},
    {"where", "a row, a column", where, {{1, {4}}, {2, {3, 1}}}, 934},
    {"where", "one element, a batch", where, {{1, {1}}, {3, {2, 3, 4}}}, 934},
    {"where", "both repeated by the condition", where, {{2, {1, 4}}, {3, {2, 1, 1}}}, 234},
    {"where", "an axis in the middle", where, {{3, {2, 1, 4}}, {3, {2, 3, 4}}}, 9},
    {"where", "turned", where_turned, {{2, {4, 3}}, X34}, 0},
    {"where", "one tensor twice", where_itself, {X34}, 0},
    {"where", "masked_fill", masked_fill, {X34}, 934},
    {"where", "masked_fill, a row of the mask", masked_fill, {{3, {2, 3, 4}}}, 94},
    {"where", "masked_fill, a column of the mask", masked_fill, {{3, {2, 3, 4}}}, 231},
    {"take", "first", take, {{3, {3, 2, 2}}}, 0},
    {"take", "middle", take, {{3, {2, 4, 2}}}, 1},
    {"take", "last", take, {{3, {2, 2, 3}}}, -1},
    {"take", "a vector", take, {{1, {4}}}, 0},
    {"take", "clipped", take_clipped, {{3, {2, 4, 2}}}, 1},
    {"take", "clipped, of all elements", take_clipped, {X34}, HST_AXIS_NONE},
    {"take", "turned", take_turned, {X34}, 0},
    {"take", "one id", take_one, {{3, {2, 3, 4}}}, 0},
    {0}};
// clang-format on
