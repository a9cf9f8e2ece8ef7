// language_model_file.c: a language model as a safetensors file that the `sru` package reads: upstream names and
// layout, and the configuration as JSON in the metadata.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/json.h"
#include "models/language_model.h"
#include "models/language_model_file.h"

enum { MAX_CONFIG = 512, MAX_NAME = 128 };

// ---- the configuration ----

static void write_config(const hst_lm_config *c, char text[MAX_CONFIG]) {
    hst_json_writer out = hst_json_into(text, MAX_CONFIG);
    hst_json_put_open(&out, '{');
    hst_json_put_key(&out, "vocabulary"), hst_json_put_integer(&out, c->vocabulary);
    hst_json_put_key(&out, "hidden"), hst_json_put_integer(&out, c->hidden);
    hst_json_put_key(&out, "layers"), hst_json_put_integer(&out, c->layers);
    hst_json_put_key(&out, "dropout"), hst_json_put_number(&out, c->dropout);
    hst_json_put_key(&out, "highway_bias"), hst_json_put_number(&out, c->highway_bias);
    hst_json_put_key(&out, "layer_norm"), hst_json_put_boolean(&out, c->layer_norm);
    hst_json_put_key(&out, "rescale"), hst_json_put_boolean(&out, c->rescale);
    hst_json_put_key(&out, "tied"), hst_json_put_boolean(&out, c->tied);
    hst_json_put_close(&out, '}');
}

// A size from a file; one that is far too large stays so, and check_sizes refuses it.
static int64_t read_size(hst_json *in) {
    uint64_t size = hst_json_unsigned(in);
    return size < INT32_MAX ? (int64_t)size : INT32_MAX;
}

static bool read_config(hst_context *ctx, const char *path, const char *metadata, hst_lm_config *c) {
    char text[MAX_CONFIG], problem[HST_JSON_PROBLEM];
    if (!metadata || strlen(metadata) >= sizeof text) {
        hst_fail(ctx, HST_ERROR_FORMAT,
                 "%s: its metadata has no halfstep.config, so it is not a language model that halfstep saved", path);
        return false;
    }
    strcpy(text, metadata);
    *c = hst_lm_defaults();
    hst_json in = hst_json_open(text, strlen(text));
    hst_json_enter(&in, '{');
    while (hst_json_next(&in)) {
        if (!strcmp(in.key, "vocabulary"))
            c->vocabulary = read_size(&in);
        else if (!strcmp(in.key, "hidden"))
            c->hidden = read_size(&in);
        else if (!strcmp(in.key, "layers"))
            c->layers = (int)read_size(&in);
        else if (!strcmp(in.key, "dropout"))
            c->dropout = hst_json_number(&in);
        else if (!strcmp(in.key, "highway_bias"))
            c->highway_bias = hst_json_number(&in);
        else if (!strcmp(in.key, "layer_norm"))
            c->layer_norm = hst_json_boolean(&in);
        else if (!strcmp(in.key, "rescale"))
            c->rescale = hst_json_boolean(&in);
        else if (!strcmp(in.key, "tied"))
            c->tied = hst_json_boolean(&in);
        else
            hst_json_skip(&in);
    }
    if (hst_json_end(&in)) return true;
    hst_fail(ctx, HST_ERROR_FORMAT, "%s: halfstep.config in its metadata is damaged, %s", path,
             hst_json_problem(&in, problem));
    return false;
}

// ---- writing ----

// f32 tensors go into files as they are in memory: F64 in the double build.
static hst_dtype stored_dtype(void) { return sizeof(hst_real) == 8 ? HST_F64 : HST_F32; }

static bool add_entry(hst_context *ctx, hst_entry *entry, char *name, const char *prefix, const char *given,
                      hst_tensor *view, const hst_tensor *shape) {
    snprintf(name, MAX_NAME, "%s%s", prefix, given);
    *entry = (hst_entry){.name = name,
                         .dtype = stored_dtype(),
                         .rank = shape->rank,
                         .bytes = (size_t)hst_count(view) * sizeof(hst_real)};
    memcpy(entry->shape, shape->shape, sizeof entry->shape);
    void *data = hst_workspace(ctx, entry->bytes);
    entry->data = data;
    return data && hst_copy_out(view, HST_F32, data) == HST_OK;
}

