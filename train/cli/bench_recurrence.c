// bench_recurrence.c: `halfstep bench recurrence`. The arrays are larger than the caches, so the machine's limit is
// again that of a copy. Counted is what must be moved at least, with E = L B D elements of s bytes: forward reads U
// (3 E) and x and writes h; backward reads U, x and dh and writes dU and dx; and a sixteenth of E states in f32 goes to
// memory and back. As in a model, U is the result of an operation and nobody reads it later, so dU is written over it.
#include <string.h>
#include "train/cli/bench.h"

enum { DTYPES = 3 };
static const hst_dtype dtypes[DTYPES] = {HST_F32, HST_F16, HST_BF16};

// Of a round: seconds, bytes a second of the copy, shares of it, and the time as a part of f32's in the same round.
typedef struct figures {
    double forward, backward, copy;
    double forward_share, backward_share, forward_of_f32, backward_of_f32;
} figures;

typedef struct layer {
    hst_tensor *values; // of U
    hst_tensor *x, *v, *bias, *dh;
    const hst_operation *product; // makes U from `origin`, in a layer's place: its work is not timed
    hst_tensor *origin;
    double ended; // when dU was there
} layer;

static bool product_shape(hst_custom_call *call) {
    const layer *y = hst_custom_user(call);
    return hst_custom_set_output(call, 0, hst_dtype_of(y->values), hst_rank(y->values), hst_shape(y->values));
}

static bool product_forward(hst_custom_call *call) {
    const layer *y = hst_custom_user(call);
    size_t bytes = (size_t)hst_count(y->values) * hst_dtype_size(hst_dtype_of(y->values));
    memcpy(hst_mutable_data(hst_custom_output(call, 0)), hst_data(y->values), bytes);
    return true;
}

static bool product_backward(hst_custom_call *call) {
    layer *y = hst_custom_user(call);
    y->ended = bench_now(hst_thread_count(hst_custom_context(call)));
    return true;
}

static hst_tensor *leaf(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape) {
    hst_tensor *t = hst_uniform(ctx, dtype, rank, shape, -1, 1);
    hst_attach_grad(t, HST_WRITE, dtype);
    return t;
}

static void make_layer(hst_context *ctx, const bench_values *v, hst_dtype dtype, layer *y) {
    int64_t l = v->length, b = v->batch, d = v->columns;
    *y = (layer){.values = hst_uniform(ctx, dtype, HST_SHAPE(l, b, 3 * d), -1, 1),
                 .x = leaf(ctx, dtype, HST_SHAPE(l, b, d)),
                 .v = leaf(ctx, HST_F32, HST_SHAPE(2 * d)),
                 .bias = leaf(ctx, HST_F32, HST_SHAPE(2 * d)),
                 .dh = hst_uniform(ctx, dtype, HST_SHAPE(l, b, d), -1, 1),
                 .origin = leaf(ctx, HST_F32, HST_SHAPE(1))};
    y->product = hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op),
                                                    .name = "product",
                                                    .inputs = {"origin"},
                                                    .outputs = {"u"},
                                                    .user = y,
                                                    .shape = product_shape,
                                                    .forward = product_forward,
                                                    .backward = product_backward});
}

static void measure_round(hst_context *ctx, const bench_values *v, layer *y, const bench_copy *copy, figures *f) {
    double elements = (double)v->length * (double)v->batch * (double)v->columns;
    double each = (double)hst_dtype_size(hst_dtype_of(y->values)), states = elements / 16 * 4;
    int threads = hst_thread_count(ctx);
    f->copy = 2 * (double)copy->bytes / bench_time_copy(copy, threads);
    hst_scope_begin(ctx);
    hst_scope_begin(ctx);
    hst_tensor *u = hst_custom(y->product, &y->origin, NULL, NULL);
    double began = bench_now(threads);
    hst_tensor *h = hst_sru_recurrence(u, y->x, y->v, NULL, y->bias, NULL, NULL, NULL, hst_recurrence_defaults(), NULL);
    double between = bench_now(threads);
    h = hst_scope_end(ctx, h);
    if (h) hst_backward_from(ctx, 1, &h, &y->dh);
    hst_scope_end(ctx, NULL);
    f->forward = between - began;
    f->backward = y->ended - between;
    f->forward_share = (5 * elements * each + states) / f->forward / f->copy;
    f->backward_share = (9 * elements * each + states) / f->backward / f->copy;
}

