// test_kernels_lookup.c: lookups with all index modes, rows of sparse gradients and limits of norms against their naive
// twins; see test_kernels.c.
#include "tests/ops/twins.h"

// Ids from -40 to 39 into `rows` rows, or, for the modes that refuse some, only those that they take. Flags 1, 2: mode.
static hst_source any_ids(run *r, int64_t count, int64_t rows, hst_index_mode *mode) {
    static const int64_t low[] = {0, -1, -40, -40}, high[] = {1, 1, 40, 40};
    *mode = (hst_index_mode)(r->flags >> 1 & 3);
    bool bounded = *mode == HST_INDEX_RAISE || *mode == HST_INDEX_FROM_END;
    double n = bounded ? (double)rows : 1, from = (double)low[*mode] * n;
    array *a = draw(r, HST_F64, count, from, (double)high[*mode] * n);
    array *ids = draw(r, HST_I32, count, 0, 1);
    for (int64_t i = 0; i < count; i++)
        hst_store((hst_target){(void *)ids->values.data, HST_I32, false}, i, floor(hst_load(a->values, i)));
    return ids->values;
}

static bool lookup_case(run *r) {
    hst_lookup_args args = {.outer = 2, .rows = 13, .width = r->width, .count = r->rows, .what = "row"};
    args.table = in(r, 0, args.outer * args.rows * args.width, -1, 1);
    args.ids = any_ids(r, args.count, args.rows, &args.mode);
    args.y = out(r, 1, args.outer * args.count * args.width, has(r, 0) ? 2 * F : EXACT);
    return r->ctx->backend->lookup(r->ctx, &args);
}
Test(ops, lookup_in_all_modes_matches) { sweep("lookup", lookup_case, 2, 3, 3); }

// Flag 3: the mean; flag 4: a padding row; flag 5: few rows, of more than 256 terms each. Sums in double of n numbers
// up to 1, in another order: n^2 roundings of 1, and the same for the mean's quotients.
static bool grad_case(run *r) {
    int64_t rows = has(r, 5) ? 3 : 13, count = has(r, 5) ? 700 * 3 : r->rows;
    hst_lookup_grad_args args = {.outer = 2,
                                 .rows = rows,
                                 .width = r->width,
                                 .count = count,
                                 .mean = has(r, 3),
                                 .has_padding = has(r, 4),
                                 .padding = 1};
    if (has(r, 5) && args.width > 65) args.width = 65;
    args.dy = in(r, 0, args.outer * count * args.width, -1, 1);
    args.ids = any_ids(r, count, rows, &args.mode);
    args.dtable = out(r, 1, args.outer * rows * args.width, (double)(count * count + 1) * D);
    return r->ctx->backend->lookup_grad(r->ctx, &args);
}
Test(ops, lookup_grad_in_all_modes_matches) { sweep("lookup_grad", grad_case, 2, 3, 6); }

// Flag 3: padding; flag 4: some rows are there already. The outputs are integers, compared exactly.
static bool rows_case(run *r) {
    int64_t rows = 29, count = r->rows, most = count + 2, *unique_count;
    static const int64_t old[] = {3, 17};
    hst_lookup_rows_args args = {.rows = rows,
                                 .count = count,
                                 .has_padding = has(r, 3),
                                 .padding = 3,
                                 .old = old,
                                 .old_count = has(r, 4) ? 2 : 0};
    args.ids = any_ids(r, count, rows, &args.mode);
    args.unique = output(r, HST_I64, most, 0, 1, EXACT);
    args.numbers = output(r, HST_I64, count, 0, 1, EXACT);
    unique_count = output(r, HST_I64, 1, 0, 1, EXACT);
    memset(args.unique, 0, (size_t)most * sizeof *args.unique);
    args.unique_count = unique_count;
    return r->ctx->backend->lookup_rows(r->ctx, &args);
}
Test(ops, lookup_rows_matches) { sweep("lookup_rows", rows_case, 1, 3, 5); }

// Numbers up to 1 times a factor that n + 8 roundings in double may move, then rounded to the table's dtype.
static bool limit_case(run *r) {
    static const double powers[] = {2, 1, 3.5, INFINITY};
    hst_lookup_limit_args args = {.rows = 13,
                                  .width = r->width,
                                  .count = r->rows,
                                  .what = "row",
                                  .limit = 0.9,
                                  .power = powers[r->flags >> 3 & 3]};
    args.ids = any_ids(r, args.count, args.rows, &args.mode);
    args.table = out(r, 0, args.rows * args.width, (double)(args.width + 8) * D);
    args.table.add = false;
    return r->ctx->backend->lookup_limit(r->ctx, &args);
}
Test(ops, lookup_limit_matches) { sweep("lookup_limit", limit_case, 1, 3, 5); }

// Results of more than 16 MB go past the caches, and must be those of smaller ones: here 2^13 rows of 1024.
static void check_large(hst_context *ctx) {
    enum { ROWS = 8192, WIDTH = 1024, COUNT = 5 };
    static const int32_t ids[COUNT] = {8191, 0, 4000, 0, 4000};
    static float dy[COUNT * WIDTH];
    for (int i = 0; i < COUNT * WIDTH; i++) dy[i] = (float)(i % 977);
    float *table = hst_workspace(ctx, (size_t)ROWS * WIDTH * sizeof *table);
    cr_assert(table);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) table[i] = 7;
    hst_lookup_grad_args args = {.outer = 1,
                                 .rows = ROWS,
                                 .width = WIDTH,
                                 .count = COUNT,
                                 .dy = {dy, HST_F32},
                                 .ids = {ids, HST_I32},
                                 .dtable = {table, HST_F32, false}};
    cr_assert(ctx->backend->lookup_grad(ctx, &args));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t j = 0; j < WIDTH; j++) {
            double want = r == 8191   ? dy[j]
                          : r == 0    ? dy[WIDTH + j] + dy[3 * WIDTH + j]
                          : r == 4000 ? dy[2 * WIDTH + j] + dy[4 * WIDTH + j]
                                      : 0;
            if (table[r * WIDTH + j] != want) expect(ctx, "an element", table[r * WIDTH + j], want, 0);
        }
    int32_t *all = hst_workspace(ctx, ROWS * sizeof *all);
    float *y = hst_workspace(ctx, (size_t)ROWS * WIDTH * sizeof *y);
    cr_assert(all && y);
    for (int32_t i = 0; i < ROWS; i++) all[i] = ROWS - 1 - i;
    hst_lookup_args look = {.outer = 1,
                            .rows = ROWS,
                            .width = WIDTH,
                            .count = ROWS,
                            .what = "row",
                            .table = {table, HST_F32},
                            .ids = {all, HST_I32},
                            .y = {y, HST_F32, false}};
    cr_assert(ctx->backend->lookup(ctx, &look));
    for (int64_t r = 0; r < ROWS; r++)
        cr_assert_eq(memcmp(y + r * WIDTH, table + (ROWS - 1 - r) * WIDTH, WIDTH * sizeof *y), 0, "row %lld",
                     (long long)r);
    hst_workspace_free(ctx, y), hst_workspace_free(ctx, all), hst_workspace_free(ctx, table);
}
Test(ops, lookups_larger_than_the_caches) { for_each_isa(check_large); }
