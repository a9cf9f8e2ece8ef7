// test_memory.c: a training step repeats its memory. A small language model under AdamW, in a scope a step as programs
// should, and without any.
#include "tests/autograd/common.h"

#include "models/models.h"

TestSuite(autograd_memory, .init = open_context, .fini = close_context);

enum { VOCABULARY = 17, L = 6, B = 3, STEPS = 100 };

typedef struct trainee {
    hst_lm *model;
    hst_optimizer *adamw;
    hst_tensor *ids, *targets, *state;
} trainee;

static trainee make(bool tied) {
    static uint8_t symbols[L * B];
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = VOCABULARY;
    config.hidden = 8;
    config.layers = 2;
    config.dropout = 0.2;
    config.tied = tied;
    for (int i = 0; i < L * B; i++) symbols[i] = (uint8_t)(i * 7 % VOCABULARY);
    trainee t = {.model = hst_lm_new(ctx, &config)};
    t.adamw = hst_optimizer_new(hst_lm_parameters(t.model), NULL);
    t.ids = hst_from_array(ctx, HST_U8, HST_SHAPE(L, B), HST_U8, symbols);
    t.targets = hst_from_array(ctx, HST_I64, HST_SHAPE(L, B), HST_U8, symbols);
    return t;
}

static void release(trainee *t) {
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    hst_release(t->state);
    hst_optimizer_free(t->adamw);
    hst_lm_free(t->model);
}

// One step, with the state carried over from the one before; the loss.
static double step(trainee *t) {
    hst_tensor *state = NULL;
    hst_tensor *loss = hst_cross_entropy(hst_lm_forward(t->model, t->ids, t->state, true, &state), t->targets);
    hst_backward(ctx, loss);
    hst_optimizer_step(t->adamw, 1e-2, hst_clip_factor(hst_gradient_norm(hst_lm_parameters(t->model)), 1));
    hst_release(t->state);
    t->state = hst_keep(state);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    return hst_item(loss, NULL);
}

// The third step is like all later ones: nothing more from the system, the same bytes in use.
Test(autograd_memory, a_step_allocates_nothing_after_the_third) {
    for (int tied = 0; tied < 2; tied++) {
        trainee t = make(tied);
        hst_memory third = {0};
        double first = 0, last = 0;
        for (int i = 1; i <= STEPS; i++) {
            hst_scope_begin(ctx);
            last = step(&t);
            hst_scope_end(ctx, NULL);
            if (i == 1) first = last;
            if (i == 3) third = memory();
            cr_assert_eq(tape_length(), 0);
            if (i < 3) continue;
            cr_assert_eq(memory().system_allocations, third.system_allocations, "step %d", i);
            for (int c = 0; c < HST_CATEGORIES; c++)
                cr_assert_eq(memory().current[c], third.current[c], "step %d, category %d", i, c);
            cr_assert_eq(memory().peak_total, third.peak_total, "step %d", i);
        }
        cr_assert(last < first, "it also learns: %g, %g", first, last);
        release(&t);
    }
}

// Without scopes tensors live until hst_close, but the tape is used up by each backward: nodes are workspace, and what
// they saved goes.
Test(autograd_memory, the_tape_does_not_grow_outside_scopes) {
    trainee t = make(false);
    hst_memory third = {0};
    for (int i = 1; i <= STEPS; i++) {
        step(&t);
        cr_assert_eq(tape_length(), 0);
        if (i == 3) third = memory();
        if (i >= 3) cr_assert_eq(memory().current[HST_WORKSPACE], third.current[HST_WORKSPACE], "step %d", i);
    }
    release(&t);
}

// What forward saves for backward goes at once where nothing is recorded.
Test(autograd_memory, an_evaluation_leaves_nothing_behind) {
    trainee t = make(false);
    hst_memory first = {0};
    hst_no_grad_begin(ctx);
    for (int i = 1; i <= STEPS; i++) {
        hst_scope_begin(ctx);
        cr_assert(hst_cross_entropy(hst_lm_forward(t.model, t.ids, NULL, false, NULL), t.targets));
        hst_scope_end(ctx, NULL);
        if (i == 1) first = memory();
        cr_assert_eq(memory().current_total, first.current_total, "evaluation %d", i);
        cr_assert_eq(memory().system_allocations, first.system_allocations, "evaluation %d", i);
    }
    release(&t);
}

