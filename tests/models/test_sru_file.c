// test_sru_file.c: files of stacks and language models that are not as they should be, or not only that; and
// conversions.
#include <math.h>
#include "models/language_model_file.h"
#include "models/sru.h"
#include "tests/temporary.h"

TestSuite(sru_file, .init = set_up, .fini = tear_down);

// ---- files made tensor by tensor ----

typedef struct tensor {
    const char *name;
    int rank;
    int64_t shape[2];
    double value; // of each element
} tensor;

static const char *write_file(const char *name, const tensor *tensors, const char *config) {
    static float data[16][256];
    hst_entry entries[16];
    int count = 0;
    for (; tensors[count].name; count++) {
        const tensor *t = &tensors[count];
        int64_t elements = t->shape[0] * (t->rank == 2 ? t->shape[1] : 1);
        for (int64_t i = 0; i < elements; i++) data[count][i] = (float)t->value;
        entries[count] = (hst_entry){.name = t->name,
                                     .dtype = HST_F32,
                                     .rank = t->rank,
                                     .shape = {t->shape[0], t->shape[1]},
                                     .data = data[count],
                                     .bytes = (size_t)elements * sizeof(float)};
    }
    const char *path = in_folder(name), *const metadata[] = {"halfstep.config", config};
    cr_assert_eq(hst_safetensors_write(ctx, path, entries, count, metadata, config != NULL), HST_OK, "%s",
                 hst_error(ctx));
    return path;
}

