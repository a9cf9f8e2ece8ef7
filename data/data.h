// data.h: text in, batches out.
//
//     hst_corpus *text = hst_corpus_new(ctx);
//     hst_corpus_add(text, "book.txt");                     // a file, a folder, or "-" for standard input
//     hst_corpus *held_out = hst_corpus_split(text, 0.1);   // the last tenth leaves text
//     hst_stream *stream = hst_stream_new(text, 16, 64, seed);
//     hst_stream_next(stream, ids, targets, &fresh);        // (L, B) u8 each, lanes continue from call to call
//
// Symbols are bytes unless a text is encoded with a tokenizer of characters.
#ifndef HST_DATA_H
#define HST_DATA_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// A text: its bytes, and once it is encoded its symbols. Bytes are symbols as they are, V = 256.
typedef struct hst_corpus hst_corpus;

HST_API hst_corpus *hst_corpus_new(hst_context *ctx); // empty; free with hst_corpus_free; NULL after an error
HST_API void hst_corpus_free(hst_corpus *corpus);     // NULL is accepted

// Appends a file; the files of a folder and of the folders in it, in the byte order of their paths, without hidden
// ones, the folders of runs (with a last.safetensors or their log) and files that hold a NUL byte; or, for "-",
// standard input. A UTF-8 byte-order mark at the start of a file is skipped. HST_ERROR_IO says which path and why; an
// empty file or folder is HST_ERROR_FORMAT.
HST_API hst_status hst_corpus_add(hst_corpus *corpus, const char *path);
HST_API hst_status hst_corpus_add_bytes(hst_corpus *corpus, const void *bytes, size_t count); // copied

HST_API const uint8_t *hst_corpus_bytes(const hst_corpus *corpus); // owned by the corpus
HST_API int64_t hst_corpus_size(const hst_corpus *corpus);
HST_API hst_context *hst_corpus_context(const hst_corpus *corpus);
HST_API void hst_corpus_sha256(const hst_corpus *corpus, char text[65]); // of the bytes, as hexadecimal digits

// Moves the last `share` (0 <= share < 1) of the bytes into a new corpus: floor(size * (1 - share)) stay, or up to
// three fewer, so that no UTF-8 character is cut. Not after hst_corpus_encode.
HST_API hst_corpus *hst_corpus_split(hst_corpus *corpus, double share);

// ---- tokenizers: what a model's symbols stand for ----

typedef struct hst_tokenizer hst_tokenizer;

HST_API hst_tokenizer *hst_tokenizer_bytes(hst_context *ctx); // V = 256
// The different characters (code points) of a text in UTF-8, in the order of their numbers. HST_ERROR_FORMAT for a text
// that is not UTF-8, that has a NUL, or more than 65,536 of them.
HST_API hst_tokenizer *hst_tokenizer_characters(const hst_corpus *text);
// A tokenizer from what hst_tokenizer_text gave; NULL: bytes. Models keep that text in their files.
HST_API hst_tokenizer *hst_tokenizer_read(hst_context *ctx, const char *text);
HST_API void hst_tokenizer_free(hst_tokenizer *tokenizer); // NULL is accepted

HST_API const char *hst_tokenizer_text(const hst_tokenizer *tokenizer); // owned by the tokenizer; NULL for bytes
HST_API int64_t hst_tokenizer_size(const hst_tokenizer *tokenizer);     // V
HST_API const char *hst_tokenizer_unit(const hst_tokenizer *tokenizer); // "byte" or "character", for messages
HST_API bool hst_tokenizer_equal(const hst_tokenizer *a, const hst_tokenizer *b); // NULL: bytes
// Whether there are as many symbols as in the vocabulary of a model, whose file's path the error begins with
// (HST_ERROR_FORMAT).
HST_API bool hst_tokenizer_fits(const hst_tokenizer *tokenizer, const char *path, int64_t vocabulary);
// The bytes of a symbol, *count of them (0 for a number that is none), owned by the tokenizer.
HST_API const char *hst_tokenizer_decode(const hst_tokenizer *tokenizer, int64_t symbol, size_t *count);
HST_API int64_t hst_tokenizer_start(const hst_tokenizer *tokenizer); // newline where it is a symbol, else 0

// Makes symbols of the text, once; the tokenizer must outlive it. Characters without a symbol are HST_ERROR_FORMAT,
// naming them, or are left out with a warning if skip_unknown; their bytes then leave the text too.
HST_API hst_status hst_corpus_encode(hst_corpus *corpus, const hst_tokenizer *tokenizer, bool skip_unknown);
HST_API const hst_tokenizer *hst_corpus_tokenizer(const hst_corpus *corpus); // NULL before
HST_API hst_symbols hst_corpus_symbols(const hst_corpus *corpus);            // u8 bytes or i32, owned by the corpus

// ---- streams ----

// B lanes through the symbols of one corpus, n of them. Lane b starts at offset + b * lane; lane = floor((n - 1) / B),
// the offset is drawn anew each epoch, but that of a known last one, so that lanes cut the text at other places; the
// text is taken as a ring. An epoch is floor(lane / L) batches.
typedef struct hst_stream hst_stream;

// HST_ERROR_VALUE where the text has fewer than B * L + 1 symbols, naming the batch or length that would fit. The
// corpus must outlive the stream.
HST_API hst_stream *hst_stream_new(const hst_corpus *corpus, int64_t batch, int64_t length, uint64_t seed);
HST_API void hst_stream_free(hst_stream *stream); // NULL is accepted

// The next (L, B) inputs and, one symbol later, targets; both of hst_corpus_symbols' dtype, written in place. *fresh,
// if not NULL, is true for the first batch of an epoch: the lanes do not continue, the state has to be zero.
HST_API hst_status hst_stream_next(hst_stream *stream, hst_tensor *ids, hst_tensor *targets, bool *fresh);

HST_API int64_t hst_stream_epoch_batches(const hst_stream *stream);
HST_API int64_t hst_stream_position(const hst_stream *stream); // batches delivered since the start
// The next batch is the same as after that many calls, at most 2^61 - 1.
HST_API void hst_stream_seek(hst_stream *stream, int64_t position);
// Says after how many batches the run ends (0: unknown). Epochs are then counted back from there: the first may be cut
// short instead of the last, which ends where the text does. To be said before the first batch: it moves all lanes.
HST_API void hst_stream_set_end(hst_stream *stream, int64_t position);

#ifdef __cplusplus
}
#endif
#endif
