// test_numerics.c: the numerics doctor on cases whose answers are known: numbers beside every boundary of f16 and bf16,
// sums that stall where the law of stalls says, loss scales from the sizes of two gradients.
#include "amp/amp.h"
#include "amp/numerics.h"
#include "models/models.h"
#include "tensor/context.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(numerics, .init = open_context, .fini = close_context, .timeout = 120);

static const hst_numerics_tensor *find_tensor(const hst_numerics *n, const char *name, hst_numerics_kind kind) {
    for (int i = 0; i < hst_numerics_tensor_count(n); i++) {
        const hst_numerics_tensor *t = hst_numerics_tensor_at(n, i);
        if (t->kind == kind && !strcmp(t->name, name)) return t;
    }
    cr_assert(false, "there is no %s of kind %d", name, (int)kind);
    return NULL;
}

static const hst_numerics_sum *find_sum(const hst_numerics *n, const char *name) {
    for (int i = 0; i < hst_numerics_sum_count(n); i++)
        if (!strcmp(hst_numerics_sum_at(n, i)->name, name)) return hst_numerics_sum_at(n, i);
    cr_assert(false, "there is no sum %s", name);
    return NULL;
}

static hst_numerics *end(hst_numerics *n) {
    cr_assert_eq(hst_numerics_end(n), HST_OK, "%s", hst_error(ctx));
    return n;
}

// ---- tensors ----

// A weight of 16 numbers that are not 0, two zeros, infinity and NaN. Ties go to even: 2^-25 to 0, 2^-14 - 2^-25 to
// 2^-14, 65520 to infinity; in bf16 2^-134 to 0, and 3.4e38 to infinity.
Test(numerics, shares_at_the_boundaries) {
    static const float x[20] = {0x1p-25f,              // f16: 0
                                0x1.004p-25f,          //      2^-24, subnormal
                                0x1p-24f,              //      subnormal
                                -0x1p-15f,             //      subnormal
                                0x1p-14f - 0x1p-25f,   //      2^-14, normal
                                0x1p-14f - 0x1.8p-25f, //      2^-14 - 2^-24, subnormal
                                0x1p-14f,              //      normal
                                1,
                                65504,       //
                                65519,       //      65504
                                -65520,      //      -infinite
                                3.4e38f,     //      infinite; bf16: infinite
                                0x1p-134f,   //      0;        bf16: 0
                                0x1.8p-134f, //      0;        bf16: 2^-133, subnormal
                                0x1p-127f,   //      0;        bf16: subnormal
                                0x1p-126f,   //      0;        bf16: normal
                                0,
                                -0.0f,
                                INFINITY,
                                NAN};
    hst_tensor *w = hst_from_array(ctx, HST_F32, HST_SHAPE(4, 5), HST_F32, x);
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    hst_numerics_watch(n, w, "w");
    end(n);
    cr_assert_eq(hst_numerics_tensor_count(n), 1);
    const hst_numerics_tensor *t = hst_numerics_tensor_at(n, 0);
    cr_assert(!strcmp(t->name, "w") && t->kind == HST_NUMERICS_WEIGHT && t->dtype == HST_F32 && t->count == 20);
    cr_assert(t->zeros == 2 && t->not_finite == 2 && t->largest == 3.4e38f);
    cr_expect(t->f16.zero == 5 / 16.0 && t->f16.subnormal == 4 / 16.0 && t->f16.infinite == 2 / 16.0, "%g %g %g",
              t->f16.zero, t->f16.subnormal, t->f16.infinite);
    cr_expect(t->bf16.zero == 1 / 16.0 && t->bf16.subnormal == 2 / 16.0 && t->bf16.infinite == 1 / 16.0, "%g %g %g",
              t->bf16.zero, t->bf16.subnormal, t->bf16.infinite);
    cr_expect(strstr(t->advice, "2 of its numbers are infinite or NaN"), "%s", t->advice);
    hst_numerics_free(n);
}

