// sru_file.c: an SRU stack in a safetensors file that the `sru` package reads, and such a file's numbers in a stack. In
// memory a matrix has the columns of each plane together, column m out + j; in files the planes alternate, column j k +
// m, and 3.x has the matrix transposed.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/sru_file.h"

#define FIELD(key, kind)                                                                                               \
    { #key, kind, offsetof(hst_sru_config, key), true, NULL }
const hst_field hst_sru_fields[] = {FIELD(input, HST_FIELD_SIZE),
                                    FIELD(hidden, HST_FIELD_SIZE),
                                    FIELD(layers, HST_FIELD_INT),
                                    FIELD(dropout, HST_FIELD_REAL),
                                    FIELD(highway_bias, HST_FIELD_REAL),
                                    FIELD(layer_norm, HST_FIELD_FLAG),
                                    FIELD(rescale, HST_FIELD_FLAG),
                                    FIELD(has_skip_term, HST_FIELD_FLAG),
                                    FIELD(normalize_after, HST_FIELD_FLAG),
                                    FIELD(bidirectional, HST_FIELD_FLAG),
                                    FIELD(use_tanh, HST_FIELD_FLAG),
                                    FIELD(v1, HST_FIELD_FLAG),
                                    FIELD(proj_input_to_hidden_first, HST_FIELD_FLAG),
                                    FIELD(nn_rnn_compatible_return, HST_FIELD_FLAG),
                                    FIELD(projection_size, HST_FIELD_SIZE),
                                    FIELD(rnn_dropout, HST_FIELD_REAL),
                                    FIELD(weight_c_init, HST_FIELD_REAL),
                                    FIELD(rules, HST_FIELD_INT),
                                    {0}};

// ---- one table of what a file has for a layer, by the configuration alone ----

typedef enum role { INPUT, WEIGHT_PROJ, WEIGHT, WEIGHT_C, BIAS, NORM_GAIN, NORM_BIAS, SCALE, ROLES } role;

typedef struct part {
    role role;
    char name[HST_MAX_NAME];
    int rank;
    int64_t shape[2];
} part;

static void put_part(part *p, role r, const char *prefix, int layer, const char *name, int64_t rows, int64_t columns) {
    *p = (part){.role = r, .rank = columns ? 2 : 1, .shape = {rows, columns}};
    if (layer < 0)
        snprintf(p->name, sizeof p->name, "%s%s", prefix, name);
    else
        snprintf(p->name, sizeof p->name, "%srnn_lst.%d.%s", prefix, layer, name);
}

// x W of (in, columns) in 2.x; nn.Linear's (columns, in) in 3.x.
static void put_matrix(part *p, role r, const char *prefix, int layer, int version, const char *second,
                       const char *third, int64_t in, int64_t columns) {
    if (version == 3)
        put_part(p, r, prefix, layer, third, columns, in);
    else
        put_part(p, r, prefix, layer, second, in, columns);
}

// Layer -1 is what comes before the first. Returns how many parts.
static int parts_of(const hst_sru_config *c, const char *prefix, int version, int layer, part parts[ROLES]) {
    int n = 0;
    if (layer < 0) {
        if (hst_sru_widens_first(c))
            put_part(&parts[n++], INPUT, prefix, layer, "input_to_hidden.weight", hst_sru_out(c), c->input);
        return n;
    }
    hst_sru_sizes s = hst_sru_sizes_of(c, layer);
    int64_t columns = s.k * s.out, normed = c->normalize_after ? s.out : s.in;
    if (!c->transform && s.projection) {
        put_matrix(&parts[n++], WEIGHT_PROJ, prefix, layer, version, "weight_proj", "transform_module.0.weight", s.in,
                   s.projection);
        put_matrix(&parts[n++], WEIGHT, prefix, layer, version, "weight", "transform_module.1.weight", s.projection,
                   columns);
    } else if (!c->transform) {
        put_matrix(&parts[n++], WEIGHT, prefix, layer, version, "weight", "transform_module.weight", s.in, columns);
    }
    put_part(&parts[n++], WEIGHT_C, prefix, layer, "weight_c", 2 * s.out, 0);
    put_part(&parts[n++], BIAS, prefix, layer, "bias", 2 * s.out, 0);
    if (c->layer_norm) {
        put_part(&parts[n++], NORM_GAIN, prefix, layer, "layer_norm.weight", normed, 0);
        put_part(&parts[n++], NORM_BIAS, prefix, layer, "layer_norm.bias", normed, 0);
    }
    put_part(&parts[n++], SCALE, prefix, layer, "scale_x", 1, 0); // a buffer, needed by a strict load
    return n;
}

static hst_tensor *tensor_of(const hst_sru *sru, int layer, role r) {
    if (r == INPUT) return sru->input_to_hidden;
    const hst_sru_layer *l = &sru->layers[layer];
    hst_tensor *const tensors[ROLES] = {
        [WEIGHT_PROJ] = l->weight_proj, [WEIGHT] = l->weight,      [WEIGHT_C] = l->weight_c, [BIAS] = l->bias,
        [NORM_GAIN] = l->norm_gain,     [NORM_BIAS] = l->norm_bias};
    return tensors[r];
}

// A part's tensor in the order of files, to be copied from and to: the master, whatever operations see of it. What the
// stack does not keep is made: v1's zeros and the scale.
static hst_tensor *view_of(const hst_sru *sru, int layer, int version, const part *p) {
    hst_tensor *t = hst_detach(tensor_of(sru, layer, p->role));
    if (p->role == SCALE) return hst_full(sru->ctx, HST_F32, HST_SHAPE(1), sru->layers[layer].scale_x);
    if (!t) return hst_zeros(sru->ctx, HST_F32, p->rank, p->shape);
    if (p->role == WEIGHT) {
        int64_t planes[] = {t->shape[0], sru->layers[layer].sizes.k, sru->layers[layer].sizes.out};
        return hst_transpose(hst_reshape(t, 3, planes), version == 3 ? 0 : 1, 2); // (out, k, in) or (in, out, k)
    }
    if (p->role == WEIGHT_PROJ && version == 3) return hst_transpose(t, 0, 1);
    if (p->role == WEIGHT_C && sru->config.transform_gives_v) {
        int64_t gates[] = {2, sru->layers[layer].sizes.out};
        return hst_transpose(hst_reshape(t, 2, gates), 0, 1);
    }
    return t;
}

// ---- finding a stack ----

bool hst_sru_find_prefix(hst_context *ctx, const char *path, const hst_safetensors *file, const char *given,
                         char prefix[HST_MAX_PREFIX]) {
    static const char first[] = "rnn_lst.0.bias";
    char found[2][HST_MAX_PREFIX];
    int stacks = hst_entry_prefixes(file, first, given, 0, found);
    if (stacks == 1)
        strcpy(prefix, found[0]);
    else if (stacks)
        hst_fail(ctx, HST_ERROR_FORMAT,
                 "%s: holds several stacks of SRU layers, %srnn_lst and %srnn_lst among them; a prefix (`--prefix` of "
                 "convert) chooses one",
                 path, found[0], found[1]);
    else
        hst_fail(ctx, HST_ERROR_FORMAT, "%s: has no tensor %s%s, so no stack of SRU layers%s", path,
                 given ? given : "...", first, given ? " of this prefix" : "");
    return stacks == 1;
}

int hst_sru_version_of(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix) {
    if (hst_entry_find(file, "%srnn_lst.0.weight", prefix)) return 2;
    if (hst_entry_find(file, "%srnn_lst.0.transform_module.weight", prefix) ||
        hst_entry_find(file, "%srnn_lst.0.transform_module.1.weight", prefix))
        return 3;
    if (hst_entry_find(file, "%srnn_lst.0.transform_module.linear1.weight", prefix))
        hst_fail(ctx, HST_ERROR_FORMAT,
                 "%s: its layers are those of SRU++ (%srnn_lst.0.transform_module.linear1); only "
                 "plain SRU layers can be read",
                 path, prefix);
    else
        hst_fail(ctx, HST_ERROR_FORMAT,
                 "%s: has neither %srnn_lst.0.weight (SRU 2.x) nor %srnn_lst.0.transform_module.weight (3.x); a stack "
                 "with a transform of its own is made with hst_sru_new and then read",
                 path, prefix, prefix);
    return 0;
}

bool hst_sru_fits(const hst_safetensors *file, const char *prefix, int version, const hst_sru_config *config) {
    if (config->layers < 1 || config->layers > hst_safetensors_count(file)) return false;
    for (int layer = -1; layer < config->layers; layer++) {
        part parts[ROLES];
        int count = parts_of(config, prefix, version, layer, parts);
        for (int i = 0; i < count && parts[i].role <= WEIGHT; i++)
            if (!hst_entry_has_shape(hst_safetensors_find(file, parts[i].name), parts[i].rank, parts[i].shape))
                return false;
    }
    return true;
}

bool hst_sru_is_name(const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length)) return false;
    return !strncmp(name + length, "rnn_lst.", 8) || !strncmp(name + length, "input_to_hidden.", 16);
}

