// language_model_file.c: a language model as a safetensors file that the `sru` package reads: upstream names and
// layout, and the configuration as JSON in the metadata.
#include <stdio.h>
#include <string.h>
#include "models/language_model.h"
#include "models/language_model_file.h"
#include "models/sru_file.h"

// ---- the configuration ----

// What is always written is what the first version of this file format had.
#define FIELD(key, kind, always)                                                                                       \
    { #key, kind, offsetof(hst_lm_config, key), always, NULL }
static const hst_field fields[] = {FIELD(vocabulary, HST_FIELD_SIZE, true),
                                   FIELD(hidden, HST_FIELD_SIZE, true),
                                   FIELD(layers, HST_FIELD_INT, true),
                                   FIELD(dropout, HST_FIELD_REAL, true),
                                   FIELD(highway_bias, HST_FIELD_REAL, true),
                                   FIELD(layer_norm, HST_FIELD_FLAG, true),
                                   FIELD(rescale, HST_FIELD_FLAG, true),
                                   FIELD(tied, HST_FIELD_FLAG, true),
                                   FIELD(skip_output_norm, HST_FIELD_FLAG, false),
                                   FIELD(has_skip_term, HST_FIELD_FLAG, false),
                                   FIELD(normalize_after, HST_FIELD_FLAG, false),
                                   FIELD(use_tanh, HST_FIELD_FLAG, false),
                                   FIELD(v1, HST_FIELD_FLAG, false),
                                   FIELD(projection_size, HST_FIELD_SIZE, false),
                                   FIELD(rnn_dropout, HST_FIELD_REAL, false),
                                   FIELD(weight_c_init, HST_FIELD_REAL, false),
                                   FIELD(rules, HST_FIELD_INT, false),
                                   {0}};

// ---- the tensors around the stack ----

typedef struct outer {
    const char *name;
    hst_tensor *value; // NULL: this model has none
} outer;

enum { OUTER = 5 };

static void outer_tensors(const hst_lm *m, outer tensors[OUTER]) {
    const outer all[OUTER] = {{"embedding_layer.weight", m->embedding},
                              {"output_norm.weight", m->norm_gain},
                              {"output_norm.bias", m->norm_bias},
                              {"output_layer.weight", m->config.tied ? NULL : m->output},
                              {"output_layer.bias", m->output_bias}};
    memcpy(tensors, all, sizeof all);
}

static const char *joined(char full[HST_MAX_NAME], const char *prefix, const char *name) {
    snprintf(full, HST_MAX_NAME, "%s%s", prefix, name);
    return full;
}

// ---- writing ----

static bool collect(const hst_lm *m, int version, hst_entries *entries) {
    outer tensors[OUTER];
    outer_tensors(m, tensors);
    for (int i = 0; i < OUTER; i++) {
        hst_tensor *t = tensors[i].value;
        if (t && !hst_entries_add(entries, tensors[i].name, t->rank, t->shape, t)) return false;
    }
    return hst_sru_collect(m->sru, "rnn.", version, entries);
}

static hst_status save(const hst_lm *m, const char *path, int version, hst_dtype dtype, const hst_entry *more,
                       int more_count, const char *const *metadata, int pairs) {
    hst_context *ctx = m->ctx;
    hst_entries entries = {0};
    char config[HST_MAX_CONFIG];
    hst_lm_config standard = hst_lm_defaults();
    const char **all = hst_workspace(ctx, (size_t)(2 * pairs + 4) * sizeof *all);
    if (all && hst_entries_begin(&entries, ctx, dtype, OUTER + hst_sru_entry_count(m->sru) + more_count) &&
        collect(m, version, &entries)) {
        if (more_count) memcpy(entries.items + entries.count, more, (size_t)more_count * sizeof *more);
        hst_config_write(fields, &m->config, &standard, config);
        all[0] = HST_CONFIG_KEY;
        all[1] = config;
        if (pairs) memcpy(all + 2, metadata, (size_t)(2 * pairs) * sizeof *all);
        all[2 * pairs + 2] = "halfstep.tokenizer";
        all[2 * pairs + 3] = m->tokenizer;
        hst_safetensors_write(ctx, path, entries.items, entries.count + more_count, all,
                              pairs + (m->tokenizer ? 2 : 1));
    }
    if (all) hst_entries_end(&entries);
    hst_workspace_free(ctx, all);
    return ctx->status;
}

hst_status hst_lm_save_with(const hst_lm *m, const char *path, const hst_entry *more, int more_count,
                            const char *const *metadata, int pairs) {
    if (!m) return HST_ERROR_STATE;
    if (m->ctx->status != HST_OK) return m->ctx->status;
    return save(m, path, 2, HST_F32, more, more_count, metadata, pairs);
}

hst_status hst_lm_save(const hst_lm *m, const char *path) { return hst_lm_save_with(m, path, NULL, 0, NULL, 0); }

hst_status hst_lm_export(const hst_lm *m, const char *path, int version, hst_dtype dtype) {
    if (!m) return HST_ERROR_STATE;
    if (m->ctx->status != HST_OK || !hst_sru_check_form(m->ctx, "hst_lm_export", version, dtype)) return m->ctx->status;
    return save(m, path, version, dtype, NULL, 0, NULL, 0);
}

// ---- reading ----

// What halfstep saved has no prefix, though its checkpoints have more tensors of these names behind some.
bool hst_lm_find_prefix(hst_context *ctx, const char *path, const hst_safetensors *file, const char *given,
                        char prefix[HST_MAX_PREFIX], int *models) {
    static const char first[] = "embedding_layer.weight";
    char found[2][HST_MAX_PREFIX];
    bool described = hst_safetensors_metadata(file, HST_CONFIG_KEY);
    if (described && given && *given && hst_entry_find(file, "%s", first))
        return hst_fail(ctx, HST_ERROR_VALUE, "%s: a file of halfstep's has its model under no prefix, '%s' is given",
                        path, given),
               false;
    *models = hst_entry_prefixes(file, first, described && !given ? "" : given, 4, found); // room for rnn.
    if (*models > 1)
        return hst_fail(ctx, HST_ERROR_FORMAT,
                        "%s: holds %d tensors ...%s; a prefix (`--prefix` of convert) chooses a model", path, *models,
                        first),
               false;
    if (*models == 1) strcpy(prefix, found[0]);
    return true;
}

static bool is_name(const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length)) return false;
    name += length;
    return !strncmp(name, "rnn.", 4) || !strncmp(name, "embedding_layer.", 16) || !strncmp(name, "output_", 7);
}

