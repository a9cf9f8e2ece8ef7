// matmul.c: y = a b, for matrices, vectors and stacks of them.
//     a (..., M, K), b (..., K, N)          y (..., M, N)
// The leading axes are matched as in broadcast.h. A vector is a matrix with an axis of extent 1 that y leaves out.
//
// All three products, y = a b, da = dy b^T and db = a^T dy, are one function of three operands and the leading axes. An
// axis that the result does not have is one to sum over; as many axes as possible become rows of one larger product, or
// more terms of its sums; one of those that are left is the batch of the kernel.
#include "ops/broadcast.h"
#include "ops/ops.h"
#include "ops/table.h"

enum { A, B };

// ---- shapes ----

// How many axes precede the matrix, or the vector.
static int leading(const hst_tensor *t) { return t->rank > 2 ? t->rank - 2 : 0; }

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *a = call->in[A], *b = call->in[B];
    if (!hst_check_float(call, A) || !hst_check_float(call, B)) return false;
    hst_type y = {.dtype = a->dtype};
    bool fits = a->rank > 0 && b->rank > 0 && a->shape[a->rank - 1] == b->shape[b->rank > 1 ? b->rank - 2 : 0] &&
                hst_broadcast_shape(&y, leading(a), a->shape) && hst_broadcast_shape(&y, leading(b), b->shape);
    if (!fits) {
        char text_a[64], text_b[64];
        hst_fail(
            call->ctx, HST_ERROR_SHAPE,
            "matmul: a is %s and b is %s; a's last axis must be as long as b's last but one (a vector's only one); of "
            "the axes before them, " HST_BROADCAST_RULE,
            hst_describe(a, text_a), hst_describe(b, text_b));
        return false;
    }
    if (a->rank > 1) y.shape[y.rank++] = a->shape[a->rank - 2];
    if (b->rank > 1) y.shape[y.rank++] = b->shape[b->rank - 1];
    out[0] = y;
    return true;
}

// ---- operands: a matrix, and its steps along the leading axes of y ----

typedef struct operand {
    hst_tensor *t;
    int64_t row, col, step[HST_MAX_RANK];
} operand;

// The sizes of a call, and its leading axes.
typedef struct sizes {
    int64_t m, n, k;
    hst_type leading;
} sizes;

static sizes sizes_of(const hst_tensor *a, const hst_tensor *b) {
    sizes s = {.m = a->rank > 1 ? a->shape[a->rank - 2] : 1,
               .n = b->rank > 1 ? b->shape[b->rank - 1] : 1,
               .k = a->shape[a->rank - 1]};
    hst_broadcast_shape(&s.leading, leading(a), a->shape);
    hst_broadcast_shape(&s.leading, leading(b), b->shape);
    return s;
}

// t has the shape of a, or of b.
static operand factor(const sizes *s, hst_tensor *t, int which) {
    int last = t->rank - 1;
    operand o = {.t = t, .row = last > 0 ? t->stride[last - 1] : 0, .col = t->stride[last]};
    if (last == 0 && which == B) o = (operand){.t = t, .row = t->stride[0]}; // a column
    hst_broadcast_stride(&s->leading, leading(t), t->shape, t->stride, o.step);
    return o;
}

// t is contiguous and has the shape of y.
static operand result(const sizes *s, hst_tensor *t) {
    operand o = {.t = t, .row = s->n, .col = 1};
    for (int i = 0; i < s->leading.rank; i++) o.step[i] = t->stride[i];
    return o;
}

static operand transposed(operand o) {
    int64_t row = o.row;
    o.row = o.col;
    o.col = row;
    return o;
}

// ---- z (+)= x y, summed over the leading axes that z does not have ----

typedef struct axis {
    int64_t extent, a, b, c; // steps of the three matrices
} axis;

typedef struct products {
    hst_gemm_args g;
    int rank;
    axis axes[HST_MAX_RANK]; // the innermost first
} products;

// One more axis, outside of those before it.
static void add_axis(products *p, axis x) {
    hst_gemm_args *g = &p->g;
    axis *last = p->rank > 0 ? &p->axes[p->rank - 1] : NULL;
    if (x.extent == 1) return;
    if (x.c == 0 && (g->k <= 1 || x.extent == 0)) { // the sums are over this axis alone, or over nothing
        if (g->k == 1) g->a_col = x.a, g->b_row = x.b;
        g->k *= x.extent;
    } else if (x.c == 0 && x.a == g->k * g->a_col && x.b == g->k * g->b_row) { // more terms
        g->k *= x.extent;
    } else if (x.c != 0 && x.b == 0 && x.a == g->m * g->a_row && x.c == g->m * g->c_row) { // more rows
        g->m *= x.extent;
    } else if (last && x.a == last->extent * last->a && x.b == last->extent * last->b &&
               x.c == last->extent * last->c) {
        last->extent *= x.extent;
    } else {
        p->axes[p->rank++] = x;
    }
}

