// suggest.c: sizes for a run of a given duration. What decides is how many operations the machine does in it: too large
// a model sees too little text, too small a one has learned early what it can. Of the rows below those from 2e12 and
// from 8e12 ended best among the few sizes that were tried with such budgets, a minute's and three minutes' of two
// cores. That from 60e12 was tried once, for twenty minutes; the others go on in the same way, untried.
#include <math.h>
#include "autograd/autograd.h"
#include "ops/ops.h"
#include "train/trainer.h"

typedef struct row {
    double budget; // from so many operations on
    int64_t hidden, batch, length;
    int layers;
    double lr;
} row;

static const row rows[] = {
    {0, 128, 8, 64, 4, 8e-3},     {2e12, 192, 8, 64, 4, 6e-3},    {8e12, 192, 8, 64, 6, 5e-3},
    {20e12, 256, 8, 64, 6, 5e-3}, {60e12, 320, 16, 128, 6, 5e-3}, {400e12, 448, 32, 128, 6, 4e-3},
};
enum { ROWS = sizeof rows / sizeof *rows };

// ---- what the machine does in a second ----

static const double SHARE = 0.6;    // of a step's time that is products
enum { M = 512, K = 256, N = 768 }; // as in a layer

// Operations a second of products of such operands; 0 after an error.
static double measure_products(hst_context *ctx, hst_dtype dtype, double seconds) {
    hst_scope_begin(ctx);
    hst_no_grad_begin(ctx);
    hst_tensor *x = hst_full(ctx, dtype, HST_SHAPE(M, K), 1), *w = hst_full(ctx, dtype, HST_SHAPE(K, N), 1);
    double began = 0, spent = 0, count = -1; // the first asks the system for memory
    for (; (count < 1 || spent < seconds) && hst_get_status(ctx) == HST_OK; count++) {
        hst_scope_begin(ctx);
        hst_matmul(x, w);
        hst_scope_end(ctx, NULL);
        if (count < 0) began = hst_seconds();
        spent = hst_seconds() - began;
    }
    hst_no_grad_end(ctx);
    hst_scope_end(ctx, NULL);
    return hst_get_status(ctx) == HST_OK ? 2.0 * M * K * N * count / spent : 0;
}

// ---- the options ----

// Three products a weight: forward, and its two gradients. The first layer's is that of a table, as a rule.
static double operations_a_symbol(const row *r, int64_t vocabulary) {
    double d = (double)r->hidden;
    return 6 * (3 * d * d * (r->layers - 1) + d * (double)vocabulary);
}

bool hst_train_suggest(hst_context *ctx, double seconds, int64_t vocabulary, int64_t symbols, hst_train_options *o) {
    if (!ctx || !o) return false;
    const hst_range ranges[] = {{"seconds", seconds, 0, 1e9},
                                {"vocabulary", (double)vocabulary, 1, 1e9},
                                {"symbols", (double)symbols, 0, 1e18}};
    if (!hst_check_ranges(ctx, "hst_train_suggest", ranges, sizeof ranges / sizeof *ranges)) return false;
    double measured = fmin(0.1, 0.01 * seconds);
    double rate = measure_products(ctx, HST_F32, measured), lower = measure_products(ctx, HST_BF16, measured);
    if (rate == 0 || lower == 0) return false;
    if (lower > 1.3 * rate) o->precision = HST_AMP_BF16, rate = lower;
    double budget = SHARE * rate * seconds;
    const row *r = &rows[ROWS - 1];
    while (budget < r->budget) r--;
    o->hidden = r->hidden, o->batch = r->batch, o->length = r->length, o->layers = r->layers, o->lr = r->lr;
    while (o->batch > 1 && o->batch * o->length >= symbols) o->batch /= 2;
    double epochs = budget / operations_a_symbol(r, vocabulary) / fmax(1, (double)symbols);
    o->dropout = epochs > 8 ? 0.1 : 0;
    return true;
}
