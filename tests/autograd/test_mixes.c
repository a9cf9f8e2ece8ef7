// test_mixes.c: forward and backward with every mix of f32, f16 and bf16 among the arguments, and every dtype of
// gradient buffer, against sums in double. Where the numbers are dyadic, sums are exact in fp32, and the one rounding
// at the end is the only error: equality is asked for. Layer norm has a tolerance.
#include "tests/autograd/mixes.h"

TestSuite(autograd_mixes, .init = open_context, .fini = close_context);

// ---- linear ----

enum { M = 5, K = 19, N = 7 };

typedef struct linear_case {
    double x[M * K], w[K * N], bias[N], dy[M * N], y[M * N], dx[M * K], dw[K * N], dbias[N];
} linear_case;

static linear_case make_linear(void) {
    linear_case c = {0};
    fill(c.x, M * K, 0.125, 0);
    fill(c.w, K * N, 0.125, 1);
    fill(c.bias, N, 0.125, 2);
    fill(c.dy, M * N, 0.125, 3);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double dy = c.dy[i * N + j];
            c.y[i * N + j] = c.bias[j];
            c.dbias[j] += dy;
            for (int k = 0; k < K; k++) {
                c.y[i * N + j] += c.x[i * K + k] * c.w[k * N + j];
                c.dx[i * K + k] += dy * c.w[k * N + j];
                c.dw[k * N + j] += c.x[i * K + k] * dy;
            }
        }
    return c;
}

Test(autograd_mixes, linear) {
    linear_case c = make_linear();
    for (int mix = 0; mix < MIXES; mix++) {
        hst_scope_begin(ctx);
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(M, K), c.x);
        hst_tensor *w = leaf(mix, 1, HST_SHAPE(K, N), c.w);
        hst_tensor *b = leaf(mix, 2, HST_SHAPE(N), c.bias);
        hst_tensor *y = hst_linear(x, w, b);
        cr_assert_eq(hst_dtype_of(y), hst_dtype_of(x), "the result's dtype is the first argument's");
        expect_near("y", mix, y, M * N, c.y, NULL);
        run_backward(y, c.dy);
        expect_near("dx", mix, hst_grad(x), M * K, c.dx, NULL);
        expect_near("dw", mix, hst_grad(w), K * N, c.dw, NULL);
        expect_near("dbias", mix, hst_grad(b), N, c.dbias, NULL);
        hst_scope_end(ctx, NULL);
    }
}

// ---- add ----

Test(autograd_mixes, add) {
    enum { COUNT = 37 };
    double a[COUNT], b[COUNT], sum[COUNT], dy[COUNT];
    fill(a, COUNT, 0.125, 0);
    fill(b, COUNT, 0x1p-9, 1); // a sum has up to 10 bits: too many for bf16
    fill(dy, COUNT, 0.125, 2);
    for (int i = 0; i < COUNT; i++) sum[i] = a[i] + b[i];
    for (int mix = 0; mix < MIXES; mix++) {
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(COUNT), a), *z = leaf(mix, 1, HST_SHAPE(COUNT), b), *y = hst_add(x, z);
        cr_assert_eq(hst_dtype_of(y), hst_dtype_of(x) == hst_dtype_of(z) ? hst_dtype_of(x) : HST_F32);
        expect_near("y", mix, y, COUNT, sum, NULL);
        run_backward(y, dy);
        expect_near("da", mix, hst_grad(x), COUNT, dy, NULL);
        expect_near("db", mix, hst_grad(z), COUNT, dy, NULL);
    }
}

// ---- embedding ----

