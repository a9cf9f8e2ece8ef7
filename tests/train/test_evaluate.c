// test_evaluate.c: the evaluation protocols against the plainest loop: one symbol at a time, each loss by hand.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tensor/context.h"
#include "train/halfstep.h"

static bool keep(int64_t symbol, void *user) {
    uint8_t **at = user;
    *(*at)++ = (uint8_t)symbol;
    return true;
}

static hst_lm *make_model(hst_context *ctx) {
    hst_lm_config config = hst_lm_defaults();
    config.hidden = 24;
    config.layers = 2;
    return hst_lm_new(ctx, &config);
}

// The loss of every prediction, from the logits of single steps; the state is emptied every `reset` predictions.
static double one_by_one(hst_context *ctx, const hst_lm *model, const uint8_t *bytes, int64_t count, int64_t reset) {
    double sum = 0;
    hst_no_grad_begin(ctx);
    hst_scope_begin(ctx);
    hst_tensor *state = hst_zeros(ctx, HST_F32, HST_SHAPE(2, 1, 24));
    for (int64_t i = 0; i + 1 < count; i++) {
        double logits[256], total = 0;
        hst_scope_begin(ctx);
        hst_tensor *next, *ids = hst_from_array(ctx, HST_U8, HST_SHAPE(1, 1), HST_U8, bytes + i);
        hst_tensor *y = hst_lm_forward(model, ids, reset && i % reset == 0 ? NULL : state, false, &next);
        hst_copy_out(y, HST_F64, logits);
        float values[2 * 24];
        hst_copy_out(next, HST_F32, values);
        hst_copy_in(state, HST_F32, values);
        for (int v = 0; v < 256; v++) total += exp(logits[v]);
        sum += log(total) - logits[bytes[i + 1]];
        hst_scope_end(ctx, NULL);
    }
    hst_scope_end(ctx, NULL);
    hst_no_grad_end(ctx);
    return sum / (double)(count - 1);
}

Test(train, evaluation_is_exact_for_every_protocol) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 3});
    hst_lm *model = make_model(ctx);
    enum { COUNT = 2200 }; // more than two chunks of one lane
    uint8_t bytes[COUNT];
    for (int i = 0; i < COUNT; i++) bytes[i] = (uint8_t)(i * i / 7 % 200 + 32);
    const int64_t counts[] = {COUNT, 2, 3, 65, 66, 500}, resets[] = {0, 1, 2, 64, 65, 1100, 5000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t r = 0; r < sizeof resets / sizeof *resets; r++) {
            double nats;
            cr_assert(hst_lm_evaluate(model, hst_byte_symbols(bytes, counts[c]), resets[r], NULL, &nats) == HST_OK,
                      "%s", hst_error(ctx));
            double expected = one_by_one(ctx, model, bytes, counts[c], resets[r]);
            // Logits are sums of 24 terms in fp32, the same in both; a loss of about 5.5 is rounded once to fp32:
            // 2^-22.
            cr_expect_float_eq(nats, expected, 1e-6, "count %d reset %d: %.9f, expected %.9f", (int)counts[c],
                               (int)resets[r], nats, expected);
        }
    cr_expect(hst_lm_evaluate(model, hst_byte_symbols(bytes, 1), 0, NULL, &(double){0}) == HST_ERROR_VALUE);
    hst_lm_free(model);
    hst_close(ctx);
}

// A large vocabulary: an evaluation's losses are those of all logits at once, and it holds as many logits as training.
Test(train, evaluation_never_holds_all_logits_of_a_large_vocabulary) {
    enum { V = 8000, D = 8, L = 64, B = 64, COUNT = L * B + 1 }; // all places are one forward pass
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 3});
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = V, config.hidden = D, config.layers = 1;
    hst_lm *model = hst_lm_new(ctx, &config);
    static int32_t text[COUNT], ids[L * B], targets[L * B];
    for (int i = 0; i < COUNT; i++) text[i] = (int32_t)(i * (int64_t)i * 31 % V);
    static float losses[COUNT - 1], expected[L * B];
    hst_memory before, after;
    double nats, sum = 0;
    hst_memory_stats(ctx, &before);
    cr_assert_eq(hst_lm_evaluate(model, (hst_symbols){text, HST_I32, COUNT}, L, losses, &nats), HST_OK, "%s",
                 hst_error(ctx));
    hst_memory_stats(ctx, &after);
    // Of the rest, x, U, the first layer's table and all that is small need fewer than 16 D numbers for each place.
    int64_t logits = hst_loss_rows(V) * V, rest = (L * B + V) * 16 * D;
    cr_expect(after.peak_total - before.current_total < (logits + rest) * (int64_t)sizeof(float), "%lld bytes",
              (long long)(after.peak_total - before.current_total));
    for (int i = 0; i < L * B; i++) ids[i] = text[i % B * L + i / B], targets[i] = text[i % B * L + i / B + 1];
    hst_no_grad_begin(ctx);
    hst_tensor *all =
        hst_lm_forward(model, hst_from_array(ctx, HST_I32, HST_SHAPE(L, B), HST_I32, ids), NULL, false, NULL);
    hst_copy_out(hst_token_losses(all, hst_from_array(ctx, HST_I32, HST_SHAPE(L, B), HST_I32, targets)), HST_F32,
                 expected);
    hst_no_grad_end(ctx);
    for (int i = 0; i < L * B; i++) {
        cr_assert_eq(losses[i % B * L + i / B], expected[i], "%d", i); // the order of their sums depends on D and V
        sum += expected[i];
    }
    cr_expect_float_eq(nats, sum / (L * B), 1e-12); // sums of 4096 doubles around 9, in two orders
    hst_lm_free(model);
    hst_close(ctx);
}

