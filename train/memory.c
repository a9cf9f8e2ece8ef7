// memory.c: what a run will need, before it takes it. With V symbols, D, N layers and R = L B rows (steps and lanes)
// it holds, in numbers of 4 bytes, and of 2 where a preset has 16 bits there, marked *:
//
//     weights            V D (twice if not tied) + V + 2 D, and each layer 3 D D + 6 D (projected to P: 4 D P)
//     beside each weight its gradient, one (momentum) or two (m, v) of the optimizer's, and its average if there is
//     one;
//                        with 16 bits its shadow *
//     embedding          R D                     * where parameters are shown in 16 bits
//     each layer         R (D + 3 D + D)         * normalised input, U, h (not h with recurrence_f32 in a region), and
//                                                the projection's R P; every 16th state c, in 4 bytes
//                        of the first layer V (D + 3 D) instead of R D, if V < R: that is the product of a table
//     before the output  R D                     *, and again with dropout; and its gradient
//     output layer       V D + V                 its gradient, in 4 bytes, as the loss leaves it
//     the larger of
//         loss           R V                     * logits, of the rows that are formed at once
//         backward       5 R D                   * the gradients of one layer, which are gone with the next
//
// An evaluation, in chunks of one lane, holds a layer's x, U and h, 5 D a row *; and V of each row of logits * that it
// forms at once.
#include <math.h>
#include "tensor/backend.h"
#include "train/trainer.h"

double hst_train_memory(const hst_train_options *o, int64_t vocabulary) {
    const hst_precision *preset = o ? hst_precision_of(o->precision) : NULL;
    if (!preset) return 0;
    double v = (double)vocabulary, d = (double)o->hidden, n = o->layers, rows = (double)o->batch * (double)o->length;
    double p = (double)o->projection, matrices = p > 0 ? 4 * d * p : 3 * d * d;
    bool region = preset->region.dtype != HST_F32, shown = preset->parameters != HST_F32;
    double wide = sizeof(hst_real), some = region || shown ? 2 : wide; // bytes of a number, and of those marked *
    double x = shown ? some : wide, h = region && o->recurrence_f32 ? wide : some;

    double weights = v * d * (o->tied ? 1 : 2) + v + 2 * d + n * (matrices + 6 * d);
    double copies = (o->optimizer == HST_SGD ? 3 : 4) + (o->ema > 0), shadow = region || shown ? some : 0;
    double states = n * d * (double)o->batch * ceil((double)o->length / HST_SRU_SEGMENT);
    double first = v < rows ? (4 * v - rows) * d * some : 0, output = (o->dropout > 0 ? 3 : 2) * d * some;
    double layers = rows * (d * x + n * ((4 * d + p) * some + d * h) + output) + first + states * wide;
    double chunk = HST_EVALUATED_CHUNK, most = (double)hst_loss_rows(vocabulary); // rows, and those of logits
    double training = layers + (v * d + v) * wide + fmax(fmin(rows, most) * v, 5 * rows * d) * some;
    double evaluation = (5 * chunk * d + fmin(chunk, most) * v) * some;
    return weights * (copies * wide + shadow) + fmax(training, evaluation);
}
