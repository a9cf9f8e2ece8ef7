// recurrence.c: the SRU recurrence and its gradient; the equations stand at hst_sru_args in tensor/backend.h. Columns
// (b, j) are independent and time is a chain. So a task takes up to COLUMNS columns of one b through all steps, with
// vectors along j: it reads and writes whole pieces of rows, and what outlives a step stays in L1.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_math.h"

enum {
    COLUMNS = 256,
    ABREAST = 2,      // vectors that go through a step together: their four gates keep the core busy
    STEPS_IN_F32 = 64 // of a sum of dv and dbias, before it is added to a double
};

// What belongs to VL neighbouring columns lies together: loads and stores a multiple of 4096 bytes apart would collide.
typedef struct column {
    vf v[2], bias[2], mask; // forget, then reset
    vf state;               // forward: c. Backward: dL/dc as far as it comes from later steps
    vf sum[4];              // backward: of dvf, dvr, dbf and dbr
} column;

typedef struct job {
    const hst_sru_args *forward;
    const hst_sru_grad_args *grad;
    int64_t column_blocks;
    wide *partial; // [b][dvf, dvr, dbf, dbr][vector of columns]
} job;

INLINE range columns_of(const job *w, int64_t task) {
    return part(task % w->column_blocks, COLUMNS, w->forward->width);
}

static void load_columns(const hst_sru_args *a, int64_t b, range columns, hst_source state, column *s) {
    int64_t width = a->width;
    for (int64_t j = columns.begin; j < columns.end; j += VL) {
        int64_t n = columns.end - j;
        *s++ = (column){
            .v = {get_or(a->v, j, n, 0), get_or(a->v, width + j, n, 0)},
            .bias = {get_or(a->bias, j, n, 0), get_or(a->bias, width + j, n, 0)},
            .mask = get_or(a->mask, b * width + j, n, 1),
            .state = get_or(state, b * width + j, n, 0),
        };
    }
}

INLINE bool is_padded(const hst_sru_args *a, int64_t row) { return a->pad.data && ((const uint8_t *)a->pad.data)[row]; }

// Asks the cache for n elements of the next step. Its rows are pages away, where the hardware does not look ahead, also
// those to be written. Half of the time goes without it.
INLINE void ask_for(hst_source s, int64_t i, int64_t n) {
    if (!s.data) return;
    uintptr_t first = (uintptr_t)s.data + (uintptr_t)i * size_of(s.dtype);
    for (uintptr_t o = 0; o < (uintptr_t)n * size_of(s.dtype); o += 64) __builtin_prefetch((const void *)(first + o));
}

// Below, `count` vectors are treated together, and the last has n columns. u and x are the places of the first in U and
// in arrays like x and h.

INLINE void gates(const hst_sru_args *a, int64_t u, int64_t n, const column *s, const vf *p, vf *f, vf *r, int count) {
    vf z[MOST_ABREAST];
    EACH(i, count) {
        z[i] = multiply_add(s[i].v[0], p[i], get(a->u, u + a->width + i * VL, n) + s[i].bias[0]);
        z[count + i] = multiply_add(s[i].v[1], p[i], get(a->u, u + 2 * a->width + i * VL, n) + s[i].bias[1]);
    }
    sigmoid_of(z, 2 * count);
    EACH(i, count) {
        f[i] = z[i];
        r[i] = z[count + i];
    }
}

INLINE vf skip_value(const hst_sru_args *a, int64_t u, int64_t x, int64_t n) {
    if (a->k == 4) return get(a->u, u + 3 * a->width, n);
    return (float)a->scale_x * get_or(a->x, x, n, 0);
}

// ---- forward ----

INLINE void ask_for_forward(const hst_sru_args *a, int64_t u, int64_t x, int64_t n) {
    for (int m = 0; m < a->k; m++) ask_for(a->u, u + m * a->width, n);
    ask_for(a->x, x, n);
    ask_for(as_source(a->h), x, n);
    ask_for(from_f32(a->c), x, n);
}

