/*
 * Streams: what each was given is executed in its order, as soon as what it waits for has happened;
 * or when a thread has learned that the stream has passed it.
 */
#include <string.h>
#include <utlist.h>

#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"

/* Streams that are forced for each other. More is a cycle, or nothing that a program does. */
#define FORCE_DEPTH 4096u

/* -------------------------------------------------------------------------------- operations */

struct operation *operation_make(struct model *m, uint8_t kind, uint32_t act)
{
    struct operation *o = m->spare;

    if (o)
        m->spare = o->next;
    else
        o = need_array(NULL, 1, sizeof(*o));
    memset(o, 0, offsetof(struct operation, use));
    o->kind = kind;
    o->act = act;
    o->submit = o->end = POINT_NOTHING;
    return o;
}

void operation_set_signal(struct operation *o, struct signal *signal)
{
    o->signal = signal_ref(signal);
}

static void drop_cause(struct operation *o)
{
    if (o->is_cause)
        DL_DELETE2(o->signal->causes, o, cause_prev, cause_next);
    o->is_cause = false;
}

static void free_operation(struct model *m, struct operation *o)
{
    drop_cause(o);
    for (unsigned i = 0; i < o->n_uses; i++)
        byte_use_free(m, &o->use[i]);
    acts_unref(&m->acts, o->act);
    signal_unref(m, o->signal);
    point_free(&o->submit);
    point_free(&o->end);
    o->next = m->spare;
    m->spare = o;
}

/* ------------------------------------------------------------------------------------ the past */

static void note_past(struct stream *s, uint64_t ns)
{
    struct stream_past *p = &s->past[s->n_past++ % STREAM_HISTORY];

    clock_unref(p->known);
    *p = (struct stream_past){
        .ns = ns, .epoch = s->actor->epoch, .known = clock_ref(s->actor->known)};
}

/* The newest that was given until then; NULL: there is none. */
static const struct stream_past *find_past(const struct stream *s, uint64_t ns)
{
    const struct stream_past *p = NULL;

    for (uint64_t i = s->n_past; i > 0 && i + STREAM_HISTORY > s->n_past; i--) {
        p = &s->past[(i - 1) % STREAM_HISTORY];
        if (p->ns <= ns)
            return p;
    }
    /* Too many edges rather than a false alarm. */
    return s->n_past > STREAM_HISTORY ? p : NULL;
}

struct clock *stream_clock_at(const struct stream *s, uint64_t epoch)
{
    struct clock *known = s->actor->known;

    for (uint64_t i = s->n_past; i > 0 && i + STREAM_HISTORY > s->n_past; i--) {
        const struct stream_past *p = &s->past[(i - 1) % STREAM_HISTORY];

        if (p->epoch < epoch)
            break;
        known = p->known;
    }
    return known;
}

static void note_wait(struct model *m, struct stream *s, const struct operation *o)
{
    const struct signal *g = o->signal;
    struct stream_wait *w = &s->wait[s->n_waits % STREAM_WAITS];

    if (g->latest.actor == ACTOR_NONE)
        return;
    if (s->n_waits++ >= STREAM_WAITS) {
        acts_unref(&m->acts, w->wait);
        acts_unref(&m->acts, w->record);
    }
    *w = (struct stream_wait){.what = g->what,
                              .number = g->number,
                              .wait = acts_ref(&m->acts, o->act),
                              .record = acts_ref(&m->acts, g->latest.act),
                              .actor = g->latest.actor,
                              .epoch = g->latest.epoch};
}

static void note_task(struct model *m, struct stream *s, const struct operation *o)
{
    acts_ref(&m->acts, o->act);
    acts_unref(&m->acts, s->last.act);
    s->last = (struct user){.actor = s->actor->index, .act = o->act, .epoch = s->actor->epoch};
}

/* The head was looked at. */
static void finish_head(struct model *m, struct stream *s)
{
    struct operation *o = s->head;

    if (o->is_task)
        note_task(m, s, o);
    note_past(s, o->ns);
    s->head = o->next;
    if (!s->head)
        s->tail = NULL;
    free_operation(m, o);
}

/* --------------------------------------------------------------------------- one kind for each */

