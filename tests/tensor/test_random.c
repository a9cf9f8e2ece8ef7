// test_random.c: the Philox streams.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tensor/context.h"

// The known answers of the Random123 distribution for philox4x32-10. The counter's words are: the low 32 bits of the
// block; its high 8 bits below the low 24 of the step; the step's other 32; the operation. The seed is the key.
Test(tensor, philox_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        const uint32_t *c = known[i].counter;
        hst_random_key key = {.seed = (uint64_t)known[i].key[1] << 32 | known[i].key[0],
                              .step = (uint64_t)c[2] << 24 | c[1] >> 8,
                              .operation = c[3]};
        uint32_t words[4];
        hst_philox(key, (uint64_t)(c[1] & 0xff) << 32 | c[0], words);
        cr_assert_arr_eq(words, known[i].answer, sizeof words, "vector %d: %08x %08x %08x %08x", i, words[0], words[1],
                         words[2], words[3]);
    }
}

static hst_context *open_seeded(uint64_t seed) {
    return hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1, .seed = seed});
}

enum { N = 4001 };

static void draw(hst_context *ctx, int64_t count, float *values) {
    hst_scope_begin(ctx);
    hst_copy_out(hst_uniform(ctx, HST_F32, 1, &count, 0, 1), HST_F32, values);
    hst_scope_end(ctx, NULL);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

// Element i is word i % 4 of block i / 4, of the seed, step and operation that are due.
Test(tensor, uniform_numbers_are_the_stream) {
    static float values[N];
    hst_context *ctx = open_seeded(77);
    hst_random_step(ctx, 5);
    for (uint32_t operation = 0; operation < 3; operation++) {
        draw(ctx, N, values);
        for (int i = 0; i < N; i++) {
            uint32_t words[4];
            hst_philox((hst_random_key){77, 5, operation}, (uint64_t)i / 4, words);
            cr_assert_eq(values[i], (float)(words[i % 4] >> 8) / 16777216, "element %d", i);
        }
    }
    hst_close(ctx);
}

// The same numbers for the same seed, other ones for another seed, step or operation.
Test(tensor, uniform_numbers_repeat_by_seed_and_step) {
    static float first[N], other[N];
    hst_context *ctx = open_seeded(1);
    draw(ctx, N, first);
    draw(ctx, N, other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0, "the next operation");
    hst_random_step(ctx, 1);
    draw(ctx, N, other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0, "the next step");
    hst_random_step(ctx, 0);
    draw(ctx, N, other);
    cr_assert_arr_eq(first, other, sizeof first, "the first step again");
    hst_seed(ctx, 2);
    draw(ctx, N, other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0, "another seed");
    hst_random_step(ctx, 9);
    hst_seed(ctx, 1);
    for (int64_t count = 1; count < 40; count++) { // of any number of elements
        draw(ctx, count, other);
        cr_assert_arr_eq(first, other, (size_t)count * sizeof *first, "%lld elements of the seed again",
                         (long long)count);
        hst_seed(ctx, 1);
    }
    hst_close(ctx);
}

// Independent uniform numbers on [low, high), d = high - low: the mean of n lies within 5 standard deviations,
// 5 d / sqrt(12 n), of the middle; their variance, d^2 / 12, has the standard deviation d^2 sqrt((1/80 - 1/144) / n).
static void check_moments(const hst_tensor *t, double low, double high) {
    double n = (double)hst_count(t), d = high - low, mean = 0, variance = 0;
    for (int64_t i = 0; i < hst_count(t); i++) {
        double x = hst_item(t, &i);
        cr_assert(x >= low && x <= high, "%g is not in [%g, %g]", x, low, high);
        mean += x / n;
    }
    for (int64_t i = 0; i < hst_count(t); i++) variance += pow(hst_item(t, &i) - mean, 2) / n;
    cr_assert_float_eq(mean, (low + high) / 2, 5 * d / sqrt(12 * n), "mean %g", mean);
    cr_assert_float_eq(variance, d * d / 12, 5 * d * d * sqrt((1.0 / 80 - 1.0 / 144) / n), "variance %g", variance);
}

Test(tensor, uniform_moments) {
    hst_context *ctx = open_seeded(3);
    check_moments(hst_uniform(ctx, HST_F32, HST_SHAPE(100001), 0, 1), 0, 1);
    check_moments(hst_uniform(ctx, HST_F64, HST_SHAPE(100001), -3, 5), -3, 5);
    check_moments(hst_uniform(ctx, HST_F16, HST_SHAPE(100001), -0.5, 0.5), -0.5, 0.5);
    hst_close(ctx);
}
