// test_autocast.c: what regions do to every operation (A1, A7), and to each other (A2). What the expected classes are
// is written down here once more, from the op lists of the systems themselves.
#include "tests/amp/common.h"
#include <math.h>
#include "ops/table.h"
#include "tests/tensor/allocator.h"

TestSuite(autocast, .init = open_context, .fini = close_context);

// ---- A1: every operation x op list x dtypes ----

// An application of each operation to x (4, 6) and w (6, 6), positive; drop with the same mask at each call.
static hst_tensor *ids(void) { return hst_from_array(ctx, HST_I32, HST_SHAPE(4), HST_I32, (int32_t[]){0, 2, 3, 3}); }
static hst_tensor *part(hst_tensor *w) { return hst_slice(w, 0, 0, 4); }

#define DRIVER(name, expression)                                                                                       \
    static hst_tensor *drive_##name(hst_tensor *x, hst_tensor *w) {                                                    \
        (void)x, (void)w;                                                                                              \
        return expression;                                                                                             \
    }
DRIVER(linear, hst_linear(x, w, NULL))
DRIVER(matmul, hst_matmul(x, w))
DRIVER(embedding, hst_embedding(x, ids()))
DRIVER(layer_norm, hst_layer_norm(x, NULL, NULL, 1e-5))
DRIVER(rms_norm, hst_rms_norm(x, NULL, 1e-5))
DRIVER(dropout, (hst_random_step(ctx, 1), hst_dropout(x, 0.5)))
DRIVER(sru_recurrence, NULL) // h has a rule of its own, tested below
DRIVER(add, hst_add(x, part(w)))
DRIVER(sub, hst_sub(x, part(w)))
DRIVER(mul, hst_mul(x, part(w)))
DRIVER(div, hst_div(x, part(w)))
DRIVER(sigmoid, hst_sigmoid(x))
DRIVER(tanh, hst_tanh(x))
DRIVER(relu, hst_relu(x))
DRIVER(gelu, hst_gelu(x, false))
DRIVER(exp, hst_exp(x))
DRIVER(log, hst_log(x))
DRIVER(sqrt, hst_sqrt(x))
DRIVER(pow, hst_pow(x, 1.5))
DRIVER(scale, hst_scale(x, 3))
DRIVER(cast, hst_cast(x, HST_BF16))
DRIVER(sum, hst_sum(x))
DRIVER(mean, hst_mean(x))
DRIVER(max, hst_max(x))
DRIVER(softmax, hst_softmax(x, -1))
DRIVER(log_softmax, hst_log_softmax(x, -1))
DRIVER(token_losses, hst_token_losses(x, ids()))
DRIVER(linear_cross_entropy, hst_linear_cross_entropy(x, w, NULL, ids()))
DRIVER(binary_cross_entropy, hst_binary_cross_entropy(hst_scale(x, 0.5), part(w))) // p = x / 2, exactly, is below 1
DRIVER(binary_cross_entropy_with_logits, hst_binary_cross_entropy_with_logits(x, part(w)))
DRIVER(reshape, hst_reshape(x, HST_SHAPE(24)))
DRIVER(slice, hst_slice(x, 1, 1, 3))
DRIVER(transpose, hst_transpose(x, 0, 1))
DRIVER(broadcast_to, hst_broadcast_to(x, HST_SHAPE(2, 4, 6)))
DRIVER(cat, hst_cat(2, (hst_tensor *[]){x, w}, 0))
DRIVER(where, hst_where(hst_full(ctx, HST_U8, HST_SHAPE(6), 1), x, part(w)))
DRIVER(take, hst_take(x, hst_full(ctx, HST_I32, HST_SHAPE(2), 1), 1))
DRIVER(one_hot, hst_one_hot(ids(), 6, HST_F16))