// One layer of SRU 2.x, 3 wide, k = 3.
#define LAYER(prefix, i)                                                                                               \
    {prefix "rnn_lst." #i ".weight", 2, {3, 9}, 0.1}, {prefix "rnn_lst." #i ".weight_c", 1, {6}, 0.2},                 \
        {prefix "rnn_lst." #i ".bias", 1, {6}, 0.3}, {                                                                 \
        prefix "rnn_lst." #i ".scale_x", 1, {1}, 1                                                                     \
    }

static hst_sru *load(const char *path, const char *prefix, const hst_sru_config *assumed) {
    return hst_sru_load(hst_parameters_new(ctx), path, prefix, assumed);
}

Test(sru_file, a_stack_is_found_behind_any_prefix) {
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    const char *one = write_file("one", (tensor[]){LAYER("encoder.rnn.", 0), {0}}, NULL);
    hst_parameters *list = hst_parameters_new(ctx);
    hst_sru *sru = hst_sru_load(list, one, NULL, &assumed);
    cr_assert(sru, "%s", hst_error(ctx));
    cr_expect_str_eq(hst_parameter_name(list, 0), "encoder.rnn.rnn_lst.0.weight");
    hst_sru_free(sru);
    const char *two = write_file("two", (tensor[]){LAYER("a.", 0), LAYER("b.", 0), {0}}, NULL);
    cr_expect_null(load(two, NULL, &assumed));
    expect_failure(HST_ERROR_FORMAT, "several stacks of SRU layers, a.rnn_lst and b.rnn_lst among them; a prefix");
    sru = load(two, "b.", &assumed);
    cr_expect(sru, "%s", hst_error(ctx));
    hst_sru_free(sru);
    cr_expect_null(load(two, "c.", &assumed));
    expect_failure(HST_ERROR_FORMAT, "has no tensor c.rnn_lst.0.bias");
    cr_expect_null(load(one, NULL, NULL));
    expect_failure(HST_ERROR_FORMAT, "no halfstep.config");
}

// scale_x = sqrt(1 + 2 exp(b)) is there only with a skip term and rescale, and gives b: 0 here.
Test(sru_file, a_scale_tells_of_rescale_and_skip) {
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    tensor tensors[] = {LAYER("", 0), {0}};
    tensors[3].value = sqrt(3);
    assumed.has_skip_term = false, assumed.highway_bias = 7;
    hst_sru *sru = load(write_file("scaled", tensors, NULL), NULL, &assumed);
    cr_assert(sru, "%s", hst_error(ctx));
    const hst_sru_config *c = hst_sru_configuration(sru);
    cr_expect(c->has_skip_term && c->rescale && fabs(c->highway_bias) < 1e-6);
    hst_sru_free(sru);
    tensors[3].value = 1;
    sru = load(write_file("plain", tensors, NULL), NULL, &assumed);
    c = hst_sru_configuration(sru);
    cr_expect(!c->has_skip_term && !c->rescale && c->highway_bias == 7);
    hst_sru_free(sru);
}

Test(sru_file, what_shapes_contradict_is_refused) {
    static const struct {
        tensor tensors[9];
        const char *says;
    } cases[] = {
        {{{"other", 1, {1}, 0}}, "has no tensor ...rnn_lst.0.bias"},
        {{{"rnn_lst.0.bias", 1, {6}, 0}}, "has neither rnn_lst.0.weight (SRU 2.x) nor"},
        {{{"rnn_lst.0.bias", 1, {6}, 0}, {"rnn_lst.0.transform_module.linear1.weight", 2, {2, 3}, 0}}, "SRU++"},
        {{{"rnn_lst.0.bias", 1, {5}, 0}, {"rnn_lst.0.weight", 2, {3, 9}, 0}}, "has no bias with one number for each"},
        {{{"rnn_lst.0.bias", 1, {6}, 0}, {"rnn_lst.0.weight", 2, {3, 10}, 0}}, "so k is not known"},
        {{{"rnn_lst.0.bias", 1, {6}, 0}, {"rnn_lst.0.weight", 2, {3, 12}, 0}},
         "has 4 planes though it keeps the width"},
        {{{"rnn_lst.0.bias", 1, {6}, 0}, {"rnn_lst.0.weight", 2, {3, 9}, 0}}, "rnn_lst.0.weight_c is missing"},
        {{LAYER("", 0), {"rnn_lst.1.weight", 2, {4, 12}, 0}, {"rnn_lst.1.bias", 1, {6}, 0}}, "widths are not those"},
        {{LAYER("", 0), {"rnn_lst.0.layer_norm.weight", 1, {5}, 0}}, "layer norm is neither as wide"},
        {{LAYER("", 0), {"rnn_lst.0.gain", 1, {5}, 0}}, "rnn_lst.0.gain has no place"},
        {{LAYER("", 0), {"rnn_lst.7.bias", 1, {6}, 0}}, "rnn_lst.7.bias has no place"},
        {{LAYER("", 0), {"rnn_lst.0.weight_proj", 2, {3, 2}, 0}}, "two matrices do not fit each other"},
    };
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_null(load(write_file("case", cases[i].tensors, NULL), NULL, &assumed), "case %zu", i);
        expect_failure(HST_ERROR_FORMAT, cases[i].says);
    }
    assumed.bidirectional = true;
    cr_expect_null(load(write_file("odd", (tensor[]){LAYER("", 0), {0}}, NULL), NULL, &assumed));
    expect_failure(HST_ERROR_FORMAT, "an odd number of columns, which two directions cannot share");
    assumed.bidirectional = false, assumed.v1 = true;
    cr_expect_null(load(in_folder("odd"), NULL, &assumed));
    expect_failure(HST_ERROR_FORMAT, "weight_c is not 0, as v1 in its configuration says");
}

// A small file that says it is huge, or something else than it is, takes no memory.
Test(sru_file, a_configuration_that_contradicts_the_tensors_is_refused) {
    static const char *const configs[] = {
        "{\"input\":3,\"hidden\":3,\"layers\":2}",
        "{\"input\":3,\"hidden\":3,\"layers\":2147483647}",
        "{\"input\":3,\"hidden\":999999999,\"layers\":1}",
        "{\"input\":3,\"hidden\":3,\"layers\":1,\"bidirectional\":true}",
        "{\"input\":3,\"hidden\":3,\"layers\":1,\"projection_size\":1}",
        "{\"input\":9,\"hidden\":3,\"layers\":1,\"proj_input_to_hidden_first\":true}",
        "{\"input\":3,\"hidden\":3,\"layers\":0}",
    };
    const tensor tensors[] = {LAYER("", 0), {0}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        hst_memory before, after;
        hst_memory_stats(ctx, &before);
        cr_expect_null(load(write_file("case", tensors, configs[i]), NULL, NULL), "case %zu", i);
        expect_failure(HST_ERROR_FORMAT, "does not fit its tensors");
        hst_memory_stats(ctx, &after);
        cr_expect_lt(after.peak_total - before.peak_total, 1 << 20, "case %zu", i);
    }
    const char *scaled = "{\"input\":3,\"hidden\":3,\"layers\":1,\"layer_norm\":false,\"rescale\":true}";
    cr_expect_null(load(write_file("case", tensors, scaled), NULL, NULL));
    expect_failure(HST_ERROR_FORMAT, "scale_x does not agree with the configuration, which gives 1.12");
}

