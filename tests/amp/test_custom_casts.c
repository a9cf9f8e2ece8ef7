// test_custom_casts.c: operations of an application in mixed precision: what their callbacks see, and what comes out,
// in every preset's way of running (a region, shown parameters, neither).
#include "tests/amp/common.h"
#include "optim/optim.h"

TestSuite(custom_casts, .init = open_context, .fini = close_context);

// y = a b, elementwise, written for floats alone; with a result that backward reads, z = a b + 1.
typedef struct sight {
    hst_dtype a, b, y, dy, da;
    bool region; // whether a region reached the callback
} sight;

static bool shape(hst_custom_call *call) {
    hst_tensor *a = hst_custom_input(call, 0);
    return hst_custom_set_output(call, 0, HST_F32, hst_rank(a), hst_shape(a));
}

static bool forward(hst_custom_call *call) {
    sight *s = hst_custom_user(call);
    hst_tensor *a = hst_custom_input(call, 0), *b = hst_custom_input(call, 1), *y = hst_custom_output(call, 0);
    s->a = hst_dtype_of(a), s->b = hst_dtype_of(b), s->y = hst_dtype_of(y);
    s->region = hst_autocast_dtype(hst_custom_context(call)) != HST_F32;
    hst_tensor *wide = hst_mul(hst_cast(a, HST_F32), hst_cast(b, HST_F32));
    float values[8];
    hst_copy_out(wide, HST_F32, values);
    return hst_copy_in(y, HST_F32, values) == HST_OK;
}

// da = b dy, db = a dy
static bool backward(hst_custom_call *call) {
    sight *s = hst_custom_user(call);
    hst_tensor *dy = hst_custom_output_gradient(call, 0);
    s->dy = hst_dtype_of(dy);
    for (int i = 0; i < 2; i++) {
        hst_tensor *dx = hst_custom_input_gradient(call, i), *other = hst_custom_input(call, 1 - i);
        double terms[8];
        if (!dx) continue;
        s->da = hst_dtype_of(dx);
        hst_copy_out(hst_mul(hst_cast(dy, HST_F32), hst_cast(other, HST_F32)), HST_F64, terms);
        hst_copy_in(dx, HST_F64, terms);
    }
    return true;
}

static sight seen;
static const hst_operation *product(int cast_a, int cast_b, int result, hst_dtype accumulator) {
    return hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op),
                                              .name = "product",
                                              .inputs = {"a", "b"},
                                              .outputs = {"y"},
                                              .reads_inputs = 3,
                                              .user = &seen,
                                              .casts = {cast_a, cast_b},
                                              .results = {result},
                                              .accumulator = accumulator,
                                              .shape = shape,
                                              .forward = forward,
                                              .backward = backward});
}

static hst_tensor *values(hst_dtype dtype, double value) { return hst_full(ctx, dtype, HST_SHAPE(3), value); }

// An argument's dtype by its rule: what is seen of `given`, beside `other`, in a region of `region` (HST_F32: none).
static hst_dtype by_rule(int rule, hst_dtype given, hst_dtype other, hst_dtype region) {
    if (rule == HST_CAST_F32) return HST_F32;
    if (rule == HST_CAST_LOWER) return region == HST_F32 ? given : region;
    if (rule == HST_WIDEST_GROUP(2)) return given == other ? given : HST_F32;
    return given;
}

Test(custom_casts, every_rule_with_every_mix) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    static const int rules[] = {HST_CAST_NONE, HST_CAST_LOWER, HST_CAST_F32, HST_WIDEST_GROUP(2)};
    for (int rule = 0; rule < 4; rule++) {
        const hst_operation *op = product(rules[rule], rules[rule], HST_AS_ARGUMENT(1), HST_F32);
        for (int mix = 0; mix < 27; mix++) {
            hst_dtype a = dtypes[mix / 9], b = dtypes[mix / 3 % 3], region = dtypes[mix % 3];
            hst_tensor *in[] = {values(a, 0.3), values(b, 0.7)};
            for (int i = 0; i < 2; i++) hst_attach_grad(in[i], HST_WRITE, HST_F32);
            if (region != HST_F32) begin(region, HST_LIST_HALFSTEP);
            hst_tensor *y = hst_custom(op, in, NULL, NULL);
            if (region != HST_F32) hst_autocast_end(ctx);
            cr_assert(y, "%s", hst_error(ctx));
            hst_dtype sees_a = by_rule(rules[rule], a, b, region), sees_b = by_rule(rules[rule], b, a, region);
            cr_expect_eq(seen.a, sees_a);
            cr_expect_eq(seen.b, sees_b);
            cr_expect_eq(seen.y, HST_F32);
            cr_expect_not(seen.region, "callbacks run outside of the region");
            cr_expect_eq(hst_dtype_of(y), b);
            // What was seen was rounded from what was given, and the product is rounded once.
            hst_no_grad_begin(ctx);
            hst_tensor *wide_a = hst_cast(hst_cast(hst_detach(in[0]), sees_a), HST_F32);
            hst_tensor *wide_b = hst_cast(hst_cast(hst_detach(in[1]), sees_b), HST_F32);
            double expected = hst_item(hst_cast(hst_mul(wide_a, wide_b), b), (int64_t[]){0});
            hst_no_grad_end(ctx);
            expect_all(y, expected);
            hst_backward_from(ctx, 1, &y, &(hst_tensor *){hst_full(ctx, b, HST_SHAPE(3), 1)});
            cr_expect_eq(seen.dy, HST_F32);
            expect_all(hst_grad(in[0]), hst_item(wide_b, (int64_t[]){0})); // in f32, whatever a is
            expect_all(hst_grad(in[1]), hst_item(wide_a, (int64_t[]){0}));
        }
    }
}

