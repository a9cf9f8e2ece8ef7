// test_safetensors.c: the reader of safetensors files: what it must refuse, survive and accept.
#include "models/safetensors.h"
#include "tests/temporary.h"

static const char *path(void) { return in_folder("file"); }

// A file of a size, a header and zeros as data.
static void put(uint64_t n, const char *header, size_t length, size_t data) {
    char *bytes = calloc(1, 8 + length + data);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(n >> 8 * i);
    memcpy(bytes + 8, header, length);
    put_file(path(), bytes, 8 + length + data);
    free(bytes);
}

static int64_t workspace(void) {
    hst_memory stats;
    hst_memory_stats(ctx, &stats);
    return stats.current[HST_WORKSPACE];
}

// The file is refused as malformed, in a line that starts with its path and holds the phrase, and no memory is lost.
static void refused(const char *what, const char *phrase) {
    int64_t before = workspace();
    cr_assert_null(hst_safetensors_open(ctx, path()), "accepted: %.200s", what);
    cr_expect(!strncmp(hst_error(ctx), path(), strlen(path())) && strlen(hst_error(ctx)) < 500, "%s", hst_error(ctx));
    expect_failure(HST_ERROR_FORMAT, phrase);
    cr_expect_eq(workspace(), before, "%.200s: memory left behind", what);
}

#define ENTRY(name, dtype, shape, offsets)                                                                             \
    "\"" name "\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define F32(name, shape, offsets) ENTRY(name, "\"F32\"", shape, offsets)

