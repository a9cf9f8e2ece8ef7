// unsafe_training.c: what apache/mxnet#17703 costs in training. `make experiment` trains a small SRU language model,
// all of it in f16, with safe and with unsafe accumulation, from the same weights on the same batches, once for each
// seed, and writes both mean curves as logs for `halfstep plot`. It takes 15 minutes of a core.
//
// The text is drawn from a Markov chain of order 2 over 8 symbols, so the least possible loss is known: its entropy.
#include <halfstep.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { V = 8, D = 8, L = 100, B = 1000, SEEDS = 5, STEPS = 80, LAST = 20 };
static const double RATE = 4, SCALE = 131072; // of SGD, and of the loss, so that no gradient underflows

// ---- the text ----

typedef struct source {
    uint64_t state;
    double p[V][V][V]; // of a symbol after two others
} source;

static double draw(source *s) { // uniform in [0, 1): splitmix64 (Steele et al. 2014)
    uint64_t z = s->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

// Probabilities from uniform numbers to the 6th: a few symbols are likely, most are rare.
static source new_source(uint64_t seed) {
    source s = {.state = seed};
    for (int a = 0; a < V; a++)
        for (int b = 0; b < V; b++) {
            double sum = 0;
            for (int c = 0; c < V; c++) sum += s.p[a][b][c] = pow(draw(&s), 6);
            for (int c = 0; c < V; c++) s.p[a][b][c] /= sum;
        }
    return s;
}

// Nats a symbol: the pairs' stationary distribution by iteration, then the mean entropy of what follows a pair.
static double entropy(const source *s) {
    double pair[V][V], next[V][V], nats = 0;
    for (int i = 0; i < V * V; i++) (&pair[0][0])[i] = 1.0 / (V * V);
    for (int n = 0; n < 10000; n++) {
        memset(next, 0, sizeof next);
        for (int i = 0; i < V * V * V; i++) next[i / V % V][i % V] += pair[i / V / V][i / V % V] * (&s->p[0][0][0])[i];
        memcpy(pair, next, sizeof pair);
    }
    for (int i = 0; i < V * V * V; i++) {
        double p = (&s->p[0][0][0])[i];
        if (p > 0) nats -= pair[i / V / V][i / V % V] * p * log(p);
    }
    return nats;
}

static int next_symbol(source *s, int a, int b) {
    double u = draw(s);
    int c = 0;
    while (c < V - 1 && (u -= s->p[a][b][c]) >= 0) c++;
    return c;
}

// A batch (L, B) of texts, each from a place of its own in the chain (64 steps from anywhere), and what follows.
typedef struct text {
    uint8_t ids[L * B], targets[L * B];
} text;

static void draw_text(source *s, text *t) {
    for (int lane = 0; lane < B; lane++) {
        int a = (int)(draw(s) * V), b = (int)(draw(s) * V);
        for (int step = -64; step < L; step++) {
            int c = next_symbol(s, a, b);
            if (step >= 0) {
                t->ids[step * B + lane] = (uint8_t)b;
                t->targets[step * B + lane] = (uint8_t)c;
            }
            a = b;
            b = c;
        }
    }
}

// ---- the model: embedding, a layer of SRU, output layer; weights and gradients of one dtype ----

enum { EMBEDDING, WEIGHT, WEIGHT_C, BIAS, OUTPUT, OUTPUT_BIAS, PARAMETERS };
static const struct {
    const char *name;
    int rank;
    int64_t shape[2];
    double bound; // the initial weights are uniform on +- this
} parameters[PARAMETERS] = {{"embedding", 2, {V, D}, 1}, {"weight", 2, {D, 3 * D}, 0.6}, {"weight_c", 1, {2 * D}, 1.7},
                            {"bias", 1, {2 * D}, 0},     {"output", 2, {D, V}, 0.6},     {"output bias", 1, {V}, 0}};
enum { LARGEST = 3 * D * D }; // numbers in a parameter

typedef struct model {
    hst_context *ctx;
    hst_tensor *w[PARAMETERS];
} model;

static model new_model(bool unsafe, hst_dtype dtype, uint64_t seed) {
    model m = {.ctx = hst_open(&(hst_options){
                   .size = sizeof(hst_options), .threads = 1, .seed = seed, .unsafe_accumulation = unsafe})};
    for (int i = 0; i < PARAMETERS; i++) {
        double bound = parameters[i].bound;
        m.w[i] = hst_uniform(m.ctx, dtype, parameters[i].rank, parameters[i].shape, -bound, bound);
        hst_attach_grad(m.w[i], HST_WRITE, dtype);
    }
    return m;
}

static void copy_weights(const model *to, const model *from) {
    for (int i = 0; i < PARAMETERS; i++) {
        double w[LARGEST];
        hst_copy_out(from->w[i], HST_F64, w);
        hst_copy_in(to->w[i], HST_F64, w);
    }
}

static hst_tensor *loss_of(const model *m, const text *t) {
    hst_tensor *ids = hst_from_array(m->ctx, HST_U8, HST_SHAPE(L, B), HST_U8, t->ids);
    hst_tensor *targets = hst_from_array(m->ctx, HST_U8, HST_SHAPE(L, B), HST_U8, t->targets);
    hst_tensor *x = hst_embedding(m->w[EMBEDDING], ids), *u = hst_matmul(x, m->w[WEIGHT]);
    hst_tensor *h =
        hst_sru_recurrence(u, x, m->w[WEIGHT_C], NULL, m->w[BIAS], NULL, NULL, NULL, hst_recurrence_defaults(), NULL);
    return hst_cross_entropy(hst_linear(h, m->w[OUTPUT], m->w[OUTPUT_BIAS]), targets);
}

// The loss, and with it the scaled gradients.
static double differentiate(const model *m, const text *t) {
    hst_scope_begin(m->ctx);
    hst_tensor *loss = loss_of(m, t);
    double nats = hst_item(loss, NULL);
    hst_backward(m->ctx, hst_scale(loss, SCALE));
    hst_scope_end(m->ctx, NULL);
    return nats;
}

// w = w - RATE g, rounded once to f16.
static void descend(const model *m) {
    for (int i = 0; i < PARAMETERS; i++) {
        double w[LARGEST], g[LARGEST];
        hst_copy_out(m->w[i], HST_F64, w);
        hst_copy_out(hst_grad(m->w[i]), HST_F64, g);
        for (int64_t k = 0; k < hst_count(m->w[i]); k++) w[k] -= RATE / SCALE * g[k];
        hst_copy_in(m->w[i], HST_F64, w);
    }
}

// ---- the comparison: one thread a seed ----

enum { SAFE, UNSAFE };
enum { BEFORE, AFTER }; // training

// The norms of both gradients of a parameter, and of their difference.
typedef struct norms {
    double safe, unsafe, difference;
} norms;

typedef struct pair {
    pthread_t thread;
    uint64_t seed;
    FILE *log;
    double entropy;
    double nats[2][STEPS];       // of each step's batch before the step: of text that is new to the model
    norms norms[2][PARAMETERS];  // of gradients of the same weights on the same batch; after: the safe run's weights
    hst_numerics_scale scale[2]; // what the numerics doctor says of the loss scale
    double zeros[2];             // and the largest share of a gradient's numbers that become 0 in f16
    char error[256];
} pair;

static void compare_gradients(const model m[2], norms *n) {
    for (int i = 0; i < PARAMETERS; i++) {
        double g[LARGEST], h[LARGEST], sums[3] = {0};
        hst_copy_out(hst_grad(m[SAFE].w[i]), HST_F64, g);
        hst_copy_out(hst_grad(m[UNSAFE].w[i]), HST_F64, h);
        for (int64_t k = 0; k < hst_count(m[SAFE].w[i]); k++) {
            sums[0] += g[k] * g[k];
            sums[1] += h[k] * h[k];
            sums[2] += (g[k] - h[k]) * (g[k] - h[k]);
        }
        n[i] = (norms){sqrt(sums[0]) / SCALE, sqrt(sums[1]) / SCALE, sqrt(sums[2]) / SCALE};
    }
}

// What becomes 0 in f16, as fp32 knows it: the same weights in fp32, under the eyes of the numerics doctor.
static void examine_scale(pair *p, int when, const model *weights, const text *t) {
    model m = new_model(false, HST_F32, p->seed);
    copy_weights(&m, weights);
    hst_numerics *n = hst_numerics_begin(m.ctx, SCALE);
    for (int i = 0; i < PARAMETERS; i++) hst_numerics_watch(n, m.w[i], parameters[i].name);
    differentiate(&m, t);
    hst_numerics_end(n);
    p->scale[when] = hst_numerics_scale_of(n);
    for (int i = 0; i < hst_numerics_tensor_count(n); i++) {
        const hst_numerics_tensor *x = hst_numerics_tensor_at(n, i);
        bool gradient = x->kind == HST_NUMERICS_WEIGHT_GRADIENT || x->kind == HST_NUMERICS_RESULT_GRADIENT;
        if (gradient) p->zeros[when] = fmax(p->zeros[when], x->f16.zero);
    }
    if (hst_get_status(m.ctx)) snprintf(p->error, sizeof p->error, "%s", hst_error(m.ctx));
    hst_numerics_free(n);
    hst_close(m.ctx);
}

static void train(pair *p, source *s, const model m[2], text *t) {
    for (int step = 0; step < STEPS; step++) {
        draw_text(s, t);
        for (int k = 0; k < 2; k++) p->nats[k][step] = differentiate(&m[k], t);
        if (step == 0) compare_gradients(m, p->norms[BEFORE]);
        if (step == 0) examine_scale(p, BEFORE, &m[SAFE], t);
        for (int k = 0; k < 2; k++) descend(&m[k]);
        fprintf(p->log, "seed %d step %d safe %.6f unsafe %.6f\n", (int)p->seed, step, p->nats[SAFE][step],
                p->nats[UNSAFE][step]);
        fflush(p->log);
    }
}

static void look_back(pair *p, const model m[2], const text *t) {
    copy_weights(&m[UNSAFE], &m[SAFE]);
    for (int k = 0; k < 2; k++) differentiate(&m[k], t);
    compare_gradients(m, p->norms[AFTER]);
    examine_scale(p, AFTER, &m[SAFE], t);
}

static void *run(void *arg) {
    pair *p = arg;
    model m[2] = {new_model(false, HST_F16, p->seed), new_model(true, HST_F16, p->seed)};
    source s = new_source(p->seed);
    text *t = malloc(sizeof *t);
    p->entropy = entropy(&s);
    if (t) {
        train(p, &s, m, t);
        draw_text(&s, t);
        look_back(p, m, t);
    } else
        strcpy(p->error, "out of memory");
    for (int k = 0; k < 2; k++) {
        if (hst_get_status(m[k].ctx)) snprintf(p->error, sizeof p->error, "%s", hst_error(m[k].ctx));
        hst_close(m[k].ctx);
    }
    free(t);
    return NULL;
}

// ---- what came out ----

// A curve as a run's log: the mean over the seeds of a kind's losses; without a kind the entropies'.
static bool write_curve(const char *folder, const char *name, const pair *pairs, int kind) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/log.jsonl", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) return perror(path), false;
    for (int step = 0; step < STEPS; step++) {
        double mean = 0;
        for (int s = 0; s < SEEDS; s++) mean += (kind < 0 ? pairs[s].entropy : pairs[s].nats[kind][step]) / SEEDS;
        fprintf(file, "{\"event\":\"step\",\"step\":%d,\"loss\":%.6f,\"smooth_loss\":%.6f}\n", step, mean, mean);
    }
    return fclose(file) == 0;
}

