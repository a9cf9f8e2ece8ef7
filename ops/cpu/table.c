// table.c: the backend of one instruction set; compiled once for each, see kernels.h.
#include "ops/cpu/kernels.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

extern const hst_backend PASTE(hst_backend_, HST_ISA); // cpu.c refers to it

const hst_backend PASTE(hst_backend_, HST_ISA) = {
    .abi = HST_BACKEND_ABI,
    .size = sizeof(hst_backend),
    .name = STRING(HST_ISA),
    .copy = KERNEL(copy),
    .combine = KERNEL(combine),
    .gemm = KERNEL(gemm),
    .sum = KERNEL(sum),
    .square_sum = KERNEL(square_sum),
    .lookup = KERNEL(lookup),
    .lookup_grad = KERNEL(lookup_grad),
    .norm = KERNEL(norm),
    .norm_grad = KERNEL(norm_grad),
    .nll = KERNEL(nll),
    .nll_grad = KERNEL(nll_grad),
    .dropout = KERNEL(dropout),
    .sru = KERNEL(sru),
    .sru_grad = KERNEL(sru_grad),
    .adamw = KERNEL(adamw),
    .sgd = KERNEL(sgd),
};
