// test_issue.c: apache/mxnet#17703 through the public API: 100000 gradients of 0.01 onto 8 entries that hold 1, by
// embedding and by take, in f16, bf16 and f32, with safe accumulation and with the kernels that round after each
// addition. The counts are those of the report, found again from the f32 values that it prints.
#include "tests/ops/isas.h"

#include "ops/ops.h"

#include <math.h>

enum { ROWS = 8, COUNT = 100000 };

typedef struct example {
    int counts[ROWS];
    double f16[ROWS], bf16[ROWS]; // 1 + n times 0.01 as the dtype has it, rounded once
    uint32_t sequential[ROWS];    // the bits of the report's f32 values
} example;

static const example by_embedding = {
    {12574, 12653, 12430, 12436, 12527, 12605, 12374, 12401},
    {126.75, 127.5625, 125.3125, 125.375, 126.3125, 127.0625, 124.75, 125.0625},
    {127, 127.5, 125.5, 125.5, 126.5, 127, 125, 125},
    {0x42FD7F51, 0x42FF13E2, 0x42FA9DE1, 0x42FABC9B, 0x42FC8EA0, 0x42FE1E12, 0x42F97F19, 0x42FA095E},
};
static const example by_take = {
    {12444, 12568, 12562, 12444, 12602, 12538, 12410, 12432},
    {125.4375, 126.6875, 126.625, 125.4375, 127.0625, 126.4375, 125.125, 125.375},
    {125.5, 127, 126.5, 125.5, 127, 126.5, 125, 125.5},
    {0x42FAE593, 0x42FD6097, 0x42FD41DD, 0x42FAE593, 0x42FE0EB5, 0x42FCC6F5, 0x42FA3775, 0x42FAA81F},
};

enum { EMBEDDING, TAKE_0, TAKE_1, WAYS }; // take along axis 1: one row of 8, transposed
static const char *const way_names[WAYS] = {"embedding", "take, axis 0", "take, axis 1"};

static const example *example_of(int way) { return way == EMBEDDING ? &by_embedding : &by_take; }

// The gradient, preset to 1, after backward. Row r's ids come in turns with the others'.
static void gradient(hst_context *ctx, int way, hst_dtype dtype, double rows[ROWS]) {
    static uint8_t ids[COUNT];
    const int *counts = example_of(way)->counts;
    int count = 0;
    for (int i = 0; count < COUNT; i++)
        for (int r = 0; r < ROWS; r++)
            if (i < counts[r]) ids[count++] = (uint8_t)r;
    hst_scope_begin(ctx);
    hst_tensor *table =
        way == TAKE_1 ? hst_zeros(ctx, dtype, HST_SHAPE(1, ROWS)) : hst_zeros(ctx, dtype, HST_SHAPE(ROWS, 1));
    hst_attach_grad(table, HST_ADD, dtype);
    hst_copy_in(hst_grad(table), HST_F32, (float[ROWS]){1, 1, 1, 1, 1, 1, 1, 1});
    hst_tensor *which = hst_from_array(ctx, HST_U8, HST_SHAPE(COUNT), HST_U8, ids);
    hst_tensor *y = way == EMBEDDING ? hst_embedding(table, which) : hst_take(table, which, way == TAKE_1);
    hst_tensor *dy = way == TAKE_1 ? hst_full(ctx, dtype, HST_SHAPE(1, COUNT), 0.01)
                                   : hst_full(ctx, dtype, HST_SHAPE(COUNT, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    for (int r = 0; r < ROWS; r++) rows[r] = hst_load((hst_source){hst_raw(hst_grad(table)), dtype}, r);
    hst_scope_end(ctx, NULL);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

static void check_safe(hst_context *ctx) {
    double rows[ROWS];
    for (int way = 0; way < WAYS; way++) {
        const example *e = example_of(way);
        gradient(ctx, way, HST_F16, rows);
        for (int r = 0; r < ROWS; r++) expect(ctx, way_names[way], rows[r], e->f16[r], 0);
        gradient(ctx, way, HST_BF16, rows);
        for (int r = 0; r < ROWS; r++) expect(ctx, way_names[way], rows[r], e->bf16[r], 0);
        gradient(ctx, way, HST_F32, rows); // n * 0.01f is exact in double: rounded once, it is the nearest float
        for (int r = 0; r < ROWS; r++)
            expect(ctx, way_names[way], rows[r], (float)(1 + e->counts[r] * (double)0.01f), 0);
    }
}
Test(issue, safe_accumulation_gives_the_exact_sum_rounded_once) { for_each_isa(check_safe); }

static hst_context *open_unsafe(void) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .unsafe_accumulation = true});
    cr_assert(ctx && hst_get_status(ctx) == HST_OK);
    return ctx;
}

Test(issue, the_switch_gives_what_the_report_saw) {
    hst_context *ctx = open_unsafe();
    double rows[ROWS];
    for (int way = 0; way < WAYS; way++) {
        gradient(ctx, way, HST_F16, rows);
        for (int r = 0; r < ROWS; r++) expect(ctx, way_names[way], rows[r], 32, 0);
        gradient(ctx, way, HST_BF16, rows);
        for (int r = 0; r < ROWS; r++) expect(ctx, way_names[way], rows[r], 4, 0);
        gradient(ctx, way, HST_F32, rows);
        for (int r = 0; r < ROWS; r++) {
            float value = (float)rows[r];
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            cr_expect_eq(bits, example_of(way)->sequential[r], "%s, row %d: %08x", way_names[way], r, bits);
        }
    }
    hst_close(ctx);
}

