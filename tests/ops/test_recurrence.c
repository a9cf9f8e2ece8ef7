// test_recurrence.c: what the recurrence promises beyond its numbers, on every instruction set: a sequence in pieces is
// the sequence in one, and pads anywhere.
#include "tests/ops/isas.h"

// ---- pieces ----

enum { LONGEST = 37, BATCH = 2, WIDTH = 19, SIZE = LONGEST * BATCH * WIDTH };

// A sequence with its results. What is f32 here is what is carried from piece to piece.
typedef struct sequence {
    hst_sru_args args;
    hst_sru_grad_args grad;
    hst_real c[SIZE], c0[BATCH * WIDTH], c_last[BATCH * WIDTH], dc_last[BATCH * WIDTH], dc0[BATCH * WIDTH];
    hst_real u[4 * SIZE], x[SIZE], v[2 * WIDTH], v_steps[2 * SIZE], bias[2 * WIDTH], mask[BATCH * WIDTH], dh[SIZE];
    hst_real h[SIZE], du[4 * SIZE], dx[SIZE], dv_steps[2 * SIZE], dv[2 * WIDTH], dbias[2 * WIDTH];
    uint8_t pad[LONGEST * BATCH];
} sequence;

static void draw_reals(hst_real *x, int64_t count, double size, uint32_t which) {
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) hst_philox((hst_random_key){.seed = 5, .operation = which}, (uint64_t)i / 4, words);
        x[i] = (hst_real)(size * (2 * (double)hst_unit(words[i % 4]) - 1));
    }
}

// Options are bits: 1 x, 2 the fourth plane instead, 4 tanh, 8 pad, 16 v_steps, 32 mask, 64 backwards in time.
static void make(sequence *s, int options) {
    memset(s, 0, sizeof *s);
    bool four = options & 2;
    draw_reals(s->u, 4 * SIZE, 2, 0), draw_reals(s->x, SIZE, 1, 1), draw_reals(s->dh, SIZE, 1, 2);
    draw_reals(s->v, 2 * WIDTH, 1, 3), draw_reals(s->v_steps, 2 * SIZE, 1, 4), draw_reals(s->bias, 2 * WIDTH, 1, 5);
    draw_reals(s->mask, BATCH * WIDTH, 2, 6), draw_reals(s->c0, BATCH * WIDTH, 1, 7);
    draw_reals(s->dc_last, BATCH * WIDTH, 1, 8);
    for (int i = 0; i < LONGEST * BATCH; i++) s->pad[i] = i * 7 % 5 == 0;
    s->args = (hst_sru_args){.length = LONGEST,
                             .batch = BATCH,
                             .width = WIDTH,
                             .k = four ? 4 : 3,
                             .scale_x = 1.25,
                             .tanh = options & 4,
                             .backward_columns = options & 64 ? WIDTH : 0,
                             .u = F32(s->u),
                             .v = F32(s->v),
                             .bias = F32(s->bias),
                             .c0 = F32(s->c0),
                             .h = TO_F32(s->h),
                             .c = s->c,
                             .c_last = s->c_last};
    if (options & 1 && !four) s->args.x = F32(s->x);
    if (options & 8) s->args.pad = (hst_source){s->pad, HST_U8};
    if (options & 16) s->args.v_steps = F32(s->v_steps);
    if (options & 32) s->args.mask = F32(s->mask);
    s->grad = (hst_sru_grad_args){.dh = F32(s->dh),
                                  .dc_last = F32(s->dc_last),
                                  .du = TO_F32(s->du),
                                  .dv = TO_F32(s->dv),
                                  .dbias = TO_F32(s->dbias),
                                  .dc0 = TO_F32(s->dc0)};
    if (s->args.x.data) s->grad.dx = TO_F32(s->dx);
    if (s->args.v_steps.data) s->grad.dv_steps = TO_F32(s->dv_steps);
}

static void run_whole(hst_context *ctx, sequence *s) {
    s->grad.forward = s->args;
    cr_assert(ctx->backend->sru(ctx, &s->args) && ctx->backend->sru_grad(ctx, &s->grad));
}

static void advance_source(hst_source *x, int64_t count) {
    if (x->data) x->data = (const char *)x->data + count * (x->dtype == HST_U8 ? 1 : (int64_t)sizeof(hst_real));
}
static void advance_target(hst_target *y, int64_t count) {
    if (y->data) y->data = (hst_real *)y->data + count;
}

// Piece i, of up to `length` steps, as a call of its own; carried[i] is c before it and saved[i] what forward keeps.
static hst_real carried[LONGEST + 1][BATCH * WIDTH], saved[LONGEST][SIZE];

