// tape.h: what is remembered between forward and backward. A node is one recorded call; the tape holds them in order.
// Tensors know the node that made them by its id only, so an ended tape leaves nothing dangling.
#ifndef HST_TAPE_H
#define HST_TAPE_H

#include "autograd/op.h"

// Where the gradient of a node's input goes: to an output of an earlier node, to a leaf, or (both zero) nowhere.
typedef struct hst_origin {
    uint64_t node;
    int output;
    hst_tensor *leaf;
} hst_origin;

typedef struct hst_node {
    uint64_t id;
    int depth;       // of the scope it belongs to
    bool used;       // backward has been here and let go of what was saved
    bool shows_leaf; // its result is a view of a leaf
    hst_call call;   // inputs and outputs that backward does not read are NULL
    hst_origin from[HST_MAX_INPUTS];
    hst_type in_type[HST_MAX_INPUTS], out_type[HST_MAX_OUTPUTS]; // rank -1: not there
    uint32_t in_version[HST_MAX_INPUTS], out_version[HST_MAX_OUTPUTS];
} hst_node;

typedef struct hst_tape {
    hst_node **nodes; // ids ascend
    int count, capacity;
    uint64_t last_id, pass; // pass: which backward this is
} hst_tape;

// Whether a call with these inputs has to be recorded.
bool hst_wants_gradient(const hst_op *op, hst_tensor *const *in);

// Puts a call on the tape. `in` are the arguments as given (call->in may be contiguous copies of them).
bool hst_record(const hst_call *call, hst_tensor *const *in);

hst_node *hst_find_node(const hst_tape *tape, uint64_t id); // NULL: its tape has ended
int hst_node_index(const hst_tape *tape, uint64_t id);      // in tape->nodes, or -1
void hst_let_go(hst_node *node);                            // of everything it saved
void hst_forget_used(hst_context *ctx);                     // nodes at the tape's end that backward has used up

bool hst_has_nan(hst_tensor *t); // for the anomaly mode; NULL has none

#endif
