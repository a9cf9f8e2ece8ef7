// test_custom.c: operations that an application registers, as an application sees them: this file knows the public
// header only.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tensor/expect.h"
#include "train/halfstep.h"

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(autograd_custom, .init = open_context, .fini = close_context);

#define EXPECT_ERROR(status, words) EXPECT_ERROR_OF(ctx, status, words)
#define VECTOR(dtype, ...)                                                                                             \
    hst_from_array(ctx, dtype, HST_SHAPE((int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))), HST_F64,        \
                   (double[]){__VA_ARGS__})

static hst_tensor *with_gradient(hst_tensor *t, hst_request request, hst_dtype dtype) {
    hst_attach_grad(t, request, dtype);
    return t;
}
#define LEAF(...) with_gradient(VECTOR(HST_F32, __VA_ARGS__), HST_WRITE, HST_F32)

static void expect_values(int line, const hst_tensor *t, int64_t count, const double *want) {
    double got[16];
    cr_assert(t, "line %d: %s", line, hst_error(ctx));
    cr_assert_eq(hst_count(t), count, "line %d", line);
    cr_assert_eq(hst_copy_out(t, HST_F64, got), HST_OK, "line %d: %s", line, hst_error(ctx));
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(got[i], want[i], "line %d: element %d is %.9g, not %.9g", line, (int)i, got[i], want[i]);
}
#define EXPECT(t, ...)                                                                                                 \
    expect_values(__LINE__, t, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

// ---- y = x^3, of f32: dx = 3 x^2 dy ----

static bool like_x(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0);
    if (hst_dtype_of(x) != HST_F32)
        return hst_fail(hst_custom_context(call), HST_ERROR_DTYPE, "cube: x is %s; it takes f32 only",
                        hst_dtype_name(hst_dtype_of(x))),
               false;
    return hst_custom_set_output(call, 0, HST_F32, hst_rank(x), hst_shape(x));
}

static bool cube_forward(hst_custom_call *call) {
    const float *x = hst_data(hst_custom_input(call, 0));
    float *y = hst_mutable_data(hst_custom_output(call, 0));
    for (int64_t i = 0; i < hst_count(hst_custom_input(call, 0)); i++) y[i] = x[i] * x[i] * x[i];
    return true;
}

static bool cube_backward(hst_custom_call *call) {
    const float *x = hst_data(hst_custom_input(call, 0)), *dy = hst_data(hst_custom_output_gradient(call, 0));
    float *dx = hst_mutable_data(hst_custom_input_gradient(call, 0));
    for (int64_t i = 0; i < hst_count(hst_custom_input(call, 0)); i++) dx[i] = 3 * x[i] * x[i] * dy[i];
    return true;
}

static hst_custom_op cube_record(void) {
    return (hst_custom_op){.size = sizeof(hst_custom_op),
                           .name = "cube",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .reads_inputs = 1,
                           .shape = like_x,
                           .forward = cube_forward,
                           .backward = cube_backward};
}
static const hst_operation *cube(void) {
    hst_custom_op record = cube_record();
    return hst_register(ctx, &record);
}
static hst_tensor *cubed(const hst_operation *op, hst_tensor *x) { return hst_custom(op, &x, NULL, NULL); }

// The record and its names are gone when the operation runs, and its graph is differentiated later still.
static const hst_operation *registered_from_the_stack(void) {
    char name[] = "short-lived", input[] = "argument", output[] = "result";
    hst_custom_op record = cube_record();
    record.name = name, record.inputs[0] = input, record.outputs[0] = output;
    const hst_operation *op = hst_register(ctx, &record);
    memset(name, '?', sizeof name - 1), memset(input, '?', sizeof input - 1), memset(output, '?', sizeof output - 1);
    memset(&record, 0, sizeof record);
    return op;
}

Test(autograd_custom, an_operation_and_its_gradient) {
    const hst_operation *op = registered_from_the_stack();
    hst_tensor *x = LEAF(2, -3), *y = cubed(op, x);
    EXPECT(y, 8, -27);
    hst_backward(ctx, hst_sum(hst_scale(y, 2)));
    EXPECT(hst_grad(x), 24, 54);
    y = cubed(op, x);
    hst_copy_in(x, HST_F32, (float[]){0, 0});
    hst_backward(ctx, hst_sum(y));
    EXPECT_ERROR(HST_ERROR_STATE, "argument argument of short-lived was changed in place");
}

