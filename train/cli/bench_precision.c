// bench_precision.c: `halfstep bench precision`: the same training in every preset: speed, memory by what it is for,
// loss, skipped steps. Each runs in a process of its own, whose greatest size in memory the system tells.
#include "train/cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM = 2 }; // steps that are not timed: they ask the system for memory

// The two models of the published comparison, as far as the options leave them: 2 layers, and 6 with twice the batch
// and twice the length, for a tenth of the steps.
static bench_model model_of(const bench_values *v, bool large) {
    int64_t times = large ? 2 : 1;
    return (bench_model){large ? 6 : 2, v->hidden, 256, times * v->batch, times * v->length};
}
static int64_t steps_of(const bench_values *v, bool large) { return large ? (v->steps + 9) / 10 : v->steps; }

// What a preset's process sends back.
typedef struct outcome {
    hst_memory memory;
    double tokens_per_second, loss, resident;
    int64_t skipped;
    hst_status status;
    char error[512];
} outcome;

// ---- one preset ----

static void train(const bench_run *b, const bench_model *m, int64_t steps, hst_precision_kind precision, outcome *out) {
    int threads = hst_thread_count(b->ctx);
    hst_context *ctx = bench_open(b, threads);
    hst_trainer *trainer = bench_trainer(ctx, b, m, precision, WARM + steps);
    double began = bench_now(threads);
    for (int64_t i = 0; trainer && i < WARM + steps && hst_trainer_step(trainer, &out->loss) == HST_OK; i++) {
        if (i + 1 == WARM) began = bench_now(threads);
        out->skipped += hst_trainer_result(trainer) != HST_STEPPED;
    }
    out->tokens_per_second = (double)(steps * m->batch * m->length) / (bench_now(threads) - began);
    hst_memory_stats(ctx, &out->memory);
    out->status = hst_get_status(ctx);
    snprintf(out->error, sizeof out->error, "%s", hst_error(ctx));
    hst_close(ctx); // and all that belongs to it
}

// The same in a process of its own.
static bool measure(const bench_run *b, const bench_model *m, int64_t steps, hst_precision_kind precision,
                    outcome *out) {
    hst_context *ctx = b->ctx;
    const char *name = hst_precision_of(precision)->name;
    int ends[2], status;
    struct rusage used;
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) return hst_fail(ctx, HST_ERROR_IO, "%s: no process can be started for it", name), false;
    if (child == 0) {
        outcome mine = {0};
        train(b, m, steps, precision, &mine);
        _exit(write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(ends[0]);
    whole = wait4(child, &status, 0, &used) == child && WIFEXITED(status) && whole;
    out->resident = (double)used.ru_maxrss * 1024;
    if (!whole) return hst_fail(ctx, HST_ERROR_MEMORY, "%s: its process was killed", name), false;
    if (out->status != HST_OK) hst_fail(ctx, out->status, "%s: %s", name, out->error);
    return out->status == HST_OK;
}

// ---- the table ----

static double peak(const outcome *o, hst_category c) { return (double)o->memory.peak[c]; }
static double passing(const outcome *o) { return peak(o, HST_ACTIVATIONS) + peak(o, HST_WORKSPACE); }

static void print_json(const bench_model *m, int64_t steps, hst_precision_kind p, const outcome *o,
                       const outcome *fp32) {
    json_object json = json_begin(stdout);
    json_text(&json, "what", "precision");
    json_text(&json, "preset", hst_precision_of(p)->name);
    json_integer(&json, "layers", m->layers);
    json_integer(&json, "hidden", m->hidden);
    json_integer(&json, "batch", m->batch);
    json_integer(&json, "length", m->length);
    json_integer(&json, "steps", steps);
    json_real(&json, "tokens_per_second", o->tokens_per_second);
    json_real(&json, "weights_bytes", peak(o, HST_WEIGHTS));
    json_real(&json, "gradients_bytes", peak(o, HST_GRADIENTS));
    json_real(&json, "optimizer_bytes", peak(o, HST_OPTIMIZER));
    json_real(&json, "activations_bytes", peak(o, HST_ACTIVATIONS));
    json_real(&json, "workspace_bytes", peak(o, HST_WORKSPACE));
    json_real(&json, "total_bytes", (double)o->memory.peak_total);
    json_real(&json, "resident_bytes", o->resident);
    json_real(&json, "activations_and_workspace_to_fp32", passing(o) / passing(fp32));
    json_real(&json, "total_to_fp32", (double)o->memory.peak_total / (double)fp32->memory.peak_total);
    json_real(&json, "loss", o->loss);
    json_integer(&json, "skipped", o->skipped);
    json_end(&json);
}

static void print_row(hst_precision_kind p, const outcome *o, const outcome *fp32) {
    printf("%-15s %8.0f %8.1f %9.1f %9.1f %11.1f %9.1f %8.1f %8.1f   %5.2f %6.2f   %.4f %7lld\n",
           hst_precision_of(p)->name, o->tokens_per_second, peak(o, HST_WEIGHTS) / 1e6, peak(o, HST_GRADIENTS) / 1e6,
           peak(o, HST_OPTIMIZER) / 1e6, peak(o, HST_ACTIVATIONS) / 1e6, peak(o, HST_WORKSPACE) / 1e6,
           (double)o->memory.peak_total / 1e6, o->resident / 1e6, passing(o) / passing(fp32),
           (double)o->memory.peak_total / (double)fp32->memory.peak_total, o->loss, (long long)o->skipped);
    fflush(stdout);
}

static bool compare_presets(const bench_run *b, const bench_model *m, int64_t steps) {
    outcome fp32 = {0}, o;
    if (!b->v->json)
        printf("%d layers of %lld, batch %lld, length %lld, 256 symbols; MB; act+work and total beside fp32's\n"
               "%-15s %8s %8s %9s %9s %11s %9s %8s %8s   %5s %6s   %s %s\n",
               m->layers, (long long)m->hidden, (long long)m->batch, (long long)m->length, "preset", "tokens/s",
               "weights", "gradients", "optimizer", "activations", "workspace", "total", "resident", "a+w", "total",
               "  loss", "skipped");
    for (int p = 0; p < HST_PRECISIONS; p++) {
        if (!measure(b, m, steps, (hst_precision_kind)p, &o)) return false;
        if (p == HST_FP32) fp32 = o;
        if (b->v->json)
            print_json(m, steps, (hst_precision_kind)p, &o, &fp32);
        else
            print_row((hst_precision_kind)p, &o, &fp32);
    }
    return true;
}

bool bench_precision(const bench_run *b) {
    bench_model small = model_of(b->v, false), large = model_of(b->v, true);
    return compare_presets(b, &small, steps_of(b->v, false)) && compare_presets(b, &large, steps_of(b->v, true));
}
