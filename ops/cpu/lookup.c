// lookup.c: rows of a table by their ids (embedding, take), the limit of their norms, and one-hot rows, each of which
// says which id it was. The gradient is in lookup_grad.c.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

// ---- lookup ----

// Bytes of a row as they are.
static void copy_row(char *to, const char *from, size_t bytes, bool streams) {
    if (streams)
        for (size_t at = 0; at < bytes; at += sizeof(vf)) stream(to + at, load(from + at, HST_F32));
    else
        memcpy(to, from, bytes);
}

static void lookup_task(void *arg, int64_t task) {
    const hst_lookup_args *a = arg;
    size_t bytes = (size_t)a->width * size_of(a->y.dtype);
    bool copies = a->y.dtype == a->table.dtype && !a->y.add;
    bool streams = copies && can_stream(a->y.data, a->outer * a->count, bytes);
    for (range r = part(task, task_rows(a->width), a->outer * a->count); r.begin < r.end; r.begin++) {
        int64_t row = r.begin / a->count * a->rows + hst_entry_at(a->ids, a->mode, a->rows, r.begin % a->count);
        if (copies)
            copy_row((char *)a->y.data + (size_t)r.begin * bytes, (const char *)a->table.data + (size_t)row * bytes,
                     bytes, streams);
        for (int64_t j = 0; !copies && j < a->width; j += VL)
            put(a->y, r.begin * a->width + j, get(a->table, row * a->width + j, a->width - j), a->width - j);
    }
    if (streams) end_streams();
}

bool KERNEL(lookup)(hst_context *ctx, const hst_lookup_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->mode, args->count, args->rows)) return false;
    hst_parallel(ctx, divide_up(args->outer * args->count, task_rows(args->width)), lookup_task, (void *)args);
    return true;
}

// ---- the limit of norms ----

typedef struct limit_job {
    const hst_lookup_limit_args *args;
    const uint8_t *named; // by row
} limit_job;

// Squares of f32 neither overflow nor vanish in double.
static double square_norm(const hst_lookup_limit_args *a, int64_t row) {
    wide sum = {{0}, {0}};
    for (int64_t j = 0; j < a->width; j += VL) {
        wide x = widened(get(as_source(a->table), row * a->width + j, a->width - j));
        accumulate_product(&sum, x, x);
    }
    return sqrt(total(sum));
}

// Any power, of numbers relative to the greatest.
static double power_norm(const hst_lookup_limit_args *a, int64_t row) {
    double greatest = 0, sum = 0;
    for (int64_t j = 0; j < a->width; j++) {
        double x = fabs(hst_load(as_source(a->table), row * a->width + j));
        if (isnan(x)) return x;
        if (x > greatest) greatest = x;
    }
    if (greatest == 0 || isinf(greatest) || isinf(a->power)) return greatest;
    for (int64_t j = 0; j < a->width; j++)
        sum += pow(fabs(hst_load(as_source(a->table), row * a->width + j)) / greatest, a->power);
    return greatest * pow(sum, 1 / a->power);
}

static void limit_task(void *arg, int64_t task) {
    const limit_job *job = arg;
    const hst_lookup_limit_args *a = job->args;
    for (range r = part(task, task_rows(a->width), a->rows); r.begin < r.end; r.begin++) {
        if (!job->named[r.begin]) continue;
        double norm = a->power == 2 ? square_norm(a, r.begin) : power_norm(a, r.begin);
        if (!(norm > a->limit)) continue;
        double factor = a->limit / (norm + 1e-7);
        for (int64_t j = r.begin * a->width; j < (r.begin + 1) * a->width; j++)
            hst_store(a->table, j, hst_load(as_source(a->table), j) * factor);
    }
}

bool KERNEL(lookup_limit)(hst_context *ctx, const hst_lookup_limit_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->mode, args->count, args->rows)) return false;
    uint8_t *named = hst_workspace(ctx, (size_t)args->rows);
    if (!named) return false;
    memset(named, 0, (size_t)args->rows);
    for (int64_t i = 0; i < args->count; i++) named[hst_entry_at(args->ids, args->mode, args->rows, i)] = 1;
    limit_job job = {args, named};
    hst_parallel(ctx, divide_up(args->rows, task_rows(args->width)), limit_task, &job);
    hst_workspace_free(ctx, named);
    return true;
}

// ---- one-hot ----

static void one_hot_task(void *arg, int64_t task) {
    const hst_one_hot_args *a = arg;
    size_t row_bytes = (size_t)a->classes * hst_dtype_size(a->y.dtype);
    for (range r = part(task, task_rows(a->classes), a->count); r.begin < r.end; r.begin++) {
        memset((char *)a->y.data + (size_t)r.begin * row_bytes, 0, row_bytes);
        hst_store(a->y, r.begin * a->classes + hst_index_at(a->ids, r.begin), 1);
    }
}

bool KERNEL(one_hot)(hst_context *ctx, const hst_one_hot_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, HST_INDEX_RAISE, args->count, args->classes)) return false;
    hst_parallel(ctx, divide_up(args->count, task_rows(args->classes)), one_hot_task, (void *)args);
    return true;
}