Test(models, safetensors_refuses_bad_headers, .init = set_up, .fini = tear_down, .timeout = 30) {
    static const struct {
        const char *header;
        size_t data;
        const char *phrase;
    } bad[] = {
        {"", 0, "byte 0: an object is expected, the end found"},
        {"\xff", 0, "byte 0: UTF-8 is expected, byte 0xFF found"},
        {"{\"\xc0\x80\":1}", 0, "UTF-8"},     // overlong
        {"{\"\xed\xa0\x80\":1}", 0, "UTF-8"}, // a surrogate
        {"{\"\xf4\x90\x80\x80\":1}", 0, "UTF-8"},
        {"{\"\xe2\x82\":1}", 0, "UTF-8"},
        {"\xef\xbb\xbf{}", 0, "an object is expected"},
        {"{", 0, "the end found"},
        {"{}{}", 0, "byte 2: the end is expected, '{' found"},
        {"{}x", 0, "the end is expected"},
        {"[]", 0, "byte 0: an object is expected, '[' found"},
        {"null", 0, "an object is expected"},
        {"\"x\"", 0, "an object is expected"},
        {"{\"a\"}", 0, "':' is expected"},
        {"{\"a\":}", 0, "an object is expected"},
        {"{\"a\" 1}", 0, "':' is expected"},
        {"{a:1}", 0, "a string is expected"},
        {"{'a':1}", 0, "a string is expected"},
        {"{\"a\":1}", 0, "an object is expected"},
        {"{\"a\":null}", 0, "an object is expected"},
        {"{\"a\":[]}", 0, "an object is expected"},
        {"{\"a\n\":{}}", 0, "control character"},
        {"{\"a\\x\":{}}", 0, "after a backslash"},
        {"{\"a\\u12g4\":{}}", 0, "hexadecimal"},
        {"{\"a\\u12", 0, "hexadecimal"},
        {"{\"a\\", 0, "backslash"},
        {"{\"a", 0, "the end found"},
        {"{" F32("a\\u0000b", "[1]", "[0,4]") "}", 4, "NUL"},
        {"{" F32("\\ud800", "[1]", "[0,4]") "}", 4, "surrogates"},
        {"{" F32("\\udc00", "[1]", "[0,4]") "}", 4, "surrogates"},
        {"{" F32("\\ud800\\u0041", "[1]", "[0,4]") "}", 4, "surrogates"},
        {"{,}", 0, "a string is expected"},
        {"{" F32("a", "[1]", "[0,4]") ",}", 4, "a string is expected"},
        {"{" F32("a", "[1]", "[0,4]") " " F32("b", "[1]", "[4,8]") "}", 8, "',' or '}' is expected"},
        {"{" F32("a", "[1,]", "[0,4]") "}", 4, "a number is expected"},
        {"{" F32("a", "[,1]", "[0,4]") "}", 4, "a number is expected"},
        {"{" F32("a", "[1 1]", "[0,4]") "}", 4, "',' or ']' is expected"},
        {"{" F32("a", "[-1]", "[0,4]") "}", 4, "a whole number"},
        {"{" F32("a", "[-0]", "[0,0]") "}", 0, "a whole number"},
        {"{" F32("a", "[1.5]", "[0,4]") "}", 4, "a whole number"},
        {"{" F32("a", "[1.0]", "[0,4]") "}", 4, "a whole number"},
        {"{" F32("a", "[1e3]", "[0,4]") "}", 4, "a whole number"},
        {"{" F32("a", "[01]", "[0,4]") "}", 4, "leading zeros"},
        {"{" F32("a", "[+1]", "[0,4]") "}", 4, "a number is expected"},
        {"{" F32("a", "[0x1]", "[0,4]") "}", 4, "',' or ']' is expected"},
        {"{" F32("a", "[1e]", "[0,4]") "}", 4, "a digit is expected"},
        {"{" F32("a", "[1.]", "[0,4]") "}", 4, "a digit is expected"},
        {"{" F32("a", "[-]", "[0,4]") "}", 4, "a digit is expected"},
        {"{" F32("a", "[NaN]", "[0,4]") "}", 4, "a number is expected"},
        {"{" F32("a", "[\"2\"]", "[0,8]") "}", 8, "a number is expected"},
        {"{" F32("a", "2", "[0,8]") "}", 8, "an array is expected"},
        {"{" F32("a", "[[2]]", "[0,8]") "}", 8, "a number is expected"},
        {"{" F32("a", "[18446744073709551616]", "[0,4]") "}", 4, "18446744073709551615"},
        {"{" F32("a", "[9223372036854775808]", "[0,4]") "}", 4, "below 2^63"},
        {"{" F32("a", "[2,18446744073709551614]", "[0,32]") "}", 32, "below 2^63"},
        {"{" F32("a", "[2,9223372036854775807]", "[0,32]") "}", 32, "2^64 bytes or more"},
        {"{" F32("a", "[4294967296,4294967296]", "[0,0]") "}", 0, "2^64 bytes or more"},
        {"{" F32("a", "[4611686018427387904]", "[0,0]") "}", 0, "2^64 bytes or more"}, // 2^62 x 4
        {"{" F32("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "more than 8 dimensions"},
        {"{" F32("a", "[1]", "[0,8]") "}", 8, "has 8 bytes of data; its shape and dtype need 4"},
        {"{" F32("a", "[0]", "[0,4]") "}", 4, "need 0"},
        {"{" F32("a", "[]", "[0,0]") "}", 0, "need 4"},
        {"{" F32("a", "[1]", "[4,0]") "}", 4, "[4,0]; they must begin at 0"},
        {"{" F32("a", "[1]", "[4,8]") "}", 8, "must begin at 0"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[8,4]") "}", 8, "must begin at 4"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[4,3]") "}", 8, "not end before"},
        {"{" F32("a", "[1]", "[0,4,8]") "}", 8, "has 3 data_offsets"},
        {"{" F32("a", "[1]", "[0]") "}", 4, "has 1 data_offsets"},
        {"{" F32("a", "[1]", "[]") "}", 4, "has 0 data_offsets"},
        {"{" F32("a", "[1]", "\"0,4\"") "}", 4, "an array is expected"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[0,4]") "}", 4, "tensor 'b' has data_offsets [0,4]"},
        {"{" F32("a", "[2]", "[0,8]") "," F32("b", "[1]", "[4,8]") "}", 8, "must begin at 8"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[8,12]") "}", 12, "must begin at 4"},
        {"{" F32("a", "[1]", "[0,4]") "}", 3, "describes 4 bytes of data, it has 3"},
        {"{" F32("a", "[1]", "[0,4]") "}", 5, "describes 4 bytes of data, it has 5"},
        {"{}", 1, "describes 0 bytes of data, it has 1"},
        {"{" F32("a", "[1]", "[0,18446744073709551615]") "}", 4, "need 4"},
        {"{" ENTRY("a", "\"f32\"", "[1]", "[0,4]") "}", 4, "has dtype 'f32'; F32, F16"},
        {"{" ENTRY("a", "\"F128\"", "[1]", "[0,16]") "}", 16, "has dtype 'F128'"},
        {"{" ENTRY("a", "\"F8_E4M3\"", "[1]", "[0,1]") "}", 1, "has dtype 'F8_E4M3'"},
        {"{" ENTRY("a", "\"BOOL\"", "[1]", "[0,1]") "}", 1, "has dtype 'BOOL'"},
        {"{" ENTRY("a", "32", "[1]", "[0,4]") "}", 4, "a string is expected"},
        {"{\"a\":{}}", 0, "tensor 'a' has no field 'dtype'"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no field 'shape'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has no field 'data_offsets'"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'dtype' twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"shape\":[1]}}", 4, "'shape' twice"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("a", "[1]", "[4,8]") "}", 8, "tensor 'a' is there twice"},
        {"{" F32("a", "[1]", "[0,4]") "," F32("\\u0061", "[1]", "[4,8]") "}", 8, "tensor 'a' is there twice"},
        {"{" F32("a\\nb", "[1]", "[0,8]") "}", 8, "tensor 'a?b' has 8"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "a string is expected, '1' found"},
        {"{\"__metadata__\":{\"a\":[\"b\"]}}", 0, "a string is expected"},
        {"{\"__metadata__\":[]}", 0, "an object is expected"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "the metadata has 'a' twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__' twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(strlen(bad[i].header), bad[i].header, strlen(bad[i].header), bad[i].data);
        refused(bad[i].header, bad[i].phrase);
    }
    cr_assert_geq(sizeof bad / sizeof *bad, 60);
}

Test(models, safetensors_refuses_bad_sizes, .init = set_up, .fini = tear_down, .timeout = 30) {
    for (size_t size = 0; size < 8; size++) {
        put_file(path(), "\2\0\0\0\0\0\0", size);
        refused("less than 8 bytes", "of a safetensors file give its header's size");
    }
    static const uint64_t too_large[] = {100000001, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    for (int i = 0; i < 4; i++) {
        put(too_large[i], "{}", 2, 0);
        refused("huge header", "at most 100000000 are allowed");
    }
    put(3, "{}", 2, 0);
    refused("header of one byte more than there is", "a header of 3 bytes is announced, but only 2 follow");
    put(100000000, "{}", 2, 0);
    refused("the largest header in a small file", "but only 2 follow");
}

// What takes a careless reader too much stack, memory or time.
Test(models, safetensors_survives_large_headers, .init = set_up, .fini = tear_down, .timeout = 30) {
    enum { MANY = 1000000 };
    char *header = malloc(70 * MANY);
    memset(header, '[', MANY);
    put(MANY, header, MANY, 0);
    refused("nested arrays", "an object is expected");
    int start = sprintf(header, "{\"a\":{\"more\":");
    memset(header + start, '[', MANY);
    put(MANY, header, MANY, 0);
    refused("nested arrays in a field to skip", "at most 64 levels are expected");
    size_t length = (size_t)sprintf(header, "{");
    for (int i = 0; i < 200000; i++) length += (size_t)sprintf(header + length, F32("%d", "[1]", "[0,4]") ",", i);
    length += (size_t)sprintf(header + length, F32("last", "[1]", "[0,4]") "}");
    put(length, header, length, 4);
    refused("200,001 tensors in one place", "must begin at 4");
    length = (size_t)sprintf(header, "{\"__metadata__\":{\"\":\"\"");
    for (int i = 0; i < 200000; i++) length += (size_t)sprintf(header + length, ",\"%d\":\"\"", i % 199999);
    length += (size_t)sprintf(header + length, "}}");
    put(length, header, length, 0);
    refused("200,001 metadata", "the metadata has '0' twice");
    memset(header, 'n', MANY);
    memcpy(header, "{\"", 2);
    length = 66000 + (size_t)sprintf(header + 66000, "\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    put(length, header, length, 1);
    refused("a name of 64 KiB", "has a name of 65998 bytes; at most 1024");
    free(header);
}

Test(models, safetensors_accepts_what_the_reference_accepts, .init = set_up, .fini = tear_down) {
    static const struct {
        const char *header;
        size_t data;
        int count;
    } good[] = {
        {"{}", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {" \n\r\t{} \n\r\t", 0, 0},
        {"{" F32("a", "[]", "[0,4]") "}", 4, 1},
        {"{" F32("a", "[2,0]", "[0,0]") "}", 0, 1},
        {"{" F32("a", "[9223372036854775807,0]", "[0,0]") "}", 0, 1},
        {"{" F32("a", "[0]", "[0,0]") "," F32("b", "[1]", "[0,4]") "," F32("c", "[0]", "[4,4]") "}", 4, 3},
        {"{ " F32("b", "[ 1 ]", "[ 4 , 8 ]") " , " F32("a", "[1]", "[0,4]") " }", 8, 2},
        {"{" F32("", "[1]", "[0,4]") "}", 4, 1},
        {"{\"a\":{\"more\":[{\"x\":null,\"y\":[true,false,-1.5e-3,\"\\n\"]},{},[]],\"data_offsets\":[0,1],"
         "\"shape\":[],\"dtype\":\"U8\"}}",
         1, 1},
        {"{" ENTRY("a", "\"\\u00468\"", "[]", "[0,1]") "}", 1, -1}, // "F8": escapes count in a dtype too
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        put(strlen(good[i].header), good[i].header, strlen(good[i].header), good[i].data);
        if (good[i].count < 0) {
            refused(good[i].header, "'F8'");
            continue;
        }
        hst_safetensors *file = hst_safetensors_open(ctx, path());
        cr_assert(file, "%s: %s", good[i].header, hst_error(ctx));
        cr_expect_eq(hst_safetensors_count(file), good[i].count, "%s", good[i].header);
        hst_safetensors_close(file);
    }
}

// Each tensor of a hostile header is found by its name, and in a time that does not grow with the square of their
// number: a search from the start would take minutes.
Test(models, safetensors_finds_each_of_very_many, .init = set_up, .fini = tear_down, .timeout = 30) {
    enum { MANY = 200000, NAME = 32 };
    char(*names)[NAME] = malloc(MANY * sizeof *names);
    hst_entry *entries = malloc(MANY * sizeof *entries);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], NAME, "rnn.rnn_lst.0.bias.%d", (int)(i * 7919LL % MANY));
        entries[i] = (hst_entry){.name = names[i], .dtype = HST_F32, .rank = 1};
    }
    const char *const metadata[] = {"b", "2", "a", "1", "c", "3"};
    cr_assert_eq(hst_safetensors_write(ctx, path(), entries, MANY, metadata, 3), HST_OK, "%s", hst_error(ctx));
    hst_safetensors *file = hst_safetensors_open(ctx, path());
    cr_assert(file && hst_safetensors_count(file) == MANY, "%s", hst_error(ctx));
    for (int i = 0; i < MANY; i++) {
        const hst_entry *e = hst_safetensors_find(file, names[i]);
        cr_assert(e && !strcmp(e->name, names[i]), "%s", names[i]);
    }
    cr_expect(!hst_safetensors_find(file, "rnn.rnn_lst.0.bias") && !hst_safetensors_find(file, "z"));
    cr_expect_str_eq(hst_safetensors_metadata(file, "a"), "1");
    cr_expect_str_eq(hst_safetensors_metadata(file, "c"), "3");
    cr_expect_null(hst_safetensors_metadata(file, "d"));
    hst_safetensors_close(file);
    free(entries), free(names);
}