Test(train, a_state_of_another_model_is_refused) {
    hst_context *ctx = hst_open(NULL);
    hst_lm *model = make_model(ctx);
    const int64_t shapes[][3] = {{5, 1, 24}, {2, 3, 24}, {2, 1, 8}};
    for (int i = 0; i < 3; i++) {
        hst_tensor *ids = hst_zeros(ctx, HST_U8, HST_SHAPE(4, 1)), *c0 = hst_zeros(ctx, HST_F32, 3, shapes[i]);
        cr_expect_null(hst_lm_forward(model, ids, c0, false, NULL));
        cr_expect(hst_get_status(ctx) == HST_ERROR_SHAPE && strstr(hst_error(ctx), "c0 is f32 ("), "%s",
                  hst_error(ctx));
        hst_clear_error(ctx);
    }
    hst_lm_free(model);
    hst_close(ctx);
}

Test(train, a_model_with_weights_that_are_not_finite_has_no_loss) {
    hst_context *ctx = hst_open(NULL);
    hst_lm *model = make_model(ctx);
    double bias[256] = {0}, nats;
    hst_tensor *t = hst_parameter_value(hst_lm_parameters(model), hst_parameter_count(hst_lm_parameters(model)) - 1);
    const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        bias[7] = bad[i];
        hst_copy_in(t, HST_F64, bias);
        cr_expect_eq(hst_lm_evaluate(model, hst_byte_symbols("abc", 3), 0, NULL, &nats), HST_ERROR_DIVERGED);
        hst_clear_error(ctx);
        uint8_t text[8], *at = text;
        hst_sampling s = hst_sampling_defaults();
        cr_expect_eq(hst_lm_generate(model, hst_byte_symbols("a", 1), 4, &s, keep, &at), HST_ERROR_DIVERGED);
        hst_clear_error(ctx);
    }
    hst_lm_free(model);
    hst_close(ctx);
}

// Rounds all weights that products read, and no other.
static void round_products(const hst_lm *model, hst_dtype dtype) {
    hst_parameters *list = hst_lm_parameters(model);
    for (int i = 0; i < hst_parameter_count(list); i++) {
        const char *name = hst_parameter_name(list, i);
        hst_tensor *w = hst_parameter_value(list, i);
        if (hst_rank(w) == 2 && !strstr(name, "embedding")) hst_copy_tensor(w, hst_cast(w, dtype), false);
    }
}

Test(train, evaluation_reads_weights_in_16_bits) {
    for (int k = 0; k < 4; k++) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 4});
        hst_lm_config config = hst_lm_defaults();
        config.hidden = 24, config.layers = 2, config.projection_size = k & 1 ? 7 : 0;
        hst_dtype dtype = k & 2 ? HST_BF16 : HST_F16;
        hst_lm *model = hst_lm_new(ctx, &config);
        hst_symbols text = hst_byte_symbols("weights are read in as many bits as a product needs of them", 59);
        double as_they_are, rounded, expected;
        cr_assert_eq(hst_lm_evaluate_as(model, HST_F32, text, 0, NULL, &as_they_are), HST_OK, "%s", hst_error(ctx));
        cr_assert_eq(hst_lm_evaluate(model, text, 0, NULL, &expected), HST_OK);
        cr_expect_eq(as_they_are, expected);
        cr_assert_eq(hst_lm_evaluate_as(model, dtype, text, 0, NULL, &rounded), HST_OK, "%s", hst_error(ctx));
        round_products(model, dtype);
        cr_assert_eq(hst_lm_evaluate(model, text, 0, NULL, &expected), HST_OK);
        cr_expect(rounded == expected && rounded != as_they_are, "%d: %.17g, %.17g, of f32 %.17g", k, rounded, expected,
                  as_they_are);
        cr_expect_eq(hst_lm_evaluate_as(model, HST_I32, text, 0, NULL, &rounded), HST_ERROR_DTYPE);
        cr_expect_str_eq(hst_error(ctx),
                         "hst_lm_evaluate: weights cannot be read as i32; f32, f16 or bf16 are possible");
        hst_lm_free(model);
        hst_close(ctx);
    }
}

