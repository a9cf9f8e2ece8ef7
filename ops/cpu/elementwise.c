// elementwise.c: copies between strided spaces and dtypes, and dropout. Elements do not meet here, so tasks are blocks
// of elements.
#include "ops/cpu/axes.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_random.h"

#include <math.h>

// ---- copy ----
// A strided space is copied in runs along its last axis. Where neighbours there are not neighbours in memory, the runs
// are short and the axis before the last goes round inside: a transposition then works on a few cache lines at a time.

typedef struct copy_job {
    hst_copy_args space; // with as few axes as possible
    int64_t run;         // elements in a run
    int64_t runs;        // in the last axis
    int64_t rows;        // in the axis before it
    int64_t in_all;      // runs in the whole space
    int64_t in_task;     // runs in one task
} copy_job;

static bool is_integer(hst_dtype t) { return t == HST_U8 || t == HST_I32 || t == HST_I64; }
static bool is_vector(hst_dtype t) { return t == HST_F32 || t == HST_F16 || t == HST_BF16; }

// to[i] (+)= value, exact, and saturating at the ends of the type
static void put_integer(hst_target to, int64_t i, int64_t value) {
    int64_t sum = value;
    if (to.add && __builtin_add_overflow(hst_index_at(as_source(to), i), value, &sum))
        sum = value < 0 ? INT64_MIN : INT64_MAX;
    if (to.dtype == HST_I64)
        ((int64_t *)to.data)[i] = sum;
    else if (to.dtype == HST_I32)
        ((int32_t *)to.data)[i] = (int32_t)(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
    else
        ((uint8_t *)to.data)[i] = (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
}

static void copy_f32(float *to, int64_t to_stride, const float *from, int64_t from_stride, bool add, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float x = from[i * from_stride];
        to[i * to_stride] = add ? to[i * to_stride] + x : x;
    }
}

// n elements, the first at from[i] and to[j]
static void copy_run(hst_source from, int64_t i, int64_t from_stride, hst_target to, int64_t j, int64_t to_stride,
                     int64_t n) {
    bool adjacent = from_stride == 1 && to_stride == 1;
    size_t size = hst_dtype_size(from.dtype);
    if (adjacent && from.dtype == to.dtype && !to.add)
        memcpy((char *)to.data + (size_t)j * size, (const char *)from.data + (size_t)i * size, (size_t)n * size);
    else if (adjacent && is_vector(from.dtype) && is_vector(to.dtype))
        for (int64_t o = 0; o < n; o += VL) put(to, j + o, get(from, i + o, n - o), n - o);
    else if (from.dtype == HST_F32 && to.dtype == HST_F32)
        copy_f32((float *)to.data + j, to_stride, (const float *)from.data + i, from_stride, to.add, n);
    else if (is_integer(from.dtype) && is_integer(to.dtype))
        for (int64_t o = 0; o < n; o++) put_integer(to, j + o * to_stride, hst_index_at(from, i + o * from_stride));
    else
        for (int64_t o = 0; o < n; o++) put_sum(to, j + o * to_stride, hst_load(from, i + o * from_stride));
}

static void copy_task(void *arg, int64_t task) {
    const copy_job *job = arg;
    const hst_copy_args *s = &job->space;
    int last = s->rank - 1;
    for (range r = part(task, job->in_task, job->in_all); r.begin < r.end; r.begin++) {
        int64_t index = r.begin / job->rows, row = r.begin % job->rows, start = index % job->runs * job->run;
        int64_t from = start * s->from_stride[last], to = start * s->to_stride[last];
        if (last > 0) from += row * s->from_stride[last - 1], to += row * s->to_stride[last - 1];
        index /= job->runs;
        for (int axis = last - 2; axis >= 0; index /= s->shape[axis--]) {
            from += index % s->shape[axis] * s->from_stride[axis];
            to += index % s->shape[axis] * s->to_stride[axis];
        }
        int64_t left = s->shape[last] - start, n = left < job->run ? left : job->run;
        copy_run(s->from, from, s->from_stride[last], s->to, to, s->to_stride[last], n);
    }
}

static hst_copy_args with_few_axes(const hst_copy_args *args) {
    space all = {.rank = args->rank};
    memcpy(all.shape, args->shape, sizeof args->shape);
    memcpy(all.stride[0], args->from_stride, sizeof args->from_stride);
    memcpy(all.stride[1], args->to_stride, sizeof args->to_stride);
    all = with_fewest_axes(&all, 2);
    hst_copy_args s = {.rank = all.rank, .from = args->from, .to = args->to};
    memcpy(s.shape, all.shape, sizeof s.shape);
    memcpy(s.from_stride, all.stride[0], sizeof s.from_stride);
    memcpy(s.to_stride, all.stride[1], sizeof s.to_stride);
    return s;
}

bool KERNEL(copy)(hst_context *ctx, const hst_copy_args *args) {
    copy_job job = {.space = with_few_axes(args)};
    const hst_copy_args *s = &job.space;
    int last = s->rank - 1;
    job.run = s->from_stride[last] == 1 && s->to_stride[last] == 1 ? TASK_ELEMENTS : 16;
    job.runs = divide_up(s->shape[last], job.run);
    job.rows = last > 0 ? s->shape[last - 1] : 1;
    job.in_all = job.rows * job.runs;
    for (int axis = 0; axis < last - 1; axis++) job.in_all *= s->shape[axis];
    job.in_task = task_rows(job.run < s->shape[last] ? job.run : s->shape[last]);
    hst_parallel(ctx, divide_up(job.in_all, job.in_task), copy_task, &job);
    return true;
}

// ---- dropout ----

// Words are compared as integers: uniform < p exactly when its 24 bits are less than p 2^24, rounded up.
static void dropout_task(void *arg, int64_t task) {
    const hst_dropout_args *a = arg;
    uint32_t threshold = (uint32_t)ceil(a->p * 0x1p24);
    vf scale = splat((float)(1 / (1 - a->p)));
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += 4 * VL) {
        uint32_t words[4 * VL];
        random_words(a->key, (uint64_t)r.begin / 4, words);
        for (int64_t o = 0; o < 4 * VL && r.begin + o < r.end; o += VL) {
            int64_t i = r.begin + o, n = r.end - i;
            vu word;
            memcpy(&word, words + o, sizeof word);
            vi kept = (vi)(word >> 8 >= threshold);
            for (int64_t at = i; at < a->repeats * a->count; at += a->count)
                put(a->y, at, pick(kept, get(a->x, at, n) * scale, splat(0)), n);
        }
    }
}

bool KERNEL(dropout)(hst_context *ctx, const hst_dropout_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), dropout_task, (void *)args);
    return true;
}