// 1 + n times 0.01 with the switch: n additions in `dtype`.
static double after(hst_context *ctx, hst_dtype dtype, int64_t n, double start) {
    hst_scope_begin(ctx);
    hst_tensor *table = hst_zeros(ctx, dtype, HST_SHAPE(1, 1));
    hst_attach_grad(table, HST_ADD, dtype);
    hst_copy_in(hst_grad(table), HST_F64, &start);
    hst_tensor *y = hst_embedding(table, hst_zeros(ctx, HST_U8, HST_SHAPE(n))),
               *dy = hst_full(ctx, dtype, HST_SHAPE(n, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    double sum = hst_item(hst_grad(table), (int64_t[]){0, 0});
    hst_scope_end(ctx, NULL);
    return sum;
}

// The additions after which a sum first reaches a power of two, and those after which it stands still.
Test(issue, the_switch_stalls_after_so_many_additions) {
    static const struct {
        hst_dtype dtype;
        double start;
        int64_t additions;
        double reached;
    } cases[] = {{HST_F16, 1, 103, 2},   {HST_F16, 1, 308, 4},   {HST_F16, 1, 649, 8},  {HST_F16, 1, 1673, 16},
                 {HST_F16, 1, 2697, 32}, {HST_F16, 0, 2798, 32}, {HST_BF16, 1, 256, 4}, {HST_BF16, 0, 350, 4}};
    hst_context *ctx = open_unsafe();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = after(ctx, cases[i].dtype, cases[i].additions - 1, cases[i].start);
        double now = after(ctx, cases[i].dtype, cases[i].additions, cases[i].start);
        cr_expect_geq(now, cases[i].reached, "case %zu: %g", i, now);
        cr_expect_lt(before, cases[i].reached, "case %zu: reached one addition earlier", i);
    }
    expect(ctx, "f16 for ever", after(ctx, HST_F16, 10000, 1), 32, 0);
    expect(ctx, "bf16 for ever", after(ctx, HST_BF16, 10000, 1), 4, 0);
    hst_close(ctx);
}

// One weight used 4096 times in one pass: 4096 times 0.01 as f16 has it is 40.96875 when rounded once, and stalls
// at 32.
Test(issue, a_result_used_many_times) {
    enum { USES = 4096 };
    static hst_tensor *y[USES], *dy[USES];
    for (int unsafe = 0; unsafe < 2; unsafe++) {
        hst_context *ctx = unsafe ? open_unsafe() : open_isa("naive", 1);
        hst_tensor *w = hst_zeros(ctx, HST_F32, HST_SHAPE(1));
        hst_attach_grad(w, HST_WRITE, HST_F32);
        hst_tensor *copy = hst_cast(w, HST_F16);
        for (int i = 0; i < USES; i++) y[i] = hst_scale(copy, 1), dy[i] = hst_full(ctx, HST_F16, HST_SHAPE(1), 0.01);
        hst_backward_from(ctx, USES, y, dy);
        expect(ctx, "4096 uses", hst_item(hst_grad(w), (int64_t[]){0}), unsafe ? 32 : 40.96875, 0);
        hst_close(ctx);
    }
}

// A kernel that is safe in part, as PyTorch's for CUDA is with up to 3072 ids: chunks of 32 are summed in f32, but
// rounded to the gradient's dtype and added to it in that dtype. For ids that are all 0.
static bool lookup_grad_in_chunks(hst_context *ctx, const hst_lookup_grad_args *a) {
    (void)ctx;
    hst_source so_far = {a->dtable.data, a->dtable.dtype};
    hst_store(a->dtable, 0, 0);
    for (int64_t i = 0; i < a->count; i += 32) {
        float chunk = 0;
        for (int64_t k = i; k < i + 32 && k < a->count; k++) chunk += (float)hst_load(a->dy, k);
        double rounded = 0;
        hst_store((hst_target){&rounded, so_far.dtype, false}, 0, (double)chunk);
        hst_store(a->dtable, 0, hst_load(so_far, 0) + hst_load((hst_source){&rounded, so_far.dtype}, 0));
    }
    return true;
}

// 3072 gradients of 0.01 for one row: 3072 * 0.010002136 = 30.7266 in f16, 3072 * 0.010009766 = 30.75 in bf16. With
// chunks that are 96 additions, enough to tell.
static double gradient_of_3072(hst_context *ctx, bool take, hst_dtype dtype) {
    enum { IDS = 3072 };
    hst_scope_begin(ctx);
    hst_tensor *table = hst_zeros(ctx, dtype, HST_SHAPE(1, 1)), *ids = hst_zeros(ctx, HST_U8, HST_SHAPE(IDS));
    hst_attach_grad(table, HST_WRITE, dtype);
    hst_tensor *y = take ? hst_take(table, ids, 0) : hst_embedding(table, ids);
    hst_tensor *dy = hst_full(ctx, dtype, HST_SHAPE(IDS, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    double sum = hst_item(hst_grad(table), (int64_t[]){0, 0});
    hst_scope_end(ctx, NULL);
    return sum;
}

static void detect_chunks(hst_context *ctx) {
    hst_backend planted = *ctx->backend;
    const hst_backend *ours = ctx->backend;
    planted.lookup_grad = lookup_grad_in_chunks;
    for (int take = 0; take < 2; take++) {
        expect(ctx, "safe in f16", gradient_of_3072(ctx, take, HST_F16), 30.71875, 0);
        expect(ctx, "safe in bf16", gradient_of_3072(ctx, take, HST_BF16), 30.75, 0);
        ctx->backend = &planted;
        expect(ctx, "chunks in f16", gradient_of_3072(ctx, take, HST_F16), 30.375, 0);
        expect(ctx, "chunks in bf16", gradient_of_3072(ctx, take, HST_BF16), 32.5, 0);
        ctx->backend = ours;
    }
}
Test(issue, kernels_that_are_safe_in_part_are_detected) { for_each_isa(detect_chunks); }
