// select.c: y = c ? a : b over an index space in which operands may repeat, and the gradient, which sums over the
// repetitions in double.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

enum { RUN = 256 }; // elements along the last axis that are treated together

// ---- runs: neighbours along the last axis, in f32 ----

static void load_run(hst_source s, int64_t at, int64_t stride, int64_t n, float *to) {
    if (stride == 1)
        for (int64_t i = 0; i < n; i += VL) store_n(to + i, HST_F32, get(s, at + i, n - i), n - i);
    else
        for (int64_t i = 0; i < n; i++) to[i] = get(s, at + i * stride, 1)[0];
}

// to[i] = -1 where (c != 0) == when, else 0
static void load_choice(hst_source c, int64_t at, int64_t stride, bool when, int64_t n, int32_t *to) {
    for (int64_t i = 0; i < n; i++) to[i] = -((!c.data || hst_index_at(c, at + i * stride) != 0) == when);
}

INLINE vf pick_run(const int32_t *choice, const float *a, const float *b, int64_t i) {
    vi mask;
    memcpy(&mask, choice + i, sizeof mask);
    return pick(mask, load(a + i, HST_F32), load(b + i, HST_F32));
}

// ---- index spaces ----

typedef struct axes {
    int rank;
    int64_t shape[HST_MAX_RANK], stride[3][HST_MAX_RANK];
} axes;

// One more axis; it becomes one with the axis before it where all strides allow.
static void add_axis(axes *s, int64_t n, const int64_t stride[3]) {
    int last = s->rank - 1;
    if (n == 1) return;
    bool merge = last >= 0;
    for (int k = 0; k < 3; k++) merge = merge && s->stride[k][last] == n * stride[k];
    if (!merge) s->shape[last = s->rank++] = 1;
    s->shape[last] *= n;
    for (int k = 0; k < 3; k++) s->stride[k][last] = stride[k];
}

static int64_t size_of_space(const axes *s) {
    int64_t count = 1;
    for (int axis = 0; axis < s->rank; axis++) count *= s->shape[axis];
    return count;
}

// Adds to at[k] the position of element i of the space's first `rank` axes.
static void add_position(const axes *s, int rank, int64_t i, int64_t at[3]) {
    for (int axis = rank - 1; axis >= 0; i /= s->shape[axis--])
        for (int k = 0; k < 3; k++) at[k] += i % s->shape[axis] * s->stride[k][axis];
}

// ---- select ----

typedef struct select_job {
    const hst_select_args *args;
    axes space;              // strides of c, a, b
    int64_t rows, runs, all; // in the space, in its last axis, together
    int64_t in_task;
} select_job;

static void select_task(void *arg, int64_t task) {
    const select_job *job = arg;
    const hst_select_args *a = job->args;
    const axes *s = &job->space;
    int last = s->rank - 1;
    int32_t choice[RUN] = {0};
    float x[2][RUN] = {{0}};
    for (range r = part(task, job->in_task, job->all); r.begin < r.end; r.begin++) {
        int64_t row = r.begin / job->runs, j = r.begin % job->runs * RUN, at[3] = {0};
        int64_t left = s->shape[last] - j, n = left < RUN ? left : RUN, y = row * s->shape[last] + j;
        add_position(s, last, row, at);
        for (int k = 0; k < 3; k++) at[k] += j * s->stride[k][last];
        load_choice(a->c, at[0], s->stride[0][last], true, n, choice);
        load_run(a->a, at[1], s->stride[1][last], n, x[0]);
        load_run(a->b, at[2], s->stride[2][last], n, x[1]);
        for (int64_t i = 0; i < n; i += VL) put(a->y, y + i, pick_run(choice, x[0], x[1], i), n - i);
    }
}

bool KERNEL(select)(hst_context *ctx, const hst_select_args *args) {
    select_job job = {.args = args};
    axes *s = &job.space;
    for (int i = 0; i < args->rank; i++)
        add_axis(s, args->shape[i], (const int64_t[]){args->c_stride[i], args->a_stride[i], args->b_stride[i]});
    if (s->rank == 0) s->shape[s->rank++] = 1;
    int64_t width = s->shape[s->rank - 1];
    job.runs = divide_up(width, RUN);
    job.rows = width > 0 ? size_of_space(s) / width : 0;
    job.all = job.rows * job.runs;
    job.in_task = task_rows(width < RUN ? width : RUN);
    hst_parallel(ctx, divide_up(job.all, job.in_task), select_task, &job);
    return true;
}

// ---- its gradient ----
// The space is that of d times that of the axes to sum over. The last axis of the whole space, along which the runs
// are, belongs to one of them. A task has some runs (or elements) of d and a block of what is summed into them; the
// blocks' sums are added in order.

typedef struct grad_job {
    const hst_select_grad_args *args;
    axes kept, summed;               // without the last axis; strides of c, dy, d
    int64_t width, stride[3];        // the last axis
    bool along_d;                    // it belongs to d
    int64_t runs;                    // in the last axis
    int64_t places, in_task, tasks;  // runs (or elements) of d
    int64_t terms, in_block, blocks; // runs (or rows of runs) to sum
    double *partial;                 // [block][element of d], if there are several blocks
    int64_t size;                    // of d
} grad_job;

