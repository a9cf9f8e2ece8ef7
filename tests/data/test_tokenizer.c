// test_tokenizer.c: symbols to text and back: the borders of UTF-8, what is refused, and texts that are encoded.
#include "data/data.h"
#include "tests/temporary.h"

// The lowest and the highest characters of each length.
static const char borders[] = "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
static const int lengths[] = {1, 1, 2, 2, 3, 3, 4, 4};

static hst_corpus *corpus_of(const char *text, size_t size) {
    hst_corpus *corpus = hst_corpus_new(ctx);
    hst_corpus_add_bytes(corpus, text, size);
    return corpus;
}

Test(data, characters_have_symbols_in_their_order, .init = set_up, .fini = tear_down) {
    hst_corpus *text = corpus_of(borders, sizeof borders - 1);
    hst_tokenizer *t = hst_tokenizer_characters(text);
    cr_assert(t, "%s", hst_error(ctx));
    cr_assert_eq(hst_tokenizer_size(t), 8);
    cr_expect_str_eq(hst_tokenizer_unit(t), "character");
    cr_expect_str_eq(hst_tokenizer_text(t), "{\"characters\":[1,127,128,2047,2048,65535,65536,1114111]}");
    const char *at = borders;
    for (int i = 0; i < 8; at += lengths[i++]) {
        size_t count;
        const char *bytes = hst_tokenizer_decode(t, i, &count);
        cr_expect(count == (size_t)lengths[i] && !memcmp(bytes, at, count), "symbol %d", i);
    }
    size_t count = 9;
    cr_expect(!*hst_tokenizer_decode(t, 8, &count) && count == 0);
    cr_expect(!*hst_tokenizer_decode(t, -1, &count) && count == 0);
    hst_tokenizer *again = hst_tokenizer_read(ctx, hst_tokenizer_text(t));
    cr_expect(hst_tokenizer_equal(t, again));
    cr_assert_eq(hst_corpus_encode(text, again, false), HST_OK);
    hst_symbols s = hst_corpus_symbols(text);
    cr_assert(s.count == 8 && s.dtype == HST_I32);
    for (int i = 0; i < 8; i++) cr_expect_eq(((const int32_t *)s.data)[i], i);
    cr_expect_null(hst_corpus_split(text, 0.5));
    expect_failure(HST_ERROR_STATE, "split it before");
    cr_expect_eq(hst_corpus_encode(text, t, false), HST_ERROR_STATE);
    hst_clear_error(ctx);
    hst_corpus_free(text), hst_tokenizer_free(again), hst_tokenizer_free(t);
}

Test(data, bytes_are_their_own_symbols, .init = set_up, .fini = tear_down) {
    hst_tokenizer *t = hst_tokenizer_read(ctx, NULL);
    hst_corpus *text = corpus_of("a\xff\0b", 4);
    cr_assert_eq(hst_corpus_encode(text, t, false), HST_OK);
    hst_symbols s = hst_corpus_symbols(text);
    cr_expect(s.dtype == HST_U8 && s.count == 4 && s.data == hst_corpus_bytes(text));
    cr_expect(hst_tokenizer_size(t) == 256 && !hst_tokenizer_text(t) && hst_tokenizer_equal(t, NULL));
    for (int i = 0; i < 256; i++) {
        size_t count;
        cr_expect(*hst_tokenizer_decode(t, i, &count) == (char)i && count == 1);
    }
    hst_corpus_free(text), hst_tokenizer_free(t);
}