// Row r is used r times, up to 300: a sum rounded after each addition would stop at 256 in bf16, at 2048 in f16.
Test(autograd_mixes, embedding) {
    enum { ROWS = 12, WIDTH = 3, COUNT = 300 + 11 };
    static double table[ROWS * WIDTH], dy[COUNT * WIDTH], y[COUNT * WIDTH], dtable[ROWS * WIDTH], ids[COUNT];
    fill(table, ROWS * WIDTH, 0.125, 0);
    for (int i = 0; i < COUNT; i++) {
        ids[i] = i < 300 ? 5 : i - 300;
        for (int j = 0; j < WIDTH; j++) {
            dy[i * WIDTH + j] = j == 0 ? 1 : j == 1 ? 7.5 : -0.125 * (i % 9);
            y[i * WIDTH + j] = table[(int)ids[i] * WIDTH + j];
            dtable[(int)ids[i] * WIDTH + j] += dy[i * WIDTH + j];
        }
    }
    static const hst_dtype index[] = {HST_U8, HST_I32, HST_I64};
    for (int mix = 0; mix < MIXES; mix++) {
        hst_tensor *t = leaf(mix, 0, HST_SHAPE(ROWS, WIDTH), table);
        hst_tensor *out = hst_embedding(t, hst_from_array(ctx, index[mix / 3 % 3], HST_SHAPE(COUNT), HST_F64, ids));
        cr_assert_eq(hst_dtype_of(out), hst_dtype_of(t));
        expect_near("y", mix, out, COUNT * WIDTH, y, NULL);
        run_backward(out, dy);
        expect_near("dtable", mix, hst_grad(t), ROWS * WIDTH, dtable, NULL);
    }
}

// ---- layer norm ----

enum { ROWS = 4, D = 13 };
static const double EPS = 1e-5;

typedef struct values {
    double of[ROWS * D], slack[ROWS * D];
} values;
typedef struct norm_case {
    double x[ROWS * D], gain[D], bias[D], dy[ROWS * D];
    values y, dx, dgain, dbias;
} norm_case;

// One row. Roundings in fp32: of x - mean (two), rstd and two products, 5 U |n gain|; and of the last sum. Twice that
// is the slack. The gradients are sums of products of the same n.
static void norm_row(norm_case *c, int row) {
    const double *x = c->x + row * D, *dy = c->dy + row * D;
    double mean = 0, variance = 0, mean_dn = 0, mean_dn_n = 0, n[D], size = 0;
    for (int j = 0; j < D; j++) mean += x[j] / D;
    for (int j = 0; j < D; j++) variance += (x[j] - mean) * (x[j] - mean) / D;
    double rstd = 1 / sqrt(variance + EPS);
    for (int j = 0; j < D; j++) {
        double dn = dy[j] * c->gain[j];
        n[j] = (x[j] - mean) * rstd;
        mean_dn += dn / D;
        mean_dn_n += dn * n[j] / D;
        size = fmax(size, fabs(dn) * (1 + fabs(n[j])));
    }
    for (int j = 0; j < D; j++) {
        int at = row * D + j;
        double error = 2 * 5 * U * fabs(n[j]);
        c->y.of[at] = n[j] * c->gain[j] + c->bias[j];
        c->y.slack[at] = error * fabs(c->gain[j]) + U * fabs(c->y.of[at]);
        c->dx.of[at] = rstd * (dy[j] * c->gain[j] - mean_dn - n[j] * mean_dn_n);
        c->dx.slack[at] = rstd * size * (1 + fabs(n[j])) * (8 * U + error);
        c->dgain.of[j] += dy[j] * n[j];
        c->dgain.slack[j] += fabs(dy[j]) * error;
        c->dbias.of[j] += dy[j];
    }
}

Test(autograd_mixes, layer_norm) {
    static norm_case c;
    fill(c.x, ROWS * D, 0.125, 0);
    fill(c.gain, D, 0.125, 1);
    fill(c.bias, D, 0.125, 2);
    fill(c.dy, ROWS * D, 0.125, 3);
    for (int j = 0; j < D; j++) c.x[D + j] += 16; // a row far from zero
    for (int row = 0; row < ROWS; row++) norm_row(&c, row);
    for (int mix = 0; mix < MIXES; mix++) {
        hst_scope_begin(ctx);
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(ROWS, D), c.x);
        hst_tensor *gain = leaf(mix, 1, HST_SHAPE(D), c.gain);
        hst_tensor *bias = leaf(mix, 2, HST_SHAPE(D), c.bias);
        hst_tensor *y = hst_layer_norm(x, gain, bias, EPS);
        cr_assert_eq(hst_dtype_of(y), hst_dtype_of(x));
        expect_near("y", mix, y, ROWS * D, c.y.of, c.y.slack);
        run_backward(y, c.dy);
        expect_near("dx", mix, hst_grad(x), ROWS * D, c.dx.of, c.dx.slack);
        expect_near("dgain", mix, hst_grad(gain), D, c.dgain.of, c.dgain.slack);
        expect_near("dbias", mix, hst_grad(bias), D, c.dbias.of, NULL);
        hst_scope_end(ctx, NULL);
    }
}