static void look_at_use(struct model *m, struct stream *s, struct operation *o)
{
    for (unsigned i = 0; i < o->n_uses; i++)
        byte_use_look_at(m, &o->use[i], s->actor, o->act);
}

static void look_at_raise(struct model *m, struct stream *s, struct operation *o)
{
    look_at_use(m, s, o);
    drop_cause(o);
    signal_raise(m, o->signal, o, s->actor);
}

static void look_at_lower(struct model *m, struct stream *s, struct operation *o)
{
    (void)m;
    (void)s;
    signal_lower(o->signal);
}

static void look_at_pool_alloc(struct model *m, struct stream *s, struct operation *o)
{
    pool_look_at(m, &o->use[0], s->actor, o->act, true);
}

static void look_at_pool_free(struct model *m, struct stream *s, struct operation *o)
{
    pool_look_at(m, &o->use[0], s->actor, o->act, false);
}

static void (*const lookers[])(struct model *, struct stream *, struct operation *) = {
    [OPERATION_USE] = look_at_use,
    [OPERATION_RAISE] = look_at_raise,
    [OPERATION_LOWER] = look_at_lower,
    [OPERATION_POOL_ALLOC] = look_at_pool_alloc,
    [OPERATION_POOL_FREE] = look_at_pool_free,
};

static void note_callback(struct stream *s, uint64_t ordinal)
{
    size_t size = s->size_callbacks;

    s->callbacks = need_room(s->callbacks, s->n_callbacks, &size, sizeof(*s->callbacks));
    s->size_callbacks = (uint32_t)size;
    s->callbacks[s->n_callbacks++] =
        (struct callback_past){.ordinal = ordinal, .point = actor_point(s->actor)};
}

static bool look_at_callback(struct stream *s, struct operation *o)
{
    if (!o->begun) {
        s->actor->epoch++;
        note_callback(s, o->value);
        o->begun = true;
    }
    if (o->block && !o->ended)
        return false;
    actor_join(s->actor, &o->end);
    s->actor->epoch++;
    return true;
}

static bool look_at_wait(struct model *m, struct stream *s, struct operation *o)
{
    struct point after;

    look_at_use(m, s, o);
    if (!signal_lets_pass(o->signal, o)) {
        s->blocked = o->signal;
        DL_APPEND2(o->signal->waiters, s, wait_prev, wait_next);
        return false;
    }
    after = signal_take(o->signal, o);
    stream_pass_wait(m, s, &after);
    point_free(&after);
    return true;
}

static bool look_at_head(struct model *m, struct stream *s)
{
    struct operation *o = s->head;

    if (s->blocked)
        return false;
    actor_join(s->actor, &o->submit);
    if (o->kind == OPERATION_WAIT)
        return look_at_wait(m, s, o);
    if (o->kind == OPERATION_CALLBACK) {
        if (!look_at_callback(s, o))
            return false;
    } else {
        s->actor->epoch++;
        lookers[o->kind](m, s, o);
    }
    finish_head(m, s);
    return true;
}

static void set_ready(struct model *m, struct stream *s)
{
    if (s->queued)
        return;
    s->queued = true;
    s->ready_next = m->ready;
    m->ready = s;
}

void stream_look_at_ready(struct model *m)
{
    struct stream *s;

    while ((s = m->ready)) {
        m->ready = s->ready_next;
        s->queued = false;
        while (s->head && look_at_head(m, s))
            ;
    }
}

void stream_pass_wait(struct model *m, struct stream *s, const struct point *after)
{
    if (s->blocked)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the list is whole */
        DL_DELETE2(s->blocked->waiters, s, wait_prev, wait_next);
    s->blocked = NULL;
    actor_join(s->actor, after);
    s->actor->epoch++;
    note_wait(m, s, s->head);
    finish_head(m, s);
    set_ready(m, s);
}

/* ------------------------------------------------------------------------------- what is forced */

static bool is_at(const struct stream *s, uint64_t sequence)
{
    return s->head && s->head->sequence == sequence;
}

static bool writes_word(const struct operation *o, const struct memory *y, uint64_t offset)
{
    for (unsigned i = 0; i < o->n_uses; i++)
        if (o->use[i].memory == y && o->use[i].how & CHECK_WRITE && o->use[i].offset < offset + 8 &&
            offset < o->use[i].offset + o->use[i].size)
            return true;
    return false;
}

