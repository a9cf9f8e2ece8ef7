// recurrence.c: the SRU recurrence and its gradient; the equations stand at hst_sru_args in tensor/backend.h. Columns
// (b, j) are independent and time is a chain. So a task takes up to COLUMNS columns of one b and one direction through
// all steps, with vectors along j: it reads and writes whole pieces of rows, and what outlives a step stays in L1.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_math.h"

enum {
    COLUMNS = 512,
    ABREAST = 4,      // vectors that go through a step together: their eight gates keep the core busy
    STEPS_IN_F32 = 64 // of a sum of dv and dbias, before it is added to a double
};

// What belongs to VL neighbouring columns lies together: loads and stores a multiple of 4096 bytes apart would collide.
typedef struct column {
    vf v[2], bias[2], mask; // forget, then reset
    vf c;
    vf g, sum[4]; // backward: dL/dc as far as it comes from later steps; of dvf, dvr, dbf and dbr
} column;

// What backward needs of a step of VL columns: c before it, and the gates.
typedef struct step {
    vf p, f, r;
} step;

typedef struct job {
    const hst_sru_args *forward;
    const hst_sru_grad_args *grad;
    int64_t blocks[2]; // of columns: of those that go forwards in time, and of the others
    wide *partial;     // [b][dvf, dvr, dbf, dbr][vector of columns, each direction's first at a vector of its own]
} job;

// What a task works on. `origin` is the first column of its direction, `vector` that column's in job.partial.
typedef struct piece {
    range columns;
    int64_t b, origin, vector;
    bool backwards;
} piece;

static job job_of(const hst_sru_args *a, const hst_sru_grad_args *grad) {
    int64_t forwards = a->width - a->backward_columns;
    return (job){a, grad, {divide_up(forwards, COLUMNS), divide_up(a->backward_columns, COLUMNS)}, NULL};
}

INLINE int64_t tasks_of(const job *w) { return w->forward->batch * (w->blocks[0] + w->blocks[1]); }

static piece piece_of(const job *w, int64_t task) {
    const hst_sru_args *a = w->forward;
    int64_t all = w->blocks[0] + w->blocks[1], block = task % all, forwards = a->width - a->backward_columns;
    if (block < w->blocks[0]) return (piece){part(block, COLUMNS, forwards), task / all, 0, 0, false};
    range columns = part(block - w->blocks[0], COLUMNS, a->backward_columns);
    return (piece){{columns.begin + forwards, columns.end + forwards}, task / all, forwards, vectors(forwards), true};
}

// The row (t, b) that a piece comes to after n steps.
INLINE int64_t row_of(const hst_sru_args *a, const piece *p, int64_t n) {
    return (p->backwards ? a->length - 1 - n : n) * a->batch + p->b;
}

