// sru_import.c: the configuration of an SRU stack from the names and shapes of its tensors. k and the projection follow
// from the matrices, for the bias says how wide h is; layer norm from its names, its place from its width where that
// tells; rescale and its highway bias from scale_x, which is 1 without. Tanh, the directions, and a skip term or a
// norm's place where in = out, leave no trace.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/sru_file.h"

typedef struct importing {
    hst_context *ctx;
    const char *path, *prefix;
    const hst_safetensors *file;
    int version;
} importing;

// What a layer's tensors say.
typedef struct found {
    int64_t in, out, projection, normed; // 0: no projection, no norm
    int k;
    bool has_scale;
    double scale_x;
} found;

static const hst_entry *find(const importing *f, int layer, const char *name) {
    return hst_entry_find(f->file, "%srnn_lst.%d.%s", f->prefix, layer, name);
}

static bool refuse(const importing *f, int layer, const char *what) {
    hst_fail(f->ctx, HST_ERROR_FORMAT, "%s: %srnn_lst.%d: %s", f->path, f->prefix, layer, what);
    return false;
}

// Element 0 of an entry.
static double number_of(const importing *f, const hst_entry *e) {
    hst_scope_begin(f->ctx);
    hst_tensor *value = hst_zeros(f->ctx, HST_F32, HST_SHAPE(1));
    double x = value && hst_entry_copy(e, value) ? hst_item(value, NULL) : NAN;
    hst_scope_end(f->ctx, NULL);
    return x;
}

// A matrix from `rows` to `columns`, whichever way it lies in the file.
static bool matrix(const importing *f, int layer, const char *second, const char *third, int64_t *rows,
                   int64_t *columns) {
    const hst_entry *e = find(f, layer, f->version == 3 ? third : second);
    if (!e || e->rank != 2 || e->shape[0] < 1 || e->shape[1] < 1) return false;
    *rows = e->shape[f->version == 3];
    *columns = e->shape[f->version == 2];
    return true;
}

static bool look_at(const importing *f, int layer, found *l) {
    const hst_entry *bias = find(f, layer, "bias"), *norm = find(f, layer, "layer_norm.weight");
    const hst_entry *scale = find(f, layer, "scale_x");
    int64_t columns = 0, width = 0;
    *l = (found){0};
    if (!bias || bias->rank != 1 || bias->shape[0] < 2 || bias->shape[0] % 2 != 0)
        return refuse(f, layer, "has no bias with one number for each gate of each column");
    l->out = bias->shape[0] / 2;
    if (matrix(f, layer, "weight_proj", "transform_module.0.weight", &l->in, &l->projection)) {
        if (!matrix(f, layer, "weight", "transform_module.1.weight", &width, &columns) || width != l->projection)
            return refuse(f, layer, "its two matrices do not fit each other");
    } else if (!matrix(f, layer, "weight", "transform_module.weight", &l->in, &columns)) {
        return refuse(f, layer, "has no matrix");
    }
    if (columns != 3 * l->out && columns != 4 * l->out)
        return refuse(f, layer, "its matrix has neither 3 nor 4 columns for each of the bias's, so k is not known");
    l->k = (int)(columns / l->out);
    if (l->k == 4 && l->in == l->out)
        return refuse(f, layer, "has 4 planes though it keeps the width, which no version of SRU makes");
    if (norm && norm->rank == 1) l->normed = norm->shape[0];
    l->has_scale = scale && scale->rank == 1 && scale->shape[0] == 1 && hst_entry_is_float(scale);
    if (l->has_scale) l->scale_x = number_of(f, scale);
    return true;
}

// scale_x = sqrt(1 + 2 exp(highway_bias)) gives the bias back.
static bool take_scale(const importing *f, const found *l, hst_sru_config *c) {
    if (!l->has_scale) return true; // as assumed
    if (!(l->scale_x >= 1 - 1e-6 && isfinite(l->scale_x * l->scale_x))) {
        hst_fail(f->ctx, HST_ERROR_FORMAT,
                 "%s: %srnn_lst.0.scale_x is %g; it must be sqrt(1 + 2 exp(highway_bias)), which is finite and not "
                 "below 1",
                 f->path, f->prefix, l->scale_x);
        return false;
    }
    c->rescale = fabs(l->scale_x - 1) > 1e-6;
    if (c->rescale) c->highway_bias = log((l->scale_x * l->scale_x - 1) / 2);
    return true;
}

// What the layers say of themselves, one after the other, into *c.
static bool take_layer(const importing *f, int layer, const found *l, hst_sru_config *c) {
    int64_t out = hst_sru_out(c);
    if (l->out != out || (layer > 0 && l->in != out)) return refuse(f, layer, "its widths are not those of layer 0");
    if (l->projection && c->projection_size && l->projection != c->projection_size)
        return refuse(f, layer, "projects to another width than the layers before; one for all is supported");
    if (l->projection) c->projection_size = l->projection;
    if ((l->normed > 0) != c->layer_norm) return refuse(f, layer, "only some of the layers have a layer norm");
    if (l->normed && l->normed != l->in && l->normed != l->out)
        return refuse(f, layer, "its layer norm is neither as wide as its input nor as its output");
    if (l->in != l->out && l->normed) c->normalize_after = l->normed == l->out;
    if (l->in != l->out) c->has_skip_term = l->k == 4;
    return true;
}

// Which of the versions' rules give the projections that are there; the file's own first.
static bool choose_rules(const importing *f, const hst_sru_config *assumed, hst_sru_config *c) {
    const hst_sru_rules rules[] = {assumed->rules, f->version == 3 ? HST_SRU_3 : HST_SRU_2, HST_SRU_3, HST_SRU_2};
    for (int i = 0; i < 4; i++) {
        c->rules = rules[i];
        if (hst_sru_fits(f->file, f->prefix, f->version, c)) return true;
    }
    return refuse(f, 0, "the layers' projections follow neither the rules of SRU 2.x nor those of 3.x");
}

bool hst_sru_infer(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix, int version,
                   const hst_sru_config *assumed, hst_sru_config *c) {
    importing f = {ctx, path, prefix, file, version};
    found first, l;
    if (!look_at(&f, 0, &first)) return false;
    *c = *assumed;
    c->transform = NULL;
    c->projection_size = 0;
    c->layer_norm = first.normed > 0;
    c->hidden = assumed->bidirectional ? first.out / 2 : first.out;
    if (assumed->bidirectional && first.out % 2 != 0)
        return refuse(&f, 0, "h has an odd number of columns, which two directions cannot share");
    c->input = first.in;
    const hst_entry *widening = hst_entry_find(file, "%sinput_to_hidden.weight", prefix);
    c->proj_input_to_hidden_first = widening != NULL;
    if (widening && widening->rank == 2) c->input = widening->shape[1];
    if (!take_scale(&f, &first, c)) return false;
    if (c->rescale) c->has_skip_term = true;
    for (c->layers = 0; find(&f, c->layers, "bias"); c->layers++)
        if (!look_at(&f, c->layers, &l) || !take_layer(&f, c->layers, &l, c)) return false;
    return choose_rules(&f, assumed, c);
}
