// binary.c: sums, differences, products and quotients of tensors that broadcast, and their gradients.
//
// Forward goes through y in runs along the last axis. A gradient goes through its operand in groups of elements that
// lie side by side and, for each group, through all that the operand was combined with: terms and their sums are
// doubles, rounded once. If groups are few and terms are many, these are cut into blocks, whose sums are added in
// order.
#include "ops/cpu/axes.h"
#include "ops/cpu/kernels.h"

enum { OUT, A, B, DY, FORWARD = DY, BACKWARD };          // operands of the spaces, and how many each way has
enum { GROUP_VECTORS = 16, GROUP = GROUP_VECTORS * VL }; // of a gradient

typedef struct axis {
    int64_t width, stride[MOST_OPERANDS];
} axis;

// Takes the last axis off.
static axis split_last(space *s) {
    int last = --s->rank;
    axis a = {.width = s->shape[last]};
    for (int o = 0; o < MOST_OPERANDS; o++) a.stride[o] = s->stride[o][last];
    return a;
}

static space space_of(int rank, const int64_t *shape, const int64_t *a_stride, const int64_t *b_stride) {
    space s = {.rank = rank};
    int64_t next = 1;
    for (int i = rank - 1; i >= 0; next *= shape[i--]) {
        s.shape[i] = shape[i];
        s.stride[OUT][i] = s.stride[DY][i] = next;
        s.stride[A][i] = a_stride[i];
        s.stride[B][i] = b_stride[i];
    }
    return s;
}

// ---- forward ----

typedef struct binary_job {
    const hst_binary_args *args;
    space outer; // without the last axis
    axis last;
    int64_t run, runs, in_all, in_task; // elements in a run; runs in the last axis, in all, in a task
} binary_job;

INLINE vf combined(hst_arithmetic function, vf a, vf b) {
    switch (function) {
    case HST_PLUS:
        return a + b;
    case HST_MINUS:
        return a - b;
    case HST_TIMES:
        return a * b;
    default:
        return a / b;
    }
}

INLINE void combine(const binary_job *job, const int64_t *at, int64_t n, hst_arithmetic function) {
    const hst_binary_args *args = job->args;
    int64_t a_stride = job->last.stride[A], b_stride = job->last.stride[B];
    vf first_a = repeated_at(args->a, at[A], a_stride), first_b = repeated_at(args->b, at[B], b_stride);
    for (int64_t o = 0; o < n; o += VL) {
        vf a = fetch(args->a, at[A] + o * a_stride, a_stride, n - o, first_a);
        vf b = fetch(args->b, at[B] + o * b_stride, b_stride, n - o, first_b);
        put(args->y, at[OUT] + o, combined(function, a, b), n - o);
    }
}

static void combine_run(const binary_job *job, const int64_t *at, int64_t n) {
    if (job->args->function == HST_PLUS)
        combine(job, at, n, HST_PLUS);
    else if (job->args->function == HST_MINUS)
        combine(job, at, n, HST_MINUS);
    else if (job->args->function == HST_TIMES)
        combine(job, at, n, HST_TIMES);
    else
        combine(job, at, n, HST_OVER);
}

static void binary_task(void *arg, int64_t task) {
    const binary_job *job = arg;
    range r = part(task, job->in_task, job->in_all);
    place row = place_of(&job->outer, FORWARD, r.begin / job->runs);
    for (int64_t index = r.begin % job->runs; r.begin < r.end; r.begin++) {
        range run = part(index, job->run, job->last.width);
        int64_t at[FORWARD];
        for (int o = 0; o < FORWARD; o++) at[o] = row.at[o] + run.begin * job->last.stride[o];
        combine_run(job, at, run.end - run.begin);
        if (++index < job->runs) continue;
        index = 0;
        step(&job->outer, FORWARD, &row);
    }
}

bool KERNEL(binary)(hst_context *ctx, const hst_binary_args *args) {
    space all = space_of(args->rank, args->shape, args->a_stride, args->b_stride);
    binary_job job = {.args = args, .outer = with_fewest_axes(&all, FORWARD), .run = TASK_ELEMENTS};
    job.last = split_last(&job.outer);
    job.runs = divide_up(job.last.width, job.run);
    job.in_all = elements(&job.outer) * job.runs;
    job.in_task = task_rows(job.run < job.last.width ? job.run : job.last.width);
    hst_parallel(ctx, divide_up(job.in_all, job.in_task), binary_task, &job);
    return true;
}

