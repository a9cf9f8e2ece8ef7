// test_sru_fixture.c: the SRU recurrence, the SRU stack and the language model against the `sru` package: outputs,
// carried state, and all gradients, over every option and odd sizes; and model files in both directions.
// tests/fixtures/README.md says what the fixtures hold and how they were made.
//
// Tolerances, in roundings relative to a tensor's largest number. One step of the recurrence is about 16 roundings of
// numbers of the size of its results, forward and again backward; a state collects those of L steps (the forget gate
// keeps old errors below their first size), a parameter's gradient those of B sequences.
#include <unistd.h>
#include "models/language_model_file.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static double recurrence_roundings(const hst_tensor *x) { return 16.0 * (double)(hst_dim(x, 0) * hst_dim(x, 1)); }

static void check_recurrence(const fixture *f) {
    int k = (int)fixture_number(f, "options", 0);
    bool has_skip = fixture_number(f, "options", 1) != 0, takes_x = k == 3 && has_skip;
    hst_recurrence options = {.k = k,
                              .scale_x = fixture_number(f, "options", 2),
                              .use_tanh = fixture_number(f, "options", 3) != 0,
                              .bidirectional = fixture_number(f, "options", 4) == 2};
    hst_tensor *u = fixture_leaf_planes(f, "u", k), *x = takes_x ? fixture_leaf(f, "x") : NULL;
    // With gate weights of each step the package has forget and reset in turn, in weight_c too.
    int gates = fixture_find(f, "v_steps") ? 2 : 0;
    hst_tensor *v = fixture_leaf_planes(f, "weight_c", gates), *v_steps = fixture_leaf_planes(f, "v_steps", gates);
    hst_tensor *bias = fixture_leaf(f, "bias"), *c0 = fixture_leaf(f, "c0");
    hst_tensor *mask = fixture_tensor(f, "mask_c"), *pad = fixture_tensor(f, "mask_pad");
    double roundings = recurrence_roundings(u);

    hst_tensor *c, *h = hst_sru_recurrence(u, x, v, v_steps, bias, c0, mask, pad, options, &c);
    fixture_expect(f, "h", h, roundings);
    fixture_expect(f, "c", c, roundings);

    hst_tensor *dh = fixture_tensor(f, "gh"), *dc = fixture_tensor(f, "gc");
    hst_backward_from(f->ctx, 2, (hst_tensor *[]){h, c}, (hst_tensor *[]){dh, dc});
    cr_assert_eq(hst_get_status(f->ctx), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
    fixture_expect_planes(f, "du", k, hst_grad(u), roundings);
    fixture_expect(f, "dbias", hst_grad(bias), roundings);
    if (x) fixture_expect(f, "dx", hst_grad(x), roundings);
    if (v) fixture_expect_planes(f, "dweight_c", gates, hst_grad(v), roundings);
    if (v_steps) fixture_expect_planes(f, "dv_steps", gates, hst_grad(v_steps), roundings);
    if (c0) fixture_expect(f, "dc0", hst_grad(c0), roundings);
}

static void check_recurrences(hst_context *ctx) { for_each_case(ctx, "sru_recurrence", "", "gh", check_recurrence); }
Test(models, recurrence_is_the_packages) { for_each_isa(check_recurrences); }

// ---- the stack ----

static hst_sru_config stack_config(const fixture *f) {
    return (hst_sru_config){
        .input = (int64_t)fixture_number(f, "options", 0),
        .hidden = (int64_t)fixture_number(f, "options", 1),
        .layers = (int)fixture_number(f, "options", 2),
        .layer_norm = fixture_number(f, "options", 3) != 0,
        .rescale = fixture_number(f, "options", 4) != 0,
        .highway_bias = fixture_number(f, "options", 5),
        .has_skip_term = true,
    };
}

// How many matrices lie interleaved in the parameter of this name: only weights have them.
static int matrices(const char *name, const hst_sru_config *config) {
    int layer = -1, end = 0;
    if (!strncmp(name, "rnn.", 4)) name += 4;
    if (sscanf(name, "rnn_lst.%d.weight%n", &layer, &end) != 1 || !end || name[end]) return 0;
    return layer == 0 && config->input != config->hidden ? 4 : 3;
}

static void load_parameters(const fixture *f, hst_parameters *list, const hst_sru_config *config) {
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const char *name = hst_parameter_name(list, i);
        const hst_entry *e = fixture_find(f, name);
        cr_assert(e, "the package has no parameter %s", name);
        double *numbers = fixture_numbers(e, matrices(name, config));
        cr_assert_eq(hst_copy_in(hst_parameter_value(list, i), HST_F64, numbers), HST_OK);
        free(numbers);
    }
}

// The products add sums over `input` or `hidden` terms to each layer's roundings, and layer norm two sums of its own.
static double stack_roundings(const hst_tensor *x, const hst_sru_config *config) {
    return config->layers * (recurrence_roundings(x) + 3.0 * (double)(config->input + config->hidden));
}

