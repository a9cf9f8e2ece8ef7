// deepspeed.h: DeepSpeed's JSON configuration as options of `halfstep train`. deepspeed.c reads the file,
// deepspeed_options.c makes options of it.
#ifndef CLI_DEEPSPEED_H
#define CLI_DEEPSPEED_H

#include "train/cli/train_options.h"

enum { DEEPSPEED_KEYS = 64 };

// What a file says. A field counts where its key has a line.
typedef struct deepspeed {
    const char *path;
    cli_train_values *options; // that it becomes
    int lines[DEEPSPEED_KEYS]; // of the keys in deepspeed_keys, where the file has them, else 0
    char ignored[256];         // keys of other sections
    int code;                  // the exit code, once something is wrong and said so
    // fp16
    int fp16, auto_cast, fp16_masters, consecutive; // bool
    double loss_scale, min_loss_scale;
    int64_t scale_power, window, hysteresis;
    // bf16
    int bf16, immediate, check_overflow, bf16_masters, bf16_states; // bool
    // batches
    int64_t train_batch, micro_batch, accumulation;
    double clip;
    // optimizer
    int optimizer; // DEEPSPEED_ADAM ...
    double lr, beta1, beta2, eps, weight_decay, momentum;
    int nesterov, torch_adam, adam_w_mode; // bool
    // scheduler
    int scheduler, warmup_type; // DEEPSPEED_WARMUP ..., DEEPSPEED_LOG ...
    double warmup_min_lr, warmup_max_lr, warmup_min_ratio, cos_min_ratio;
    int64_t warmup_steps, total_steps;
} deepspeed;

enum { DEEPSPEED_ADAM, DEEPSPEED_ADAMW, DEEPSPEED_SGD, DEEPSPEED_RADAM }; // optimizer
enum { DEEPSPEED_WARMUP, DEEPSPEED_DECAY, DEEPSPEED_COSINE };             // scheduler
enum { DEEPSPEED_LOG, DEEPSPEED_LINEAR };                                 // warmup_type

extern const cli_option deepspeed_keys[];
int deepspeed_line(const deepspeed *file, const char *key); // 0: the file does not have it
// Prints "FILE: line 3: KEY ..." and sets the exit code; returns false.
bool deepspeed_refuse(deepspeed *file, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
// What the file says becomes options; false after printing what is wrong.
bool deepspeed_set_options(deepspeed *file);

// Reads --deepspeed-config, if it was given, into the other options. The exit code.
int cli_deepspeed_read(cli_train_values *values);

#endif
