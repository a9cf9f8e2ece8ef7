// test_optimizer_fixture.c: 10 and 50 steps of each optimizer, gradient norms and learning rates against PyTorch in
// fp64. tests/fixtures/README.md says what the file holds and how it was made.
#include "optim/optim.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

// A parameter, and where it was after every so many steps.
typedef struct walker {
    const char *start, *gradients, *path; // keys of the fixture
    hst_tensor *value;
    double *scales, *given, *want; // of the gradients' columns; all gradients; the path
    int64_t snapshots;
} walker;

static walker walker_begin(const fixture *f, hst_parameters *list, const char *start, const char *gradients,
                           const char *path) {
    walker w = {start, gradients, path, NULL, NULL, NULL, NULL, fixture_find(f, path)->shape[0]};
    w.value = hst_parameter(list, start, fixture_tensor(f, start));
    cr_assert(w.value, "%s: %s", f->name, hst_error(f->ctx));
    w.scales = fixture_numbers(fixture_find(f, "scales"), 0);
    w.given = fixture_numbers(fixture_find(f, gradients), 0);
    w.want = fixture_numbers(fixture_find(f, path), 0);
    return w;
}

static void walker_end(walker *w) { free(w->scales), free(w->given), free(w->want); }

static void set_gradient(const walker *w, int64_t step) {
    int64_t count = hst_count(w->value), columns = hst_dim(w->value, -1);
    double *g = calloc((size_t)count, sizeof *g);
    for (int64_t i = 0; i < count; i++) g[i] = w->given[step * count + i] * w->scales[i % columns];
    cr_assert_eq(hst_copy_in(hst_grad(w->value), HST_F64, g), HST_OK);
    free(g);
}

// Each column by its own largest number on the whole path: their gradients may differ by 2^116.
static void check_snapshot(const fixture *f, const walker *w, int64_t snapshot, double roundings) {
    int64_t count = hst_count(w->value), columns = hst_dim(w->value, -1);
    double *got = calloc((size_t)count, sizeof *got);
    hst_copy_out(w->value, HST_F64, got);
    for (int64_t i = 0; i < count; i++) {
        double largest = 0, want = w->want[snapshot * count + i];
        for (int64_t j = i % columns; j < w->snapshots * count; j += columns) largest = fmax(largest, fabs(w->want[j]));
        cr_assert(fabs(got[i] - want) <= roundings * ROUNDING * largest,
                  "%s, %s[%lld] after part %lld: %.17g, PyTorch has %.17g, %.3g roundings apart (%s)", f->name, w->path,
                  (long long)i, (long long)snapshot, got[i], want, fabs(got[i] - want) / (ROUNDING * largest),
                  hst_isa(f->ctx));
    }
    free(got);
}

static hst_optimizer_options options_of(const fixture *f) {
    char kind[16];
    hst_optimizer_options o = {0};
    cr_assert(sscanf(f->name, "%15[a-z]", kind) == 1 && hst_optimizer_find(kind, &o.kind), "%s", f->name);
    o.decay = fixture_number(f, "options", o.kind == HST_SGD ? 1 : 3);
    if (o.kind == HST_SGD) {
        o.momentum = fixture_number(f, "options", 0);
        o.nesterov = fixture_number(f, "options", 2) != 0;
        return o;
    }
    o.beta1 = fixture_number(f, "options", 0);
    o.beta2 = fixture_number(f, "options", 1);
    o.eps = fixture_number(f, "options", 2);
    return o;
}

// An update takes about 8 roundings, of numbers no larger than the parameter's, and later steps add theirs. The matrix
// w decays, the vector b does not. Rates change from step to step, and so do the factors on the gradients.
static void check_trajectory(const fixture *f) {
    hst_parameters *list = hst_parameters_new(f->ctx);
    walker walkers[2] = {walker_begin(f, list, "w", "dw", "ws"), walker_begin(f, list, "b", "db", "bs")};
    hst_optimizer_options options = options_of(f);
    hst_optimizer *optimizer = hst_optimizer_new(list, &options);
    cr_assert(optimizer, "%s: %s", f->name, hst_error(f->ctx));
    int64_t steps = fixture_count(fixture_find(f, "rates")), every = steps / walkers[0].snapshots;
    double *rates = fixture_numbers(fixture_find(f, "rates"), 0), *norms = calloc((size_t)steps, sizeof *norms);
    for (int64_t i = 0; i < steps; i++) {
        for (int p = 0; p < 2; p++) set_gradient(&walkers[p], i);
        norms[i] = hst_gradient_norm(list);
        hst_status status = hst_optimizer_step(optimizer, rates[i], fixture_number(f, "factors", i));
        cr_assert_eq(status, HST_OK, "%s: %s", f->name, hst_error(f->ctx));
        for (int p = 0; p < 2 && (i + 1) % every == 0; p++)
            check_snapshot(f, &walkers[p], i / every, 8 * (double)steps);
    }
    fixture_expect(f, "norms", hst_from_array(f->ctx, HST_F32, HST_SHAPE(steps), HST_F64, norms), 1);
    for (int p = 0; p < 2; p++) walker_end(&walkers[p]);
    free(rates), free(norms);
    hst_optimizer_free(optimizer);
    hst_parameters_free(list);
}

static void check_optimizers(hst_context *ctx) {
    static const char *const kinds[] = {"adamw/", "adam/", "radam/", "sgd/"};
    for (int k = 0; k < COUNT(kinds); k++) for_each_case(ctx, "torch_optim", kinds[k], "ws", check_trajectory);
}
Test(optim, trajectories_are_pytorchs) { for_each_isa(check_optimizers); }

// The rates are doubles in every build; PyTorch's forms are recursions, which cost it a few roundings a step.
static void check_schedule(const fixture *f) {
    char kind[16];
    hst_schedule s = {.peak = fixture_number(f, "options", 0),
                      .warmup = (int64_t)fixture_number(f, "options", 1),
                      .steps = (int64_t)fixture_number(f, "options", 2),
                      .floor = fixture_number(f, "options", 3),
                      .every = (int64_t)fixture_number(f, "options", 4),
                      .factor = fixture_number(f, "options", 5)};
    cr_assert(sscanf(f->name, "schedule/%15[a-z]", kind) == 1 && hst_schedule_find(kind, &s.kind), "%s", f->name);
    double allowed = 8 * 0x1p-53 * (double)s.steps * s.peak;
    for (int64_t step = 0; step <= s.steps; step++)
        cr_assert_float_eq(hst_schedule_rate(&s, step), fixture_number(f, "rates", step), allowed, "%s: step %lld",
                           f->name, (long long)step);
}

Test(optim, schedules_are_pytorchs) {
    hst_context *ctx = hst_open(NULL);
    for_each_case(ctx, "torch_optim", "schedule/", "rates", check_schedule);
    hst_close(ctx);
}
