// test_optimizer_fixture.c: ten steps of AdamW and of SGD, gradient norms and learning rates against PyTorch in fp64.
// tests/fixtures/README.md says what the file holds and how it was made.
#include "optim/optim.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

enum { STEPS = 10 };

// Part i of a tensor whose first axis counts the steps, with the shape of `like`.
static void copy_step(const fixture *f, const char *key, int i, hst_tensor *to) {
    double *numbers = fixture_numbers(fixture_find(f, key), 0);
    cr_assert_eq(hst_copy_in(to, HST_F64, numbers + i * hst_count(to)), HST_OK);
    free(numbers);
}

// A parameter, and where it was after each step.
typedef struct walker {
    const char *start, *gradients, *path; // keys of the fixture
    hst_tensor *value;
    double *steps;
} walker;

static void walker_begin(const fixture *f, hst_parameters *list, walker *w) {
    w->value = hst_parameter(list, w->start, fixture_tensor(f, w->start));
    cr_assert(w->value, "%s: %s", f->name, hst_error(f->ctx));
    w->steps = calloc((size_t)(STEPS * hst_count(w->value)), sizeof *w->steps);
    cr_assert(w->steps);
}

static void walker_end(const fixture *f, walker *w, double roundings) {
    int64_t shape[3] = {STEPS, hst_dim(w->value, 0), hst_dim(w->value, -1)};
    hst_tensor *path = hst_from_array(f->ctx, HST_F32, hst_rank(w->value) + 1, shape, HST_F64, w->steps);
    fixture_expect(f, w->path, path, roundings);
    free(w->steps);
}

// An update takes about 8 roundings, of numbers no larger than the parameter's, and later steps add theirs. The matrix
// w decays, the vector b does not. Rates change from step to step, and so do the factors on the gradients.
static void check_trajectory(const fixture *f, hst_parameters *list,
                             hst_optimizer *(*make)(const fixture *, hst_parameters *)) {
    walker walkers[2] = {{"w", "dw", "ws", NULL, NULL}, {"b", "db", "bs", NULL, NULL}};
    for (int p = 0; p < 2; p++) walker_begin(f, list, &walkers[p]);
    hst_optimizer *optimizer = make(f, list);
    cr_assert(optimizer, "%s: %s", f->name, hst_error(f->ctx));
    double norms[STEPS];
    for (int i = 0; i < STEPS; i++) {
        for (int p = 0; p < 2; p++) copy_step(f, walkers[p].gradients, i, hst_grad(walkers[p].value));
        norms[i] = hst_gradient_norm(list);
        double rate = fixture_number(f, "rates", i), factor = fixture_number(f, "factors", i);
        cr_assert_eq(hst_optimizer_step(optimizer, rate, factor), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
        for (int p = 0; p < 2; p++)
            hst_copy_out(walkers[p].value, HST_F64, walkers[p].steps + i * hst_count(walkers[p].value));
    }
    fixture_expect(f, "norms", hst_from_array(f->ctx, HST_F32, HST_SHAPE(STEPS), HST_F64, norms), 1);
    for (int p = 0; p < 2; p++) walker_end(f, &walkers[p], 8 * STEPS);
    hst_optimizer_free(optimizer);
}

static hst_optimizer *make_adamw(const fixture *f, hst_parameters *list) {
    return hst_adamw(list, (hst_adamw_options){fixture_number(f, "options", 0), fixture_number(f, "options", 1),
                                               fixture_number(f, "options", 2), fixture_number(f, "options", 3)});
}

static hst_optimizer *make_sgd(const fixture *f, hst_parameters *list) {
    return hst_sgd(list, (hst_sgd_options){fixture_number(f, "options", 0), fixture_number(f, "options", 1)});
}

static void check_adamw(const fixture *f) {
    hst_parameters *list = hst_parameters_new(f->ctx);
    check_trajectory(f, list, make_adamw);
    hst_parameters_free(list);
}

static void check_sgd(const fixture *f) {
    hst_parameters *list = hst_parameters_new(f->ctx);
    check_trajectory(f, list, make_sgd);
    hst_parameters_free(list);
}

static void check_optimizers(hst_context *ctx) {
    for_each_case(ctx, "torch_optim", "adamw/", "ws", check_adamw);
    for_each_case(ctx, "torch_optim", "sgd/", "ws", check_sgd);
}
Test(optim, trajectories_are_pytorchs) { for_each_isa(check_optimizers); }

// The rates are doubles in every build; PyTorch's cosine is a recursion, which costs it a few roundings a step.
static void check_schedule(const fixture *f) {
    hst_schedule schedule = {fixture_number(f, "options", 0), (int64_t)fixture_number(f, "options", 1),
                             (int64_t)fixture_number(f, "options", 2), fixture_number(f, "options", 3)};
    double allowed = 8 * 0x1p-53 * (double)schedule.steps * schedule.peak;
    for (int64_t step = 0; step <= schedule.steps; step++)
        cr_assert_float_eq(hst_schedule_rate(&schedule, step), fixture_number(f, "rates", step), allowed,
                           "%s: step %lld", f->name, (long long)step);
}

Test(optim, schedule_is_pytorchs) {
    hst_context *ctx = hst_open(NULL);
    for_each_case(ctx, "torch_optim", "schedule/", "rates", check_schedule);
    hst_close(ctx);
}
