// two_contexts.c: two contexts share nothing: two threads train at the same time, each in a context of its own, and get
// to the last bit what each gets alone. `make check` runs it under ThreadSanitizer too, which is why it is a plain
// program: Criterion does not run there.
#include <halfstep.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, LAYERS = 2, TEXT = 4000 };

// One training: what is given to it, and what comes out.
typedef struct training {
    uint64_t seed;
    int64_t hidden;
    double losses[STEPS];
    float *weights; // of all parameters, one after the other
    int64_t count;
} training;

static hst_corpus *numbered_lines(hst_context *ctx, uint64_t seed) {
    hst_corpus *text = hst_corpus_new(ctx);
    char line[64];
    for (unsigned i = 0, n = 0; n < TEXT; i++) {
        unsigned length =
            (unsigned)snprintf(line, sizeof line, "%u times %d is %u.\n", i, (int)seed, i * (unsigned)seed);
        hst_corpus_add_bytes(text, line, length);
        n += length;
    }
    return text;
}

static void copy_weights(training *t, const hst_parameters *list) {
    t->count = hst_parameter_elements(list);
    t->weights = malloc((size_t)t->count * sizeof *t->weights);
    float *next = t->weights;
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const hst_tensor *value = hst_parameter_value(list, i);
        hst_copy_out(value, HST_F32, next);
        next += hst_count(value);
    }
}

// Everything that a program does with a context, from its opening to its end.
static void *train(void *argument) {
    training *t = argument;
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 2});
    hst_corpus *text = numbered_lines(ctx, t->seed);
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = t->hidden;
    o.layers = LAYERS;
    o.batch = 4;
    o.length = 12;
    o.steps = STEPS;
    o.dropout = 0.2;
    o.seed = t->seed;
    hst_trainer *trainer = hst_trainer_new(ctx, &o, text, NULL);
    for (int i = 0; i < STEPS; i++) hst_trainer_step(trainer, &t->losses[i]);
    if (hst_get_status(ctx) == HST_OK) copy_weights(t, hst_lm_parameters(hst_trainer_model(trainer)));
    hst_trainer_free(trainer);
    hst_corpus_free(text);
    hst_close(ctx);
    return NULL;
}

// Large enough for the products to be split over the threads of each context.
static const training trainings[2] = {{.seed = 3, .hidden = 96}, {.seed = 7, .hidden = 72}};

static bool same(const training *a, const training *b) {
    return a->weights && b->weights && a->count == b->count && !memcmp(a->losses, b->losses, sizeof a->losses) &&
           !memcmp(a->weights, b->weights, (size_t)a->count * sizeof *a->weights);
}

int main(void) {
    training alone[2] = {trainings[0], trainings[1]}, together[2] = {trainings[0], trainings[1]};
    pthread_t threads[2];
    bool right = true;
    for (int i = 0; i < 2; i++) train(&alone[i]);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, train, &together[i]) != 0) return 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        bool learned = alone[i].losses[STEPS - 1] < alone[i].losses[0], equal = same(&alone[i], &together[i]);
        if (!learned) printf("training %d: the loss did not fall\n", i);
        if (!equal) printf("training %d: another result than alone\n", i);
        right = right && learned && equal;
        free(alone[i].weights);
        free(together[i].weights);
    }
    return right ? 0 : 1;
}
