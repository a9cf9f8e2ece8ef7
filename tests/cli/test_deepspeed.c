// test_deepspeed.c: DeepSpeed's configuration files as options of `halfstep train`: what they become, seen in the log's
// start line, and what is refused.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(deepspeed, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

#define SMALL "--layers", "1", "--hidden", "16", "--length", "8"
#define CONFIG "--deepspeed-config", "ds.json"

static void write_config(const char *text) { write_file("ds.json", text, strlen(text)); }

typedef struct expectation {
    const char *key, *value;
} expectation;

static void expect_start(const expectation *expected) {
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_assert(is_json_lines(log), "%s", log);
    for (; expected->key; expected++) {
        const char *value = json_value(log, "start", expected->key);
        cr_expect(value && !strcmp(value, expected->value), "%s is %s instead of %s", expected->key, value,
                  expected->value);
    }
}

// Every value differs from the default of the option that it becomes. 7 steps of warm-up of 30.
Test(deepspeed, a_whole_file_becomes_options) {
    write_text("text.txt", 2000);
    write_config("{\"train_batch_size\": 8, \"gradient_accumulation_steps\": 4, \"gradient_clipping\": 0.5,\n"
                 "\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 12,\n"
                 "  \"loss_scale_window\": 5, \"hysteresis\": 3, \"consecutive_hysteresis\": true,\n"
                 "  \"min_loss_scale\": 4},\n"
                 "\"optimizer\": {\"type\": \"ADAM\", \"params\": {\"lr\": 1e-2, \"betas\": [0.8, 0.95],\n"
                 "  \"eps\": 1e-7, \"weight_decay\": 3e-2}},\n"
                 "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 30,\n"
                 "  \"warmup_max_lr\": 0.004, \"warmup_num_steps\": 7, \"warmup_type\": \"linear\"}},\n"
                 "\"zero_optimization\": {\"stage\": 2, \"sizes\": [1e9, null]}, \"steps_per_print\": 2000}\n");
    child c = RUN("train", "text.txt", SMALL, CONFIG);
    cr_assert_eq(c.code, 0, "%s", c.err);
    cr_expect(strstr(c.err, "note: ds.json: ignored: zero_optimization, steps_per_print\n"), "%s", c.err);
    cr_expect(strstr(c.err, "\ntypes: deepspeed-fp16, "), "%s", c.err);
    cr_expect(strstr(c.err, "\nscale: deepspeed_zero, 4096 at first, x 2 after 5 steps without an overflow, x 0.5 "
                            "after 3 overflows in a row, at least 4, "),
              "%s", c.err);
    expect_start((expectation[]){{"precision", "\"deepspeed-fp16\""},
                                 {"scaler", "\"deepspeed_zero\""},
                                 {"loss_scale", "\"dynamic\""},
                                 {"init_scale", "4096"},
                                 {"growth_interval", "5"},
                                 {"hysteresis", "3"},
                                 {"consecutive_hysteresis", "true"},
                                 {"min_scale", "4"},
                                 {"batch", "2"},
                                 {"accumulate", "4"},
                                 {"clip", "0.5"},
                                 {"optimizer", "\"adamw\""}, // adam_w_mode is DeepSpeed's default
                                 {"lr", "0.004"},            // the scheduler's
                                 {"beta1", "0.8"},
                                 {"beta2", "0.95"},
                                 {"eps", "1e-07"},
                                 {"weight_decay", "0.03"},
                                 {"schedule", "\"linear\""},
                                 {"steps", "30"},
                                 {"floor", "0"},
                                 {"deepspeed_config", "\"ds.json\""},
                                 {NULL, NULL}});
    char *log = read_file("text.run/log.jsonl", NULL), rate[32], *line = log; // the last of the warm-up has the peak
    for (int step = 0; step < 8 && line; step++) line = strstr(line + 1, "\"event\":\"step\"");
    snprintf(rate, sizeof rate, "%s", line ? strstr(line, "\"lr\":") + 5 : "");
    cr_expect_float_eq(atof(rate), 0.004, 1e-6, "step 8 is the first after the warm-up: %s", rate);
}