Test(custom_casts, results) {
    hst_tensor *in[] = {values(HST_F16, 0.3), values(HST_BF16, 0.7)};
    static const struct {
        int rule;
        hst_dtype outside, inside;
    } rows[] = {{HST_CAST_NONE, HST_F32, HST_F32}, // as shape says
                {HST_CAST_F32, HST_F32, HST_F32},
                {HST_CAST_LOWER, HST_F32, HST_BF16},
                {HST_WIDEST_GROUP(0), HST_F32, HST_F32},
                {HST_AS_ARGUMENT(0), HST_F16, HST_F16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const hst_operation *op = product(HST_WIDEST_GROUP(0), HST_WIDEST_GROUP(0), rows[i].rule, HST_F32);
        cr_expect_eq(hst_dtype_of(hst_custom(op, in, NULL, NULL)), rows[i].outside);
        begin(HST_BF16, HST_LIST_HALFSTEP);
        cr_expect_eq(hst_dtype_of(hst_custom(op, in, NULL, NULL)), rows[i].inside);
        hst_autocast_end(ctx);
    }
}

// A parameter that is shown in 16 bits goes to a kernel of floats; its gradient goes to the master.
Test(custom_casts, unchanged_where_parameters_are_shown_in_16_bits) {
    hst_parameters *list = hst_parameters_new(ctx);
    hst_tensor *w = hst_parameter(list, "w", values(HST_F32, 0.1)), *in[] = {values(HST_F16, 3), w};
    hst_show_parameters(list, HST_F16, false);
    const hst_operation *op = product(HST_CAST_F32, HST_CAST_F32, HST_AS_ARGUMENT(0), HST_F32);
    hst_tensor *y = hst_custom(op, in, NULL, NULL);
    double half = (double)hst_from_f16(hst_to_f16(0.1));
    expect_all(y, (double)hst_from_f16(hst_to_f16(3 * half)));
    cr_expect_eq(hst_dtype_of(y), HST_F16);
    cr_expect_eq(seen.b, HST_F32);
    hst_backward(ctx, hst_sum(y));
    expect_all(hst_grad(w), 3);
    hst_parameters_free(list);
}

Test(custom_casts, accumulators) {
    for (int wide = 0; wide < 2; wide++) {
        const hst_operation *op = product(0, 0, 0, wide ? HST_F64 : HST_F32);
        hst_tensor *in[] = {values(HST_F32, 2), values(HST_F32, 3)};
        hst_attach_grad(in[0], HST_ADD, HST_F32);
        for (int i = 0; i < 2; i++) hst_backward(ctx, hst_sum(hst_custom(op, in, NULL, NULL)));
        cr_expect_eq(seen.da, wide ? HST_F64 : HST_F32);
        expect_all(hst_grad(in[0]), 6);
    }
}

Test(custom_casts, mistakes) {
    cr_expect_null(product(HST_CAST_BANNED, 0, 0, HST_F32));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rule 4 for argument 0 of product");
    cr_expect_null(product(0, HST_WIDEST_GROUP(8), 0, HST_F32));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rule 24 for argument 1 of product");
    cr_expect_null(product(0, 0, HST_WIDEST_GROUP(1), HST_F32));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rule 17 for result 0 of product");
    cr_expect_null(product(0, 0, HST_AS_ARGUMENT(2), HST_F32));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "HST_AS_ARGUMENT(0 to 1)");
    cr_expect_null(product(0, 0, 0, HST_F16));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "product accumulates in f16");
}

static bool begins_a_region(hst_custom_call *call) {
    hst_autocast_begin(hst_custom_context(call), &(hst_autocast){.dtype = HST_F16});
    return forward(call);
}
static bool ends_a_region(hst_custom_call *call) {
    return hst_autocast_end(hst_custom_context(call)) == HST_OK && forward(call);
}

Test(custom_casts, callbacks_leave_regions_as_they_were) {
    hst_custom_op record = {.size = sizeof record,
                            .name = "product",
                            .inputs = {"a", "b"},
                            .outputs = {"y"},
                            .user = &seen,
                            .shape = shape,
                            .forward = begins_a_region};
    hst_tensor *in[] = {values(HST_F32, 2), values(HST_F32, 3)};
    begin(HST_BF16, HST_LIST_HALFSTEP);
    hst_custom(hst_register(ctx, &record), in, NULL, NULL);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "must end the scopes and the regions that it begins");
    cr_expect_eq(hst_autocast_dtype(ctx), HST_BF16);
    record.forward = ends_a_region;
    hst_custom(hst_register(ctx, &record), in, NULL, NULL);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "no region is open");
    cr_expect_eq(hst_autocast_dtype(ctx), HST_BF16);
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(hst_autocast_dtype(ctx), HST_F32);
}
