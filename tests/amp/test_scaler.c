// test_scaler.c: the loss scalers' state machines against the golden traces, whose numbers were computed from the
// systems' own sources; floors, caps and limits; states that are saved, restored and damaged.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "amp/scaler.h"

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(scaler, .init = open_context, .fini = close_context);

static void expect_error(hst_status status, const char *words) {
    cr_expect(hst_get_status(ctx) == status && strstr(hst_error(ctx), words), "not \"%s\" but: %s", words,
              hst_error(ctx));
    hst_clear_error(ctx);
}

// One update: O an overflow, N none, L a loss that is not finite.
static hst_status update(hst_scaler *s, char event) {
    hst_scaler_report(s, event == 'O' ? HST_FOUND_OVERFLOW : event == 'L' ? HST_FOUND_NAN_LOSS : HST_FOUND_FINITE, "w");
    return hst_scaler_update(s);
}

static void update_all(hst_scaler *s, const char *events) {
    for (; *events; events++) cr_assert_eq(update(s, *events), HST_OK, "%s", hst_error(ctx));
}

static void expect_words(const hst_scaler *s, const char *words) {
    char text[128];
    cr_expect_eq(hst_scaler_describe(s, text, sizeof text), strlen(words));
    cr_expect_str_eq(text, words);
}

// ---- S1, S8: the golden traces ----

enum { STEPS = 16 };
static const char pattern[STEPS + 1] = "OONNNNNONONNNNNN";

