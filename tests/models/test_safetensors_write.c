// test_safetensors_write.c: safetensors files as bytes: golden files, round trips, damage, and writes that fail.
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include "models/safetensors.h"
#include "tests/temporary.h"

static hst_safetensors *reopen(const char *path) {
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    cr_assert(file, "%s", hst_error(ctx));
    return file;
}

// ---- the reference implementation's own bytes ----

// Its unit tests' files: a header padded to 64 and to 72 bytes.
Test(models, safetensors_reads_golden_bytes, .init = set_up, .fini = tear_down) {
    static const char empty[] = "\x08\0\0\0\0\0\0\0{}      ";
#define ZERO_TO_FIVE "\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@"
    static const char plain[] =
        "\x40\0\0\0\0\0\0\0{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}" ZERO_TO_FIVE;
    static const char padded[] = "\x48\0\0\0\0\0\0\0{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":"
                                 "[0,24]}}       " ZERO_TO_FIVE;
    put_file(in_folder("empty"), empty, sizeof empty - 1);
    hst_safetensors *file = reopen(in_folder("empty"));
    cr_expect_eq(hst_safetensors_count(file), 0);
    cr_expect_null(hst_safetensors_metadata(file, "format"));
    hst_safetensors_close(file);

    const struct {
        const char *bytes;
        size_t size;
        const char *name;
        int rank;
    } files[] = {{plain, sizeof plain - 1, "attn.0", 3}, {padded, sizeof padded - 1, "attn0", 4}};
    for (int i = 0; i < 2; i++) {
        put_file(in_folder("golden"), files[i].bytes, files[i].size);
        file = reopen(in_folder("golden"));
        const hst_entry *e = hst_safetensors_find(file, files[i].name);
        cr_assert(e && hst_safetensors_count(file) == 1 && hst_safetensors_entry(file, 0) == e);
        cr_expect(e->dtype == HST_F32 && e->rank == files[i].rank && e->shape[e->rank - 1] == 3 && e->bytes == 24);
        for (int j = 0; j < 6; j++) {
            float value;
            memcpy(&value, (const char *)e->data + 4 * j, 4);
            cr_expect_eq(value, (float)j);
        }
        cr_expect_null(hst_safetensors_find(file, "attn"));
        hst_safetensors_close(file);
    }
}

// The same form from the writer, with the metadata that it always adds; the sum is Python's hashlib.sha256 of
// b"bbbbiiiiaaccuuu" b"format\0pt\0" b"k\"ey\0v\n\xc3\xa9\0". Its order is the reference's: types from the
// end of the list, then names.
Test(models, safetensors_writes_golden_bytes, .init = set_up, .fini = tear_down) {
    static const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"k\\\"ey\":\"v\\n\xc3\xa9\","
        "\"halfstep.sha256\":\"939c5a1c47034e9873023398d0c9f6d73c9c1fd0ef8a8d2e64ddf6183982050f\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"i\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[4,8]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[8,10]},"
        "\"c\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[10,12]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[12,12]},"
        "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[12,15]}}"
        "bbbbiiiiaaccuuu";
    const hst_entry entries[] = {{"u", HST_U8, 1, {3}, "uuu", 3},   {"c", HST_BF16, 2, {1, 1}, "cc", 2},
                                 {"h", HST_F16, 1, {0}, NULL, 0},   {"a", HST_BF16, 1, {1}, "aa", 2},
                                 {"i", HST_I32, 0, {0}, "iiii", 4}, {"b", HST_F32, 1, {1}, "bbbb", 4}};
    const char *const metadata[] = {"k\"ey", "v\n\xc3\xa9"};
    cr_assert_eq(hst_safetensors_write(ctx, in_folder("file"), entries, 6, metadata, 1), HST_OK);
    char bytes[1024], *header = bytes + 8;
    size_t size = get_file(in_folder("file"), bytes, sizeof bytes);
    size_t text = sizeof expected - 1 - 15, n = (text + 7) / 8 * 8; // the header without and with padding
    cr_assert_eq(size, 8 + n + 15);
    for (int i = 0; i < 8; i++) cr_expect_eq((unsigned char)bytes[i], n >> 8 * i & 0xff);
    cr_expect_arr_eq(header, expected, text);
    for (size_t i = text; i < n; i++) cr_expect_eq(header[i], ' ');
    cr_expect_arr_eq(header + n, expected + text, 15);
    hst_safetensors *file = reopen(in_folder("file"));
    cr_expect_str_eq(hst_safetensors_metadata(file, "k\"ey"), "v\n\xc3\xa9");
    cr_expect_str_eq(hst_safetensors_metadata(file, "format"), "pt");
    hst_safetensors_close(file);
}

