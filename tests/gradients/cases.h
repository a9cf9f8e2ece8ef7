// cases.h: what is compared with central differences. A family of operations has its cases in a file of its own,
// cases_<family>.c; a family is a row of FAMILIES.
#ifndef TESTS_GRADIENTS_CASES_H
#define TESTS_GRADIENTS_CASES_H

#include "ops/ops.h"

typedef struct shape {
    int rank;
    int64_t extent[4];
} shape;

// One case: the operation it exercises, how many leaves of which shapes, and the function with its options.
typedef struct gradient_case {
    const char *op, *what;
    hst_tensor *(*f)(hst_context *ctx, hst_tensor *const *x, void *user);
    shape leaves[6];
    int option;
} gradient_case;

// clang-format off
#define FAMILIES(X) \
    X(basic) \
    X(shape) \
    X(math) \
    X(sru)
#define X34 {2, {3, 4}} // the usual leaf
// clang-format on

// cases_<family>[], which ends with a row of zeros.
#define DECLARE_FAMILY(name) extern const gradient_case cases_##name[];
FAMILIES(DECLARE_FAMILY)

// An index array of the given shape (at most 64 elements) with values below `below`, all repeated and unordered.
static inline hst_tensor *with_ids(hst_context *ctx, int rank, const int64_t *extent, int64_t below) {
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = (int32_t)((i * 7 + 3) % below);
    return hst_from_array(ctx, HST_I32, rank, extent, HST_I32, ids);
}

#endif