static hst_sru_grad_args piece_at(const sequence *s, int64_t i, int64_t length) {
    hst_sru_grad_args g = s->grad;
    hst_sru_args *a = &g.forward;
    *a = s->args;
    a->length = LONGEST - i * length < length ? LONGEST - i * length : length;
    int64_t first = a->backward_columns ? LONGEST - i * length - a->length : i * length,
            elements = first * BATCH * WIDTH;
    advance_source(&a->u, a->k * elements);
    advance_source(&a->x, elements);
    advance_source(&a->pad, first * BATCH);
    advance_source(&a->v_steps, 2 * elements);
    advance_source(&g.dh, elements);
    advance_target(&a->h, elements);
    advance_target(&g.du, a->k * elements);
    advance_target(&g.dx, elements);
    advance_target(&g.dv_steps, 2 * elements);
    g.dv.add = g.dbias.add = true;
    a->c0 = F32(carried[i]);
    a->c = saved[i];
    a->c_last = carried[i + 1];
    return g;
}

// The sequence in pieces: forward with c carried on, then backward with dc.
static void run_pieces(hst_context *ctx, sequence *s, int64_t length) {
    int64_t pieces = (LONGEST + length - 1) / length;
    memcpy(carried[0], s->c0, sizeof s->c0);
    for (int64_t i = 0; i < pieces; i++) {
        hst_sru_grad_args g = piece_at(s, i, length);
        cr_assert(ctx->backend->sru(ctx, &g.forward));
    }
    memcpy(s->c_last, carried[pieces], sizeof s->c_last);
    hst_real dc[BATCH * WIDTH];
    memcpy(dc, s->dc_last, sizeof dc);
    for (int64_t i = pieces - 1; i >= 0; i--) {
        hst_sru_grad_args g = piece_at(s, i, length);
        g.dc_last = F32(dc);
        cr_assert(ctx->backend->sru_grad(ctx, &g));
        memcpy(dc, s->dc0, sizeof dc);
    }
}

static void expect_bits(hst_context *ctx, const char *what, const hst_real *x, const hst_real *y, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        cr_assert(!memcmp(&x[i], &y[i], sizeof *x), "%s: %s [%d] is %.9g, not %.9g", hst_isa(ctx), what, (int)i,
                  (double)x[i], (double)y[i]);
}

// Sum over steps and batch of |dU1| (m = 1) or |dU2| (m = 2) of column j.
static double size_of_sum(const sequence *s, int m, int j) {
    double sum = 0;
    for (int row = 0; row < LONGEST * BATCH; row++) sum += fabs((double)s->du[(row * s->args.k + m) * WIDTH + j]);
    return sum;
}

// dbias is a sum of such terms, dv of p times them; c lies between c0 and the U0, so |p| <= 2. In f32 over at most 64
// steps they are 64 roundings of up to the sum of their sizes off, whole and in pieces, which then are added, with a
// rounding each.
static void expect_same(hst_context *ctx, const sequence *whole, const sequence *cut) {
    expect_bits(ctx, "h", cut->h, whole->h, SIZE);
    expect_bits(ctx, "c_last", cut->c_last, whole->c_last, BATCH * WIDTH);
    if (!strcmp(hst_isa(ctx), "naive")) return; // its dc is a double within a call
    expect_bits(ctx, "du", cut->du, whole->du, whole->args.k * SIZE);
    expect_bits(ctx, "dx", cut->dx, whole->dx, SIZE);
    expect_bits(ctx, "dv_steps", cut->dv_steps, whole->dv_steps, 2 * SIZE);
    expect_bits(ctx, "dc0", cut->dc0, whole->dc0, BATCH * WIDTH);
    for (int i = 0; i < 2 * WIDTH; i++) {
        double slack = (64 + 64 + LONGEST) * EPSILON / 2 * size_of_sum(whole, 1 + i / WIDTH, i % WIDTH);
        expect(ctx, "dbias", cut->dbias[i], whole->dbias[i], slack);
        expect(ctx, "dv", cut->dv[i], whole->dv[i], 2 * slack);
    }
}

// Pieces of one step leave nothing to be computed again: backward has the states that forward had. So equal bits say
// that in longer ones it computes the same states, whatever lies between the segments of 16.
static void check_pieces(hst_context *ctx) {
    static sequence whole, cut;
    static const int64_t lengths[] = {1, 5, 16, 17};
    for (int options = 0; options < 128; options++) {
        make(&whole, options);
        run_whole(ctx, &whole);
        for (size_t i = 0; i < COUNT(lengths); i++) {
            make(&cut, options);
            run_pieces(ctx, &cut, lengths[i]);
            expect_same(ctx, &whole, &cut);
        }
    }
}
Test(recurrence, pieces_are_the_whole_bit_for_bit) { for_each_isa(check_pieces); }