static struct operation *find_write_in(const struct process *p, const struct operation *wait)
{
    for (struct stream *s = p->streams; s; s = s->hh.next)
        for (struct operation *o = s->forcing ? NULL : s->head; o; o = o->next)
            if (writes_word(o, wait->use[0].memory, wait->signal->offset))
                return o;
    return NULL;
}

/* What is to come and lets the wait go on, in a stream that is not being forced. */
static struct operation *find_cause(const struct model *m, const struct operation *wait)
{
    struct operation *o;

    DL_FOREACH2 (wait->signal->causes, o, cause_next)
        if (!o->stream->forcing)
            return o;
    o = NULL;
    /* A word can be written by a copy as well. */
    for (size_t i = 0; i < m->n_processes && !o && wait->signal->kind == SIGNAL_WORD; i++)
        o = find_write_in(&m->processes[i], wait);
    return o;
}

/* What the wait at the head of *s waits for happens first. */
static void force_causes(struct model *m, struct stream *s)
{
    uint64_t sequence = s->head->sequence;
    struct signal *g = signal_ref(s->head->signal);
    struct operation *cause;

    while (is_at(s, sequence) && (cause = find_cause(m, s->head))) {
        struct stream *from = cause->stream;
        uint64_t target = cause->sequence;

        stream_force(m, from, target);
        if (from->head && from->head->sequence <= target)
            break;
    }
    signal_unref(m, g);
}

static void pass_head(struct model *m, struct stream *s)
{
    struct operation *o = s->head;
    struct point after;

    if (o->kind != OPERATION_WAIT) {
        o->ended = true;
        set_ready(m, s);
        return;
    }
    after = point_copy(&o->signal->all);
    if (o->signal->kind == SIGNAL_NOTIFY)
        signal_lower(o->signal);
    stream_pass_wait(m, s, &after);
    point_free(&after);
}

void stream_force(struct model *m, struct stream *s, uint64_t sequence)
{
    if (s->forcing || m->depth >= FORCE_DEPTH)
        return;
    s->forcing = true;
    m->depth++;
    while (s->head && s->head->sequence <= sequence) {
        uint64_t at;

        set_ready(m, s);
        stream_look_at_ready(m);
        if (!s->head || s->head->sequence > sequence)
            break;
        at = s->head->sequence;
        if (s->head->kind == OPERATION_WAIT)
            force_causes(m, s);
        if (is_at(s, at))
            pass_head(m, s);
    }
    stream_look_at_ready(m);
    m->depth--;
    s->forcing = false;
}

void stream_synchronise(struct model *m, struct stream *s, uint64_t ns, struct actor *a)
{
    const struct stream_past *p;
    uint64_t sequence = 0;

    for (struct operation *o = s->head; o && o->ns <= ns; o = o->next)
        sequence = o->sequence;
    if (sequence > 0)
        stream_force(m, s, sequence);
    p = find_past(s, ns);
    if (p)
        actor_join(a,
                   &(struct point){.actor = s->actor->index, .epoch = p->epoch, .clock = p->known});
}

/* ----------------------------------------------------------------------------------- callbacks */

/*
 * Of a graph: of the latest execution that it can be of, because those before it have other
 * ordinals, and have passed over what is left of them.
 */
static struct operation *find_callback(const struct stream *s, uint64_t ordinal)
{
    struct operation *o, *found = NULL;

    for (o = s->head; o; o = o->next) {
        if (o->kind != OPERATION_CALLBACK || o->value > ordinal)
            continue;
        if (o->value == ordinal)
            return o;
        if (o->calls > 0 && (ordinal - o->value) % o->calls == 0)
            found = o;
    }
    return found;
}

/* The first n of them have begun. */
static void drop_callbacks(struct stream *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        point_free(&s->callbacks[i].point);
    s->n_callbacks -= n;
    if (n > 0)
        memmove(s->callbacks, s->callbacks + n, s->n_callbacks * sizeof(*s->callbacks));
}

/* A thread runs one that is not known: of a graph that runs it once more, if of any. */
static void begin_unknown(const struct stream *s, struct actor *a)
{
    struct point all = actor_point(s->actor);

    actor_join(a, &all);
    point_free(&all);
}

