// train.c: what a program outside this tree does with the library: trains on a text in memory, saves the model, loads
// it, and asks whether all is as it was. C11 and C++17. The program has a locale of its own, with a decimal comma where
// there is one; neither that nor its signal handlers, open files and rounding mode may be touched.
//
//     train MODEL.safetensors [LOCALE]
#include <halfstep.h>

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 30, SIGNALS = 32 };

// What a process has besides memory.
typedef struct surroundings {
    void (*handlers[SIGNALS])(int);
    int files, rounding;
    char locale[256];
} surroundings;

static int open_files(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

// A number for each rounding mode, without libm: to nearest 0, up 1, down 6, to zero 4.
static int rounding_mode(void) {
    volatile double tiny = 1e-30;
    return (1 + tiny > 1) + 2 * (-1 - tiny < -1) + 4 * (1 - tiny < 1);
}

static surroundings look_around(void) {
    surroundings s;
    memset(&s, 0, sizeof s);
    for (int i = 1; i < SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) s.handlers[i] = action.sa_handler;
    }
    s.files = open_files();
    s.rounding = rounding_mode();
    snprintf(s.locale, sizeof s.locale, "%s", setlocale(LC_ALL, NULL));
    return s;
}

static bool check(bool right, const char *what) {
    if (!right) printf("embed: %s\n", what);
    return right;
}

static hst_train_options options(void) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = 24;
    o.layers = 1;
    o.batch = 4;
    o.length = 16;
    o.steps = STEPS;
    o.dropout = 0.125; // a fraction that has to survive in the file
    return o;
}

static bool train_and_save(hst_context *ctx, const char *path, const char *text, double *nats) {
    hst_train_options o = options();
    double first = 0, last = 0;
    hst_corpus *corpus = hst_corpus_new(ctx);
    hst_corpus_add_bytes(corpus, text, strlen(text));
    hst_trainer *trainer = hst_trainer_new(ctx, &o, corpus, NULL);
    for (int i = 0; i < STEPS; i++) hst_trainer_step(trainer, i == 0 ? &first : &last);
    const hst_lm *model = hst_trainer_model(trainer);
    hst_lm_evaluate(model, (const uint8_t *)text, (int64_t)strlen(text), 0, nats);
    hst_lm_save(model, path);
    hst_trainer_free(trainer);
    hst_corpus_free(corpus);
    return check(hst_get_status(ctx) == HST_OK, hst_error(ctx)) && check(last < first - 1, "the loss did not fall");
}

static bool load_and_compare(hst_context *ctx, const char *path, const char *text, double expected) {
    double nats = 0;
    hst_lm *model = hst_lm_load(ctx, path);
    hst_lm_evaluate(model, (const uint8_t *)text, (int64_t)strlen(text), 0, &nats);
    bool loaded = check(model != NULL, hst_error(ctx));
    bool right = loaded && check(hst_lm_configuration(model)->dropout == 0.125, "dropout is not what was saved") &&
                 check(nats == expected, "the loaded model's loss is another");
    hst_lm_free(model);
    return right;
}

// One version three times: of the header as text and as a number, and of the library.
static bool versions_agree(void) {
    int major = -1, minor = -1, patch = -1;
    sscanf(HST_VERSION, "%d.%d.%d", &major, &minor, &patch);
    return check(strcmp(hst_version(), HST_VERSION) == 0, "header and library are of two versions") &&
           check(major * 10000 + minor * 100 + patch == HST_VERSION_NUMBER, "HST_VERSION_NUMBER is not HST_VERSION");
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (argc > 2 && !check(setlocale(LC_ALL, argv[2]) != NULL, "no such locale")) return 1;
    char text[4000] = "";
    for (size_t i = 0, n = 0; n + 32 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "line %zu of a text\n", i);
    surroundings before = look_around();
    hst_options o;
    memset(&o, 0, sizeof o);
    o.size = sizeof o;
    o.threads = 2;
    hst_context *ctx = hst_open(&o);
    double nats = 0;
    bool right = train_and_save(ctx, argv[1], text, &nats) && load_and_compare(ctx, argv[1], text, nats);
    right = versions_agree() && right;
    hst_close(ctx);
    surroundings after = look_around();
    return check(memcmp(&before, &after, sizeof before) == 0, "signals, files, rounding or locale changed") && right
               ? 0
               : 1;
}