// The scale that each iteration uses, in units of 8192; growth after 4 steps, from 65536.
static const struct {
    hst_scaler_profile profile;
    int hysteresis;
    bool consecutive;
    int units[STEPS];
} traces[] = {
    {HST_SCALER_TORCH, 1, false, {8, 4, 2, 2, 2, 2, 4, 4, 2, 2, 1, 1, 1, 1, 2, 2}},
    {HST_SCALER_APEX, 1, false, {8, 4, 2, 2, 2, 2, 4, 4, 2, 2, 1, 1, 1, 1, 2, 2}},
    {HST_SCALER_DEEPSPEED_ZERO, 2, false, {8, 8, 4, 4, 4, 4, 4, 8, 8, 8, 4, 4, 4, 4, 4, 8}},
    {HST_SCALER_DEEPSPEED_ZERO, 2, true, {8, 8, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16}},
    {HST_SCALER_DEEPSPEED_FUSED, 1, false, {8, 4, 2, 2, 2, 2, 2, 4, 2, 2, 1, 1, 1, 1, 1, 2}},
    {HST_SCALER_MXNET, 1, false, {8, 8, 4, 2, 2, 2, 2, 4, 4, 2, 2, 1, 1, 1, 1, 2}},
    {HST_SCALER_APEX, 2, true, {8, 8, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16}},
    {HST_SCALER_STATIC, 1, false, {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
};
enum { TRACES = sizeof traces / sizeof *traces };

static hst_scaler *scaler_of(int trace) {
    hst_scaler_options o = hst_scaler_defaults(traces[trace].profile);
    o.init_scale = 65536;
    o.interval = 4;
    o.hysteresis = traces[trace].hysteresis;
    o.consecutive = traces[trace].consecutive;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    cr_assert(s, "%s", hst_error(ctx));
    return s;
}

static void follow(hst_scaler *s, int trace, int from, int to) {
    for (int i = from; i < to; i++) {
        cr_assert_eq(hst_scaler_scale(s), traces[trace].units[i] * 8192, "%s (row %d), iteration %d uses %g",
                     hst_scaler_name(traces[trace].profile), trace, i + 1, hst_scaler_scale(s));
        cr_assert_eq(update(s, pattern[i]), HST_OK, "%s", hst_error(ctx));
    }
}

Test(scaler, profiles_follow_the_golden_traces) {
    for (int i = 0; i < TRACES; i++) {
        hst_scaler *s = scaler_of(i);
        follow(s, i, 0, STEPS);
        hst_scaler_state t = hst_scaler_get_state(s);
        cr_expect(t.steps == 12 && t.skipped == 4 && t.consecutive_skips == 0);
        hst_scaler_free(s);
    }
}

// At each of the 16 places: what follows is as if nothing had been, and the state has the same bits again.
Test(scaler, a_state_goes_on_where_it_was_taken) {
    for (int i = 0; i < TRACES; i++)
        for (int place = 0; place < STEPS; place++) {
            hst_scaler *one = scaler_of(i), *two = scaler_of(i);
            follow(one, i, 0, place);
            update(two, 'N'), update(two, 'O'); // somewhere else
            hst_scaler_state state = hst_scaler_get_state(one);
            cr_assert_eq(hst_scaler_set_state(two, &state), HST_OK, "%s", hst_error(ctx));
            hst_scaler_state again = hst_scaler_get_state(two);
            cr_assert(!memcmp(&again.scale, &state.scale, sizeof state.scale) && again.tracker == state.tracker);
            follow(two, i, place, STEPS);
            follow(one, i, place, STEPS);
            hst_scaler_state ends[] = {hst_scaler_get_state(one), hst_scaler_get_state(two)};
            cr_assert(ends[0].scale == ends[1].scale && ends[0].next_scale == ends[1].next_scale &&
                      ends[0].before == ends[1].before && ends[0].tracker == ends[1].tracker &&
                      ends[0].hysteresis_left == ends[1].hysteresis_left && ends[0].iteration == ends[1].iteration &&
                      ends[0].last_overflow == ends[1].last_overflow && ends[0].steps == ends[1].steps &&
                      ends[0].skipped == ends[1].skipped && ends[0].action == ends[1].action);
            hst_scaler_free(one), hst_scaler_free(two);
        }
}

// ---- S2: floors, caps, limits ----

// With everything of halfstep's turned off: 166 halvings from 2^16 would be 2^-150, which f32 rounds to 0.
Test(scaler, the_scale_is_never_zero_nor_infinite) {
    for (int profile = HST_SCALER_TORCH; profile <= HST_SCALER_MXNET; profile++) {
        hst_scaler_options o = hst_scaler_defaults((hst_scaler_profile)profile);
        o.init_scale = 65536;
        o.interval = 1;
        o.hysteresis = 1;
        o.min_scale = 0;
        o.max_scale = INFINITY;
        o.max_consecutive_skips = 0;
        hst_scaler *s = hst_scaler_new(ctx, &o);
        for (int i = 0; i < 400; i++) {
            update(s, 'O');
            hst_clear_error(ctx); // at the smallest number torch, mxnet and deepspeed_zero give up
            cr_assert(hst_scaler_scale(s) >= 0x1p-149);
        }
        cr_expect_eq(hst_scaler_scale(s), 0x1p-149, "%s: %g", hst_scaler_name(o.profile), hst_scaler_scale(s));
        for (int i = 0; i < 400; i++) {
            update(s, 'N');
            cr_assert(isfinite(hst_scaler_scale(s)));
        }
        cr_expect_eq(hst_scaler_scale(s), 0x1p127, "%s: %g", hst_scaler_name(o.profile), hst_scaler_scale(s));
        expect_words(s, "kept 1.70141183e+38, the cap");
        hst_scaler_free(s);
    }
}

// From 2^16 to the floor 2^-14 it is 30 halvings, and the overflow after them is the last.
Test(scaler, overflows_in_a_row_end_in_an_error) {
    hst_scaler *s = hst_scaler_new(ctx, NULL);
    for (int i = 0; i < 30; i++) cr_assert_eq(update(s, 'O'), HST_OK);
    cr_expect_eq(hst_scaler_scale(s), 0x1p-14);
    cr_expect_eq(update(s, 'O'), HST_ERROR_DIVERGED);
    expect_error(HST_ERROR_DIVERGED,
                 "diverged at the scaler's update 31: the gradient of w is not finite at loss scale 6.10351562e-05, "
                 "from where it is not lowered");
    expect_words(s, "kept 6.10351562e-05, the floor");
    hst_scaler_free(s);
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_TORCH);
    o.min_scale = 0;
    s = hst_scaler_new(ctx, &o);
    for (int i = 0; i < 63; i++) cr_assert_eq(update(s, 'O'), HST_OK);
    cr_expect_eq(update(s, 'O'), HST_ERROR_DIVERGED);
    expect_error(HST_ERROR_DIVERGED,
                 "update 64: the gradient of w is not finite at loss scale 7.10542736e-15, the last "
                 "of 64 steps skipped in a row");
    hst_scaler_free(s);
}

// Whether a lower scale could still have helped is in the sentence.
Test(scaler, the_last_of_many_skips_says_whether_the_scale_could_be_lower) {
    static const struct {
        hst_scaler_profile profile;
        const char *words;
    } cases[] = {{HST_SCALER_APEX, "scale 0.5, from where it is not lowered, the last of 4 steps skipped in a row"},
                 {HST_SCALER_STATIC, "scale 2, a constant, the last of 4 steps skipped in a row"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hst_scaler_options o = hst_scaler_defaults(cases[i].profile);
        o.init_scale = 2, o.min_scale = 0.5, o.max_consecutive_skips = 4;
        hst_scaler *s = hst_scaler_new(ctx, &o);
        for (int k = 0; k < 4; k++) cr_expect_eq(update(s, 'O'), k < 3 ? HST_OK : HST_ERROR_DIVERGED);
        expect_error(HST_ERROR_DIVERGED, cases[i].words);
        hst_scaler_free(s);
    }
}

Test(scaler, what_an_overflow_at_the_floor_does_is_the_profiles) {
    for (int profile = HST_SCALER_NONE; profile <= HST_SCALER_MXNET; profile++) {
        bool ends = profile == HST_SCALER_NONE || profile == HST_SCALER_TORCH || profile == HST_SCALER_DEEPSPEED_ZERO ||
                    profile == HST_SCALER_MXNET;
        hst_scaler_options o = hst_scaler_defaults((hst_scaler_profile)profile);
        o.hysteresis = 1;
        o.init_scale = o.min_scale = 1;
        hst_scaler *s = hst_scaler_new(ctx, &o);
        cr_expect_eq(update(s, 'O'), ends ? HST_ERROR_DIVERGED : HST_OK, "%s", hst_scaler_name(o.profile));
        cr_expect_eq(hst_scaler_scale(s), 1);
        hst_clear_error(ctx);
        hst_scaler_free(s);
    }
}

// mxnet: the overflow that comes one step late is not one of the floor; deepspeed: hysteresis comes first.
Test(scaler, the_floor_is_tried_before_the_end) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_MXNET);
    o.init_scale = 2;
    o.min_scale = 1;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    update_all(s, "OO");
    cr_expect_eq(hst_scaler_scale(s), 1);
    cr_expect_eq(update(s, 'O'), HST_ERROR_DIVERGED);
    hst_clear_error(ctx);
    hst_scaler_free(s);
    o = hst_scaler_defaults(HST_SCALER_DEEPSPEED_ZERO);
    o.init_scale = o.min_scale = 1;
    s = hst_scaler_new(ctx, &o);
    update_all(s, "O");
    expect_words(s, "kept 1, hysteresis 1 of 2 used");
    cr_expect_eq(update(s, 'O'), HST_ERROR_DIVERGED);
    hst_clear_error(ctx);
    hst_scaler_free(s);
}