static bool collect(const hst_lm *m, hst_entry *entries, char (*names)[MAX_NAME]) {
    int count = hst_parameter_count(m->parameters);
    for (int i = 0; i < count; i++) {
        hst_tensor *value = hst_parameter_value(m->parameters, i), *view = hst_sru_file_view(m->sru, value);
        if (!view || !add_entry(m->ctx, &entries[i], names[i], "", hst_parameter_name(m->parameters, i), view, value))
            return false;
    }
    for (int i = 0; i < m->config.layers; i++) { // a buffer of upstream's layers, needed by a strict load
        char given[MAX_NAME];
        hst_tensor *scale = hst_full(m->ctx, HST_F32, HST_SHAPE(1), m->sru->layers[i].scale_x);
        snprintf(given, sizeof given, "rnn_lst.%d.scale_x", i);
        if (!scale || !add_entry(m->ctx, &entries[count + i], names[count + i], "rnn.", given, scale, scale))
            return false;
    }
    return true;
}

hst_status hst_lm_save_with(const hst_lm *m, const char *path, const hst_entry *more, int more_count,
                            const char *const *metadata, int pairs) {
    if (!m) return HST_ERROR_STATE;
    hst_context *ctx = m->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    int own = hst_parameter_count(m->parameters) + m->config.layers, count = own + more_count;
    hst_entry *entries = hst_workspace(ctx, (size_t)count * sizeof *entries);
    char(*names)[MAX_NAME] = hst_workspace(ctx, (size_t)own * MAX_NAME), config[MAX_CONFIG];
    const char **all = hst_workspace(ctx, (size_t)(2 * pairs + 4) * sizeof *all);
    hst_scope_begin(ctx);
    if (entries) memset(entries, 0, (size_t)count * sizeof *entries);
    if (entries && names && all && collect(m, entries, names)) {
        if (more_count) memcpy(entries + own, more, (size_t)more_count * sizeof *more);
        write_config(&m->config, config);
        all[0] = "halfstep.config";
        all[1] = config;
        if (pairs) memcpy(all + 2, metadata, (size_t)(2 * pairs) * sizeof *all);
        all[2 * pairs + 2] = "halfstep.tokenizer";
        all[2 * pairs + 3] = m->tokenizer;
        hst_safetensors_write(ctx, path, entries, count, all, m->tokenizer ? pairs + 2 : pairs + 1);
    }
    hst_scope_end(ctx, NULL);
    for (int i = 0; entries && i < own; i++) hst_workspace_free(ctx, (void *)entries[i].data);
    hst_workspace_free(ctx, all);
    hst_workspace_free(ctx, names);
    hst_workspace_free(ctx, entries);
    return ctx->status;
}

hst_status hst_lm_save(const hst_lm *m, const char *path) { return hst_lm_save_with(m, path, NULL, 0, NULL, 0); }

// ---- reading ----

// Copies an entry's elements into a tensor or view of as many. A file's data is not aligned, and its F32 is 4 bytes in
// every build, so the values go through an array of doubles.
bool hst_entry_copy(const hst_entry *entry, hst_tensor *to) {
    hst_context *ctx = to->ctx;
    int64_t count = hst_count(to);
    double *values = hst_workspace(ctx, (size_t)count * sizeof *values);
    size_t width = count ? entry->bytes / (size_t)count : 0;
    for (int64_t i = 0; values && i < count; i++) {
        union {
            float f;
            uint16_t h;
            double d;
        } element;
        memcpy(&element, (const char *)entry->data + (size_t)i * width, width);
        values[i] = entry->dtype == HST_F32   ? (double)element.f
                    : entry->dtype == HST_F64 ? element.d
                    : entry->dtype == HST_F16 ? (double)hst_from_f16(element.h)
                                              : (double)hst_from_bf16(element.h);
    }
    if (values) hst_copy_in(to, HST_F64, values);
    hst_workspace_free(ctx, values);
    return ctx->status == HST_OK;
}

static bool is_float_entry(const hst_entry *e) {
    return e->dtype == HST_F32 || e->dtype == HST_F64 || e->dtype == HST_F16 || e->dtype == HST_BF16;
}

bool hst_entry_load(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name,
                    hst_tensor *value, hst_tensor *view) {
    const hst_entry *entry = hst_safetensors_find(file, name);
    char wanted[64];
    if (!entry) return hst_fail(ctx, HST_ERROR_FORMAT, "%s: the tensor %s is missing", path, name), false;
    if (!is_float_entry(entry))
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: the tensor %s is %s; a floating-point type is needed", path, name,
                        hst_dtype_name(entry->dtype)),
               false;
    if (entry->rank != value->rank || memcmp(entry->shape, value->shape, (size_t)entry->rank * sizeof *entry->shape))
        return hst_fail(ctx, HST_ERROR_FORMAT,
                        "%s: the tensor %s has another shape than the configuration asks for, %s", path, name,
                        hst_describe(value, wanted)),
               false;
    return hst_entry_copy(entry, view);
}

