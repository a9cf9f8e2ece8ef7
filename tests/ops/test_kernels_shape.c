// test_kernels_shape.c: the kernels that move elements against their naive twins; see test_kernels.c.
#include "tests/ops/twins.h"

// ---- lookup ----

// Flags 1, 2: the dtype of the ids. Flag 3: several tables. Added: one more rounding of a number up to 2.
static bool lookup_case(run *r) {
    hst_lookup_args args = {.outer = has(r, 3) ? 3 : 1, .rows = 29, .width = r->width, .count = r->rows, .what = "row"};
    args.table = in(r, 0, args.outer * args.rows * args.width, -1, 1);
    args.ids = ids(r, args.count, args.rows);
    args.y = out(r, 1, args.outer * args.count * args.width, has(r, 0) ? 2 * F : EXACT);
    return r->ctx->backend->lookup(r->ctx, &args);
}
Test(ops, lookup_matches) { sweep("lookup", lookup_case, 2, 3, 4); }

static bool lookup_grad_case(run *r) {
    hst_lookup_grad_args args = {
        .outer = has(r, 4) ? 5 : 1, .rows = has(r, 3) ? 3 : 29, .width = r->width, .count = r->rows};
    args.dy = in(r, 0, args.outer * args.count * args.width, -1, 1);
    args.ids = ids(r, args.count, args.rows);
    args.dtable = out(r, 1, args.outer * args.rows * args.width, (double)(args.count * args.count + 1) * D);
    return r->ctx->backend->lookup_grad(r->ctx, &args);
}
Test(ops, lookup_grad_matches) { sweep("lookup_grad", lookup_grad_case, 2, 3, 5); }

// The last axis: tables of one column, of which a thread takes many.
static bool last_axis_case(run *r) {
    hst_lookup_grad_args args = {.outer = r->rows * 5, .rows = 7, .width = 1, .count = r->width};
    args.dy = in(r, 0, args.outer * args.count, -1, 1);
    args.ids = ids(r, args.count, args.rows);
    args.dtable = out(r, 1, args.outer * args.rows, (double)(args.count * args.count + 1) * D);
    return r->ctx->backend->lookup_grad(r->ctx, &args);
}
Test(ops, lookup_grad_of_single_columns_matches) { sweep("lookup_grad", last_axis_case, 2, 3, 3); }

// Every dtype of the result.
static bool one_hot_case(run *r) {
    hst_one_hot_args args = {.count = r->rows, .classes = r->width < 250 ? r->width : 250, .what = "class"};
    hst_dtype dtype = dtype_of(r, 0);
    args.ids = ids(r, args.count, args.classes);
    args.y = (hst_target){output(r, dtype, args.count * args.classes, 0, 9, EXACT), dtype, false};
    return r->ctx->backend->one_hot(r->ctx, &args);
}
Test(ops, one_hot_matches) { sweep("one_hot", one_hot_case, 1, HST_DTYPES, 3); }

// ---- select ----

// An operand over the space (3, rows, width): whole, or without one of the axes, or one element; or whole, but with the
// last two axes exchanged in memory. `form` is 0 .. 5. Returns how many elements it has.
static int64_t operand_form(const run *r, int form, int64_t *stride) {
    const int64_t shape[] = {3, r->rows, r->width};
    static const int order[][3] = {{0, 1, 2}, {-1, 1, 2}, {0, -1, 2}, {0, 1, -1}, {-1, -1, -1}, {0, 2, 1}};
    int64_t count = 1;
    for (int i = 2; i >= 0; i--) {
        int axis = order[form][i];
        if (axis < 0) continue;
        stride[axis] = count;
        count *= shape[axis];
    }
    return count;
}

static hst_source condition(run *r, int64_t count) {
    static const hst_dtype dtypes[] = {HST_U8, HST_I32, HST_I64, HST_U8};
    return draw(r, dtypes[r->flags >> 1 & 3], count, 0, 2)->values;
}

// Flags 1, 2: the dtype of the condition. Three more for each operand: its form.
static bool select_case(run *r) {
    hst_select_args args = {.rank = 3, .shape = {3, r->rows, r->width}};
    args.c = condition(r, operand_form(r, (int)(r->flags >> 3 & 7) % 6, args.c_stride));
    args.a = in(r, 0, operand_form(r, (int)(r->flags >> 6 & 7) % 6, args.a_stride), -1, 1);
    args.b = in(r, 1, operand_form(r, (int)(r->flags >> 9 & 7) % 6, args.b_stride), -1, 1);
    args.y = out(r, 2, 3 * r->rows * r->width, has(r, 0) ? 2 * F : EXACT);
    return r->ctx->backend->select(r->ctx, &args);
}
Test(ops, select_matches) { sweep("select", select_case, 3, 3, 12); }

// d has one of the first five forms. A sum of n terms in double, in another order.
static bool select_grad_case(run *r) {
    hst_select_grad_args args = {.rank = 3, .shape = {3, r->rows, r->width}, .when = has(r, 9)};
    int64_t count = 3 * r->rows * r->width;
    int64_t chosen = operand_form(r, (int)(r->flags >> 3 & 7) % 6, args.c_stride);
    args.c = condition(r, chosen);
    args.dy = in(r, 0, count, -1, 1);
    int64_t size = operand_form(r, (int)(r->flags >> 6 & 7) % 5, args.d_stride), terms = count / size + 1;
    args.d = out(r, 1, size, (double)(terms * terms) * D);
    return r->ctx->backend->select_grad(r->ctx, &args);
}
Test(ops, select_grad_matches) { sweep("select_grad", select_grad_case, 2, 3, 10); }