// A bit that changes anywhere is found: in the data and the metadata by the sum, elsewhere by the rules.
Test(models, safetensors_notices_every_bit, .init = set_up, .fini = tear_down, .timeout = 30) {
    static const float data[8] = {1, -2, 3.5f, 0, 0.25f, 1e-3f, 7, 8};
    const hst_entry entries[] = {{"w", HST_F32, 2, {2, 3}, data, 24}, {"b", HST_F32, 1, {2}, data + 6, 8}};
    const char *const metadata[] = {"halfstep.config", "{\"hidden\":256}"};
    cr_assert_eq(hst_safetensors_write(ctx, in_folder("file"), entries, 2, metadata, 1), HST_OK);
    char bytes[1024];
    size_t size = get_file(in_folder("file"), bytes, sizeof bytes), missed = 0;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        put_file(in_folder("damaged"), bytes, size);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        hst_safetensors *file = hst_safetensors_open(ctx, in_folder("damaged"));
        // What the sum does not cover is what it would have to be found by: names, shapes that still fit, its own key.
        bool whole = file && hst_safetensors_find(file, "w") && hst_safetensors_find(file, "w")->shape[0] == 2 &&
                     hst_safetensors_find(file, "b") && hst_safetensors_metadata(file, "halfstep.sha256");
        missed += whole;
        cr_expect(!whole, "bit %zu of byte %zu", bit % 8, bit / 8);
        hst_safetensors_close(file);
        hst_clear_error(ctx);
    }
    cr_expect_eq(missed, 0);
}

// ---- there and back ----