// A tied table may be stored twice, as PyTorch has it in a state_dict.
static bool is_stored_twice(const hst_safetensors *file, const char *prefix) {
    const hst_entry *a = hst_entry_find(file, "%sembedding_layer.weight", prefix),
                    *b = hst_entry_find(file, "%soutput_layer.weight", prefix);
    return a && b && a->dtype == b->dtype && hst_entry_has_shape(a, b->rank, b->shape) &&
           !memcmp(a->data, b->data, a->bytes);
}

bool hst_lm_has_name(const hst_lm *m, const char *prefix, int version, const char *name) {
    char stack[HST_MAX_NAME];
    outer tensors[OUTER];
    joined(stack, prefix, "rnn.");
    if (!is_name(prefix, name)) return false;
    if (hst_sru_is_name(stack, name)) return hst_sru_has_name(&m->sru->config, stack, version, name);
    outer_tensors(m, tensors);
    for (int i = 0; i < OUTER; i++)
        if (tensors[i].value && !strcmp(name + strlen(prefix), tensors[i].name)) return true;
    return false;
}

// A tensor of a model that the configuration does not use would make the file mean one model here and another
// elsewhere. Other tensors, of a checkpoint say, are nobody's business here.
static bool check_rest(const hst_lm *m, const char *path, const hst_safetensors *file, const char *prefix,
                       int version) {
    char twice[HST_MAX_NAME] = "";
    if (m->config.tied && is_stored_twice(file, prefix)) joined(twice, prefix, "output_layer.weight");
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const char *name = hst_safetensors_entry(file, i)->name;
        if (!is_name(prefix, name) || hst_lm_has_name(m, prefix, version, name) || !strcmp(name, twice)) continue;
        hst_fail(m->ctx, HST_ERROR_FORMAT,
                 "%s: the tensor %s has no place in the model that its configuration describes", path, name);
        return false;
    }
    return true;
}

static hst_dtype stored_dtype(const hst_safetensors *file, const char *prefix) {
    const hst_entry *first = NULL;
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const hst_entry *e = hst_safetensors_entry(file, i);
        if (e->rank != 2 || !is_name(prefix, e->name)) continue;
        if (first && e->dtype != first->dtype) return HST_F32;
        first = e;
    }
    return first && first->dtype != HST_F64 ? first->dtype : HST_F32;
}

hst_dtype hst_lm_stored_dtype(const hst_lm *m) {
    if (!m) return HST_F32;
    return m->stored;
}

static bool read(hst_lm *m, const char *path, const hst_safetensors *file, const char *prefix, int version) {
    char name[HST_MAX_NAME];
    outer tensors[OUTER];
    outer_tensors(m, tensors);
    m->stored = stored_dtype(file, prefix);
    for (int i = 0; i < OUTER; i++) {
        hst_tensor *t = tensors[i].value;
        if (t && !hst_entry_load(m->ctx, path, file, joined(name, prefix, tensors[i].name), t, t)) return false;
    }
    return hst_sru_read_entries(m->sru, path, file, joined(name, prefix, "rnn."), version) &&
           check_rest(m, path, file, prefix, version) &&
           hst_lm_set_tokenizer(m, hst_safetensors_metadata(file, "halfstep.tokenizer")) == HST_OK;
}