Test(autograd_custom, requests_and_dtypes_of_gradients) {
    const hst_operation *op = cube();
    hst_tensor *x = with_gradient(VECTOR(HST_F32, 1, 16), HST_ADD, HST_BF16);
    hst_copy_in(hst_grad(x), HST_F32, (float[]){0.0625, 256});
    hst_backward(ctx, hst_sum(cubed(op, x)));
    EXPECT(hst_grad(x), 3.0625, 1024);    // 768 + 256
    hst_tensor *shared = hst_scale(x, 1); // two uses: the gradients meet in f32
    hst_backward(ctx, hst_sum(hst_add(cubed(op, shared), cubed(op, shared))));
    EXPECT(hst_grad(x), 9.0625, 2560); // + 6, + 2 * 768; bf16 has 8 bits
    hst_attach_grad(x, HST_WRITE, HST_F32);
    hst_backward(ctx, hst_sum(cubed(op, hst_transpose(hst_reshape(x, HST_SHAPE(1, 2)), 0, 1)))); // made contiguous
    EXPECT(hst_grad(x), 3, 768);
}

// In fp32 differences have errors near 2e-5; tests/gradients checks one in double.
static hst_tensor *checked(hst_context *c, hst_tensor *const *x, void *user) { return (void)c, cubed(user, x[0]); }

Test(autograd_custom, it_passes_the_gradient_checker) {
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(3, 4), 0.5, 1.5);
    double error = 1;
    cr_assert_eq(hst_gradcheck(ctx, checked, (void *)cube(), 1, &x, &error), HST_OK, "%s", hst_error(ctx));
    cr_assert_lt(error, 1e-2);
}

// ---- y = s (x + bias)^2 and z = x w, with a saved sum, an option, an optional argument and two results ----

typedef struct options {
    double s;
    int64_t calls; // proves that all of it is copied
} options;

static double at(const hst_tensor *t, int64_t i) { return t ? hst_item(t, (int64_t[]){i}) : 0; }

static bool pair_shape(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0), *bias = hst_custom_input(call, 2);
    if (bias && hst_count(bias) != hst_count(x))
        return hst_fail(hst_custom_context(call), HST_ERROR_SHAPE, "pair: bias has %d elements, x %d",
                        (int)hst_count(bias), (int)hst_count(x)),
               false;
    return hst_custom_set_output(call, 0, hst_dtype_of(x), hst_rank(x), hst_shape(x)) &&
           hst_custom_set_output(call, 1, HST_F32, hst_rank(x), hst_shape(x));
}

static bool pair_forward(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0), *w = hst_custom_input(call, 1), *bias = hst_custom_input(call, 2);
    const options *o = hst_custom_attributes(call);
    int64_t n = hst_count(x);
    hst_tensor *saved = hst_custom_save(call, 1, HST_F32, HST_SHAPE(n));
    float y[8], z[8], sum[8];
    for (int64_t i = 0; i < n; i++) {
        sum[i] = (float)(at(x, i) + at(bias, i));
        y[i] = (float)o->s * sum[i] * sum[i];
        z[i] = (float)(at(x, i) * at(w, i));
    }
    if (saved) hst_copy_in(saved, HST_F32, sum);
    hst_copy_in(hst_custom_output(call, 0), HST_F32, y);
    hst_copy_in(hst_custom_output(call, 1), HST_F32, z);
    ++*(int *)hst_custom_user(call);
    return o->calls == 7;
}

// dx = 2 s (x + bias) dy + w dz, dw = x dz, dbias = 2 s (x + bias) dy
static bool pair_backward(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0), *w = hst_custom_input(call, 1), *sum = hst_custom_saved(call, 1);
    hst_tensor *dy = hst_custom_output_gradient(call, 0), *dz = hst_custom_output_gradient(call, 1);
    float *dx = hst_mutable_data(hst_custom_input_gradient(call, 0));
    float *dw = hst_mutable_data(hst_custom_input_gradient(call, 1));
    float *dbias = hst_mutable_data(hst_custom_input_gradient(call, 2));
    const options *o = hst_custom_attributes(call);
    for (int64_t i = 0; i < hst_count(x); i++) {
        double through_y = 2 * o->s * at(sum, i) * at(dy, i); // an absent dy is zero
        if (dx) dx[i] += (float)(through_y + at(w, i) * at(dz, i));
        if (dw) dw[i] += (float)(at(x, i) * at(dz, i));
        if (dbias) dbias[i] += (float)through_y;
    }
    return true;
}

