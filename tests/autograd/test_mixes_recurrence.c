// test_mixes_recurrence.c: the recurrence with every mix of f32, f16 and bf16 among u, x, the parameters v and bias, c0
// and mask, with h in each dtype and dh in each: values against the naive kernel on the same numbers in f32, gradients
// in the caller's dtype, and no memory that a cast copy would need.
#include "tests/autograd/mixes.h"

TestSuite(mixes_recurrence, .init = open_context, .fini = close_context);

enum { L = 18, B = 2, WIDTH = 3, STATES = B * WIDTH, SIZE = L * STATES, ALL_MIXES = 243 }; // 18: two segments
enum { IN_U, IN_X, IN_V, IN_BIAS, IN_C0, IN_MASK, INPUTS };
static const int counts[INPUTS] = {3 * SIZE, SIZE, 2 * WIDTH, 2 * WIDTH, STATES, STATES};
static const char *const names[INPUTS] = {"du", "dx", "dv", "dbias", "dc0", "dmask"};

// Numbers of the sizes for which tests/ops/test_kernels.c derives an error of 3 * 16 roundings of numbers up to 4, for
// h and all gradients; dv and dbias are sums of L B such, each of up to 64 roundings more.
static const double SLACK = 3 * 16 * 4 * 0x1p-24;
static double slack_of(int input) { return input == IN_V || input == IN_BIAS ? L * B * (SLACK + 64 * 4 * U) : SLACK; }

// Input i has digit i of the mix, v and bias the same one.
static hst_dtype dtype_in(int mix, int input) {
    static const int digit[INPUTS] = {1, 3, 9, 9, 27, 81};
    return (hst_dtype)(mix / digit[input] % FLOATS);
}

// The numbers of an input as drawn: most are in none of the formats.
static void numbers(int input, double *values) {
    static const double low[INPUTS] = {-1, -0.8, -0.25, -2.5, -1, 0}, high[INPUTS] = {1, 0.8, 0.25, -2, 1, 2};
    for (int i = 0; i < counts[input]; i++) {
        uint32_t words[4];
        hst_philox((hst_random_key){.seed = 6, .operation = (uint32_t)input}, (uint64_t)i, words);
        values[i] = low[input] + (high[input] - low[input]) * hst_unit(words[0]);
    }
}

typedef struct results {
    double h[SIZE], c[STATES], gradient[INPUTS][3 * SIZE];
} results;

// One setting: the mix of the inputs, how h is stored, and the dtype that dh has.
typedef struct setting {
    int mix;
    hst_recurrence options;
    hst_dtype dh;
    bool exact_in_f32; // the mix's numbers, but all stored as f32
    bool cast;         // the inputs are casts of f32 leaves
} setting;

static hst_tensor *input_of(hst_context *in, const setting *s, int input, hst_tensor **leaves) {
    static const int ranks[INPUTS] = {3, 3, 1, 1, 2, 2};
    static const int64_t shapes[INPUTS][3] = {{L, B, 3 * WIDTH}, {L, B, WIDTH}, {2 * WIDTH},
                                              {2 * WIDTH},       {B, WIDTH},    {B, WIDTH}};
    double values[3 * SIZE];
    hst_dtype dtype = dtype_in(s->mix, input);
    numbers(input, values);
    for (int i = 0; i < counts[input]; i++) values[i] = rounded(dtype, values[i]);
    hst_dtype stored = s->exact_in_f32 || s->cast ? HST_F32 : dtype;
    leaves[input] = hst_from_array(in, stored, ranks[input], shapes[input], HST_F64, values);
    if (input != IN_MASK) hst_attach_grad(leaves[input], HST_WRITE, stored);
    return s->cast ? hst_cast(leaves[input], dtype) : leaves[input];
}

static hst_tensor *dyadic(hst_context *in, hst_dtype dtype, int rank, const int64_t *shape, uint32_t which) {
    double values[SIZE];
    fill(values, SIZE, 0.125, which); // the same in every format
    return hst_from_array(in, dtype, rank, shape, HST_F64, values);
}

static void run_setting(hst_context *in, const setting *s, results *r) {
    hst_tensor *leaves[INPUTS], *x[INPUTS], *c;
    static const uint8_t pads[L * B] = {[5] = 1, [16] = 1, [33] = 1};
    hst_scope_begin(in);
    for (int i = 0; i < INPUTS; i++) x[i] = input_of(in, s, i, leaves);
    hst_tensor *pad = hst_from_array(in, HST_U8, HST_SHAPE(L, B), HST_U8, pads);
    hst_tensor *dh = dyadic(in, s->dh, HST_SHAPE(L, B, WIDTH), 0), *dc = dyadic(in, s->dh, HST_SHAPE(B, WIDTH), 1);
    hst_tensor *h =
        hst_sru_recurrence(x[IN_U], x[IN_X], x[IN_V], NULL, x[IN_BIAS], x[IN_C0], x[IN_MASK], pad, s->options, &c);
    cr_assert_eq(hst_backward_from(in, 2, (hst_tensor *[]){h, c}, (hst_tensor *[]){dh, dc}), HST_OK, "mix %d: %s",
                 s->mix, hst_error(in));
    cr_assert_eq(hst_dtype_of(h), s->options.names_dtype ? s->options.dtype : hst_dtype_of(x[IN_X]));
    cr_assert_eq(hst_dtype_of(c), HST_F32);
    hst_copy_out(h, HST_F64, r->h), hst_copy_out(c, HST_F64, r->c);
    for (int i = 0; i < IN_MASK; i++) {
        cr_assert_eq(hst_dtype_of(hst_grad(leaves[i])), hst_dtype_of(leaves[i]));
        hst_copy_out(hst_grad(leaves[i]), HST_F64, r->gradient[i]);
    }
    hst_scope_end(in, NULL);
}

