// cases_sru.c: the SRU recurrence, option by option.
#include "tests/gradients/cases.h"

enum { SKIP = 1, GATES = 2, STATE = 4, MASK = 8, PAD = 16, LAST = 32, FOUR = 64, SCALED = 128 };

// L 5, B 2, D 3. Leaves: u, x, v, bias, c0.
static hst_tensor *recurrence(hst_context *ctx, hst_tensor *const *x, void *user) {
    int o = ((const gradient_case *)user)->option;
    static const uint8_t pads[10] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 1}; // front, middle and end
    hst_tensor *mask =
        o & MASK ? hst_from_array(ctx, HST_F32, HST_SHAPE(2, 3), HST_F64, (double[]){2, 0, 1, 0, 1.25, 0.5}) : NULL;
    hst_tensor *pad = o & PAD ? hst_from_array(ctx, HST_U8, HST_SHAPE(5, 2), HST_U8, pads) : NULL, *c_last;
    hst_recurrence options = {o & FOUR ? 4 : 3, o & SCALED ? 1.7 : 1.0};
    hst_tensor *h = hst_sru_recurrence(x[0], o & SKIP ? x[1] : NULL, o & GATES ? x[2] : NULL, x[3],
                                       o & STATE ? x[4] : NULL, mask, pad, options, &c_last);
    if (!(o & LAST)) return h;
    return hst_add(hst_sum(h), hst_scale(hst_mean(c_last), 3)); // both results used
}

// clang-format off
#define SRU(option, planes) \
    {"sru_recurrence", #option, recurrence, {{3, {5, 2, 3 * planes}}, {3, {5, 2, 3}}, {1, {6}}, {1, {6}}, {2, {2, 3}}}, option}
const gradient_case cases_sru[] = {
    SRU(0, 3),
    SRU(SKIP, 3),
    SRU(GATES, 3),
    SRU(SKIP | GATES, 3),
    SRU(SKIP | GATES | STATE, 3),
    SRU(SKIP | GATES | STATE | SCALED, 3),
    SRU(SKIP | GATES | STATE | MASK, 3),
    SRU(SKIP | GATES | STATE | PAD, 3),
    SRU(SKIP | GATES | STATE | MASK | PAD | LAST | SCALED, 3),
    SRU(GATES | STATE | MASK | PAD | LAST, 3),
    SRU(FOUR, 4),
    SRU(FOUR | GATES | STATE, 4),
    SRU(FOUR | GATES | STATE | MASK | PAD | LAST, 4),
    SRU(LAST, 3),
    {0}};
// clang-format on