Test(data, what_has_no_characters_is_refused, .init = set_up, .fini = tear_down) {
    static const struct {
        const char *text;
        size_t size;
        const char *phrase;
    } cases[] = {{"ab\xe9 c", 5, "is not UTF-8 at byte 2"},
                 {"ab\xc3", 3, "is not UTF-8 at byte 2"},
                 {"\xed\xa0\x80", 3, "is not UTF-8 at byte 0"},
                 {"a\0b", 3, "has a NUL at byte 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hst_corpus *text = corpus_of(cases[i].text, cases[i].size);
        cr_expect_null(hst_tokenizer_characters(text));
        expect_failure(HST_ERROR_FORMAT, cases[i].phrase);
        hst_corpus_free(text);
    }
    hst_corpus *text = hst_corpus_new(ctx);
    for (int c = 0x10000; c <= 0x20000; c++) { // 65537 of them
        const char bytes[] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)),
                              (char)(0x80 | (c & 63))};
        hst_corpus_add_bytes(text, bytes, 4);
    }
    cr_expect_null(hst_tokenizer_characters(text));
    expect_failure(HST_ERROR_FORMAT, "more than 65536 different characters");
    hst_corpus_free(text);
    static const char *const bad[] = {"",
                                      "{}",
                                      "[]",
                                      "{\"characters\":[]}",
                                      "{\"characters\":[3,2]}",
                                      "{\"characters\":[2,2]}",
                                      "{\"characters\":[0]}",
                                      "{\"characters\":[55296]}",
                                      "{\"characters\":[1114112]}",
                                      "{\"characters\":[1]",
                                      "{\"characters\":[-1]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_null(hst_tokenizer_read(ctx, bad[i]), "%s", bad[i]);
        expect_failure(HST_ERROR_FORMAT, "hst_tokenizer_read");
    }
}

Test(data, strangers_are_named_or_skipped, .init = set_up, .fini = tear_down) {
    hst_corpus *known = corpus_of("abc ", 4);
    hst_tokenizer *t = hst_tokenizer_characters(known);
    static const char text[] = "a\xc3\xa9 b\xc3\xa9 xyzuvw c";
    hst_corpus *strict = corpus_of(text, sizeof text - 1), *lenient = corpus_of(text, sizeof text - 1);
    cr_expect_eq(hst_corpus_encode(strict, t, false), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "8 of the text's characters are not in the vocabulary, the first at byte 1: "
                                     "'\xc3\xa9' (U+00E9) 'x' (U+0078) 'y' (U+0079) 'z' (U+007A) 'u' (U+0075)");
    cr_expect(hst_corpus_symbols(strict).dtype == HST_U8 && hst_corpus_size(strict) == sizeof text - 1); // as it was
    cr_expect_eq(hst_corpus_encode(strict, t, true), HST_OK); // what the error invites to
    cr_expect_eq(hst_corpus_symbols(strict).count, 6);
    cr_expect_eq(hst_corpus_encode(lenient, t, true), HST_OK);
    cr_assert_eq(hst_corpus_size(lenient), 6);
    cr_expect_arr_eq(hst_corpus_bytes(lenient), "a b  c", 6);
    static const int32_t expected[] = {1, 0, 2, 0, 0, 3};
    hst_symbols s = hst_corpus_symbols(lenient);
    cr_assert_eq(s.count, 6);
    cr_expect_arr_eq(s.data, expected, sizeof expected);
    hst_corpus_free(lenient), hst_corpus_free(strict), hst_tokenizer_free(t), hst_corpus_free(known);
}

Test(data, a_split_does_not_cut_a_character, .init = set_up, .fini = tear_down) {
    static const char text[] = "ab\xf0\x90\x80\x80\xe0\xa0\x80"
                               "c"; // characters start at 0, 1, 2, 6, 9
    static const int expected[] = {0, 1, 2, 2, 2, 2, 6, 6, 6, 9};
    for (int stay = 0; stay < 10; stay++) {
        hst_corpus *corpus = corpus_of(text, 10), *last = hst_corpus_split(corpus, 1 - (stay + 0.5) / 10);
        cr_expect_eq(hst_corpus_size(corpus), expected[stay], "%d", stay);
        cr_expect_eq(hst_corpus_size(last), 10 - expected[stay]);
        hst_corpus_free(last), hst_corpus_free(corpus);
    }
}