static void print_json(hst_context *ctx, const bench_values *v, hst_dtype dtype, const figures *rounds) {
    json_object json = json_begin(stdout);
    json_text(&json, "what", "recurrence");
    json_text(&json, "dtype", hst_dtype_name(dtype));
    json_integer(&json, "length", v->length);
    json_integer(&json, "batch", v->batch);
    json_integer(&json, "columns", v->columns);
    json_integer(&json, "threads", hst_thread_count(ctx));
    json_text(&json, "isa", hst_isa(ctx));
    json_integer(&json, "runs", v->runs);
    json_real(&json, "forward_seconds", BENCH_SPREAD(rounds, v->runs, forward).median);
    json_real(&json, "backward_seconds", BENCH_SPREAD(rounds, v->runs, backward).median);
    json_real(&json, "copy_bytes_per_second", BENCH_SPREAD(rounds, v->runs, copy).median);
    json_real(&json, "forward_share_of_copy", BENCH_SPREAD(rounds, v->runs, forward_share).median);
    json_real(&json, "backward_share_of_copy", BENCH_SPREAD(rounds, v->runs, backward_share).median);
    json_real(&json, "forward_of_f32", BENCH_SPREAD(rounds, v->runs, forward_of_f32).median);
    json_real(&json, "backward_of_f32", BENCH_SPREAD(rounds, v->runs, backward_of_f32).median);
    json_end(&json);
}

static void print_line(const char *what, double factor, const char *unit, bench_spread s) {
    printf("  %-18s %8.2f %-4s (%.2f to %.2f)\n", what, factor * s.median, unit, factor * s.least, factor * s.most);
}

static void print_figures(const bench_values *v, hst_dtype dtype, const figures *rounds) {
    printf("%s\n", hst_dtype_name(dtype));
    print_line("forward", 1e3, "ms", BENCH_SPREAD(rounds, v->runs, forward));
    print_line("backward", 1e3, "ms", BENCH_SPREAD(rounds, v->runs, backward));
    print_line("a copy", 1e-9, "GB/s", BENCH_SPREAD(rounds, v->runs, copy));
    print_line("share, forward", 1, "", BENCH_SPREAD(rounds, v->runs, forward_share));
    print_line("share, backward", 1, "", BENCH_SPREAD(rounds, v->runs, backward_share));
    if (dtype == HST_F32) return;
    print_line("of f32's, forward", 1, "", BENCH_SPREAD(rounds, v->runs, forward_of_f32));
    print_line("of f32's, backward", 1, "", BENCH_SPREAD(rounds, v->runs, backward_of_f32));
}

bool bench_recurrence(const bench_run *b) {
    hst_context *ctx = b->ctx;
    const bench_values *v = b->v;
    static figures rounds[DTYPES][BENCH_MAX_RUNS];
    static layer layers[DTYPES]; // the operations keep their addresses
    hst_scope_begin(ctx);
    for (int i = 0; i < DTYPES; i++) make_layer(ctx, v, dtypes[i], &layers[i]);
    hst_tensor *from = hst_zeros(ctx, HST_F32, HST_SHAPE(v->length, v->batch, 3 * v->columns)),
               *to = hst_zeros(ctx, HST_F32, HST_SHAPE(v->length, v->batch, 3 * v->columns));
    bool made = hst_get_status(ctx) == HST_OK;
    bench_copy copy = {0};
    if (made)
        copy = (bench_copy){hst_mutable_data(to), hst_data(from), (size_t)hst_count(from) * sizeof(float), BENCH_PLAIN};
    for (int i = -1; made && i < v->runs; i++) // the first warms up
        for (int k = 0; k < DTYPES; k++) {
            figures *f = &rounds[k][i < 0 ? 0 : i], *f32 = &rounds[0][i < 0 ? 0 : i];
            measure_round(ctx, v, &layers[k], &copy, f);
            f->forward_of_f32 = f->forward / f32->forward;
            f->backward_of_f32 = f->backward / f32->backward;
        }
    hst_scope_end(ctx, NULL);
    if (hst_get_status(ctx)) return false;
    if (!v->json)
        printf("recurrence: %lld steps of %lld x %lld columns, %d threads, %s kernels, median of %d\n",
               (long long)v->length, (long long)v->batch, (long long)v->columns, hst_thread_count(ctx), hst_isa(ctx),
               v->runs);
    for (int k = 0; k < DTYPES; k++)
        if (v->json)
            print_json(ctx, v, dtypes[k], rounds[k]);
        else
            print_figures(v, dtypes[k], rounds[k]);
    return true;
}