// The run at `j` of row `term` of the axes to sum over, chosen elements, others 0; returns how many elements it has.
static int64_t load_terms(const grad_job *job, const int64_t place[3], int64_t term, int64_t j, float *x) {
    const hst_select_grad_args *a = job->args;
    int32_t choice[RUN] = {0};
    float dy[RUN] = {0};
    static const float zeros[RUN];
    int64_t at[3] = {place[0], place[1], place[2]}, left = job->width - j, n = left < RUN ? left : RUN;
    add_position(&job->summed, job->summed.rank, term, at);
    load_choice(a->c, at[0] + j * job->stride[0], job->stride[0], a->when, n, choice);
    load_run(a->dy, at[1] + j * job->stride[1], job->stride[1], n, dy);
    for (int64_t i = 0; i < n; i += VL) store(x + i, HST_F32, pick_run(choice, dy, zeros, i));
    return n;
}

static void put_partial(const grad_job *job, int64_t block, int64_t at, double sum) {
    if (job->partial)
        job->partial[block * job->size + at] = sum;
    else
        put_sum(job->args->d, at, sum);
}

// Runs of d: each term of the sum is a run.
static void sum_of_runs(const grad_job *job, int64_t place, int64_t block) {
    double sum[RUN] = {0};
    float x[RUN];
    int64_t j = place % job->runs * RUN, at[3] = {0}, left = job->width - j, n = left < RUN ? left : RUN;
    add_position(&job->kept, job->kept.rank, place / job->runs, at);
    for (range r = part(block, job->in_block, job->terms); r.begin < r.end; r.begin++) {
        load_terms(job, at, r.begin, j, x);
        for (int64_t i = 0; i < n; i++) sum[i] += x[i];
    }
    for (int64_t i = 0; i < n; i++) put_partial(job, block, at[2] + j + i, sum[i]);
}

// Elements of d: a run is summed into one.
static void sum_along_runs(const grad_job *job, int64_t place, int64_t block) {
    float x[RUN];
    int64_t at[3] = {0};
    double sum = 0;
    add_position(&job->kept, job->kept.rank, place, at);
    for (range r = part(block, job->in_block, job->terms); r.begin < r.end; r.begin++) {
        int64_t n = load_terms(job, at, r.begin / job->runs, r.begin % job->runs * RUN, x);
        for (int64_t i = 0; i < n; i++) sum += x[i];
    }
    put_partial(job, block, at[2], sum);
}

static void grad_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    for (range r = part(task % job->tasks, job->in_task, job->places); r.begin < r.end; r.begin++)
        (job->along_d ? sum_of_runs : sum_along_runs)(job, r.begin, task / job->tasks);
}

// Takes the space apart.
static grad_job plan(const hst_select_grad_args *args) {
    grad_job job = {.args = args, .width = 1, .along_d = true};
    axes all = {0};
    int64_t dy_stride[HST_MAX_RANK], step = 1;
    for (int i = args->rank - 1; i >= 0; step *= args->shape[i--]) dy_stride[i] = step;
    for (int i = 0; i < args->rank; i++)
        add_axis(&all, args->shape[i], (const int64_t[]){args->c_stride[i], dy_stride[i], args->d_stride[i]});
    for (int i = 0; i < all.rank; i++) {
        const int64_t stride[] = {all.stride[0][i], all.stride[1][i], all.stride[2][i]};
        if (i < all.rank - 1) {
            add_axis(stride[2] ? &job.kept : &job.summed, all.shape[i], stride);
            continue;
        }
        job.width = all.shape[i];
        job.along_d = stride[2] != 0;
        memcpy(job.stride, stride, sizeof stride);
    }
    job.runs = divide_up(job.width, RUN);
    int64_t kept = size_of_space(&job.kept), summed = size_of_space(&job.summed);
    job.size = job.along_d ? kept * job.width : kept;
    job.places = job.along_d ? kept * job.runs : kept;
    job.terms = job.along_d ? summed : summed * job.runs;
    int64_t least = divide_up(job.terms, SUM_BLOCKS);
    job.in_block = least > SUM_ROWS ? least : SUM_ROWS;
    job.blocks = job.terms > 0 ? divide_up(job.terms, job.in_block) : 1;
    int64_t run = job.width < RUN ? job.width : RUN, terms = job.terms < job.in_block ? job.terms : job.in_block;
    job.in_task = task_rows(run * terms);
    job.tasks = divide_up(job.places, job.in_task);
    return job;
}

bool KERNEL(select_grad)(hst_context *ctx, const hst_select_grad_args *args) {
    grad_job job = plan(args);
    if (job.blocks > 1) {
        job.partial = hst_workspace(ctx, (size_t)(job.blocks * job.size) * sizeof *job.partial);
        if (!job.partial) return false;
    }
    hst_parallel(ctx, job.tasks * job.blocks, grad_task, &job);
    for (int64_t i = 0; job.partial && i < job.size; i++) {
        double sum = 0;
        for (int64_t block = 0; block < job.blocks; block++) sum += job.partial[block * job.size + i];
        put_sum(args->d, i, sum);
    }
    hst_workspace_free(ctx, job.partial);
    return true;
}