// What is not said is DeepSpeed's default in a section that is there, the option's in one that is not, and the
// command line's where that says it.
Test(deepspeed, what_a_file_does_not_say) {
    static const struct {
        const char *file, *arguments[6];
        expectation expected[9];
    } cases[] = {
        {"{}", {NULL}, {{"precision", "\"fp32\""}, {"batch", "16"}, {"optimizer", "\"adamw\""}, {"lr", "0.005"}}},
        {"{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": false}}", {NULL}, {{"precision", "\"fp32\""}}},
        {"{\"bf16\": {\"enabled\": true, \"immediate_grad_update\": true}}",
         {NULL},
         {{"precision", "\"deepspeed-bf16\""}, {"scaler", "\"none\""}, {"loss_scale", "1"}}},
        {"{\"fp16\": {\"enabled\": true}}",
         {"--min-scale", "2", "--max-skips", "9", NULL},
         {{"init_scale", "65536"},
          {"growth_interval", "1000"},
          {"hysteresis", "2"},
          {"min_scale", "2"},
          {"max_skips", "9"}}},
        {"{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 26}}",
         {NULL},
         {{"init_scale", "67108864"}, {"max_scale", "67108864"}, {"min_scale", "1"}}},
        {"{\"fp16\": {\"enabled\": true, \"loss_scale\": 128, \"hysteresis\": 2}}",
         {NULL},
         {{"scaler", "\"static\""}, {"loss_scale", "128"}}},
        {"{\"fp16\": {\"enabled\": true, \"hysteresis\": 2, \"consecutive_hysteresis\": true}}",
         {"--scaler", "deepspeed_fused", NULL},
         {{"scaler", "\"deepspeed_fused\""}, {"hysteresis", "1"}, {"consecutive_hysteresis", "false"}}},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}",
         {"--beta2", "0.9", NULL},
         {{"optimizer", "\"adam\""}, {"lr", "0.001"}, {"beta1", "0.9"}, {"beta2", "0.9"}, {"weight_decay", "0"}}},
        {"{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}}}",
         {NULL},
         {{"optimizer", "\"adamw\""}, {"beta2", "0.999"}, {"weight_decay", "0.01"}}},
        {"{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.8, \"nesterov\": true}}}",
         {NULL},
         {{"optimizer", "\"sgd\""}, {"lr", "0.1"}, {"momentum", "0.8"}, {"nesterov", "true"}, {"weight_decay", "0"}}},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 2, \"warmup_type\": "
         "\"linear\"}}}",
         {NULL},
         {{"schedule", "\"constant\""}, {"lr", "0.001"}, {"warmup", "0.5"}}},
        {"{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 4, \"warmup_num_steps\": "
         "1}}}",
         {"--lr", "0.02", NULL},
         {{"schedule", "\"cosine\""}, {"lr", "0.02"}, {"floor", "0.0001"}, {"warmup", "0.25"}}},
        {"{\"train_batch_size\": 6}", {NULL}, {{"batch", "6"}, {"accumulate", "1"}}},
        {"{\"train_micro_batch_size_per_gpu\": 3}", {NULL}, {{"batch", "3"}, {"accumulate", "1"}}},
        {"{\"train_batch_size\": 6, \"train_micro_batch_size_per_gpu\": 2}",
         {NULL},
         {{"batch", "2"}, {"accumulate", "3"}}},
        {"{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 5}",
         {NULL},
         {{"batch", "2"}, {"accumulate", "5"}}},
        {"{\"train_batch_size\": 6, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}",
         {NULL},
         {{"batch", "2"}, {"accumulate", "3"}}},
    };
    write_text("text.txt", 2000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[20] = {"train", "text.txt", SMALL, CONFIG, "-f", "-q"};
        int n = 12;
        if (!strstr(cases[i].file, "total_num_steps")) arguments[n++] = "--steps=4";
        for (int k = 0; cases[i].arguments[k]; k++) arguments[n++] = cases[i].arguments[k];
        write_config(cases[i].file);
        child c = child_run(NULL, NULL, arguments);
        cr_assert(c.code == 0, "%s: %s", cases[i].file, c.err);
        expect_start(cases[i].expected);
    }
}