// L: the region's 16-bit type; F: fp32; K: as outside of regions. The widest is what they do outside as well; W: the
// same, but f16 and bf16 do not go together. B: banned for 16 bits, and in PyTorch's list on CUDA for all; else K.
static const struct {
    const char *name;
    hst_tensor *(*drive)(hst_tensor *x, hst_tensor *w);
    const char *classes; // halfstep, PyTorch on CUDA and CPU, MXNet fp16 and bf16, APEX O1
} operations[] = {
#define ROW(name, classes)                                                                                             \
    { #name, drive_##name, classes }
    ROW(linear, "LLLLLL"),
    ROW(matmul, "LLLLKL"),
    ROW(embedding, "KKKKFK"),
    ROW(layer_norm, "FFKFKF"),
    ROW(rms_norm, "FFKKKK"),
    ROW(dropout, "KKKKFK"),
    ROW(add, "KKKKKW"),
    ROW(sub, "KKKKKW"),
    ROW(mul, "KKKKKW"),
    ROW(div, "KKKKKW"),
    ROW(sigmoid, "KKKKKK"),
    ROW(tanh, "KKKKKK"),
    ROW(relu, "KKKKKK"),
    ROW(gelu, "KKKKKF"),
    ROW(exp, "FFKFKF"),
    ROW(log, "FFKFKF"),
    ROW(sqrt, "KKKKKK"),
    ROW(pow, "FFKFKF"),
    ROW(scale, "KKKKKK"),
    ROW(cast, "KKKKKK"),
    ROW(sum, "FFKFKF"),
    ROW(mean, "FKKFKK"),
    ROW(max, "KKKKKK"),
    ROW(softmax, "FFKFKF"),
    ROW(log_softmax, "FFKFKF"),
    ROW(token_losses, "FFFFKF"),
    ROW(linear_cross_entropy, "LLLLLL"),
    ROW(binary_cross_entropy, "BBFKKB"),
    ROW(binary_cross_entropy_with_logits, "FFFKKF"),
    ROW(reshape, "KKKKKK"),
    ROW(slice, "KKKKKK"),
    ROW(transpose, "KKKKKK"),
    ROW(broadcast_to, "KKKKKK"),
    ROW(cat, "KKKKKW"),
    ROW(where, "KKKKKK"),
    ROW(take, "KKKKKK"),
    ROW(one_hot, "KKKKKK"),
    ROW(sru_recurrence, "KKKKKK"),
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static bool has_row(const char *name) {
    for (int i = 0; i < OPERATIONS; i++)
        if (!strcmp(operations[i].name, name)) return true;
    return false;
}

static void expect_same(const hst_tensor *have, const hst_tensor *expected, const char *what) {
    cr_assert(have && expected, "%s: %s", what, hst_error(ctx));
    cr_assert_eq(hst_dtype_of(have), hst_dtype_of(expected), "%s: %s, not %s", what, hst_dtype_name(hst_dtype_of(have)),
                 hst_dtype_name(hst_dtype_of(expected)));
    cr_assert_eq(hst_count(have), hst_count(expected), "%s", what);
    double a[64], b[64];
    hst_copy_out(have, HST_F64, a);
    hst_copy_out(expected, HST_F64, b);
    for (int64_t i = 0; i < hst_count(have); i++)
        cr_assert(a[i] == b[i], "%s: element %lld is %.9g, not %.9g", what, (long long)i, a[i], b[i]);
}

static bool is_banned(int row, hst_op_list list, hst_dtype x, hst_dtype w) {
    bool wide = x == HST_F32 && w == HST_F32;
    return operations[row].classes[list] == 'B' && (!wide || list == HST_LIST_TORCH_CUDA);
}

// The result in a region must have the dtype and the bits of the same operation outside, on arguments that were cast.
static void check_operation(int row, hst_op_list list, hst_dtype region, hst_dtype x_dtype, hst_dtype w_dtype) {
    char what[128], class = operations[row].classes[list];
    hst_scope_begin(ctx);
    hst_tensor *x = hst_cast(hst_uniform(ctx, HST_F32, HST_SHAPE(4, 6), 0.1, 2), x_dtype);
    hst_tensor *w = hst_cast(hst_uniform(ctx, HST_F32, HST_SHAPE(6, 6), 0.1, 2), w_dtype);
    hst_dtype cast = class == 'L' ? region : HST_F32;
    bool keeps = class == 'K' || class == 'W' || class == 'B';
    hst_tensor *expected =
        keeps ? operations[row].drive(x, w) : operations[row].drive(hst_cast(x, cast), hst_cast(w, cast));
    begin(region, list);
    hst_tensor *have = operations[row].drive(x, w);
    hst_autocast_end(ctx);
    snprintf(what, sizeof what, "%s of %s and %s in a %s region of %s", operations[row].name, hst_dtype_name(x_dtype),
             hst_dtype_name(w_dtype), hst_dtype_name(region), hst_op_list_name(list));
    expect_same(have, expected, what);
    hst_scope_end(ctx, NULL);
}

Test(autocast, a1_every_operation_in_every_list) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    int checked = 0;
    for (int row = 0; row < OPERATIONS; row++)
        for (int list = 0; list < HST_OP_LISTS; list++)
            for (int r = 1; r < 3; r++)
                for (int mix = 0; mix < 9; mix++) {
                    hst_dtype x = dtypes[mix / 3], w = dtypes[mix % 3];
                    bool refused = operations[row].classes[list] == 'W' && x != w && x != HST_F32 && w != HST_F32;
                    refused |= is_banned(row, (hst_op_list)list, x, w);
                    if (operations[row].drive == drive_sru_recurrence || refused) continue; // below
                    check_operation(row, (hst_op_list)list, dtypes[r], x, w);
                    checked++;
                }
    cr_expect(checked > 3000);
    for (int i = 0; i < hst_op_count; i++)
        cr_expect(has_row(hst_op_table[i]->name), "%s has no row", hst_op_table[i]->name);
    cr_expect_eq(OPERATIONS, hst_op_count);
}

Test(autocast, apex_does_not_promote_f16_and_bf16) {
    hst_tensor *x = hst_full(ctx, HST_F16, HST_SHAPE(4, 6), 1), *w = hst_full(ctx, HST_BF16, HST_SHAPE(6, 6), 1);
    begin(HST_F16, HST_LIST_APEX_O1);
    for (int row = 0; row < OPERATIONS; row++) {
        if (operations[row].classes[HST_LIST_APEX_O1] != 'W') continue;
        cr_expect_null(operations[row].drive(x, w));
        EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "which APEX does not promote");
    }
}