// Of 4, 1 and 2^-26 the last is lost: 2^-26 of a sum of 5, no matter; of 2^-26 and 2^-24 it is a fifth.
Test(numerics, what_is_lost_is_measured_by_size) {
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    hst_numerics_watch(n, hst_from_array(ctx, HST_F32, HST_SHAPE(3), HST_F32, (float[]){4, -1, 0x1p-26f}), "large");
    hst_numerics_watch(n, hst_from_array(ctx, HST_F32, HST_SHAPE(2), HST_F32, (float[]){0x1p-26f, 0x1p-24f}), "small");
    hst_numerics_watch(n, hst_full(ctx, HST_F32, HST_SHAPE(2), 1e5), "huge");
    end(n);
    cr_assert_str_eq(hst_numerics_tensor_at(n, 0)->name, "huge"); // infinite before zero, by their shares
    cr_assert_str_eq(hst_numerics_tensor_at(n, 1)->name, "small");
    cr_assert_str_eq(hst_numerics_tensor_at(n, 2)->name, "large");
    cr_assert_eq(hst_numerics_tensor_at(n, 1)->f16.lost, 0.2);
    cr_assert_eq(hst_numerics_tensor_at(n, 2)->f16.lost, 0x1p-26 / (5 + 0x1p-26));
    cr_expect(strstr(hst_numerics_tensor_at(n, 0)->advice, "infinite in fp16"));
    cr_expect(strstr(hst_numerics_tensor_at(n, 1)->advice, "50 % of its numbers become 0 in fp16, and with them 20 %"));
    cr_expect_str_eq(hst_numerics_tensor_at(n, 2)->advice, "");
    hst_numerics_free(n);
}

// ---- sums ----

enum { TERMS = 4096 };

// 4096 * 0.01 = 40.96. In f16 the sum stops at 32, in bf16 at 4. 40.96 itself is 40.96875 in f16 and 41 in bf16.
static void expect_stalls(const hst_numerics_sum *s) {
    double exact = TERMS * (double)0.01f; // the sum in fp32 is off by 2^-24 of it at most
    cr_expect_float_eq(s->f16_added, 1 - 32 / exact, 0x1p-23, "%.9g", s->f16_added);
    cr_expect_float_eq(s->bf16_added, 1 - 4 / exact, 0x1p-23, "%.9g", s->bf16_added);
    cr_expect_float_eq(s->f16_stored, 40.96875 / exact - 1, 0x1p-23, "%.9g", s->f16_stored);
    cr_expect_float_eq(s->bf16_stored, 41 / exact - 1, 0x1p-23, "%.9g", s->bf16_stored);
    cr_expect(strstr(s->advice, "off by 22 %, in bf16 by 90 %") && strstr(s->advice, "keep it in fp32"), "%s",
              s->advice);
}

