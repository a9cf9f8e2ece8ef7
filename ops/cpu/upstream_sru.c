// upstream_sru.c: the recurrence with every rounding that SRU's own CUDA kernel (version 3, sru_cuda_kernel.cu) makes
// when it runs in 16 bits, for tests and teaching: what this library's kernels avoid. ops/README.md has the numbers.
// Compiled once, for all instruction sets, as cpu.c.
//
// There each operand and each result of + - x is a 16-bit number, a gate is one, the state and dc are, and so are the
// sums of dv and dbias, which are rounded at every step; gf and gr alone are f32, as products with f32 factors 1 - f.
// The 16-bit type is h's; if h is f32, all of it is f32.
#include <math.h>
#include "tensor/context.h"

// x rounded to h's dtype.
static float lp(const hst_sru_args *a, float x) {
    double memory; // of any format's size
    hst_store((hst_target){&memory, a->h.dtype, false}, 0, (double)x);
    return (float)hst_load((hst_source){&memory, a->h.dtype}, 0);
}

// Element i, which upstream casts before it calls the kernel; and a result, cast back.
static float get(const hst_sru_args *a, hst_source x, int64_t i, float otherwise) {
    return x.data ? lp(a, (float)hst_load(x, i)) : otherwise;
}
static void put(const hst_sru_args *a, hst_target y, int64_t i, float x) {
    if (y.data) hst_store(y, i, (y.add ? hst_load((hst_source){y.data, y.dtype}, i) : 0) + (double)lp(a, x));
}

static bool is_padded(const hst_sru_args *a, int64_t row) { return a->pad.data && hst_index_at(a->pad, row) != 0; }

// The row (t, b) that column j of b comes to after n steps.
static int64_t row_of(const hst_sru_args *a, int64_t b, int64_t j, int64_t n) {
    return (j >= a->width - a->backward_columns ? a->length - 1 - n : n) * a->batch + b;
}

static float sigmoid(const hst_sru_args *a, float z) { return lp(a, 1 / (1 + expf(-z))); }

typedef struct cell {
    float u0, f, r, vf, vr, skip, m;
} cell;

static cell cell_at(const hst_sru_args *a, int64_t row, int64_t j, float p) {
    int64_t width = a->width, u = row * a->k * width + j, steps = 2 * row * width + j;
    float vf = lp(a, get(a, a->v, j, 0) + get(a, a->v_steps, steps, 0));
    float vr = lp(a, get(a, a->v, width + j, 0) + get(a, a->v_steps, steps + width, 0));
    float zf = lp(a, lp(a, get(a, a->u, u + width, 0) + lp(a, vf * p)) + get(a, a->bias, j, 0));
    float zr = lp(a, lp(a, get(a, a->u, u + 2 * width, 0) + lp(a, vr * p)) + get(a, a->bias, width + j, 0));
    return (cell){
        .u0 = get(a, a->u, u, 0),
        .f = sigmoid(a, zf),
        .r = sigmoid(a, zr),
        .vf = vf,
        .vr = vr,
        .skip =
            a->k == 4 ? get(a, a->u, u + 3 * width, 0) : lp(a, (float)a->scale_x * get(a, a->x, row * width + j, 0)),
        .m = get(a, a->mask, row % a->batch * width + j, 1),
    };
}

// c = U0 + (p - U0) f: three roundings, where f's own makes it 1 beyond 8.32 in f16, 6.24 in bf16.
static float state_after(const hst_sru_args *a, const cell *s, float p) {
    return lp(a, lp(a, lp(a, p - s->u0) * s->f) + s->u0);
}

static float shown(const hst_sru_args *a, float c) { return a->tanh ? lp(a, tanhf(c)) : c; }

void hst_upstream_sru(const hst_sru_args *a) {
    for (int64_t column = 0; column < a->batch * a->width; column++) {
        int64_t b = column / a->width, j = column % a->width;
        float c = get(a, a->c0, column, 0);
        for (int64_t n = 0; n < a->length; n++) {
            int64_t row = row_of(a, b, j, n);
            float h = 0;
            if (a->c && n % HST_SRU_SEGMENT == 0) a->c[n / HST_SRU_SEGMENT * a->batch * a->width + column] = c;
            if (!is_padded(a, row)) {
                cell s = cell_at(a, row, j, c);
                c = state_after(a, &s, c);
                h = lp(a, lp(a, lp(a, shown(a, c) - s.skip) * s.m) * s.r) + s.skip; // put makes the fourth rounding
            }
            put(a, a->h, row * a->width + j, h);
        }
        a->c_last[column] = c;
    }
}

