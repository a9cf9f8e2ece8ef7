// test_language_model.c: what the model does for speed changes no bit of its results: the first layer's product of the
// embedding's table, and the loss without all logits at once.
#include <math.h>
#include "autograd/autograd.h"
#include "models/language_model.h"
#include "tests/temporary.h"

TestSuite(language_model, .init = set_up, .fini = tear_down);

enum { VOCABULARY = 11, LENGTH = 8, BATCH = 4 };

static hst_lm *small_model(bool dropout) {
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = VOCABULARY, config.hidden = 24, config.layers = 2;
    config.rnn_dropout = dropout ? 0.25 : 0;
    return hst_lm_new(ctx, &config);
}

static hst_tensor *symbols(int64_t length, int64_t batch, int step) {
    hst_tensor *t = hst_zeros(ctx, HST_I32, HST_SHAPE(length, batch));
    int32_t *id = hst_mutable_data(t);
    for (int64_t i = 0; i < length * batch; i++) id[i] = (int32_t)(i * step % VOCABULARY);
    return t;
}

// The model's parts one after the other, x from the embedding first.
static hst_tensor *by_places(const hst_lm *m, hst_tensor *ids, bool training) {
    hst_tensor *c, *h = hst_sru_forward(m->sru, hst_embedding(m->embedding, ids), NULL, NULL, training, &c);
    h = hst_layer_norm(h, m->norm_gain, m->norm_bias, HST_NORM_EPS);
    return hst_linear(h, hst_transpose(m->output, 0, 1), m->output_bias);
}

static void expect_same(const char *what, const hst_tensor *x, const hst_tensor *y) {
    cr_assert(x && y, "%s: %s", what, hst_error(ctx));
    cr_assert_eq(hst_count(x), hst_count(y));
    cr_expect_arr_eq(hst_data((hst_tensor *)x), hst_data((hst_tensor *)y), (size_t)hst_count(x) * sizeof(hst_real),
                     "%s differ", what);
}

Test(language_model, the_product_of_the_table_has_the_bits_of_that_of_the_text) {
    hst_lm *m = small_model(false);
    hst_tensor *ids = symbols(LENGTH, BATCH, 5);
    expect_same("logits", hst_lm_forward(m, ids, NULL, true, NULL), by_places(m, ids, true));
    // And of fewer places than symbols, one of the two at a time.
    for (int64_t b = 0; b < BATCH; b++) {
        hst_tensor *lane = hst_cast(hst_slice(ids, 1, b, b + 1), HST_I32);
        hst_tensor *whole = hst_slice(hst_lm_forward(m, ids, NULL, false, NULL), 1, b, b + 1);
        expect_same("logits of a lane", hst_lm_forward(m, lane, NULL, false, NULL), hst_cast(whole, HST_F32));
    }
    hst_lm_free(m);
}

// A dropout mask for each lane lies between the table and the product.
Test(language_model, variational_dropout_multiplies_places) {
    hst_lm *m = small_model(true);
    hst_tensor *ids = symbols(LENGTH, BATCH, 5);
    hst_random_step(ctx, 7);
    hst_tensor *y = hst_lm_forward(m, ids, NULL, true, NULL);
    hst_random_step(ctx, 7);
    expect_same("logits", y, by_places(m, ids, true));
    hst_lm_free(m);
}

// dw of the first layer is a sum of 32 terms there, of 11 sums of dU here: each order is within the bound of sums of
// kind (b), and dU itself is the same. The gradients behind it (norm, embedding) are sums over it.
Test(language_model, gradients_by_symbol_are_those_by_place) {
    hst_lm *m = small_model(false);
    hst_parameters *list = m->parameters;
    hst_tensor *ids = symbols(LENGTH, BATCH, 5), *targets = symbols(LENGTH, BATCH, 3), *first[32];
    hst_request_gradients(list, HST_WRITE);
    hst_tensor *loss = hst_lm_loss(m, ids, targets, NULL, true, NULL);
    cr_assert_eq(hst_backward(ctx, loss), HST_OK, "%s", hst_error(ctx));
    int count = hst_parameter_count(list);
    for (int i = 0; i < count; i++) first[i] = hst_cast(hst_grad(hst_parameter_value(list, i)), HST_F64);
    hst_tensor *other = hst_cross_entropy(by_places(m, ids, true), targets);
    expect_same("losses", loss, other);
    cr_assert_eq(hst_backward(ctx, other), HST_OK, "%s", hst_error(ctx));
    for (int i = 0; i < count; i++) {
        hst_tensor *value = hst_parameter_value(list, i);
        const double *x = hst_data(first[i]);
        double apart = 0, size = 0;
        for (int64_t k = 0; k < hst_count(value); k++) {
            double y = hst_load(hst_source_of(hst_grad(value)), k);
            apart += (x[k] - y) * (x[k] - y), size += y * y;
        }
        // Norm-wise: 32 roundings of a sum, and as many of the sums that it goes into.
        cr_expect(sqrt(apart) <= 64 * 0x1p-24 * sqrt(size), "%s: %g of %g", hst_parameter_name(list, i), sqrt(apart),
                  sqrt(size));
    }
    hst_lm_free(m);
}