// got is want rounded to the dtype, but for errors up to `slack` before that.
static void expect_rounded(const char *what, const setting *s, hst_dtype dtype, int count, const double *got,
                           const double *want, double slack) {
    static const double place[FLOATS] = {0x1p-23, 0x1p-10, 0x1p-7}, smallest[FLOATS] = {0, 0x1p-24, 0};
    for (int i = 0; i < count; i++) {
        cr_assert_eq(got[i], rounded(dtype, got[i]));
        cr_assert_float_eq(got[i], want[i], slack + place[dtype] * fabs(want[i]) + smallest[dtype],
                           "%s, mix %d, h %s, dh %s: element %d is %.9g, not %.9g", what, s->mix,
                           hst_dtype_name(s->options.dtype), hst_dtype_name(s->dh), i, got[i], want[i]);
    }
}

static void expect_setting(const setting *s, const results *got, const results *want) {
    hst_dtype h = s->options.names_dtype ? s->options.dtype : dtype_in(s->mix, IN_X);
    expect_rounded("h", s, h, SIZE, got->h, want->h, SLACK);
    expect_rounded("c_last", s, HST_F32, STATES, got->c, want->c, SLACK);
    for (int i = 0; i < IN_MASK; i++)
        expect_rounded(names[i], s, dtype_in(s->mix, i), counts[i], got->gradient[i], want->gradient[i], slack_of(i));
}

Test(mixes_recurrence, recurrence) {
    static results want, got, through_cast;
    hst_context *naive = hst_open(&(hst_options){.size = sizeof(hst_options), .isa = "naive"});
    for (int mix = 0; mix < ALL_MIXES; mix++) {
        setting s = {.mix = mix, .options = hst_recurrence_defaults(), .exact_in_f32 = true};
        run_setting(naive, &s, &want);
        s.exact_in_f32 = false;
        for (int stored = 0; stored <= FLOATS; stored++)
            for (int dh = 0; dh < FLOATS; dh++) {
                s.options.names_dtype = stored < FLOATS, s.options.dtype = (hst_dtype)(stored % FLOATS);
                s.dh = (hst_dtype)dh, s.cast = false;
                run_setting(ctx, &s, &got);
                expect_setting(&s, &got, &want);
                if (dh > 0) continue;
                s.cast = true; // what comes back to a 16-bit caller has its dtype, so that no bit changes on the way on
                run_setting(ctx, &s, &through_cast);
                cr_assert_eq(memcmp(got.gradient, through_cast.gradient, sizeof got.gradient), 0, "mix %d", mix);
            }
    }
    hst_close(naive);
}

// ---- no cast copies ----

// The most memory that forward, and then backward, take beside the inputs and gradients; h is in `dtype`.
typedef struct taken {
    int64_t forward, both;
} taken;

static taken memory_of(int mix, hst_dtype dtype) {
    hst_context *own = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1});
    setting s = {.mix = mix, .options = {.k = 3, .scale_x = 1, .names_dtype = true, .dtype = dtype}, .dh = dtype};
    hst_tensor *leaves[INPUTS], *c;
    for (int i = 0; i < INPUTS; i++) input_of(own, &s, i, leaves);
    hst_tensor *dh = dyadic(own, dtype, HST_SHAPE(L, B, WIDTH), 0);
    hst_memory before, between, after;
    hst_memory_stats(own, &before);
    cr_assert_eq(before.current_total, before.peak_total, "what was taken before could hide a copy");
    hst_tensor *h = hst_sru_recurrence(leaves[IN_U], leaves[IN_X], leaves[IN_V], NULL, leaves[IN_BIAS], leaves[IN_C0],
                                       leaves[IN_MASK], NULL, s.options, &c);
    hst_memory_stats(own, &between);
    cr_assert_eq(hst_backward_from(own, 1, &h, &dh), HST_OK, "%s", hst_error(own));
    hst_memory_stats(own, &after);
    hst_close(own);
    return (taken){between.peak_total - before.current_total, after.peak_total - before.current_total};
}

Test(mixes_recurrence, recurrence_makes_no_cast_copies) {
    for (int stored = 0; stored < FLOATS; stored++) {
        taken alike = memory_of(0, (hst_dtype)stored);
        for (int mix = 1; mix < ALL_MIXES; mix++) {
            taken mixed = memory_of(mix, (hst_dtype)stored);
            cr_assert(mixed.forward == alike.forward && mixed.both == alike.both,
                      "mix %d, h %d: %d and %d bytes, %d and %d where all is f32", mix, stored, (int)mixed.forward,
                      (int)mixed.both, (int)alike.forward, (int)alike.both);
        }
    }
}