// `dc_last` is absent in forward.
static void load_columns(const hst_sru_args *a, const piece *p, hst_source dc_last, column *s) {
    int64_t width = a->width;
    for (int64_t j = p->columns.begin; j < p->columns.end; j += VL) {
        int64_t n = p->columns.end - j;
        *s++ = (column){
            .v = {get_or(a->v, j, n, 0), get_or(a->v, width + j, n, 0)},
            .bias = {get_or(a->bias, j, n, 0), get_or(a->bias, width + j, n, 0)},
            .mask = get_or(a->mask, p->b * width + j, n, 1),
            .c = get_or(a->c0, p->b * width + j, n, 0),
            .g = get_or(dc_last, p->b * width + j, n, 0),
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

// Where column j of a row is: in U, in v_steps, and in arrays like x and h.
typedef struct place {
    int64_t u, v, x;
} place;

INLINE place place_of(const hst_sru_args *a, int64_t row, int64_t j) {
    return (place){row * a->k * a->width + j, row * 2 * a->width + j, row * a->width + j};
}
INLINE place moved(place at, int64_t columns) { return (place){at.u + columns, at.v + columns, at.x + columns}; }

// Most networks have neither tanh nor v_steps, and one dtype for u and h. Where these are constants, nothing is left of
// them in the inner loops. So there the arguments are a copy, in which they are set once more.
INLINE bool is_plain(const hst_sru_args *a) {
    return !a->tanh && !a->v_steps.data && a->u.dtype == a->h.dtype && !a->h.add;
}
INLINE hst_sru_args plain_args(const hst_sru_args *args, hst_dtype dtype) {
    hst_sru_args a = *args;
    a.tanh = a.h.add = false;
    a.v_steps.data = NULL;
    a.u.dtype = a.h.dtype = dtype;
    return a;
}

// Below, `count` vectors are treated together, and the last has n columns. `at` is the place of the first column.

// The weights of p in gate m: v, and those of the step.
INLINE vf gate_weights(const hst_sru_args *a, place at, int64_t n, const column *s, int m) {
    return a->v_steps.data ? s->v[m] + get(a->v_steps, at.v + m * a->width, n) : s->v[m];
}

INLINE vf state_after(const step *g, vf u0) { return multiply_add(g->p - u0, g->f, u0); }

// The gates, and c after the step. Backward goes the same way from the states that forward saved, to the same bits.
INLINE void advance(const hst_sru_args *a, place at, int64_t n, column *s, step *g, int count) {
    vf z[MOST_ABREAST];
    EACH(m, 2) EACH(i, count) {
        place here = moved(at, i * VL);
        vf u = get(a->u, here.u + (m + 1) * a->width, n);
        z[m * count + i] = multiply_add(gate_weights(a, here, n, &s[i], m), s[i].c, u + s[i].bias[m]);
    }
    sigmoid_of(z, 2 * count);
    EACH(i, count) {
        g[i] = (step){s[i].c, z[i], z[count + i]};
        s[i].c = state_after(&g[i], get(a->u, at.u + i * VL, n));
    }
}

// Vectors one after the other. They are stored when all have been computed: loads after the first store would wait.
INLINE void put_each(hst_target y, int64_t i, const vf *x, int64_t n, int count) {
    if (y.data) EACH(k, count) put(y, i + k * VL, x[k], n);
}

INLINE vf skip_value(const hst_sru_args *a, place at, int64_t n) {
    if (a->k == 4) return get(a->u, at.u + 3 * a->width, n);
    return (float)a->scale_x * get_or(a->x, at.x, n, 0);
}

// ---- forward ----

INLINE void ask_for_gates(const hst_sru_args *a, place at, int64_t n) {
    for (int m = 0; m < a->k; m++) ask_for(a->u, at.u + m * a->width, n);
    for (int m = 0; m < 2; m++) ask_for(a->v_steps, at.v + m * a->width, n);
}

INLINE void ask_for_forward(const hst_sru_args *a, place at, int64_t n, bool streams) {
    ask_for_gates(a, at, n);
    ask_for(a->x, at.x, n);
    if (!streams) ask_for(as_source(a->h), at.x, n);
}

INLINE void forward(const hst_sru_args *a, place at, int64_t n, column *s, int count, bool streams) {
    step g[ABREAST];
    vf h[ABREAST];
    advance(a, at, n, s, g, count);
    EACH(i, count) h[i] = s[i].c;
    if (a->tanh) tanh_of(h, count);
    EACH(i, count) {
        vf skip = skip_value(a, moved(at, i * VL), n);
        h[i] = multiply_add(h[i] - skip, s[i].mask * g[i].r, skip);
    }
    if (streams && n >= VL)
        EACH(i, count) stream((float *)a->h.data + at.x + i * VL, h[i]);
    else
        put_each(a->h, at.x, h, n, count);
}

INLINE void forward_padded(const hst_sru_args *a, int64_t row, range columns) {
    for (int64_t j = columns.begin; j < columns.end; j += VL) put(a->h, row * a->width + j, splat(0), columns.end - j);
}

// `next` is the row of the next step.
INLINE void forward_row(const hst_sru_args *a, int64_t row, int64_t next, range columns, column *s, bool streams) {
    int64_t j = columns.begin;
    for (; j + ABREAST * VL <= columns.end; j += ABREAST * VL, s += ABREAST) {
        forward(a, place_of(a, row, j), VL, s, ABREAST, streams);
        ask_for_forward(a, place_of(a, next, j), ABREAST * VL, streams);
    }
    for (; j < columns.end; j += VL, s++) {
        forward(a, place_of(a, row, j), columns.end - j, s, 1, streams);
        ask_for_forward(a, place_of(a, next, j), VL, streams);
    }
}

// c of a piece's columns, to row `row` of an array like c_last.
INLINE void put_states(hst_real *c, const hst_sru_args *a, const piece *p, int64_t row, const column *s) {
    for (int64_t j = p->columns.begin; j < p->columns.end; j += VL, s++)
        put(to_f32(c), row * a->width + j, s->c, p->columns.end - j);
}

// Whether h should go past the caches. When it is read next, five times its size has gone through them: U, x or the
// fourth of U, and h. In 16 bits the conversions set the pace, and streaming gains nothing.
INLINE bool streams_h(const hst_sru_args *a, const piece *p) {
    size_t bytes = (size_t)a->width * sizeof(float);
    return a->h.dtype == HST_F32 && !a->h.add && can_stream(a->h.data, 5 * a->length * a->batch, bytes) &&
           (size_t)p->columns.begin * sizeof(float) % sizeof(vf) == 0;
}

INLINE void forward_steps(const hst_sru_args *a, const piece *p, column *s) {
    bool streams = streams_h(a, p);
    for (int64_t n = 0; n < a->length; n++) {
        int64_t row = row_of(a, p, n);
        if (a->c && n % HST_SRU_SEGMENT == 0) put_states(a->c, a, p, n / HST_SRU_SEGMENT * a->batch + p->b, s);
        if (is_padded(a, row))
            forward_padded(a, row, p->columns);
        else
            forward_row(a, row, row_of(a, p, n + 1), p->columns, s, streams);
    }
    put_states(a->c_last, a, p, p->b, s);
    if (streams) end_streams();
}

INLINE void forward_plain(const hst_sru_args *args, const piece *p, column *s, hst_dtype dtype) {
    hst_sru_args a = plain_args(args, dtype);
    forward_steps(&a, p, s);
}

static void forward_task(void *arg, int64_t task) {
    const job *w = arg;
    const hst_sru_args *a = w->forward;
    piece p = piece_of(w, task);
    column s[COLUMNS / VL];
    load_columns(a, &p, (hst_source){0}, s);
    if (!is_plain(a))
        forward_steps(a, &p, s);
    else
        WITH_DTYPE(a->u.dtype, forward_plain, a, &p, s)
}

bool KERNEL(sru)(hst_context *ctx, const hst_sru_args *args) {
    job w = job_of(args, NULL);
    hst_parallel(ctx, tasks_of(&w), forward_task, &w);
    return true;
}

// ---- backward ----
// Segment by segment from the last: first forward through it, from the state that was saved before it, keeping p, f and
// r of each step; then back. With g = dL/dc from later steps, and a' = 1 or, for a = tanh(c), 1 - a^2:
//
//     gc = g + dh m r a'                into c
//     gf = gc (p - U0) f (1 - f)        into f's argument
//     gr = dh (a - x') m r (1 - r)      into r's argument
//     dU0 = gc (1 - f)     dU1 = gf     dU2 = gr     dx' = dh (1 - m r)     g = gc f + gf vf + gr vr
//     dvf = sum of gf p     dvr = sum of gr p     dbf = sum of gf     dbr = sum of gr     dv_steps = gf p, gr p

// The gates of segment `steps` of a piece, g[step][vector of columns], and s.c, which is before it and then after it.
INLINE void recompute(const hst_sru_args *a, range steps, const piece *p, column *first, step (*g)[COLUMNS / VL]) {
    for (int64_t n = steps.begin; n < steps.end; n++, g++) {
        int64_t row = row_of(a, p, n), end = p->columns.end, j = p->columns.begin;
        int64_t next = row_of(a, p, n + 1 < steps.end ? n + 1 : steps.begin - HST_SRU_SEGMENT);
        column *s = first;
        step *out = *g;
        if (is_padded(a, row)) continue;
        for (; j + ABREAST * VL <= end; j += ABREAST * VL, s += ABREAST, out += ABREAST) {
            advance(a, place_of(a, row, j), VL, s, out, ABREAST);
            ask_for_gates(a, place_of(a, next, j), ABREAST * VL);
        }
        for (; j < end; j += VL, s++, out++) {
            advance(a, place_of(a, row, j), end - j, s, out, 1);
            ask_for_gates(a, place_of(a, next, j), VL);
        }
    }
}

INLINE void ask_for_backward(const hst_sru_grad_args *d, place at, int64_t n) {
    const hst_sru_args *a = &d->forward;
    for (int m = 0; m < a->k; m++) ask_for(as_source(d->du), at.u + m * a->width, n);
    for (int m = 0; m < 2; m++) ask_for(as_source(d->dv_steps), at.v + m * a->width, n);
    ask_for(a->x, at.x, n);
    ask_for(d->dh, at.x, n);
    ask_for(as_source(d->dx), at.x, n);
}

INLINE void backward(const hst_sru_grad_args *d, place at, int64_t n, column *s, const step *g, int count) {
    const hst_sru_args *a = &d->forward;
    vf du[3][ABREAST], dskip[ABREAST], dweights[2][ABREAST];
    EACH(i, count) {
        place here = moved(at, i * VL);
        vf p = g[i].p, f = g[i].f, r = g[i].r;
        vf u0 = get(a->u, here.u, n), skip = skip_value(a, here, n), y = state_after(&g[i], u0);
        if (a->tanh) tanh_of(&y, 1);
        vf dh = get_or(d->dh, here.x, n, 0), dh_mr = dh * s[i].mask * r;
        vf gc = s[i].g + (a->tanh ? dh_mr * (1 - y * y) : dh_mr), du0 = gc * (1 - f);
        vf gf = du0 * f * (p - u0), gr = (y - skip) * dh_mr * (1 - r);
        vf forget = gate_weights(a, here, n, &s[i], 0), reset = gate_weights(a, here, n, &s[i], 1);
        s[i].g = gc * f + gf * forget + gr * reset;
        du[0][i] = du0, du[1][i] = gf, du[2][i] = gr;
        dweights[0][i] = gf * p, dweights[1][i] = gr * p;
        s[i].sum[0] += dweights[0][i];
        s[i].sum[1] += dweights[1][i];
        s[i].sum[2] += gf;
        s[i].sum[3] += gr;
        dskip[i] = a->k == 4 ? dh - dh_mr : (float)a->scale_x * (dh - dh_mr);
    }
    EACH(m, 3) put_each(d->du, at.u + m * a->width, du[m], n, count);
    EACH(m, 2) put_each(d->dv_steps, at.v + m * a->width, dweights[m], n, count);
    if (a->k == 4)
        put_each(d->du, at.u + 3 * a->width, dskip, n, count);
    else
        put_each(d->dx, at.x, dskip, n, count);
}

INLINE void backward_padded(const hst_sru_grad_args *d, int64_t row, range columns) {
    const hst_sru_args *a = &d->forward;
    for (int64_t j = columns.begin; j < columns.end; j += VL) {
        place at = place_of(a, row, j);
        for (int m = 0; m < a->k; m++) put_if(d->du, at.u + m * a->width, splat(0), columns.end - j);
        for (int m = 0; m < 2; m++) put_if(d->dv_steps, at.v + m * a->width, splat(0), columns.end - j);
        if (a->k == 3) put_if(d->dx, at.x, splat(0), columns.end - j);
    }
}

// `before` is the row of the step before.
INLINE void backward_row(const hst_sru_grad_args *d, int64_t row, int64_t before, range columns, column *s,
                         const step *g) {
    const hst_sru_args *a = &d->forward;
    int64_t j = columns.begin;
    for (; j + ABREAST * VL <= columns.end; j += ABREAST * VL, s += ABREAST, g += ABREAST) {
        backward(d, place_of(a, row, j), VL, s, g, ABREAST);
        ask_for_backward(d, place_of(a, before, j), ABREAST * VL);
    }
    for (; j < columns.end; j += VL, s++, g++) {
        backward(d, place_of(a, row, j), columns.end - j, s, g, 1);
        ask_for_backward(d, place_of(a, before, j), VL);
    }
}

INLINE void backward_segment(const hst_sru_grad_args *d, range steps, const piece *p, column *s) {
    const hst_sru_args *a = &d->forward;
    step g[HST_SRU_SEGMENT][COLUMNS / VL];
    recompute(a, steps, p, s, g);
    for (int64_t n = steps.end - 1; n >= steps.begin; n--) {
        int64_t row = row_of(a, p, n);
        if (is_padded(a, row))
            backward_padded(d, row, p->columns);
        else
            backward_row(d, row, row_of(a, p, n - 1), p->columns, s, g[n - steps.begin]);
    }
}

INLINE void backward_plain(const hst_sru_grad_args *args, range steps, const piece *p, column *s, hst_dtype dtype) {
    hst_sru_grad_args d = *args;
    d.forward = plain_args(&args->forward, dtype);
    d.dv_steps.data = NULL;
    d.dh.dtype = d.du.dtype = dtype;
    d.du.add = false;
    backward_segment(&d, steps, p, s);
}

static bool is_plain_grad(const hst_sru_grad_args *d) {
    hst_dtype dtype = d->forward.u.dtype;
    return is_plain(&d->forward) && !d->du.add && (!d->du.data || d->du.dtype == dtype) &&
           (!d->dh.data || d->dh.dtype == dtype);
}

// Moves the sums of the last steps to the doubles.
static void move_sums(const job *w, const piece *p, int64_t stride, column *s) {
    int64_t vector = p->vector + (p->columns.begin - p->origin) / VL;
    for (int64_t j = p->columns.begin; j < p->columns.end; j += VL, s++, vector++)
        for (int m = 0; m < 4; m++) {
            accumulate(&w->partial[(p->b * 4 + m) * stride + vector], widened(s->sum[m]));
            s->sum[m] = splat(0);
        }
}

// Vectors in a row of job.partial.
INLINE int64_t partial_vectors(const hst_sru_args *a) {
    return vectors(a->width - a->backward_columns) + vectors(a->backward_columns);
}

// The states that forward saved in row `row`.
static void get_states(const hst_sru_args *a, const piece *p, int64_t row, column *s) {
    for (int64_t j = p->columns.begin; j < p->columns.end; j += VL, s++)
        s->c = get(from_f32(a->c), row * a->width + j, p->columns.end - j);
}

static void backward_task(void *arg, int64_t task) {
    const job *w = arg;
    const hst_sru_args *a = w->forward;
    piece p = piece_of(w, task);
    column s[COLUMNS / VL];
    load_columns(a, &p, w->grad->dc_last, s);
    for (int64_t i = divide_up(a->length, HST_SRU_SEGMENT) - 1; i >= 0; i--) {
        range steps = part(i, HST_SRU_SEGMENT, a->length);
        get_states(a, &p, i * a->batch + p.b, s);
        if (!is_plain_grad(w->grad))
            backward_segment(w->grad, steps, &p, s);
        else
            WITH_DTYPE(a->u.dtype, backward_plain, w->grad, steps, &p, s)
        if (steps.begin % STEPS_IN_F32 == 0) move_sums(w, &p, partial_vectors(a), s);
    }
    for (int64_t j = p.columns.begin, i = 0; j < p.columns.end; j += VL, i++)
        put_if(w->grad->dc0, p.b * a->width + j, s[i].g, p.columns.end - j);
}

bool KERNEL(sru_grad)(hst_context *ctx, const hst_sru_grad_args *args) {
    const hst_sru_args *a = &args->forward;
    int64_t stride = partial_vectors(a), forwards = a->width - a->backward_columns;
    size_t bytes = (size_t)(a->batch * 4 * stride) * sizeof(wide);
    job w = job_of(a, args);
    w.partial = hst_workspace(ctx, bytes);
    if (!w.partial) return false;
    memset(w.partial, 0, bytes);
    hst_parallel(ctx, tasks_of(&w), backward_task, &w);
    hst_target targets[4] = {args->dv, args->dv, args->dbias, args->dbias};
    for (int m = 0; m < 4; m++) {
        const wide *sums = w.partial + m * stride;
        int64_t first = m % 2 * a->width;
        add_partials(sums, a->batch, 4 * stride, 1, targets[m], first, forwards);
        add_partials(sums + vectors(forwards), a->batch, 4 * stride, 1, targets[m], first + forwards,
                     a->backward_columns);
    }
    hst_workspace_free(ctx, w.partial);
    return true;
}
