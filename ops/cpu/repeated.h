// repeated.h: how kernels go through operands of which some are repeated along axes: the results in runs along the last
// axis, or the sums over the repetitions, which are an operand's gradient.
//
// A gradient is made in groups of elements that lie side by side and, for each group, from all that the operand was
// combined with: sums are doubles, rounded once. If groups are few and terms are many, these are cut into blocks, whose
// sums are added in order.
#ifndef HST_REPEATED_H
#define HST_REPEATED_H

#include "ops/cpu/axes.h"

enum { OUT };                                            // operand 0 of a space: the result, or the gradient
enum { GROUP_VECTORS = 16, GROUP = GROUP_VECTORS * VL }; // of a gradient

typedef struct axis {
    int64_t width, stride[MOST_OPERANDS];
} axis;

// Takes the last axis off.
static inline axis split_last(space *s) {
    int last = --s->rank;
    axis a = {.width = s->shape[last]};
    for (int o = 0; o < MOST_OPERANDS; o++) a.stride[o] = s->stride[o][last];
    return a;
}

// ---- results ----

typedef struct results {
    const void *args; // the kernel's
    int operands;
    void (*combine)(const struct results *job, const int64_t *at, int64_t n); // makes n results, from operands at `at`
    space outer;                                                              // without the last axis
    axis last;
    int64_t run, runs, in_all, in_task; // elements in a run; runs in the last axis, in all, in a task
} results;

static void results_task(void *arg, int64_t task) {
    const results *job = arg;
    range r = part(task, job->in_task, job->in_all);
    place row = place_of(&job->outer, job->operands, r.begin / job->runs);
    for (int64_t index = r.begin % job->runs; r.begin < r.end; r.begin++) {
        range run = part(index, job->run, job->last.width);
        int64_t at[MOST_OPERANDS];
        for (int o = 0; o < job->operands; o++) at[o] = row.at[o] + run.begin * job->last.stride[o];
        job->combine(job, at, run.end - run.begin);
        if (++index < job->runs) continue;
        index = 0;
        step(&job->outer, job->operands, &row);
    }
}

// Calls job->combine for all of a space.
static inline void make_results(hst_context *ctx, results *job, const space *all) {
    job->outer = with_fewest_axes(all, job->operands);
    job->last = split_last(&job->outer);
    job->run = TASK_ELEMENTS;
    job->runs = divide_up(job->last.width, job->run);
    job->in_all = elements(&job->outer) * job->runs;
    job->in_task = task_rows(job->run < job->last.width ? job->run : job->last.width);
    hst_parallel(ctx, divide_up(job->in_all, job->in_task), results_task, job);
}

// ---- sums over the repetitions ----

typedef struct sums {
    const void *args; // the kernel's
    int operands;
    hst_target to;
    // sum[v] += terms of the n elements at `at`, vector by vector; all into sum[0] if the last axis is summed over. In
    // the last vector the lanes from n on give 0.
    void (*add_run)(const struct sums *job, const int64_t *at, int64_t n, wide *sum);
    space kept, repeated;  // axes of the gradient, and axes along which it is a sum, without the last axis,
    axis last;             // which is this,
    bool last_is_kept;     // and belongs to the former
    int64_t chunk, chunks; // elements of the last axis treated at a time, and how often
    int64_t groups, items, in_task, in_block, blocks; // groups of the gradient, items of terms; in a task, in a block
    wide *partial;                                    // [block][group][vector], where there are several blocks
} sums;

