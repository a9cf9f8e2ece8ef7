// generate.c: `halfstep generate`: the prompt, then what the model makes of it, symbol by symbol to stdout.
#include "train/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct generate_values {
    cli_common common;
    const char *prompt, *prompt_file;
    int64_t tokens;
    hst_sampling sampling;
    int unknown, weights;
} generate_values;

#define AT(field) offsetof(generate_values, field)

static const cli_option options[] = {
    {.help = "The text"},
    {"prompt", 'p', "TEXT", CLI_TEXT, AT(prompt), .help = "what to continue; without one, the start of a line"},
    {"prompt-file", 0, "FILE", CLI_FILE, AT(prompt_file), .help = "the same from a file, or - for standard input"},
    {"tokens", 'n', "N", CLI_INT64, AT(tokens), .low = 0, .high = 1e15,
     .help = "how many new symbols, bytes or characters as the model has them"},
    {"unknown", 0, NULL, CLI_CHOICE, AT(unknown), .choices = CLI_UNKNOWN_CHOICES,
     .help = "what to do with characters of the prompt that the model has never seen"},
    {.help = "Sampling"},
    {"temperature", 't', "T", CLI_REAL, AT(sampling.temperature), .low = 0, .high = INFINITY,
     .help = "0 takes the most likely symbol each time, 1 samples as the model says, above 1 flattens"},
    {"top-k", 0, "K", CLI_INT64, AT(sampling.top_k), .low = 0, .high = 1e9, .standard = "0, all",
     .help = "only among the K most likely"},
    {"top-p", 0, "P", CLI_REAL, AT(sampling.top_p), .low = 0, .high = 1, .ends = CLI_ABOVE_LOW,
     .help = "only among the most likely that together have probability P"},
    {"seed", 0, "SEED", CLI_SEED, AT(sampling.seed), .help = "same seed, same text"},
    {.help = "Speed"},
    {"weights", 0, NULL, CLI_CHOICE, AT(weights), .choices = CLI_WEIGHTS_CHOICES,
     .help =
         "dtype in which products read the weights, rounded to it if need be: 16 bits are nearly twice as fast where "
         "weights come from memory; `halfstep convert --dtype bf16` stores them so"},
    {0}};

static void defaults(void *values) {
    generate_values *v = values;
    v->tokens = 500;
    v->sampling = hst_sampling_defaults();
}

typedef struct printer {
    const hst_tokenizer *tokenizer;
    bool interactive;
    char last;
    int error; // errno of the write that failed
} printer;

static bool print(printer *p, const char *bytes, size_t count) {
    if (count == 0) return true;
    p->last = bytes[count - 1];
    bool written = fwrite(bytes, 1, count, stdout) == count && (!p->interactive || fflush(stdout) == 0);
    if (!written) p->error = errno;
    return written;
}

static bool emit(int64_t symbol, void *user) {
    printer *p = user;
    size_t count;
    const char *bytes = hst_tokenizer_decode(p->tokenizer, symbol, &count);
    return print(p, bytes, count);
}

static int sample(hst_context *ctx, const generate_values *v, const hst_lm *model, const hst_tokenizer *tokenizer,
                  const hst_corpus *prompt) {
    printer p = {.tokenizer = tokenizer, .interactive = isatty(STDOUT_FILENO), .last = '\n'};
    int64_t start = hst_tokenizer_start(tokenizer);
    hst_symbols symbols = hst_corpus_symbols(prompt);
    if (symbols.count == 0) symbols = (hst_symbols){&start, HST_I64, 1};
    fprintf(stderr, "seed %" PRIu64 "\n", v->sampling.seed);
    if (!print(&p, (const char *)hst_corpus_bytes(prompt), (size_t)hst_corpus_size(prompt)))
        return cli_output_failure(p.error);
    hst_sampling sampling = v->sampling;
    sampling.weights = cli_weights(v->weights, model);
    hst_status status = hst_lm_generate(model, symbols, v->tokens, &sampling, emit, &p);
    if (p.error) return cli_output_failure(p.error);
    if (p.interactive && p.last != '\n') putchar('\n'); // the shell's prompt wants a line of its own
    return status ? cli_failure(ctx, false) : CLI_DONE;
}

// The prompt: empty, the text of --prompt, or a file's.
static hst_corpus *read_prompt(hst_context *ctx, const generate_values *v, const hst_tokenizer *tokenizer) {
    hst_corpus *prompt = hst_corpus_new(ctx);
    if (prompt && v->prompt) hst_corpus_add_bytes(prompt, v->prompt, strlen(v->prompt));
    if (prompt && v->prompt_file) hst_corpus_add(prompt, v->prompt_file);
    hst_corpus_encode(prompt, tokenizer, v->unknown == CLI_UNKNOWN_SKIP);
    return prompt;
}

static int run(const void *values, int count, char **operands) {
    const generate_values *v = values;
    (void)count;
    if (v->prompt && v->prompt_file) {
        cli_error("--prompt and --prompt-file exclude each other");
        return CLI_USAGE;
    }
    signal(SIGPIPE, SIG_DFL); // so that `| head` ends it quietly, whatever the parent process ignores
    int code = CLI_DONE;
    hst_context *ctx = cli_open(&v->common, cli_print_message, NULL, &code);
    if (!ctx) return code;
    hst_tokenizer *tokenizer;
    hst_lm *model = cli_read_model(ctx, operands[0], &tokenizer);
    hst_corpus *prompt = read_prompt(ctx, v, tokenizer);
    code = hst_get_status(ctx) ? cli_failure(ctx, true) : sample(ctx, v, model, tokenizer, prompt);
    hst_corpus_free(prompt);
    hst_tokenizer_free(tokenizer);
    hst_lm_free(model);
    hst_close(ctx);
    return code;
}

static const cli_term examples[] = {
    {"halfstep generate book.run", "writes 500 bytes"},
    {"halfstep generate book.run --prompt 'It was ' --tokens 100 --seed 7", "goes on with a sentence, in its 7th way"},
    {"halfstep generate book.run -t 0 | head -n 3", "the likeliest three lines"},
    {NULL, NULL}};

const cli_command cli_generate = {
    .name = "generate",
    .operands = "MODEL",
    .at_least = 1,
    .at_most = 1,
    .summary = "text from a model",
    .details = "Prints the prompt and a continuation. MODEL is a file, or a run folder (then its model.safetensors).",
    .examples = examples,
    .options = options,
    .size = sizeof(generate_values),
    .defaults = defaults,
    .run = run,
};
