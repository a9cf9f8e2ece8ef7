// context.c: the library as the commands use it: opening a context, reading models and texts, errors to exit codes.
#include "train/cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

hst_context *cli_open(const cli_common *common, void (*log)(int level, const char *message, void *user), void *user,
                      int *code) {
    hst_options options = {.size = sizeof options,
                           .threads = common->threads,
                           .isa = common->isa,
                           .log = log,
                           .user = user,
                           .unsafe_accumulation = common->unsafe};
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

void cli_print_message(int level, const char *message, void *user) {
    (void)user;
    if (level == HST_LOG_WARNING) cli_warning("%s", message);
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

hst_lm *cli_read_model(hst_context *ctx, const char *path, hst_tokenizer **tokenizer) {
    char inside[PATH_MAX];
    path = cli_model_path(path, inside, sizeof inside);
    hst_lm *model = hst_lm_load(ctx, path);
    *tokenizer = model ? hst_tokenizer_read(ctx, hst_lm_tokenizer(model)) : NULL;
    int64_t symbols = hst_tokenizer_size(*tokenizer);
    if (*tokenizer && hst_lm_configuration(model)->vocabulary != symbols)
        hst_fail(ctx, HST_ERROR_FORMAT, "%s: its vocabulary has %lld symbols, but its tokenizer, of %ss, has %lld",
                 path, (long long)hst_lm_configuration(model)->vocabulary, hst_tokenizer_unit(*tokenizer),
                 (long long)symbols);
    return model;
}

hst_dtype cli_weights(int choice, const hst_lm *model) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F32, HST_F16, HST_BF16}; // of CLI_WEIGHTS_CHOICES
    return choice == 0 ? hst_lm_stored_dtype(model) : dtypes[choice];
}