Test(numerics, sums_stall_where_the_law_says) {
    hst_tensor *table = hst_zeros(ctx, HST_F32, HST_SHAPE(1, 1));
    hst_attach_grad(table, HST_WRITE, HST_F32);
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    hst_numerics_watch(n, table, "net.table.weight");
    hst_tensor *y = hst_embedding(table, hst_zeros(ctx, HST_U8, HST_SHAPE(TERMS)));
    hst_tensor *dy = hst_full(ctx, HST_F32, HST_SHAPE(TERMS, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    hst_tensor *sum = hst_sum(dy); // not recorded: only its forward
    end(n);
    cr_assert(sum && hst_numerics_sum_count(n) == 2);
    const hst_numerics_sum *s = find_sum(n, "net.table embedding dtable");
    cr_assert(s->kind == 'a' && s->count == 1 && !strcmp(s->terms, "dy of every id that names the row"));
    expect_stalls(s);
    expect_stalls(find_sum(n, "sum y"));
    cr_expect_float_eq(hst_item(hst_grad(table), NULL), TERMS * (double)0.01f, 0x1p-19, "the pass itself is as ever");
    hst_numerics_free(n);
}

// The same terms as contributions: of several uses of a leaf, and of a result.
Test(numerics, gradients_of_several_uses) {
    static hst_tensor *y[TERMS], *dy[TERMS];
    hst_tensor *w = hst_zeros(ctx, HST_F32, HST_SHAPE(1));
    hst_attach_grad(w, HST_WRITE, HST_F32);
    for (int of_result = 0; of_result < 2; of_result++) {
        hst_numerics *n = hst_numerics_begin(ctx, 1);
        hst_numerics_watch(n, w, "w");
        hst_tensor *x = of_result ? hst_tanh(w) : w;
        for (int i = 0; i < TERMS; i++) y[i] = hst_scale(x, 1), dy[i] = hst_full(ctx, HST_F32, HST_SHAPE(1), 0.01);
        hst_backward_from(ctx, TERMS, y, dy);
        end(n);
        cr_assert_eq(hst_numerics_sum_count(n), 1);
        const hst_numerics_sum *s = hst_numerics_sum_at(n, 0);
        cr_expect_str_eq(s->name, of_result ? "w tanh gradient, 4096 uses" : "w gradient, 4096 uses");
        cr_expect_eq(s->kind, 'd');
        // fp32, one rounding each of a sum below 64: 4096 times 2^-19 of 40.96 at most
        cr_expect_float_eq(s->f16_added, 1 - 32 / 40.96, TERMS * 0x1p-19 / 40, "%.9g", s->f16_added);
        cr_expect_float_eq(s->bf16_added, 1 - 4 / 40.96, TERMS * 0x1p-19 / 40, "%.9g", s->bf16_added);
        hst_numerics_free(n);
    }
}

// x x: both gradients of one call go to the same tensor, 3 + 3.
Test(numerics, one_tensor_given_twice_is_two_uses) {
    hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(1), 3);
    hst_attach_grad(x, HST_WRITE, HST_F32);
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    hst_numerics_watch(n, x, "x");
    hst_backward(ctx, hst_mul(x, x));
    end(n);
    cr_assert_eq(find_sum(n, "x gradient, 2 uses")->f16_added, 0);
    cr_assert_eq(find_tensor(n, "x", HST_NUMERICS_WEIGHT_GRADIENT)->largest, 6);
    hst_numerics_free(n);
}

// An operation of the application's own, y = x: it is seen, its functions are called once each, also under the name of
// one of the library's, and the sum of x's two uses, one of which is its, is not made up.
static int calls;
static bool same_shape(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0);
    return hst_custom_set_output(call, 0, hst_dtype_of(x), hst_rank(x), hst_shape(x));
}
static bool same_forward(hst_custom_call *call) {
    calls++;
    float x = (float)hst_item(hst_custom_input(call, 0), NULL);
    return hst_copy_in(hst_custom_output(call, 0), HST_F32, &x) == HST_OK;
}
static bool same_backward(hst_custom_call *call) {
    calls++;
    float dy = (float)hst_item(hst_custom_output_gradient(call, 0), NULL);
    return hst_copy_in(hst_custom_input_gradient(call, 0), HST_F32, &dy) == HST_OK;
}