bool hst_sru_has_name(const hst_sru_config *config, const char *prefix, int version, const char *name) {
    const char *rest = name + strlen(prefix);
    char *end = NULL;
    long layer = !strncmp(rest, "rnn_lst.", 8) ? strtol(rest + 8, &end, 10) : -1;
    if (layer < -1 || layer >= config->layers) return false;
    if (config->transform && end && (!strncmp(end, ".custom_m.", 10) || !strncmp(end, ".transform_module.", 18)))
        return true;
    part parts[ROLES];
    int count = parts_of(config, prefix, version, (int)layer, parts);
    for (int i = 0; i < count; i++)
        if (!strcmp(parts[i].name, name)) return true;
    return false;
}

// ---- writing and reading ----

int hst_sru_entry_count(const hst_sru *sru) { return 1 + ROLES * sru->config.layers; }

bool hst_sru_collect(const hst_sru *sru, const char *prefix, int version, hst_entries *entries) {
    bool ok = true;
    hst_no_grad_begin(sru->ctx);
    for (int layer = -1; layer < sru->config.layers && ok; layer++) {
        part parts[ROLES];
        int count = parts_of(&sru->config, prefix, version, layer, parts);
        for (int i = 0; i < count && ok; i++) {
            hst_scope_begin(sru->ctx);
            ok = hst_entries_add(entries, parts[i].name, parts[i].rank, parts[i].shape,
                                 view_of(sru, layer, version, &parts[i]));
            hst_scope_end(sru->ctx, NULL);
        }
    }
    hst_no_grad_end(sru->ctx);
    return ok;
}