static void check_parameter_gradients(const fixture *f, hst_parameters *list, const hst_sru_config *config,
                                      double roundings) {
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const char *name = hst_parameter_name(list, i);
        char key[80];
        snprintf(key, sizeof key, "d%s", name);
        fixture_expect_planes(f, key, matrices(name, config), hst_grad(hst_parameter_value(list, i)), roundings);
    }
}

static void check_stack(const fixture *f) {
    hst_sru_config config = stack_config(f);
    hst_parameters *list = hst_parameters_new(f->ctx);
    hst_sru *sru = hst_sru_new(list, "", &config);
    cr_assert(sru, "%s: %s", f->name, hst_error(f->ctx));
    cr_assert_eq(hst_parameter_count(list), config.layers * (config.layer_norm ? 5 : 3));
    load_parameters(f, list, &config);
    hst_tensor *x = fixture_leaf(f, "x"), *c0 = fixture_leaf(f, "c0"), *pad = fixture_tensor(f, "mask_pad");
    double roundings = stack_roundings(x, &config);

    hst_tensor *c, *h = hst_sru_forward(sru, x, c0, pad, true, &c);
    fixture_expect(f, "h", h, roundings);
    fixture_expect(f, "c", c, roundings);

    hst_tensor *dh = fixture_tensor(f, "gh");
    cr_assert_eq(hst_backward_from(f->ctx, 1, &h, &dh), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
    fixture_expect(f, "dx", hst_grad(x), roundings);
    if (c0) fixture_expect(f, "dc0", hst_grad(c0), roundings);
    check_parameter_gradients(f, list, &config, roundings);
    hst_sru_free(sru);
    hst_parameters_free(list);
}

static void check_stacks(hst_context *ctx) { for_each_case(ctx, "sru_stack", "", "gh", check_stack); }
Test(models, stack_is_the_packages) { for_each_isa(check_stacks); }

// ---- the language model, from a file that the package's side wrote ----

static hst_sru_config lm_stack_config(const hst_lm_config *c) {
    return (hst_sru_config){.input = c->hidden, .hidden = c->hidden, .layers = c->layers};
}

// Embedding, layer norm and output layer add sums over `hidden` and, backward, `vocabulary` terms to the stack's.
static void check_training_step(const fixture *expected, const hst_lm *model) {
    hst_context *ctx = expected->ctx;
    const hst_lm_config *config = hst_lm_configuration(model);
    hst_sru_config stack = lm_stack_config(config);
    hst_tensor *ids = fixture_tensor(expected, "ids"), *c0 = fixture_tensor(expected, "c0");
    hst_tensor *c, *logits = hst_lm_forward(model, ids, c0, true, &c);
    double roundings = stack_roundings(logits, &stack) + (double)(3 * config->hidden + config->vocabulary);
    fixture_expect(expected, "logits", logits, roundings);
    fixture_expect(expected, "c", c, roundings);

    hst_tensor *loss = hst_cross_entropy(logits, fixture_tensor(expected, "targets"));
    fixture_expect(expected, "loss", loss, roundings);
    cr_assert_eq(hst_backward(ctx, loss), HST_OK, "%s", hst_error(ctx));
    check_parameter_gradients(expected, hst_lm_parameters(model), &stack, roundings);
}

// What is saved again is, number for number, what was loaded: names, shapes, order of columns, and scale_x.
static void check_saved(const fixture *original, const hst_lm *model) {
    char path[] = P_tmpdir "/halfstep-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    hst_context *ctx = original->ctx;
    cr_assert_eq(hst_lm_save(model, path), HST_OK, "%s", hst_error(ctx));
    hst_safetensors *saved = hst_safetensors_open(ctx, path);
    unlink(path);
    cr_assert(saved, "%s", hst_error(ctx));
    for (int i = 0; i < hst_safetensors_count(saved); i++) {
        const hst_entry *e = hst_safetensors_entry(saved, i);
        hst_tensor *t = hst_empty(ctx, HST_F32, e->rank, e->shape);
        cr_assert(hst_entry_copy(e, t), "%s", hst_error(ctx));
        fixture_expect(original, e->name, t, strstr(e->name, "scale_x") ? 1 : 0);
    }
    hst_safetensors_close(saved);
}

static void check_language_model(hst_context *ctx, const char *file) {
    char path[256];
    hst_safetensors *opened = fixture_open(ctx, file);
    fixture original = {ctx, opened, ""}, expected = {ctx, opened, "expected"};
    hst_scope_begin(ctx);
    hst_lm *model = hst_lm_load(ctx, fixture_path(file, path));
    cr_assert(model, "%s", hst_error(ctx));
    check_training_step(&expected, model);
    check_saved(&original, model);
    hst_lm_free(model);
    hst_scope_end(ctx, NULL);
    hst_safetensors_close(opened);
}

static void check_language_models(hst_context *ctx) {
    check_language_model(ctx, "sru_lm");
    check_language_model(ctx, "sru_lm_tied");
}
Test(models, language_model_is_the_packages) { for_each_isa(check_language_models); }
