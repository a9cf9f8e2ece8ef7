// kernels.h: every kernel of the CPU, under its name for the instruction set being compiled: KERNEL(gemm) is
// hst_gemm_avx2 when HST_ISA is avx2. The files of this folder are compiled once for each instruction set; naive*.c
// twice, as the instruction sets "naive" and "unsafe" (naive.h); cpu.c, which chooses, and upstream_sru.c, which is for
// comparison, once. What a kernel computes stands at its struct in tensor/backend.h; table.c collects them.
#ifndef HST_CPU_KERNELS_H
#define HST_CPU_KERNELS_H

#include "tensor/backend.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define KERNEL(name) PASTE(hst_##name##_, HST_ISA)

// An instruction set that differs from another in products alone, as avx512bf16 from avx512, has the rest of it.
#ifndef HST_REST
#define HST_REST HST_ISA
#endif
#define REST(name) PASTE(hst_##name##_, HST_REST)

#define DECLARE(name) bool KERNEL(name)(hst_context *, const hst_##name##_args *);
#define DECLARE_REST(name) bool REST(name)(hst_context *, const hst_##name##_args *);
HST_PRODUCTS_AND_REST(DECLARE, DECLARE_REST)

#endif
