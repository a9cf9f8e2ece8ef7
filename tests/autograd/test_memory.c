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
