// random.c: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", 2011). The words of block i are a pure function of (key, i): any thread computes any part, and a run
// resumed in the middle draws the same numbers.
#include "tensor/context.h"

void hst_philox(hst_random_key key, uint64_t i, uint32_t words[4]) {
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    // The counter's 128 bits: block (40 bits), step (56 bits), operation (32 bits).
    uint32_t c0 = (uint32_t)i, c1 = ((uint32_t)(i >> 32) & 0xff) | (uint32_t)(key.step << 8),
             c2 = (uint32_t)(key.step >> 24), c3 = key.operation;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

void hst_random_step(hst_context *ctx, uint64_t step) {
    if (!ctx) return;
    ctx->random.step = step;
    ctx->random.operation = 0;
}

void hst_seed(hst_context *ctx, uint64_t seed) {
    if (!ctx) return;
    ctx->random.seed = seed;
    hst_random_step(ctx, 0);
}

hst_random_key hst_next_key(hst_context *ctx) {
    hst_random_key key = ctx->random;
    ctx->random.operation++;
    return key;
}

hst_tensor *hst_uniform(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, double low, double high) {
    hst_tensor *t = hst_new(ctx, dtype, rank, shape);
    if (!t) return NULL;
    hst_random_key key = hst_next_key(ctx);
    hst_target to = {hst_raw(t), dtype, false};
    int64_t count = hst_count(t);
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        hst_philox(key, (uint64_t)i / 4, words);
        for (int64_t j = i; j < count && j < i + 4; j++)
            hst_store(to, j, low + (high - low) * (double)hst_unit(words[j - i]));
    }
    return t;
}
