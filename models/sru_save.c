// sru_save.c: stacks of SRU layers as files of their own: what models.h promises of them, over sru_file.h.
#include "models/sru_file.h"
#include "optim/parameter.h"

bool hst_sru_check_form(hst_context *ctx, const char *who, int version, hst_dtype dtype) {
    if ((version == 2 || version == 3) && hst_is_float(dtype)) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "%s: version is %d and dtype %s; 2 or 3, and f32, f16 or bf16 are possible", who,
             version, hst_dtype_name(dtype));
    return false;
}

hst_status hst_sru_export(const hst_sru *sru, const char *path, int version, hst_dtype dtype) {
    if (!sru) return HST_ERROR_STATE;
    hst_context *ctx = sru->ctx;
    if (ctx->status != HST_OK || !hst_sru_check_form(ctx, "hst_sru_export", version, dtype)) return ctx->status;
    hst_entries entries;
    char config[HST_MAX_CONFIG];
    hst_sru_config standard = hst_sru_defaults(HST_SRU_HALFSTEP);
    hst_config_write(hst_sru_fields, &sru->config, &standard, config);
    if (hst_entries_begin(&entries, ctx, dtype, hst_sru_entry_count(sru)) &&
        hst_sru_collect(sru, sru->prefix, version, &entries))
        hst_safetensors_write(ctx, path, entries.items, entries.count, (const char *const[]){HST_CONFIG_KEY, config},
                              1);
    hst_entries_end(&entries);
    return ctx->status;
}

hst_status hst_sru_save(const hst_sru *sru, const char *path) { return hst_sru_export(sru, path, 2, HST_F32); }

// A file's own configuration, or one from its shapes.
bool hst_sru_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix,
                         int version, const hst_sru_config *assumed, hst_sru_config *config) {
    if (assumed && !hst_safetensors_metadata(file, HST_CONFIG_KEY))
        return hst_sru_infer(ctx, path, file, prefix, version, assumed, config);
    *config = hst_sru_defaults(HST_SRU_HALFSTEP);
    if (!hst_config_read_own(ctx, path, file, hst_sru_fields, config)) return false;
    if (hst_sru_fits(file, prefix, version, config)) return true;
    hst_fail(ctx, HST_ERROR_FORMAT,
             "%s: its configuration (input %lld, hidden %lld, layers %d) does not fit its tensors", path,
             (long long)config->input, (long long)config->hidden, config->layers);
    return false;
}

hst_sru *hst_sru_load_file(hst_parameters *list, const char *path, const hst_safetensors *file, const char *given,
                           const hst_sru_config *assumed) {
    if (!list) return NULL;
    hst_context *ctx = hst_parameters_context(list);
    hst_sru_config config;
    char prefix[HST_MAX_PREFIX];
    int version = hst_sru_find_prefix(ctx, path, file, given, prefix) ? hst_sru_version_of(ctx, path, file, prefix) : 0;
    if (!version || !hst_sru_read_config(ctx, path, file, prefix, version, assumed, &config)) return NULL;
    int before = hst_parameter_count(list);
    hst_sru *sru = hst_sru_new(list, prefix, &config);
    if (sru && hst_sru_read_entries(sru, path, file, prefix, version)) return sru;
    hst_parameters_cut(list, before);
    hst_sru_free(sru);
    return NULL;
}

hst_sru *hst_sru_load(hst_parameters *list, const char *path, const char *prefix, const hst_sru_config *assumed) {
    if (!list) return NULL;
    hst_safetensors *file = hst_safetensors_open(hst_parameters_context(list), path);
    hst_sru *sru = file ? hst_sru_load_file(list, path, file, prefix, assumed) : NULL;
    hst_safetensors_close(file);
    return sru;
}

hst_status hst_sru_read(hst_sru *sru, const char *path) {
    if (!sru) return HST_ERROR_STATE;
    hst_context *ctx = sru->ctx;
    hst_safetensors *file = ctx->status == HST_OK ? hst_safetensors_open(ctx, path) : NULL;
    char prefix[HST_MAX_PREFIX];
    if (file && hst_sru_find_prefix(ctx, path, file, NULL, prefix)) {
        int version = sru->config.transform ? 2 : hst_sru_version_of(ctx, path, file, prefix);
        if (version) hst_sru_read_entries(sru, path, file, prefix, version);
    }
    hst_safetensors_close(file);
    return ctx->status;
}
