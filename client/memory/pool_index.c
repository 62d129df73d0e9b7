#include "client/memory/pool_index.h"

#include <search.h>
#include <stdlib.h>
#include <utlist.h>

#define HASH_NONFATAL_OOM 1 /* an element without memory has no hh.tbl */
#include <uthash.h>

#include "client/memory/pool_blocks.h"

/* Blocks that were freed on one stream. */
struct pool_stream {
    struct stream_ctrl *ctrl;
    void *by_size;              /* tsearch(3): all of them, by pool and size */
    struct pool_block *waiting; /* those that are not ready, in the order of their places */
    uint32_t n;
    struct pool_stream *prev, *next; /* index->waiting, if it has such */
    UT_hash_handle hh;
};

/* --- by pool and size --- */

static int compare_numbers(uint64_t x, uint64_t y)
{
    return x < y ? -1 : x > y;
}

/* Of equals, what was freed longest ago is the first. */
static int compare_blocks(const void *a, const void *b)
{
    const struct pool_block *x = a, *y = b;
    int order = compare_numbers((uintptr_t)x->pool, (uintptr_t)y->pool);

    if (order == 0)
        order = compare_numbers(x->memory->mapped.size, y->memory->mapped.size);
    return order != 0 ? order : compare_numbers(x->number, y->number);
}

struct fit {
    const struct memory_pool *pool;
    uint64_t bytes;
    struct pool_block *best;
};

/* The key of a search that finds nothing equal, and sees all nodes on its way: the best of them. */
static int compare_fit(const void *key, const void *node)
{
    struct fit *f = (struct fit *)(uintptr_t)key;
    struct pool_block *b = (struct pool_block *)(uintptr_t)node;
    int order = compare_numbers((uintptr_t)b->pool, (uintptr_t)f->pool);

    if (order == 0)
        order = compare_numbers(b->memory->mapped.size, f->bytes);
    if (order < 0)
        return 1;
    f->best = b;
    return -1;
}

static struct pool_block *find_fit(void *const *tree, const struct memory_pool *pool,
                                   uint64_t bytes)
{
    struct fit f = {.pool = pool, .bytes = bytes};

    tfind(&f, tree, compare_fit);
    return f.best && f.best->pool == pool ? f.best : NULL;
}

/* --- streams --- */

static struct pool_stream *find_stream(const struct pool_index *index,
                                       const struct stream_ctrl *ctrl)
{
    struct pool_stream *s;

    HASH_FIND_PTR(index->streams, &ctrl, s);
    return s;
}

static struct pool_stream *add_stream(struct pool_index *index, struct stream_ctrl *ctrl)
{
    struct pool_stream *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->ctrl = ctrl;
    HASH_ADD_PTR(index->streams, ctrl, s);
    if (s->hh.tbl)
        return s;
    free(s);
    return NULL;
}

static void free_if_empty(struct pool_index *index, struct pool_stream *s)
{
    if (s->n > 0)
        return;
    HASH_DEL(index->streams, s);
    free(s);
}

static void begin_waiting(struct pool_index *index, struct pool_stream *s, struct pool_block *b)
{
    if (!s->waiting) {
        DL_APPEND(index->waiting, s);
        index->n_waiting++;
    }
    DL_APPEND2(s->waiting, b, stream_prev, stream_next);
    DL_APPEND(b->pool->waiting, b);
}

static void end_waiting(struct pool_index *index, struct pool_stream *s, struct pool_block *b)
{
    DL_DELETE2(s->waiting, b, stream_prev, stream_next);
    DL_DELETE(b->pool->waiting, b);
    if (!s->waiting) {
        DL_DELETE(index->waiting, s);
        index->n_waiting--;
    }
}

/* --- passing --- */

/* False: it waits still. Without memory it does, too. */
static bool note_passed(struct pool_index *index, struct pool_stream *s, struct pool_block *b)
{
    struct memory_pool *pool = b->pool;

    if (!point_passed(&b->freed) || !tsearch(b, &pool->by_size, compare_blocks))
        return false;
    end_waiting(index, s, b);
    b->ready = true;
    DL_APPEND(pool->ready, b);
    if (!pool->has_more) {
        pool->has_more = true;
        DL_APPEND(index->has_more, pool);
    }
    return true;
}

void pool_index_look(struct pool_index *index, uint32_t streams)
{
    struct pool_stream *s;

    for (uint32_t n = index->n_waiting < streams ? index->n_waiting : streams; n > 0; n--) {
        s = index->waiting;
        while (s->waiting && note_passed(index, s, s->waiting))
            ;
        if (s->waiting) {
            DL_DELETE(index->waiting, s);
            DL_APPEND(index->waiting, s);
        }
    }
}

struct memory_pool *pool_index_next(struct pool_index *index)
{
    struct memory_pool *pool = index->has_more;

    if (pool)
        pool_index_forget(index, pool);
    return pool;
}

void pool_index_forget(struct pool_index *index, struct memory_pool *pool)
{
    if (pool->has_more)
        DL_DELETE(index->has_more, pool);
    pool->has_more = false;
}

/* --- blocks --- */

bool pool_index_add(struct pool_index *index, struct pool_block *b)
{
    struct pool_stream *s = find_stream(index, b->freed.ctrl);

    if (!s)
        s = add_stream(index, b->freed.ctrl);
    if (!s)
        return false;
    b->number = ++index->freed;
    if (!tsearch(b, &s->by_size, compare_blocks)) {
        free_if_empty(index, s);
        return false;
    }
    s->n++;
    b->stream = s;
    b->ready = false;
    begin_waiting(index, s, b);
    return true;
}

void pool_index_remove(struct pool_index *index, struct pool_block *b)
{
    struct pool_stream *s = b->stream;

    tdelete(b, &s->by_size, compare_blocks);
    s->n--;
    if (b->ready) {
        tdelete(b, &b->pool->by_size, compare_blocks);
        DL_DELETE(b->pool->ready, b);
    } else {
        end_waiting(index, s, b);
    }
    b->stream = NULL;
    free_if_empty(index, s);
}

struct pool_block *pool_index_find(struct pool_index *index, struct memory_pool *pool,
                                   const struct stream_ctrl *ctrl, uint64_t bytes, bool any)
{
    struct pool_stream *s = find_stream(index, ctrl);
    struct pool_block *own = s ? find_fit(&s->by_size, pool, bytes) : NULL;
    struct pool_block *ready = any ? find_fit(&pool->by_size, pool, bytes) : NULL;

    if (!own || !ready)
        return own ? own : ready;
    return compare_blocks(own, ready) <= 0 ? own : ready;
}

struct pool_block *pool_index_any(const struct memory_pool *pool)
{
    return pool->ready ? pool->ready : pool->waiting;
}
