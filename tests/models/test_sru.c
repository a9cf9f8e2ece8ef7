// test_sru.c: what a stack of SRU layers is besides its numbers: initial values, states, dropout, bad arguments.
#include <math.h>
#include "models/sru.h"
#include "tests/temporary.h"

TestSuite(sru, .init = set_up, .fini = tear_down);

static hst_sru_config small(hst_sru_rules rules) {
    hst_sru_config c = hst_sru_defaults(rules);
    c.input = c.hidden = 4;
    return c;
}

// ---- initial values ----

// The largest |element| in columns [first, last) of a matrix or vector.
static double largest(const hst_tensor *t, int64_t first, int64_t last) {
    int64_t columns = hst_dim(t, -1), rows = hst_count(t) / columns;
    const hst_real *x = hst_data((hst_tensor *)t);
    double most = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = first; j < last; j++) most = fmax(most, fabs((double)x[i * columns + j]));
    return most;
}

// Uniform on +- bound: n numbers all stay below 0.9 of it with probability 0.9^n, which is nothing from 200 on.
static void expect_bound(const char *what, const hst_tensor *t, int64_t first, int64_t last, double bound) {
    double most = largest(t, first, last);
    cr_expect(most <= bound * (1 + 1e-6) && most >= 0.9 * bound, "%s: at most %g, not %g", what, most, bound);
}

typedef struct expected {
    hst_sru_config config;
    double planes[4], weight_proj, weight_c; // of layer 0
} expected;

static void expect_initial(const expected *e) {
    const hst_sru_config *c = &e->config;
    hst_parameters *list = hst_parameters_new(ctx);
    hst_sru *sru = hst_sru_new(list, "", c);
    cr_assert(sru, "%s", hst_error(ctx));
    const hst_sru_layer *l = &sru->layers[0];
    int64_t out = hst_sru_out(c);
    for (int m = 0; m < l->sizes.k; m++) expect_bound("plane", l->weight, m * out, (m + 1) * out, e->planes[m]);
    if (l->weight_proj) expect_bound("weight_proj", l->weight_proj, 0, c->projection_size, e->weight_proj);
    cr_expect_eq(l->weight_c == NULL, c->v1);
    if (l->weight_c) expect_bound("weight_c", l->weight_c, 0, 2 * out, e->weight_c);
    cr_expect_eq(largest(l->bias, 0, out), 0);
    cr_expect_float_eq(largest(l->bias, out, 2 * out), fabs(c->highway_bias), 1e-6);
    hst_sru_free(sru);
    hst_parameters_free(list);
}

// in 64 and out 128: bound 0.2165 = sqrt(3 / 64), times sqrt(1/2) for gates; xavier over (k out, in) together.
Test(sru, initial_values_are_those_of_the_versions) {
    double b = sqrt(3.0 / 64), h = sqrt(0.5), third = sqrt(6.0 / (64 + 4 * 128)), own = sqrt(1.5);
    hst_sru_config two = hst_sru_defaults(HST_SRU_2), three = hst_sru_defaults(HST_SRU_3);
    two.input = three.input = 64, two.hidden = three.hidden = 128;
    expected e = {two, {b, b * h, b * h, b}, 0, own};
    expect_initial(&e);
    e.config.rescale = true, e.config.highway_bias = -1; // the skip plane grows as x' would
    e.planes[3] = b * sqrt(1 + 2 * exp(-1));
    expect_initial(&e);
    e.config.layer_norm = true; // a tenth; ours leaves that out
    for (int m = 0; m < 4; m++) e.planes[m] *= 0.1;
    expect_initial(&e);
    e.config.rules = HST_SRU_HALFSTEP;
    for (int m = 0; m < 4; m++) e.planes[m] *= 10;
    expect_initial(&e);
    e = (expected){two, {b * sqrt(0.6) * sqrt(0.7), b * h * sqrt(0.7), b * h * sqrt(0.7), b * sqrt(0.7)}, 0, 0.25};
    e.config.dropout = 0.4, e.config.rnn_dropout = 0.3, e.config.weight_c_init = 0.25;
    expect_initial(&e);
    e = (expected){two, {b, b, b, b}, 0, 0};
    e.config.v1 = true;
    expect_initial(&e);
    double p = sqrt(3.0 / 16);
    e = (expected){two, {p, p * h, p * h, p}, b, own};
    e.config.projection_size = 16;
    expect_initial(&e);
    e = (expected){three, {third, third, third, third}, 0, 1};
    e.config.rescale = true;
    expect_initial(&e);
    e.config.projection_size = 16;
    for (int m = 0; m < 4; m++) e.planes[m] = sqrt(6.0 / (16 + 4 * 128));
    e.weight_proj = sqrt(6.0 / (64 + 16));
    expect_initial(&e);
}