INLINE void forward(const hst_sru_args *a, int64_t u, int64_t x, int64_t n, column *s, int count) {
    int64_t step = a->batch * a->width;
    ask_for_forward(a, u + step * a->k, x + step, count * VL);
    vf p[ABREAST], f[ABREAST], r[ABREAST];
    EACH(i, count) p[i] = s[i].state;
    gates(a, u, n, s, p, f, r, count);
    EACH(i, count) {
        int64_t ui = u + i * VL, xi = x + i * VL;
        vf u0 = get(a->u, ui, n), skip = skip_value(a, ui, xi, n);
        vf c = s[i].state = multiply_add(p[i] - u0, f[i], u0);
        put(a->h, xi, multiply_add(c - skip, s[i].mask * r[i], skip), n);
        put_if(to_f32(a->c), xi, c, n);
    }
}

static void forward_padded(const hst_sru_args *a, int64_t row, range columns, const column *s) {
    for (int64_t j = columns.begin; j < columns.end; j += VL, s++) {
        put(a->h, row * a->width + j, splat(0), columns.end - j);
        put_if(to_f32(a->c), row * a->width + j, s->state, columns.end - j);
    }
}

static void forward_row(const hst_sru_args *a, int64_t row, range columns, column *s) {
    int64_t j = columns.begin, u = row * a->k * a->width, x = row * a->width;
    for (; j + ABREAST * VL <= columns.end; j += ABREAST * VL, s += ABREAST) forward(a, u + j, x + j, VL, s, ABREAST);
    for (; j < columns.end; j += VL, s++) forward(a, u + j, x + j, columns.end - j, s, 1);
}

static void forward_task(void *arg, int64_t task) {
    const job *w = arg;
    const hst_sru_args *a = w->forward;
    int64_t b = task / w->column_blocks;
    range columns = columns_of(w, task);
    column s[COLUMNS / VL];
    load_columns(a, b, columns, a->c0, s);
    for (int64_t t = 0; t < a->length; t++) {
        int64_t row = t * a->batch + b;
        if (is_padded(a, row))
            forward_padded(a, row, columns, s);
        else
            forward_row(a, row, columns, s);
    }
    for (int64_t j = columns.begin, i = 0; j < columns.end; j += VL, i++)
        put(to_f32(a->c_last), b * a->width + j, s[i].state, columns.end - j);
}

bool KERNEL(sru)(hst_context *ctx, const hst_sru_args *args) {
    job w = {args, NULL, divide_up(args->width, COLUMNS), NULL};
    hst_parallel(ctx, args->batch * w.column_blocks, forward_task, &w);
    return true;
}

// ---- backward ----
// t descending, the gates computed again from the saved states. With g = dL/dc from later steps:
//
//     gc = g + dh m r                   into c
//     gf = gc (p - U0) f (1 - f)        into f's argument
//     gr = dh (c - x') m r (1 - r)      into r's argument
//     dU0 = gc (1 - f)     dU1 = gf     dU2 = gr     dx' = dh (1 - m r)     g = gc f + gf vf + gr vr
//     dvf = sum of gf p     dvr = sum of gr p     dbf = sum of gf     dbr = sum of gr

INLINE void ask_for_backward(const hst_sru_grad_args *d, int64_t u, int64_t x, int64_t n) {
    const hst_sru_args *a = &d->forward;
    for (int m = 0; m < a->k; m++) {
        ask_for(a->u, u + m * a->width, n);
        ask_for(as_source(d->du), u + m * a->width, n);
    }
    ask_for(a->x, x, n);
    ask_for(d->dh, x, n);
    ask_for(as_source(d->dx), x, n);
    ask_for(from_f32(a->c), x - a->batch * a->width, n);
}

