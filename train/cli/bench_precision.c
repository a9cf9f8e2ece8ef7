// bench_precision.c: `halfstep bench precision`: the same training in every preset: speed, memory by what it is for,
// loss, skipped steps. Each runs in a process of its own, whose greatest size in memory the system tells.
#include "train/cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// The two models of the published comparison: layers of 512, byte vocabulary.
static const struct {
    int layers;
    int64_t batch, length;
} sizes[] = {{2, 32, 128}, {6, 64, 256}};

enum { HIDDEN = 512, WARM = 2 }; // steps that are not timed: they ask the system for memory

// What a preset's process sends back.
typedef struct outcome {
    hst_memory memory;
    double tokens_per_second, loss, resident;
    int64_t skipped;
    bool failed;
} outcome;

// ---- a text, where none is given: words that follow each other by chance, some more often than others ----

static bool add_words(hst_corpus *text, int64_t bytes) {
    static const char *const words[] = {"the ",  "unit ",   "reads ", "a ",     "line ", "of ",   "text\n", "and ",
                                        "then ", "writes ", "it ",    "again ", "with ", "half ", "its ",   "bits. "};
    uint64_t state = 1;
    for (int64_t written = 0; written < bytes;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const char *word = words[(state >> 33) % 16 & (state >> 40)];
        if (hst_corpus_add_bytes(text, word, strlen(word)) != HST_OK) return false;
        written += (int64_t)strlen(word);
    }
    return true;
}

// ---- one preset ----

static void train(const bench_values *v, int size, hst_precision_kind precision, outcome *out) {
    int code;
    hst_context *ctx = cli_open(&v->common, cli_print_message, NULL, &code);
    hst_corpus *text = v->text && ctx ? cli_read_texts(ctx, 1, (char *[]){(char *)v->text}) : hst_corpus_new(ctx);
    int64_t tokens = sizes[size].batch * sizes[size].length, steps = size == 0 ? v->steps : (v->steps + 9) / 10;
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = HIDDEN, o.layers = sizes[size].layers, o.batch = sizes[size].batch, o.length = sizes[size].length;
    o.steps = WARM + steps, o.precision = precision;
    bool ready = ctx && (v->text || add_words(text, 2 * tokens * o.steps));
    hst_trainer *trainer = ready ? hst_trainer_new(ctx, &o, text, NULL) : NULL;
    double began = 0;
    for (int64_t i = 0; trainer && i < o.steps && hst_trainer_step(trainer, &out->loss) == HST_OK; i++) {
        if (i + 1 == WARM) began = cli_bench_now();
        out->skipped += hst_trainer_result(trainer) != HST_STEPPED;
    }
    out->tokens_per_second = (double)(steps * tokens) / (cli_bench_now() - began);
    hst_memory_stats(ctx, &out->memory);
    out->failed = !trainer || hst_get_status(ctx) != HST_OK;
    if (ctx && out->failed) cli_failure(ctx, v->text != NULL);
    hst_close(ctx); // and all that belongs to it
}

// The same in a process of its own; false after saying why there is no outcome.
static bool measure(const bench_values *v, int size, hst_precision_kind precision, outcome *out) {
    int ends[2], status;
    struct rusage used;
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        cli_error("no process could be started for a measurement");
        return false;
    }
    if (child == 0) {
        outcome mine = {0};
        train(v, size, precision, &mine);
        _exit(write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    close(ends[1]);
    bool read_all = read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(ends[0]);
    bool ended = wait4(child, &status, 0, &used) == child && WIFEXITED(status);
    out->resident = (double)used.ru_maxrss * 1024;
    if (!read_all || !ended) cli_error("%s: its process was killed", hst_precision_of(precision)->name);
    return read_all && ended && !out->failed;
}

// ---- the table ----

static double peak(const outcome *o, hst_category c) { return (double)o->memory.peak[c]; }
static double passing(const outcome *o) { return peak(o, HST_ACTIVATIONS) + peak(o, HST_WORKSPACE); }

static void print_json(const bench_values *v, int size, hst_precision_kind p, const outcome *o, const outcome *fp32) {
    json_object json = json_begin(stdout);
    json_text(&json, "what", "precision");
    json_text(&json, "preset", hst_precision_of(p)->name);
    json_integer(&json, "layers", sizes[size].layers);
    json_integer(&json, "hidden", HIDDEN);
    json_integer(&json, "batch", sizes[size].batch);
    json_integer(&json, "length", sizes[size].length);
    json_integer(&json, "steps", size == 0 ? v->steps : (v->steps + 9) / 10);
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

static bool bench_size(const bench_values *v, int size) {
    outcome fp32 = {0}, o;
    if (!v->json)
        printf("%d layers of %d, batch %lld, length %lld, 256 symbols; MB; act+work and total beside fp32's\n"
               "%-15s %8s %8s %9s %9s %11s %9s %8s %8s   %5s %6s   %s %s\n",
               sizes[size].layers, HIDDEN, (long long)sizes[size].batch, (long long)sizes[size].length, "preset",
               "tokens/s", "weights", "gradients", "optimizer", "activations", "workspace", "total", "resident", "a+w",
               "total", "  loss", "skipped");
    for (int p = 0; p < HST_PRECISIONS; p++) {
        if (!measure(v, size, (hst_precision_kind)p, &o)) return false;
        if (p == HST_FP32) fp32 = o;
        if (v->json)
            print_json(v, size, (hst_precision_kind)p, &o, &fp32);
        else
            print_row((hst_precision_kind)p, &o, &fp32);
    }
    return true;
}

int cli_bench_precision(const bench_values *v) {
    for (int size = 0; size < 2; size++)
        if (!bench_size(v, size)) return CLI_FAILED;
    return CLI_DONE;
}