static const struct {
    int rank;
    int64_t shape[HST_MAX_RANK];
} shapes[] = {{0, {0}},    {1, {1}},       {1, {0}},       {1, {17}},
              {2, {3, 5}}, {3, {2, 0, 4}}, {3, {1, 1, 7}}, {8, {1, 2, 1, 3, 1, 1, 2, 1}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static const size_t sizes[HST_DTYPES] = {4, 2, 2, 8, 4, 8, 1}; // in the file, whatever the build

Test(models, safetensors_round_trips, .init = set_up, .fini = tear_down) {
    static unsigned char data[4096];
    static char names[HST_DTYPES * SHAPES][32];
    hst_entry entries[HST_DTYPES * SHAPES] = {0};
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 151 >> 3); // NaN patterns are among these
    int count = 0;
    for (int d = 0; d < HST_DTYPES; d++)
        for (int s = 0; s < SHAPES; s++, count++) {
            hst_entry *e = &entries[count];
            snprintf(names[count], sizeof *names, "%d.\xe2\x82\xac\t%d", s, d);
            *e = (hst_entry){names[count], (hst_dtype)d, shapes[s].rank, {0}, data + count, sizes[d]};
            memcpy(e->shape, shapes[s].shape, sizeof e->shape);
            for (int i = 0; i < e->rank; i++) e->bytes *= (size_t)e->shape[i];
        }
    cr_assert_eq(hst_safetensors_write(ctx, in_folder("file"), entries, count, NULL, 0), HST_OK, "%s", hst_error(ctx));
    hst_safetensors *file = reopen(in_folder("file"));
    cr_assert_eq(hst_safetensors_count(file), count);
    for (int i = 0; i < count; i++) {
        const hst_entry *e = hst_safetensors_find(file, names[i]), *in = &entries[i];
        cr_assert(e && e->dtype == in->dtype && e->rank == in->rank && e->bytes == in->bytes, "%s", names[i]);
        cr_expect(memcmp(e->shape, in->shape, (size_t)e->rank * sizeof *e->shape) == 0);
        cr_expect(memcmp(e->data, in->data, e->bytes) == 0);
    }
    const char *at = hst_safetensors_entry(file, 0)->data;
    for (int i = 0; i < count; i++) { // one after the other, without holes
        cr_expect_eq(hst_safetensors_entry(file, i)->data, at);
        at += hst_safetensors_entry(file, i)->bytes;
    }
    hst_safetensors_close(file);
}

// ---- damage ----

static size_t small_file(char *bytes, size_t size) {
    const hst_entry entries[] = {{"w", HST_F32, 2, {2, 2}, "0123456789abcdef", 16}, {"b", HST_U8, 1, {2}, "xy", 2}};
    cr_assert_eq(hst_safetensors_write(ctx, in_folder("file"), entries, 2, (const char *[]){"k", "v"}, 1), HST_OK);
    return get_file(in_folder("file"), bytes, size);
}

Test(models, safetensors_refuses_every_truncation, .init = set_up, .fini = tear_down, .timeout = 30) {
    char bytes[512];
    size_t size = small_file(bytes, sizeof bytes);
    for (size_t cut = 0; cut < size; cut++) {
        put_file(in_folder("cut"), bytes, cut);
        cr_assert_null(hst_safetensors_open(ctx, in_folder("cut")), "%zu of %zu bytes", cut, size);
        expect_failure(HST_ERROR_FORMAT, folder);
    }
}

// A flipped bit may turn a name or a number into another; it must never turn into anything worse than a refusal.
Test(models, safetensors_survives_every_flipped_bit, .init = set_up, .fini = tear_down, .timeout = 30) {
    char bytes[512];
    size_t size = small_file(bytes, sizeof bytes);
    int opened = 0;
    for (size_t bit = 0; bit < 8 * (size - 18); bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        put_file(in_folder("flipped"), bytes, size);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        hst_safetensors *file = hst_safetensors_open(ctx, in_folder("flipped"));
        opened += file != NULL;
        if (!file) expect_failure(HST_ERROR_FORMAT, folder);
        hst_safetensors_close(file);
    }
    cr_expect_gt(opened, 0);
}

// ---- errors of the system ----

// Writing e, or two of it, with one pair of metadata.
static void expect_refused_write(hst_entry e, int count, const char *key, const char *phrase) {
    const hst_entry entries[] = {e, e};
    hst_status status = hst_safetensors_write(ctx, in_folder("file"), entries, count, (const char *[]){key, "v"}, 1);
    cr_expect_eq(status, HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, phrase);
}

static int files(void) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    for (struct dirent *e; (e = readdir(open_folder));) count += e->d_name[0] != '.';
    closedir(open_folder);
    return count;
}

Test(models, safetensors_writes_nothing_that_it_would_not_read, .init = set_up, .fini = tear_down) {
    const hst_entry good = {"w", HST_U8, 1, {2}, "xy", 2};
    hst_entry bad = good;
    expect_refused_write(good, 2, "k", "tensor 'w' is there twice");
    expect_refused_write(good, 1, "format", "the metadata has 'format' twice");
    expect_refused_write(good, 1, "\xff", "is not UTF-8");
    bad.name = "w\xff";
    expect_refused_write(bad, 1, "k", "has a name that is not UTF-8");
    bad.name = "__metadata__";
    expect_refused_write(bad, 1, "k", "__metadata__");
    bad = good, bad.bytes = 1;
    expect_refused_write(bad, 1, "k", "has 1 bytes of data; its shape and dtype need 2");
    bad = good, bad.shape[0] = -1;
    expect_refused_write(bad, 1, "k", "a whole number");
    cr_expect_eq(files(), 0);
}

