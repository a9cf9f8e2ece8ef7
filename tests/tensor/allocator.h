// allocator.h: an allocator for hst_options that counts, checks what it is given back, and can be made to say no once.
//
//     allocator a = {.fail_at = 3};                  // the third request returns NULL; 0: none does
//     hst_options o = options_with(&a);
//     hst_close(hst_open(&o));
//     cr_assert_eq(a.live, 0);                       // bytes that were never given back
#ifndef TESTS_TENSOR_ALLOCATOR_H
#define TESTS_TENSOR_ALLOCATOR_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

typedef struct allocator {
    int64_t live, calls, fail_at;
} allocator;

enum { ALLOCATOR_HEADER = 16 }; // in front of each block: its size

static void *counting_allocate(size_t bytes, void *user) {
    allocator *a = user;
    if (++a->calls == a->fail_at) return NULL;
    char *memory = malloc(bytes + ALLOCATOR_HEADER);
    if (!memory) abort();
    memcpy(memory, &bytes, sizeof bytes);
    memset(memory + ALLOCATOR_HEADER, 0xa5, bytes); // fresh memory is not zero
    a->live += (int64_t)bytes;
    return memory + ALLOCATOR_HEADER;
}

static void counting_deallocate(void *memory, size_t bytes, void *user) {
    allocator *a = user;
    size_t given;
    memcpy(&given, (char *)memory - ALLOCATOR_HEADER, sizeof given);
    cr_assert_eq(bytes, given, "a block of %zu bytes came back as one of %zu", given, bytes);
    a->live -= (int64_t)bytes;
    free((char *)memory - ALLOCATOR_HEADER);
}

static inline hst_options options_with(allocator *a) {
    return (hst_options){.size = sizeof(hst_options),
                         .threads = 1,
                         .allocate = counting_allocate,
                         .deallocate = counting_deallocate,
                         .user = a};
}

#endif