static const hst_operation *pair(int *calls) {
    return hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op),
                                              .name = "pair",
                                              .inputs = {"x", "w", "bias?"},
                                              .outputs = {"y", "z"},
                                              .attributes_size = sizeof(options),
                                              .reads_inputs = 3,
                                              .user = calls,
                                              .shape = pair_shape,
                                              .forward = pair_forward,
                                              .backward = pair_backward});
}

Test(autograd_custom, options_saved_tensors_and_several_results) {
    int calls = 0;
    const hst_operation *op = pair(&calls);
    hst_tensor *x = LEAF(1, 2), *w = LEAF(3, 5), *bias = LEAF(1, -1), *out[2];
    options o = {.s = 0.5, .calls = 7};
    hst_tensor *y = hst_custom(op, (hst_tensor *[]){x, w, bias}, &o, out);
    o = (options){0};
    cr_assert(y == out[0] && calls == 1);
    EXPECT(out[0], 2, 0.5);
    EXPECT(out[1], 3, 10);
    hst_backward(ctx, hst_sum(hst_add(out[0], hst_scale(out[1], 10))));
    EXPECT(hst_grad(x), 2 + 30, 1 + 50);
    EXPECT(hst_grad(w), 10, 20);
    EXPECT(hst_grad(bias), 2, 1);
    o = (options){.s = 2, .calls = 7};
    hst_custom(op, (hst_tensor *[]){x, hst_detach(w), NULL}, &o, out); // no bias, no dw, no dy
    EXPECT(out[0], 2, 8);
    hst_backward(ctx, hst_sum(out[1]));
    EXPECT(hst_grad(x), 3, 5);
    EXPECT(hst_grad(w), 10, 20);                        // as it was
    hst_custom(op, (hst_tensor *[]){x, x, x}, &o, out); // the same tensor three times: 2 (2 x)^2, x^2
    hst_backward(ctx, hst_sum(hst_add(out[0], out[1])));
    EXPECT(hst_grad(x), 16 + 2, 32 + 4);
    hst_no_grad_begin(ctx);
    hst_tensor *halves = VECTOR(HST_F16, 1, 2);
    EXPECT(hst_custom(op, (hst_tensor *[]){halves, halves, NULL}, &o, NULL), 2, 8);
    hst_no_grad_end(ctx);
}

// ---- errors ----

