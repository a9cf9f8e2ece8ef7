// context.c: the library as the commands use it: opening a context, reading models and texts, errors to exit codes.
#include "train/cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

hst_context *cli_open(const cli_common *common, void (*log)(int level, const char *message, void *user), void *user,
                      int *code) {
    hst_options options = {
        .size = sizeof options, .threads = common->threads, .isa = common->isa, .log = log, .user = user};
    const char *environment = getenv("HALFSTEP_ISA");
    if (!options.isa && environment && *environment) options.isa = environment;
    hst_context *ctx = hst_open(&options);
    if (ctx && hst_get_status(ctx) == HST_OK) return ctx;
    hst_status status = ctx ? hst_get_status(ctx) : HST_ERROR_MEMORY;
    cli_error("%s", ctx ? hst_error(ctx) : "out of memory");
    hst_close(ctx);
    *code = status == HST_ERROR_UNSUPPORTED || status == HST_ERROR_VALUE ? CLI_USAGE : CLI_FAILED;
    return NULL;
}

int cli_failure(const hst_context *ctx, bool reading) {
    hst_status status = hst_get_status(ctx);
    cli_error("%s", hst_error(ctx));
    if (status == HST_ERROR_DIVERGED) return CLI_DIVERGED;
    if (status == HST_ERROR_MEMORY) return CLI_FAILED;
    return reading || status == HST_ERROR_FORMAT ? CLI_INPUT : CLI_FAILED;
}

hst_corpus *cli_read_texts(hst_context *ctx, int count, char **paths) {
    hst_corpus *corpus = hst_corpus_new(ctx);
    for (int i = 0; i < count && corpus; i++) {
        if (hst_corpus_add(corpus, paths[i]) == HST_OK) continue;
        hst_corpus_free(corpus);
        corpus = NULL;
    }
    return corpus;
}

const char *cli_model_path(const char *path, char *buffer, size_t size) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return path;
    snprintf(buffer, size, "%s/model.safetensors", path);
    return buffer;
}

hst_lm *cli_read_model(hst_context *ctx, const char *path) {
    char inside[PATH_MAX];
    return hst_lm_load(ctx, cli_model_path(path, inside, sizeof inside));
}

hst_lm *cli_read_byte_model(hst_context *ctx, const char *path) {
    hst_lm *model = cli_read_model(ctx, path);
    if (model && hst_lm_configuration(model)->vocabulary != 256)
        hst_fail(ctx, HST_ERROR_FORMAT, "%s: its vocabulary has %lld symbols; a model of bytes, with 256, is needed",
                 path, (long long)hst_lm_configuration(model)->vocabulary);
    return model;
}
