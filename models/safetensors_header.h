// safetensors_header.h: the header of a safetensors file, for the reader and the writer beside it.
#ifndef HST_SAFETENSORS_HEADER_H
#define HST_SAFETENSORS_HEADER_H

#include "models/json.h"
#include "models/safetensors.h"
#include "models/sha256.h"

enum { HST_HEADER_PREFIX = 8, HST_HEADER_MOST = 100000000 }; // bytes before it, and in it

typedef struct hst_record {
    hst_entry entry;
    uint64_t begin, end;
} hst_record; // offsets into the data
typedef struct hst_pair {
    const char *key, *value;
} hst_pair;

struct hst_safetensors {
    hst_context *ctx;
    const char *path; // for messages while opening
    char *header;     // decoded in place: names and metadata are strings in it
    char *data;
    hst_record *records;        // in the order of their data
    const hst_record **by_name; // the same, to be searched
    hst_pair *metadata;         // by key
    int count, pairs;
};

// Records "path: tensor 'name' what", or "path: what" (tensor NULL): one line, whatever the names hold. Returns false.
bool hst_defect(const hst_safetensors *file, const char *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The `size` bytes of file->header, JSON, to records and pairs; decoded in place.
bool hst_header_parse(hst_safetensors *file, size_t size);
// Names are new, and the data, `data_bytes` long, is covered once and to its end. Sorts records by place, pairs by key,
// and makes by_name.
bool hst_header_check(hst_safetensors *file, uint64_t data_bytes);

// A dtype's place in the reference writer's order.
int hst_header_order(hst_dtype dtype);

// The JSON into `out`; the number of data bytes that it describes. Loaders of other projects want a "format" they know.
// The sum is HST_NO_SUM.
uint64_t hst_header_put(hst_json_writer *out, const hst_entry *entries, int count, const char *const *metadata,
                        int pairs);

// The format has no sum, so that a bit lost on a disk would be a wrong weight: ours is SHA-256 over the data and then
// the other metadata, keys and values with their NUL, in the order of the keys. `hash` has seen the data.
#define HST_SUM_KEY "halfstep.sha256"
#define HST_NO_SUM "0000000000000000000000000000000000000000000000000000000000000000"
const char *hst_header_sum(const hst_safetensors *file, hst_sha256 *hash, char text[HST_SHA256_TEXT]);

#endif