Test(deepspeed, what_is_wrong_in_a_file_is_named_with_its_line) {
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"", "line 1: this is no JSON value"},
        {"{\n\"fp16\": {\n\"enabled\": tru}}", "line 3: this is no JSON value"},
        {"{\"fp16\": {\"enabled\": true}", "line 1: a comma or } is expected"},
        {"{\"a\": [1, 2,\n]}", "line 2: this is no JSON value"},
        {"{\"a\" 1}", "a colon is expected"},
        {"{\"a\": 01}", "a comma or } is expected"},
        {"{\"a\": \"b\nc\"}", "this string has no end"},
        {"{\"a\": \"\\x\"}", "unknown escape"},
        {"{\"a\": \"\\u12g4\"}", "four hexadecimal digits"},
        {"{\"a\": .5}", "this is no JSON value"},
        {"{\"a\": NaN}", "this is no JSON value"},
        {"{}\n{}", "line 2: nothing may follow"},
        {"\xEF\xBB\xBF{}", "line 1: a byte order mark is no JSON; save the text without it"},
        {"[1]", "the configuration must be an object"},
        {"{\"fp16\": true}", "fp16 must be an object"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": []}}", "optimizer.params must be an object"},
        {"{\n\n\"fp16\": {\"enabeld\": true}}",
         "line 3: fp16.enabeld is no key that halfstep knows; did you mean enabled?"},
        {"{\"bf16\": {\"loss_scale\": 1}}", "bf16.loss_scale is no key that halfstep knows"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"beta\": 1}}}", "optimizer.params.beta is no key"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_step\": 1}}}",
         "did you mean warmup_num_steps?"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.1, 0.2, 0.3]}}}", "betas.2 is no key"},
        {"{\"fp16\": {\"enabled\": 1}}", "fp16.enabled must be one of false|true, but is 1"},
        {"{\"fp16\": {\"enabled\": \"true\"}}", "but is \"true\""},
        {"{\"fp16\": {\"loss_scale\": true}}", "fp16.loss_scale must be a number from 0"},
        {"{\"fp16\": {\"loss_scale\": -1}}", "but is -1"},
        {"{\"fp16\": {\"loss_scale\": 1e999}}", "but is 1e999"},
        {"{\"fp16\": {\"loss_scale_window\": 0}}", "an integer from 1"},
        {"{\"fp16\": {\"min_loss_scale\": 0}}", "a number above 0"},
        {"{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 2,\n\"min_loss_scale\": 5}}",
         "line 2: fp16.min_loss_scale 5 is above the first scale, 4"},
        {"{\"fp16\": {\"initial_scale_power\": 128}}", "an integer from 0 to 127"},
        {"{\"gradient_clipping\": null}", "but is null"},
        {"{\"gradient_clipping\": {}}", "but is an object"},
        {"{\"gradient_clipping\": 1,\n\"gradient_clipping\": 1}",
         "line 2: gradient_clipping was given in line 1 already"},
        {"{\"train_batch_size\": \"auto\"}", "but is \"auto\""},
        {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "bf16.enabled and fp16.enabled exclude"},
        {"{\"fp16\": {\"enabled\": true, \"auto_cast\": true}}", "fp16.auto_cast must be false"},
        {"{\"fp16\": {\"enabled\": true, \"fp16_master_weights_and_grads\": true}}", "masters and their gradients are"},
        {"{\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}}", "masters and their gradients are"},
        {"{\"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true}}", "the optimizer's state is f32"},
        {"{\"bf16\": {\"enabled\": true, \"check_grad_overflow\": false}}", "bf16.check_grad_overflow must be true"},
        {"{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}",
         "train_batch_size 8 is not train_micro_batch_size_per_gpu 3 x gradient_accumulation_steps 2, which is 6"},
        {"{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3}",
         "train_batch_size 8 is not a multiple of train_micro_batch_size_per_gpu 3"},
        {"{\"train_batch_size\": 8, \"gradient_accumulation_steps\": 16}",
         "train_batch_size 8 is not a multiple of gradient_accumulation_steps 16"},
        {"{\"gradient_accumulation_steps\": 2}", "needs train_batch_size or train_micro_batch_size_per_gpu"},
        {"{\"train_batch_size\": 100000}", "becomes --batch, which must be an integer from 1 to 65536, not 100000"},
        {"{\"optimizer\": {\"type\": \"Lamb\"}}", "one of Adam|AdamW|SGD|RAdam, but is \"Lamb\""},
        {"{\"optimizer\": {\"params\": {\"lr\": 1}}}", "optimizer.params.lr needs optimizer.type"},
        {"{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"momentum\": 0.9}}}", "is no parameter of adamw"},
        {"{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.99]}}}", "is no parameter of sgd"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}}}", "betas has both"},
        {"{\"scheduler\": {\"type\": \"OneCycle\"}}",
         "scheduler.type must be one of WarmupLR|WarmupDecayLR|WarmupCosineLR, but is \"OneCycle\""},
        {"{\"scheduler\": {\"type\": \"WarmupDecayLR\"}}", "needs scheduler.params.total_num_steps"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\"}}", "unless scheduler.params.warmup_type says otherwise"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"log\"}}}",
         "scheduler.params.warmup_type warms up by the logarithm"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 9}}}", "is no parameter of this"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.1}}}", "warmup_min_lr must be 0"},
    };
    write_text("text.txt", 2000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].file);
        child c = RUN("train", "text.txt", SMALL, "--steps", "4", CONFIG);
        cr_expect_eq(c.code, 3, "%s: %d %s", cases[i].file, c.code, c.err);
        cr_expect(!strncmp(c.err, "halfstep: error: ds.json: line ", 31) && strstr(c.err, cases[i].words) &&
                      strchr(c.err, '\n') == c.err + c.err_size - 1,
                  "%s: %s", cases[i].file, c.err);
    }
    write_file("ds.json", "{}\0{}", 5);
    child c = RUN("train", "text.txt", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "ds.json: a byte in it is 0, which no JSON has\n"), "%s", c.err);
    char *deep = malloc(1 << 17);
    memset(deep, '[', 1 << 17);
    write_file("ds.json", deep, 1 << 17);
    free(deep);
    c = RUN("train", "text.txt", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "the configuration must be an object"), "%s", c.err);
    write_file("ds.json", "{\"a\":", 5);
    FILE *file = fopen("ds.json", "a");
    for (int i = 0; i < 100; i++) fputs("[", file);
    fclose(file);
    c = RUN("train", "text.txt", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "too many objects are inside each other"), "%s", c.err);
    cr_assert_eq(truncate("ds.json", (1 << 20) + 1), 0);
    c = RUN("train", "text.txt", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "larger than a megabyte"), "%s", c.err);
    c = RUN("train", "text.txt", "--deepspeed-config", "missing.json");
    cr_expect(c.code == 3 && strstr(c.err, "missing.json: No such file"), "%s", c.err);
    c = RUN("train", "text.txt", "--deepspeed-config", ".");
    cr_expect(c.code == 3 && strstr(c.err, ".: Is a directory"), "%s", c.err);
    cr_expect(access("text.run", F_OK) != 0);
}

