// trainer.c: one trainer, one step. Follow a symbol: stream -> ids -> embedding -> layers -> loss, and back.
#include <float.h>
#include <math.h>
#include <string.h>
#include "train/trainer.h"

static const double MOST_BATCHES = 0x1p53; // of a run: the whole numbers that a double holds

// ---- making ----

static bool check(hst_context *ctx, const hst_train_options *o) {
    const hst_range ranges[] = {
        {"hidden", (double)o->hidden, 1, 1 << 20},
        {"layers", o->layers, 1, 1000},
        {"dropout", o->dropout, 0, 0.999},
        {"projection", (double)o->projection, 0, 1 << 20},
        {"layer_norm", (double)o->layer_norm, HST_NORM_BEFORE, HST_NORM_NONE},
        {"highway_bias", o->highway_bias, -100, 100},
        {"batch", (double)o->batch, 1, 1 << 20},
        {"length", (double)o->length, 1, 1 << 20},
        {"fresh_share", o->fresh_share, 0, 1},
        {"steps", (double)o->steps, 0, 1e15},
        {"seconds", o->seconds, 0, 1e9},
        {"epochs", o->epochs, 0, 1e9},
        {"lr", o->lr, 0, 1e6},
        {"warmup", o->warmup, 0, 1},
        {"floor", o->floor, 0, 1},
        {"clip", o->clip, 0, DBL_MAX},
        {"lr_step_every", o->lr_step_every, 1e-9, 1},
        {"lr_step_factor", o->lr_step_factor, 0, 1},
        {"weight_decay", o->weight_decay, 0, 1e6},
        {"momentum", o->momentum, 0, 0.9999},
        {"accumulate", (double)o->accumulate, 1, 1 << 20},
        {"ema", o->ema, 0, 0.999999},
        {"eval_every", (double)o->eval_every, 0, 1e15},
        {"save_every", (double)o->save_every, 0, 1e15},
        {"patience", (double)o->patience, 0, 1e15},
        {"steps x accumulate", (double)o->steps * (double)o->accumulate, 0, MOST_BATCHES},
    };
    if (!hst_check_ranges(ctx, "hst_trainer_new", ranges, sizeof ranges / sizeof *ranges)) return false;
    if (!hst_schedule_name(o->schedule)) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: there is no schedule of kind %d", (int)o->schedule);
        return false;
    }
    if (o->steps > 0 || o->seconds > 0 || o->epochs > 0) return true;
    hst_fail(ctx, HST_ERROR_VALUE,
             "hst_trainer_new: steps, seconds and epochs are all 0; one of them says how long to train");
    return false;
}

// The number of steps from that of epochs; 0 where the plan has yet to make one.
static int64_t steps_of(hst_trainer *t) {
    const hst_train_options *o = &t->options;
    if (o->steps > 0 || o->seconds > 0) return o->steps;
    double accumulate = (double)o->accumulate;
    double steps = ceil(o->epochs * (double)hst_stream_epoch_batches(t->stream) / accumulate);
    const hst_range range = {"steps x accumulate", steps * accumulate, 0, MOST_BATCHES};
    return hst_check_ranges(t->ctx, "hst_trainer_new", &range, 1) ? (int64_t)steps : 0;
}

// The averages start from the weights, so a file's come first.
static void make_parts(hst_trainer *t, const hst_lm_config *config, const char *path, const hst_safetensors *file) {
    hst_train_options *o = &t->options;
    if (!(t->stream = hst_stream_new(t->text, o->batch, o->length, o->seed))) return;
    o->steps = steps_of(t);
    if (!(t->model = hst_lm_new(t->ctx, config)) || (file && !hst_lm_read(t->model, path, file))) return;
    hst_make_precision(t);
    hst_optimizer_options optimizer = hst_optimizer_defaults(o->optimizer);
    optimizer.decay = o->weight_decay;
    optimizer.momentum = o->momentum;
    optimizer.nesterov = o->nesterov;
    optimizer.beta1 = o->beta1;
    optimizer.beta2 = o->beta2;
    optimizer.eps = o->eps;
    t->optimizer = hst_optimizer_new(t->model->parameters, &optimizer);
    if (o->ema > 0) t->ema = hst_ema_new(t->model->parameters, o->ema);
    hst_lm_set_tokenizer(t->model, hst_tokenizer_text(hst_corpus_tokenizer(t->text)));
    hst_dtype symbols = hst_corpus_symbols(t->text).dtype;
    t->ids = hst_own(hst_new(t->ctx, symbols, HST_SHAPE(o->length, o->batch)));
    t->targets = hst_own(hst_new(t->ctx, symbols, HST_SHAPE(o->length, o->batch)));
    t->state = hst_own(hst_zeros(t->ctx, HST_F32, HST_SHAPE(o->layers, o->batch, o->hidden)));
    t->carried = hst_own(hst_zeros(t->ctx, HST_F32, HST_SHAPE(o->layers, o->batch, o->hidden)));
}

