// table.c: the op table, and what it says to people.
#include <stdio.h>
#include <string.h>
#include "ops/table.h"

#define RECORD(name, ...) &hst_op_##name,
const hst_op *const hst_op_table[] = {HST_OPS(RECORD)};
const int hst_op_count = sizeof hst_op_table / sizeof *hst_op_table;

#define CLASSES(name, a, b, c, d, e, f)                                                                                \
    {HST_CAST_##a, HST_CAST_##b, HST_CAST_##c, HST_CAST_##d, HST_CAST_##e, HST_CAST_##f},
static const unsigned char classes[][HST_OP_LISTS] = {HST_OPS(CLASSES)};

int hst_op_place(const hst_op *op) {
    for (int i = 0; i < hst_op_count; i++)
        if (hst_op_table[i] == op) return i;
    return -1;
}

hst_cast_class hst_cast_class_at(int place, hst_op_list list) { return (hst_cast_class)classes[place][list]; }

static const char *const lists[] = {
    [HST_LIST_HALFSTEP] = "halfstep",     [HST_LIST_TORCH_CUDA] = "torch_cuda", [HST_LIST_TORCH_CPU] = "torch_cpu",
    [HST_LIST_MXNET_FP16] = "mxnet_fp16", [HST_LIST_MXNET_BF16] = "mxnet_bf16", [HST_LIST_APEX_O1] = "apex_o1"};

const char *hst_op_list_name(hst_op_list list) { return (unsigned)list < HST_OP_LISTS ? lists[list] : NULL; }

bool hst_op_list_find(const char *name, hst_op_list *list) {
    for (int i = 0; name && i < HST_OP_LISTS; i++)
        if (!strcmp(name, lists[i])) return *list = (hst_op_list)i, true;
    return false;
}

static int longest_name(void) {
    int longest = 0;
    for (int i = 0; i < hst_op_count; i++) {
        int length = (int)strlen(hst_op_table[i]->name);
        if (length > longest) longest = length;
    }
    return longest;
}

size_t hst_op_names(char *text, size_t size) {
    static const char *const names[] = {[HST_CAST_NONE] = "none",
                                        [HST_CAST_LOWER] = "lower",
                                        [HST_CAST_F32] = "f32",
                                        [HST_CAST_WIDEST] = "widest",
                                        [HST_CAST_BANNED] = "banned"};
    int width = longest_name();
    size_t length = 0;
#define PRINT(...)                                                                                                     \
    (length += (size_t)snprintf(length < size ? text + length : NULL, length < size ? size - length : 0, __VA_ARGS__))
    if (size > 0) *text = 0;
    PRINT("%-*s ", width, "operation");
    for (int k = 0; k < HST_OP_LISTS; k++) PRINT("%-12s", lists[k]);
    PRINT("arguments -> results\n");
    for (int i = 0; i < hst_op_count; i++) {
        const hst_op *op = hst_op_table[i];
        PRINT("%-*s ", width, op->name);
        for (int k = 0; k < HST_OP_LISTS; k++) PRINT("%-12s", names[classes[i][k]]);
        for (int k = 0; k < HST_MAX_INPUTS && op->inputs[k]; k++) PRINT(k ? ", %s" : "(%s", op->inputs[k]);
        for (int k = 0; k < HST_MAX_OUTPUTS && op->outputs[k]; k++) PRINT(k ? ", %s" : ") -> %s", op->outputs[k]);
        PRINT("%s\n", op->backward ? "" : "   (no gradient)");
    }
#undef PRINT
    return length;
}
