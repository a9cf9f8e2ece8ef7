// test_scaler_mistakes.c: options out of range and damaged states: each is refused with a sentence of its own.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "amp/scaler.h"

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(scaler_mistakes, .init = open_context, .fini = close_context);

static void expect_error(hst_status status, const char *words) {
    cr_expect(hst_get_status(ctx) == status && strstr(hst_error(ctx), words), "not \"%s\" but: %s", words,
              hst_error(ctx));
    hst_clear_error(ctx);
}

Test(scaler_mistakes, options_out_of_range_are_refused) {
    for (int i = 0; i < 21; i++) {
        hst_scaler_options o = hst_scaler_defaults(i < 17 ? HST_SCALER_TORCH : HST_SCALER_DEEPSPEED_FUSED);
        const char *words = NULL;
        switch (i) {
        case 0:
            o.growth = 1, words = "growth 1; a number above 1";
            break;
        case 1:
            o.growth = NAN, words = "growth nan";
            break;
        case 2:
            o.growth = INFINITY, words = "growth inf";
            break;
        case 3:
            o.backoff = 1, words = "backoff 1; a number between 0 and 1";
            break;
        case 4:
            o.backoff = 0, words = "backoff 0";
            break;
        case 5:
            o.backoff = NAN, words = "backoff nan";
            break;
        case 6:
            o.interval = 0, words = "interval 0; at least 1";
            break;
        case 7:
            o.hysteresis = 0, words = "hysteresis 0; at least 1";
            break;
        case 8:
            o.min_scale = -1, words = "min_scale -1";
            break;
        case 9:
            o.min_scale = INFINITY, words = "min_scale inf";
            break;
        case 10:
            o.max_scale = NAN, words = "max_scale nan";
            break;
        case 11:
            o.max_scale = 1024, words = "65536 is not between min_scale 6.10351562e-05 and max_scale 1024";
            break;
        case 12:
            o.min_scale = 1e6, words = "65536 is not between min_scale 1000000";
            break;
        case 13:
            o.init_scale = 0, words = "init_scale 0; a positive number";
            break;
        case 14:
            o.init_scale = 1e39, words = "init_scale inf";
            break; // beyond f32
        case 15:
            o.max_consecutive_skips = -1, words = "max_consecutive_skips -1";
            break;
        case 16:
            o.init_scale = NAN, words = "init_scale nan";
            break;
        case 17:
            o.hysteresis = 2, words = "hysteresis 2; this profile has none";
            break;
        case 18:
            o.profile = (hst_scaler_profile)7, words = "no profile 7; profiles are 0 to 6";
            break;
        case 19:
            o.profile = HST_SCALER_NONE, words = "none multiplies by 1";
            break;
        case 20:
            o.profile = HST_SCALER_STATIC, o.init_scale = -1, words = "init_scale -1";
            break;
        }
        cr_expect_null(hst_scaler_new(ctx, &o), "case %d", i);
        expect_error(HST_ERROR_VALUE, words);
    }
    for (int profile = HST_SCALER_NONE; profile <= HST_SCALER_MXNET; profile++) {
        hst_scaler_options o = hst_scaler_defaults((hst_scaler_profile)profile);
        hst_scaler *s = hst_scaler_new(ctx, &o);
        cr_expect(s, "%s", hst_error(ctx));
        hst_scaler_free(s);
    }
}

// What a damaged file could hold.
Test(scaler_mistakes, damaged_states_are_refused) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_DEEPSPEED_ZERO);
    hst_scaler *s = hst_scaler_new(ctx, &o);
    for (int i = 0; i < 3; i++) { // the third overflows
        hst_scaler_report(s, i < 2 ? HST_FOUND_FINITE : HST_FOUND_OVERFLOW, "w");
        cr_assert_eq(hst_scaler_update(s), HST_OK);
    }
    const hst_scaler_state good = hst_scaler_get_state(s);
    for (int i = 0; i < 19; i++) {
        hst_scaler_state t = good;
        const char *words = "a scale is not one that the options allow";
        switch (i) {
        case 0:
            t.scale = t.next_scale = NAN;
            break;
        case 1:
            t.scale = t.next_scale = 0;
            break;
        case 2:
            t.next_scale = INFINITY;
            break;
        case 3:
            t.scale = t.next_scale = 0x1p25f;
            break; // above the cap
        case 4:
            t.before = -1;
            break;
        case 5:
            t.next_scale = 1024, words = "scale and next_scale differ";
            break;
        case 6:
            t.tracker = -1, words = "a count is out of range";
            break;
        case 7:
            t.iteration = INT64_MAX, words = "a count is out of range";
            break;
        case 8:
            t.hysteresis_left = 0, words = "hysteresis_left is out of range";
            break;
        case 9:
            t.hysteresis_left = 3, words = "hysteresis_left is out of range";
            break;
        case 10:
            t.last_overflow = 3, words = "last_overflow lies in the future";
            break;
        case 11:
            t.last_overflow = -2, words = "last_overflow lies in the future";
            break;
        case 12:
            t.steps = -1, words = "the counts of steps do not fit";
            break;
        case 13:
            t.skipped = INT64_MAX, words = "the counts of steps do not fit";
            break;
        case 14:
            t.consecutive_skips = 2, words = "the counts of steps do not fit";
            break;
        case 15:
            t.action = (hst_scaler_action)99, words = "its action is none";
            break;
        case 16:
            t.action = (hst_scaler_action)-1, words = "its action is none";
            break;
        case 17:
            t.profile = HST_SCALER_MXNET, words = "of profile mxnet, the scaler is deepspeed_zero";
            break;
        case 18:
            t.profile = (hst_scaler_profile)-5, words = "of profile no known, the scaler";
            break;
        }
        cr_expect_eq(hst_scaler_set_state(s, &t), HST_ERROR_VALUE, "case %d", i);
        expect_error(HST_ERROR_VALUE, words);
    }
    cr_expect_eq(hst_scaler_set_state(s, NULL), HST_ERROR_VALUE);
    hst_clear_error(ctx);
    cr_expect_eq(hst_scaler_get_state(s).tracker, good.tracker);
    cr_expect_eq(hst_scaler_set_state(s, &good), HST_OK);
    hst_scaler_free(s);
}

Test(scaler_mistakes, names_lead_to_profiles_and_back) {
    hst_scaler_profile profile;
    for (int i = 0; i <= HST_SCALER_MXNET; i++)
        cr_expect(hst_scaler_find(hst_scaler_name((hst_scaler_profile)i), &profile) && (int)profile == i);
    cr_expect(!hst_scaler_name((hst_scaler_profile)7) && !hst_scaler_name((hst_scaler_profile)-1));
    cr_expect(!hst_scaler_find("pytorch", &profile) && !hst_scaler_find(NULL, &profile));
}
