/*
 * Memory for the lists of graphs, which npud reads. Small lists share an allocation of pinned
 * memory: it counts for the user's limits like any, and a process with thousands of graphs would
 * reach those of descriptors first. An allocation goes with the last list in it.
 */
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/graph/graph.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"
#include "proto/shm/graph_shm.h"

#define CHUNK_BYTES ((size_t)256 << 10)

/** An allocation. Its tasks are given out from the first one on, and never again. */
struct graph_chunk {
    struct session *session;
    struct context *context;
    struct memory memory;
    uint32_t used, size, lists;
    struct graph_chunk *prev, *next; /* session->captures.chunks */
};

struct graph_list {
    struct graph_chunk *chunk;
    uint32_t first, count;
};

/* Under captures.lock. */
static struct graph_chunk *find_chunk(struct context *c, uint32_t tasks)
{
    struct graph_chunk *chunk;

    DL_FOREACH (c->session->captures.chunks, chunk)
        if (chunk->context == c && chunk->size - chunk->used >= tasks)
            return chunk;
    return NULL;
}

static struct graph_chunk *make_chunk(struct context *c, const char *function, uint32_t tasks,
                                      int *error)
{
    struct graph_chunk *chunk = calloc(1, sizeof(*chunk));
    size_t bytes = tasks * sizeof(struct task);

    if (!chunk) {
        *error = error_no_memory(function);
        return NULL;
    }
    /* Its pages are there before npud reads them: the library writes what it gives out. */
    chunk->memory =
        (struct memory){.size = bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes, .host = true};
    *error = memory_allocate(c, function, &chunk->memory, chunk->memory.size);
    if (*error != 0) {
        free(chunk);
        return NULL;
    }
    chunk->session = c->session;
    chunk->context = c;
    chunk->size = (uint32_t)(chunk->memory.mapped.size / sizeof(struct task));
    return chunk;
}

/* Under captures.lock. */
static void take_tasks(struct graph_chunk *chunk, struct graph_list *list, uint32_t tasks)
{
    *list = (struct graph_list){.chunk = chunk, .first = chunk->used, .count = tasks};
    chunk->used += tasks;
    chunk->lists++;
}

struct graph_list *graph_list_new(struct context *c, const char *function, uint32_t tasks,
                                  int *error)
{
    struct session *s = c->session;
    struct graph_list *list = malloc(sizeof(*list));
    struct graph_chunk *chunk;

    if (!list) {
        *error = error_no_memory(function);
        return NULL;
    }
    captures_lock(s);
    chunk = find_chunk(c, tasks);
    if (chunk)
        take_tasks(chunk, list, tasks);
    captures_unlock(s);
    if (chunk)
        return list;
    chunk = make_chunk(c, function, tasks, error);
    if (!chunk) {
        free(list);
        return NULL;
    }
    captures_lock(s);
    DL_PREPEND(s->captures.chunks, chunk);
    take_tasks(chunk, list, tasks);
    captures_unlock(s);
    return list;
}

void graph_list_free(struct graph_list *list)
{
    struct graph_chunk *chunk;
    struct session *s;
    bool last;

    if (!list)
        return;
    chunk = list->chunk;
    s = chunk->session;
    captures_lock(s);
    last = --chunk->lists == 0;
    if (last)
        DL_DELETE(s->captures.chunks, chunk);
    captures_unlock(s);
    free(list);
    if (!last)
        return;
    if (!session_lost(s))
        memory_free_remote(s, "aclmdlRIDestroy", chunk->memory.remote);
    memory_unmap(&chunk->memory);
    free(chunk);
}

struct task *graph_list_tasks(const struct graph_list *list)
{
    return (struct task *)list->chunk->memory.mapped.start + list->first;
}

void graph_list_name(const struct graph_list *list, struct task *task)
{
    task->object = list->chunk->memory.remote;
    task->generation = list->chunk->memory.remote_generation;
    task->graph.offset = list->first * sizeof(struct task);
    task->graph.count = list->count;
}