// `before` has c_{t-1} of the first column as its element `at`; where it is absent, p = 0.
INLINE void backward(const hst_sru_grad_args *d, hst_source before, int64_t at, int64_t u, int64_t x, int64_t n,
                     column *s, int count) {
    const hst_sru_args *a = &d->forward;
    int64_t step = a->batch * a->width;
    ask_for_backward(d, u - step * a->k, x - step, count * VL);
    vf p[ABREAST], f[ABREAST], r[ABREAST];
    EACH(i, count) p[i] = get_or(before, at + i * VL, n, 0);
    gates(a, u, n, s, p, f, r, count);
    EACH(i, count) {
        int64_t ui = u + i * VL, xi = x + i * VL;
        vf u0 = get(a->u, ui, n), skip = skip_value(a, ui, xi, n), c = get(from_f32(a->c), xi, n);
        vf dh = get_or(d->dh, xi, n, 0), dh_mr = dh * s[i].mask * r[i];
        vf gc = s[i].state + dh_mr, du0 = gc * (1 - f[i]);
        vf gf = du0 * f[i] * (p[i] - u0), gr = (c - skip) * dh_mr * (1 - r[i]);
        s[i].state = gc * f[i] + gf * s[i].v[0] + gr * s[i].v[1];
        s[i].sum[0] += gf * p[i];
        s[i].sum[1] += gr * p[i];
        s[i].sum[2] += gf;
        s[i].sum[3] += gr;
        put_if(d->du, ui, du0, n);
        put_if(d->du, ui + a->width, gf, n);
        put_if(d->du, ui + 2 * a->width, gr, n);
        if (a->k == 4)
            put_if(d->du, ui + 3 * a->width, dh - dh_mr, n);
        else
            put_if(d->dx, xi, (float)a->scale_x * (dh - dh_mr), n);
    }
}

static void backward_padded(const hst_sru_grad_args *d, int64_t row, range columns) {
    const hst_sru_args *a = &d->forward;
    for (int64_t j = columns.begin; j < columns.end; j += VL) {
        for (int m = 0; m < a->k; m++) put_if(d->du, (row * a->k + m) * a->width + j, splat(0), columns.end - j);
        if (a->k == 3) put_if(d->dx, row * a->width + j, splat(0), columns.end - j);
    }
}

static void backward_row(const hst_sru_grad_args *d, int64_t t, int64_t b, range columns, column *s) {
    const hst_sru_args *a = &d->forward;
    int64_t row = t * a->batch + b, j = columns.begin, u = row * a->k * a->width, x = row * a->width;
    hst_source before = t > 0 ? from_f32(a->c) : a->c0;
    int64_t at = t > 0 ? x - a->batch * a->width : b * a->width;
    for (; j + ABREAST * VL <= columns.end; j += ABREAST * VL, s += ABREAST)
        backward(d, before, at + j, u + j, x + j, VL, s, ABREAST);
    for (; j < columns.end; j += VL, s++) backward(d, before, at + j, u + j, x + j, columns.end - j, s, 1);
}

// Moves the sums of the last steps to the doubles.
static void move_sums(const job *w, int64_t b, range columns, column *s) {
    int64_t stride = vectors(w->forward->width);
    for (int64_t j = columns.begin; j < columns.end; j += VL, s++)
        for (int m = 0; m < 4; m++) {
            accumulate(&w->partial[(b * 4 + m) * stride + j / VL], widened(s->sum[m]));
            s->sum[m] = splat(0);
        }
}

static void backward_task(void *arg, int64_t task) {
    const job *w = arg;
    const hst_sru_args *a = w->forward;
    int64_t b = task / w->column_blocks;
    range columns = columns_of(w, task);
    column s[COLUMNS / VL];
    load_columns(a, b, columns, w->grad->dc_last, s);
    for (int64_t t = a->length - 1; t >= 0; t--) {
        int64_t row = t * a->batch + b;
        if (is_padded(a, row))
            backward_padded(w->grad, row, columns);
        else
            backward_row(w->grad, t, b, columns, s);
        if (t % STEPS_IN_F32 == 0) move_sums(w, b, columns, s);
    }
    for (int64_t j = columns.begin, i = 0; j < columns.end; j += VL, i++)
        put_if(w->grad->dc0, b * a->width + j, s[i].state, columns.end - j);
}

bool KERNEL(sru_grad)(hst_context *ctx, const hst_sru_grad_args *args) {
    const hst_sru_args *a = &args->forward;
    int64_t stride = vectors(a->width);
    size_t bytes = (size_t)(a->batch * 4 * stride) * sizeof(wide);
    job w = {a, args, divide_up(a->width, COLUMNS), hst_workspace(ctx, bytes)};
    if (!w.partial) return false;
    memset(w.partial, 0, bytes);
    hst_parallel(ctx, a->batch * w.column_blocks, backward_task, &w);
    hst_target targets[4] = {args->dv, args->dv, args->dbias, args->dbias};
    for (int m = 0; m < 4; m++)
        add_partials(w.partial + m * stride, a->batch, 4 * stride, 1, targets[m], m % 2 * a->width, a->width);
    hst_workspace_free(ctx, w.partial);
    return true;
}
