// test_null.c: a program written without checks. Whatever failed is NULL, and every public function takes it.
#include <criterion/criterion.h>
#include <math.h>
#include "train/halfstep.h"

static hst_tensor *identity(hst_context *ctx, hst_tensor *const *x, void *user) { return (void)ctx, (void)user, x[0]; }
static bool keep_going(int64_t symbol, void *user) { return (void)symbol, (void)user, true; }

Test(null, no_context) {
    hst_memory memory;
    double error;
    cr_expect(hst_get_status(NULL) == HST_ERROR_MEMORY && *hst_error(NULL));
    hst_clear_error(NULL);
    cr_expect_eq(hst_fail(NULL, HST_ERROR_VALUE, "%d", 1), HST_ERROR_VALUE);
    cr_expect(hst_thread_count(NULL) == 0 && *hst_isa(NULL) == 0);
    hst_memory_stats(NULL, &memory);
    cr_expect_eq(memory.peak_total, 0);
    hst_seed(NULL, 1), hst_random_step(NULL, 1), hst_anomaly_mode(NULL, true), hst_close(NULL);
    cr_expect(hst_scope_begin(NULL) && hst_no_grad_begin(NULL) && hst_no_grad_end(NULL) && !hst_scope_end(NULL, NULL));
    cr_expect(!hst_empty(NULL, HST_F32, HST_SCALAR) && !hst_zeros(NULL, HST_F32, HST_SCALAR));
    cr_expect(!hst_full(NULL, HST_F32, HST_SCALAR, 1) && !hst_uniform(NULL, HST_F32, HST_SCALAR, 0, 1));
    cr_expect(!hst_from_array(NULL, HST_F32, HST_SCALAR, HST_F32, &(float){1}));
    cr_expect(!hst_adopt(NULL, HST_F32, HST_SCALAR, &(float){1}, NULL, NULL));
    cr_expect(hst_backward(NULL, NULL) && hst_backward_keeping(NULL, NULL) && hst_backward_from(NULL, 0, NULL, NULL));
    cr_expect(hst_gradcheck(NULL, identity, NULL, 0, NULL, &error));
    cr_expect(hst_autocast_begin(NULL, NULL) && hst_autocast_end(NULL) && hst_autocast_dtype(NULL) == HST_F32);
    cr_expect(hst_autocast_class(NULL, "add", HST_CAST_F32) && !hst_scaler_new(NULL, NULL));
    cr_expect(!hst_numerics_begin(NULL, 1) && !hst_register(NULL, NULL));
    hst_lm_config config = hst_lm_defaults();
    cr_expect(!hst_parameters_new(NULL) && !hst_lm_new(NULL, &config) && !hst_lm_load(NULL, "x") &&
              !hst_corpus_new(NULL));
    cr_expect(!hst_trainer_new(NULL, NULL, NULL, NULL) && !hst_trainer_read_options(NULL, "x", NULL));
    cr_expect(!hst_trainer_read_isa(NULL, "x", &(char){0}, 1));
    cr_expect(!hst_trainer_resume(NULL, "x", NULL, NULL) && !hst_trainer_resume_in(NULL, "x", NULL, NULL, NULL));
}

