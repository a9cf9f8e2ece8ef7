// sha256.c: SHA-256 in the notation of FIPS 180-4: Ch, Maj, the sums S, the schedule W.
#include "models/sha256.h"
#include <string.h>

// The first 32 bits of the fractions of the square roots of the first 8 primes, and of the cube roots of the first 64.
static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); } // to the right

static void compress(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++, block += 4)
        w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[t - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s); // a .. h
    for (int t = 0; t < 64; t++) {
        uint32_t a = s[0], b = s[1], c = s[2], e = s[4], f = s[5], g = s[6];
        uint32_t one = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t];
        uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

hst_sha256 hst_sha256_begin(void) {
    hst_sha256 hash = {.bytes = 0};
    memcpy(hash.state, initial, sizeof initial);
    return hash;
}

void hst_sha256_add(hst_sha256 *hash, const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    while (count > 0) {
        size_t used = hash->bytes % 64, n = count < 64 - used ? count : 64 - used;
        if (n == 64) {
            compress(hash->state, at);
        } else {
            memcpy(hash->block + used, at, n);
            if (used + n == 64) compress(hash->state, hash->block);
        }
        hash->bytes += n;
        at += n;
        count -= n;
    }
}

// Padding: a bit 1, zeros, and the length in bits as 64 bits, big-endian.
const char *hst_sha256_end(hst_sha256 *hash, char text[HST_SHA256_TEXT]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    hst_sha256_add(hash, padding, 1 + (119 - hash->bytes % 64) % 64);
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    hst_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 64; i++) text[i] = "0123456789abcdef"[hash->state[i / 8] >> (28 - i % 8 * 4) & 15];
    text[64] = '\0';
    return text;
}
