// test_sha256.c: the published vectors of SHA-256 (FIPS 180-4 and NIST's examples), in parts of every size.
#include "models/sha256.h"
#include <criterion/criterion.h>
#include <string.h>

Test(models, sha256_is_the_published_one) {
    static char million[1000000];
    memset(million, 'a', sizeof million);
    const struct {
        const char *text;
        size_t size;
        const char *sum;
    } cases[] = {{"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                 {million, sizeof million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t part = 1; part < 200; part += 7) {
            hst_sha256 hash = hst_sha256_begin();
            char sum[HST_SHA256_TEXT];
            for (size_t at = 0; at < cases[i].size; at += part)
                hst_sha256_add(&hash, cases[i].text + at, cases[i].size - at < part ? cases[i].size - at : part);
            cr_expect_str_eq(hst_sha256_end(&hash, sum), cases[i].sum);
        }
}
