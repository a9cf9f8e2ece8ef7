// sums.c: the list of all sums, in the order of the op table. linear_cross_entropy has no rows: it adds with the
// kernels of linear, token_losses and mean.
#include "ops/sums.h"
#include "ops/ops.h"
#include <stdio.h>

#define A HST_SUM_REDUCTION
#define B HST_SUM_PRODUCT
#define C HST_SUM_RECURRENCE
#define D HST_SUM_CARRIED

const hst_sum_row hst_sum_table[] = {
    {"linear", "y", B, "x w over K"},
    {"linear", "dx", B, "dy w over N"},
    {"linear", "dw", B, "x dy over the rows"},
    {"linear", "dbias", A, "dy over the rows"},
    {"matmul", "y", B, "a b over K"},
    {"matmul", "da", B, "dy b over N and what repeats a"},
    {"matmul", "db", B, "a dy over M and what repeats b"},
    {"embedding", "dtable", A, "dy of every id that names the row"},
    {"embedding", "the norm for max_norm", A, "sizes of the row to the power of norm_power"},
    {"layer_norm", "y", A, "x over the row"},
    {"layer_norm", "y", A, "(x - mean)^2 over the row"},
    {"layer_norm", "dx", A, "dy gain over the row"},
    {"layer_norm", "dx", A, "dy gain n over the row"},
    {"layer_norm", "dgain", A, "dy n over the rows"},
    {"layer_norm", "dbias", A, "dy over the rows"},
    {"rms_norm", "y", A, "x^2 over the row"},
    {"rms_norm", "dx", A, "dy gain n over the row"},
    {"rms_norm", "dgain", A, "dy n over the rows"},
    {"sru_recurrence", "h", C, "the state c, step by step"},
    {"sru_recurrence", "dc0", C, "the running dc, step by step"},
    {"sru_recurrence", "dv", C, "dU1 p, dU2 p over steps and batch"},
    {"sru_recurrence", "dbias", C, "dU1, dU2 over steps and batch"},
    {"add", "da", A, "dy over what repeats a"},
    {"add", "db", A, "dy over what repeats b"},
    {"sub", "da", A, "dy over what repeats a"},
    {"sub", "db", A, "-dy over what repeats b"},
    {"mul", "da", A, "dy b over what repeats a"},
    {"mul", "db", A, "dy a over what repeats b"},
    {"div", "da", A, "dy / b over what repeats a"},
    {"div", "db", A, "-dy a / b^2 over what repeats b"},
    {"sum", "y", A, "x"},
    {"mean", "y", A, "x"},
    {"max", "dx", A, "1 for each x that equals y"},
    {"softmax", "y", A, "exp(x - max x)"},
    {"softmax", "dx", A, "dy y"},
    {"log_softmax", "y", A, "exp(x - max x)"},
    {"log_softmax", "dx", A, "dy"},
    {"token_losses", "losses", A, "exp(x - max x) over the row"},
    {"token_losses", "dlogits", A, "exp(x - max x) over the row"},
    {"broadcast_to", "dx", A, "dy over what repeats x"},
    {"where", "da", A, "dy where the condition holds, over what repeats a"},
    {"where", "db", A, "dy where it does not, over what repeats b"},
    {"take", "dx", A, "dy of every id that names the entry"},
    {"hst_backward", "dy of a result used several times", D, "dx of each use"},
    {"hst_backward", "a gradient that is added to", D, "dx of each call"},
    {"hst_gradient_norm", "the norm", A, "squares of all gradients"},
    {"hst_unscale_gradients", "the norm", A, "squares of all gradients, unscaled"},
    {"hst_optimizer_step", "m", D, "(1 - beta1) g of each step"},
    {"hst_optimizer_step", "v", D, "(1 - beta2) g^2 of each step"},
    {"hst_ema_update", "the average", D, "(1 - decay) w of each step"},
};
#undef A
#undef B
#undef C
#undef D
const int hst_sum_count = sizeof hst_sum_table / sizeof *hst_sum_table;

size_t hst_op_sums(char *text, size_t size) {
    size_t length = 0;
    if (size > 0) *text = 0;
    for (int i = 0; i < hst_sum_count; i++) {
        const hst_sum_row *s = &hst_sum_table[i];
        length += (size_t)snprintf(length < size ? text + length : NULL, length < size ? size - length : 0,
                                   "%-18s %-33s (%c) %s\n", s->operation, s->result, "abcd"[s->kind], s -> terms);
    }
    return length;
}