// What hst_lm_generate feeds step by step must be the same as one pass over the whole text: greedy continuation.
Test(train, generation_continues_what_a_whole_pass_predicts) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 4});
    hst_lm *model = make_model(ctx);
    uint8_t text[1 + 40] = "T", *at = text + 1;
    hst_sampling greedy = hst_sampling_defaults();
    greedy.temperature = 0;
    cr_assert(hst_lm_generate(model, hst_byte_symbols(text, 1), 40, &greedy, keep, &at) == HST_OK, "%s",
              hst_error(ctx));
    cr_assert(at == text + 41);
    hst_no_grad_begin(ctx);
    hst_scope_begin(ctx);
    hst_tensor *logits =
        hst_lm_forward(model, hst_from_array(ctx, HST_U8, HST_SHAPE(40, 1), HST_U8, text), NULL, false, NULL);
    for (int i = 0; i < 40; i++) {
        int best = 0;
        for (int v = 1; v < 256; v++)
            if (hst_item(logits, (int64_t[]){i, 0, v}) > hst_item(logits, (int64_t[]){i, 0, best})) best = v;
        cr_expect(text[i + 1] == best, "symbol %d is %d, the whole pass says %d", i, text[i + 1], best);
    }
    hst_scope_end(ctx, NULL);
    hst_no_grad_end(ctx);
    hst_lm_free(model);
    hst_close(ctx);
}

// Weights that are 16-bit numbers already: read as such they give the same text, from fewer bytes.
Test(train, generation_reads_16_bit_weights) {
    for (int k = 0; k < 4; k++) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 4});
        hst_lm_config config = hst_lm_defaults();
        config.hidden = 24, config.layers = 2, config.tied = k & 1, config.projection_size = k & 1 ? 7 : 0;
        hst_dtype dtype = k & 2 ? HST_BF16 : HST_F16;
        hst_lm *model = hst_lm_new(ctx, &config);
        for (int i = 0; i < hst_parameter_count(hst_lm_parameters(model)); i++) {
            hst_tensor *w = hst_parameter_value(hst_lm_parameters(model), i);
            hst_copy_tensor(w, hst_cast(w, dtype), false);
        }
        hst_memory before, after;
        uint8_t texts[2][60];
        for (int lower = 0; lower < 2; lower++) {
            uint8_t *at = texts[lower];
            hst_sampling s = hst_sampling_defaults();
            if (lower) s.weights = dtype;
            hst_memory_stats(ctx, &before);
            cr_assert(hst_lm_generate(model, hst_byte_symbols("T", 1), 60, &s, keep, &at) == HST_OK, "%s",
                      hst_error(ctx));
            hst_memory_stats(ctx, &after);
        }
        // The matrices of the products were indeed kept a second time: two layers of 3 D D, or 4 D P, and 256 D.
        int64_t numbers = 2 * (k & 1 ? 4 * 24 * 7 : 3 * 24 * 24) + 256 * 24;
        cr_expect_geq(after.current[HST_WEIGHTS] - before.current[HST_WEIGHTS], 2 * numbers);
        cr_expect_arr_eq(texts[0], texts[1], sizeof texts[0]);
        hst_lm_free(model);
        hst_close(ctx);
    }
}

Test(train, generation_refuses_weights_that_are_no_floats) {
    hst_context *ctx = hst_open(NULL);
    hst_lm *model = make_model(ctx);
    hst_sampling s = hst_sampling_defaults();
    s.weights = HST_I32;
    uint8_t text[8], *at = text;
    cr_expect_eq(hst_lm_generate(model, hst_byte_symbols("a", 1), 4, &s, keep, &at), HST_ERROR_DTYPE);
    cr_expect_str_eq(hst_error(ctx), "hst_lm_generate: weights cannot be read as i32; f32, f16 or bf16 are possible");
    hst_lm_free(model);
    hst_close(ctx);
}
