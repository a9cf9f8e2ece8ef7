// memory.c: what a run will need, before it takes it. With V symbols, D, N layers and R = L B rows (steps and lanes)
// it holds, in fp32 numbers:
//
//     weights            V D (twice if not tied) + V + 2 D, and each layer 3 D D + 6 D (projected to P: 4 D P)
//     beside each weight its gradient, one (momentum) or two (m, v) of the optimizer's, and its average if there is one
//     embedding          R D
//     each layer         R (D + 3 D + D)         normalised input, U, h, and the projection's R P; every 16th state c
//     before the output  R D, and again with dropout
//     loss               2 R V                   logits and their gradient
//     backward           5 R D                   the gradients of one layer, which are gone with the next
//
// An evaluation, in chunks of one lane, holds a layer's x, U and h, and the logits: (5 D + V) a row.
#include <math.h>
#include "tensor/backend.h"
#include "train/trainer.h"

double hst_train_memory(const hst_train_options *o, int64_t vocabulary) {
    if (!o) return 0;
    double v = (double)vocabulary, d = (double)o->hidden, n = o->layers, rows = (double)o->batch * (double)o->length;
    double p = (double)o->projection, matrices = p > 0 ? 4 * d * p : 3 * d * d;
    double weights = v * d * (o->tied ? 1 : 2) + v + 2 * d + n * (matrices + 6 * d);
    double states = d * (double)o->batch * ceil((double)o->length / HST_SRU_SEGMENT);
    double training = rows * (d + n * (5 * d + p) + d + (o->dropout > 0 ? d : 0) + 2 * v + 5 * d) + n * states;
    double evaluation = HST_EVALUATED_CHUNK * (5 * d + v);
    int copies = (o->optimizer == HST_SGD ? 3 : 4) + (o->ema > 0);
    return (weights * copies + fmax(training, evaluation)) * sizeof(hst_real);
}
