// advice.c: what the numerics doctor says of what it found. A gradient may be multiplied by a loss scale, and divided
// by it later in fp32; a weight or a result cannot, and has to fit as it is.
#include <math.h>
#include <stdio.h>
#include "amp/doctor.h"

static const double LOSS_ALLOWED = 1e-3;   // of the sum of |x|
static const double SUM_ALLOWED = 1e-2;    // a distance from the sum in fp32
static const double F16_OVERFLOWS = 65520; // what is as large or larger becomes infinite

static bool is_gradient(const hst_tensor_row *row) {
    return row->public.kind == HST_NUMERICS_WEIGHT_GRADIENT || row->public.kind == HST_NUMERICS_RESULT_GRADIENT;
}

// That of a result of one number, a loss, is fp32 under every preset, and as large as the scale itself.
static bool limits_scale(const hst_tensor_row *row) {
    bool loss = row->public.kind == HST_NUMERICS_RESULT_GRADIENT && row->public.count == 1;
    return is_gradient(row) && row->public.largest > 0 && !loss;
}

// The least power of two by which the sizes lose no more than allowed: with 2^s those below 2^(-25 - s) become 0.
static int least_factor(const hst_tensor_row *row) {
    double whole = 0, lost = 0;
    for (int i = 0; i < HST_EXPONENTS; i++) whole += row->sizes[i];
    int i = 0;
    while (i < HST_EXPONENTS && lost + row->sizes[i] <= LOSS_ALLOWED * whole) lost += row->sizes[i++];
    return -25 - (i + HST_LEAST_EXPONENT);
}

// The greatest power of two by which none becomes infinite.
static int most_factor(const hst_tensor_row *row) {
    int s = 15 - ilogb(row->public.largest);
    return ldexp(row->public.largest, s) < F16_OVERFLOWS ? s : s - 1;
}

static double percent(double share) { return 100 * share; }

#define SAY(...) snprintf(row->advice, sizeof row->advice, __VA_ARGS__)

static void advise_on_gradient(hst_tensor_row *row, const hst_numerics_scale *scale) {
    const hst_numerics_tensor *t = &row->public;
    double least = ldexp(scale->used, least_factor(row)), most = ldexp(scale->used, most_factor(row));
    if (least > most)
        SAY("no loss scale fits it into fp16: its small numbers need %.10g, its large ones %.10g at most; it wants "
            "bf16.",
            least, most);
    else if (t->f16.infinite > 0)
        SAY("loss scale %.10g is too high: %.3g %% of its numbers are infinite in fp16; %.10g is the most.",
            scale->used, percent(t->f16.infinite), most);
    else if (t->f16.lost > LOSS_ALLOWED)
        SAY("loss scale %.10g is too low: %.3g %% of its numbers become 0 in fp16, and with them %.3g %% of its size; "
            "%.10g is the least.",
            scale->used, percent(t->f16.zero), percent(t->f16.lost), least);
}

static void advise_on_value(hst_tensor_row *row) {
    const hst_numerics_tensor *t = &row->public;
    if (t->f16.infinite > 0)
        SAY("%.3g %% of its numbers, up to %.3g, are infinite in fp16, which ends at 65504; it wants bf16.",
            percent(t->f16.infinite), t->largest);
    else if (t->f16.lost > LOSS_ALLOWED)
        SAY("%.3g %% of its numbers become 0 in fp16, and with them %.3g %% of its size; it wants bf16.",
            percent(t->f16.zero), percent(t->f16.lost));
}

static void advise_on_tensor(hst_tensor_row *row, const hst_numerics_scale *scale) {
    if (row->public.not_finite > 0)
        SAY("%lld of its numbers are infinite or NaN already, before any rounding to 16 bits.",
            (long long)row->public.not_finite);
    else if (limits_scale(row))
        advise_on_gradient(row, scale);
    else if (!is_gradient(row))
        advise_on_value(row);
}

static void advise_on_sum(hst_sum_finding *row) {
    const hst_numerics_sum *s = &row->public;
    if (isinf(s->f16_added) && !isinf(s->f16_stored))
        SAY("added in fp16 it overflows on the way, although the sum itself would fit: keep it in fp32.");
    else if (s->f16_added > SUM_ALLOWED || s->bf16_added > SUM_ALLOWED)
        SAY("added in fp16 it is off by %.2g %%, in bf16 by %.2g %%; rounded once, by %.2g %% and %.2g %%: keep it in "
            "fp32.",
            percent(s->f16_added), percent(s->bf16_added), percent(s->f16_stored), percent(s->bf16_stored));
}

#undef SAY

// The scale for all gradients together, and which of them set its ends.
static void advise_on_scale(hst_numerics *n) {
    const hst_tensor_row *rows = n->tensors.items, *small = NULL, *large = NULL;
    hst_numerics_scale *scale = &n->scale;
    for (int i = 0; i < n->tensors.count; i++) {
        if (!limits_scale(&rows[i])) continue;
        double least = ldexp(scale->used, least_factor(&rows[i])), most = ldexp(scale->used, most_factor(&rows[i]));
        if (!small || least > scale->least) scale->least = least, small = &rows[i];
        if (!large || most < scale->most) scale->most = most, large = &rows[i];
    }
    if (!small)
        snprintf(n->advice, sizeof n->advice, "there are no gradients.");
    else if (scale->least > scale->most)
        snprintf(
            n->advice, sizeof n->advice,
            "no loss scale is right for fp16: %.70s needs at least %.10g, and from above %.10g on %.70s overflows; "
            "bf16 needs none.",
            small->name, scale->least, scale->most, large->name);
    else
        snprintf(n->advice, sizeof n->advice,
                 "in fp16 loss scale %.10g is %s: at least %.10g is needed (%.60s), and above %.10g %.60s overflows.",
                 scale->used,
                 scale->used < scale->least  ? "too low"
                 : scale->used > scale->most ? "too high"
                                             : "right",
                 scale->least, small->name, scale->most, large->name);
}

void hst_advise(hst_numerics *n) {
    for (int i = 0; i < n->tensors.count; i++) advise_on_tensor((hst_tensor_row *)n->tensors.items + i, &n->scale);
    for (int i = 0; i < n->sums.count; i++) advise_on_sum((hst_sum_finding *)n->sums.items + i);
    advise_on_scale(n);
}