// A scale is as exact as the dtype that it was stored in.
static bool check_scale(const hst_sru *sru, const char *path, const hst_safetensors *file, const part *p) {
    const hst_entry *e = hst_safetensors_find(file, p->name);
    double wanted = hst_sru_scale(&sru->config);
    double error = !e ? 0 : e->dtype == HST_F16 ? 0x1p-11 : e->dtype == HST_BF16 ? 0x1p-8 : 1e-5;
    if (!e) return true;
    hst_tensor *scale = hst_zeros(sru->ctx, HST_F32, HST_SHAPE(1));
    if (scale && hst_entry_has_shape(e, 1, p->shape) && hst_entry_is_float(e) && hst_entry_copy(e, scale) &&
        fabs(hst_item(scale, NULL) - wanted) <= error * wanted)
        return true;
    hst_fail(sru->ctx, HST_ERROR_FORMAT, "%s: %s does not agree with the configuration, which gives %g", path, e->name,
             wanted);
    return false;
}

// With v1 there is no weight_c to put the numbers into: they must be zeros.
static bool check_zeros(const hst_sru *sru, const char *path, const hst_safetensors *file, const part *p) {
    hst_tensor *zeros = hst_zeros(sru->ctx, HST_F32, p->rank, p->shape);
    if (!hst_entry_read(sru->ctx, path, file, p->name, p->rank, p->shape, zeros)) return false;
    const hst_real *values = hst_data(zeros);
    for (int64_t i = 0; i < p->shape[0]; i++)
        if (values[i] != 0) {
            hst_fail(sru->ctx, HST_ERROR_FORMAT, "%s: %s is not 0, as v1 in its configuration says", path, p->name);
            return false;
        }
    return true;
}

static bool read_part(hst_sru *sru, const char *path, const hst_safetensors *file, int version, int layer,
                      const part *p) {
    if (p->role == SCALE) return check_scale(sru, path, file, p);
    if (p->role == WEIGHT_C && sru->config.v1) return check_zeros(sru, path, file, p);
    return hst_entry_read(sru->ctx, path, file, p->name, p->rank, p->shape, view_of(sru, layer, version, p));
}

bool hst_sru_read_entries(hst_sru *sru, const char *path, const hst_safetensors *file, const char *prefix,
                          int version) {
    bool ok = true;
    hst_no_grad_begin(sru->ctx);
    for (int layer = -1; layer < sru->config.layers && ok; layer++) {
        part parts[ROLES];
        int count = parts_of(&sru->config, prefix, version, layer, parts);
        for (int i = 0; i < count && ok; i++) {
            hst_scope_begin(sru->ctx);
            ok = read_part(sru, path, file, version, layer, &parts[i]);
            hst_scope_end(sru->ctx, NULL);
        }
    }
    hst_no_grad_end(sru->ctx);
    for (int i = 0; i < hst_safetensors_count(file) && ok; i++) {
        const char *name = hst_safetensors_entry(file, i)->name;
        ok = !hst_sru_is_name(prefix, name) || hst_sru_has_name(&sru->config, prefix, version, name);
        if (!ok)
            hst_fail(sru->ctx, HST_ERROR_FORMAT,
                     "%s: the tensor %s has no place in the model that its configuration describes", path, name);
    }
    return ok;
}
