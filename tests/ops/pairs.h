// pairs.h: one more set of kernels for the tests of products, "pairs": the machine's own, but products made as
// avx512bf16 makes them, with the instruction vdpbf16ps in C (pairs.c). So the path of pairs is tested where no CPU has
// it.
#ifndef TESTS_OPS_PAIRS_H
#define TESTS_OPS_PAIRS_H

#include "tests/ops/isas.h"

hst_context *open_products(const char *isa, int threads); // as open_isa, which does not know "pairs"
void for_each_products(void (*check)(hst_context *ctx));

#endif
