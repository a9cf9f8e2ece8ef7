// sha256.h: SHA-256 (FIPS 180-4), to tell whether a file or a text is the one it was.
//
//     hst_sha256 hash = hst_sha256_begin();
//     hst_sha256_add(&hash, bytes, count);     // as often as there are parts
//     char text[HST_SHA256_TEXT];
//     hst_sha256_end(&hash, text);             // 64 hexadecimal digits
#ifndef HST_SHA256_H
#define HST_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HST_SHA256_TEXT = 65 };

typedef struct hst_sha256 {
    uint32_t state[8];
    uint64_t bytes; // added so far
    uint8_t block[64];
} hst_sha256;

hst_sha256 hst_sha256_begin(void);
void hst_sha256_add(hst_sha256 *hash, const void *bytes, size_t count);
const char *hst_sha256_end(hst_sha256 *hash, char text[HST_SHA256_TEXT]); // returns text

#endif