static void expect_banned(int row, hst_op_list list, hst_dtype x_dtype, hst_dtype w_dtype) {
    static const char *const sentence =
        "binary_cross_entropy: is banned in this region, and argument %s is %s; hst_binary_cross_entropy_with_logits "
        "takes the logits in any dtype";
    hst_tensor *x = hst_full(ctx, x_dtype, HST_SHAPE(4, 6), 1), *w = hst_full(ctx, w_dtype, HST_SHAPE(6, 6), 1);
    bool names_w = w_dtype != HST_F32 && (x_dtype == HST_F32 || (x_dtype == HST_BF16 && w_dtype == HST_F16));
    char expected[256];
    snprintf(expected, sizeof expected, sentence, names_w ? "targets" : "p",
             hst_dtype_name(names_w ? w_dtype : x_dtype));
    begin(HST_F16, list);
    cr_expect_null(operations[row].drive(x, w));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, expected);
    expect_all(hst_binary_cross_entropy_with_logits(hst_zeros(ctx, x_dtype, HST_SHAPE(4, 6)), part(w)), (float)log(2));
    hst_autocast_end(ctx);
}

Test(autocast, what_is_banned_says_what_to_use) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    int refused = 0;
    for (int row = 0; row < OPERATIONS; row++)
        for (int list = 0; list < HST_OP_LISTS; list++)
            for (int mix = 0; mix < 9; mix++) {
                hst_dtype x = dtypes[mix / 3], w = dtypes[mix % 3];
                if (!is_banned(row, (hst_op_list)list, x, w)) continue;
                expect_banned(row, (hst_op_list)list, x, w);
                refused++;
            }
    cr_expect_eq(refused, 9 + 8 + 8); // all in PyTorch's on CUDA; in halfstep's and APEX's not f32 with f32
    hst_tensor *p = hst_full(ctx, HST_F16, HST_SHAPE(2), 0.5);
    begin(HST_F16, HST_LIST_TORCH_CUDA);
    begin(HST_F32, HST_LIST_TORCH_CUDA);
    expect_all(hst_binary_cross_entropy(p, p), (float)log(2)); // left out of the region
}

