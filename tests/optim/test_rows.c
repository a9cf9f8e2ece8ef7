// test_rows.c: updates of row-sparse gradients: the rows that they have move as with a dense gradient, bit for bit, and
// nothing else does, neither weights nor state.
#include "ops/ops.h"
#include "optim/optim.h"
#include "tests/ops/isas.h"

enum { V = 37, WIDTH = 19, READ = 6 };
static const int32_t ids[READ] = {3, 36, 3, 0, 17, 36};
static bool is_read(int64_t row) { return row == 0 || row == 3 || row == 17 || row == 36; }

typedef struct model {
    hst_parameters *list;
    hst_tensor *table;
    hst_optimizer *optimizer;
    double norm;
} model;

// Two steps: the first reads every row, so that all have some state, the second six.
static model train(hst_context *ctx, hst_optimizer_options o, bool rows) {
    model m = {.list = hst_parameters_new(ctx)};
    hst_tensor *start = hst_empty(ctx, HST_F32, HST_SHAPE(V, WIDTH));
    hst_real *w = hst_mutable_data(start);
    for (int i = 0; i < V * WIDTH; i++) w[i] = (hst_real)(i * 37 % 101 / 50.0 - 1);
    m.table = hst_parameter(m.list, "table", start);
    if (rows) hst_attach_grad_rows(m.table, HST_WRITE, HST_F32);
    m.optimizer = hst_optimizer_new(m.list, &o);
    int32_t all[V];
    for (int i = 0; i < V; i++) all[i] = i;
    for (int step = 0; step < 2; step++) {
        hst_scope_begin(ctx);
        hst_tensor *y =
            hst_embedding(m.table, hst_from_array(ctx, HST_I32, HST_SHAPE(step ? READ : V), HST_I32, step ? ids : all));
        hst_tensor *dy = hst_scale(hst_detach(y), step ? 0.3 : 0.1);
        hst_backward_from(ctx, 1, &y, &dy);
        m.norm = hst_gradient_norm(m.list);
        cr_assert_eq(hst_optimizer_step(m.optimizer, 0.05, 0.5), HST_OK, "%s", hst_error(ctx));
        hst_scope_end(ctx, NULL);
    }
    return m;
}

static void check_tensor(hst_context *ctx, const hst_tensor *dense, const hst_tensor *sparse) {
    const char *a = hst_data(dense), *b = hst_data(sparse);
    size_t bytes = WIDTH * sizeof(hst_real);
    for (int64_t r = 0; r < V; r++)
        if (is_read(r))
            cr_assert_eq(memcmp(a + (size_t)r * bytes, b + (size_t)r * bytes, bytes), 0, "%s: row %lld", hst_isa(ctx),
                         (long long)r);
}

// What was not read is as after the first step.
static void check_rest(const hst_tensor *now, const hst_tensor *before) {
    const char *a = hst_data(now), *b = hst_data(before);
    size_t bytes = WIDTH * sizeof(hst_real);
    for (int64_t r = 0; r < V; r++)
        if (!is_read(r))
            cr_assert_eq(memcmp(a + (size_t)r * bytes, b + (size_t)r * bytes, bytes), 0, "row %lld", (long long)r);
}

static void check_kinds(hst_context *ctx) {
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++)
        for (int nesterov = 0; nesterov < (kind == HST_SGD ? 2 : 1); nesterov++) {
            hst_optimizer_options o = hst_optimizer_defaults((hst_optimizer_kind)kind);
            char name[64];
            o.decay = 0.1;
            o.nesterov = nesterov;
            hst_scope_begin(ctx);
            model dense = train(ctx, o, false), sparse = train(ctx, o, true);
            // The same squares, summed in another order in double.
            cr_assert_float_eq(sparse.norm, dense.norm, V * WIDTH * 0x1p-53 * dense.norm);
            check_tensor(ctx, dense.table, sparse.table);
            for (int i = 0; i < hst_optimizer_state_count(dense.optimizer); i++)
                check_tensor(ctx, hst_optimizer_state(dense.optimizer, i, name, sizeof name),
                             hst_optimizer_state(sparse.optimizer, i, name, sizeof name));
            hst_optimizer_free(dense.optimizer), hst_optimizer_free(sparse.optimizer);
            hst_parameters_free(dense.list), hst_parameters_free(sparse.list);
            hst_scope_end(ctx, NULL);
        }
}
Test(optim, rows_move_as_with_a_dense_gradient) { for_each_isa(check_kinds); }

Test(optim, other_rows_and_their_state_stay) {
    hst_context *ctx = hst_open(NULL);
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++) {
        hst_optimizer_options o = hst_optimizer_defaults((hst_optimizer_kind)kind);
        char name[64];
        o.decay = 0.1;
        model m = train(ctx, o, true);
        int states = hst_optimizer_state_count(m.optimizer);
        hst_tensor *before[3] = {hst_cast(hst_detach(m.table), HST_F32)};
        for (int i = 0; i < states; i++)
            before[i + 1] = hst_cast(hst_optimizer_state(m.optimizer, i, name, sizeof name), HST_F32);
        cr_assert_eq(hst_optimizer_step(m.optimizer, 0.05, 1), HST_OK);
        check_rest(m.table, before[0]);
        for (int i = 0; i < states; i++)
            check_rest(hst_optimizer_state(m.optimizer, i, name, sizeof name), before[i + 1]);
        hst_optimizer_free(m.optimizer);
        hst_parameters_free(m.list);
    }
    hst_close(ctx);
}
