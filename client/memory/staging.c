#define HASH_NONFATAL_OOM 1 /* an element without memory has no hh.tbl */
#include "client/memory/staging.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"

/*
 * So much is kept for coming copies, or a single buffer that is larger. What is in flight may be
 * more: as much as the streams hold tasks for.
 */
#define STAGING_KEPT ((size_t)64 << 20)

/* Of a new buffer, at least; and where each source begins. */
#define SHARED_SIZE  ((size_t)16 << 10)
#define SHARED_ALIGN ((size_t)64)

#define LOOKS 16u /* at buffers, in one call */

/* The stream that it was for has passed the copy. */
static bool is_idle(const struct staging *b)
{
    return atomic_load_explicit(&b->ctrl->done, memory_order_acquire) >= b->position;
}

/* Caller holds staging_lock. */
static void remove_buffer(struct session *session, struct staging *b)
{
    assert(session->staging_bytes >= b->memory.mapped.size);
    DL_DELETE(session->staging, b);
    session->staging_bytes -= b->memory.mapped.size;
    if (b->hh.tbl)
        HASH_DEL(session->staging_open, b);
    b->hh.tbl = NULL;
}

/* Caller holds staging_lock. Of the buffers of a stream, the one used last has the room. */
static void open_buffer(struct session *session, struct staging *b)
{
    struct staging *before;

    HASH_FIND_PTR(session->staging_open, &b->ctrl, before);
    if (before) {
        HASH_DEL(session->staging_open, before);
        before->hh.tbl = NULL;
    }
    HASH_ADD_PTR(session->staging_open, ctrl, b);
}

void staging_add(struct session *session, struct staging *b)
{
    pthread_mutex_lock(&session->staging_lock);
    DL_APPEND(session->staging, b);
    session->staging_bytes += b->memory.mapped.size;
    if (b->used < b->memory.mapped.size)
        open_buffer(session, b);
    pthread_mutex_unlock(&session->staging_lock);
}

/* Caller holds staging_lock. Others are looked at first next time. */
static void move_behind(struct session *session, struct staging *b)
{
    DL_DELETE(session->staging, b);
    DL_APPEND(session->staging, b);
}

void staging_trim(struct session *session, const char *function, size_t bytes)
{
    struct staging *b, *next, *freed = NULL;
    unsigned looks = LOOKS;

    pthread_mutex_lock(&session->staging_lock);
    if (bytes == 0)
        DL_COUNT(session->staging, b, looks);
    for (; looks > 0 && session->staging_bytes > bytes && (b = session->staging); looks--)
        if (is_idle(b)) {
            remove_buffer(session, b);
            LL_PREPEND(freed, b);
        } else {
            move_behind(session, b);
        }
    pthread_mutex_unlock(&session->staging_lock);
    LL_FOREACH_SAFE (freed, b, next) {
        memory_free_remote(session, function, b->memory.remote);
        memory_unmap(&b->memory);
        free(b);
    }
}

/* `count` bytes of it become used, if it has them. */
static bool use_buffer(struct staging *b, size_t count)
{
    if (b->memory.mapped.size - b->used < count)
        return false;
    b->at = b->used;
    b->used += (count + SHARED_ALIGN - 1) & ~(SHARED_ALIGN - 1);
    if (b->used > b->memory.mapped.size)
        b->used = b->memory.mapped.size;
    return true;
}

/* Caller holds staging_lock. */
static struct staging *find_idle(struct session *session, size_t count)
{
    struct staging *b;

    for (unsigned i = 0; i < LOOKS && (b = session->staging); i++) {
        if (is_idle(b)) {
            b->used = 0;
            if (use_buffer(b, count))
                return b;
        }
        move_behind(session, b);
    }
    return NULL;
}

static struct staging *find_buffer(struct session *session, struct stream_ctrl *ctrl, size_t count)
{
    struct staging *b;

    pthread_mutex_lock(&session->staging_lock);
    HASH_FIND_PTR(session->staging_open, &ctrl, b);
    if (b && is_idle(b))
        b->used = 0;
    if (!b || !use_buffer(b, count))
        b = find_idle(session, count);
    if (b)
        remove_buffer(session, b);
    pthread_mutex_unlock(&session->staging_lock);
    return b;
}

static struct staging *make_buffer(struct stream *s, const char *function, size_t count, int *error)
{
    struct staging *b = calloc(1, sizeof(*b));

    if (!b) {
        *error = error_no_memory(function);
        return NULL;
    }
    /* What a task reads of it was just written here. */
    b->memory = (struct memory){.size = count, .host = true, .populated = UINT64_MAX};
    *error = memory_allocate(s->context, function, &b->memory,
                             count < SHARED_SIZE ? SHARED_SIZE : count);
    if (*error != 0) {
        free(b);
        return NULL;
    }
    use_buffer(b, count);
    return b;
}

struct staging *staging_take(struct stream *s, const char *function, size_t count, int *error)
{
    struct staging *b = find_buffer(s->session, s->ctrl, count);

    staging_trim(s->session, function, count < STAGING_KEPT ? STAGING_KEPT - count : 0);
    return b ? b : make_buffer(s, function, count, error);
}

void staging_forget_all(struct session *session)
{
    struct staging *b, *next;

    HASH_CLEAR(hh, session->staging_open);
    DL_FOREACH_SAFE (session->staging, b, next) {
        memory_unmap(&b->memory);
        free(b);
    }
}