Test(autocast, a7_f16_and_bf16_make_f32) {
    hst_tensor *a = hst_full(ctx, HST_F16, HST_SHAPE(2), 0.1), *b = hst_full(ctx, HST_BF16, HST_SHAPE(2), 0.1), *y;
    begin(HST_F16, HST_LIST_HALFSTEP);
    double sum = hst_from_f16(hst_to_f16(0.1)) + (double)hst_from_bf16(hst_to_bf16(0.1));
    expect_all(y = hst_add(a, b), sum); // exact in f32
    cr_expect_eq(hst_dtype_of(y), HST_F32);
    cr_expect_eq(hst_dtype_of(hst_cat(2, (hst_tensor *[]){a, b}, 0)), HST_F32);
    cr_expect_eq(hst_dtype_of(hst_where(hst_full(ctx, HST_U8, HST_SHAPE(2), 0), a, b)), HST_F32);
}

// ---- gradients ----

// Of y = x w, with x and w rounded to the region's type and dy in it: dx = dy w^T and dw = x^T dy, in fp32.
Test(autocast, gradients_of_products_are_in_the_dtype_of_what_was_given) {
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(5, 7), -1, 1);
    hst_tensor *w = hst_uniform(ctx, HST_F32, HST_SHAPE(7, 3), -1, 1), *b = hst_full(ctx, HST_F32, HST_SHAPE(3), 0.3);
    hst_tensor *dy = hst_cast(hst_uniform(ctx, HST_F32, HST_SHAPE(5, 3), -1, 1), HST_BF16);
    hst_tensor *all[] = {x, w, b};
    for (int i = 0; i < 3; i++) hst_attach_grad(all[i], HST_WRITE, HST_F32);
    begin(HST_BF16, HST_LIST_HALFSTEP);
    hst_tensor *y = hst_linear(x, w, b);
    hst_autocast_end(ctx);
    hst_backward_from(ctx, 1, &y, &dy);
    hst_no_grad_begin(ctx);
    hst_tensor *wide_x = hst_cast(hst_cast(x, HST_BF16), HST_F32), *wide_w = hst_cast(hst_cast(w, HST_BF16), HST_F32);
    hst_tensor *wide_dy = hst_cast(dy, HST_F32);
    expect_same(hst_grad(x), hst_matmul(wide_dy, hst_transpose(wide_w, 0, 1)), "dx");
    expect_same(hst_grad(w), hst_matmul(hst_transpose(wide_x, 0, 1), wide_dy), "dw");
    expect_same(hst_grad(b), hst_sum_axes(wide_dy, 1, (int[]){0}, false), "dbias");
}

// ---- the recurrence ----