// A dot in a key leads nowhere, and the empty key is not the whole text.
Test(deepspeed, keys_that_look_like_paths_are_other_keys) {
    write_text("text.txt", 2000);
    write_config("{\"fp16.enabled\": true, \"\": {\"fp16\": {\"enabled\": true}}, \"a\": {\"\": 1}}");
    child c = RUN("train", "text.txt", SMALL, "--steps", "4", CONFIG);
    cr_expect(c.code == 0 && strstr(c.err, "note: ds.json: ignored: fp16\\u002eenabled, , a\n"), "%s", c.err);
    expect_start((expectation[]){{"precision", "\"fp32\""}, {0}});
    write_config("{\"fp16\": {\"\": 1}}");
    c = RUN("train", "text.txt", SMALL, CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "line 1: fp16. is no key that halfstep knows"), "%s", c.err);
}

Test(deepspeed, a_file_and_the_command_line_that_say_the_same_exclude_each_other) {
    static const struct {
        const char *option, *value, *words;
    } cases[] = {
        {"--batch", "16", "--batch and train_batch_size in ds.json exclude each other"}, // also with its default
        {"--accumulate", "2", "--accumulate and train_batch_size in ds.json"},
        {"--precision", "amp-fp16", "--precision and fp16.enabled in ds.json"},
        {"--init-scale", "8", "--init-scale and fp16.initial_scale_power in ds.json"},
        {"--clip", "2", "--clip and gradient_clipping in ds.json"},
        {"--lr", "2", "--lr and optimizer.params.lr in ds.json"},
        {"--optimizer", "sgd", "--optimizer and optimizer.type in ds.json"},
        {"--loss-scale", "8", "--init-scale is for a loss scale that changes"},
        {"--time", "3s", "exclude each other"},
    };
    write_text("text.txt", 2000);
    write_config("{\"train_batch_size\": 8, \"gradient_clipping\": 0.5,\n"
                 "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 12},\n"
                 "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-2}},\n"
                 "\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 30,\n"
                 "  \"warmup_num_steps\": 0}}}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = RUN("train", "text.txt", SMALL, CONFIG, cases[i].option, cases[i].value);
        cr_expect(c.code == 2 && strstr(c.err, cases[i].words), "%s: %d %s", cases[i].option, c.code, c.err);
    }
    child c = RUN("train", "text.txt", "--resume", CONFIG);
    cr_expect(c.code == 2 && strstr(c.err, "leave --deepspeed-config out"), "%s", c.err);
    write_config("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"linear\"}}}");
    c = RUN("train", "text.txt", CONFIG);
    cr_expect(c.code == 2 && strstr(c.err, "1000 steps of warm-up are a share of a run whose --steps have to be given"),
              "%s", c.err);
}

