/*
 * What a session has created and not given back, by place. Of one that its process neither ended
 * nor left by exit(3) it is counted only: such an end leaves all that there was.
 */
#include "client/tools/npu-check/model.h"

static void tell_leak(struct model *m, enum object_what what, uint32_t act, uint64_t size,
                      const struct memory *y)
{
    struct finding f = {.kind = FINDING_LEAK, .object = what, .objects = 1};

    /* It was there before checking began. */
    if (act == WORLD_NONE)
        return;
    f.first = acts_get(&m->acts, act);
    if (m->world->processes[f.first.process].lost) {
        m->world->processes[f.first.process].left++;
        return;
    }
    f.memory.size = size;
    f.memory.kind = y ? y->kind : 0;
    find_add(m, &f);
}

static void tell_names(struct model *m, const struct process *p)
{
    for (const struct name *n = p->names; n; n = n->hh.next)
        if (!n->gone && !n->pool)
            tell_leak(m, OBJECT_MEMORY, n->act, n->memory->size, n->memory);
    for (const struct pool_piece *piece = p->pieces; piece; piece = piece->hh.next)
        tell_leak(m, OBJECT_MEMORY, piece->act, piece->size, NULL);
}

static void tell_handles(struct model *m, const struct process *p)
{
    for (const struct handle *h = p->events; h; h = h->hh.next)
        tell_leak(m, h->event->kind == CHECK_EVENT_IPC ? OBJECT_IPC_EVENT : OBJECT_EVENT, h->act, 0,
                  NULL);
    for (const struct handle *h = p->notifies; h; h = h->hh.next)
        tell_leak(m, h->notify->what, h->act, 0, NULL);
}

static void tell_objects(struct model *m, const struct process *p)
{
    static const enum object_what whats[CHECK_OBJECT_TYPES] = {
        [CHECK_OBJECT_EVENT] = OBJECT_EVENT,
        [CHECK_OBJECT_CONTEXT] = OBJECT_CONTEXT,
        [CHECK_OBJECT_MEMORY_POOL] = OBJECT_MEMORY_POOL,
        [CHECK_OBJECT_ADDRESSES] = OBJECT_ADDRESSES,
        [CHECK_OBJECT_QUEUE] = OBJECT_QUEUE,
        [CHECK_OBJECT_BUFFER] = OBJECT_BUFFER,
    };

    for (const struct loose_object *o = p->objects; o; o = o->hh.next)
        tell_leak(m, whats[o->key.type], o->act, 0, NULL);
}

void find_leaks(struct model *m, struct process *p)
{
    for (const struct stream *s = p->streams; s; s = s->hh.next)
        if (!m->world->streams[s->world].is_default && m->world->streams[s->world].id >= 0)
            tell_leak(m, OBJECT_STREAM, s->made, 0, NULL);
    tell_names(m, p);
    tell_handles(m, p);
    tell_objects(m, p);
}
