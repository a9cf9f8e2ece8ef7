// test_language_model_file.c: model files whose configuration and tensors disagree. None loads as some other model, and
// none takes more memory than its size explains.
#include "models/language_model_file.h"
#include "tests/temporary.h"
#include <math.h>

static hst_lm *small_model(void) {
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = 11;
    config.hidden = 6;
    config.layers = 2;
    return hst_lm_new(ctx, &config);
}

// Writes a file's entries again with another configuration; `zeroed` becomes a tensor of shape (0).
static const char *rewritten(const char *path, const char *config, const char *zeroed) {
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_entry entries[64];
    int count = hst_safetensors_count(file);
    for (int i = 0; i < count; i++) {
        entries[i] = *hst_safetensors_entry(file, i);
        if (zeroed && !strcmp(entries[i].name, zeroed))
            entries[i].rank = 1, entries[i].shape[0] = 0, entries[i].bytes = 0;
    }
    const char *to = in_folder("other.safetensors");
    cr_assert_eq(hst_safetensors_write(ctx, to, entries, count, (const char *const[]){"halfstep.config", config}, 1),
                 HST_OK);
    hst_safetensors_close(file);
    return to;
}

#define CONFIG(hidden, layers, rest)                                                                                   \
    "{\"vocabulary\":11,\"hidden\":" #hidden ",\"layers\":" #layers ",\"dropout\":0" rest "}"
#define STANDARD ",\"highway_bias\":-2,\"layer_norm\":true,\"rescale\":true,\"tied\":false"

Test(models, a_configuration_that_contradicts_the_tensors_is_refused, .init = set_up, .fini = tear_down) {
    static const struct {
        const char *config, *zeroed, *says;
    } cases[] = {
        {CONFIG(6, 2, STANDARD), NULL, NULL},
        {CONFIG(6, 1, STANDARD), NULL, "has no place in the model"}, // the second layer
        {CONFIG(6, 3, STANDARD), NULL, "does not fit its tensors"},
        {CONFIG(60000, 2, STANDARD), NULL, "does not fit its tensors"},
        {CONFIG(6, 2147483647, STANDARD), NULL, "does not fit its tensors"},
        {CONFIG(6, 2, STANDARD), "rnn.rnn_lst.0.weight", "does not fit its tensors"},
        {CONFIG(6, 2, ",\"highway_bias\":-2,\"layer_norm\":true,\"rescale\":true,\"tied\":true"), NULL,
         "output_layer.weight has no place"},
        {CONFIG(6, 2, ",\"highway_bias\":-2,\"layer_norm\":false,\"rescale\":true,\"tied\":false"), NULL,
         "has no place"},
        {CONFIG(6, 2, ",\"highway_bias\":-1,\"layer_norm\":true,\"rescale\":true,\"tied\":false"), NULL,
         "scale_x does not agree"},
        {CONFIG(6, 2, ",\"highway_bias\":-2,\"layer_norm\":true,\"rescale\":false,\"tied\":false"), NULL,
         "scale_x does not agree"},
    };
    hst_lm *model = small_model();
    char path[256];
    strcpy(path, in_folder("model.safetensors"));
    cr_assert_eq(hst_lm_save(model, path), HST_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hst_memory before, after;
        hst_memory_stats(ctx, &before);
        hst_lm *other = hst_lm_load(ctx, rewritten(path, cases[i].config, cases[i].zeroed));
        hst_memory_stats(ctx, &after);
        cr_expect((other != NULL) == (cases[i].says == NULL), "case %zu: %s", i, hst_error(ctx));
        cr_expect(!cases[i].says || (hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), cases[i].says)),
                  "case %zu: %s", i, hst_error(ctx));
        cr_expect_lt(after.peak_total - before.peak_total, 1 << 20, "case %zu", i);
        hst_clear_error(ctx);
        hst_lm_free(other);
    }
    hst_lm_free(model);
}

// NaN compares as neither near nor far.
Test(models, a_scale_that_is_not_a_number_is_refused, .init = set_up, .fini = tear_down) {
    static const float nan_scale = NAN;
    hst_lm *model = small_model();
    char path[256];
    strcpy(path, in_folder("model.safetensors"));
    cr_assert_eq(hst_lm_save(model, path), HST_OK);
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_entry entries[64];
    int count = hst_safetensors_count(file);
    for (int i = 0; i < count; i++) {
        entries[i] = *hst_safetensors_entry(file, i);
        if (!strcmp(entries[i].name, "rnn.rnn_lst.1.scale_x")) entries[i].data = &nan_scale;
    }
    const char *const metadata[] = {"halfstep.config", hst_safetensors_metadata(file, "halfstep.config")};
    cr_assert_eq(hst_safetensors_write(ctx, in_folder("nan.safetensors"), entries, count, metadata, 1), HST_OK);
    hst_safetensors_close(file);
    cr_expect_null(hst_lm_load(ctx, in_folder("nan.safetensors")));
    cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), "scale_x does not agree"), "%s",
              hst_error(ctx));
    hst_clear_error(ctx);
    hst_lm_free(model);
}