// The sums of one column over its steps, 16-bit numbers.
typedef struct sums {
    float vf, vr, bf, br;
} sums;

// One step back; the equations stand in naive_sru.c. g is dL/dc from later steps, and returned is dL/dp.
static float step_grad(const hst_sru_grad_args *d, int64_t row, int64_t j, float p, float g, sums *sum) {
    const hst_sru_args *a = &d->forward;
    int64_t width = a->width, u = row * a->k * width + j, steps = 2 * row * width + j;
    cell s = cell_at(a, row, j, p);
    float y = shown(a, state_after(a, &s, p)), slope = a->tanh ? lp(a, 1 - lp(a, y * y)) : 1;
    float dh = get(a, d->dh, row * width + j, 0);

    float gr = lp(a, lp(a, dh * lp(a, y - s.skip)) * s.m) * (s.r * (1 - s.r));
    float gc = lp(a, lp(a, lp(a, dh * s.m) * lp(a, s.r * slope)) + g);
    float gf = lp(a, gc * lp(a, p - s.u0)) * (s.f * (1 - s.f));
    float dskip = lp(a, dh * (1 - lp(a, s.r * s.m)));

    put(a, d->du, u, gc * (1 - s.f));
    put(a, d->du, u + width, gf);
    put(a, d->du, u + 2 * width, gr);
    if (a->k == 4)
        put(a, d->du, u + 3 * width, dskip);
    else
        put(a, d->dx, row * width + j, (float)a->scale_x * dskip);
    put(a, d->dv_steps, steps, gf * p);
    put(a, d->dv_steps, steps + width, gr * p);
    *sum = (sums){lp(a, sum->vf + gf * p), lp(a, sum->vr + gr * p), lp(a, sum->bf + gf), lp(a, sum->br + gr)};
    return lp(a, lp(a, gc * s.f) + gf * s.vf + gr * s.vr);
}

static void padded_grad(const hst_sru_grad_args *d, int64_t row, int64_t j) {
    const hst_sru_args *a = &d->forward;
    for (int64_t m = 0; m < a->k; m++) put(a, d->du, (row * a->k + m) * a->width + j, 0);
    for (int64_t m = 0; m < 2; m++) put(a, d->dv_steps, (2 * row + m) * a->width + j, 0);
    if (a->k == 3) put(a, d->dx, row * a->width + j, 0);
}

// p[i] is the state of column (b, j) before step first + i, up to the end of the segment, as forward had it.
static void states_of_segment(const hst_sru_args *a, int64_t b, int64_t j, int64_t first, float *p) {
    p[0] = (float)a->c[(first / HST_SRU_SEGMENT * a->batch + b) * a->width + j];
    for (int64_t i = 0; i + 1 < HST_SRU_SEGMENT && first + i + 1 < a->length; i++) {
        int64_t row = row_of(a, b, j, first + i);
        cell s = cell_at(a, row, j, p[i]);
        p[i + 1] = is_padded(a, row) ? p[i] : state_after(a, &s, p[i]);
    }
}

static sums column_grad(const hst_sru_grad_args *d, int64_t b, int64_t j) {
    const hst_sru_args *a = &d->forward;
    float g = get(a, d->dc_last, b * a->width + j, 0), p[HST_SRU_SEGMENT];
    sums sum = {0};
    for (int64_t n = a->length - 1; n >= 0; n--) {
        int64_t row = row_of(a, b, j, n), i = n % HST_SRU_SEGMENT;
        if (n == a->length - 1 || i == HST_SRU_SEGMENT - 1) states_of_segment(a, b, j, n - i, p);
        if (is_padded(a, row))
            padded_grad(d, row, j);
        else
            g = step_grad(d, row, j, p[i], g, &sum);
    }
    put(a, d->dc0, b * a->width + j, g);
    return sum;
}

// The columns' sums meet in f32, over the batch, and the result is rounded again.
void hst_upstream_sru_grad(const hst_sru_grad_args *d) {
    const hst_sru_args *a = &d->forward;
    for (int64_t j = 0; j < a->width; j++) {
        sums all = {0};
        for (int64_t b = 0; b < a->batch; b++) {
            sums one = column_grad(d, b, j);
            all = (sums){all.vf + one.vf, all.vr + one.vr, all.bf + one.bf, all.br + one.br};
        }
        put(a, d->dv, j, all.vf);
        put(a, d->dv, a->width + j, all.vr);
        put(a, d->dbias, j, all.bf);
        put(a, d->dbias, a->width + j, all.br);
    }
}
