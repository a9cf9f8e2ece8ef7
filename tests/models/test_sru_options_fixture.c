// test_sru_options_fixture.c: stacks with every option of the `sru` package against it: outputs, states, all gradients,
// and their files. tests/fixtures/README.md says what the fixture holds; test_sru_fixture.c where tolerances come from.
#include <unistd.h>
#include "models/entry.h"
#include "models/sru.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static double option(const fixture *f, int i) { return fixture_number(f, "options", i); }

static hst_sru_config config_of(const fixture *f) {
    return (hst_sru_config){
        .input = (int64_t)option(f, 0),
        .hidden = (int64_t)option(f, 1),
        .layers = (int)option(f, 2),
        .layer_norm = option(f, 4) != 0,
        .rescale = option(f, 5) != 0,
        .highway_bias = option(f, 6),
        .has_skip_term = option(f, 7) != 0,
        .normalize_after = option(f, 8) != 0,
        .bidirectional = option(f, 9) != 0,
        .use_tanh = option(f, 10) != 0,
        .v1 = option(f, 11) != 0,
        .proj_input_to_hidden_first = option(f, 12) != 0,
        .nn_rnn_compatible_return = option(f, 13) != 0,
        .projection_size = (int64_t)option(f, 14),
        .dropout = option(f, 15),
        .rnn_dropout = option(f, 16),
        .rules = HST_SRU_2,
    };
}

static bool is_custom(const fixture *f) { return option(f, 3) != 0; }

// How many matrices or gates lie interleaved in the parameter of this name.
static int interleaved(const fixture *f, const char *name, int64_t out) {
    int layer = -1, end = 0;
    if (sscanf(name, "rnn_lst.%d.weight%n", &layer, &end) == 1 && end && !name[end])
        return (int)(fixture_find(f, name)->shape[1] / out);
    return is_custom(f) && strstr(name, ".weight_c") ? 2 : 0;
}

// ---- a transform of one's own: U and V are products of n with matrices that the fixture has as (columns, in) ----

typedef struct matrices {
    const fixture *f;
    int64_t out;
    hst_tensor *u[4], *v[4]; // (in, columns), in planes
} matrices;

// The transpose of a (columns, in) matrix whose rows lie j k + m, in planes; a leaf.
static hst_tensor *turned(const fixture *f, int layer, const char *name, int64_t out) {
    char key[64];
    snprintf(key, sizeof key, "rnn_lst.%d.custom_m.%s.weight", layer, name);
    const hst_entry *e = fixture_find(f, key);
    int64_t columns = e->shape[0], in = e->shape[1], k = columns / out;
    double *numbers = fixture_numbers(e, 0), *planes = calloc((size_t)(columns * in), sizeof *planes);
    cr_assert(planes);
    for (int64_t column = 0; column < columns; column++)
        for (int64_t i = 0; i < in; i++) planes[i * columns + column % k * out + column / k] = numbers[column * in + i];
    hst_tensor *t = hst_from_array(f->ctx, HST_F32, HST_SHAPE(in, columns), HST_F64, planes);
    free(numbers);
    free(planes);
    return t;
}

static hst_tensor *transform(void *user, int layer, hst_tensor *n, hst_tensor **v) {
    const matrices *m = user;
    *v = hst_matmul(n, m->v[layer]);
    return hst_matmul(n, m->u[layer]);
}

// ---- the stack ----

static void load_parameters(const fixture *f, hst_parameters *list, int64_t out) {
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const char *name = hst_parameter_name(list, i);
        const hst_entry *e = fixture_find(f, name);
        cr_assert(e, "%s: the package has no parameter %s", f->name, name);
        double *numbers = fixture_numbers(e, interleaved(f, name, out));
        cr_assert_eq(hst_copy_in(hst_parameter_value(list, i), HST_F64, numbers), HST_OK);
        free(numbers);
    }
}

