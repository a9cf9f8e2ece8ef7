// table.c: the op table, and what it says to people.
#include <stdio.h>
#include "ops/ops.h"
#include "ops/table.h"

#define ROW(name) &hst_op_##name,
const hst_op *const hst_op_table[] = {HST_OPS(ROW)};
const int hst_op_count = sizeof hst_op_table / sizeof *hst_op_table;

size_t hst_op_names(char *text, size_t size) {
    static const char *const classes[] = {
        [HST_CAST_NONE] = "none", [HST_CAST_LOWER] = "lower", [HST_CAST_F32] = "f32", [HST_CAST_WIDEST] = "widest"};
    size_t length = 0;
#define PRINT(...)                                                                                                     \
    (length += (size_t)snprintf(length < size ? text + length : NULL, length < size ? size - length : 0, __VA_ARGS__))
    if (size > 0) *text = 0;
    for (int i = 0; i < hst_op_count; i++) {
        const hst_op *op = hst_op_table[i];
        PRINT("%-16s %-7s ", op->name, classes[op->cast]);
        for (int k = 0; k < HST_MAX_INPUTS && op->inputs[k]; k++) PRINT(k ? ", %s" : "(%s", op->inputs[k]);
        for (int k = 0; k < HST_MAX_OUTPUTS && op->outputs[k]; k++) PRINT(k ? ", %s" : ") -> %s", op->outputs[k]);
        PRINT("%s\n", op->backward ? "" : "   (no gradient)");
    }
#undef PRINT
    return length;
}