// The configuration's sizes must be those of tensors in the file before memory is taken for them.
static bool check_sizes(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_lm_config *c) {
    const hst_entry *table = hst_safetensors_find(file, "embedding_layer.weight");
    bool fits = table && table->rank == 2 && table->shape[0] == c->vocabulary && table->shape[1] == c->hidden &&
                c->layers >= 1 && c->layers <= hst_safetensors_count(file);
    for (int i = 0; fits && i < c->layers; i++) {
        char name[MAX_NAME];
        snprintf(name, sizeof name, "rnn.rnn_lst.%d.weight", i);
        const hst_entry *weight = hst_safetensors_find(file, name);
        fits = weight && weight->rank == 2 && weight->shape[0] == c->hidden && weight->shape[1] == 3 * c->hidden;
    }
    if (fits) return true;
    hst_fail(ctx, HST_ERROR_FORMAT,
             "%s: its configuration (vocabulary %lld, hidden %lld, layers %d) does not fit its tensors", path,
             (long long)c->vocabulary, (long long)c->hidden, c->layers);
    return false;
}

static bool is_parameter(const hst_lm *m, const char *name) {
    for (int i = 0; i < hst_parameter_count(m->parameters); i++)
        if (!strcmp(hst_parameter_name(m->parameters, i), name)) return true;
    return false;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

// Every layer's scale_x is the one that the configuration gives.
static bool check_scale(const hst_lm *m, const char *path, const hst_entry *e) {
    double wanted = m->sru->layers[0].scale_x;
    hst_tensor *scale = hst_zeros(m->ctx, HST_F32, HST_SHAPE(1));
    if (!scale) return false;
    if (e->rank == 1 && e->shape[0] == 1 && is_float_entry(e) && hst_entry_copy(e, scale) &&
        fabs(hst_item(scale, NULL) - wanted) <= 1e-5)
        return true;
    hst_fail(m->ctx, HST_ERROR_FORMAT, "%s: %s does not agree with the configuration, which gives %g", path, e->name,
             wanted);
    return false;
}

// A tensor of a model that the configuration does not use, or a scale that it does not give, would make the file mean
// one model here and another elsewhere. Other tensors, of a checkpoint say, are nobody's business here.
static bool check_rest(const hst_lm *m, const char *path, const hst_safetensors *file) {
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const hst_entry *e = hst_safetensors_entry(file, i);
        bool of_layers = !strncmp(e->name, "rnn.", 4);
        bool of_model = of_layers || !strncmp(e->name, "embedding_layer.", 16) || !strncmp(e->name, "output_", 7);
        if (of_layers && ends_with(e->name, ".scale_x")) {
            if (!check_scale(m, path, e)) return false;
        } else if (of_model && !is_parameter(m, e->name)) {
            hst_fail(m->ctx, HST_ERROR_FORMAT,
                     "%s: the tensor %s has no place in the model that its configuration describes", path, e->name);
            return false;
        }
    }
    return true;
}

bool hst_lm_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, hst_lm_config *config) {
    return read_config(ctx, path, hst_safetensors_metadata(file, "halfstep.config"), config) &&
           check_sizes(ctx, path, file, config);
}

bool hst_lm_read(hst_lm *m, const char *path, const hst_safetensors *file) {
    hst_scope_begin(m->ctx);
    for (int i = 0; i < hst_parameter_count(m->parameters) && m->ctx->status == HST_OK; i++) {
        hst_tensor *value = hst_parameter_value(m->parameters, i), *view = hst_sru_file_view(m->sru, value);
        if (view) hst_entry_load(m->ctx, path, file, hst_parameter_name(m->parameters, i), value, view);
    }
    if (m->ctx->status == HST_OK) check_rest(m, path, file);
    hst_lm_set_tokenizer(m, hst_safetensors_metadata(file, "halfstep.tokenizer"));
    hst_scope_end(m->ctx, NULL);
    return m->ctx->status == HST_OK;
}

hst_lm *hst_lm_load(hst_context *ctx, const char *path) {
    if (hst_get_status(ctx) != HST_OK) return NULL;
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_lm_config config;
    hst_lm *m = NULL;
    if (file && hst_lm_read_config(ctx, path, file, &config)) m = hst_lm_new(ctx, &config);
    if (m && !hst_lm_read(m, path, file)) {
        hst_lm_free(m);
        m = NULL;
    }
    hst_safetensors_close(file);
    return m;
}