Test(autograd_custom, what_callbacks_say_is_the_error) {
    int calls = 0;
    const hst_operation *op = pair(&calls), *third = cube();
    hst_tensor *x = LEAF(1, 2), *out[2] = {x, x};
    options wrong = {.s = 1};
    cr_assert_null(hst_custom(op, (hst_tensor *[]){x, x, VECTOR(HST_F32, 1)}, &wrong, out));
    cr_assert(!out[0] && !out[1] && calls == 0);
    EXPECT_ERROR(HST_ERROR_SHAPE, "pair: bias has 1 elements, x 2");
    cr_assert_null(hst_custom(op, (hst_tensor *[]){x, x, NULL}, NULL, NULL)); // attributes of zeros
    EXPECT_ERROR(HST_ERROR_VALUE, "pair: its forward function failed and did not say why");
    cr_assert_null(hst_custom(op, (hst_tensor *[]){x, NULL, NULL}, &wrong, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "pair: argument w is NULL");
    cr_assert_null(cubed(third, VECTOR(HST_F16, 1)));
    EXPECT_ERROR(HST_ERROR_DTYPE, "cube: x is f16; it takes f32 only");
    cr_assert(!cubed(NULL, x) && hst_get_status(ctx) == HST_OK);
    cr_assert_null(cubed(third, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "cube: argument x is NULL");
    cr_assert_null(hst_custom(third, NULL, NULL, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "cube: argument x is NULL");
    hst_fail(ctx, HST_ERROR_DIVERGED, "an error that stands");
    cr_assert_null(cubed(third, NULL));
    EXPECT_ERROR(HST_ERROR_DIVERGED, "an error that stands");
    hst_context *other = hst_open(NULL);
    cr_assert_null(cubed(third, hst_zeros(other, HST_F32, HST_SHAPE(1))));
    EXPECT_ERROR(HST_ERROR_STATE, "cube: an argument belongs to another context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "cube: this operation was registered with another context");
    hst_close(other);
}

Test(autograd_custom, without_a_gradient_it_is_refused_where_one_is_wanted) {
    hst_custom_op record = cube_record();
    record.backward = NULL;
    const hst_operation *op = hst_register(ctx, &record);
    EXPECT(cubed(op, VECTOR(HST_F32, 2)), 8);
    cr_assert_null(cubed(op, LEAF(2)));
    EXPECT_ERROR(HST_ERROR_UNSUPPORTED, "cube: has no gradient, and an argument wants one");
    record.constants = 1; // then nobody wants one
    EXPECT(cubed(hst_register(ctx, &record), LEAF(2)), 8);
}

static bool silent(hst_custom_call *call) { return (void)call, true; }
static bool asks_too_much(hst_custom_call *call) { return !hst_custom_input(call, 1); }
static bool sets_too_much(hst_custom_call *call) { return hst_custom_set_output(call, 1, HST_F32, 0, NULL); }
static bool saves_twice(hst_custom_call *call) {
    cr_assert(hst_custom_save(call, 0, HST_F32, HST_SHAPE(1)));
    return !hst_custom_save(call, 0, HST_F32, HST_SHAPE(1));
}
static bool saves_beyond(hst_custom_call *call) { return !hst_custom_save(call, 2, HST_F32, HST_SHAPE(1)); }

Test(autograd_custom, mistakes_of_the_author_are_named) {
    hst_custom_op record = cube_record();
    hst_tensor *x = LEAF(2);
    record.shape = silent;
    cr_assert_null(cubed(hst_register(ctx, &record), x));
    EXPECT_ERROR(HST_ERROR_STATE, "cube: its shape function did not set result y");
    record.shape = sets_too_much;
    cr_assert_null(cubed(hst_register(ctx, &record), x));
    EXPECT_ERROR(HST_ERROR_VALUE, "cube: its callback asks for result 1, which does not exist");
    record = cube_record();
    record.forward = asks_too_much;
    cr_assert_null(cubed(hst_register(ctx, &record), x));
    EXPECT_ERROR(HST_ERROR_VALUE, "asks for argument 1, which does not exist");
    record.forward = saves_twice;
    cr_assert_null(cubed(hst_register(ctx, &record), x));
    EXPECT_ERROR(HST_ERROR_STATE, "cube: slot 0 is saved into once");
    record.forward = saves_beyond;
    cr_assert_null(cubed(hst_register(ctx, &record), x));
    EXPECT_ERROR(HST_ERROR_VALUE, "cube: slot 2; tensors are saved in slots 0 to 1");
    record = cube_record();
    record.reads_inputs = 0;
    record.backward = asks_too_much;
    hst_backward(ctx, hst_sum(cubed(hst_register(ctx, &record), x)));
    EXPECT_ERROR(HST_ERROR_VALUE, "asks for argument 1");
}

static bool reads_undeclared(hst_custom_call *call) { return hst_custom_input(call, 0) || hst_custom_output(call, 0); }

Test(autograd_custom, backward_reads_what_was_declared) {
    hst_custom_op record = cube_record();
    record.reads_inputs = 0;
    record.backward = reads_undeclared;
    hst_backward(ctx, hst_sum(cubed(hst_register(ctx, &record), LEAF(2))));
    EXPECT_ERROR(HST_ERROR_STATE, "cube: backward reads argument x without reads_inputs having its bit");
    record.reads_inputs = 1, record.reads_outputs = 1;
    hst_tensor *x = LEAF(2);
    hst_backward(ctx, hst_sum(cubed(hst_register(ctx, &record), x)));
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    EXPECT(hst_grad(x), 0); // it wrote nothing
}

Test(autograd_custom, incomplete_records_are_refused) {
    hst_custom_op record = cube_record();
    cr_assert(!hst_register(NULL, &record) && !hst_register(ctx, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "hst_register: a record is needed");
    record.forward = NULL;
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "hst_register: cube lacks a forward function");
    record = cube_record(), record.shape = NULL;
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "lacks a shape function");
    record = cube_record(), record.inputs[0] = NULL;
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "lacks an argument");
    record = cube_record(), record.outputs[0] = NULL;
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "lacks a result");
    record = cube_record(), record.name = "";
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "lacks a name");
    record = cube_record(), record.inputs[0] = "";
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "the name of argument 0 of cube is empty");
    record = cube_record(), record.attributes_size = HST_CUSTOM_ATTRIBUTES + 1;
    cr_assert_null(hst_register(ctx, &record));
    EXPECT_ERROR(HST_ERROR_VALUE, "cube has 81 bytes of attributes; at most 80");
    record = cube_record(), record.size = offsetof(hst_custom_op, backward); // a program built before it was added
    cr_assert_null(cubed(hst_register(ctx, &record), LEAF(1)));
    EXPECT_ERROR(HST_ERROR_UNSUPPORTED, "cube: has no gradient");
}

