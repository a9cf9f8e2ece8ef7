// test_torch_embedding_fixture.c: the embedding's options, forward and backward, against PyTorch in fp64.
#include "ops/ops.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static hst_embedding_options options_of(const fixture *f) {
    hst_embedding_options o = hst_embedding_defaults();
    double padding = fixture_number(f, "options", 0);
    if (padding != 99) o.padding_index = (int64_t)padding;
    o.scale_by_frequency = fixture_number(f, "options", 1) != 0;
    o.max_norm = fixture_number(f, "options", 2);
    o.norm_power = fixture_number(f, "options", 3);
    return o;
}

// Looking up is exact. A row that was shortened was rounded once after a product in double; a sum in double of at most
// six terms, divided, is rounded once.
#define DOUBLES (1 + 16 * 0x1p-53 / ROUNDING)

static void check_options(const fixture *f) {
    hst_embedding_options o = options_of(f);
    for (int rows = 0; rows < 2; rows++) {
        hst_tensor *table = fixture_tensor(f, "table"), *dy = fixture_tensor(f, "gy");
        hst_status attached =
            rows ? hst_attach_grad_rows(table, HST_WRITE, HST_F32) : hst_attach_grad(table, HST_WRITE, HST_F32);
        cr_assert_eq(attached, HST_OK);
        hst_tensor *y = hst_embedding_with(table, fixture_tensor(f, "ids"), &o);
        fixture_expect(f, "y", y, isinf(o.max_norm) ? 0 : DOUBLES);
        fixture_expect(f, "after", table, isinf(o.max_norm) ? 0 : DOUBLES);
        cr_assert_eq(hst_backward_from(f->ctx, 1, &y, &dy), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
        hst_tensor *grad = hst_grad(table);
        if (rows) { // put where they belong
            hst_tensor *ids = hst_grad_rows(table), *values = hst_grad_row_values(table);
            grad = hst_zeros(f->ctx, HST_F32, 2, hst_shape(table));
            cr_assert(ids && values && !hst_grad(table));
            for (int64_t i = 0; i < hst_dim(ids, 0); i++) {
                int64_t row = (int64_t)hst_item(ids, &i);
                hst_scope_begin(f->ctx);
                hst_copy_tensor(hst_slice(grad, 0, row, row + 1), hst_slice(values, 0, i, i + 1), false);
                hst_scope_end(f->ctx, NULL);
            }
        }
        fixture_expect(f, "dtable", grad, DOUBLES);
    }
}
static void check_all(hst_context *ctx) { for_each_case(ctx, "torch_embedding", "", "after", check_options); }
Test(ops, embedding_options_are_pytorchs) { for_each_isa(check_all); }
