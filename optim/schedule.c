// schedule.c: the learning rate of each step.
#include <math.h>
#include "optim/optim.h"

// rate(t) = peak (t + 1) / warmup                                                 for t < warmup
//         = peak (floor + (1 - floor) (1 + cos(pi (t - warmup) / (steps - warmup))) / 2)   after it
double hst_schedule_rate(const hst_schedule *s, int64_t step) {
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    double rest = (double)(s->steps - s->warmup), done = rest > 0 ? (double)(step - s->warmup) / rest : 1;
    return s->peak * (s->floor + (1 - s->floor) * 0.5 * (1 + cos(3.14159265358979323846 * fmin(done, 1))));
}