bool hst_can_evaluate(const hst_corpus *held_out) { return hst_corpus_symbols(held_out).count > 1; }

hst_trainer *hst_trainer_make(hst_context *ctx, const hst_train_options *options, const hst_lm_config *model,
                              const char *path, const hst_safetensors *file, const hst_corpus *text,
                              const hst_corpus *held_out) {
    if (!text) hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: text is NULL; there is nothing to learn from");
    if ((text && hst_corpus_context(text) != ctx) || (held_out && hst_corpus_context(held_out) != ctx))
        hst_fail(ctx, HST_ERROR_STATE, "hst_trainer_new: a text belongs to another context");
    if (text && held_out && !hst_tokenizer_equal(hst_corpus_tokenizer(text), hst_corpus_tokenizer(held_out)))
        hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: the held-out text was encoded with another tokenizer");
    hst_train_options o = *options;
    if (o.weight_decay < 0) o.weight_decay = o.optimizer == HST_ADAMW ? 0.3 : 0;
    hst_trainer *t = hst_get_status(ctx) == HST_OK && hst_fill_in_precision(ctx, &o) && check(ctx, &o)
                         ? hst_allocate(ctx, sizeof *t, HST_WORKSPACE)
                         : NULL;
    if (!t) return NULL;
    *t = (hst_trainer){.ctx = ctx,
                       .options = o,
                       .text = text,
                       .held_out = hst_can_evaluate(held_out) ? held_out : NULL,
                       .ends_with_text = true,
                       .done = {.smooth_loss = NAN, .validation = NAN, .best = NAN}};
    hst_seed(ctx, o.seed);
    make_parts(t, model, path, file);
    if (ctx->status == HST_OK) return t;
    hst_trainer_free(t);
    return NULL;
}

bool hst_trainer_take_options(hst_context *ctx, const hst_train_options *options, hst_train_options *taken) {
    hst_train_defaults(taken, sizeof *taken);
    if (!options) return true;
    if (options->size == 0)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: options.size is 0; hst_train_defaults sets it"), false;
    memcpy(taken, options, options->size < sizeof *taken ? options->size : sizeof *taken);
    return true;
}

hst_trainer *hst_trainer_new(hst_context *ctx, const hst_train_options *options, const hst_corpus *text,
                             const hst_corpus *held_out) {
    hst_train_options o;
    if (!hst_trainer_take_options(ctx, options, &o)) return NULL;
    hst_lm_config config = hst_train_model(&o, hst_corpus_tokenizer(text));
    return hst_trainer_make(ctx, &o, &config, NULL, NULL, text, held_out);
}

void hst_trainer_free(hst_trainer *t) {
    if (!t) return;
    hst_unretain(t->ids);
    hst_unretain(t->targets);
    hst_unretain(t->state);
    hst_unretain(t->carried);
    hst_ema_free(t->ema);
    hst_scaler_free(t->scaler);
    hst_optimizer_free(t->optimizer);
    hst_lm_free(t->model);
    hst_stream_free(t->stream);
    hst_free(t->ctx, t);
}

hst_lm *hst_trainer_model(hst_trainer *t) {
    if (!t) return NULL;
    return t->model;
}
hst_scaler *hst_trainer_scaler(hst_trainer *t) {
    if (!t) return NULL;
    return t->scaler;
}
hst_step_result hst_trainer_result(const hst_trainer *t) {
    if (!t) return HST_STEP_FAILED;
    return t->result;
}
hst_ema *hst_trainer_ema(hst_trainer *t) {
    if (!t) return NULL;
    return t->ema;
}
const hst_train_options *hst_trainer_options(hst_trainer *t) {
    if (!t) return NULL;
    return &t->options;
}

// ---- one step ----

// Lanes that start afresh: all of them in a new epoch, else a share, so that the model also learns to begin.
static void empty_states(hst_trainer *t, bool all) {
    int64_t lanes = t->options.batch, width = t->options.hidden;
    hst_random_key key = hst_next_key(t->ctx);
    hst_real *state = hst_mutable_data(t->carried);
    for (int64_t b = 0; b < lanes; b++) {
        uint32_t words[4];
        hst_philox(key, (uint64_t)b, words);
        if (!all && (double)hst_unit(words[0]) >= t->options.fresh_share) continue;
        for (int i = 0; i < t->options.layers; i++)
            memset(state + (i * lanes + b) * width, 0, (size_t)width * sizeof *state);
    }
}