// ---- the anomaly mode, and operations inside callbacks ----

Test(autograd_custom, anomaly_mode_names_it) {
    const hst_operation *op = cube();
    hst_tensor *x = LEAF(INFINITY), *y = cubed(op, x);
    hst_anomaly_mode(ctx, true);
    hst_tensor *zero = VECTOR(HST_F32, 0);
    hst_backward_from(ctx, 1, &y, &zero); // 3 inf^2 0
    EXPECT_ERROR(HST_ERROR_DIVERGED, "cube: its gradient for x made the first NaN");
}

static bool with_operations(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0), *y = hst_matmul(hst_transpose(x, 0, 1), x);
    hst_tensor *sum = hst_scale(y, 2);
    double numbers[4];
    return hst_copy_out(sum, HST_F64, numbers) == HST_OK &&
           hst_copy_in(hst_custom_output(call, 0), HST_F64, numbers) == HST_OK;
}

Test(autograd_custom, operations_inside_callbacks_are_not_recorded) {
    hst_custom_op record = cube_record();
    record.forward = with_operations;
    hst_tensor *x = hst_from_array(ctx, HST_F32, HST_SHAPE(2, 2), HST_F32, (float[]){1, 2, 3, 4});
    hst_attach_grad(x, HST_WRITE, HST_F32);
    const hst_operation *op = hst_register(ctx, &record);
    hst_memory before, after;
    hst_tensor *y = cubed(op, x);
    EXPECT(y, 20, 28, 28, 40);
    hst_memory_stats(ctx, &before);
    hst_no_grad_begin(ctx);
    hst_scope_begin(ctx);
    cubed(op, x);
    hst_scope_end(ctx, NULL);
    hst_no_grad_end(ctx);
    hst_memory_stats(ctx, &after);
    cr_assert_eq(after.current_total, before.current_total);
    hst_backward(ctx, hst_sum(y));
    EXPECT(hst_grad(x), 3, 12, 27, 48); // cube's: what it computed with has left no trace
}

// ---- scopes and no-grad regions of a callback ----

static bool ends_a_scope(hst_custom_call *call) { return hst_scope_end(hst_custom_context(call), NULL), true; }
static bool exchanges_scopes(hst_custom_call *call) {
    ends_a_scope(call);
    return hst_scope_begin(hst_custom_context(call)), true;
}
static bool begins_a_scope(hst_custom_call *call) { return hst_scope_begin(hst_custom_context(call)), true; }
static bool begins_too_many(hst_custom_call *call) {
    for (int i = 0; i < 100; i++) begins_a_scope(call);
    return true;
}
static bool ends_no_grad(hst_custom_call *call) { return hst_no_grad_end(hst_custom_context(call)), true; }
static bool begins_no_grad(hst_custom_call *call) { return hst_no_grad_begin(hst_custom_context(call)), true; }

// What a callback gets wrong is an error, of forward and of backward; the program's own scope, its tensors and its tape
// are as before.
Test(autograd_custom, callbacks_leave_scopes_as_they_were) {
    static const struct {
        bool (*callback)(hst_custom_call *call);
        const char *words;
    } mistakes[] = {{ends_a_scope, "hst_scope_end: no scope is open"},
                    {exchanges_scopes, "hst_scope_end: no scope is open"},
                    {begins_a_scope, "must end the scopes and the regions that it begins"},
                    {begins_too_many, "hst_scope_begin: more than"},
                    {ends_no_grad, "must end the scopes and the regions that it begins"},
                    {begins_no_grad, "must end the scopes and the regions that it begins"}};
    const hst_operation *good = cube();
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        for (int in_backward = 0; in_backward < 2; in_backward++) {
            hst_custom_op record = cube_record();
            *(in_backward ? &record.backward : &record.forward) = mistakes[i].callback;
            hst_scope_begin(ctx);
            hst_tensor *x = LEAF(2), *y = cubed(good, x), *z = cubed(hst_register(ctx, &record), x);
            if (in_backward) hst_backward(ctx, hst_sum(hst_add(hst_scale(x, 2), z)));
            EXPECT_ERROR(HST_ERROR_STATE, mistakes[i].words);
            hst_backward(ctx, hst_sum(y));
            EXPECT(hst_grad(x), 12);
            hst_scope_end(ctx, NULL);
            cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
        }
    hst_scope_end(ctx, NULL);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_scope_end: no scope is open");
    hst_no_grad_end(ctx);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_no_grad_end: no region is open");
}
