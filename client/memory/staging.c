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
}

void staging_add(struct session *session, struct staging *b)
{
    pthread_mutex_lock(&session->staging_lock);
    DL_APPEND(session->staging, b);
    session->staging_bytes += b->memory.mapped.size;
    pthread_mutex_unlock(&session->staging_lock);
}

void staging_trim(struct session *session, const char *function, size_t bytes)
{
    struct staging *b, *next, *freed = NULL;

    pthread_mutex_lock(&session->staging_lock);
    DL_FOREACH_SAFE (session->staging, b, next)
        if (session->staging_bytes > bytes && is_idle(b)) {
            remove_buffer(session, b);
            LL_PREPEND(freed, b);
        }
    pthread_mutex_unlock(&session->staging_lock);
    LL_FOREACH_SAFE (freed, b, next) {
        memory_free_remote(session, function, b->memory.remote);
        memory_unmap(&b->memory);
        free(b);
    }
}

static struct staging *find_buffer(struct session *session, size_t count)
{
    struct staging *b;

    pthread_mutex_lock(&session->staging_lock);
    DL_FOREACH (session->staging, b)
        if (b->memory.mapped.size >= count && is_idle(b))
            break;
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
    *error = memory_allocate(s->context, function, &b->memory, count);
    if (*error == 0)
        return b;
    free(b);
    return NULL;
}

struct staging *staging_take(struct stream *s, const char *function, size_t count, int *error)
{
    struct staging *b = find_buffer(s->session, count);

    staging_trim(s->session, function, count < STAGING_KEPT ? STAGING_KEPT - count : 0);
    return b ? b : make_buffer(s, function, count, error);
}

void staging_forget_all(struct session *session)
{
    struct staging *b, *next;

    DL_FOREACH_SAFE (session->staging, b, next) {
        memory_unmap(&b->memory);
        free(b);
    }
}