static double learning_rate(const hst_trainer *t) {
    const hst_train_options *o = &t->options;
    hst_schedule s = {.kind = o->schedule,
                      .peak = o->lr,
                      .warmup = (int64_t)ceil(o->warmup * (double)o->steps),
                      .steps = o->steps,
                      .floor = o->floor,
                      .every = (int64_t)ceil(o->lr_step_every * (double)o->steps),
                      .factor = o->lr_step_factor};
    return hst_schedule_rate(&s, t->done.step);
}

// Without a scaler, which would skip the step, there is nothing to go on with.
static bool check_finite(hst_trainer *t) {
    if (t->scaler || (isfinite(t->loss) && isfinite(t->norm))) return true;
    hst_fail(t->ctx, HST_ERROR_DIVERGED,
             "training diverged at step %lld: the %s is no longer a finite number; a learning rate below %g may help",
             (long long)t->done.step + 1, isfinite(t->loss) ? "gradient" : "loss", t->rate);
    return false;
}

// One batch's loss, and its gradients: written, or, after the first batch of a step, added to what is there.
static void forward_backward(hst_trainer *t, bool first) {
    hst_parameters *list = t->model->parameters;
    hst_precision_begin(t);
    hst_tensor *c, *loss = hst_lm_loss(t->model, t->ids, t->targets, t->carried, true, &c);
    hst_precision_end(t);
    hst_request_gradients(list, first ? HST_WRITE : HST_ADD);
    if (!loss || hst_scaled_backward(t->scaler, 1, &list, loss) != HST_OK) return;
    t->loss += hst_item(loss, NULL);
    hst_copy_tensor(t->carried, c, false);
}

static bool take_batch(hst_trainer *t, int64_t n) {
    hst_context *ctx = t->ctx;
    int64_t number = hst_batches_read(t) + n; // of the run's batches
    bool new_epoch;
    hst_stream_set_end(t->stream, t->ends_with_text ? t->options.steps * t->options.accumulate : 0);
    hst_stream_seek(t->stream, number); // also when a step is tried again
    if (ctx->status != HST_OK || hst_stream_next(t->stream, t->ids, t->targets, &new_epoch) != HST_OK) return false;
    hst_seed(ctx, t->options.seed);             // whatever else the context was used for in between
    hst_random_step(ctx, (uint64_t)number + 1); // step 0's numbers made the weights
    empty_states(t, new_epoch);
    hst_scope_begin(ctx);
    forward_backward(t, n == 0);
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

// Unscale, check and measure; clip; step; then the scaler. The loss is the mean over the batches, and so are the
// gradient and its norm.
static bool update(hst_trainer *t) {
    hst_parameters *list = t->model->parameters;
    double factor;
    t->loss /= (double)t->options.accumulate;
    t->rate = learning_rate(t);
    t->scale = hst_scaler_scale(t->scaler);
    if (hst_unscale_gradients(list, &t->norm) != HST_OK || !check_finite(t) ||
        hst_clip_gradients(list, t->options.clip, &factor) == HST_CLIP_FAILED)
        return false;
    t->result = hst_scaled_step(t->scaler, t->optimizer, t->rate, factor);
    if (t->result == HST_STEP_FAILED || hst_scaler_update(t->scaler) != HST_OK) return false;
    if (t->scaler) hst_scaler_describe(t->scaler, t->scaler_did, sizeof t->scaler_did);
    if (t->ema && t->result == HST_STEPPED) hst_ema_update(t->ema);
    return t->ctx->status == HST_OK;
}

// A step that was skipped leaves everything as it was but its place in the text, and the carried state, as long as that
// is one that can be carried.
static void count(hst_trainer *t) {
    if (t->result != HST_SKIPPED_NAN_LOSS) hst_copy_tensor(t->state, t->carried, false);
    if (t->result != HST_STEPPED) {
        t->done.skipped++;
        return;
    }
    t->done.step++;
    double weight = t->done.step < 50 ? 1.0 / (double)t->done.step : 0.02;
    t->done.smooth_loss = t->done.step == 1 ? t->loss : t->done.smooth_loss + weight * (t->loss - t->done.smooth_loss);
}

hst_status hst_trainer_step(hst_trainer *t, double *loss) {
    if (!t) return HST_ERROR_STATE;
    hst_context *ctx = t->ctx;
    if (t->options.steps == 0)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_trainer_step: options.seconds is a plan that hst_trainer_run makes; give steps or epochs");
    t->loss = 0;
    hst_copy_tensor(t->carried, t->state, false); // state itself changes at the end: a failed step can be tried again
    hst_set_accumulation(t->model->parameters, t->options.accumulate);
    for (int64_t n = 0; n < t->options.accumulate; n++) {
        if (n > 0 && t->go_on && !t->go_on(t->user)) return HST_CANCELLED;
        if (!take_batch(t, n)) return ctx->status;
    }
    if (!update(t)) return ctx->status;
    count(t);
    if (loss) *loss = t->loss;
    return HST_OK;
}