// JSON may write any character as its number: keys and names are what they say, and a dot so written is still none of
// ours. A quote and a backslash stay as they stand.
Test(deepspeed, escapes_are_the_characters_that_they_stand_for) {
    write_text("text.txt", 2000);
    write_config(
        "{\"bf\\u00316\": {\"\\u0065n\\u0061bled\": true}, \"optimizer\": {\"t\\u0079pe\": \"\\u0041dam\\u0057\","
        " \"params\": {\"lr\": 0.002}}, \"a\\u002Eb\\/c\\\"\\\\u0041\\u00e9\": 1}");
    child c = RUN("train", "text.txt", SMALL, "--steps", "4", CONFIG);
    cr_expect(c.code == 0 && strstr(c.err, "note: ds.json: ignored: a\\u002eb/c\\\"\\\\u0041\\u00e9\n"), "%s", c.err);
    expect_start((expectation[]){
        {"precision", "\"deepspeed-bf16\""}, {"optimizer", "\"adamw\""}, {"lr", "0.002"}, {NULL, NULL}});
    write_config("{\"fp16\": {\"en\\u0062bled\": true}}");
    c = RUN("train", "text.txt", SMALL, "--force", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "fp16.enbbled is no key that halfstep knows"), "%s", c.err);
    char key[400];
    snprintf(key, sizeof key, "{\"%0300d\": 1}", 0);
    write_config(key);
    c = RUN("train", "text.txt", SMALL, "--force", CONFIG);
    cr_expect(c.code == 3 && strstr(c.err, "this key is too long"), "%s", c.err);
}