static void check_gradients(const fixture *f, hst_parameters *list, int64_t out, double roundings) {
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const char *name = hst_parameter_name(list, i);
        char key[80];
        snprintf(key, sizeof key, "d%s", name);
        fixture_expect_planes(f, key, interleaved(f, name, out), hst_grad(hst_parameter_value(list, i)), roundings);
    }
}

// 22 roundings a step with tanh; products over the input or the columns, twice with a projection.
static double roundings_of(const hst_tensor *x, const hst_sru_config *c) {
    double step = 22.0 * (double)(hst_dim(x, 0) * hst_dim(x, 1));
    return c->layers * (step + 4.0 * (double)(c->input + hst_sru_out(c)));
}

// Every parameter of the package's is one of the stack's, but for v1's zeros and a transform's own.
static int parameters_in(const fixture *f) {
    int count = 0;
    for (int i = 0; i < hst_safetensors_count(f->file); i++) {
        const char *name = hst_safetensors_entry(f->file, i)->name;
        size_t length = strlen(f->name);
        if (strncmp(name, f->name, length) || name[length] != '/') continue;
        name += length + 1;
        if (strncmp(name, "rnn_lst.", 8) && strncmp(name, "input_to_hidden.", 16)) continue;
        count +=
            !strstr(name, "scale_x") && !strstr(name, "custom_m") && !(option(f, 11) != 0 && strstr(name, "weight_c"));
    }
    return count;
}

static void check_stack(const fixture *f) {
    hst_sru_config config = config_of(f);
    matrices m = {.f = f, .out = hst_sru_out(&config)};
    if (is_custom(f)) {
        config.transform = transform, config.user = &m, config.transform_gives_v = true;
        for (int i = 0; i < config.layers; i++) m.u[i] = turned(f, i, "u", m.out), m.v[i] = turned(f, i, "v", m.out);
    }
    hst_parameters *list = hst_parameters_new(f->ctx);
    hst_sru *sru = hst_sru_new(list, "", &config);
    cr_assert(sru, "%s: %s", f->name, hst_error(f->ctx));
    cr_assert_eq(hst_parameter_count(list), parameters_in(f), "%s", f->name);
    load_parameters(f, list, m.out);
    hst_tensor *x = fixture_leaf(f, "x"), *c0 = fixture_leaf(f, "c0"), *pad = fixture_tensor(f, "mask_pad");
    double roundings = roundings_of(x, &config);
    bool training = config.dropout == 0 && config.rnn_dropout == 0; // a mask could not be the package's

    hst_tensor *c, *h = hst_sru_forward(sru, x, c0, pad, training, &c);
    fixture_expect(f, "h", h, roundings);
    fixture_expect(f, "c", c, roundings);
    hst_tensor *dh = fixture_tensor(f, "gh");
    cr_assert_eq(hst_backward_from(f->ctx, 1, &h, &dh), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
    fixture_expect(f, "dx", hst_grad(x), roundings);
    if (c0) fixture_expect(f, "dc0", hst_grad(c0), roundings);
    check_gradients(f, list, m.out, roundings);
    hst_sru_free(sru);
    hst_parameters_free(list);
}

static void check_stacks(hst_context *ctx) { for_each_case(ctx, "sru_options", "", "gh", check_stack); }
Test(models, stacks_with_options_are_the_packages) { for_each_isa(check_stacks); }

// ---- files ----

// The case's state_dict as a file of its own, as Python would write it: without a configuration.
static void write_state_dict(const fixture *f, const char *path) {
    hst_entry entries[64];
    int count = 0;
    size_t length = strlen(f->name) + 1;
    for (int i = 0; i < hst_safetensors_count(f->file); i++) {
        const hst_entry *e = hst_safetensors_entry(f->file, i);
        if (strncmp(e->name, f->name, length - 1) || e->name[length - 1] != '/') continue;
        if (strncmp(e->name + length, "rnn_lst.", 8) && strncmp(e->name + length, "input_to_hidden.", 16)) continue;
        entries[count] = *e;
        entries[count++].name = e->name + length;
    }
    cr_assert_eq(hst_safetensors_write(f->ctx, path, entries, count, NULL, 0), HST_OK, "%s", hst_error(f->ctx));
}

// Each tensor of the package's is there again, with its shape and numbers.
static void expect_state_dict(const fixture *f, const char *path) {
    hst_safetensors *file = hst_safetensors_open(f->ctx, path);
    cr_assert(file, "%s", hst_error(f->ctx));
    int found = 0;
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const hst_entry *e = hst_safetensors_entry(file, i), *want = fixture_find(f, e->name);
        cr_assert(want, "%s: the package has no %s", f->name, e->name);
        cr_assert(e->rank == want->rank && !memcmp(e->shape, want->shape, sizeof *e->shape * (size_t)e->rank), "%s %s",
                  f->name, e->name);
        double *numbers = fixture_numbers(want, 0);
        for (int64_t n = 0; n < fixture_count(want); n++) {
            double got = 0;
            if (e->dtype == HST_F64) memcpy(&got, (const double *)e->data + n, sizeof got);
            if (e->dtype == HST_F32) {
                float single;
                memcpy(&single, (const float *)e->data + n, sizeof single);
                got = single;
            }
            double error = strstr(e->name, "scale_x") ? 1e-6 : 0; // recomputed
            cr_assert(fabs(got - numbers[n]) <= error, "%s %s[%lld]: %g, not %g", f->name, e->name, (long long)n, got,
                      numbers[n]);
        }
        free(numbers);
        found += !strstr(e->name, "scale_x");
    }
    cr_assert_eq(found, parameters_in(f) + (option(f, 11) != 0 ? (int)option(f, 2) : 0), "%s", f->name);
    hst_safetensors_close(file);
}

