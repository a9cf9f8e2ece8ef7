// doctor.h: the insides of the numerics doctor.
#ifndef HST_DOCTOR_H
#define HST_DOCTOR_H

#include "amp/numerics.h"
#include "autograd/tape.h"

enum { HST_MAX_LABEL = 160, HST_MAX_ADVICE = 320 };

// Sizes by their exponent: bin i is for |x| in [2^e, 2^(e+1)), e = i + HST_LEAST_EXPONENT, the ends for all beyond.
enum { HST_LEAST_EXPONENT = -160, HST_EXPONENTS = 300 };

typedef struct hst_tensor_row {
    hst_numerics_tensor public;
    char name[HST_MAX_LABEL], advice[HST_MAX_ADVICE];
    double sizes[HST_EXPONENTS]; // the sum of |x| of each exponent
} hst_tensor_row;

typedef struct hst_sum_finding {
    hst_numerics_sum public;
    char name[HST_MAX_LABEL], terms[HST_MAX_LABEL], advice[HST_MAX_ADVICE];
} hst_sum_finding;

typedef struct hst_watched {
    hst_tensor *tensor;
    char name[HST_MAX_LABEL];
} hst_watched;

// What a recorded call is called: backward does not have all of the inputs that its name comes from.
typedef struct hst_label {
    uint64_t node;
    char first[HST_MAX_LABEL], name[HST_MAX_LABEL]; // a second "first" is named "first 2"
} hst_label;

// A gradient that may have several uses: the sum of theirs, in fp32 and added in f16 and bf16.
typedef struct hst_collected {
    hst_origin to; // a leaf, or an output of a node
    int uses;
    hst_tensor *sums[3];
} hst_collected;

// A list that grows. Its items are in the pool; pointers to them do not outlive the next hst_list_add.
typedef struct hst_list {
    void *items;
    int count, capacity;
} hst_list;

struct hst_numerics {
    hst_context *ctx;
    bool watching;
    hst_list tensors, sums;              // hst_tensor_row, hst_sum_finding
    hst_list watched, labels, collected; //
    hst_numerics_scale scale;
    char advice[HST_MAX_ADVICE]; // on the scale
};

// The list's next item, all zero; NULL after recording HST_ERROR_MEMORY.
void *hst_list_add(hst_context *ctx, hst_list *list, size_t size);

// ---- doctor_tensors.c ----
// Adds the row of x.
bool hst_look_at(hst_numerics *n, hst_numerics_kind kind, const char *name, hst_tensor *x);

// ---- doctor_sums.c ----
// The sums of a call that has just run forward, or backward.
bool hst_sums_forward(hst_numerics *n, const hst_call *call, const char *name);
bool hst_sums_backward(hst_numerics *n, const hst_call *call, const hst_node *node, hst_tensor *const *dy,
                       const hst_gradient *dx, const char *name);
// The gradient of a weight that has several uses.
bool hst_sums_of_leaf(hst_numerics *n, hst_tensor *leaf, const char *name);

// ---- advice.c: sentences, once all is known ----
void hst_advise(hst_numerics *n);

#endif
