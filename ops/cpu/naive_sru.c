// naive_sru.c: the naive SRU recurrence (Lei et al. 2018) and its gradient. With p = c at t-1 and x' the skip value:
//     f = s(U1 + vf p + bf)   r = s(U2 + vr p + br)   c = U0 + (p - U0) f   h = x' + (a - x') m r   a = c or tanh(c)
// Every column (b, j) is a recurrence of its own, and runs forwards or backwards in time.
#include "ops/cpu/naive.h"

#include <math.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static bool is_padded(const hst_sru_args *args, int64_t row) {
    return args->pad.data && hst_index_at(args->pad, row) != 0;
}

// The t that column j comes to after n steps.
static int64_t time_of(const hst_sru_args *args, int64_t j, int64_t n) {
    return j >= args->width - args->backward_columns ? args->length - 1 - n : n;
}

// What one step needs besides the state: candidate U0, gates f and r, their factors of p, skip value x', mask m.
typedef struct cell {
    double u0, f, r, vf, vr, skip, m;
} cell;

// row = t B + b; p is the state before the step. v_steps has two planes a row.
static cell cell_at(const hst_sru_args *args, int64_t row, int64_t j, double p) {
    int64_t width = args->width, u = row * args->k * width + j, b = row % args->batch;
    double u1 = hst_load(args->u, u + width), u2 = hst_load(args->u, u + 2 * width);
    double vf = load_or(args->v, j, 0) + load_or(args->v_steps, 2 * row * width + j, 0);
    double vr = load_or(args->v, width + j, 0) + load_or(args->v_steps, (2 * row + 1) * width + j, 0);
    double bf = hst_load(args->bias, j), br = hst_load(args->bias, width + j);
    return (cell){
        .u0 = hst_load(args->u, u),
        .f = sigmoid(u1 + vf * p + bf),
        .r = sigmoid(u2 + vr * p + br),
        .vf = vf,
        .vr = vr,
        .skip = args->k == 4 ? hst_load(args->u, u + 3 * width) : args->scale_x * load_or(args->x, row * width + j, 0),
        .m = load_or(args->mask, b * width + j, 1),
    };
}

// The state after a step with state p before it.
static hst_real state_after(const hst_sru_args *args, const cell *s, double p) {
    return (hst_real)add(args->h.dtype, s->u0, (p - s->u0) * s->f);
}

bool KERNEL(sru)(hst_context *ctx, const hst_sru_args *args) {
    (void)ctx;
    int64_t width = args->width;
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t j = 0; j < width; j++) {
            hst_real c = (hst_real)load_or(args->c0, b * width + j, 0);
            for (int64_t n = 0; n < args->length; n++) {
                int64_t row = time_of(args, j, n) * args->batch + b;
                double h = 0;
                if (args->c && n % HST_SRU_SEGMENT == 0)
                    args->c[(n / HST_SRU_SEGMENT * args->batch + b) * width + j] = c;
                if (!is_padded(args, row)) {
                    cell s = cell_at(args, row, j, c);
                    c = state_after(args, &s, c);
                    h = s.skip + ((args->tanh ? tanh(c) : c) - s.skip) * s.m * s.r;
                }
                put(args->h, row * width + j, h);
            }
            args->c_last[b * width + j] = c;
        }
    return true;
}

// The sums of one j over all t and b.
typedef struct parameter_grad {
    double vf, vr, bf, br;
} parameter_grad;