// sqrt(1 + 2 exp(b)) is a finite number above 1.
Test(sru_file, a_scale_that_no_bias_gives_is_refused) {
    const double scales[] = {0.5, 0, -2, INFINITY, NAN};
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        tensor tensors[] = {LAYER("a.", 0), {0}};
        char says[64];
        tensors[3].value = scales[i];
        snprintf(says, sizeof says, "odd: a.rnn_lst.0.scale_x is %g; ", scales[i]);
        cr_expect_null(load(write_file("odd", tensors, NULL), NULL, &assumed));
        expect_failure(HST_ERROR_FORMAT, says);
    }
}

// What was not made leaves nothing in the list, so that the names are free for another try.
Test(sru_file, a_failure_leaves_the_list_as_it_was) {
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2), config = assumed;
    hst_parameters *list = hst_parameters_new(ctx);
    hst_memory before, after;
    hst_memory_stats(ctx, &before);
    const tensor tensors[] = {LAYER("", 0), {"rnn_lst.0.gain", 1, {5}, 0}, {0}};
    cr_expect_null(hst_sru_load(list, write_file("rest", tensors, NULL), NULL, &assumed));
    expect_failure(HST_ERROR_FORMAT, "rnn_lst.0.gain has no place");
    cr_expect_eq(hst_parameter_count(list), 0);
    hst_memory_stats(ctx, &after);
    cr_expect_eq(after.current[HST_WEIGHTS], before.current[HST_WEIGHTS]);
    hst_parameter(list, "rnn_lst.1.bias", hst_zeros(ctx, HST_F32, HST_SHAPE(1)));
    config.input = config.hidden = 3;
    cr_expect_null(hst_sru_new(list, "", &config));
    expect_failure(HST_ERROR_VALUE, "already a parameter named rnn_lst.1.bias");
    cr_expect_eq(hst_parameter_count(list), 1);
    hst_parameters_free(list);
}

// ---- 16 bits ----

Test(sru_file, f16_refuses_what_it_cannot_hold) {
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    tensor tensors[] = {LAYER("", 0), {0}};
    tensors[2].value = 65520;
    hst_sru *sru = load(write_file("large", tensors, NULL), NULL, &assumed);
    cr_expect_eq(hst_sru_export(sru, in_folder("half"), 2, HST_F16), HST_ERROR_VALUE);
    expect_failure(HST_ERROR_VALUE, "rnn_lst.0.bias: holds 65520, and f16 ends at 65504");
    cr_expect_neq(access(in_folder("half"), F_OK), 0);
    cr_expect_eq(hst_sru_export(sru, in_folder("half"), 2, HST_BF16), HST_OK);
    cr_expect_eq(hst_sru_export(sru, in_folder("half"), 4, HST_F32), HST_ERROR_VALUE);
    expect_failure(HST_ERROR_VALUE, "hst_sru_export: version is 4 and dtype f32; 2 or 3");
    cr_expect_eq(hst_sru_export(sru, in_folder("half"), 2, HST_F64), HST_ERROR_VALUE);
    expect_failure(HST_ERROR_VALUE, "dtype f64");
    hst_sru_free(sru);
}

// ---- conversions ----

// A language model from Python: a prefix, a tied table stored twice, layer norm without one before the output layer.
static const tensor foreign[] = {LAYER("model.rnn.", 0),
                                 {"model.rnn.rnn_lst.0.layer_norm.weight", 1, {3}, 1},
                                 {"model.rnn.rnn_lst.0.layer_norm.bias", 1, {3}, 0.5},
                                 {"model.embedding_layer.weight", 2, {5, 3}, 0.25},
                                 {"model.output_layer.weight", 2, {5, 3}, 0.25},
                                 {"model.output_layer.bias", 1, {5}, -1},
                                 {"head.weight", 1, {2}, 1},
                                 {0}};

