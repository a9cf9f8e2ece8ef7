// schedule.c: the learning rate of each step. The closed forms stand in optim.h.
#include <math.h>
#include <string.h>
#include "optim/optim.h"

static const char *const names[] = {"cosine", "linear", "constant", "invsqrt", "step"};
enum { KINDS = sizeof names / sizeof *names };

static double at_least(double least, double x) { return x > least ? x : least; }

double hst_schedule_rate(const hst_schedule *s, int64_t step) {
    if (!s) return NAN;
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    double rest = (double)(s->steps - s->warmup), u = rest > 0 ? fmin((double)(step - s->warmup) / rest, 1) : 1;
    double share = 1;
    switch (s->kind) {
    case HST_COSINE:
        share = s->floor + (1 - s->floor) * 0.5 * (1 + cos(3.14159265358979323846 * u));
        break;
    case HST_LINEAR:
        share = s->floor + (1 - s->floor) * (1 - u);
        break;
    case HST_CONSTANT:
        break;
    case HST_INVERSE_SQRT:
        share = at_least(s->floor, sqrt(at_least(1, (double)s->warmup) / (double)(step + 1)));
        break;
    case HST_STEP_DECAY:
        if (s->every > 0) share = at_least(s->floor, pow(s->factor, (double)(step / s->every)));
        break;
    }
    return s->peak * share;
}

const char *hst_schedule_name(hst_schedule_kind kind) { return (unsigned)kind < KINDS ? names[kind] : NULL; }

bool hst_schedule_find(const char *name, hst_schedule_kind *kind) {
    for (int i = 0; name && i < KINDS; i++)
        if (!strcmp(name, names[i])) return *kind = (hst_schedule_kind)i, true;
    return false;
}