Test(numerics, operations_of_the_application_are_not_run_again) {
    for (int way = 0; way < 4; way++) {
        bool first = way & 1;
        const char *name = way & 2 ? "sum" : "same";
        const hst_operation *same = hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op),
                                                                       .name = name,
                                                                       .inputs = {"x"},
                                                                       .outputs = {"y"},
                                                                       .shape = same_shape,
                                                                       .forward = same_forward,
                                                                       .backward = same_backward});
        hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(1), 3);
        hst_attach_grad(x, HST_WRITE, HST_F32);
        calls = 0;
        hst_numerics *n = hst_numerics_begin(ctx, 1);
        hst_numerics_watch(n, x, "x");
        hst_tensor *a = first ? hst_custom(same, &x, NULL, NULL) : hst_scale(x, 2);
        hst_tensor *b = first ? hst_scale(x, 2) : hst_custom(same, &x, NULL, NULL);
        hst_backward(ctx, hst_add(a, b));
        end(n);
        cr_assert(calls == 2 && hst_item(hst_grad(x), NULL) == 3);
        char label[16];
        snprintf(label, sizeof label, "x %s", name);
        cr_expect_eq(find_tensor(n, label, HST_NUMERICS_RESULT)->largest, 3);
        cr_expect_eq(find_tensor(n, label, HST_NUMERICS_RESULT_GRADIENT)->largest, 1);
        for (int i = 0; i < hst_numerics_sum_count(n); i++)
            cr_expect(strncmp(hst_numerics_sum_at(n, i)->name, "x gradient", 10) != 0);
        hst_numerics_free(n);
    }
}