// 3 is no divisor of 1000, nor 0.3 a power of two: floor and cap are met, not passed.
Test(scaler, the_scale_stays_between_floor_and_cap) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_APEX);
    o.init_scale = 100;
    o.min_scale = 20;
    o.max_scale = 1000;
    o.growth = 3;
    o.backoff = 0.3;
    o.interval = 1;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    static const double scales[] = {30, 20, 60, 180, 540, 1000, 1000, 300};
    for (int i = 0; i < 8; i++) {
        update(s, "OONNNNNO"[i]);
        cr_expect_float_eq(hst_scaler_scale(s), scales[i], 1e-4, "%d: %g", i, hst_scaler_scale(s));
    }
    hst_scaler_free(s);
}

// S4. The counter compares with "not less than": it grows with the next step.
Test(scaler, an_interval_below_the_tracker_still_grows) {
    for (int profile = HST_SCALER_TORCH; profile <= HST_SCALER_MXNET; profile++) {
        hst_scaler_options o = hst_scaler_defaults((hst_scaler_profile)profile);
        o.init_scale = 1024;
        o.interval = 100;
        hst_scaler *before = hst_scaler_new(ctx, &o);
        for (int i = 0; i < 50; i++) update(before, 'N');
        hst_scaler_state state = hst_scaler_get_state(before);
        o.interval = 7;
        hst_scaler *after = hst_scaler_new(ctx, &o);
        cr_assert_eq(hst_scaler_set_state(after, &state), HST_OK, "%s", hst_error(ctx));
        for (int i = 0; i < 9; i++) update(after, 'N'); // deepspeed counts on to 56; mxnet is one late
        cr_expect_gt(hst_scaler_scale(after), 1024, "%s", hst_scaler_name(o.profile));
        hst_scaler_free(before), hst_scaler_free(after);
    }
}

