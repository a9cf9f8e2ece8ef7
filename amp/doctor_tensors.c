// doctor_tensors.c: what 16 bits would lose of one tensor. Each number is rounded to f16 and to bf16 by the library's
// own conversion, and looked at before and after.
#include <math.h>
#include <stdio.h>
#include "amp/doctor.h"

// Sums over the elements that are finite and not 0.
typedef struct counts {
    int64_t zero, subnormal, infinite;
    double lost; // the sum of |x| that becomes 0
} counts;

static void count(counts *c, double size, double rounded, double smallest_normal) {
    c->infinite += isinf(rounded) != 0;
    c->zero += rounded == 0;
    c->subnormal += rounded > 0 && rounded < smallest_normal;
    if (rounded == 0) c->lost += size;
}

static hst_narrowing shares(const counts *c, int64_t numbers, double sum) {
    if (numbers == 0) return (hst_narrowing){0};
    return (hst_narrowing){.zero = (double)c->zero / (double)numbers,
                           .subnormal = (double)c->subnormal / (double)numbers,
                           .infinite = (double)c->infinite / (double)numbers,
                           .lost = c->lost / sum};
}

static void add_size(hst_tensor_row *row, double size) {
    int bin = ilogb(size) - HST_LEAST_EXPONENT;
    row->sizes[bin < 0 ? 0 : bin >= HST_EXPONENTS ? HST_EXPONENTS - 1 : bin] += size;
}

bool hst_look_at(hst_numerics *n, hst_numerics_kind kind, const char *name, hst_tensor *x) {
    hst_tensor *elements = hst_contiguous(x);
    hst_tensor_row *row = elements ? hst_list_add(n->ctx, &n->tensors, sizeof *row) : NULL;
    if (!row) return false;
    hst_numerics_tensor *t = &row->public;
    counts f16 = {0}, bf16 = {0};
    double sum = 0;
    *t = (hst_numerics_tensor){.kind = kind, .dtype = x->dtype, .count = hst_count(x)};
    snprintf(row->name, sizeof row->name, "%s", name);
    for (int64_t i = 0; i < t->count; i++) {
        double size = fabs(hst_load(hst_source_of(elements), i));
        t->zeros += size == 0;
        t->not_finite += !isfinite(size);
        if (size == 0 || !isfinite(size)) continue;
        if (size > t->largest) t->largest = size;
        count(&f16, size, (double)hst_from_f16(hst_to_f16(size)), 0x1p-14);
        count(&bf16, size, (double)hst_from_bf16(hst_to_bf16(size)), 0x1p-126);
        add_size(row, size);
        sum += size;
    }
    int64_t numbers = t->count - t->zeros - t->not_finite;
    t->f16 = shares(&f16, numbers, sum);
    t->bf16 = shares(&bf16, numbers, sum);
    return true;
}