// Computes all products. The axis `batch` (-1: none) is the kernel's; the others are counted through here.
static bool run(hst_context *ctx, const products *p, int batch) {
    hst_gemm_batch_args each = {.count = 1, .first = p->g};
    if (p->g.m == 0 || p->g.n == 0) return true; // nothing, however often
    if (batch >= 0) {
        const axis *x = &p->axes[batch];
        each = (hst_gemm_batch_args){x->extent, x->a, x->b, x->c, p->g};
    }
    int64_t total = 1;
    for (int i = 0; i < p->rank; i++)
        if (i != batch) total *= p->axes[i].extent;
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n, a = 0, b = 0, c = 0;
        bool again = false; // at a place of C that holds a sum by now
        for (int i = 0; i < p->rank; i++) {
            const axis *x = &p->axes[i];
            if (i == batch) continue;
            a += rest % x->extent * x->a, b += rest % x->extent * x->b, c += rest % x->extent * x->c;
            again |= x->c == 0 && rest % x->extent > 0;
            rest /= x->extent;
        }
        each.first.a.data = (const char *)p->g.a.data + a * (int64_t)hst_dtype_size(p->g.a.dtype);
        each.first.b.data = (const char *)p->g.b.data + b * (int64_t)hst_dtype_size(p->g.b.dtype);
        each.first.c.data = (char *)p->g.c.data + c * (int64_t)hst_dtype_size(p->g.c.dtype);
        each.first.c.add = p->g.c.add || again;
        if (!ctx->backend->gemm_batch(ctx, &each)) return false;
    }
    return true;
}

// The sizes are those of x (m, k) and y (k, n).
static bool multiply(hst_call *call, const sizes *s, operand x, operand y, operand z, hst_target c) {
    hst_context *ctx = call->ctx;
    products p = {.g = {.m = s->m,
                        .n = s->n,
                        .k = s->k,
                        .a = hst_source_of(x.t),
                        .b = hst_source_of(y.t),
                        .c = c,
                        .a_row = x.row,
                        .a_col = x.col,
                        .b_row = y.row,
                        .b_col = y.col,
                        .c_row = z.row,
                        .lower = call->lower}};
    for (int i = s->leading.rank - 1; i >= 0; i--)
        add_axis(&p, (axis){s->leading.shape[i], x.step[i], y.step[i], z.step[i]});
    int batch = -1, sums = 0;
    for (int i = p.rank - 1; i >= 0; i--)
        if (p.axes[i].c != 0)
            batch = i;
        else
            sums++;
    if (sums == 0 || c.dtype == HST_F32) return run(ctx, &p, batch);
    // Several products go into one matrix of 16 bits: they meet in f32, and are rounded once.
    hst_tensor *into = z.t, *sum = hst_new(ctx, HST_F32, into->rank, into->shape);
    if (!sum || (c.add && !hst_copy_tensor(sum, into, false))) return false;
    p.g.c = (hst_target){hst_raw(sum), HST_F32, c.add};
    return run(ctx, &p, batch) && hst_copy_tensor(into, sum, false);
}

static bool forward(hst_call *call) {
    hst_tensor *a = call->in[A], *b = call->in[B], *y = call->out[0];
    sizes s = sizes_of(a, b);
    return multiply(call, &s, factor(&s, a, A), factor(&s, b, B), result(&s, y), hst_target_of(y));
}

// da = dy b^T, db = a^T dy
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_tensor *a = call->in[A], *b = call->in[B];
    sizes s = sizes_of(a, b), of_da = s, of_db = s;
    of_da.n = s.k, of_da.k = s.n;
    of_db.m = s.k, of_db.k = s.m;
    operand x = factor(&s, a, A), w = factor(&s, b, B), y = result(&s, dy[0]);
    return (dx[A].request == HST_NULL ||
            multiply(call, &of_da, y, transposed(w), factor(&s, dx[A].into, A), hst_gradient_target(dx[A]))) &&
           (dx[B].request == HST_NULL ||
            multiply(call, &of_db, transposed(x), y, factor(&s, dx[B].into, B), hst_gradient_target(dx[B])));
}

const hst_op hst_op_matmul = {
    .name = "matmul",
    .inputs = {"a", "b"},
    .outputs = {"y"},
    .reads_inputs = 1 << A | 1 << B,
    .takes_strides = 1 << A | 1 << B,
    .lowers = 1 << A | 1 << B,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_matmul(hst_tensor *a, hst_tensor *b) {
    return hst_apply(&hst_op_matmul, (hst_tensor *[HST_MAX_INPUTS]){a, b}, NULL, 0, NULL);
}
