// stream.c: a corpus as batches. Lane b of B reads the text (n symbols, taken as a ring) from offset + b * lane on:
//
//     lane  = floor((n - 1) / B)           symbols that each lane may read
//     batch = floor(lane / L)              batches an epoch
//     ids[t][b]     = text[(offset + b * lane + i * L + t) mod n]        batch i of the epoch, t < L
//     targets[t][b] = text[(offset + b * lane + i * L + t + 1) mod n]
//
// B * lane <= n - 1, so that no symbol is an input twice in an epoch. Nothing is remembered but the position: a batch
// is a function of (seed, end, position), and seeking is an assignment.
#include <inttypes.h>
#include <stdio.h>
#include "data/data.h"
#include "tensor/context.h"

struct hst_stream {
    const hst_corpus *corpus;
    hst_context *ctx;
    int64_t batch, length;
    int64_t size, lane, epoch_batches;
    int64_t position; // batches delivered
    int64_t end;      // batches of the whole run; 0: unknown
    uint64_t seed;
};

// The text is too small: says how small, and which batch or length would do.
static void too_small(hst_context *ctx, int64_t size, int64_t batch, int64_t length) {
    int64_t need, most = size - 1; // predictions that the text has
    char needs[32] = "more than 2^63", fits[80] = "no batch fits";
    if (!__builtin_mul_overflow(batch, length, &need) && need < INT64_MAX)
        snprintf(needs, sizeof needs, "at least %" PRId64, need + 1);
    if (most >= batch && most >= length)
        snprintf(fits, sizeof fits, "length %" PRId64 " or batch %" PRId64 " would fit", most / batch, most / length);
    else if (most >= batch)
        snprintf(fits, sizeof fits, "length %" PRId64 " would fit", most / batch);
    else if (most >= length)
        snprintf(fits, sizeof fits, "batch %" PRId64 " would fit", most / length);
    else if (most >= 1)
        snprintf(fits, sizeof fits, "batch 1 x length %" PRId64 " would fit", most);
    hst_fail(ctx, HST_ERROR_VALUE,
             "the text has %" PRId64 " symbols: batch %" PRId64 " x length %" PRId64 " needs %s; %s", size, batch,
             length, needs, fits);
}

hst_stream *hst_stream_new(const hst_corpus *corpus, int64_t batch, int64_t length, uint64_t seed) {
    hst_context *ctx = hst_corpus_context(corpus);
    if (hst_get_status(ctx) != HST_OK) return NULL;
    if (batch < 1 || length < 1) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_stream_new: batch %" PRId64 ", length %" PRId64 "; both must be at least 1",
                 batch, length);
        return NULL;
    }
    int64_t size = hst_corpus_symbols(corpus).count, lane = size > 0 ? (size - 1) / batch : 0;
    if (lane < length) {
        too_small(ctx, size, batch, length);
        return NULL;
    }
    hst_stream *stream = hst_workspace(ctx, sizeof *stream);
    if (stream) *stream = (hst_stream){corpus, ctx, batch, length, size, lane, lane / length, 0, 0, seed};
    return stream;
}

void hst_stream_free(hst_stream *stream) {
    if (stream) hst_workspace_free(stream->ctx, stream);
}

int64_t hst_stream_epoch_batches(const hst_stream *stream) {
    if (!stream) return 0;
    return stream->epoch_batches;
}
int64_t hst_stream_position(const hst_stream *stream) {
    if (!stream) return 0;
    return stream->position;
}

// Sums of two positions do not overflow.
static bool check_position(const hst_stream *stream, const char *who, int64_t position) {
    if (position >= 0 && position <= INT64_MAX / 4) return true;
    hst_fail(stream->ctx, HST_ERROR_VALUE, "%s: position %" PRId64 "; it must be from 0 to 2^61 - 1", who, position);
    return false;
}

void hst_stream_seek(hst_stream *stream, int64_t position) {
    if (stream && check_position(stream, "hst_stream_seek", position)) stream->position = position;
}

void hst_stream_set_end(hst_stream *stream, int64_t position) {
    if (stream && check_position(stream, "hst_stream_set_end", position)) stream->end = position;
}