Test(autocast, h_of_the_recurrence_follows_the_region_and_its_flag) {
    hst_tensor *u = hst_full(ctx, HST_BF16, HST_SHAPE(2, 3, 12), 0.5),
               *x = hst_full(ctx, HST_F32, HST_SHAPE(2, 3, 4), 1);
    hst_tensor *bias = hst_zeros(ctx, HST_F32, HST_SHAPE(8)), *c;
    hst_recurrence o = hst_recurrence_defaults();
#define H hst_dtype_of(hst_sru_recurrence(u, x, NULL, NULL, bias, NULL, NULL, NULL, o, &c))
    cr_expect_eq(H, HST_F32, "as x");
    for (int f32 = 0; f32 < 2; f32++) {
        hst_autocast_begin(ctx, &(hst_autocast){.dtype = HST_F16, .recurrence_f32 = f32});
        cr_expect_eq(H, f32 ? HST_F32 : HST_F16);
        cr_expect_eq(hst_dtype_of(c), HST_F32);
        o.names_dtype = true, o.dtype = HST_BF16;
        cr_expect_eq(H, HST_BF16, "as it is named");
        o.names_dtype = false;
        hst_autocast_begin(ctx, NULL);
        cr_expect_eq(H, HST_F32, "left out of the region: as x");
        hst_autocast_end(ctx);
        hst_autocast_end(ctx);
    }
#undef H
}

// ---- A2: nesting ----

static hst_dtype product(void) {
    hst_tensor *one = hst_full(ctx, HST_F32, HST_SHAPE(1, 1), 1);
    return hst_dtype_of(hst_matmul(one, one));
}

Test(autocast, a2_regions_nest) {
    cr_expect_eq(product(), HST_F32);
    begin(HST_F16, HST_LIST_HALFSTEP);
    cr_expect_eq(product(), HST_F16);
    begin(HST_BF16, HST_LIST_HALFSTEP);
    cr_expect_eq(product(), HST_BF16);
    begin(HST_F32, HST_LIST_HALFSTEP);
    cr_expect_eq(product(), HST_F32);
    cr_expect_eq(hst_autocast_dtype(ctx), HST_F32);
    begin(HST_F16, HST_LIST_HALFSTEP);
    cr_expect_eq(product(), HST_F16);
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(product(), HST_F32);
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(product(), HST_BF16);
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(product(), HST_F16);
    cr_expect_eq(hst_autocast_dtype(ctx), HST_F16);
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(product(), HST_F32);
    cr_expect_eq(hst_autocast_end(ctx), HST_ERROR_STATE);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "no region is open");
    cr_expect_eq(product(), HST_F32);
}

Test(autocast, bad_regions_are_refused_and_still_end) {
    hst_autocast_begin(ctx, &(hst_autocast){.dtype = HST_I32});
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "HST_F16, HST_BF16");
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    hst_autocast_begin(ctx, &(hst_autocast){.dtype = HST_F16, .ops = HST_OP_LISTS});
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "no op list");
    cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    for (int i = 0; i < 70; i++) begin(HST_F16, HST_LIST_HALFSTEP);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "more than 63 regions");
    for (int i = 0; i < 70; i++) cr_expect_eq(hst_autocast_end(ctx), HST_OK);
    cr_expect_eq(product(), HST_F32);
    begin(HST_F16, HST_LIST_MXNET_FP16);
    hst_autocast_begin(ctx, NULL);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "nothing can be left out");
    hst_autocast_end(ctx);
    cr_expect_eq(hst_autocast_begin(NULL, NULL), HST_ERROR_MEMORY);
    cr_expect_eq(hst_autocast_end(NULL), HST_ERROR_MEMORY);
    cr_expect_eq(hst_autocast_dtype(NULL), HST_F32);
}

// The first region, or the first two, find no memory: they end, and the context is outside of regions.
Test(autocast, regions_without_memory_still_end) {
    for (int failures = 1; failures <= 2; failures++) {
        allocator a = {0};
        hst_options options = options_with(&a);
        hst_context *c = hst_open(&options);
        for (int i = 0; i < 2; i++) {
            a.fail_at = i < failures ? a.calls + 1 : 0;
            cr_expect_eq(hst_autocast_begin(c, &(hst_autocast){.dtype = HST_F16}), HST_ERROR_MEMORY);
        }
        hst_autocast_end(c);
        cr_expect_eq(hst_autocast_dtype(c), HST_F32);
        hst_clear_error(c);
        hst_tensor *one = hst_full(c, HST_F32, HST_SHAPE(1, 1), 1);
        cr_expect_eq(hst_dtype_of(hst_matmul(one, one)), HST_F32);
        cr_expect(hst_autocast_end(c) == HST_OK && hst_autocast_end(c) == HST_ERROR_STATE);
        hst_close(c);
        cr_expect_eq(a.live, 0);
    }
}