Test(models, safetensors_failed_writes_leave_the_old_file, .init = set_up, .fini = tear_down) {
    static char large[1 << 16], before[512], after[512];
    size_t size = small_file(before, sizeof before);
    const hst_entry e = {"w", HST_U8, 1, {sizeof large}, large, sizeof large};
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < sizeof large; most = 2 * most + 100) { // a disk that is full here, and here, and here
        small = (struct rlimit){most, limit.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        hst_status status = hst_safetensors_write(ctx, in_folder("file"), &e, 1, NULL, 0);
        setrlimit(RLIMIT_FSIZE, &limit);
        cr_expect_eq(status, HST_ERROR_IO);
        expect_failure(HST_ERROR_IO, strerror(EFBIG));
        cr_expect_eq(get_file(in_folder("file"), after, sizeof after), size);
        cr_expect_arr_eq(after, before, size);
        cr_expect_eq(files(), 1, "a temporary file is left after %llu bytes", (unsigned long long)most);
    }
    mkdir(in_folder("taken"), 0777);
    cr_expect_eq(hst_safetensors_write(ctx, in_folder("taken"), &e, 1, NULL, 0), HST_ERROR_IO);
    expect_failure(HST_ERROR_IO, strerror(EISDIR));
    char missing[128];
    snprintf(missing, sizeof missing, "%s/missing/file", folder);
    cr_expect_eq(hst_safetensors_write(ctx, missing, &e, 1, NULL, 0), HST_ERROR_IO);
    expect_failure(HST_ERROR_IO, strerror(ENOENT));
    cr_expect_eq(files(), 2);
    cr_expect_eq(hst_safetensors_write(ctx, in_folder("file"), &e, 1, NULL, 0), HST_OK); // and then it works
}

Test(models, safetensors_says_why_a_file_cannot_be_opened, .init = set_up, .fini = tear_down) {
    cr_expect_null(hst_safetensors_open(ctx, in_folder("missing")));
    expect_failure(HST_ERROR_IO, strerror(ENOENT));
    cr_expect_null(hst_safetensors_open(ctx, folder));
    expect_failure(HST_ERROR_IO, strerror(EISDIR));
    cr_assert_eq(mkfifo(in_folder("pipe"), 0666), 0);
    cr_expect_null(hst_safetensors_open(ctx, in_folder("pipe")));
    expect_failure(HST_ERROR_IO, "not a regular file");
    char long_path[1024];
    memset(long_path, 'x', sizeof long_path);
    memcpy(long_path + 1000, "/the-end", 9);
    cr_expect_null(hst_safetensors_open(ctx, long_path));
    expect_failure(HST_ERROR_IO, "xx/the-end: cannot be opened");
}

// ---- memory ----

static int allocations_left;
static void *limited(size_t bytes, void *user) {
    (void)user;
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}
static void give_back(void *memory, size_t bytes, void *user) {
    (void)bytes, (void)user;
    free(memory);
}

// Every allocation of reading and of writing is made to fail once; the context starts with an empty pool each time.
Test(models, safetensors_survives_every_failed_allocation, .init = set_up, .fini = tear_down) {
    static char bytes[4096];
    const hst_entry e = {"w", HST_U8, 1, {sizeof bytes}, bytes, sizeof bytes};
    hst_options options = {.size = sizeof options, .threads = 1, .allocate = limited, .deallocate = give_back};
    hst_safetensors_write(ctx, in_folder("file"), &e, 1, NULL, 0);
    for (int writing = 0; writing < 2; writing++) {
        int failures = 0;
        for (bool done = false; !done; failures++) {
            allocations_left = 1000;
            hst_context *poor = hst_open(&options);
            cr_assert(poor);
            allocations_left = failures;
            hst_safetensors *file = NULL;
            if (writing)
                hst_safetensors_write(poor, in_folder("written"), &e, 1, NULL, 0);
            else
                file = hst_safetensors_open(poor, in_folder("file"));
            done = hst_get_status(poor) == HST_OK;
            cr_expect(done || hst_get_status(poor) == HST_ERROR_MEMORY, "%s", hst_error(poor));
            hst_safetensors_close(file);
            hst_close(poor);
            cr_expect_eq(files(), done && writing ? 2 : 1);
        }
        cr_expect_gt(failures, 3);
    }
}
