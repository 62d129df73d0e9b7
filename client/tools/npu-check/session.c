/* Processes: what they have left when they end. */
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"

static void take_begin(struct model *m, struct process *p)
{
    (void)m;
    p->in_session = true;
}

static void take_end(struct model *m, struct process *p)
{
    session_end(m, p);
}

static void take_object(struct model *m, struct process *p)
{
    const struct check_object *r = (const void *)m->input->r;
    struct loose_object *o, *old;

    if (r->type >= CHECK_OBJECT_TYPES)
        return;
    o = need_zeroed(1, sizeof(*o));
    o->key.object = r->object;
    o->key.type = r->type;
    o->act = model_act(m, ACT_ALLOC, NULL);
    HASH_REPLACE(hh, p->objects, key, sizeof(o->key), o, old);
    if (old) {
        acts_unref(&m->acts, old->act);
        free(old);
    }
}

static void free_object(struct model *m, struct loose_object *o)
{
    acts_unref(&m->acts, o->act);
    free(o);
}

static void take_object_gone(struct model *m, struct process *p)
{
    const struct check_object *r = (const void *)m->input->r;
    struct loose_object key = {.key = {r->object, r->type}}, *o;

    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): both words are set */
    HASH_FIND(hh, p->objects, &key.key, sizeof(key.key), o);
    if (!o)
        return;
    HASH_DEL(p->objects, o);
    free_object(m, o);
}

static void take_refused(struct model *m, struct process *p)
{
    find_refused(m, p, (const void *)m->input->r);
}

void (*const session_takers[CHECK_KINDS])(struct model *, struct process *) = {
    [CHECK_SESSION_BEGIN] = take_begin, [CHECK_SESSION_END] = take_end,
    [CHECK_OBJECT] = take_object,       [CHECK_OBJECT_GONE] = take_object_gone,
    [CHECK_REFUSED] = take_refused,
};

/* ------------------------------------------------------------------------------------ the end */

static void free_streams(struct model *m, struct process *p)
{
    struct stream *s, *next;

    HASH_ITER (hh, p->streams, s, next)
        stream_free(m, s);
}

static void free_handles(struct model *m, struct process *p)
{
    struct handle *h, *next;

    HASH_ITER (hh, p->events, h, next)
        handle_free(m, &p->events, h);
    HASH_ITER (hh, p->notifies, h, next)
        handle_free(m, &p->notifies, h);
}

static void free_names(struct model *m, struct process *p)
{
    struct name *n, *next;

    for (unsigned i = 0; i < PROCESS_DEAD_NAMES; i++) {
        if (!(n = p->dead[i]))
            continue;
        HASH_FIND(hh, p->names, &n->key, sizeof(n->key), next);
        if (next == n)
            HASH_DEL(p->names, n);
        name_unref(m, n);
        p->dead[i] = NULL;
    }
    p->n_dead = 0;
    HASH_ITER (hh, p->names, n, next) {
        HASH_DEL(p->names, n);
        name_unref(m, n);
    }
    p->n_dead = 0;
    memory_unref(m, p->host);
    p->host = NULL;
}

static void free_rest(struct model *m, struct process *p)
{
    struct loose_object *o = p->objects, *next;
    struct pool_piece *piece = p->pieces, *next_piece;

    HASH_CLEAR(hh, p->objects);
    for (; o; o = next) {
        next = o->hh.next;
        free_object(m, o);
    }
    HASH_CLEAR(hh, p->pieces);
    for (; piece; piece = next_piece) {
        next_piece = piece->hh.next;
        acts_unref(&m->acts, piece->act);
        free(piece);
    }
}

void process_free(struct model *m, struct process *p)
{
    free_streams(m, p);
    free_handles(m, p);
    free_names(m, p);
    free_rest(m, p);
}

static void tell_left(struct model *m, struct process *p)
{
    struct stream *s;

    for (s = p->streams; s; s = s->hh.next)
        find_unfinished(m, s);
    find_leaks(m, p);
}

void session_end(struct model *m, struct process *p)
{
    struct stream *s;

    for (s = p->streams; s; s = s->hh.next)
        stream_force(m, s, UINT64_MAX);
    tell_left(m, p);
    process_free(m, p);
    p->in_session = false;
}