Test(sru_file, a_language_model_of_pythons_becomes_one_of_halfsteps) {
    hst_conversion how = hst_conversion_defaults();
    hst_converted done;
    const char *from = write_file("foreign", foreign, NULL), *to = in_folder("to");
    cr_expect_eq(hst_convert(ctx, from, to, &how, &done), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "the tensor head.weight belongs to no model of halfstep's; a prefix (--prefix "
                                     "'model.') takes only what starts with it");
    how.prefix = "model.", how.version = 3, how.names_dtype = true, how.dtype = HST_BF16;
    cr_assert_eq(hst_convert(ctx, from, to, &how, &done), HST_OK, "%s", hst_error(ctx));
    cr_expect(done.language_model && !done.described && done.version[0] == 2 && done.version[1] == 3);
    cr_expect(done.dtype[0] == HST_F32 && done.dtype[1] == HST_BF16 && done.left_out == 1);
    hst_lm *model = hst_lm_load(ctx, to);
    cr_assert(model, "%s", hst_error(ctx));
    const hst_lm_config *c = hst_lm_configuration(model);
    cr_expect(c->vocabulary == 5 && c->hidden == 3 && c->layers == 1 && c->tied && c->layer_norm &&
              c->skip_output_norm);
    cr_expect_eq(done.parameters, 27 + 6 + 6 + 3 + 3 + 15 + 5);
    hst_lm_free(model);
    how.assumed.bidirectional = true;
    cr_expect_neq(hst_convert(ctx, from, in_folder("x"), &how, &done), HST_OK);
    hst_clear_error(ctx);
    how = hst_conversion_defaults(), how.assumed.use_tanh = true; // the file says of itself that it has none
    cr_expect_neq(hst_convert(ctx, to, in_folder("x"), &how, &done), HST_OK);
    expect_failure(HST_ERROR_FORMAT, "use_tanh is asked for, which its configuration and tensors contradict");
}

Test(sru_file, two_language_models_need_a_prefix) {
    tensor tensors[] = {LAYER("a.rnn.", 0),
                        {"a.embedding_layer.weight", 2, {5, 3}, 0.25},
                        {"a.output_layer.bias", 1, {5}, -1},
                        {"b.embedding_layer.weight", 2, {5, 3}, 0.25},
                        {0}};
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    const char *path = write_file("two", tensors, NULL);
    cr_expect_null(hst_lm_import(ctx, path, NULL, &assumed));
    expect_failure(HST_ERROR_FORMAT, "holds 2 tensors ...embedding_layer.weight; a prefix");
    cr_expect_null(hst_lm_import(ctx, path, "c.", &assumed));
    expect_failure(HST_ERROR_FORMAT, "has no c.embedding_layer.weight, so no language model");
    hst_lm *model = hst_lm_import(ctx, path, "a.", &assumed);
    cr_expect(model && hst_lm_configuration(model)->tied, "%s", hst_error(ctx));
    hst_lm_free(model);
}

Test(sru_file, a_bidirectional_language_model_is_refused) {
    tensor tensors[] = {LAYER("rnn.", 0), {"embedding_layer.weight", 2, {5, 4}, 0}, {0}};
    tensors[0].shape[0] = 4, tensors[0].shape[1] = 12, tensors[1].shape[0] = tensors[2].shape[0] = 8;
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    assumed.bidirectional = true;
    cr_expect_null(hst_lm_import(ctx, write_file("both", tensors, NULL), NULL, &assumed));
    expect_failure(HST_ERROR_VALUE, "a language model reads forwards only; bidirectional is for stacks");
}