// ---- gradients ----

typedef struct grad_job {
    const hst_binary_grad_args *args;
    space kept, repeated;  // axes of dx, and axes along which it is a sum, without the last axis,
    axis last;             // which is this,
    bool last_is_kept;     // and belongs to the former
    int64_t chunk, chunks; // elements of the last axis treated at a time, and how often
    int64_t groups, items, in_task, in_block, blocks; // groups of dx, items of terms; in a task, in a block
    wide *partial;                                    // [block][group][vector], where there are several blocks
} grad_job;

// Which of the operands the terms of a gradient are made of.
INLINE bool reads(hst_arithmetic function, int operand, int other) {
    if (function == HST_TIMES) return other != (operand == 0 ? A : B);
    return function == HST_OVER && (other == B || operand == 1);
}

// Products and quotients of doubles.
INLINE wide term_of(hst_arithmetic function, int operand, wide dy, wide a, wide b) {
    if (function == HST_PLUS || (function == HST_MINUS && operand == 0)) return dy;
    if (function == HST_MINUS) return (wide){-dy.low, -dy.high};
    if (function == HST_TIMES && operand == 0) return (wide){dy.low * b.low, dy.high * b.high};
    if (function == HST_TIMES) return (wide){dy.low * a.low, dy.high * a.high};
    if (operand == 0) return (wide){dy.low / b.low, dy.high / b.high};
    return (wide){-dy.low * a.low / (b.low * b.low), -dy.high * a.high / (b.high * b.high)};
}

// Vector i .. of a run as doubles; its lanes from n on are `otherwise`.
typedef struct reader {
    hst_source from;
    int64_t at, stride;
    vf first;
} reader;
INLINE reader reader_of(const grad_job *job, hst_source from, const int64_t *at, int operand) {
    int64_t stride = job->last.stride[operand];
    return (reader){from, at[operand], stride, repeated_at(from, at[operand], stride)};
}
INLINE wide read(const reader *r, int64_t i, int64_t n, float otherwise) {
    return widened(first_lanes(fetch(r->from, r->at + i * r->stride, r->stride, n, r->first), n, otherwise));
}

// sum[v] += terms of the n elements at `at`, vector by vector; all into sum[0] if the last axis is summed over. In the
// last vector the lanes from n on give 0.
INLINE void add_terms(const grad_job *job, const int64_t *at, int64_t n, wide *sum, hst_arithmetic function,
                      int operand) {
    reader dy = reader_of(job, job->args->dy, at, DY), a = reader_of(job, job->args->a, at, A),
           b = reader_of(job, job->args->b, at, B);
    int64_t step = job->last_is_kept;
    for (int64_t i = 0; i < n; i += VL, sum += step) {
        wide none = {{0}, {0}};
        wide x = reads(function, operand, A) ? read(&a, i, n - i, 1) : none;
        wide y = reads(function, operand, B) ? read(&b, i, n - i, 1) : none;
        accumulate(sum, term_of(function, operand, read(&dy, i, n - i, 0), x, y));
    }
}

static void add_run(const grad_job *job, const int64_t *at, int64_t n, wide *sum) {
    int operand = job->args->operand;
    if (job->args->function == HST_PLUS)
        add_terms(job, at, n, sum, HST_PLUS, 0);
    else if (job->args->function == HST_MINUS)
        operand == 0 ? add_terms(job, at, n, sum, HST_MINUS, 0) : add_terms(job, at, n, sum, HST_MINUS, 1);
    else if (job->args->function == HST_TIMES)
        operand == 0 ? add_terms(job, at, n, sum, HST_TIMES, 0) : add_terms(job, at, n, sum, HST_TIMES, 1);
    else
        operand == 0 ? add_terms(job, at, n, sum, HST_OVER, 0) : add_terms(job, at, n, sum, HST_OVER, 1);
}