static void print_gradients(const pair *pairs, int when) {
    printf("\nGradients of the same weights, %s training; means of %d seeds\n%-12s %10s %10s %10s\n",
           when == BEFORE ? "before" : "after safe", SEEDS, "norms", "safe", "unsafe", "difference");
    for (int i = 0; i < PARAMETERS; i++) {
        norms mean = {0};
        for (int s = 0; s < SEEDS; s++) {
            const norms *n = &pairs[s].norms[when][i];
            mean.safe += n->safe / SEEDS;
            mean.unsafe += n->unsafe / SEEDS;
            mean.difference += n->difference / SEEDS;
        }
        printf("%-12s %10.5f %10.5f %10.5f\n", parameters[i].name, mean.safe, mean.unsafe, mean.difference);
    }
    double least = 0, most = INFINITY, zeros = 0;
    for (int s = 0; s < SEEDS; s++) {
        least = fmax(least, pairs[s].scale[when].least);
        most = fmin(most, pairs[s].scale[when].most);
        zeros = fmax(zeros, pairs[s].zeros[when]);
    }
    printf("loss scale %.0f; needed at least %g, at most %g; of no gradient more than %.2g %% becomes 0\n", SCALE,
           least, most, 100 * zeros);
}

// Mean losses from step `first` on, and the mean of the pairs' differences with its standard error.
static void print_losses(const pair *pairs, int first) {
    double differences[SEEDS], mean = 0, squares = 0;
    printf("\nNats a symbol, mean of steps %d to %d\n%-6s %10s %10s %10s %12s\n", first, STEPS - 1, "seed", "entropy",
           "safe", "unsafe", "difference");
    for (int s = 0; s < SEEDS; s++) {
        double nats[2] = {0};
        for (int k = 0; k < 2; k++)
            for (int step = first; step < STEPS; step++) nats[k] += pairs[s].nats[k][step] / (STEPS - first);
        differences[s] = nats[UNSAFE] - nats[SAFE];
        mean += differences[s] / SEEDS;
        printf("%-6d %10.4f %10.4f %10.4f %12.4f\n", (int)pairs[s].seed, pairs[s].entropy, nats[SAFE], nats[UNSAFE],
               differences[s]);
    }
    for (int s = 0; s < SEEDS; s++) squares += (differences[s] - mean) * (differences[s] - mean);
    printf("unsafe - safe: %.4f +- %.4f (standard error)\n", mean, sqrt(squares / (SEEDS - 1) / SEEDS));
}