Test(sru, defaults_are_the_packages) {
    hst_sru_config two = hst_sru_defaults(HST_SRU_2), three = hst_sru_defaults(HST_SRU_3);
    cr_expect(two.layers == 2 && two.has_skip_term && !two.rescale && !two.layer_norm && !two.normalize_after &&
              !two.use_tanh && !two.bidirectional && !two.v1 && two.highway_bias == 0 && two.weight_c_init == 0);
    cr_expect(three.layers == 2 && three.has_skip_term && !three.rescale && !three.normalize_after &&
              three.weight_c_init == 1);
    hst_lm_config model = hst_lm_defaults();
    hst_sru_config own = hst_sru_defaults(HST_SRU_HALFSTEP);
    cr_expect(own.layers == model.layers && own.highway_bias == model.highway_bias && own.rescale == model.rescale &&
              own.layer_norm == model.layer_norm && own.has_skip_term == model.has_skip_term);
}

// 2.x projects only where that is smaller than both sides, 3.x always.
Test(sru, projections_follow_the_rules) {
    hst_sru_config c = small(HST_SRU_2);
    c.input = 3, c.hidden = 8, c.projection_size = 5;
    cr_expect_eq(hst_sru_sizes_of(&c, 0).projection, 0);
    cr_expect_eq(hst_sru_sizes_of(&c, 1).projection, 5);
    c.rules = HST_SRU_3;
    cr_expect_eq(hst_sru_sizes_of(&c, 0).projection, 5);
    cr_expect(hst_sru_sizes_of(&c, 0).k == 4 && hst_sru_sizes_of(&c, 1).k == 3);
}

// ---- states ----

static const float *values(hst_tensor *t) {
    static float numbers[2][512];
    static int next;
    float *to = numbers[next++ % 2];
    cr_assert(t && hst_count(t) <= 512 && hst_copy_out(t, HST_F32, to) == HST_OK, "%s", hst_error(ctx));
    return to;
}

// The form of nn.LSTM: (N directions, B, hidden). The same numbers in another order, and taken back as such.
Test(sru, states_apart_are_the_states_together) {
    enum { N = 2, B = 3, D = 4 };
    hst_sru_config c = small(HST_SRU_2);
    c.bidirectional = true;
    hst_parameters *list = hst_parameters_new(ctx), *other = hst_parameters_new(ctx);
    hst_sru *together = hst_sru_new(list, "", &c);
    c.nn_rnn_compatible_return = true;
    hst_seed(ctx, 7);
    hst_sru *apart = hst_sru_new(other, "", &c);
    for (int i = 0; i < hst_parameter_count(list); i++)
        hst_copy_tensor(hst_parameter_value(other, i), hst_parameter_value(list, i), false);
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(5, B, 4), -1, 1), *ca, *cb, *ca2, *cb2;
    hst_sru_forward(together, x, NULL, NULL, false, &ca);
    hst_sru_forward(apart, x, NULL, NULL, false, &cb);
    cr_assert(hst_dim(cb, 0) == 2 * N && hst_dim(cb, 1) == B && hst_dim(cb, 2) == D);
    const float *a = values(ca), *b = values(cb);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < B; i++)
            for (int j = 0; j < 2 * D; j++)
                cr_assert_eq(a[(n * B + i) * 2 * D + j], b[((2 * n + j / D) * B + i) * D + j % D]);
    hst_tensor *ha = hst_sru_forward(together, x, ca, NULL, false, &ca2);
    hst_tensor *hb = hst_sru_forward(apart, x, cb, NULL, false, &cb2);
    cr_assert_eq(memcmp(values(ha), values(hb), (size_t)hst_count(ha) * sizeof(float)), 0);
    cr_assert_null(hst_sru_forward(apart, x, ca, NULL, false, NULL));
    expect_failure(HST_ERROR_SHAPE, "c0 is f32 (2, 3, 8); (4, 3, 4) is needed");
    hst_sru_free(together), hst_sru_free(apart);
}

// ---- dropout ----

// Without a skip term h knows x through n alone, so dropping parts of n is dropping parts of x, all steps alike.
Test(sru, rnn_dropout_is_one_mask_on_the_product) {
    hst_sru_config c = small(HST_SRU_2);
    c.layers = 1, c.has_skip_term = false, c.input = 3;
    hst_parameters *list = hst_parameters_new(ctx), *other = hst_parameters_new(ctx);
    hst_sru *plain = hst_sru_new(list, "", &c);
    c.rnn_dropout = 0.4;
    hst_sru *dropping = hst_sru_new(other, "", &c);
    for (int i = 0; i < hst_parameter_count(list); i++)
        hst_copy_tensor(hst_parameter_value(other, i), hst_parameter_value(list, i), false);
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(6, 5, 3), -1, 1);
    hst_seed(ctx, 3);
    hst_tensor *masked = hst_variational_dropout(x, 0.4),
               *want = hst_sru_forward(plain, masked, NULL, NULL, true, NULL);
    hst_seed(ctx, 3);
    hst_tensor *got = hst_sru_forward(dropping, x, NULL, NULL, true, NULL);
    size_t bytes = (size_t)hst_count(got) * sizeof(float);
    cr_expect_eq(memcmp(values(got), values(want), bytes), 0);
    got = hst_sru_forward(dropping, x, NULL, NULL, false, NULL),
    want = hst_sru_forward(plain, x, NULL, NULL, false, NULL);
    cr_expect_eq(memcmp(values(got), values(want), bytes), 0, "evaluation drops nothing");
    const float *y = values(masked), *u = values(x);
    int dropped = 0;
    for (int i = 0; i < 15; i++) {
        bool is_dropped = y[i] == 0;
        dropped += is_dropped;
        for (int t = 0; t < 6; t++)
            cr_assert_float_eq(y[t * 15 + i], is_dropped ? 0 : u[t * 15 + i] / 0.6f, 1e-6, "step %d, %d", t, i);
    }
    cr_expect(dropped > 0 && dropped < 15);
    hst_sru_free(plain), hst_sru_free(dropping);
}

