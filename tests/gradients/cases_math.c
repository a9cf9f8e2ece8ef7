// cases_math.c: elementwise, reducing and row-wise operations.
#include "tests/gradients/cases.h"

// ---- arithmetic ----

// x^2 + 1/2: never near zero.
static hst_tensor *above_zero(hst_context *ctx, hst_tensor *x) {
    return hst_add(hst_mul(x, x), hst_full(ctx, HST_F32, HST_SCALAR, 0.5));
}

enum { A_TRANSPOSED = 4, B_TRANSPOSED = 8, SAME = 16 };

// Bits 0 and 1 of the option choose the function; a quotient's divisor is kept away from zero.
static hst_tensor *arithmetic(hst_context *ctx, hst_tensor *const *x, void *user) {
    static hst_tensor *(*const functions[])(hst_tensor *, hst_tensor *) = {hst_add, hst_sub, hst_mul, hst_div};
    int option = ((const gradient_case *)user)->option;
    hst_tensor *a = x[0], *b = x[option & SAME ? 0 : 1];
    if ((option & 3) == 3) b = above_zero(ctx, b);
    if ((option & 3) == 3 && option & SAME) a = b;
    if (option & A_TRANSPOSED) a = hst_transpose(a, -1, -2);
    if (option & B_TRANSPOSED) b = hst_transpose(b, -1, -2);
    return functions[option & 3](a, b);
}

