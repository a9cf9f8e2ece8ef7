// test_format.c: numbers and tensors as text.
#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/context.h"

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(tensor_format, .init = open_context, .fini = close_context);

static void expect_text(const hst_tensor *t, const char *expected) {
    char text[2000];
    size_t length = hst_format(t, text, sizeof text);
    cr_assert_str_eq(text, expected);
    cr_assert_eq(length, strlen(expected));
}

static hst_tensor *numbered(hst_dtype dtype, int rank, const int64_t *shape) { // 0, 1, 2, ...
    hst_tensor *t = hst_empty(ctx, dtype, rank, shape);
    for (int64_t i = 0; i < hst_count(t); i++) hst_store((hst_target){hst_raw(t), dtype, false}, i, (double)i);
    return t;
}

Test(tensor_format, small_tensors) {
    double values[] = {0.5, -2, 1e-7, 123456789, INFINITY, -0.0};
    expect_text(hst_from_array(ctx, HST_F32, HST_SHAPE(2, 3), HST_F64, values),
                "f32 (2, 3)\n[[0.5, -2, 1e-07],\n [1.23457e+08, inf, -0]]");
    expect_text(hst_full(ctx, HST_BF16, HST_SCALAR, 0.25), "bf16 ()\n0.25");
    expect_text(hst_full(ctx, HST_F16, HST_SHAPE(1), 1e9), "f16 (1)\n[inf]");
    expect_text(hst_transpose(numbered(HST_U8, HST_SHAPE(2, 3)), 0, 1), "u8 (3, 2)\n[[0, 3],\n [1, 4],\n [2, 5]]");
    expect_text(numbered(HST_I32, HST_SHAPE(2, 1, 2)), "i32 (2, 1, 2)\n[[[0, 1]],\n [[2, 3]]]");
    expect_text(hst_zeros(ctx, HST_F64, HST_SHAPE(0)), "f64 (0)\n[]");
    expect_text(hst_zeros(ctx, HST_F64, HST_SHAPE(2, 0)), "f64 (2, 0)\n[[],\n []]");
}

Test(tensor_format, integers_are_written_in_full) {
    int64_t values[] = {1234567, -2147483648, INT64_C(1) << 53};
    expect_text(hst_from_array(ctx, HST_I64, HST_SHAPE(3), HST_I64, values),
                "i64 (3)\n[1234567, -2147483648, 9007199254740992]");
}

Test(tensor_format, long_axes_are_shortened) {
    expect_text(numbered(HST_F32, HST_SHAPE(7)), "f32 (7)\n[0, 1, 2, 3, 4, 5, 6]");
    expect_text(numbered(HST_F32, HST_SHAPE(8)), "f32 (8)\n[0, 1, 2, ..., 5, 6, 7]");
    expect_text(numbered(HST_F32, HST_SHAPE(100)), "f32 (100)\n[0, 1, 2, ..., 97, 98, 99]");
    expect_text(numbered(HST_F32, HST_SHAPE(9, 1)), "f32 (9, 1)\n[[0],\n [1],\n [2],\n ...,\n [6],\n [7],\n [8]]");
}

Test(tensor_format, the_longest_shape) {
    int64_t shape[] = {0, 10000, 10, 10000, 10, 1000, 10, 10}; // more would be refused
    expect_text(hst_adopt(ctx, HST_BF16, 8, shape, NULL, NULL, NULL),
                "bf16 (0, 10000, 10, 10000, 10, 1000, 10, 10)\n[]");
}

// As snprintf: the full length whatever the size, and always a terminator inside it.
Test(tensor_format, text_that_does_not_fit_is_cut) {
    const char *whole = "f32 (3)\n[0, 1, 2]";
    hst_tensor *t = numbered(HST_F32, HST_SHAPE(3));
    cr_assert_eq(hst_format(t, NULL, 0), strlen(whole));
    for (size_t size = 1; size < 25; size++) {
        char text[32];
        memset(text, '#', sizeof text);
        cr_assert_eq(hst_format(t, text, size), strlen(whole));
        size_t kept = size - 1 < strlen(whole) ? size - 1 : strlen(whole);
        cr_assert(!memcmp(text, whole, kept) && text[kept] == 0, "size %zu: %.32s", size, text);
        for (size_t i = size; i < sizeof text; i++) cr_assert_eq(text[i], '#', "size %zu: wrote at %zu", size, i);
    }
}

static void expect_number(double x, int digits, const char *expected) {
    char text[32];
    int length = hst_format_number(text, x, digits);
    cr_assert_str_eq(text, expected);
    cr_assert_eq(length, (int)strlen(expected));
}

static void check_numbers(void) {
    expect_number(1.5, 6, "1.5");
    expect_number(-0.001953125, 9, "-0.001953125");
    expect_number(1e-300, 3, "1e-300");
    expect_number(-1.25e100, 4, "-1.25e+100");
    expect_number(0, 6, "0");
    expect_number(INFINITY, 6, "inf");
    expect_number(-INFINITY, 6, "-inf");
    char text[32];
    hst_format_number(text, NAN, 6);
    cr_assert(strstr(text, "nan"));
}

Test(tensor_format, numbers) { check_numbers(); }

// Not every machine has one of these; what is there must not change the text.
Test(tensor_format, numbers_where_the_decimal_point_is_a_comma) {
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF.UTF-8", "fa_IR.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_ALL, locales[i])) check_numbers();
}
