// trainer.c: one trainer, one step. Follow a symbol: stream -> ids -> embedding -> layers -> loss, and back.
#include <float.h>
#include <math.h>
#include <string.h>
#include "train/trainer.h"

// ---- making ----

static bool check(hst_context *ctx, const hst_train_options *o) {
    const struct {
        const char *name;
        double value, low, high;
    } ranges[] = {
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
        {"weight_decay", o->weight_decay, 0, 1e6},
        {"momentum", o->momentum, 0, 0.9999},
        {"eval_every", (double)o->eval_every, 0, 1e15},
        {"save_every", (double)o->save_every, 0, 1e15},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high)) {
            hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: %s is %g; it must be between %g and %g", ranges[i].name,
                     ranges[i].value, ranges[i].low, ranges[i].high);
            return false;
        }
    if (o->steps > 0 || o->seconds > 0 || o->epochs > 0) return true;
    hst_fail(ctx, HST_ERROR_VALUE,
             "hst_trainer_new: steps, seconds and epochs are all 0; one of them says how long to train");
    return false;
}

static void make_parts(hst_trainer *t, const hst_lm_config *config) {
    const hst_train_options *o = &t->options;
    t->stream = hst_stream_new(t->text, o->batch, o->length, o->seed);
    if (t->stream && o->steps == 0 && o->seconds == 0)
        t->options.steps = (int64_t)ceil(o->epochs * (double)hst_stream_epoch_batches(t->stream));
    if (!t->stream || !(t->model = hst_lm_new(t->ctx, config))) return;
    hst_adamw_options adamw = hst_adamw_defaults();
    adamw.decay = o->weight_decay;
    hst_parameters *list = t->model->parameters;
    t->optimizer = o->optimizer == HST_SGD ? hst_sgd(list, (hst_sgd_options){o->momentum, o->weight_decay})
                                           : hst_adamw(list, adamw);
    t->ids = hst_own(hst_new(t->ctx, HST_U8, HST_SHAPE(o->length, o->batch)));
    t->targets = hst_own(hst_new(t->ctx, HST_U8, HST_SHAPE(o->length, o->batch)));
    t->state = hst_own(hst_zeros(t->ctx, HST_F32, HST_SHAPE(o->layers, o->batch, o->hidden)));
}

hst_trainer *hst_trainer_make(hst_context *ctx, const hst_train_options *options, const hst_lm_config *model,
                              const hst_corpus *text, const hst_corpus *held_out) {
    if (!text) hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: text is NULL; there is nothing to learn from");
    if ((text && hst_corpus_context(text) != ctx) || (held_out && hst_corpus_context(held_out) != ctx))
        hst_fail(ctx, HST_ERROR_STATE, "hst_trainer_new: a text belongs to another context");
    hst_trainer *t =
        hst_get_status(ctx) == HST_OK && check(ctx, options) ? hst_allocate(ctx, sizeof *t, HST_WORKSPACE) : NULL;
    if (!t) return NULL;
    *t = (hst_trainer){.ctx = ctx,
                       .options = *options,
                       .text = text,
                       .text_bytes = hst_corpus_size(text),
                       .held_out = held_out && hst_corpus_size(held_out) > 1 ? held_out : NULL,
                       .done = {.smooth_loss = NAN, .validation = NAN, .best = NAN}};
    hst_seed(ctx, options->seed);
    make_parts(t, model);
    if (ctx->status == HST_OK) return t;
    hst_trainer_free(t);
    return NULL;
}

hst_trainer *hst_trainer_new(hst_context *ctx, const hst_train_options *options, const hst_corpus *text,
                             const hst_corpus *held_out) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (options && options->size == 0)
        hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: options.size is 0; hst_train_defaults sets it");
    hst_lm_config config = hst_lm_defaults();
    config.hidden = o.hidden;
    config.layers = o.layers;
    config.dropout = o.dropout;
    config.tied = o.tied;
    config.projection_size = o.projection;
    config.layer_norm = o.layer_norm != HST_NORM_NONE;
    config.normalize_after = o.layer_norm == HST_NORM_AFTER;
    config.highway_bias = o.highway_bias;
    config.rescale = !o.no_rescale;
    config.use_tanh = o.tanh;
    return hst_trainer_make(ctx, &o, &config, text, held_out);
}

void hst_trainer_free(hst_trainer *t) {
    if (!t) return;
    hst_unretain(t->ids);
    hst_unretain(t->targets);
    hst_unretain(t->state);
    hst_optimizer_free(t->optimizer);
    hst_lm_free(t->model);
    hst_stream_free(t->stream);
    hst_free(t->ctx, t);
}

hst_lm *hst_trainer_model(hst_trainer *t) {
    if (!t) return NULL;
    return t->model;
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
    hst_real *state = hst_mutable_data(t->state);
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
    hst_schedule s = {o->lr, (int64_t)ceil(o->warmup * (double)o->steps), o->steps, o->floor};
    return hst_schedule_rate(&s, t->done.step);
}

static bool check_finite(hst_trainer *t) {
    if (isfinite(t->loss) && isfinite(t->norm)) return true;
    hst_fail(t->ctx, HST_ERROR_DIVERGED,
             "training diverged at step %lld: the %s is no longer a finite number; a learning rate below %g may help",
             (long long)t->done.step + 1, isfinite(t->loss) ? "gradient" : "loss", t->rate);
    return false;
}

static void forward_backward_update(hst_trainer *t) {
    hst_context *ctx = t->ctx;
    hst_tensor *c;
    hst_tensor *loss = hst_cross_entropy(hst_lm_forward(t->model, t->ids, t->state, true, &c), t->targets);
    if (!loss || hst_backward(ctx, loss) != HST_OK) return;
    t->loss = hst_item(loss, NULL);
    t->norm = hst_gradient_norm(t->model->parameters);
    t->rate = learning_rate(t);
    if (!check_finite(t)) return;
    hst_optimizer_step(t->optimizer, t->rate, hst_clip_factor(t->norm, t->options.clip));
    hst_copy_tensor(t->state, c, false);
}

hst_status hst_trainer_step(hst_trainer *t, double *loss) {
    if (!t) return HST_ERROR_STATE;
    hst_context *ctx = t->ctx;
    bool new_epoch;
    if (t->options.steps == 0)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_trainer_step: options.seconds is a plan that hst_trainer_run makes; give steps or epochs");
    hst_stream_seek(t->stream, t->done.step); // a step takes one batch, also when it is tried again
    if (ctx->status != HST_OK || hst_stream_next(t->stream, t->ids, t->targets, &new_epoch) != HST_OK)
        return ctx->status;
    hst_seed(ctx, t->options.seed);                   // whatever else the context was used for in between
    hst_random_step(ctx, (uint64_t)t->done.step + 1); // step 0's numbers made the weights
    empty_states(t, new_epoch);
    hst_scope_begin(ctx);
    forward_backward_update(t);
    hst_scope_end(ctx, NULL);
    if (ctx->status != HST_OK) return ctx->status;
    t->done.step++;
    double weight = t->done.step < 50 ? 1.0 / (double)t->done.step : 0.02;
    t->done.smooth_loss = t->done.step == 1 ? t->loss : t->done.smooth_loss + weight * (t->loss - t->done.smooth_loss);
    if (loss) *loss = t->loss;
    return HST_OK;
}