// ---- other events ----

// S10. Scale, tracker and hysteresis are as they were; only the counts know of it.
Test(scaler, a_loss_that_is_not_finite_lowers_nothing) {
    for (int i = 0; i < TRACES; i++) {
        hst_scaler *s = scaler_of(i), *other = scaler_of(i);
        for (int k = 0; k < STEPS; k++) {
            update(s, 'L'), update(s, pattern[k]), update(other, pattern[k]);
            cr_assert_eq(hst_scaler_scale(s), hst_scaler_scale(other));
        }
        hst_scaler_state t = hst_scaler_get_state(s), u = hst_scaler_get_state(other);
        cr_expect(t.tracker == u.tracker && t.iteration == u.iteration && t.hysteresis_left == u.hysteresis_left);
        cr_expect(t.steps == 12 && t.skipped == 20);
        hst_scaler_free(s), hst_scaler_free(other);
    }
    hst_scaler *s = hst_scaler_new(ctx, NULL);
    for (int i = 0; i < 63; i++) cr_assert_eq(update(s, 'L'), HST_OK);
    expect_words(s, "kept 65536, the loss is not finite");
    update(s, 'L');
    expect_error(HST_ERROR_DIVERGED,
                 "diverged at the scaler's update 64: the loss itself is not finite, whatever the loss "
                 "scale, 65536, the last of 64 steps skipped in a row");
    hst_scaler_free(s);
}

Test(scaler, reports_between_two_updates_are_one) {
    hst_scaler *s = hst_scaler_new(ctx, NULL);
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "no gradients were checked since the last update");
    hst_scaler_report(s, HST_FOUND_NO_GRADIENTS, NULL);
    cr_expect_eq(hst_scaler_update(s), HST_OK);
    hst_scaler_state t = hst_scaler_get_state(s);
    cr_expect(t.steps == 0 && t.skipped == 0 && t.tracker == 0 && t.action == HST_SCALER_STARTED);
    hst_scaler_report(s, HST_FOUND_FINITE, NULL);
    hst_scaler_report(s, HST_FOUND_OVERFLOW, "first");
    hst_scaler_report(s, HST_FOUND_OVERFLOW, "second");
    hst_scaler_report(s, HST_FOUND_NAN_LOSS, NULL);
    cr_expect_eq(hst_scaler_update(s), HST_OK);
    cr_expect_eq(hst_scaler_scale(s), 32768); // once
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_STATE);
    hst_clear_error(ctx);
    hst_scaler_free(s);
    cr_expect(hst_scaler_scale(NULL) == 1 && hst_scaler_update(NULL) == HST_OK && !hst_scaler_context(NULL));
    hst_scaler_report(NULL, HST_FOUND_OVERFLOW, "w");
    hst_scaler_free(NULL);
}

Test(scaler, the_last_update_in_words) {
    hst_scaler *s = scaler_of(3); // deepspeed_zero, hysteresis 2
    expect_words(s, "kept 65536, the first");
    update_all(s, "O");
    expect_words(s, "kept 65536, hysteresis 1 of 2 used");
    update_all(s, "O");
    expect_words(s, "lowered 65536 to 32768");
    update_all(s, "NNNN");
    expect_words(s, "kept 32768");
    update_all(s, "N");
    expect_words(s, "raised 32768 to 65536");
    hst_scaler_free(s);
    s = scaler_of(5); // mxnet
    update_all(s, "O");
    expect_words(s, "lowered 65536 to 32768 for the step after the next");
    update_all(s, "N");
    expect_words(s, "kept 32768");
    hst_scaler_free(s);
    s = scaler_of(7);
    update_all(s, "O");
    expect_words(s, "kept 65536, a constant");
    hst_scaler_free(s);
}