// In 3.x a matrix is the transpose of 2.x's under another name, and all else is the same.
static void expect_third_version(const fixture *f, const char *path) {
    static const char *const names[][2] = {{"transform_module.weight", "weight"},
                                           {"transform_module.0.weight", "weight_proj"},
                                           {"transform_module.1.weight", "weight"}};
    hst_safetensors *file = hst_safetensors_open(f->ctx, path);
    cr_assert(file, "%s", hst_error(f->ctx));
    int turned_ones = 0;
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const hst_entry *e = hst_safetensors_entry(file, i);
        const char *rest = strstr(e->name, "transform_module.");
        if (!rest) continue;
        int n = 0;
        while (strcmp(rest, names[n][0])) cr_assert_lt(++n, 3, "%s", e->name);
        char second[96];
        snprintf(second, sizeof second, "%.*s%s", (int)(rest - e->name), e->name, names[n][1]);
        const hst_entry *want = fixture_find(f, second);
        cr_assert(want && e->shape[0] == want->shape[1] && e->shape[1] == want->shape[0], "%s %s", f->name, e->name);
        hst_tensor *got = hst_empty(f->ctx, HST_F32, 2, e->shape);
        cr_assert(hst_entry_copy(e, got));
        fixture_expect(f, second, hst_transpose(got, 0, 1), 0);
        turned_ones++;
    }
    cr_assert_geq(turned_ones, (int)option(f, 2), "%s", f->name);
    hst_safetensors_close(file);
}

static void expect_same_output(const fixture *f, const hst_sru *sru) {
    hst_tensor *x = fixture_tensor(f, "x"), *c0 = fixture_tensor(f, "c0"), *pad = fixture_tensor(f, "mask_pad"), *c;
    double roundings = roundings_of(x, hst_sru_configuration(sru));
    fixture_expect(f, "h", hst_sru_forward(sru, x, c0, pad, false, &c), roundings);
    fixture_expect(f, "c", c, roundings);
}