void stream_begin_callback(struct model *m, struct stream *s, uint64_t ordinal, struct actor *a)
{
    struct operation *o = find_callback(s, ordinal);
    uint32_t i = 0;

    if (o)
        ordinal = o->value;
    if (o && !o->begun) {
        stream_force(m, s, o->sequence - 1);
        set_ready(m, s);
        stream_look_at_ready(m);
    }
    while (i < s->n_callbacks && s->callbacks[i].ordinal != ordinal)
        i++;
    if (i == s->n_callbacks) {
        begin_unknown(s, a);
        return;
    }
    actor_join(a, &s->callbacks[i].point);
    drop_callbacks(s, i + 1);
}

void stream_end_callback(struct model *m, struct stream *s, uint64_t ordinal, struct actor *a)
{
    struct operation *o = find_callback(s, ordinal);

    if (!o)
        return;
    point_free(&o->end);
    o->end = actor_point(a);
    o->ended = true;
    set_ready(m, s);
    stream_look_at_ready(m);
}

/* ------------------------------------------------------------------------------ give, make, end */

void stream_give(struct model *m, struct stream *s, struct operation *o)
{
    o->stream = s;
    o->sequence = ++s->n_given;
    o->ns = m->input->r->ns;
    o->submit = actor_point(model_host(m));
    if (o->kind == OPERATION_RAISE) {
        o->is_cause = true;
        DL_APPEND2(o->signal->causes, o, cause_prev, cause_next);
    }
    if (s->tail)
        s->tail->next = o;
    else
        s->head = o;
    s->tail = o;
    o->next = NULL;
    if (s->head != o)
        return;
    set_ready(m, s);
    stream_look_at_ready(m);
}

static uint32_t list_stream(struct model *m, const struct process *p, const struct check_stream *r)
{
    struct world *w = m->world;

    if ((w->n_streams & (w->n_streams - 1)) == 0)
        w->streams =
            need_array(w->streams, w->n_streams ? w->n_streams * 2 : 1, sizeof(*w->streams));
    w->streams[w->n_streams] = (struct world_stream){
        .process = p->index,
        .id = r->id,
        .device = r->device,
        .slot = r->slot,
        .is_default = r->is_default,
    };
    return (uint32_t)w->n_streams++;
}

struct stream *stream_make(struct model *m, struct process *p, const struct check_stream *r)
{
    struct stream *s = need_zeroed(1, sizeof(*s));

    s->handle = r->stream;
    s->process = p;
    s->world = list_stream(m, p, r);
    s->made = model_act(m, ACT_ALLOC, NULL);
    s->actor = actor_make(m, model_host(m));
    s->actor->process = p->index;
    s->actor->stream = s;
    s->last = (struct user){.act = WORLD_NONE, .actor = ACTOR_NONE};
    HASH_ADD(hh, p->streams, handle, sizeof(s->handle), s);
    return s;
}

struct stream *stream_find(struct model *m, struct process *p, uint64_t handle)
{
    struct check_stream unknown = {.stream = handle, .id = -1};
    struct stream *s;

    HASH_FIND(hh, p->streams, &handle, sizeof(handle), s);
    return s ? s : stream_make(m, p, &unknown);
}

static void free_waits(struct model *m, struct stream *s)
{
    for (unsigned i = 0; i < STREAM_WAITS && i < s->n_waits; i++) {
        acts_unref(&m->acts, s->wait[i].wait);
        acts_unref(&m->acts, s->wait[i].record);
    }
}

void stream_free(struct model *m, struct stream *s)
{
    stream_force(m, s, UINT64_MAX);
    HASH_DEL(s->process->streams, s);
    free_waits(m, s);
    for (unsigned i = 0; i < STREAM_HISTORY; i++)
        clock_unref(s->past[i].known);
    drop_callbacks(s, s->n_callbacks);
    free(s->callbacks);
    acts_unref(&m->acts, s->last.act);
    acts_unref(&m->acts, s->made);
    s->actor->stream = NULL;
    m->free_actors = need_room(m->free_actors, m->n_free, &m->size_free, sizeof(*m->free_actors));
    m->free_actors[m->n_free++] = s->actor->index;
    free(s);
}