// Weights, gradients and the optimizer's two states are fp32 each.
Test(autograd_memory, bytes_stand_in_their_categories) {
    hst_memory before = memory();
    trainee t = make(false);
    hst_memory after = memory();
    int64_t least = 4 * hst_parameter_elements(hst_lm_parameters(t.model)),
            most = 2 * least + 400 * hst_parameter_count(hst_lm_parameters(t.model));
    static const struct {
        hst_category category;
        int copies;
    } kinds[] = {{HST_WEIGHTS, 1}, {HST_GRADIENTS, 1}, {HST_OPTIMIZER, 2}};
    for (int i = 0; i < 3; i++) {
        int64_t bytes = (after.current[kinds[i].category] - before.current[kinds[i].category]) / kinds[i].copies;
        cr_assert(bytes >= least && bytes <= most, "category %d: %lld bytes for %lld", (int)kinds[i].category,
                  (long long)bytes, (long long)least);
    }
    release(&t);
}

// ---- in place ----

enum { STEP = 4, COLUMNS = 300, U_SIZE = 20 * STEP * 3 * COLUMNS }; // (20, 4, 3 x 300): two segments

// The gradients of w and x by u = 2 w, h = recurrence(u, x), h's gradient 1. `keep_u`: the program has u still. Returns
// the memory that backward needed at once.
static int64_t gradients_of_recurrence(hst_dtype dtype, bool keep_u, bool keeping, float *dw, float *dx) {
    hst_context *own = hst_open(NULL);
    float values[8 * COLUMNS];
    for (int i = 0; i < 8 * COLUMNS; i++) values[i] = (float)sin(i);
    hst_tensor *row = hst_from_array(own, HST_F32, HST_SHAPE(1, 1, 3 * COLUMNS), HST_F32, values);
    hst_tensor *w = hst_cast(hst_broadcast_to(row, HST_SHAPE(20, STEP, 3 * COLUMNS)), dtype);
    hst_tensor *x = hst_full(own, dtype, HST_SHAPE(20, STEP, COLUMNS), 0.25);
    hst_tensor *bias = hst_from_array(own, HST_F32, HST_SHAPE(2 * COLUMNS), HST_F32, values);
    hst_attach_grad(w, HST_WRITE, HST_F32), hst_attach_grad(x, HST_WRITE, HST_F32);
    hst_scope_begin(own);
    hst_tensor *u = hst_scale(w, 2);
    if (keep_u) hst_keep(u);
    hst_tensor *h = hst_scope_end(
        own, hst_sru_recurrence(u, x, NULL, NULL, bias, NULL, NULL, NULL, hst_recurrence_defaults(), NULL));
    hst_tensor *dh = hst_full(own, dtype, HST_SHAPE(20, STEP, COLUMNS), 1);
    hst_memory before, after;
    hst_memory_stats(own, &before);
    if (keeping) {
        hst_tensor *loss = hst_sum(hst_cast(h, HST_F32));
        for (int i = 0; i < 2; i++) hst_backward_keeping(own, loss);
    } else {
        hst_backward_from(own, 1, &h, &dh);
    }
    hst_memory_stats(own, &after);
    cr_assert_eq(hst_get_status(own), HST_OK, "%s", hst_error(own));
    hst_copy_out(hst_grad(w), HST_F32, dw), hst_copy_out(hst_grad(x), HST_F32, dx);
    if (keep_u) hst_release(u);
    hst_close(own);
    return after.peak_total - before.current_total;
}

// The gradient of u is written over u, when nobody can see it: the same numbers in less memory.
Test(autograd_memory, a_gradient_replaces_what_nobody_reads_any_more) {
    static float dw[3][U_SIZE], dx[3][U_SIZE / 3];
    for (hst_dtype dtype = HST_F32; dtype <= HST_BF16; dtype++) {
        int64_t in_place = gradients_of_recurrence(dtype, false, false, dw[0], dx[0]),
                apart = gradients_of_recurrence(dtype, true, false, dw[1], dx[1]);
        gradients_of_recurrence(dtype, false, true, dw[2], dx[2]);
        cr_assert(apart - in_place >= U_SIZE * (int64_t)hst_dtype_size(dtype), "%s: %lld and %lld bytes",
                  hst_dtype_name(dtype), (long long)in_place, (long long)apart);
        for (int i = 1; i < 3; i++)
            cr_assert(!memcmp(dw[0], dw[i], sizeof *dw) && !memcmp(dx[0], dx[i], sizeof *dx), "%s, %d",
                      hst_dtype_name(dtype), i);
    }
}