// With a row-sparse gradient the sums are those of the rows; what it looks at are its values.
Test(numerics, row_sparse_gradients) {
    hst_tensor *table = hst_zeros(ctx, HST_F32, HST_SHAPE(4, 1));
    hst_attach_grad_rows(table, HST_WRITE, HST_F32);
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    hst_numerics_watch(n, table, "table");
    hst_tensor *y = hst_embedding(table, hst_zeros(ctx, HST_U8, HST_SHAPE(TERMS)));
    hst_tensor *dy = hst_full(ctx, HST_F32, HST_SHAPE(TERMS, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    end(n);
    expect_stalls(find_sum(n, "table embedding dtable"));
    cr_expect_eq(find_tensor(n, "table", HST_NUMERICS_WEIGHT_GRADIENT)->count, 1);
    hst_numerics_free(n);
}

// ---- loss scales ----

// loss = small * (sum of 4 w0) + large * (sum of 4 w1): with loss scale S the gradients are small S, large S and, of
// the two products, S. The least scale lifts `small` to 2^-25 times more than 1, the most keeps `large` below 65520.
Test(numerics, a_range_of_loss_scales) {
    static const struct {
        double small, large, scale; // sizes of two weights' gradients of the loss
        double least, most;
        const char *says;
    } cases[] = {{1.5e-6, 3, 1, 0x1p-5, 0x1p14, "loss scale 1 is right"},       // 1.57 2^-20; 3 2^14 = 49152
                 {0x1.8p-40, 3, 256, 0x1p15, 0x1p14, "no loss scale is right"}, // 1.5 2^-25
                 {0x1.8p-40, 1.5, 256, 0x1p15, 0x1p15, "loss scale 256 is too low"},
                 {0x1.8p-20, 3, 0x1p20, 0x1p-5, 0x1p14, "loss scale 1048576 is too high"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hst_scope_begin(ctx);
        hst_tensor *w[2];
        hst_numerics *n = hst_numerics_begin(ctx, cases[i].scale);
        for (int k = 0; k < 2; k++) {
            w[k] = hst_full(ctx, HST_F32, HST_SHAPE(4), 1);
            hst_attach_grad(w[k], HST_WRITE, HST_F32);
            hst_numerics_watch(n, w[k], k ? "large" : "small");
        }
        hst_tensor *products[2] = {hst_scale(w[0], cases[i].small), hst_scale(w[1], cases[i].large)};
        hst_tensor *loss = hst_add(hst_sum(products[0]), hst_sum(products[1]));
        hst_backward(ctx, hst_scale(loss, cases[i].scale));
        end(n);
        hst_numerics_scale scale = hst_numerics_scale_of(n);
        cr_expect(scale.used == cases[i].scale && scale.least == cases[i].least && scale.most == cases[i].most,
                  "case %zu: %g to %g", i, scale.least, scale.most);
        cr_expect(strstr(scale.advice, cases[i].says), "%s", scale.advice);
        hst_numerics_free(n);
        hst_scope_end(ctx, NULL);
    }
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

// ---- in mixed precision ----

// Operations read a shadow of the weight, in a region, or wherever the parameter is shown as one.
Test(numerics, weights_that_are_read_in_16_bits_keep_their_names) {
    for (int shown = 0; shown < 2; shown++) {
        hst_parameters *list = hst_parameters_new(ctx);
        hst_tensor *w = hst_parameter(list, "net.w", hst_full(ctx, HST_F32, HST_SHAPE(2, 2), 0.1));
        if (shown) hst_show_parameters(list, HST_F16, false);
        hst_numerics *n = hst_numerics_begin(ctx, 1);
        hst_numerics_watch(n, w, "net.w");
        hst_autocast_begin(ctx, &(hst_autocast){.dtype = shown ? HST_F32 : HST_F16});
        hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(3, 2), 1);
        hst_tensor *loss = hst_sum(hst_add(hst_matmul(x, w), hst_linear(x, hst_transpose(w, 0, 1), NULL)));
        hst_autocast_end(ctx);
        hst_backward(ctx, loss);
        end(n);
        find_tensor(n, "net matmul", HST_NUMERICS_RESULT);
        find_tensor(n, "net linear", HST_NUMERICS_RESULT_GRADIENT);
        find_tensor(n, "net.w", HST_NUMERICS_WEIGHT_GRADIENT);
        find_sum(n, "net matmul db");
        hst_numerics_free(n);
        hst_parameters_free(list);
    }
}

// ---- models ----

// Each form that a language model has: names are those of its parameters, gradients have the bits they have unobserved,
// and no sum is reported that is already wrong in fp32.
Test(numerics, every_form_of_the_model) {
    for (int form = 0; form < 8; form++) {
        hst_lm_config c = hst_lm_defaults();
        c.vocabulary = 7;
        c.hidden = 8;
        c.layers = 2;
        c.tied = form & 1;
        c.projection_size = form & 2 ? 4 : 0;
        c.use_tanh = form & 2;
        c.normalize_after = form & 4;
        hst_lm *model = hst_lm_new(ctx, &c);
        hst_parameters *list = hst_lm_parameters(model);
        uint8_t symbols[12] = {0, 1, 2, 3, 4, 5, 6, 0, 6, 1, 5, 2};
        float gradients[2][1024];
        hst_numerics *n = NULL;
        for (int watched = 0; watched < 2; watched++) {
            hst_scope_begin(ctx);
            if (watched) n = hst_numerics_begin(ctx, 1);
            for (int i = 0; i < hst_parameter_count(list); i++)
                if (watched) hst_numerics_watch(n, hst_parameter_value(list, i), hst_parameter_name(list, i));
            hst_tensor *ids = hst_from_array(ctx, HST_U8, HST_SHAPE(4, 3), HST_U8, symbols);
            hst_backward(ctx, hst_cross_entropy(hst_lm_forward(model, ids, NULL, false, NULL), ids));
            if (watched) end(n);
            int64_t at = 0;
            for (int i = 0; i < hst_parameter_count(list); i++) {
                hst_tensor *g = hst_grad(hst_parameter_value(list, i));
                cr_assert(at + hst_count(g) <= 1024);
                hst_copy_out(g, HST_F32, gradients[watched] + at);
                at += hst_count(g);
            }
            if (watched) cr_assert_eq(memcmp(gradients[0], gradients[1], (size_t)at * sizeof(float)), 0);
            hst_scope_end(ctx, NULL);
        }
        find_tensor(n, "rnn.rnn_lst.1 sru_recurrence", HST_NUMERICS_RESULT);
        find_tensor(n, "rnn.rnn_lst.0 matmul", HST_NUMERICS_RESULT_GRADIENT);
        find_sum(n, form & 2 ? "rnn.rnn_lst.1 matmul 2 db" : "rnn.rnn_lst.1 matmul db");
        find_sum(n, "output_layer linear dw");
        find_sum(n, "rnn.rnn_lst.0 sru_recurrence dv");
        find_sum(n, c.tied ? "embedding_layer.weight gradient, 3 uses" : "embedding_layer.weight gradient, 2 uses");
        for (int i = 0; i < hst_numerics_sum_count(n);
             i++) { // 12 terms a sum, and none is near to overflow or stalling
            const hst_numerics_sum *s = hst_numerics_sum_at(n, i);
            cr_expect(s->f16_added < 0.1 && s->bf16_added < 0.5, "%s: %g %g", s->name, s->f16_added, s->bf16_added);
        }
        hst_numerics_free(n);
        hst_lm_free(model);
    }
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

// ---- what is refused ----

#define EXPECT_ERROR(code, words)                                                                                      \
    do {                                                                                                               \
        cr_expect_eq(hst_get_status(ctx), code);                                                                       \
        cr_expect(strstr(hst_error(ctx), words), "%s", hst_error(ctx));                                                \
        hst_clear_error(ctx);                                                                                          \
    } while (0)

Test(numerics, wrong_calls_are_errors) {
    cr_assert_null(hst_numerics_begin(NULL, 1));
    cr_assert_null(hst_numerics_begin(ctx, 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "scale is 0; a positive number");
    cr_assert_null(hst_numerics_begin(ctx, NAN));
    EXPECT_ERROR(HST_ERROR_VALUE, "scale is nan");
    hst_numerics *n = hst_numerics_begin(ctx, 1);
    cr_assert_null(hst_numerics_begin(ctx, 1));
    EXPECT_ERROR(HST_ERROR_STATE, "watched already");
    hst_numerics_watch(n, NULL, "w");
    EXPECT_ERROR(HST_ERROR_VALUE, "the tensor is NULL");
    hst_numerics_watch(n, hst_zeros(ctx, HST_F32, HST_SHAPE(1)), NULL);
    EXPECT_ERROR(HST_ERROR_VALUE, "the name is NULL");
    hst_numerics_watch(n, hst_zeros(ctx, HST_I32, HST_SHAPE(1)), "ids");
    EXPECT_ERROR(HST_ERROR_DTYPE, "ids is i32; f32, f16 or bf16 is needed");
    cr_assert(hst_numerics_tensor_count(n) == 0 && hst_numerics_tensor_at(n, 0) == NULL);
    end(n);
    cr_assert_str_eq(hst_numerics_scale_of(n).advice, "there are no gradients.");
    hst_numerics *again = hst_numerics_begin(ctx, 1);
    hst_numerics_free(again); // ends it
    hst_numerics_free(n);
    cr_assert(hst_add(hst_full(ctx, HST_F32, HST_SHAPE(1), 1), hst_full(ctx, HST_F32, HST_SHAPE(1), 1)) != NULL);
    n = hst_numerics_begin(ctx, 1);
    hst_tanh(hst_full(ctx, HST_F32, HST_SHAPE(1), 1));
    cr_assert_null(hst_reshape(hst_full(ctx, HST_F32, HST_SHAPE(1), 1), HST_SHAPE(2)));
    cr_assert_eq(hst_numerics_end(n), HST_ERROR_SHAPE); // what was found until then has no names and no advice yet
    cr_assert(hst_numerics_tensor_count(n) == 0 && hst_numerics_sum_count(n) == 0 && !hst_numerics_tensor_at(n, 0));
    hst_clear_error(ctx);
    hst_numerics_free(n);
    cr_assert_eq(hst_numerics_end(NULL), HST_ERROR_STATE);
    cr_assert_eq(hst_numerics_watch(NULL, NULL, ""), HST_ERROR_STATE);
    cr_assert(hst_numerics_sum_count(NULL) == 0 && hst_numerics_sum_at(NULL, 0) == NULL);
    hst_numerics_free(NULL);
}
