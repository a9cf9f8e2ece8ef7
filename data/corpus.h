// corpus.h: the insides of a corpus, for this folder.
#ifndef HST_CORPUS_H
#define HST_CORPUS_H

#include "data/data.h"

struct hst_corpus {
    hst_context *ctx;
    uint8_t *bytes;
    size_t size, capacity;
    int left_out;                   // of the folder being added: files that are not text
    const hst_tokenizer *tokenizer; // what the symbols stand for; NULL: not encoded, they are the bytes
    int32_t *symbols;               // NULL: they are the bytes
    int64_t symbol_count;
};

#endif
