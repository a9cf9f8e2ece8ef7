// cases_sru.c: the SRU recurrence with every combination of its options.
#include "tests/gradients/cases.h"

enum {
    SKIP = 1, // from x; without it and with three planes there is none
    FOUR = 2, // planes, the fourth is the skip value
    GATES = 4,
    STEPS = 8, // gate weights of each step
    STATE = 16,
    MASK = 32,
    PAD = 64,
    SCALED = 128,
    TANH = 256,
    BOTH = 512, // directions
    ONLY_H = 1024,
    L = 4,
    B = 2,
    D = 4
};

// The sum of x times numbers of both signs.
static hst_tensor *weighted(hst_context *ctx, hst_tensor *x, int64_t count) {
    double factors[L * B * D];
    for (int64_t i = 0; i < count; i++) factors[i] = (double)(i * 7 % 11) / 5 - 0.9;
    hst_tensor *f = hst_from_array(ctx, HST_F32, HST_SHAPE(count, 1), HST_F64, factors);
    return hst_matmul(hst_reshape(x, HST_SHAPE(count)), f);
}

// Leaves: u, x, v, v_steps, bias, c0.
static hst_tensor *recurrence(hst_context *ctx, hst_tensor *const *x, void *user) {
    int o = ((const gradient_case *)user)->option;
    static const uint8_t pads[L * B] = {1, 0, 0, 0, 0, 1, 0, 1}; // at the front; in the middle and at the end
    static const double kept[B * D] = {2, 0, 1, 0.75, 0, 1.25, 0.5, 2};
    hst_tensor *mask = o & MASK ? hst_from_array(ctx, HST_F32, HST_SHAPE(B, D), HST_F64, kept) : NULL;
    hst_tensor *pad = o & PAD ? hst_from_array(ctx, HST_U8, HST_SHAPE(L, B), HST_U8, pads) : NULL, *c_last;
    hst_recurrence options = {.k = o & FOUR ? 4 : 3,
                              .scale_x = o & SCALED ? 1.7 : 1.0,
                              .use_tanh = (o & TANH) != 0,
                              .bidirectional = (o & BOTH) != 0};
    hst_tensor *h = hst_sru_recurrence(x[0], o & SKIP ? x[1] : NULL, o & GATES ? x[2] : NULL, o & STEPS ? x[3] : NULL,
                                       x[4], o & STATE ? x[5] : NULL, mask, pad, options, &c_last);
    if (o & ONLY_H) return h;
    return hst_add(weighted(ctx, h, L * B * D), weighted(ctx, c_last, B * D));
}

// clang-format off
#define ROW(o, k) {"sru_recurrence", #o, recurrence, \
                   {{3, {L, B, k * D}}, {3, {L, B, D}}, {1, {2 * D}}, {3, {L, B, 2 * D}}, {1, {2 * D}}, {2, {B, D}}}, \
                   o},
#define WITH_GATES(o, k) ROW(o, k) ROW(o | GATES, k)
#define WITH_STEPS(o, k) WITH_GATES(o, k) WITH_GATES(o | STEPS, k)
#define WITH_STATE(o, k) WITH_STEPS(o, k) WITH_STEPS(o | STATE, k)
#define WITH_MASK(o, k) WITH_STATE(o, k) WITH_STATE(o | MASK, k)
#define WITH_PAD(o, k) WITH_MASK(o, k) WITH_MASK(o | PAD, k)
#define WITH_TANH(o, k) WITH_PAD(o, k) WITH_PAD(o | TANH, k)
#define WITH_ALL(o, k) WITH_TANH(o, k) WITH_TANH(o | BOTH, k)
const gradient_case cases_sru[] = {
    WITH_ALL(0, 3)
    WITH_ALL(SKIP, 3)
    WITH_ALL(SKIP | SCALED, 3)
    WITH_ALL(FOUR, 4)
    ROW(ONLY_H, 3)
    ROW(ONLY_H | SKIP | GATES | STATE, 3)
    ROW(ONLY_H | FOUR | GATES | STATE | PAD | BOTH | TANH, 4)
    {0}};
// clang-format on