#define ARITHMETIC(op, n)                                                                                              \
    {#op, "equal shapes", arithmetic, {X34, X34}, n}, {#op, "one twice", arithmetic, {X34}, n | SAME},                 \
        {#op, "one twice, once transposed", arithmetic, {{2, {3, 3}}}, n | SAME | B_TRANSPOSED},                       \
        {#op, "a transposed", arithmetic, {{2, {4, 3}}, X34}, n | A_TRANSPOSED},                                       \
        {#op, "b transposed", arithmetic, {{3, {2, 3, 4}}, {3, {2, 4, 3}}}, n | B_TRANSPOSED},                         \
        {#op, "a row", arithmetic, {{3, {2, 3, 4}}, {1, {4}}}, n},                                                     \
        {#op, "a column", arithmetic, {X34, {2, {3, 1}}}, n},                                                          \
        {#op, "a column first", arithmetic, {{2, {3, 1}}, X34}, n},                                                    \
        {#op, "a middle axis", arithmetic, {{3, {2, 3, 4}}, {3, {2, 1, 4}}}, n},                                       \
        {#op, "first and last axis", arithmetic, {{3, {1, 5, 1}}, {3, {2, 5, 3}}}, n},                                 \
        {#op, "a row and a column", arithmetic, {{2, {3, 1}}, {2, {1, 4}}}, n},                                        \
        {#op, "one number", arithmetic, {X34, {1, {1}}}, n},                                                           \
        {#op, "one number first", arithmetic, {{1, {1}}, X34}, n}, {                                                   \
#op, "a transposed row and column", arithmetic,                                                                \
            {{2, {1, 3 } }, {2, {4, 1 } } }, n | A_TRANSPOSED | B_TRANSPOSED                                           \
    }

// ---- functions ----

// Option 1: of positive numbers. None of the leaves' random numbers is so near 0 that relu's kink would show.
#define FUNCTION(name, call)                                                                                           \
    static hst_tensor *name(hst_context *ctx, hst_tensor *const *leaves, void *user) {                                 \
        int option = ((const gradient_case *)user)->option;                                                            \
        hst_tensor *x = option == 1 ? above_zero(ctx, leaves[0]) : leaves[0];                                          \
        return call;                                                                                                   \
    }
FUNCTION(sigmoid, hst_sigmoid(x))
FUNCTION(hyperbolic_tangent, hst_tanh(x))
FUNCTION(relu, hst_relu(x))
FUNCTION(gelu, hst_gelu(x, false))
FUNCTION(gelu_tanh, hst_gelu(x, true))
FUNCTION(exponential, hst_exp(x))
FUNCTION(logarithm, hst_log(x))
FUNCTION(square_root, hst_sqrt(x))
FUNCTION(power, hst_pow(x, -1.5))
FUNCTION(cube, hst_pow(x, 3))
FUNCTION(constant, hst_mul(hst_pow(x, 0), x))

// ---- reductions ----

enum { KEEP = 8, STRIDED = 16 };

// Bits 0 to 2 of the option: the axes, given from the last to the first.
#define REDUCTION(name)                                                                                                \
    static hst_tensor *name(hst_context *ctx, hst_tensor *const *leaves, void *user) {                                 \
        int option = ((const gradient_case *)user)->option, axes[3], count = 0;                                        \
        hst_tensor *x = option & STRIDED ? hst_transpose(leaves[0], 0, -1) : leaves[0];                                \
        (void)ctx;                                                                                                     \
        for (int axis = 2; axis >= 0; axis--)                                                                          \
            if (option >> axis & 1) axes[count++] = axis == 2 ? -1 : axis;                                             \
        return hst_##name##_axes(x, count, axes, option & KEEP);                                                       \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(max)

#define AXES(op, axes, what)                                                                                           \
    { #op, what, op, {{3, {2, 3, 4 } } }, axes }
#define REDUCTIONS(op)                                                                                                 \
    AXES(op, 0, "all axes, by none"), AXES(op, 7, "all axes, by name"), AXES(op, 1, "the first axis"),                 \
        AXES(op, 2, "a middle axis"), AXES(op, 4, "the last axis"), AXES(op, 3, "the first two"),                      \
        AXES(op, 6, "the last two"), AXES(op, 5, "first and last"), AXES(op, 5 | KEEP, "first and last, kept"),        \
        AXES(op, 2 | KEEP, "a middle axis, kept"), AXES(op, 2 | STRIDED, "a middle axis, strided"),                    \
        AXES(op, 1 | STRIDED, "the first axis, strided"), AXES(op, 7 | STRIDED | KEEP, "all axes, strided, kept"), {   \
#op, "an axis of one", op, {{3, {5, 1, 3 } } }, 2                                                              \
    }

// Option: the axis; 8: strided.
static hst_tensor *softmax(hst_context *ctx, hst_tensor *const *x, void *user) {
    int option = ((const gradient_case *)user)->option;
    (void)ctx;
    return hst_softmax(option & 8 ? hst_transpose(x[0], 0, 1) : x[0], (option & 3) - 1);
}
static hst_tensor *log_softmax(hst_context *ctx, hst_tensor *const *x, void *user) {
    int option = ((const gradient_case *)user)->option;
    (void)ctx;
    return hst_log_softmax(option & 8 ? hst_transpose(x[0], 0, 1) : x[0], (option & 3) - 1);
}

#define SOFTMAX(op)                                                                                                    \
    {#op, "the last axis", op, {{3, {2, 3, 5}}}, 0}, {#op, "the first axis", op, {{3, {2, 3, 5}}}, 1},                 \
        {#op, "a middle axis", op, {{3, {2, 3, 5}}}, 2}, {#op, "a vector", op, {{1, {7}}}, 1},                         \
        {#op, "an axis of one", op, {{2, {3, 1}}}, 0}, {                                                               \
#op, "strided", op, {X34 }, 8                                                                                  \
    }

// ---- binary cross entropy ----

// Targets of x's shape in 0 .. 1, the ends included.
static hst_tensor *answers(hst_context *ctx, const hst_tensor *x, hst_dtype dtype) {
    double t[24];
    for (int i = 0; i < 24; i++) t[i] = (i * 7 + 3) % 5 / 4.0;
    return hst_from_array(ctx, dtype, hst_rank(x), hst_shape(x), HST_F64, t);
}

// Options 0 and 2: targets in f32; 1: in f16. Option 2: strided. Leaves within 1.5 make probabilities in 0.18 .. 0.82.
#define BINARY_CROSS_ENTROPY(name, call)                                                                               \
    static hst_tensor *name(hst_context *ctx, hst_tensor *const *leaves, void *user) {                                 \
        int option = ((const gradient_case *)user)->option;                                                            \
        hst_tensor *x = option == 2 ? hst_transpose(leaves[0], 0, -1) : leaves[0];                                     \
        hst_tensor *t = answers(ctx, x, option == 1 ? HST_F16 : HST_F32);                                              \
        return call;                                                                                                   \
    }
BINARY_CROSS_ENTROPY(binary_cross_entropy, hst_binary_cross_entropy(hst_sigmoid(x), t))
BINARY_CROSS_ENTROPY(binary_cross_entropy_with_logits, hst_binary_cross_entropy_with_logits(x, t))

// ---- norms ----

static hst_tensor *rms_norm(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    return hst_rms_norm(x[0], c->option & 1 ? x[1] : NULL, c->option & 2 ? 0.5 : 1e-5);
}

// clang-format off
const gradient_case cases_math[] = {
    ARITHMETIC(add, 0),
    ARITHMETIC(sub, 1),
    ARITHMETIC(mul, 2),
    ARITHMETIC(div, 3),
    {"sigmoid", "", sigmoid, {X34}, 0},
    {"tanh", "", hyperbolic_tangent, {X34}, 0},
    {"tanh", "a vector", hyperbolic_tangent, {{1, {5}}}, 1},
    {"relu", "", relu, {{2, {5, 7}}}, 0},
    {"gelu", "exact", gelu, {X34}, 0},
    {"gelu", "tanh form", gelu_tanh, {X34}, 0},
    {"exp", "", exponential, {X34}, 0},
    {"log", "of positive numbers", logarithm, {X34}, 1},
    {"sqrt", "of positive numbers", square_root, {X34}, 1},
    {"pow", "-1.5", power, {X34}, 1},
    {"pow", "3, of either sign", cube, {X34}, 0},
    {"pow", "0", constant, {X34}, 0},
    REDUCTIONS(sum),
    REDUCTIONS(mean),
    REDUCTIONS(max),
    SOFTMAX(softmax),
    SOFTMAX(log_softmax),
    {"binary_cross_entropy", "", binary_cross_entropy, {{3, {2, 3, 4}}}, 0},
    {"binary_cross_entropy", "a vector, targets in f16", binary_cross_entropy, {{1, {5}}}, 1},
    {"binary_cross_entropy", "strided", binary_cross_entropy, {X34}, 2},
    {"binary_cross_entropy_with_logits", "", binary_cross_entropy_with_logits, {{3, {2, 3, 4}}}, 0},
    {"binary_cross_entropy_with_logits", "a vector, targets in f16", binary_cross_entropy_with_logits, {{1, {5}}}, 1},
    {"binary_cross_entropy_with_logits", "strided", binary_cross_entropy_with_logits, {X34}, 2},
    {"rms_norm", "plain", rms_norm, {X34}, 0},
    {"rms_norm", "gain, large eps", rms_norm, {{3, {2, 2, 5}}, {1, {5}}}, 3},
    {0}};
// clang-format on