Test(null, no_tensor) {
    hst_tensor *part;
    cr_expect(!hst_context_of(NULL) && !hst_rank(NULL) && !hst_dim(NULL, 0) && !hst_count(NULL) && !hst_shape(NULL));
    cr_expect(hst_dtype_of(NULL) == HST_F32 && !hst_is_contiguous(NULL) && !hst_data(NULL) && !hst_mutable_data(NULL));
    cr_expect(hst_copy_out(NULL, HST_F32, NULL) && hst_copy_in(NULL, HST_F32, NULL) && hst_item(NULL, NULL) == 0);
    cr_expect(hst_format(NULL, NULL, 0) == 0 && !hst_keep(NULL) && !hst_grad(NULL) && !hst_detach(NULL));
    hst_release(NULL);
    cr_expect(hst_attach_grad(NULL, HST_WRITE, HST_F32));
    cr_expect(!hst_matmul(NULL, NULL) && !hst_linear(NULL, NULL, NULL) && !hst_embedding(NULL, NULL));
    cr_expect(!hst_layer_norm(NULL, NULL, NULL, 0) && !hst_layer_norm_as(NULL, NULL, NULL, 0, HST_F16));
    cr_expect(!hst_dropout(NULL, 0.5) && !hst_variational_dropout(NULL, 0.5) && !hst_add(NULL, NULL));
    cr_expect(!hst_scale(NULL, 1) && !hst_cast(NULL, HST_I32) && !hst_cast(NULL, HST_F16) && !hst_sum(NULL) &&
              !hst_mean(NULL));
    cr_expect(!hst_sub(NULL, NULL) && !hst_mul(NULL, NULL) && !hst_div(NULL, NULL) && !hst_rms_norm(NULL, NULL, 0));
    cr_expect(!hst_sigmoid(NULL) && !hst_tanh(NULL) && !hst_relu(NULL) && !hst_gelu(NULL, true) && !hst_exp(NULL));
    cr_expect(!hst_log(NULL) && !hst_sqrt(NULL) && !hst_pow(NULL, 2) && !hst_max(NULL));
    cr_expect(!hst_sum_axes(NULL, 1, NULL, false) && !hst_mean_axes(NULL, 1, NULL, false) &&
              !hst_max_axes(NULL, 1, NULL, false) && !hst_softmax(NULL, 0) && !hst_log_softmax(NULL, 0));
    cr_expect(!hst_cross_entropy(NULL, NULL) && !hst_token_losses(NULL, NULL) && !hst_transpose(NULL, 0, 1));
    cr_expect(!hst_binary_cross_entropy(NULL, NULL) && !hst_binary_cross_entropy_with_logits(NULL, NULL));
    cr_expect(!hst_reshape(NULL, HST_SCALAR) && !hst_slice(NULL, 0, 0, 1));
    cr_expect(!hst_unsqueeze(NULL, 0) && !hst_squeeze(NULL, 0) && !hst_broadcast_to(NULL, HST_SCALAR));
    cr_expect(!hst_cat(1, (hst_tensor *[]){NULL}, 0) && !hst_stack(1, (hst_tensor *[]){NULL}, 0));
    cr_expect(hst_split(NULL, 0, 1, (int64_t[]){1}, &part) && !part);
    cr_expect(!hst_where(NULL, NULL, NULL) && !hst_masked_fill(NULL, NULL, 0) && !hst_take(NULL, NULL, 0));
    cr_expect(!hst_one_hot(NULL, 1, HST_F32));
    cr_expect(!hst_sru_recurrence(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, hst_recurrence_defaults(), NULL));
}

