// cpu.c: chooses among the CPU's backends: the naive kernels, and the fast ones compiled for each instruction set; and
// what all of them share. The unsafe ones are chosen by an option of their own.
#include <string.h>
#include "tensor/backend.h"

extern const hst_backend hst_backend_naive; // table.c, as the next three
#ifndef HST_REAL_DOUBLE
extern const hst_backend hst_backend_portable;
#ifdef __x86_64__
extern const hst_backend hst_backend_avx2, hst_backend_avx512, hst_backend_avx512bf16;
#endif
#endif

// Best first. Each runs wherever the one before it does, so that a CPU's choice is this list from some row to the end.
static const struct {
    const hst_backend *backend;
    const char *names;
} ladder[] = {
#ifndef HST_REAL_DOUBLE
#ifdef __x86_64__
    {&hst_backend_avx512bf16, "avx512bf16 avx512 avx2 portable naive"},
    {&hst_backend_avx512, "avx512 avx2 portable naive"},
    {&hst_backend_avx2, "avx2 portable naive"},
#endif
    {&hst_backend_portable, "portable naive"},
#endif
    {&hst_backend_naive, "naive"},
};
enum { RUNGS = sizeof ladder / sizeof *ladder };

// The first row that this CPU, with this operating system, can run.
static int best(void) {
#if defined __x86_64__ && !defined HST_REAL_DOUBLE
    // Every CPU with AVX2 also converts f16; the compilers differ in whether one may ask. The answers for AVX2 and
    // AVX-512 include whether the operating system saves their registers.
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 3;
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!avx512) return 2;
    return __builtin_cpu_supports("avx512bf16") ? 0 : 1;
#else
    return 0;
#endif
}

const hst_backend *hst_cpu_backend(const char *isa) {
    int first = best();
    if (!isa || !strcmp(isa, "auto")) return ladder[first].backend;
    for (int i = first; i < RUNGS; i++)
        if (!strcmp(isa, ladder[i].backend->name)) return ladder[i].backend;
    return NULL;
}

const char *hst_isa_names(void) { return ladder[best()].names; }

bool hst_check_ids(hst_context *ctx, const char *what, hst_source ids, hst_index_mode mode, int64_t count, int64_t n) {
    int64_t least = mode == HST_INDEX_FROM_END ? -n : 0;
    bool any = n > 0 && (mode == HST_INDEX_CLIP || mode == HST_INDEX_WRAP);
    for (int64_t i = 0; !any && i < count; i++) {
        int64_t id = hst_index_at(ids, i);
        if (id >= least && id < n) continue;
        if (n == 0)
            hst_fail(ctx, HST_ERROR_VALUE, "%s %lld at position %lld names nothing: there are no entries", what,
                     (long long)id, (long long)i);
        else
            hst_fail(ctx, HST_ERROR_VALUE, "%s %lld at position %lld is not in %lld .. %lld", what, (long long)id,
                     (long long)i, (long long)least, (long long)n - 1);
        return false;
    }
    return true;
}