int main(int argc, char **argv) {
    static pair pairs[SEEDS];
    char path[512];
    if (argc != 2) return fprintf(stderr, "usage: unsafe_training FOLDER\n"), 2;
    snprintf(path, sizeof path, "%s/losses.txt", argv[1]);
    FILE *log = fopen(path, "w");
    if (!log) return perror(path), 1;
    for (int s = 0; s < SEEDS; s++) {
        pairs[s].seed = (uint64_t)s + 1;
        pairs[s].log = log;
        if (pthread_create(&pairs[s].thread, NULL, run, &pairs[s])) return fprintf(stderr, "no more threads\n"), 1;
    }
    for (int s = 0; s < SEEDS; s++) pthread_join(pairs[s].thread, NULL);
    fclose(log);
    for (int s = 0; s < SEEDS; s++)
        if (*pairs[s].error) return fprintf(stderr, "seed %d: %s\n", s + 1, pairs[s].error), 1;
    print_losses(pairs, 0);
    print_losses(pairs, STEPS - LAST);
    print_gradients(pairs, BEFORE);
    print_gradients(pairs, AFTER);
    bool written = write_curve(argv[1], "safe accumulation", pairs, SAFE) &&
                   write_curve(argv[1], "unsafe accumulation", pairs, UNSAFE) &&
                   write_curve(argv[1], "entropy of the source", pairs, -1);
    return written ? 0 : 1;
}
