// parameter.c: the list of named parameters, their gradients' norm, clipping.
#include <math.h>
#include <string.h>
#include "autograd/casts.h"
#include "optim/parameter.h"

hst_parameters *hst_parameters_new(hst_context *ctx) {
    hst_parameters *list = hst_get_status(ctx) == HST_OK ? hst_allocate(ctx, sizeof *list, HST_WORKSPACE) : NULL;
    if (list) *list = (hst_parameters){.ctx = ctx};
    return list;
}

void hst_parameters_cut(hst_parameters *list, int count) {
    while (list->count > count) {
        const hst_parameter_item *last = &list->items[--list->count];
        last->value->shown = HST_F32; // whoever kept it has a tensor like any other
        hst_unretain(last->value);
        hst_free(list->ctx, last->name);
    }
}

void hst_parameters_free(hst_parameters *list) {
    if (!list) return;
    hst_parameters_cut(list, 0);
    hst_free(list->ctx, list->items);
    hst_free(list->ctx, list);
}

static bool grow(hst_parameters *list) {
    if (list->count < list->capacity) return true;
    int capacity = list->capacity ? 2 * list->capacity : 32;
    hst_parameter_item *items = hst_allocate(list->ctx, (size_t)capacity * sizeof *items, HST_WORKSPACE);
    if (!items) return false;
    if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
    hst_free(list->ctx, list->items);
    list->items = items;
    list->capacity = capacity;
    return true;
}

static bool check(hst_parameters *list, const char *name, const hst_tensor *value) {
    if (!name) {
        hst_fail(list->ctx, HST_ERROR_VALUE, "hst_parameter: the name is NULL; each parameter needs one of its own");
        return false;
    }
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name)) {
            hst_fail(list->ctx, HST_ERROR_VALUE, "hst_parameter: there is already a parameter named %s", name);
            return false;
        }
    if (value->ctx != list->ctx) {
        hst_fail(list->ctx, HST_ERROR_STATE, "hst_parameter: %s belongs to another context than the list", name);
        hst_fail(value->ctx, HST_ERROR_STATE, "hst_parameter: %s was given to a list of another context", name);
        return false;
    }
    if (value->dtype == HST_F32 && hst_is_contiguous(value)) return true;
    char text[64];
    hst_fail(list->ctx, HST_ERROR_DTYPE, "hst_parameter: %s is %s; a contiguous f32 tensor is needed, the master", name,
             hst_describe(value, text));
    return false;
}

// As the list says: operations see the value's shadow, and without a master it has no other value.
static bool show(const hst_parameters *list, hst_tensor *value) {
    value->shown = list->shown;
    if (!list->no_master) return true;
    hst_tensor *shadow = hst_seen(value);
    if (!shadow || !hst_copy_tensor(value, shadow, false)) return false;
    hst_bump(value);
    return true;
}

hst_tensor *hst_parameter(hst_parameters *list, const char *name, hst_tensor *value) {
    if (!list || !value || list->ctx->status != HST_OK || !check(list, name, value) || !grow(list)) return NULL;
    char *copy = hst_allocate(list->ctx, strlen(name) + 1, HST_WORKSPACE);
    if (!copy || hst_attach_grad(value, HST_WRITE, HST_F32) != HST_OK) {
        hst_free(list->ctx, copy);
        return NULL;
    }
    strcpy(copy, name);
    list->items[list->count++] = (hst_parameter_item){.name = copy,
                                                      .value = hst_retain(value),
                                                      .decays = value->rank >= 2,
                                                      .scale = 1,
                                                      .pass = value->pass,
                                                      .stepped = value->pass};
    return show(list, value) ? value : NULL;
}

hst_status hst_show_parameters(hst_parameters *list, hst_dtype dtype, bool no_master) {
    if (!list) return HST_ERROR_STATE;
    hst_context *ctx = list->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (!hst_is_float(dtype) || (no_master && dtype == HST_F32))
        return hst_fail(ctx, HST_ERROR_DTYPE, "hst_show_parameters: %s%s; HST_F16, HST_BF16%s is needed",
                        hst_dtype_name(dtype), no_master ? " without masters" : "", no_master ? "" : " or HST_F32");
    list->shown = dtype;
    list->no_master = no_master;
    for (int i = 0; i < list->count; i++) show(list, list->items[i].value);
    return ctx->status;
}

int hst_parameter_count(const hst_parameters *list) {
    if (!list) return 0;
    return list->count;
}
const char *hst_parameter_name(const hst_parameters *list, int i) {
    if (!list || i < 0 || i >= list->count) return NULL;
    return list->items[i].name;
}
hst_tensor *hst_parameter_value(const hst_parameters *list, int i) {
    if (!list || i < 0 || i >= list->count) return NULL;
    return list->items[i].value;
}
hst_context *hst_parameters_context(const hst_parameters *list) {
    if (!list) return NULL;
    return list->ctx;
}

int64_t hst_parameter_elements(const hst_parameters *list) {
    if (!list) return 0;
    int64_t elements = 0;
    for (int i = 0; i < list->count; i++) elements += hst_count(list->items[i].value);
    return elements;
}

hst_status hst_request_gradients(hst_parameters *list, hst_request request) {
    if (!list) return HST_ERROR_STATE;
    if (list->ctx->status != HST_OK) return list->ctx->status;
    if (request != HST_WRITE && request != HST_ADD)
        return hst_fail(list->ctx, HST_ERROR_VALUE,
                        "hst_request_gradients: request %d; HST_WRITE or HST_ADD is needed (hst_attach_grad freezes)",
                        (int)request);
    if (request == HST_WRITE) hst_begin_window(list); // what was accumulated will be gone
    for (int i = 0; i < list->count; i++)
        if (list->items[i].value->request != HST_NULL) list->items[i].value->request = request;
    return HST_OK;
}

double hst_gradient_norm(const hst_parameters *list) {
    if (!list) return NAN;
    double total = 0;
    for (int i = 0; i < list->count; i++) {
        const hst_tensor *grad = hst_gradient_of(list->items[i].value);
        double sum = 0;
        if (!grad) continue; // frozen
        list->ctx->backend->square_sum(list->ctx, &(hst_square_sum_args){hst_count(grad), hst_source_of(grad), &sum});
        total += sum;
    }
    return sqrt(total);
}

double hst_clip_factor(double norm, double limit) { return limit > 0 && !(norm <= limit) ? limit / norm : 1; }
