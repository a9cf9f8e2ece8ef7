// binary.c: sums, differences, products and quotients of tensors that broadcast, and their gradients. How the kernels
// go through the operands is in repeated.h.
#include "ops/cpu/kernels.h"
#include "ops/cpu/repeated.h"

enum { A = OUT + 1, B, DY, FORWARD = DY, BACKWARD }; // operands of the spaces, and how many each way has

static space space_of(int rank, const int64_t *shape, const int64_t *a_stride, const int64_t *b_stride) {
    space s = {.rank = rank};
    memcpy(s.shape, shape, sizeof s.shape);
    memcpy(s.stride[A], a_stride, sizeof s.stride[A]);
    memcpy(s.stride[B], b_stride, sizeof s.stride[B]);
    hst_row_major(rank, shape, s.stride[OUT]);
    hst_row_major(rank, shape, s.stride[DY]);
    return s;
}

// ---- forward ----

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

INLINE wide combined_wide(hst_arithmetic function, wide a, wide b) {
    switch (function) {
    case HST_PLUS:
        return (wide){a.low + b.low, a.high + b.high};
    case HST_MINUS:
        return (wide){a.low - b.low, a.high - b.high};
    case HST_TIMES:
        return (wide){a.low * b.low, a.high * b.high};
    default:
        return (wide){a.low / b.low, a.high / b.high};
    }
}

// Vector o .. of a run as doubles, or the one double that all elements have.
INLINE wide fetch_wide(hst_source s, int64_t at, int64_t o, int64_t stride, int64_t n, vf first) {
    if (s.dtype == HST_F64) return splat_wide(hst_load(s, at));
    return widened(fetch(s, at + o * stride, stride, n, first));
}

INLINE void combine(const results *job, const int64_t *at, int64_t n, hst_arithmetic function) {
    const hst_binary_args *args = job->args;
    int64_t a_stride = job->last.stride[A], b_stride = job->last.stride[B];
    vf first_a = repeated_at(args->a, at[A], a_stride), first_b = repeated_at(args->b, at[B], b_stride);
    if (args->a.dtype == HST_F64 || args->b.dtype == HST_F64) { // a number of the program's is not rounded to f32
        for (int64_t o = 0; o < n; o += VL) {
            wide a = fetch_wide(args->a, at[A], o, a_stride, n - o, first_a);
            wide b = fetch_wide(args->b, at[B], o, b_stride, n - o, first_b);
            put_sums(args->y, at[OUT] + o, combined_wide(function, a, b), n - o);
        }
        return;
    }
    for (int64_t o = 0; o < n; o += VL) {
        vf a = fetch(args->a, at[A] + o * a_stride, a_stride, n - o, first_a);
        vf b = fetch(args->b, at[B] + o * b_stride, b_stride, n - o, first_b);
        put(args->y, at[OUT] + o, combined(function, a, b), n - o);
    }
}

static void combine_run(const results *job, const int64_t *at, int64_t n) {
    hst_arithmetic function = ((const hst_binary_args *)job->args)->function;
    if (function == HST_PLUS)
        combine(job, at, n, HST_PLUS);
    else if (function == HST_MINUS)
        combine(job, at, n, HST_MINUS);
    else if (function == HST_TIMES)
        combine(job, at, n, HST_TIMES);
    else
        combine(job, at, n, HST_OVER);
}

bool KERNEL(binary)(hst_context *ctx, const hst_binary_args *args) {
    space all = space_of(args->rank, args->shape, args->a_stride, args->b_stride);
    make_results(ctx, &(results){.args = args, .operands = FORWARD, .combine = combine_run}, &all);
    return true;
}

// ---- gradients ----

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
INLINE reader reader_of(const sums *job, hst_source from, const int64_t *at, int operand) {
    int64_t stride = job->last.stride[operand];
    return (reader){from, at[operand], stride, repeated_at(from, at[operand], stride)};
}
INLINE wide read(const reader *r, int64_t i, int64_t n, float otherwise) {
    return widened(first_lanes(fetch(r->from, r->at + i * r->stride, r->stride, n, r->first), n, otherwise));
}

// As the field add_run of repeated.h says.
INLINE void add_terms(const sums *job, const int64_t *at, int64_t n, wide *sum, hst_arithmetic function, int operand) {
    const hst_binary_grad_args *args = job->args;
    reader dy = reader_of(job, args->dy, at, DY), a = reader_of(job, args->a, at, A),
           b = reader_of(job, args->b, at, B);
    int64_t step = job->last_is_kept;
    for (int64_t i = 0; i < n; i += VL, sum += step) {
        wide none = {{0}, {0}};
        wide x = reads(function, operand, A) ? read(&a, i, n - i, 1) : none;
        wide y = reads(function, operand, B) ? read(&b, i, n - i, 1) : none;
        accumulate(sum, term_of(function, operand, read(&dy, i, n - i, 0), x, y));
    }
}

static void add_run(const sums *job, const int64_t *at, int64_t n, wide *sum) {
    const hst_binary_grad_args *args = job->args;
    int operand = args->operand;
    if (args->function == HST_PLUS)
        add_terms(job, at, n, sum, HST_PLUS, 0);
    else if (args->function == HST_MINUS)
        operand == 0 ? add_terms(job, at, n, sum, HST_MINUS, 0) : add_terms(job, at, n, sum, HST_MINUS, 1);
    else if (args->function == HST_TIMES)
        operand == 0 ? add_terms(job, at, n, sum, HST_TIMES, 0) : add_terms(job, at, n, sum, HST_TIMES, 1);
    else
        operand == 0 ? add_terms(job, at, n, sum, HST_OVER, 0) : add_terms(job, at, n, sum, HST_OVER, 1);
}

bool KERNEL(binary_grad)(hst_context *ctx, const hst_binary_grad_args *args) {
    space all = space_of(args->rank, args->shape, args->a_stride, args->b_stride);
    memcpy(all.stride[OUT], args->dx_stride, sizeof args->dx_stride);
    return make_sums(ctx, &(sums){.args = args, .operands = BACKWARD, .to = args->dx, .add_run = add_run}, &all);
}