// sum[v] += the terms of a block of items, for each vector v of a group
static void add_block(const grad_job *job, int64_t group, int64_t block, wide *sum) {
    int64_t in_group = job->last_is_kept ? job->chunks : 1, in_item = job->last_is_kept ? 1 : job->chunks;
    range items = part(block, job->in_block, job->items);
    if (items.begin == items.end) return;
    place kept = place_of(&job->kept, BACKWARD, group / in_group);
    place repeated = place_of(&job->repeated, BACKWARD, items.begin / in_item);
    for (int64_t index = items.begin % in_item; items.begin < items.end; items.begin++) {
        range r = part(job->last_is_kept ? group % in_group : index, job->chunk, job->last.width);
        int64_t at[BACKWARD];
        for (int o = 0; o < BACKWARD; o++) at[o] = kept.at[o] + repeated.at[o] + r.begin * job->last.stride[o];
        add_run(job, at, r.end - r.begin, sum);
        if (++index < in_item) continue;
        index = 0;
        step(&job->repeated, BACKWARD, &repeated);
    }
}

static void put_group(const grad_job *job, int64_t group, const wide *sum) {
    int64_t in_group = job->last_is_kept ? job->chunks : 1;
    int64_t at = place_of(&job->kept, BACKWARD, group / in_group).at[OUT];
    if (!job->last_is_kept) {
        put_sum(job->args->dx, at, total(*sum));
        return;
    }
    range r = part(group % in_group, job->chunk, job->last.width);
    for (int64_t i = r.begin; i < r.end; i += VL) put_sums(job->args->dx, at + i, *sum++, r.end - i);
}

static void grad_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    int64_t tasks = divide_up(job->groups, job->in_task), block = task / tasks;
    for (range r = part(task % tasks, job->in_task, job->groups); r.begin < r.end; r.begin++) {
        wide own[GROUP_VECTORS],
            *sum = job->partial ? job->partial + (block * job->groups + r.begin) * GROUP_VECTORS : own;
        memset(sum, 0, sizeof own);
        add_block(job, r.begin, block, sum);
        if (!job->partial) put_group(job, r.begin, sum);
    }
}

static void add_blocks(const grad_job *job) {
    for (int64_t group = 0; group < job->groups; group++) {
        wide *sum = job->partial + group * GROUP_VECTORS;
        for (int64_t block = 1; block < job->blocks; block++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                accumulate(&sum[v], job->partial[(block * job->groups + group) * GROUP_VECTORS + v]);
        put_group(job, group, sum);
    }
}

// The axes, apart; then groups, items, and how they are cut.
static grad_job plan(const hst_binary_grad_args *args) {
    grad_job job = {.args = args};
    space all = space_of(args->rank, args->shape, args->a_stride, args->b_stride);
    memcpy(all.stride[OUT], args->dx_stride, sizeof args->dx_stride);
    all = with_fewest_axes(&all, BACKWARD);
    job.last = split_last(&all);
    for (int i = 0; i < all.rank; i++) append_axis(all.stride[OUT][i] ? &job.kept : &job.repeated, &all, i, BACKWARD);
    job.last_is_kept = job.last.stride[OUT] != 0;
    job.chunk = job.last_is_kept ? GROUP : TASK_ELEMENTS;
    job.chunks = divide_up(job.last.width, job.chunk);
    job.groups = elements(&job.kept) * (job.last_is_kept ? job.chunks : 1);
    job.items = elements(&job.repeated) * (job.last_is_kept ? 1 : job.chunks);
    int64_t in_item = job.chunk < job.last.width ? job.chunk : job.last.width;
    int64_t least = divide_up(job.items * job.groups, SUM_BLOCKS), enough = task_rows(in_item);
    job.in_block = least > enough ? least : enough;
    job.blocks = job.items > job.in_block ? divide_up(job.items, job.in_block) : 1;
    job.in_task = job.blocks > 1 ? 1 : task_rows(in_item * job.items);
    return job;
}

bool KERNEL(binary_grad)(hst_context *ctx, const hst_binary_grad_args *args) {
    grad_job job = plan(args);
    if (job.blocks > 1) {
        job.partial = hst_workspace(ctx, (size_t)(job.blocks * job.groups * GROUP_VECTORS) * sizeof *job.partial);
        if (!job.partial) return false;
    }
    hst_parallel(ctx, job.blocks * divide_up(job.groups, job.in_task), grad_task, &job);
    if (job.partial) add_blocks(&job);
    hst_workspace_free(ctx, job.partial);
    return true;
}
