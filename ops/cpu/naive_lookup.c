// naive_lookup.c: the naive kernels of lookups: rows of a table, the scatter-add of the gradient, which rows it has,
// and the limit of their norms.
#include "ops/cpu/naive.h"

#include <math.h>
#include <string.h>

bool KERNEL(lookup)(hst_context *ctx, const hst_lookup_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->mode, args->count, args->rows)) return false;
    for (int64_t o = 0; o < args->outer; o++)
        for (int64_t i = 0; i < args->count; i++) {
            int64_t row = o * args->rows + hst_entry_at(args->ids, args->mode, args->rows, i);
            int64_t from = row * args->width, to = (o * args->count + i) * args->width;
            for (int64_t j = 0; j < args->width; j++) put(args->y, to + j, hst_load(args->table, from + j));
        }
    return true;
}

// y[o][i][j] = table[o][ids[i]][j], hence dtable[o][r][j] = sum of dy[o][i][j] over the i with ids[i] = r. All sums
// grow side by side, in double, and each is rounded once.
static void add_terms(const hst_lookup_grad_args *a, const int64_t *used, double *sum) {
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t i = 0; i < a->count; i++) {
            int64_t row = hst_entry_at(a->ids, a->mode, a->rows, i);
            if (row < 0 || row >= a->rows || used[row] == 0) continue;
            for (int64_t j = 0; j < a->width; j++) {
                double *at = &sum[(o * a->rows + row) * a->width + j];
                double term = hst_load(a->dy, (o * a->count + i) * a->width + j);
                *at = add(a->dtable.dtype, *at, a->mean ? term / (double)used[row] : term);
            }
        }
}

bool KERNEL(lookup_grad)(hst_context *ctx, const hst_lookup_grad_args *args) {
    int64_t size = args->outer * args->rows * args->width;
    double *sum = hst_workspace(ctx, (size_t)size * sizeof *sum);
    int64_t *used = hst_workspace(ctx, (size_t)args->rows * sizeof *used); // how often each row was
    bool done = sum && used;
    if (done) {
        memset(used, 0, (size_t)args->rows * sizeof *used);
        for (int64_t i = 0; i < args->count; i++) {
            int64_t row = hst_entry_at(args->ids, args->mode, args->rows, i);
            if (row >= 0 && row < args->rows && !(args->has_padding && row == args->padding)) used[row]++;
        }
        for (int64_t i = 0; i < size; i++) sum[i] = start(args->dtable, i);
        add_terms(args, used, sum);
        for (int64_t i = 0; i < size; i++) finish(args->dtable, i, sum[i]);
    }
    hst_workspace_free(ctx, used);
    hst_workspace_free(ctx, sum);
    return done;
}

// Whether `row` is one of old[count], and whether an id names it.
static bool is_old(const hst_lookup_rows_args *a, int64_t row) {
    for (int64_t i = 0; i < a->old_count; i++)
        if (a->old[i] == row) return true;
    return false;
}
static bool is_named(const hst_lookup_rows_args *a, int64_t row) {
    for (int64_t i = 0; i < a->count; i++)
        if (hst_entry_at(a->ids, a->mode, a->rows, i) == row) return !(a->has_padding && row == a->padding);
    return false;
}

bool KERNEL(lookup_rows)(hst_context *ctx, const hst_lookup_rows_args *args) {
    (void)ctx;
    int64_t n = 0;
    for (int64_t row = 0; row < args->rows; row++)
        if (is_old(args, row) || is_named(args, row)) args->unique[n++] = row;
    *args->unique_count = n;
    for (int64_t i = 0; i < args->count; i++) {
        int64_t row = hst_entry_at(args->ids, args->mode, args->rows, i);
        args->numbers[i] = -1;
        for (int64_t k = 0; k < n && !(args->has_padding && row == args->padding); k++)
            if (args->unique[k] == row) args->numbers[i] = k;
    }
    return true;
}

// (sum of |x|^power)^(1/power). With the greatest |x| taken out first, no power overflows.
static double norm_of(const hst_lookup_limit_args *a, int64_t row) {
    hst_source x = {a->table.data, a->table.dtype};
    double greatest = 0, sum = 0;
    for (int64_t j = 0; j < a->width; j++) {
        double size = fabs(hst_load(x, row * a->width + j));
        if (isnan(size)) return size;
        if (size > greatest) greatest = size;
    }
    if (greatest == 0 || isinf(greatest) || isinf(a->power)) return greatest;
    for (int64_t j = 0; j < a->width; j++)
        sum = add(x.dtype, sum, pow(fabs(hst_load(x, row * a->width + j)) / greatest, a->power));
    return greatest * pow(sum, 1 / a->power);
}

bool KERNEL(lookup_limit)(hst_context *ctx, const hst_lookup_limit_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->mode, args->count, args->rows)) return false;
    hst_source x = {args->table.data, args->table.dtype};
    for (int64_t i = 0; i < args->count; i++) {
        int64_t row = hst_entry_at(args->ids, args->mode, args->rows, i);
        bool first = true;
        for (int64_t k = 0; k < i && first; k++) first = hst_entry_at(args->ids, args->mode, args->rows, k) != row;
        double norm = first ? norm_of(args, row) : 0;
        if (!(norm > args->limit)) continue;
        for (int64_t j = row * args->width; j < (row + 1) * args->width; j++)
            hst_store(args->table, j, hst_load(x, j) * (args->limit / (norm + 1e-7)));
    }
    return true;
}
