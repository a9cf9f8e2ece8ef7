// test_custom.c: an operation as an application would register it, against central differences: an optional argument,
// options, a saved tensor, two results.
//     y = s tanh(x w + bias), z = y^2, of vectors of one length; h = tanh(...) is saved
#include <criterion/criterion.h>
#include <math.h>
#include "train/halfstep.h"

enum { COUNT = 5, WITH_BIAS = 1, USES_Y = 2, USES_Z = 4 };

static bool shape(hst_custom_call *call) {
    hst_tensor *x = hst_custom_input(call, 0);
    return hst_custom_set_output(call, 0, HST_F32, 1, hst_shape(x)) &&
           hst_custom_set_output(call, 1, HST_F32, 1, hst_shape(x));
}

static bool forward(hst_custom_call *call) {
    double x[COUNT], w[COUNT], bias[COUNT] = {0}, h[COUNT], y[COUNT], z[COUNT], s;
    hst_copy_out(hst_custom_input(call, 0), HST_F64, x);
    hst_copy_out(hst_custom_input(call, 1), HST_F64, w);
    hst_copy_out(hst_custom_input(call, 2), HST_F64, bias);
    s = *(const double *)hst_custom_attributes(call);
    for (int i = 0; i < COUNT; i++) {
        h[i] = tanh(x[i] * w[i] + bias[i]);
        y[i] = s * h[i];
        z[i] = y[i] * y[i];
    }
    hst_copy_in(hst_custom_save(call, 0, HST_F32, HST_SHAPE(COUNT)), HST_F64, h); // NULL does nothing
    hst_copy_in(hst_custom_output(call, 0), HST_F64, y);
    hst_copy_in(hst_custom_output(call, 1), HST_F64, z);
    return true;
}

// With g = s (dy + 2 y dz) (1 - h^2): dbias = g, dx = g w, dw = g x.
static bool backward(hst_custom_call *call) {
    double x[COUNT], w[COUNT], h[COUNT], y[COUNT], dy[COUNT] = {0}, dz[COUNT] = {0}, g[COUNT], s;
    hst_copy_out(hst_custom_input(call, 0), HST_F64, x);
    hst_copy_out(hst_custom_input(call, 1), HST_F64, w);
    hst_copy_out(hst_custom_output(call, 0), HST_F64, y);
    hst_copy_out(hst_custom_saved(call, 0), HST_F64, h);
    hst_copy_out(hst_custom_output_gradient(call, 0), HST_F64, dy);
    hst_copy_out(hst_custom_output_gradient(call, 1), HST_F64, dz);
    s = *(const double *)hst_custom_attributes(call);
    for (int i = 0; i < COUNT; i++) {
        g[i] = s * (dy[i] + 2 * y[i] * dz[i]) * (1 - h[i] * h[i]);
        w[i] *= g[i];
        x[i] *= g[i];
    }
    hst_copy_in(hst_custom_input_gradient(call, 0), HST_F64, w);
    hst_copy_in(hst_custom_input_gradient(call, 1), HST_F64, x);
    hst_copy_in(hst_custom_input_gradient(call, 2), HST_F64, g);
    return true;
}

typedef struct setting {
    const hst_operation *op;
    int options;
} setting;

static hst_tensor *apply(hst_context *ctx, hst_tensor *const *x, void *user) {
    const setting *o = user;
    hst_tensor *out[2];
    (void)ctx;
    hst_custom(o->op, (hst_tensor *[]){x[0], x[1], o->options & WITH_BIAS ? x[2] : NULL}, &(double){1.75}, out);
    if (!(o->options & USES_Y)) return out[1];
    return o->options & USES_Z ? hst_add(out[0], out[1]) : out[0];
}

Test(gradients, operations_of_the_application) {
    for (int options = 0; options < 8; options++) {
        hst_context *ctx = hst_open(NULL);
        hst_tensor *leaves[3];
        for (int i = 0; i < 3; i++) leaves[i] = hst_uniform(ctx, HST_F32, HST_SHAPE(COUNT), -1, 1);
        setting o = {.options = options};
        o.op = hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op),
                                                  .name = "gate",
                                                  .inputs = {"x", "w", "bias?"},
                                                  .outputs = {"y", "z"},
                                                  .attributes_size = sizeof(double),
                                                  .reads_inputs = 3,
                                                  .reads_outputs = 1,
                                                  .shape = shape,
                                                  .forward = forward,
                                                  .backward = backward});
        double error = 1;
        hst_gradcheck(ctx, apply, &o, options & WITH_BIAS ? 3 : 2, leaves, &error);
        cr_expect(hst_get_status(ctx) == HST_OK, "%s", hst_error(ctx));
        cr_expect(error < 1e-7, "options %d: relative error %g", options, error);
        hst_close(ctx);
    }
}
