// convert.c: `halfstep convert`: a model's file with other names or numbers; a state_dict from Python as a model's
// file.
#include "train/cli/cli.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

typedef struct convert_values {
    cli_common common;
    const char *output, *prefix;
    int dtype, format; // 0: as it is, else one of the names below
    bool force, tanh, bidirectional, normalize_after, no_skip, v1;
} convert_values;

#define AT(field) offsetof(convert_values, field)

static const cli_option options[] = {
    {.help = "The new file"},
    {"output", 'o', "OUT", CLI_TEXT, AT(output), .standard = "", .help = "the file to write; needed"},
    {"force", 'f', NULL, CLI_FLAG, AT(force), .help = "replace OUT if it is there"},
    {"dtype", 0, NULL, CLI_CHOICE, AT(dtype), .choices = "same|f32|f16|bf16", .standard = "same, and f32 for f64",
     .help = "the type of its numbers"},
    {"format", 0, NULL, CLI_CHOICE, AT(format), .choices = "same|2|3",
     .help = "names and orientation of its matrices: as SRU 2.x or 3.x has them"},
    {.help = "The old file"},
    {"prefix", 0, "PREFIX", CLI_TEXT, AT(prefix), .standard = "all of them",
     .help = "take the tensors of the module of this name (\"encoder\"), leave out the others"},
    {.help = "What a state_dict does not tell; a file that halfstep wrote says it itself"},
    {"bidirectional", 0, NULL, CLI_FLAG, AT(bidirectional), .help = "half of the columns run backwards in time"},
    {"tanh", 0, NULL, CLI_FLAG, AT(tanh), .help = "the layers were made with use_tanh"},
    {"no-skip", 0, NULL, CLI_FLAG, AT(no_skip), .help = "they were made with has_skip_term=False"},
    {"normalize-after", 0, NULL, CLI_FLAG, AT(normalize_after), .help = "their layer norm comes after the recurrence"},
    {"v1", 0, NULL, CLI_FLAG, AT(v1), .help = "their weight_c is 0 and not to be learned"},
    {0}};

// A module's prefix ends with a dot, which may be left out.
static const char *with_dot(const char *prefix, char *buffer, size_t size) {
    if (!prefix || !*prefix || prefix[strlen(prefix) - 1] == '.') return prefix;
    snprintf(buffer, size, "%s.", prefix);
    return buffer;
}

static hst_conversion conversion_of(const convert_values *v, const char *prefix) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F32, HST_F16, HST_BF16};
    hst_conversion c = {.prefix = prefix,
                        .version = v->format ? v->format + 1 : 0,
                        .names_dtype = v->dtype != 0,
                        .dtype = dtypes[v->dtype],
                        .assumed = hst_sru_defaults(HST_SRU_2)};
    c.assumed.bidirectional = v->bidirectional;
    c.assumed.use_tanh = v->tanh;
    c.assumed.has_skip_term = !v->no_skip;
    c.assumed.normalize_after = v->normalize_after;
    c.assumed.v1 = v->v1;
    return c;
}

// "new.safetensors: a stack, 2 layers of 96, 74112 parameters: f32 with SRU 2.x's names became f16 with 3.x's"
static void print_result(const convert_values *v, const char *from, const hst_converted *c) {
    const hst_sru_config *s = &c->config;
    fprintf(stderr,
            "%s: %s, %d layers of %" PRId64 ", %" PRId64 " parameters: %s with SRU %d.x's names became %s with %d.x's",
            v->output, c->language_model ? "a language model" : "a stack", s->layers, s->hidden, c->parameters,
            hst_dtype_name(c->dtype[0]), c->version[0], hst_dtype_name(c->dtype[1]), c->version[1]);
    if (c->left_out) fprintf(stderr, "; %d tensors of %s left out", c->left_out, from);
    if (!c->described)
        fprintf(stderr, "; taken to be: %s, %s, %s%s", s->bidirectional ? "bidirectional" : "in one direction",
                s->use_tanh ? "with tanh" : "without tanh",
                s->has_skip_term ? "with a skip term" : "without a skip term",
                !s->layer_norm       ? ""
                : s->normalize_after ? ", layer norm after the recurrence"
                                     : ", layer norm before the product");
    fprintf(stderr, "\n");
}

static int run(const void *values, int count, char **operands) {
    const convert_values *v = values;
    char inside[PATH_MAX], prefix[PATH_MAX];
    int code = CLI_DONE;
    (void)count;
    const char *from = cli_model_path(operands[0], inside, sizeof inside);
    if (!v->output || !*v->output) {
        cli_error("convert needs --output, the file to write");
        return CLI_USAGE;
    }
    if (!v->force && access(v->output, F_OK) == 0) {
        cli_error("%s: is there already; --force replaces it", v->output);
        return CLI_USAGE;
    }
    hst_context *ctx = cli_open(&v->common, NULL, NULL, &code);
    if (!ctx) return code;
    hst_conversion how = conversion_of(v, with_dot(v->prefix, prefix, sizeof prefix));
    hst_converted done;
    hst_status status = hst_convert(ctx, from, v->output, &how, &done);
    if (status != HST_OK)
        code = cli_failure(ctx, done.version[1] == 0); // until then it was read
    else
        print_result(v, from, &done);
    hst_close(ctx);
    return code;
}

const cli_command cli_convert = {
    .name = "convert",
    .operands = "IN",
    .at_least = 1,
    .at_most = 1,
    .summary = "a model's file with other names, orientation or numbers",
    .details =
        "Writes the language model or stack of SRU layers in IN to the file OUT: in 16 bits or 32, with the names "
        "of the `sru` package's version 2 or 3, and so that halfstep can read it. IN is a model of halfstep's (a "
        "file, or a run folder, then its model.safetensors) or a PyTorch state_dict in a safetensors file.",
    .options = options,
    .size = sizeof(convert_values),
    .run = run,
};
