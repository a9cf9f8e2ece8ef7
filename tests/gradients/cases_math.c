// cases_math.c: elementwise, reducing and row-wise operations.
#include "tests/gradients/cases.h"

static hst_tensor *rms_norm(hst_context *ctx, hst_tensor *const *x, void *user) {
    const gradient_case *c = user;
    (void)ctx;
    return hst_rms_norm(x[0], c->option & 1 ? x[1] : NULL, c->option & 2 ? 0.5 : 1e-5);
}

// clang-format off
const gradient_case cases_math[] = {
    {"rms_norm", "plain", rms_norm, {X34}, 0},
    {"rms_norm", "gain, large eps", rms_norm, {{3, {2, 2, 5}}, {1, {5}}}, 3},
    {0}};
// clang-format on
