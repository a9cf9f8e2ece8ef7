// data.h: text in, batches out.
//
//     hst_corpus *text = hst_corpus_new(ctx);
//     hst_corpus_add(text, "book.txt");                     // a file, a folder, or "-" for standard input
//     hst_corpus *held_out = hst_corpus_split(text, 0.1);   // the last tenth leaves text
//     hst_stream *stream = hst_stream_new(text, 16, 64, seed);
//     hst_stream_next(stream, ids, targets, &fresh);        // (L, B) u8 each, lanes continue from call to call
#ifndef HST_DATA_H
#define HST_DATA_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes of text: the byte vocabulary needs no other form, V = 256.
typedef struct hst_corpus hst_corpus;

HST_API hst_corpus *hst_corpus_new(hst_context *ctx); // empty; free with hst_corpus_free; NULL after an error
HST_API void hst_corpus_free(hst_corpus *corpus);     // NULL is accepted

// Appends a file; the files of a folder and of the folders in it, in the byte order of their paths, without hidden
// ones, the folders of runs (with a last.safetensors) and files that hold a NUL byte; or, for "-", standard input. A
// UTF-8 byte-order mark at the start of a file is skipped. HST_ERROR_IO says which path and why; an empty file or
// folder is HST_ERROR_FORMAT.
HST_API hst_status hst_corpus_add(hst_corpus *corpus, const char *path);
HST_API hst_status hst_corpus_add_bytes(hst_corpus *corpus, const void *bytes, size_t count); // copied

HST_API const uint8_t *hst_corpus_bytes(const hst_corpus *corpus); // owned by the corpus
HST_API int64_t hst_corpus_size(const hst_corpus *corpus);
HST_API hst_context *hst_corpus_context(const hst_corpus *corpus);

// Moves the last `share` (0 <= share < 1) of the bytes into a new corpus: floor(size * (1 - share)) stay.
HST_API hst_corpus *hst_corpus_split(hst_corpus *corpus, double share);

// B lanes through one corpus. Lane b starts at offset + b * lane; lane = floor((size - 1) / B), the offset is drawn
// anew each epoch so that lanes cut the text at other places; the text is taken as a ring. An epoch is floor(lane / L)
// batches.
typedef struct hst_stream hst_stream;

// HST_ERROR_VALUE where the text has fewer than B * L + 1 bytes, naming the batch or length that would fit. The corpus
// must outlive the stream.
HST_API hst_stream *hst_stream_new(const hst_corpus *corpus, int64_t batch, int64_t length, uint64_t seed);
HST_API void hst_stream_free(hst_stream *stream); // NULL is accepted

// The next (L, B) inputs and, one byte later, targets; both u8, written in place. *fresh, if not NULL, is true for the
// first batch of an epoch: the lanes do not continue, the state has to be zero.
HST_API hst_status hst_stream_next(hst_stream *stream, hst_tensor *ids, hst_tensor *targets, bool *fresh);

HST_API int64_t hst_stream_epoch_batches(const hst_stream *stream);
HST_API int64_t hst_stream_position(const hst_stream *stream); // batches delivered since the start
HST_API void hst_stream_seek(hst_stream *stream,
                             int64_t position); // the next batch is the same as after that many calls

#ifdef __cplusplus
}
#endif
#endif