Test(null, nothing_else) {
    double nats;
    hst_tensor *c;
    hst_symbols none = {0};
    size_t count;
    char sum[65];
    hst_sampling sampling = hst_sampling_defaults();
    cr_expect(!hst_parameter(NULL, "w", NULL) && !hst_parameter_count(NULL) && !hst_parameter_name(NULL, 0));
    cr_expect(!hst_parameter_value(NULL, 0) && !hst_parameter_elements(NULL) && !hst_parameters_context(NULL));
    cr_expect(isnan(hst_gradient_norm(NULL)) && hst_request_gradients(NULL, HST_ADD));
    cr_expect(!hst_optimizer_new(NULL, NULL) && !hst_ema_new(NULL, 0.9) && isnan(hst_schedule_rate(NULL, 0)));
    cr_expect(hst_ema_update(NULL) && !hst_ema_updates(NULL) && !hst_ema_state_count(NULL));
    cr_expect(!hst_ema_state(NULL, 0, NULL, 0));
    hst_ema_swap(NULL), hst_ema_set_updates(NULL, 1), hst_ema_free(NULL);
    cr_expect(hst_optimizer_step(NULL, 1, 1) && !hst_optimizer_steps(NULL) && !hst_optimizer_state_count(NULL));
    cr_expect(!hst_optimizer_state(NULL, 0, NULL, 0) && !hst_optimizer_parameters(NULL));
    cr_expect(hst_show_parameters(NULL, HST_F16, false) && hst_set_accumulation(NULL, 1));
    cr_expect(hst_scaled_backward(NULL, 0, NULL, NULL) && hst_unscale_gradients(NULL, &nats) && isnan(nats));
    cr_expect(hst_clip_gradients(NULL, 1, NULL) == HST_CLIP_FAILED &&
              hst_scaled_step(NULL, NULL, 1, 1) == HST_STEP_FAILED);
    cr_expect(!hst_scaler_context(NULL) && hst_scaler_scale(NULL) == 1 && !hst_scaler_update(NULL));
    cr_expect(hst_scaler_get_state(NULL).scale == 1 && !hst_scaler_set_state(NULL, NULL));
    cr_expect(hst_scaler_describe(NULL, sum, sizeof sum) && !strcmp(sum, "kept 1, the first"), "%s", sum);
    hst_scaler_report(NULL, HST_FOUND_OVERFLOW, NULL), hst_scaler_free(NULL);
    cr_expect(!hst_scaler_find(NULL, NULL) && !hst_precision_find(NULL, NULL) && !hst_op_list_find(NULL, NULL));
    cr_expect(!hst_precision_of(HST_PRECISIONS) && !hst_scaler_name((hst_scaler_profile)-1) &&
              !hst_op_list_name(HST_OP_LISTS) && !hst_step_result_name((hst_step_result)-1));
    cr_expect(hst_numerics_watch(NULL, NULL, NULL) && hst_numerics_end(NULL) && !hst_numerics_tensor_count(NULL));
    cr_expect(!hst_numerics_tensor_at(NULL, 0) && !hst_numerics_sum_count(NULL) && !hst_numerics_sum_at(NULL, 0));
    cr_expect_eq(hst_numerics_scale_of(NULL).used, 0);
    hst_numerics_free(NULL);
    cr_expect(!hst_custom(NULL, NULL, NULL, NULL));
    hst_optimizer_set_steps(NULL, 1), hst_optimizer_free(NULL), hst_parameters_free(NULL);
    cr_expect(!hst_sru_new(NULL, "", NULL) && !hst_sru_forward(NULL, NULL, NULL, NULL, true, &c) && !c);
    cr_expect(!hst_lm_forward(NULL, NULL, NULL, true, &c) && !c && !hst_lm_configuration(NULL) &&
              !hst_lm_parameters(NULL));
    cr_expect(!hst_sru_configuration(NULL) && !hst_sru_load(NULL, "x", NULL, NULL));
    cr_expect(hst_sru_save(NULL, "x") && hst_sru_export(NULL, "x", 2, HST_F32) && hst_sru_read(NULL, "x"));
    cr_expect(hst_lm_export(NULL, "x", 2, HST_F32));
    cr_expect(hst_lm_save(NULL, "x") && hst_lm_generate(NULL, none, 1, &sampling, keep_going, NULL));
    cr_expect(hst_lm_evaluate_as(NULL, HST_F16, none, 0, NULL, &nats));
    cr_expect(hst_lm_evaluate(NULL, none, 0, NULL, &nats) && hst_lm_set_tokenizer(NULL, NULL) &&
              !hst_lm_tokenizer(NULL));
    hst_sru_free(NULL), hst_lm_free(NULL);
    cr_expect(hst_corpus_add(NULL, "x") && hst_corpus_add_bytes(NULL, "x", 1) && !hst_corpus_bytes(NULL));
    cr_expect(!hst_corpus_size(NULL) && !hst_corpus_split(NULL, 0.5) && !hst_corpus_context(NULL));
    cr_expect(!hst_tokenizer_bytes(NULL) && !hst_tokenizer_characters(NULL) && !hst_tokenizer_read(NULL, NULL));
    cr_expect(!hst_tokenizer_text(NULL) && !hst_tokenizer_size(NULL) && hst_tokenizer_equal(NULL, NULL));
    cr_expect(!hst_tokenizer_fits(NULL, "x", 256));
    cr_expect(!*hst_tokenizer_decode(NULL, 0, &count) && !count && hst_tokenizer_start(NULL) == 10);
    cr_expect(hst_corpus_encode(NULL, NULL, true) && !hst_corpus_tokenizer(NULL) && !hst_corpus_symbols(NULL).count);
    hst_corpus_sha256(NULL, sum), hst_tokenizer_free(NULL);
    cr_expect(!hst_stream_new(NULL, 1, 1, 1) && hst_stream_next(NULL, NULL, NULL, NULL) && !hst_stream_position(NULL));
    cr_expect(!hst_stream_epoch_batches(NULL));
    hst_stream_seek(NULL, 1), hst_stream_set_end(NULL, 1), hst_stream_free(NULL), hst_corpus_free(NULL);
    cr_expect(hst_trainer_run(NULL, NULL, NULL, NULL) && hst_trainer_step(NULL, NULL));
    cr_expect(!hst_trainer_new_from(NULL, "x", NULL, NULL, NULL) && hst_train_memory(NULL, 1) == 0);
    cr_expect(!hst_trainer_scaler(NULL) && hst_trainer_result(NULL) == HST_STEP_FAILED);
    cr_expect(!hst_trainer_model(NULL) && !hst_trainer_options(NULL) && !hst_trainer_ema(NULL));
    hst_trainer_free(NULL);
}

