// linear_cross_entropy.c: the mean cross entropy of logits x w^T + bias, a chunk of rows at a time: of a large
// vocabulary the logits are the largest thing in a model, and all of them are never there at once.
//     x (..., K), w (V, K), bias (V), targets (...)          loss, one f32
// With R rows, q = softmax(logits) - onehot(target), a row for each row of x, and g the gradient of the loss:
//     dx = g/R q w        dw = g/R q^T x        dbias = g/R sum of q over the rows
// g is a factor of all of them. So forward, which has a chunk's logits, makes its q of them and forms the products with
// q then and there; backward multiplies by g/R. Without that it would have to form the logits a second time.
#include "ops/ops.h"
#include "ops/table.h"

enum { X, W, BIAS, TARGETS };
enum { DX, DPARAMETERS }; // saved: q w, of x's shape and dtype; q^T x and behind it the sum of q, in f32

// 16 bits hold a probability better if it is larger: there q is multiplied by Q_SCALE, and q w has room up to
// weights of 32.
enum { Q_SCALE = 1024 };

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *x = call->in[X], *w = call->in[W];
    for (int i = X; i <= BIAS; i++)
        if (!hst_check_float(call, i)) return false;
    if (!hst_check_index(call, TARGETS)) return false;
    if (x->rank < 1 || w->rank != 2 || x->shape[x->rank - 1] != w->shape[1] || w->shape[0] < 1 || hst_rows(x) < 1) {
        char a[64], b[64];
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "linear_cross_entropy: x is %s and w is %s; x needs a row, w one for each symbol, as long as x's",
                 hst_describe(x, a), hst_describe(w, b));
        return false;
    }
    out[0] = (hst_type){.dtype = HST_F32};
    return hst_check_shape(call, BIAS, 1, w->shape) && hst_check_shape(call, TARGETS, x->rank - 1, x->shape);
}

// What all chunks share. `logits` holds one chunk's logits, then its q.
typedef struct job {
    hst_call *call;
    int64_t rows, width, vocabulary, chunk;
    hst_dtype dtype; // of the logits, as hst_linear has them
    void *logits;
    double *logsumexp;
    hst_real *losses, *ones; // losses of all rows; Q_SCALE or 1 for each row of a chunk
} job;

static double q_scale(hst_dtype logits) { return logits == HST_F16 ? Q_SCALE : 1; }

static hst_source rows_of(hst_source s, int64_t first, int64_t width) {
    s.data = (const char *)s.data + (size_t)(first * width) * hst_dtype_size(s.dtype);
    return s;
}

// logits = x w^T + bias, of n rows from `first` on
static bool form_logits(const job *j, int64_t first, int64_t n) {
    const hst_call *call = j->call;
    hst_gemm_args g = {.m = n,
                       .n = j->vocabulary,
                       .k = j->width,
                       .a = rows_of(hst_source_of(call->in[X]), first, j->width),
                       .a_row = j->width,
                       .a_col = 1,
                       .b = hst_source_of(call->in[W]),
                       .b_row = 1,
                       .b_col = j->width,
                       .bias = hst_source_of(call->in[BIAS]),
                       .c = {j->logits, j->dtype, false},
                       .c_row = j->vocabulary,
                       .lower = call->lower};
    return call->ctx->backend->gemm(call->ctx, &g);
}

static bool form_losses(const job *j, int64_t first, int64_t n) {
    hst_context *ctx = j->call->ctx;
    hst_nll_args a = {.rows = n,
                      .width = j->vocabulary,
                      .logits = {j->logits, j->dtype},
                      .targets = rows_of(hst_source_of(j->call->in[TARGETS]), first, 1),
                      .loss = j->losses + first,
                      .logsumexp = j->logsumexp};
    return ctx->backend->nll(ctx, &a);
}

// logits <- q
static bool form_q(const job *j, int64_t first, int64_t n) {
    hst_context *ctx = j->call->ctx;
    hst_nll_grad_args a = {.rows = n,
                           .width = j->vocabulary,
                           .logits = {j->logits, j->dtype},
                           .targets = rows_of(hst_source_of(j->call->in[TARGETS]), first, 1),
                           .dloss = {j->ones, HST_F32},
                           .logsumexp = j->logsumexp,
                           .dlogits = {j->logits, j->dtype, false}};
    return ctx->backend->nll_grad(ctx, &a);
}