Test(autocast, what_another_systems_region_leaves_out_may_not_mix) {
    hst_tensor *x = hst_full(ctx, HST_F16, HST_SHAPE(2, 2), 1), *w = hst_full(ctx, HST_F32, HST_SHAPE(2, 2), 1);
    begin(HST_F16, HST_LIST_TORCH_CUDA);
    begin(HST_F32, HST_LIST_TORCH_CUDA);
    cr_expect_null(hst_linear(x, w, NULL));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "argument 1, w, is f32 and argument 0, x, f16");
    expect_all(hst_linear(hst_cast(x, HST_F32), w, NULL), 2);
    hst_autocast_end(ctx);
    begin(HST_F32, HST_LIST_HALFSTEP);
    expect_all(hst_linear(x, w, NULL), 2);
}

// ---- an application's classes ----

Test(autocast, a_class_can_be_overridden) {
    hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(2, 2), 0.1);
    hst_autocast_class(ctx, "matmul", HST_CAST_F32);
    hst_autocast_class(ctx, "tanh", HST_CAST_LOWER);
    hst_autocast_class(ctx, "exp", HST_CAST_BANNED);
    hst_autocast_class(ctx, "binary_cross_entropy", HST_CAST_F32);
    hst_autocast_class(ctx, "binary_cross_entropy_with_logits", HST_CAST_LOWER);
    begin(HST_F16, HST_LIST_TORCH_CUDA);
    cr_expect_eq(hst_dtype_of(hst_matmul(x, x)), HST_F32);
    hst_tensor *y = hst_tanh(x), *half = hst_cast(x, HST_F16);
    cr_expect_eq(hst_dtype_of(y), HST_F16);
    cr_expect_eq(hst_dtype_of(hst_binary_cross_entropy(half, half)), HST_F32, "no longer banned");
    cr_expect_eq(hst_dtype_of(hst_binary_cross_entropy_with_logits(x, x)), HST_F32, "its losses always are");
    hst_autocast_end(ctx);
    expect_same(y, hst_tanh(hst_cast(x, HST_F16)), "tanh of what was rounded");
    begin(HST_F16, HST_LIST_HALFSTEP);
    cr_expect(hst_exp(x) != NULL);
    hst_tensor *u = hst_full(ctx, HST_F32, HST_SHAPE(1, 2, 6), 1), *bias = hst_zeros(ctx, HST_F32, HST_SHAPE(4));
    static const hst_cast_class classes[] = {HST_CAST_NONE, HST_CAST_LOWER, HST_CAST_F32, HST_CAST_WIDEST};
    for (int i = 0; i < 4; i++) { // none: its own rule; f32; lower: f16; widest of f32 arguments: f32
        hst_autocast_class(ctx, "sru_recurrence", classes[i]);
        hst_tensor *h =
            hst_sru_recurrence(u, NULL, NULL, NULL, bias, NULL, NULL, NULL, hst_recurrence_defaults(), NULL);
        cr_expect_eq(hst_dtype_of(h), i < 2 ? HST_F16 : HST_F32, "class %d: %s", i, hst_error(ctx));
    }
    cr_expect_null(hst_exp(hst_cast(x, HST_F16)));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "exp: is banned in this region, and argument x is f16");
    cr_expect_eq(hst_autocast_class(ctx, "attention", HST_CAST_LOWER), HST_ERROR_VALUE);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "no operation attention");
    hst_autocast_class(ctx, "tanh", (hst_cast_class)9);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "classes are 0 to 4");
    hst_autocast_class(ctx, "reshape", HST_CAST_LOWER);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "not a region's to choose");
    hst_autocast_class(ctx, "cast", HST_CAST_F32);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "not a region's to choose");
}
