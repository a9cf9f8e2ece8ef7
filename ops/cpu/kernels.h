// kernels.h: every fast kernel, under its name for the instruction set being compiled: KERNEL(gemm) is hst_gemm_avx2
// when HST_ISA is avx2. The files of this folder are compiled once for each, except cpu.c and naive*.c, which exist once.
// What a kernel computes stands at its struct in tensor/backend.h; table.c collects them.
#ifndef HST_KERNELS_H
#define HST_KERNELS_H

#include "tensor/backend.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define KERNEL(name) PASTE(hst_##name##_, HST_ISA)

bool KERNEL(copy)(hst_context *ctx, const hst_copy *args);
bool KERNEL(combine)(hst_context *ctx, const hst_combine *args);
bool KERNEL(gemm)(hst_context *ctx, const hst_gemm *args);
bool KERNEL(sum)(hst_context *ctx, const hst_sum_args *args);
bool KERNEL(square_sum)(hst_context *ctx, int64_t count, hst_source x, double *sum);
bool KERNEL(lookup)(hst_context *ctx, const hst_lookup *args);
bool KERNEL(lookup_grad)(hst_context *ctx, const hst_lookup_grad *args);
bool KERNEL(norm)(hst_context *ctx, const hst_norm *args);
bool KERNEL(norm_grad)(hst_context *ctx, const hst_norm_grad *args);
bool KERNEL(nll)(hst_context *ctx, const hst_nll *args);
bool KERNEL(nll_grad)(hst_context *ctx, const hst_nll_grad *args);
bool KERNEL(dropout)(hst_context *ctx, const hst_dropout_args *args);
bool KERNEL(sru)(hst_context *ctx, const hst_sru_args *args);
bool KERNEL(sru_grad)(hst_context *ctx, const hst_sru_grad *args);
bool KERNEL(adamw)(hst_context *ctx, const hst_adamw_args *args);
bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args);

#endif
