// pool.c: all memory of a context. Blocks come in size classes and go back to their class's free list, so that a
// program whose shapes repeat stops asking the system after a few steps. Statistics by category.
#include <stdlib.h>
#include <string.h>
#include "tensor/context.h"

enum { ALIGNMENT = 64, CLASSES = 8 * 48 };

// Lies directly in front of each block; new_block places it so that the block is aligned.
typedef struct block {
    struct block *next_free;
    struct block *next_owned; // every block of the pool, for closing
    void *raw;                // as the allocator gave it
    size_t raw_bytes, bytes;
    int size_class;
    hst_category category;
} block;

_Static_assert(sizeof(block) <= ALIGNMENT, "the header must fit in front of an aligned block");

struct hst_pool {
    hst_options options;
    block *free[CLASSES], *owned;
    hst_memory stats;
};

// Classes grow by an eighth of a power of two: 64, 72, 80, ... 120, 128, 144, ... So at most 1/8 of a block is unused.
static int class_of(size_t bytes, size_t *rounded) {
    if (bytes < ALIGNMENT) bytes = ALIGNMENT;
    int power = 63 - __builtin_clzll(bytes);
    size_t step = (size_t)1 << (power - 3), eighths = (bytes - ((size_t)1 << power) + step - 1) / step;
    *rounded = ((size_t)1 << power) + eighths * step;
    return (power - 6) * 8 + (int)eighths; // eight eighths are the next power's first class
}

static void *system_allocate(const hst_options *o, size_t bytes) {
    return o->allocate ? o->allocate(bytes, o->user) : malloc(bytes);
}
static void system_free(const hst_options *o, void *memory, size_t bytes) {
    if (o->allocate)
        o->deallocate(memory, bytes, o->user);
    else
        free(memory);
}

hst_pool *hst_pool_open(const hst_options *options) {
    hst_pool *pool = system_allocate(options, sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->options = *options;
    return pool;
}

void hst_pool_close(hst_pool *pool) {
    if (!pool) return;
    hst_options options = pool->options;
    for (block *b = pool->owned, *next; b; b = next) {
        next = b->next_owned;
        system_free(&options, b->raw, b->raw_bytes);
    }
    system_free(&options, pool, sizeof *pool);
}

static void count(hst_pool *pool, const block *b, int64_t sign) {
    hst_memory *s = &pool->stats;
    int64_t *current = &s->current[b->category], *peak = &s->peak[b->category], bytes = sign * (int64_t)b->bytes;
    *current += bytes;
    s->current_total += bytes;
    if (*current > *peak) *peak = *current;
    if (s->current_total > s->peak_total) s->peak_total = s->current_total;
}

static block *new_block(hst_pool *pool, size_t bytes, int size_class) {
    size_t raw_bytes = bytes + 2 * ALIGNMENT;
    char *raw = system_allocate(&pool->options, raw_bytes);
    if (!raw) return NULL;
    uintptr_t data = ((uintptr_t)raw + sizeof(block) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    block *b = (block *)data - 1;
    *b = (block){
        .next_owned = pool->owned, .raw = raw, .raw_bytes = raw_bytes, .bytes = bytes, .size_class = size_class};
    pool->owned = b;
    pool->stats.system_bytes += (int64_t)raw_bytes;
    pool->stats.system_allocations++;
    return b;
}

void *hst_pool_allocate(hst_pool *pool, size_t bytes, hst_category category) {
    if (bytes > (size_t)1 << 52) return NULL;
    size_t rounded;
    int size_class = class_of(bytes, &rounded);
    block *b = pool->free[size_class];
    if (b)
        pool->free[size_class] = b->next_free;
    else if (!(b = new_block(pool, rounded, size_class)))
        return NULL;
    b->category = category;
    count(pool, b, 1);
    return b + 1;
}

void hst_pool_free(hst_pool *pool, void *memory) {
    if (!memory) return;
    block *b = (block *)memory - 1;
    count(pool, b, -1);
    b->next_free = pool->free[b->size_class];
    pool->free[b->size_class] = b;
}

void hst_pool_stats(const hst_pool *pool, hst_memory *stats) { *stats = pool->stats; }
