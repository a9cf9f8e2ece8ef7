// story.h: a text with structure, and a small run that learns it.
#ifndef TESTS_TRAIN_STORY_H
#define TESTS_TRAIN_STORY_H

#include <criterion/criterion.h>
#include <stdio.h>
#include "train/halfstep.h"

// Numbered lines of words.
static inline hst_corpus *story(hst_context *ctx, int lines) {
    static const char *const words[] = {"the", "small", "unit", "reads", "a", "line", "and", "writes", "it", "again"};
    hst_corpus *corpus = hst_corpus_new(ctx);
    for (int i = 0; i < lines; i++) {
        char line[128];
        int n = snprintf(line, sizeof line, "%d %s %s %s.\n", i, words[i % 10], words[(i * 7 + 3) % 10],
                         words[(i * 3 + 1) % 10]);
        hst_corpus_add_bytes(corpus, line, (size_t)n);
    }
    return corpus;
}

static inline hst_context *open_context(int threads) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = threads});
    cr_assert(ctx);
    return ctx;
}

static inline hst_train_options small(int64_t steps) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = 40;
    o.layers = 2;
    o.batch = 5;
    o.length = 13;
    o.steps = steps;
    o.dropout = 0.1;
    return o;
}

#endif
