/* Events and notifies: by their handles in a process, and by their identity in all. */
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/objects.h"

#define RECORDS (sizeof(((struct event *)0)->record) / sizeof(struct signal *))

/* -------------------------------------------------------------------------------------- handles */

struct handle *handle_find(struct handle *table, uint64_t key)
{
    struct handle *h;

    HASH_FIND(hh, table, &key, sizeof(key), h);
    return h;
}

static struct handle *handle_make(struct handle **table, uint64_t key)
{
    struct handle *h = need_zeroed(1, sizeof(*h));

    h->key = key;
    h->act = WORLD_NONE;
    HASH_ADD(hh, *table, key, sizeof(h->key), h);
    return h;
}

/* The last process that knows a notify forgets it. */
static void forget_shared(struct model *m, struct signal *notify)
{
    struct handle *shared = handle_find(m->shared_notifies, notify->number);

    if (!shared || shared->notify != notify || notify->refs > 2)
        return;
    HASH_DEL(m->shared_notifies, shared);
    signal_unref(m, shared->notify);
    free(shared);
}

void handle_free(struct model *m, struct handle **table, struct handle *h)
{
    if (!h)
        return;
    HASH_DEL(*table, h);
    if (h->notify) {
        forget_shared(m, h->notify);
        signal_unref(m, h->notify);
    }
    event_unref(m, h->event);
    acts_unref(&m->acts, h->act);
    free(h);
}

/* --------------------------------------------------------------------------------------- events */

static struct event *event_make(enum check_event_kind kind, uint64_t number)
{
    struct event *e = need_zeroed(1, sizeof(*e));

    e->kind = kind;
    e->number = number;
    e->reset = WORLD_NONE;
    if (kind == CHECK_EVENT_LEVEL)
        e->level = signal_make(SIGNAL_LEVEL, OBJECT_EVENT, number);
    return e;
}

void event_unref(struct model *m, struct event *e)
{
    if (!e || --e->refs > 0)
        return;
    if (e->identity)
        HASH_DEL(m->ipc_events, e);
    for (unsigned i = 0; i < RECORDS; i++)
        signal_unref(m, e->record[i]);
    signal_unref(m, e->level);
    acts_unref(&m->acts, e->reset);
    free(e);
}

static struct event *find_ipc(struct model *m, uint64_t identity)
{
    struct event *e;

    HASH_FIND(hh, m->ipc_events, &identity, sizeof(identity), e);
    if (e || identity == 0)
        return e;
    e = event_make(CHECK_EVENT_IPC, identity);
    e->identity = identity;
    HASH_ADD(hh, m->ipc_events, identity, sizeof(e->identity), e);
    return e;
}

static struct handle *event_add(struct process *p, uint64_t key, struct event *e)
{
    struct handle *h = handle_make(&p->events, key);

    e->refs++;
    h->event = e;
    return h;
}

struct event *event_find(struct model *m, struct process *p, uint64_t key)
{
    struct handle *h = handle_find(p->events, key);
    struct event *e;

    (void)m;
    if (h)
        return h->event;
    e = event_make(CHECK_EVENT_PLAIN, ++p->n_events);
    e->unknown = true;
    event_add(p, key, e);
    return e;
}

/* NULL: nothing is known of it, and nothing will be. */
struct signal *event_record(struct model *m, struct event *e, uint64_t number)
{
    unsigned i = (unsigned)(number % RECORDS);

    if (number == 0 || e->record_number[i] > number)
        return NULL;
    if (e->record_number[i] == number)
        return e->record[i];
    signal_unref(m, e->record[i]);
    e->record[i] = signal_make(
        SIGNAL_RECORD, e->kind == CHECK_EVENT_IPC ? OBJECT_IPC_EVENT : OBJECT_EVENT, e->number);
    e->record_number[i] = number;
    return e->record[i];
}

static void take_event(struct model *m, struct process *p)
{
    const struct check_event *r = (const void *)m->input->r;
    struct event *e = NULL;

    handle_free(m, &p->events, handle_find(p->events, r->event));
    if (r->kind == CHECK_EVENT_IPC)
        e = find_ipc(m, r->identity);
    if (!e)
        e = event_make(r->kind, ++p->n_events);
    event_add(p, r->event, e)->act = model_act(m, r->imported ? ACT_IMPORT : ACT_ALLOC, NULL);
}

static void take_event_gone(struct model *m, struct process *p)
{
    const struct check_object *r = (const void *)m->input->r;

    handle_free(m, &p->events, handle_find(p->events, r->object));
}

static void give_raise(struct model *m, struct stream *s, struct signal *g, uint32_t act)
{
    struct operation *o = operation_make(m, OPERATION_RAISE, act);

    operation_set_signal(o, g);
    stream_give(m, s, o);
}

static void take_record(struct model *m, struct process *p)
{
    const struct check_event_use *r = (const void *)m->input->r;
    struct event *e = event_find(m, p, r->event);
    struct stream *s = stream_find(m, p, r->stream);
    struct signal *g = event_record(m, e, r->number);
    uint32_t act = model_act(m, ACT_RECORD, s);

    e->newest = r->number > e->newest ? r->number : e->newest;
    if (g)
        give_raise(m, s, g, acts_ref(&m->acts, act));
    if (e->level)
        give_raise(m, s, e->level, acts_ref(&m->acts, act));
    acts_unref(&m->acts, act);
    acts_unref(&m->acts, e->reset);
    e->reset = WORLD_NONE;
}