// SRU 2.x has no such projection: its strict load would miss weight_proj.
Test(sru_file, what_version_2_does_not_have_is_not_written_for_it) {
    const tensor tensors[] = {{"rnn_lst.0.transform_module.0.weight", 2, {3, 2}, 0.1},
                              {"rnn_lst.0.transform_module.1.weight", 2, {12, 3}, 0.1},
                              {"rnn_lst.0.weight_c", 1, {6}, 0},
                              {"rnn_lst.0.bias", 1, {6}, 0},
                              {0}};
    const char *from = write_file("third", tensors, NULL);
    hst_conversion how = hst_conversion_defaults();
    hst_converted done;
    how.version = 2;
    cr_expect_neq(hst_convert(ctx, from, in_folder("second"), &how, &done), HST_OK);
    expect_failure(HST_ERROR_VALUE,
                   "layer 0 projects to 3 on its way from 2 to 3; SRU 2.x projects only to less than both");
    how.version = 0;
    cr_expect_eq(hst_convert(ctx, from, in_folder("second"), &how, &done), HST_OK, "%s", hst_error(ctx));
    cr_expect(!done.language_model && done.config.projection_size == 3 && done.config.rules == HST_SRU_3);
}

// There and back: the same bytes.
Test(sru_file, a_model_converted_back_is_the_same_file) {
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = 11, config.hidden = 6, config.layers = 2, config.projection_size = 4, config.use_tanh = true;
    config.normalize_after = true, config.rnn_dropout = 0.25, config.v1 = true, config.rules = HST_SRU_2;
    hst_lm *model = hst_lm_new(ctx, &config);
    cr_assert_eq(hst_lm_save(model, in_folder("a")), HST_OK, "%s", hst_error(ctx));
    hst_conversion third = hst_conversion_defaults(), second = hst_conversion_defaults();
    third.version = 3, second.version = 2;
    cr_assert_eq(hst_convert(ctx, in_folder("a"), in_folder("b"), &third, NULL), HST_OK, "%s", hst_error(ctx));
    cr_assert_eq(hst_convert(ctx, in_folder("b"), in_folder("c"), &second, NULL), HST_OK, "%s", hst_error(ctx));
    static char a[1 << 16], b[1 << 16], c[1 << 16];
    size_t size = get_file(in_folder("a"), a, sizeof a);
    cr_expect(get_file(in_folder("c"), c, sizeof c) == size && !memcmp(a, c, size));
    cr_expect(get_file(in_folder("b"), b, sizeof b) != size || memcmp(a, b, size));
    hst_lm *again = hst_lm_load(ctx, in_folder("b"));
    cr_assert(again, "%s", hst_error(ctx));
    const hst_lm_config *got = hst_lm_configuration(again);
    cr_expect(got->projection_size == 4 && got->use_tanh && got->normalize_after && got->rnn_dropout == 0.25 &&
              got->v1);
    cr_expect(got->rules == HST_SRU_2 && got->has_skip_term && !got->skip_output_norm);
    hst_lm_free(again);
    hst_lm_free(model);
}

// A checkpoint's averages stand behind a prefix, but its configuration is that of the model without one.
Test(sru_file, a_prefix_is_refused_where_the_model_has_none) {
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = 5, config.hidden = 3, config.layers = 1;
    hst_lm *model = hst_lm_new(ctx, &config);
    static const double table[15] = {0};
    const hst_entry more = {"ema.embedding_layer.weight", HST_F64, 2, {5, 3}, table, sizeof table};
    char from[256];
    strcpy(from, in_folder("last"));
    hst_conversion how = hst_conversion_defaults();
    hst_sru_config assumed = hst_sru_defaults(HST_SRU_2);
    cr_assert_eq(hst_lm_save_with(model, from, &more, 1, (const char *const[]){"halfstep.training", "{}"}, 1), HST_OK);
    const char *const prefixes[] = {"ema.", "rnn.", "other."};
    for (int i = 0; i < 3; i++) {
        hst_converted done = {.left_out = 7};
        how.prefix = prefixes[i];
        cr_expect_neq(hst_convert(ctx, from, in_folder("to"), &how, &done), HST_OK, "%s", prefixes[i]);
        expect_failure(HST_ERROR_VALUE, "last: a file of halfstep's has its model under no prefix");
        cr_expect_eq(done.left_out, 0);
        cr_expect_null(hst_lm_import(ctx, from, prefixes[i], &assumed));
        expect_failure(HST_ERROR_VALUE, "last: a file of halfstep's has its model under no prefix");
    }
    how.prefix = "";
    cr_expect_eq(hst_convert(ctx, from, in_folder("to"), &how, NULL), HST_OK, "%s", hst_error(ctx));
    hst_lm_free(model);
}