// ---- sequences larger than the caches ----

// h goes past the caches from 2^24 bytes of U, x and h on: here 2^25. In pieces of 17 steps, of 2^23.4, it does not,
// and must be the same. With 2088 columns and two directions the second one begins between vectors.
static void check_large_with(hst_context *ctx, int64_t width, int k, bool two_directions, bool padded) {
    enum { STEPS = 51, PIECE = 17, LANES = 16, WIDEST = 2088 };
    static const hst_real bias[2 * WIDEST];
    static uint8_t pad[STEPS * LANES];
    int64_t row = LANES * width, count = STEPS * row, first = two_directions ? width / 2 : width;
    hst_real *u = hst_workspace(ctx, (size_t)(k * count) * sizeof *u),
             *h = hst_workspace(ctx, (size_t)count * sizeof *h), *cut = hst_workspace(ctx, (size_t)count * sizeof *cut);
    hst_real *c = hst_workspace(ctx, (size_t)row * sizeof *c), *from = hst_workspace(ctx, (size_t)row * sizeof *from);
    cr_assert(u && h && cut && c && from);
    for (int64_t i = 0; i < k * count; i++) u[i] = (hst_real)(i * 7919 % 1021) / 256 - 2;
    for (int i = 0; padded && i < STEPS * LANES; i++) pad[i] = i % 5 == 0;
    hst_sru_args args = {.length = STEPS,
                         .batch = LANES,
                         .width = width,
                         .k = k,
                         .scale_x = 1,
                         .backward_columns = width - first,
                         .u = F32(u),
                         .bias = F32(bias),
                         .h = TO_F32(h),
                         .c_last = c};
    if (padded) args.pad = (hst_source){pad, HST_U8};
    cr_assert(ctx->backend->sru(ctx, &args));
    args.length = PIECE;
    for (int direction = 0; direction <= two_directions; direction++)
        for (int64_t done = 0; done < STEPS; done += PIECE) { // both run; those of one direction follow each other
            int64_t at = direction ? STEPS - PIECE - done : done;
            args.u.data = u + k * at * row;
            args.h.data = cut + at * row;
            if (padded) args.pad.data = pad + at * LANES;
            args.c0 = done > 0 ? F32(memcpy(from, c, (size_t)row * sizeof *c)) : (hst_source){0};
            cr_assert(ctx->backend->sru(ctx, &args));
            for (int64_t i = at * row; i < (at + PIECE) * row; i++) {
                bool second = i % width >= first;
                if (second == direction)
                    cr_assert(!memcmp(&cut[i], &h[i], sizeof *h), "%s, %d columns, k %d: h[%lld]", hst_isa(ctx),
                              (int)width, k, (long long)i);
            }
        }
    void *all[] = {from, c, cut, h, u};
    for (int i = 0; i < 5; i++) hst_workspace_free(ctx, all[i]);
}

static void check_large(hst_context *ctx) {
    check_large_with(ctx, 2080, 3, false, false); // rows of whole vectors
    check_large_with(ctx, 2088, 4, false, true);  // not with 16 lanes
    check_large_with(ctx, 2088, 3, true, true);
    check_large_with(ctx, 2080, 4, true, false);
}
Test(recurrence, sequences_larger_than_the_caches) { for_each_isa(check_large); }

// ---- pads ----

static bool pads_at(int pattern, int t) {
    switch (pattern) {
    case 0:
        return t < 3; // at the front
    case 1:
        return t == 9 || t == 15 || t == 16; // in the middle, and where a segment of 16 begins
    case 2:
        return t >= LONGEST - 18; // at the end, a segment and more
    case 3:
        return true; // the whole row
    default:
        return false;
    }
}
enum { PATTERNS = 5 };