// ---- the dtype of h ----

Test(sru, h_has_the_dtype_that_a_call_names) {
    hst_tensor *u = hst_uniform(ctx, HST_F16, HST_SHAPE(3, 2, 12), -1, 1), *b = hst_zeros(ctx, HST_F32, HST_SHAPE(8));
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(3, 2, 4), -1, 1), *c;
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    hst_recurrence options = {.k = 3, .scale_x = 1};
    hst_tensor *wide = hst_sru_recurrence(u, x, NULL, NULL, b, NULL, NULL, NULL, options, NULL);
    cr_assert_eq(hst_dtype_of(wide), HST_F32, "x's");
    hst_attach_grad(u, HST_WRITE, HST_F16);
    for (int i = 0; i < 3; i++) {
        options.names_dtype = true, options.dtype = dtypes[i];
        hst_tensor *h = hst_sru_recurrence(u, x, NULL, NULL, b, NULL, NULL, NULL, options, &c);
        cr_assert_eq(hst_dtype_of(h), dtypes[i]);
        cr_assert_eq(hst_dtype_of(c), HST_F32);
        hst_tensor *same = hst_cast(wide, dtypes[i]); // one rounding of the same number
        cr_assert_eq(memcmp(values(h), values(same), 24 * sizeof(float)), 0);
        cr_assert_eq(hst_backward(ctx, hst_sum(h)), HST_OK, "%s", hst_error(ctx));
        cr_assert_eq(hst_dtype_of(hst_grad(u)), HST_F16);
    }
}

// ---- bad arguments ----

static hst_tensor *narrow(void *user, int layer, hst_tensor *n, hst_tensor **v) {
    return (void)user, (void)layer, (void)v, n;
}

Test(sru, bad_arguments_are_named) {
    hst_parameters *list = hst_parameters_new(ctx);
#define REFUSED(change, phrase)                                                                                        \
    do {                                                                                                               \
        hst_sru_config c = small(HST_SRU_2);                                                                           \
        change;                                                                                                        \
        cr_expect_null(hst_sru_new(list, "", &c));                                                                     \
        expect_failure(HST_ERROR_VALUE, phrase);                                                                       \
    } while (0)
    REFUSED(c.hidden = 0, "hst_sru_new: hidden is 0; it must be between 1 and");
    REFUSED(c.input = -1, "input is -1");
    REFUSED(c.layers = 0, "layers is 0");
    REFUSED(c.dropout = 1, "dropout is 1");
    REFUSED(c.rnn_dropout = -0.1, "rnn_dropout is -0.1");
    REFUSED(c.highway_bias = NAN, "highway_bias is nan");
    REFUSED(c.projection_size = -2, "projection_size is -2");
    REFUSED(c.weight_c_init = INFINITY, "weight_c_init is inf");
    REFUSED(c.rules = (hst_sru_rules)1, "rules is 1; it must be HST_SRU_HALFSTEP, HST_SRU_2 or HST_SRU_3");
    char prefix[200] = {0};
    hst_sru_config c = small(HST_SRU_2);
    memset(prefix, 'p', sizeof prefix - 1);
    cr_expect_null(hst_sru_new(list, prefix, &c));
    expect_failure(HST_ERROR_VALUE, "the prefix has 199 bytes");
    c.transform = narrow;
    hst_sru *sru = hst_sru_new(list, "", &c);
    cr_expect_null(hst_sru_forward(sru, hst_zeros(ctx, HST_F32, HST_SHAPE(2, 1, 4)), NULL, NULL, false, NULL));
    expect_failure(HST_ERROR_SHAPE, "the transform of layer 0 gave f32 (2, 1, 4); (L, B, 12) is needed");
    cr_expect_null(hst_sru_forward(sru, hst_zeros(ctx, HST_F32, HST_SHAPE(2, 1, 5)), NULL, NULL, false, NULL));
    expect_failure(HST_ERROR_SHAPE, "x is f32 (2, 1, 5); (L, B, 4) is needed");
    hst_sru_free(sru);
}