// One step backward: g is dL/dc from all later steps; returns dL/dp. The chain rule through the equations, from the
// last to the first, with s' = s (1 - s), and a' = 1 or, for a = tanh(c), 1 - a^2:
//     gr = dh (a - x') m r (1 - r)          into r's argument
//     gc = g + dh m r a'                    into c, from later steps and from h
//     gf = gc (p - U0) f (1 - f)            into f's argument
//     dU0 = gc (1 - f)   dU1 = gf   dU2 = gr   dx' = dh (1 - m r)
//     dvf += gf p   dvr += gr p   dbf += gf   dbr += gr   dp = gc f + gf vf + gr vr   (dv_steps: gf p, gr p)
static double step_grad(const hst_sru_grad_args *args, int64_t row, int64_t j, double p, double g, parameter_grad *d) {
    const hst_sru_args *forward = &args->forward;
    int64_t width = forward->width, u = row * forward->k * width + j;
    cell s = cell_at(forward, row, j, p);
    double c = state_after(forward, &s, p), dh = load_or(args->dh, row * width + j, 0);
    double a = forward->tanh ? tanh(c) : c, slope = forward->tanh ? 1 - a * a : 1;

    double gr = dh * (a - s.skip) * s.m * s.r * (1 - s.r);
    double gc = add(args->du.dtype, g, dh * s.m * s.r * slope);
    double gf = gc * (p - s.u0) * s.f * (1 - s.f);
    double dskip = dh * (1 - s.m * s.r);

    put(args->du, u, gc * (1 - s.f));
    put(args->du, u + width, gf);
    put(args->du, u + 2 * width, gr);
    if (forward->k == 4)
        put(args->du, u + 3 * width, dskip);
    else
        put(args->dx, row * width + j, forward->scale_x * dskip);
    put(args->dv_steps, 2 * row * width + j, gf * p);
    put(args->dv_steps, (2 * row + 1) * width + j, gr * p);
    d->vf = add(args->dv.dtype, d->vf, gf * p);
    d->vr = add(args->dv.dtype, d->vr, gr * p);
    d->bf = add(args->dbias.dtype, d->bf, gf);
    d->br = add(args->dbias.dtype, d->br, gr);
    return add(args->du.dtype, gc * s.f, gf * s.vf + gr * s.vr);
}

// A padded step passes c on and gives its inputs no gradient.
static void padded_grad(const hst_sru_grad_args *args, int64_t row, int64_t j) {
    int64_t width = args->forward.width, k = args->forward.k;
    for (int64_t m = 0; m < k; m++) put(args->du, (row * k + m) * width + j, 0);
    if (k == 3) put(args->dx, row * width + j, 0);
    for (int64_t m = 0; m < 2; m++) put(args->dv_steps, (2 * row + m) * width + j, 0);
}

// p[i] is the state of column (b, j) before step first + i, up to the end of the segment, as forward had it.
static void states_of_segment(const hst_sru_args *args, int64_t b, int64_t j, int64_t first, double *p) {
    p[0] = args->c[(first / HST_SRU_SEGMENT * args->batch + b) * args->width + j];
    for (int64_t i = 0; i + 1 < HST_SRU_SEGMENT && first + i + 1 < args->length; i++) {
        int64_t row = time_of(args, j, first + i) * args->batch + b;
        cell s = cell_at(args, row, j, p[i]);
        p[i + 1] = is_padded(args, row) ? p[i] : state_after(args, &s, p[i]);
    }
}

// One column: returns dL/dc0.
static double column_grad(const hst_sru_grad_args *args, int64_t b, int64_t j, parameter_grad *d) {
    const hst_sru_args *forward = &args->forward;
    double g = load_or(args->dc_last, b * forward->width + j, 0), p[HST_SRU_SEGMENT];
    for (int64_t n = forward->length - 1; n >= 0; n--) {
        int64_t row = time_of(forward, j, n) * forward->batch + b, i = n % HST_SRU_SEGMENT;
        if (n == forward->length - 1 || i == HST_SRU_SEGMENT - 1) states_of_segment(forward, b, j, n - i, p);
        if (is_padded(forward, row))
            padded_grad(args, row, j);
        else
            g = step_grad(args, row, j, p[i], g, d);
    }
    return g;
}

bool KERNEL(sru_grad)(hst_context *ctx, const hst_sru_grad_args *args) {
    (void)ctx;
    int64_t width = args->forward.width;
    for (int64_t j = 0; j < width; j++) {
        parameter_grad d = {start(args->dv, j), start(args->dv, width + j), start(args->dbias, j),
                            start(args->dbias, width + j)};
        for (int64_t b = 0; b < args->forward.batch; b++) put(args->dc0, b * width + j, column_grad(args, b, j, &d));
        finish(args->dv, j, d.vf);
        finish(args->dv, width + j, d.vr);
        finish(args->dbias, j, d.bf);
        finish(args->dbias, width + j, d.br);
    }
    return true;
}
