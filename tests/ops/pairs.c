// pairs.c: gemm.c as avx512bf16 compiles it, but for the one instruction; see pairs.h.
#define HST_ISA pairs
#define PAIRS 1
#include "ops/cpu/vector.h"

static vf flushed(vf x) {
    vf sign = (vf)((vu)x & 0x80000000), size = (vf)((vu)x & 0x7fffffff);
    return pick(size < 0x1p-126f, sign, x);
}
static vf firsts(vf pairs) { return flushed((vf)((vu)pairs << 16)); }
static vf seconds(vf pairs) { return flushed((vf)((vu)pairs & 0xffff0000)); }

// Intel's manual, VDPBF16PS: c += second a second b, then c += first a first b, each fused and rounded to nearest even;
// subnormals are 0 before and after. Products are exact in f32, so that multiply_add need not be fused, unless they
// underflow.
static vf multiply_add_pairs(vf a, vf b, vf c) {
    c = flushed(multiply_add(seconds(a), seconds(b), flushed(c)));
    return flushed(multiply_add(firsts(a), firsts(b), c));
}

#include "ops/cpu/gemm.c"

#include "tests/ops/pairs.h"

#ifdef __AVX2__
#define BASE "avx2" // what this file is compiled for, by the Makefile
#else
#define BASE "portable"
#endif

hst_context *open_products(const char *isa, int threads) {
    static hst_backend backend;
    if (strcmp(isa, "pairs")) return open_isa(isa, threads);
    hst_context *ctx = open_isa(BASE, threads);
    backend = *ctx->backend;
    backend.name = "pairs";
    backend.gemm = KERNEL(gemm);
    backend.gemm_batch = KERNEL(gemm_batch);
    ctx->backend = &backend;
    return ctx;
}

void for_each_products(void (*check)(hst_context *ctx)) {
    for_each_isa(check);
    if (!strstr(hst_isa_names(), BASE)) return;
    hst_context *ctx = open_products("pairs", 2);
    check(ctx);
    hst_close(ctx);
}