bool hst_lm_read(hst_lm *m, const char *path, const hst_safetensors *file) {
    int version = hst_sru_version_of(m->ctx, path, file, "rnn.");
    return version && read(m, path, file, "", version);
}

// The configuration's sizes must be those of tensors in the file before memory is taken for them.
static bool check_sizes(hst_context *ctx, const char *path, const hst_safetensors *file, int version,
                        const hst_lm_config *c) {
    hst_sru_config stack = hst_lm_stack(c);
    if (hst_entry_has_shape(hst_entry_find(file, "embedding_layer.weight"), 2, (int64_t[]){c->vocabulary, c->hidden}) &&
        hst_sru_fits(file, "rnn.", version, &stack))
        return true;
    hst_fail(ctx, HST_ERROR_FORMAT,
             "%s: its configuration (vocabulary %lld, hidden %lld, layers %d) does not fit its tensors", path,
             (long long)c->vocabulary, (long long)c->hidden, c->layers);
    return false;
}

bool hst_lm_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, hst_lm_config *config) {
    *config = hst_lm_defaults();
    if (!hst_config_read_own(ctx, path, file, fields, config)) return false;
    if (!hst_entry_find(file, "embedding_layer.weight"))
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: has no embedding_layer.weight, so no language model", path), false;
    int version = hst_sru_version_of(ctx, path, file, "rnn.");
    return version && check_sizes(ctx, path, file, version, config);
}

// The configuration of a state_dict from Python.
static bool infer(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix, int version,
                  const hst_sru_config *assumed, hst_lm_config *c) {
    const hst_entry *table = hst_entry_find(file, "%sembedding_layer.weight", prefix);
    char stack[HST_MAX_NAME];
    hst_sru_config s;
    if (!hst_sru_infer(ctx, path, file, joined(stack, prefix, "rnn."), version, assumed, &s)) return false;
    if (s.bidirectional)
        return hst_fail(ctx, HST_ERROR_VALUE, "%s: a language model reads forwards only; bidirectional is for stacks",
                        path),
               false;
    if (table->rank != 2 || table->shape[1] != s.hidden || s.input != s.hidden)
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: its embedding is not as wide as its layers, %lld", path,
                        (long long)s.hidden),
               false;
    *c = (hst_lm_config){
        .vocabulary = table->shape[0],
        .tied = !hst_entry_find(file, "%soutput_layer.weight", prefix) || is_stored_twice(file, prefix),
        .skip_output_norm = s.layer_norm && !hst_entry_find(file, "%soutput_norm.weight", prefix),
    };
    hst_lm_take_stack(&s, c);
    return true;
}

hst_lm *hst_lm_import_file(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix,
                           const hst_sru_config *assumed) {
    char stack[HST_MAX_NAME];
    hst_lm_config config;
    bool described = !assumed || hst_safetensors_metadata(file, HST_CONFIG_KEY);
    int version = described ? 0 : hst_sru_version_of(ctx, path, file, joined(stack, prefix, "rnn."));
    if (described ? !hst_lm_read_config(ctx, path, file, &config)
                  : !version || !infer(ctx, path, file, prefix, version, assumed, &config))
        return NULL;
    hst_lm *m = hst_lm_new(ctx, &config);
    if (m && (described ? hst_lm_read(m, path, file) : read(m, path, file, prefix, version))) return m;
    hst_lm_free(m);
    return NULL;
}

hst_lm *hst_lm_import(hst_context *ctx, const char *path, const char *given, const hst_sru_config *assumed) {
    if (hst_get_status(ctx) != HST_OK) return NULL;
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    char prefix[HST_MAX_PREFIX];
    hst_lm *m = NULL;
    int models;
    bool found = file && hst_lm_find_prefix(ctx, path, file, given, prefix, &models);
    if (found && models)
        m = hst_lm_import_file(ctx, path, file, prefix, assumed);
    else if (found)
        hst_fail(ctx, HST_ERROR_FORMAT, "%s: has no %sembedding_layer.weight, so no language model", path,
                 given ? given : "");
    hst_safetensors_close(file);
    return m;
}

hst_lm *hst_lm_load(hst_context *ctx, const char *path) {
    if (hst_get_status(ctx) != HST_OK) return NULL;
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_lm *m = file ? hst_lm_import_file(ctx, path, file, "", NULL) : NULL;
    hst_safetensors_close(file);
    return m;
}