static void take_reset(struct model *m, struct process *p)
{
    const struct check_event_use *r = (const void *)m->input->r;
    struct event *e = event_find(m, p, r->event);
    struct stream *s = r->stream ? stream_find(m, p, r->stream) : NULL;
    struct operation *o;

    acts_unref(&m->acts, e->reset);
    e->reset = model_act(m, ACT_RESET, s);
    if (!e->level || !s)
        return;
    o = operation_make(m, OPERATION_LOWER, acts_ref(&m->acts, e->reset));
    operation_set_signal(o, e->level);
    stream_give(m, s, o);
}

static void give_wait(struct model *m, struct stream *s, struct signal *g, uint32_t act)
{
    struct operation *o = operation_make(m, OPERATION_WAIT, act);

    operation_set_signal(o, g);
    stream_give(m, s, o);
}

static void take_wait(struct model *m, struct process *p)
{
    const struct check_event_use *r = (const void *)m->input->r;
    struct event *e = event_find(m, p, r->event);
    struct stream *s = stream_find(m, p, r->stream);
    uint32_t act = model_act(m, ACT_WAIT, s);
    struct signal *g = e->level;

    if (!g && r->number == 0)
        find_empty_wait(m, e, act);
    /* A record before checking began has nothing to say. */
    if (!g && (!e->unknown || r->number <= e->newest))
        g = event_record(m, e, r->number);
    if (g)
        give_wait(m, s, g, act);
    else
        acts_unref(&m->acts, act);
}

/* The record is complete: its stream has got there. */
static void take_sync_event(struct model *m, struct process *p)
{
    const struct check_event_use *r = (const void *)m->input->r;
    struct event *e = event_find(m, p, r->event);
    struct signal *g = event_record(m, e, r->number);

    if (!g)
        return;
    signal_ref(g);
    if (!g->up && g->causes)
        stream_force(m, g->causes->stream, g->causes->sequence);
    actor_join(model_host(m), &g->pending);
    signal_unref(m, g);
}

static void take_empty_sync(struct model *m, struct process *p)
{
    const struct check_event_use *r = (const void *)m->input->r;
    uint32_t act = model_act(m, ACT_SYNCHRONISE, NULL);

    find_empty_wait(m, event_find(m, p, r->event), act);
    acts_unref(&m->acts, act);
}

/* ------------------------------------------------------------------------------------- notifies */

static struct signal *share_notify(struct model *m, uint64_t identity, bool counts)
{
    struct handle *h = identity ? handle_find(m->shared_notifies, identity) : NULL;
    struct signal *g;

    if (h)
        return signal_ref(h->notify);
    g = signal_make(counts ? SIGNAL_COUNT : SIGNAL_NOTIFY,
                    counts ? OBJECT_COUNT_NOTIFY : OBJECT_NOTIFY, identity);
    if (identity)
        handle_make(&m->shared_notifies, identity)->notify = signal_ref(g);
    return g;
}

static uint64_t key_of(uint32_t slot, uint32_t generation)
{
    return (uint64_t)slot << 32 | generation;
}

struct signal *notify_find(struct model *m, struct process *p, uint32_t slot, uint32_t generation,
                           bool counts)
{
    uint64_t key = key_of(slot, generation);
    struct handle *h = handle_find(p->notifies, key);

    if (!h) {
        h = handle_make(&p->notifies, key);
        h->notify = share_notify(m, 0, counts);
    }
    return h->notify;
}

static void take_notify(struct model *m, struct process *p)
{
    const struct check_notify *r = (const void *)m->input->r;
    uint64_t key = key_of(r->slot, r->generation);
    struct handle *h;

    handle_free(m, &p->notifies, handle_find(p->notifies, key));
    h = handle_make(&p->notifies, key);
    h->notify = share_notify(m, r->identity, r->counts);
    h->act = model_act(m, r->imported ? ACT_IMPORT : ACT_ALLOC, NULL);
}

static void take_notify_gone(struct model *m, struct process *p)
{
    const struct check_notify *r = (const void *)m->input->r;

    handle_free(m, &p->notifies, handle_find(p->notifies, key_of(r->slot, r->generation)));
}

static void take_notify_reset(struct model *m, struct process *p)
{
    const struct check_notify *r = (const void *)m->input->r;
    struct signal *g = notify_find(m, p, r->slot, r->generation, r->counts);

    signal_lower(g);
    signal_let_waiters_go(m, g);
    stream_look_at_ready(m);
}

void (*const event_takers[CHECK_KINDS])(struct model *, struct process *) = {
    [CHECK_EVENT] = take_event,
    [CHECK_EVENT_GONE] = take_event_gone,
    [CHECK_NOTIFY] = take_notify,
    [CHECK_NOTIFY_GONE] = take_notify_gone,
    [CHECK_RECORD] = take_record,
    [CHECK_RESET] = take_reset,
    [CHECK_WAIT] = take_wait,
    [CHECK_SYNC_EVENT] = take_sync_event,
    [CHECK_EMPTY_SYNC] = take_empty_sync,
    [CHECK_NOTIFY_RESET] = take_notify_reset,
};