// Batches that the first epoch lacks, so that the last one is whole.
static int64_t missing_batches(const hst_stream *stream) {
    int64_t over = stream->end % stream->epoch_batches;
    return over > 0 ? stream->epoch_batches - over : 0;
}

// Where lane 0 begins in an epoch. In the run's last one: where the last lane's last target is the last symbol. Else 64
// random bits modulo n, whose bias, n / 2^64, nobody will see. No operation of a training step has this number, so that
// the words are nobody else's.
static int64_t offset_of(const hst_stream *stream, int64_t epoch) {
    if (stream->end > 0 && epoch == (stream->end - 1) / stream->epoch_batches)
        return stream->size - 1 - (stream->batch - 1) * stream->lane - stream->epoch_batches * stream->length;
    uint32_t words[4];
    hst_philox((hst_random_key){stream->seed, (uint64_t)epoch, UINT32_MAX}, 0, words);
    return (int64_t)(((uint64_t)words[1] << 32 | words[0]) % (uint64_t)stream->size);
}

// Whether ids or targets of hst_stream_next is as it must be; false after recording what is wrong.
static bool check_target(const hst_stream *stream, hst_tensor *t, const char *name, hst_dtype dtype) {
    char found[64];
    if (!t) {
        hst_fail(stream->ctx, HST_ERROR_VALUE, "hst_stream_next: %s is NULL", name);
    } else if (t->ctx != stream->ctx) {
        hst_fail(stream->ctx, HST_ERROR_STATE, "hst_stream_next: %s is of another context than the stream", name);
        hst_fail(t->ctx, HST_ERROR_STATE, "hst_stream_next: the stream is of another context than %s", name);
    } else if (t->dtype != dtype || t->rank != 2 || t->shape[0] != stream->length || t->shape[1] != stream->batch) {
        hst_fail(stream->ctx, t->dtype != dtype ? HST_ERROR_DTYPE : HST_ERROR_SHAPE,
                 "hst_stream_next: %s is %s; %s (%" PRId64 ", %" PRId64 ") is expected", name, hst_describe(t, found),
                 hst_dtype_name(dtype), stream->length, stream->batch);
    } else {
        return true;
    }
    return false;
}

// Symbol `at` of the text, to place i.
static void put(void *to, int64_t i, hst_symbols text, int64_t at) {
    if (text.dtype == HST_U8)
        ((uint8_t *)to)[i] = ((const uint8_t *)text.data)[at];
    else
        ((int32_t *)to)[i] = ((const int32_t *)text.data)[at];
}

hst_status hst_stream_next(hst_stream *stream, hst_tensor *ids, hst_tensor *targets, bool *fresh) {
    if (!stream) return HST_ERROR_STATE;
    if (hst_get_status(stream->ctx) != HST_OK) return hst_get_status(stream->ctx);
    int64_t n = stream->size, place = stream->position + missing_batches(stream), epoch = place / stream->epoch_batches;
    int64_t first = place % stream->epoch_batches * stream->length;
    hst_symbols text = hst_corpus_symbols(stream->corpus);
    if (text.count != n)
        return hst_fail(stream->ctx, HST_ERROR_STATE, "hst_stream_next: the text changed after hst_stream_new");
    if (!check_target(stream, ids, "ids", text.dtype) || !check_target(stream, targets, "targets", text.dtype))
        return hst_get_status(stream->ctx);
    void *to_ids = hst_mutable_data(ids), *to_targets = hst_mutable_data(targets);
    if (!to_ids || !to_targets) return hst_get_status(stream->ctx);
    for (int64_t b = 0, start = offset_of(stream, epoch) + first; b < stream->batch; b++, start += stream->lane) {
        int64_t at = start % n;
        for (int64_t t = 0; t < stream->length; t++) {
            put(to_ids, t * stream->batch + b, text, at);
            at = at + 1 < n ? at + 1 : 0;
            put(to_targets, t * stream->batch + b, text, at);
        }
    }
    if (fresh) *fresh = first == 0 || stream->position == 0;
    stream->position++;
    return HST_OK;
}