// sum[v] += the terms of a block of items, for each vector v of a group
static void add_block(const sums *job, int64_t group, int64_t block, wide *sum) {
    int64_t in_group = job->last_is_kept ? job->chunks : 1, in_item = job->last_is_kept ? 1 : job->chunks;
    range items = part(block, job->in_block, job->items);
    if (items.begin == items.end) return;
    place kept = place_of(&job->kept, job->operands, group / in_group);
    place repeated = place_of(&job->repeated, job->operands, items.begin / in_item);
    for (int64_t index = items.begin % in_item; items.begin < items.end; items.begin++) {
        range r = part(job->last_is_kept ? group % in_group : index, job->chunk, job->last.width);
        int64_t at[MOST_OPERANDS];
        for (int o = 0; o < job->operands; o++) at[o] = kept.at[o] + repeated.at[o] + r.begin * job->last.stride[o];
        job->add_run(job, at, r.end - r.begin, sum);
        if (++index < in_item) continue;
        index = 0;
        step(&job->repeated, job->operands, &repeated);
    }
}

static void put_group(const sums *job, int64_t group, const wide *sum) {
    int64_t in_group = job->last_is_kept ? job->chunks : 1;
    int64_t at = place_of(&job->kept, job->operands, group / in_group).at[OUT];
    if (!job->last_is_kept) {
        put_sum(job->to, at, total(*sum));
        return;
    }
    range r = part(group % in_group, job->chunk, job->last.width);
    for (int64_t i = r.begin; i < r.end; i += VL) put_sums(job->to, at + i, *sum++, r.end - i);
}

static void sums_task(void *arg, int64_t task) {
    const sums *job = arg;
    int64_t tasks = divide_up(job->groups, job->in_task), block = task / tasks;
    for (range r = part(task % tasks, job->in_task, job->groups); r.begin < r.end; r.begin++) {
        wide own[GROUP_VECTORS],
            *sum = job->partial ? job->partial + (block * job->groups + r.begin) * GROUP_VECTORS : own;
        memset(sum, 0, sizeof own);
        add_block(job, r.begin, block, sum);
        if (!job->partial) put_group(job, r.begin, sum);
    }
}

static void add_blocks(const sums *job) {
    for (int64_t group = 0; group < job->groups; group++) {
        wide *sum = job->partial + group * GROUP_VECTORS;
        for (int64_t block = 1; block < job->blocks; block++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                accumulate(&sum[v], job->partial[(block * job->groups + group) * GROUP_VECTORS + v]);
        put_group(job, group, sum);
    }
}

// The axes, apart; then groups, items, and how they are cut.
static void plan_sums(sums *job, const space *whole) {
    space all = with_fewest_axes(whole, job->operands);
    job->last = split_last(&all);
    for (int i = 0; i < all.rank; i++)
        append_axis(all.stride[OUT][i] ? &job->kept : &job->repeated, &all, i, job->operands);
    job->last_is_kept = job->last.stride[OUT] != 0;
    job->chunk = job->last_is_kept ? GROUP : TASK_ELEMENTS;
    job->chunks = divide_up(job->last.width, job->chunk);
    job->groups = elements(&job->kept) * (job->last_is_kept ? job->chunks : 1);
    job->items = elements(&job->repeated) * (job->last_is_kept ? 1 : job->chunks);
    int64_t in_item = job->chunk < job->last.width ? job->chunk : job->last.width;
    int64_t least = divide_up(job->items * job->groups, SUM_BLOCKS), enough = task_rows(in_item);
    job->in_block = least > enough ? least : enough;
    job->blocks = job->items > job->in_block ? divide_up(job->items, job->in_block) : 1;
    job->in_task = job->blocks > 1 ? 1 : task_rows(in_item * job->items);
}

// job->to (+)= the sums of what job->add_run adds, over the axes of a space along which OUT has stride 0.
static inline bool make_sums(hst_context *ctx, sums *job, const space *all) {
    plan_sums(job, all);
    if (job->blocks > 1) {
        job->partial = hst_workspace(ctx, (size_t)(job->blocks * job->groups * GROUP_VECTORS) * sizeof *job->partial);
        if (!job->partial) return false;
    }
    hst_parallel(ctx, job->blocks * divide_up(job->groups, job->in_task), sums_task, job);
    if (job->partial) add_blocks(job);
    hst_workspace_free(ctx, job->partial);
    return true;
}

#endif