// The rows of lane b that are not padded, as a sequence of a batch of one; from[i] is the row that row i was.
static void without_pads(const sequence *s, int b, sequence *one, int *from) {
    memcpy(one, s, sizeof *one); // what does not depend on time
    hst_sru_args *a = &one->args;
    a->batch = 1, a->length = 0;
    for (int t = 0; t < LONGEST; t++) {
        int row = t * BATCH + b, to = (int)a->length, k = a->k;
        if (s->pad[row]) continue;
        memcpy(one->u + to * k * WIDTH, s->u + row * k * WIDTH, (size_t)(k * WIDTH) * sizeof *s->u);
        memcpy(one->x + to * WIDTH, s->x + row * WIDTH, WIDTH * sizeof *s->x);
        memcpy(one->v_steps + to * 2 * WIDTH, s->v_steps + row * 2 * WIDTH, 2 * WIDTH * sizeof *s->v_steps);
        memcpy(one->dh + to * WIDTH, s->dh + row * WIDTH, WIDTH * sizeof *s->dh);
        from[a->length++] = row;
    }
    a->u = F32(one->u), a->v = F32(one->v), a->bias = F32(one->bias), a->pad = (hst_source){0};
    a->c0 = F32(one->c0 + b * WIDTH), a->h = TO_F32(one->h), a->c = one->c, a->c_last = one->c_last;
    if (a->x.data) a->x = F32(one->x);
    if (a->v_steps.data) a->v_steps = F32(one->v_steps);
    if (a->mask.data) a->mask = F32(one->mask + b * WIDTH);
    one->grad = (hst_sru_grad_args){.dh = F32(one->dh),
                                    .dc_last = F32(one->dc_last + b * WIDTH),
                                    .du = TO_F32(one->du),
                                    .dx = a->x.data ? TO_F32(one->dx) : (hst_target){0},
                                    .dv_steps = a->v_steps.data ? TO_F32(one->dv_steps) : (hst_target){0},
                                    .dc0 = TO_F32(one->dc0)};
}

// A padded row has h = 0 and no gradients, and the others what they have without it.
static void expect_lane(hst_context *ctx, const sequence *s, int b, const sequence *one, const int *from) {
    static const hst_real zeros[4 * WIDTH];
    int k = s->args.k, next = 0;
    for (int t = 0; t < LONGEST; t++) {
        int row = t * BATCH + b;
        bool there = !s->pad[row];
        if (there) cr_assert_eq(from[next], row);
        expect_bits(ctx, "h", s->h + row * WIDTH, there ? one->h + next * WIDTH : zeros, WIDTH);
        expect_bits(ctx, "du", s->du + row * k * WIDTH, there ? one->du + next * k * WIDTH : zeros, k * WIDTH);
        expect_bits(ctx, "dx", s->dx + row * WIDTH, there ? one->dx + next * WIDTH : zeros, WIDTH);
        expect_bits(ctx, "dv_steps", s->dv_steps + row * 2 * WIDTH, there ? one->dv_steps + next * 2 * WIDTH : zeros,
                    2 * WIDTH);
        next += there;
    }
    expect_bits(ctx, "c_last", s->c_last + b * WIDTH, one->c_last, WIDTH);
    expect_bits(ctx, "dc0", s->dc0 + b * WIDTH, one->dc0, WIDTH);
    if (next == 0) expect_bits(ctx, "c_last of nothing", one->c_last, s->c0 + b * WIDTH, WIDTH);
    if (next == 0) expect_bits(ctx, "dc0 of nothing", one->dc0, s->dc_last + b * WIDTH, WIDTH);
}

static void check_pads(hst_context *ctx) {
    static sequence padded, one;
    for (int options = 0; options < 128; options++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            int from[LONGEST];
            make(&padded, options | 8);
            if (options & 8) padded.args.backward_columns = 7; // two directions
            for (int t = 0; t < LONGEST; t++)
                for (int b = 0; b < BATCH; b++) padded.pad[t * BATCH + b] = pads_at((pattern + b) % PATTERNS, t);
            run_whole(ctx, &padded);
            for (int b = 0; b < BATCH; b++) {
                without_pads(&padded, b, &one, from);
                run_whole(ctx, &one);
                expect_lane(ctx, &padded, b, &one, from);
            }
        }
}
Test(recurrence, pads_are_as_if_not_there) { for_each_isa(check_pads); }

// With r = 1 and no skip value h is c: c_last is c at the last step in one direction, at the first in the other.
static void check_last_state(hst_context *ctx) {
    static sequence s;
    make(&s, 0);
    s.args.backward_columns = 9;
    for (int row = 0; row < LONGEST * BATCH; row++)
        for (int j = 0; j < WIDTH; j++) s.u[(3 * row + 2) * WIDTH + j] = 40;
    run_whole(ctx, &s);
    const hst_real *first = s.h, *last = s.h + (LONGEST - 1) * BATCH * WIDTH;
    for (int b = 0; b < BATCH; b++)
        for (int j = 0; j < WIDTH; j++) {
            int64_t at = b * WIDTH + j;
            expect(ctx, "c_last", s.c_last[at], j < WIDTH - 9 ? last[at] : first[at], 0);
        }
}
Test(recurrence, last_state_is_the_end_of_each_direction) { for_each_isa(check_last_state); }
