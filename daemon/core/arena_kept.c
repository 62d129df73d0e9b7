#include "daemon/core/session.h"

#include <stddef.h>
#include <string.h>

#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/stream.h"
#include "daemon/kept/arena_record.h"
#include "daemon/kept/event_record.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/stream_record.h"
#include "proto/shm/arena.h"

/* Of cells. What is larger gets its pages when they are touched: a cell of some slots saves none */
#define CELL_FIRST ((size_t)512)
#define CELL_LAST  ((size_t)4096)

uint32_t arena_kept_slots(enum kept_kind kind)
{
    return kind == KEPT_STREAMS ? ARENA_STREAMS : ARENA_EVENTS;
}

static size_t object_size(enum kept_kind kind)
{
    return kind == KEPT_STREAMS ? sizeof(struct stream_kept) : sizeof(struct event_kept);
}

static size_t record_size(enum kept_kind kind, uint32_t slots)
{
    return ARENA_RECORD_HEAD + slots * object_size(kind);
}

size_t arena_kept_size(enum kept_kind kind)
{
    return record_size(kind, arena_kept_slots(kind));
}

/* As many slots as fill the smallest cell that has room for so many. */
static uint32_t slots_for(enum kept_kind kind, uint32_t least)
{
    for (size_t cell = CELL_FIRST; cell <= CELL_LAST; cell *= 2) {
        size_t fit = (cell - CELL_HEAD - ARENA_RECORD_HEAD) / object_size(kind);

        if (fit >= least)
            return (uint32_t)fit;
    }
    return arena_kept_slots(kind);
}

static size_t write_file(const struct kept *kept, void *record)
{
    const struct arena_file *file = (const struct arena_file *)kept;
    struct arena_record *r = record;

    static_assert(offsetof(struct arena_file, kept) == 0, "a file begins with what is kept");
    *r = (struct arena_record){.session = file->session->id,
                               .key = kept_key(file->fd),
                               .index = file->index,
                               .to_send = file->to_send,
                               .size = file->size};
    return ARENA_RECORD_HEAD;
}

bool arena_kept_make(struct arena_file *file, enum kept_kind kind)
{
    file->kind = kind;
    file->slots = slots_for(kind, 1);
    return kept_make(&file->kept, kind, record_size(kind, file->slots), write_file);
}

void arena_kept_bind(struct arena_file *file, enum kept_kind kind, struct kept_cell *cell)
{
    size_t slots = (cell_bytes(cell) - ARENA_RECORD_HEAD) / object_size(kind);

    file->kind = kind;
    file->slots = slots < arena_kept_slots(kind) ? (uint32_t)slots : arena_kept_slots(kind);
    /* It has as many slots as it has room for: nothing to enlarge, and nothing that can fail. */
    (void)kept_bind(&file->kept, cell, 0, write_file);
}

void *arena_kept_at(const struct arena_file *file, uint32_t slot)
{
    size_t before = record_size(file->kind, slot % arena_kept_slots(file->kind));

    return (unsigned char *)kept_record(&file->kept) + before;
}

/* The object of a slot of the file, if it is live, has its live part in the record. */
static void point_object(const struct arena_file *file, uint32_t number)
{
    struct stream *stream;
    struct event_obj *event;

    if (file->kind == KEPT_STREAMS) {
        stream = slots_get(&file->session->streams, number);
        if (stream)
            stream->live = arena_kept_at(file, number);
    } else {
        event = slots_get(&file->session->events, number);
        if (event)
            event->live = arena_kept_at(file, number);
    }
}

/*
 * All engines are kept away, not only those of the session: the engine of another ends a wait for
 * an IPC event or a notify by stream_let_go().
 */
bool arena_kept_reach(struct arena_file *file, uint32_t index)
{
    struct server *server = file->session->server;
    uint32_t was = file->slots, slots = slots_for(file->kind, index + 1);

    if (index < was)
        return true;
    engines_lock(server);
    if (!kept_enlarge(&file->kept, file->kind, record_size(file->kind, was),
                      record_size(file->kind, slots))) {
        engines_unlock(server);
        return false;
    }
    file->slots = slots;
    for (uint32_t i = 0; i < was; i++)
        point_object(file, file->index * arena_kept_slots(file->kind) + i);
    engines_unlock(server);
    return true;
}
