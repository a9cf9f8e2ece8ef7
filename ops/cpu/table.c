// table.c: the backend of one instruction set; compiled once for each, see kernels.h.
#include "ops/cpu/kernels.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define FIELD(kernel) .kernel = KERNEL(kernel),
#define REST_FIELD(kernel) .kernel = REST(kernel),

extern const hst_backend PASTE(hst_backend_, HST_ISA); // cpu.c refers to it

const hst_backend PASTE(hst_backend_, HST_ISA) = {.abi = HST_BACKEND_ABI,
                                                  .size = sizeof(hst_backend),
                                                  .name = STRING(HST_ISA),
                                                  HST_PRODUCTS_AND_REST(FIELD, REST_FIELD)};