// The rows' q w; and q^T x and the sum of q, added to those of the chunks before.
static bool form_gradients(const job *j, int64_t first, int64_t n) {
    const hst_call *call = j->call;
    hst_context *ctx = call->ctx;
    hst_tensor *dx = call->saved[DX], *d = call->saved[DPARAMETERS];
    hst_source q = {j->logits, j->dtype}, x = rows_of(hst_source_of(call->in[X]), first, j->width);
    hst_target dw = {hst_raw(d), d->dtype, first > 0}, dbias = dw;
    dbias.data = (char *)dw.data + (size_t)(j->vocabulary * j->width) * hst_dtype_size(d->dtype);
    hst_gemm_args of_x = {
        .m = n,
        .n = j->width,
        .k = j->vocabulary,
        .a = q,
        .a_row = j->vocabulary,
        .a_col = 1,
        .b = hst_source_of(call->in[W]),
        .b_row = j->width,
        .b_col = 1,
        .c = {(char *)hst_raw(dx) + (size_t)(first * j->width) * hst_dtype_size(dx->dtype), dx->dtype, false},
        .c_row = j->width,
        .lower = call->lower};
    hst_gemm_args of_w = {.m = j->vocabulary,
                          .n = j->width,
                          .k = n,
                          .a = q,
                          .a_row = 1,
                          .a_col = j->vocabulary,
                          .b = x,
                          .b_row = j->width,
                          .b_col = 1,
                          .c = dw,
                          .c_row = j->width,
                          .lower = call->lower};
    hst_sum_args of_bias = {.outer = 1, .rows = n, .width = j->vocabulary, .factor = 1, .x = q, .y = dbias};
    return ctx->backend->gemm(ctx, &of_x) && ctx->backend->gemm(ctx, &of_w) &&
           (!call->in[BIAS] || ctx->backend->sum(ctx, &of_bias));
}

static bool all_chunks(const job *j) {
    hst_call *call = j->call;
    for (int64_t i = 0; i < j->chunk; i++) j->ones[i] = (hst_real)q_scale(j->dtype);
    for (int64_t first = 0; first < j->rows; first += j->chunk) {
        int64_t n = j->rows - first < j->chunk ? j->rows - first : j->chunk;
        if (!form_logits(j, first, n) || !form_losses(j, first, n)) return false;
        if (call->recording && !(form_q(j, first, n) && form_gradients(j, first, n))) return false;
    }
    hst_sum_args mean = {.outer = 1,
                         .rows = j->rows,
                         .width = 1,
                         .factor = 1 / (double)j->rows,
                         .x = {j->losses, HST_F32},
                         .y = hst_target_of(call->out[0])};
    return call->ctx->backend->sum(call->ctx, &mean);
}

static bool save_gradients(hst_call *call) {
    hst_tensor *x = call->in[X], *w = call->in[W];
    return hst_call_save(call, DX, x->dtype, x->rank, x->shape) &&
           hst_call_save(call, DPARAMETERS, HST_F32, HST_SHAPE(w->shape[0] * (w->shape[1] + 1)));
}

static bool forward(hst_call *call) {
    const hst_tensor *x = call->in[X], *w = call->in[W];
    job j = {.call = call, .rows = hst_rows(x), .width = w->shape[1], .vocabulary = w->shape[0]};
    j.dtype = call->lower == HST_F32 ? x->dtype : call->lower;
    j.chunk = hst_loss_rows(j.vocabulary);
    if (j.chunk > j.rows) j.chunk = j.rows;
    if (call->recording && !save_gradients(call)) return false;
    size_t logits = (size_t)(j.chunk * j.vocabulary) * hst_dtype_size(j.dtype);
    j.logsumexp = hst_workspace(call->ctx, (size_t)j.chunk * (sizeof(double) + sizeof(hst_real)) +
                                               (size_t)j.rows * sizeof(hst_real) + logits);
    if (!j.logsumexp) return false;
    j.ones = (hst_real *)(j.logsumexp + j.chunk);
    j.losses = j.ones + j.chunk;
    j.logits = j.losses + j.rows;
    bool done = all_chunks(&j);
    hst_workspace_free(call->ctx, j.logsumexp);
    return done;
}

// to (+)= factor from, the product formed in double
static bool multiply(const hst_call *call, double factor, hst_source from, hst_gradient to) {
    hst_sum_args s = {.outer = 1, .rows = 1, .factor = factor, .x = from, .y = hst_gradient_target(to)};
    if (!s.y.data) return true;
    s.width = hst_count(to.into);
    return call->ctx->backend->sum(call->ctx, &s);
}

static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *of_x = call->saved[DX], *d = call->saved[DPARAMETERS];
    int64_t width = of_x->shape[of_x->rank - 1], vocabulary = hst_count(d) / (width + 1);
    hst_dtype logits = call->lower == HST_F32 ? of_x->dtype : call->lower;
    double factor = hst_load(hst_source_of(dy[0]), 0) / (double)hst_rows(of_x) / q_scale(logits);
    return multiply(call, factor, hst_source_of(of_x), dx[X]) && multiply(call, factor, hst_source_of(d), dx[W]) &&
           multiply(call, factor, rows_of(hst_source_of(d), vocabulary, width), dx[BIAS]);
}

const hst_op hst_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .inputs = {"x", "w", "bias?", "targets"},
    .outputs = {"loss"},
    .f32_outputs = 1,
    .lowers = 1 << X | 1 << W | 1 << BIAS,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_linear_cross_entropy(hst_tensor *x, hst_tensor *w, hst_tensor *bias, hst_tensor *targets) {
    return hst_apply(&hst_op_linear_cross_entropy, (hst_tensor *[HST_MAX_INPUTS]){x, w, bias, targets}, NULL, 0, NULL);
}