static void refuses_path(hst_context *ctx, const char *what) {
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "path is NULL"), "%s: %s", what,
              hst_error(ctx));
    hst_clear_error(ctx);
}

// NULL is the defaults where there are any, and otherwise an error like others.
Test(null, no_options_and_no_path) {
    hst_context *ctx = hst_open(NULL);
    hst_parameters *list = hst_parameters_new(ctx);
    hst_lm *model = hst_lm_new(ctx, NULL);
    cr_assert(model, "%s", hst_error(ctx));
    cr_expect_eq(hst_lm_configuration(model)->hidden, hst_lm_defaults().hidden);
    cr_expect_eq(hst_lm_generate(model, hst_byte_symbols("a", 1), 1, NULL, keep_going, NULL), HST_OK);
    cr_expect_eq(hst_lm_generate(model, hst_byte_symbols("a", 1), 1, NULL, NULL, NULL), HST_ERROR_VALUE);
    hst_clear_error(ctx);
    cr_expect_null(hst_sru_new(list, "", NULL));
    cr_expect_eq(hst_get_status(ctx), HST_ERROR_VALUE);
    hst_clear_error(ctx);
    hst_sru_config config = hst_sru_defaults(HST_SRU_HALFSTEP);
    config.input = config.hidden = 4;
    hst_sru *sru = hst_sru_new(list, NULL, &config);
    cr_assert(sru, "%s", hst_error(ctx));
    cr_expect_str_eq(hst_parameter_name(list, 0), "rnn_lst.0.weight");
    hst_lm_save(model, NULL), refuses_path(ctx, "hst_lm_save");
    hst_lm_export(model, NULL, 2, HST_F32), refuses_path(ctx, "hst_lm_export");
    hst_lm_load(ctx, NULL), refuses_path(ctx, "hst_lm_load");
    hst_lm_import(ctx, NULL, NULL, NULL), refuses_path(ctx, "hst_lm_import");
    hst_sru_save(sru, NULL), refuses_path(ctx, "hst_sru_save");
    hst_sru_load(list, NULL, NULL, NULL), refuses_path(ctx, "hst_sru_load");
    hst_sru_read(sru, NULL), refuses_path(ctx, "hst_sru_read");
    hst_convert(ctx, NULL, "x", NULL, NULL), refuses_path(ctx, "hst_convert");
    hst_trainer_resume(ctx, NULL, NULL, NULL), refuses_path(ctx, "hst_trainer_resume");
    hst_trainer_new_from(ctx, NULL, NULL, NULL, NULL), refuses_path(ctx, "hst_trainer_new_from");
    hst_corpus *text = hst_corpus_new(ctx);
    hst_corpus_add(text, NULL), refuses_path(ctx, "hst_corpus_add");
    hst_close(ctx);
}

// A whole training program in which the first thing fails: the error is that of the first thing.
Test(null, a_program_without_checks_reports_the_first_error) {
    hst_context *ctx = hst_open(NULL);
    hst_lm_config config = hst_lm_defaults();
    config.hidden = 0;
    hst_lm *model = hst_lm_new(ctx, &config);
    hst_parameters *weights = hst_lm_parameters(model);
    hst_optimizer *adam = hst_optimizer_new(weights, NULL);
    hst_corpus *text = hst_corpus_new(ctx);
    hst_corpus_add_bytes(text, "some text", 9);
    hst_stream *stream = hst_stream_new(text, 1, 4, 1);
    hst_tensor *ids = hst_empty(ctx, HST_U8, HST_SHAPE(4, 1)), *targets = hst_empty(ctx, HST_U8, HST_SHAPE(4, 1));
    hst_stream_next(stream, ids, targets, NULL);
    hst_tensor *next, *loss = hst_cross_entropy(hst_lm_forward(model, ids, NULL, true, &next), targets);
    hst_backward(ctx, loss);
    hst_optimizer_step(adam, 1, hst_clip_factor(hst_gradient_norm(weights), 1));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE);
    cr_expect_str_eq(hst_error(ctx), "hst_lm_new: vocabulary 256 and hidden 0 must be positive");
    hst_close(ctx);
}
