// convert.c: a model's file written anew with other names, orientation or numbers.
#include <stdio.h>
#include <string.h>
#include "models/language_model.h"
#include "models/language_model_file.h"
#include "models/sru_file.h"

typedef struct conversion {
    hst_context *ctx;
    const char *from, *to;
    hst_safetensors *file;
    const hst_conversion *how;
    hst_converted done;
    char prefix[HST_MAX_PREFIX];
} conversion;

// A 16-bit stack stays 16-bit; f64 becomes f32, which is what a model is here.
static void choose_form(conversion *c, const char *stack) {
    const hst_entry *bias = hst_entry_find(c->file, "%srnn_lst.0.bias", stack);
    c->done.dtype[0] = bias->dtype;
    c->done.dtype[1] = c->how->names_dtype ? c->how->dtype : bias->dtype == HST_F64 ? HST_F32 : bias->dtype;
    c->done.version[1] = c->how->version ? c->how->version : c->done.version[0];
}

// What the new file will not have. A checkpoint's optimizer and state may be left out, and with a prefix whatever is
// not under it; anything else would be lost unnoticed.
static bool count_left_out(conversion *c, bool (*has_name)(const conversion *c, const void *model, const char *name),
                           const void *model) {
    bool checkpoint = hst_safetensors_metadata(c->file, "halfstep.training") != NULL;
    for (int i = 0; i < hst_safetensors_count(c->file); i++) {
        const char *name = hst_safetensors_entry(c->file, i)->name;
        if (has_name(c, model, name)) continue;
        c->done.left_out++;
        if (checkpoint || (c->how->prefix && strncmp(name, c->how->prefix, strlen(c->how->prefix)))) continue;
        hst_fail(c->ctx, HST_ERROR_FORMAT,
                 "%s: the tensor %s belongs to no model of halfstep's; a prefix (--prefix '%s') takes only what starts "
                 "with it",
                 c->from, name, c->prefix);
        return false;
    }
    return true;
}

static bool lm_has_name(const conversion *c, const void *model, const char *name) {
    const hst_lm *m = model;
    size_t length = strlen(c->prefix);
    bool twice = m->config.tied && !strncmp(name, c->prefix, length) && !strcmp(name + length, "output_layer.weight");
    return twice || hst_lm_has_name(m, c->prefix, c->done.version[0], name);
}

static bool stack_has_name(const conversion *c, const void *model, const char *name) {
    const hst_sru *sru = model;
    return hst_sru_is_name(c->prefix, name) && hst_sru_has_name(&sru->config, c->prefix, c->done.version[0], name);
}

// What was assumed of a file must not be what it says itself, or what its shapes say.
static bool agrees(conversion *c) {
    const hst_sru_config *said = &c->done.config, *assumed = &c->how->assumed;
    const char *what = assumed->bidirectional && !said->bidirectional       ? "bidirectional"
                       : assumed->use_tanh && !said->use_tanh               ? "use_tanh"
                       : !assumed->has_skip_term && said->has_skip_term     ? "has_skip_term=False"
                       : assumed->normalize_after && !said->normalize_after ? "normalize_after"
                       : assumed->normalize_after && !said->layer_norm      ? "normalize_after"
                       : assumed->v1 && !said->v1                           ? "v1"
                                                                            : NULL;
    if (what)
        hst_fail(c->ctx, HST_ERROR_FORMAT, "%s: %s is asked for, which its %s contradict", c->from, what,
                 c->done.described ? "configuration and tensors" : "tensors");
    return !what;
}

// SRU 2.x has no projection to a width that is not smaller than both sides; its strict load would fail.
static bool version_2_has(conversion *c) {
    hst_sru_config second = c->done.config;
    second.rules = HST_SRU_2;
    for (int i = 0; i < second.layers && c->done.version[1] == 2; i++) {
        hst_sru_sizes s = hst_sru_sizes_of(&c->done.config, i);
        if (s.projection == hst_sru_sizes_of(&second, i).projection) continue;
        hst_fail(
            c->ctx, HST_ERROR_VALUE,
            "%s: layer %d projects to %lld on its way from %lld to %lld; SRU 2.x projects only to less than both, so "
            "write version 3",
            c->from, i, (long long)s.projection, (long long)s.in, (long long)s.out);
        return false;
    }
    return true;
}

static void convert_language_model(conversion *c) {
    char stack[HST_MAX_NAME + 8];
    hst_lm *m = hst_lm_import_file(c->ctx, c->from, c->file, c->prefix, &c->how->assumed);
    if (!m) return;
    snprintf(stack, sizeof stack, "%srnn.", c->prefix);
    c->done.language_model = true;
    c->done.config = m->sru->config;
    c->done.parameters = hst_parameter_elements(m->parameters);
    c->done.version[0] = hst_sru_version_of(c->ctx, c->from, c->file, stack);
    choose_form(c, stack);
    if (agrees(c) && version_2_has(c) && count_left_out(c, lm_has_name, m))
        hst_lm_export(m, c->to, c->done.version[1], c->done.dtype[1]);
    hst_lm_free(m);
}

static void convert_stack(conversion *c) {
    hst_parameters *list = hst_parameters_new(c->ctx);
    hst_sru *sru = hst_sru_load_file(list, c->from, c->file, c->how->prefix, &c->how->assumed);
    if (sru) {
        strcpy(c->prefix, sru->prefix);
        c->done.config = sru->config;
        c->done.parameters = hst_parameter_elements(list);
        c->done.version[0] = hst_sru_version_of(c->ctx, c->from, c->file, sru->prefix);
        choose_form(c, sru->prefix);
        if (agrees(c) && version_2_has(c) && count_left_out(c, stack_has_name, sru))
            hst_sru_export(sru, c->to, c->done.version[1], c->done.dtype[1]);
    }
    hst_sru_free(sru);
    hst_parameters_free(list);
}

hst_status hst_convert(hst_context *ctx, const char *from, const char *to, const hst_conversion *how,
                       hst_converted *done) {
    hst_conversion standard = hst_conversion_defaults();
    if (done) *done = (hst_converted){0};
    if (hst_get_status(ctx) != HST_OK) return hst_get_status(ctx);
    conversion c = {.ctx = ctx, .from = from, .to = to, .how = how ? how : &standard};
    int models;
    if (!(c.file = hst_safetensors_open(ctx, from))) return hst_get_status(ctx);
    c.done.described = hst_safetensors_metadata(c.file, HST_CONFIG_KEY) != NULL;
    if (hst_lm_find_prefix(ctx, from, c.file, c.how->prefix, c.prefix, &models)) {
        if (models)
            convert_language_model(&c);
        else
            convert_stack(&c);
        if (done) *done = c.done;
    }
    hst_safetensors_close(c.file);
    return hst_get_status(ctx);
}