// The configuration that was found is the one the case was made with, as far as it makes a difference.
static void expect_config(const fixture *f, const hst_sru_config *got) {
    hst_sru_config want = config_of(f);
    cr_assert(got->input == want.input && got->hidden == want.hidden && got->layers == want.layers, "%s", f->name);
    cr_assert(got->layer_norm == want.layer_norm && got->has_skip_term == want.has_skip_term, "%s", f->name);
    cr_assert(got->rescale == (want.rescale && want.has_skip_term), "%s", f->name);
    if (got->rescale) cr_assert(fabs(got->highway_bias - want.highway_bias) < 1e-5, "%s", f->name);
    for (int i = 0; i < want.layers; i++) {
        hst_sru_sizes a = hst_sru_sizes_of(got, i), b = hst_sru_sizes_of(&want, i);
        cr_assert(a.in == b.in && a.out == b.out && a.k == b.k && a.projection == b.projection, "%s", f->name);
    }
}

// A state_dict without a word about itself; what it became in 3.x and back; and what Python would get.
static void check_file(const fixture *f) {
    char path[] = P_tmpdir "/halfstep-XXXXXX", other[] = P_tmpdir "/halfstep-XXXXXX";
    close(mkstemp(path)), close(mkstemp(other));
    if (is_custom(f)) return;
    hst_sru_config config = config_of(f), assumed = config;
    assumed.input = assumed.hidden = assumed.projection_size = 7; // these, and the next, are the file's to say
    assumed.layers = 9, assumed.layer_norm = assumed.rescale = false, assumed.proj_input_to_hidden_first = false;
    bool widens = hst_sru_sizes_of(&config, 0).in != hst_sru_out(&config); // then shapes tell of skip and norm
    if (widens) assumed.has_skip_term = !config.has_skip_term, assumed.normalize_after = !config.normalize_after;
    write_state_dict(f, path);
    for (int version = 2; version <= 4; version++) { // what is loaded: the state_dict, then ours of 3.x and 2.x
        hst_parameters *list = hst_parameters_new(f->ctx);
        hst_sru *sru = hst_sru_load(list, version == 3 ? other : path, NULL, version == 2 ? &assumed : NULL);
        cr_assert(sru, "%s: %s", f->name, hst_error(f->ctx));
        expect_config(f, hst_sru_configuration(sru));
        expect_same_output(f, sru);
        if (version == 2) cr_assert_eq(hst_sru_export(sru, other, 3, HST_F32), HST_OK, "%s", hst_error(f->ctx));
        if (version == 3) expect_third_version(f, other);
        if (version == 3) cr_assert_eq(hst_sru_save(sru, path), HST_OK, "%s", hst_error(f->ctx));
        if (version == 3) expect_state_dict(f, path);
        hst_sru_free(sru);
        hst_parameters_free(list);
    }
    unlink(path), unlink(other);
}

Test(models, state_dicts_of_both_versions_load_and_are_saved_alike) {
    hst_context *ctx = hst_open(NULL);
    for_each_case(ctx, "sru_options", "", "gh", check_file);
    hst_close(ctx);
}

// weight_c of a transform with gate weights of its own: in turn in the file, in planes in memory.
static void check_custom_file(const fixture *f) {
    char path[] = P_tmpdir "/halfstep-XXXXXX";
    close(mkstemp(path));
    write_state_dict(f, path);
    hst_sru_config config = config_of(f);
    config.transform = transform, config.transform_gives_v = true;
    hst_parameters *list = hst_parameters_new(f->ctx);
    hst_sru *sru = hst_sru_new(list, "", &config);
    cr_assert_eq(hst_sru_read(sru, path), HST_OK, "%s", hst_error(f->ctx));
    for (int i = 0; i < hst_parameter_count(list); i++)
        fixture_expect_planes(f, hst_parameter_name(list, i),
                              interleaved(f, hst_parameter_name(list, i), hst_sru_out(&config)),
                              hst_parameter_value(list, i), 0);
    cr_assert_eq(hst_sru_save(sru, path), HST_OK);
    expect_state_dict(f, path);
    unlink(path);
    hst_sru_free(sru);
    hst_parameters_free(list);
}

Test(models, weight_c_beside_a_transform_alternates_in_files) {
    hst_context *ctx = hst_open(NULL);
    for_each_case(ctx, "sru_options", "custom", "gh", check_custom_file);
    hst_close(ctx);
}
