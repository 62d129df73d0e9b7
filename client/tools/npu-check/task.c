/* What streams are given, and what threads learn of them. */
#include <string.h>

#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"
#include "proto/shm/callback_shm.h"
#include "proto/shm/graph_shm.h"

struct handover {
    uint64_t buffer;
    UT_hash_handle hh;
    struct point point;
};

/* --------------------------------------------------------------------------------------- tasks */

static void add_use(struct model *m, struct operation *o, const struct check_range_use *of)
{
    byte_use_fill(m, o->stream->process, &o->use[o->n_uses], of);
    o->n_uses++;
}

static void add_bytes(struct model *m, struct operation *o, uint32_t slot, uint32_t generation,
                      uint64_t offset, uint64_t size, uint32_t how)
{
    add_use(m, o,
            &(struct check_range_use){.name = {slot, generation},
                                      .offset = offset,
                                      .size = size,
                                      .how = how | (o->maybe ? CHECK_MAYBE : 0)});
}

static void fill_copy(struct model *m, struct operation *o, const struct task *t)
{
    add_bytes(m, o, t->copy.src, t->copy.src_generation, t->copy.src_offset, t->copy.size,
              CHECK_READ);
    add_bytes(m, o, t->object, t->generation, t->copy.dst_offset, t->copy.size, CHECK_WRITE);
}

static void fill_set(struct model *m, struct operation *o, const struct task *t)
{
    add_bytes(m, o, t->object, t->generation, t->set.offset, t->set.size, CHECK_WRITE);
}

static void fill_reduce(struct model *m, struct operation *o, const struct task *t)
{
    add_bytes(m, o, t->reduce.src, t->reduce.src_generation, t->reduce.src_offset, t->reduce.size,
              CHECK_READ);
    add_bytes(m, o, t->object, t->generation, t->reduce.dst_offset, t->reduce.size,
              CHECK_READ | CHECK_WRITE);
}

static void fill_nothing(struct model *m, struct operation *o, const struct task *t)
{
    (void)m;
    (void)o;
    (void)t;
}

static void fill_callback(struct model *m, struct operation *o, const struct task *t)
{
    (void)m;
    o->value = t->callback.ordinal;
    o->block = t->callback.block;
}

static void fill_notify(struct model *m, struct operation *o, const struct task *t)
{
    operation_set_signal(o, notify_find(m, o->stream->process, t->object, t->generation, false));
}

static void fill_count(struct model *m, struct operation *o, const struct task *t)
{
    o->value = t->notify.value;
    o->mode = t->notify.mode;
    o->clear = t->notify.clear;
    operation_set_signal(o, notify_find(m, o->stream->process, t->object, t->generation, true));
}

static void fill_value(struct model *m, struct operation *o, const struct task *t)
{
    uint32_t how = t->op == TASK_VALUE_WRITE ? CHECK_WRITE : CHECK_READ;

    add_bytes(m, o, t->object, t->generation, t->value.offset, 8, how | CHECK_WORD);
    o->value = t->value.value;
    o->mode = t->flags;
    operation_set_signal(o, word_find(m, o->use[0].memory, t->value.offset));
}

static void fill_jump(struct model *m, struct operation *o, const struct task *t)
{
    uint64_t size = t->jump.wide ? 8 : 4;

    if (t->flags == JUMP_ALWAYS)
        return;
    add_bytes(m, o, t->object, t->generation, t->jump.offset, size, CHECK_READ);
    if (t->jump.memory)
        add_bytes(m, o, t->jump.right_object, t->jump.right_generation, t->jump.right, size,
                  CHECK_READ);
}

static const struct {
    void (*fill)(struct model *, struct operation *, const struct task *);
    uint8_t kind;
    uint8_t what;
} tasks[TASK_OPS] = {
    [TASK_NOP] = {fill_nothing, OPERATION_USE, ACT_SUBMIT},
    [TASK_COPY] = {fill_copy, OPERATION_USE, ACT_SUBMIT},
    [TASK_SET] = {fill_set, OPERATION_USE, ACT_WRITE},
    [TASK_DELAY] = {fill_nothing, OPERATION_USE, ACT_SUBMIT},
    [TASK_CALLBACK] = {fill_callback, OPERATION_CALLBACK, ACT_SUBMIT},
    [TASK_NOTIFY_RECORD] = {fill_notify, OPERATION_RAISE, ACT_RECORD},
    [TASK_NOTIFY_WAIT] = {fill_notify, OPERATION_WAIT, ACT_WAIT},
    [TASK_COUNT_RECORD] = {fill_count, OPERATION_RAISE, ACT_RECORD},
    [TASK_COUNT_WAIT] = {fill_count, OPERATION_WAIT, ACT_WAIT},
    [TASK_VALUE_WRITE] = {fill_value, OPERATION_RAISE, ACT_RECORD},
    [TASK_VALUE_WAIT] = {fill_value, OPERATION_WAIT, ACT_WAIT},
    [TASK_REDUCE] = {fill_reduce, OPERATION_USE, ACT_SUBMIT},
    [TASK_JUMP] = {fill_jump, OPERATION_USE, ACT_READ},
};

static uint32_t act_of_task(struct model *m, const struct stream *s, const struct task *t)
{
    uint32_t act = model_act(m, tasks[t->op].what, s);
    uint64_t position = atomic_load_explicit(&t->sequence, memory_order_relaxed) - 1;
    uint64_t slot = m->world->streams[s->world].slot;

    m->acts.list[act].act.slot_position = slot << 48 | ((position + 1) & ((UINT64_C(1) << 48) - 1));
    return act;
}

static void take_task(struct model *m, struct process *p)
{
    const struct check_task *r = (const void *)m->input->r;
    const struct task *t = &r->task;
    struct stream *s = stream_find(m, p, r->stream);
    struct operation *o;

    /* Events have records of their own, and so has work of the library. */
    if (t->op >= TASK_OPS || !tasks[t->op].fill ||
        (t->op == TASK_CALLBACK && callback_word_is_work(t->callback.word)))
        return;
    o = operation_make(m, tasks[t->op].kind, act_of_task(m, s, t));
    o->stream = s;
    o->is_task = true;
    o->calls = r->calls;
    o->maybe = r->maybe != 0;
    tasks[t->op].fill(m, o, t);
    stream_give(m, s, o);
}

/* ------------------------------------------------------------------------------------ accesses */

static bool is_word(const struct check_access *r)
{
    return r->n == 1 && r->use[0].how & CHECK_WORD &&
           (r->op == TASK_VALUE_WRITE || r->op == TASK_VALUE_WAIT);
}

/* Whether it writes, or only reads; one that does both is told by what it does to the bytes. */
static enum act_what access_what(const struct check_access *r)
{
    uint32_t how = 0;

    for (uint32_t i = 0; i < r->n; i++)
        how |= r->use[i].how;
    if ((how & CHECK_READ) && (how & CHECK_WRITE))
        return ACT_SUBMIT;
    return how & CHECK_WRITE ? ACT_WRITE : how & CHECK_READ ? ACT_READ : ACT_SUBMIT;
}

static void give_access(struct model *m, struct stream *s, const struct check_access *r)
{
    bool word = is_word(r);
    uint8_t kind = word ? tasks[r->op].kind : OPERATION_USE;
    uint32_t act = model_act(m, word ? tasks[r->op].what : access_what(r), s);
    struct operation *o = operation_make(m, kind, act);

    o->stream = s;
    o->is_task = true;
    for (uint32_t i = 0; i < r->n; i++)
        add_use(m, o, &r->use[i]);
    if (word) {
        o->value = r->value;
        o->mode = (uint8_t)r->condition;
        operation_set_signal(o, word_find(m, o->use[0].memory, r->use[0].offset));
    }
    stream_give(m, s, o);
}

/* A word that a thread writes. */
static void raise_word(struct model *m, const struct byte_use *u, const struct check_access *r,
                       uint32_t act)
{
    struct operation o = {.act = act, .value = r->value};

    signal_raise(m, word_find(m, u->memory, u->offset), &o, model_host(m));
}

/* By the thread, and over. */
static void do_access(struct model *m, struct process *p, const struct check_access *r)
{
    uint32_t act = model_act(m, access_what(r), NULL);
    struct actor *a = model_host(m);

    a->epoch++;
    for (uint32_t i = 0; i < r->n; i++) {
        struct byte_use u;

        byte_use_fill(m, p, &u, &r->use[i]);
        byte_use_look_at(m, &u, a, act);
        if (is_word(r) && r->op == TASK_VALUE_WRITE)
            raise_word(m, &u, r, act);
        byte_use_free(m, &u);
    }
    acts_unref(&m->acts, act);
    stream_look_at_ready(m);
}

static void take_access(struct model *m, struct process *p)
{
    const struct check_access *r = (const void *)m->input->r;

    if (r->stream == CHECK_NO_STREAM)
        do_access(m, p, r);
    else
        give_access(m, stream_find(m, p, r->stream), r);
}

/* --------------------------------------------------------------------------------------- pools */

static void add_piece(struct model *m, struct process *p, const struct check_pool *r, uint32_t act)
{
    struct pool_piece *piece = need_zeroed(1, sizeof(*piece));

    pool_piece_end(m, p, r->address);
    piece->address = r->address;
    piece->size = r->size;
    piece->act = acts_ref(&m->acts, act);
    HASH_ADD(hh, p->pieces, address, sizeof(piece->address), piece);
}

/* Where in its memory the piece is. */
static uint64_t offset_of(const struct name *n, const struct check_pool *r)
{
    if (n->address == 0 || r->address < n->address || r->address - n->address > n->memory->size)
        return 0;
    return r->address - n->address;
}

static void take_pool(struct model *m, struct process *p)
{
    const struct check_pool *r = (const void *)m->input->r;
    bool is_alloc = r->r.kind == CHECK_POOL_ALLOC;
    struct stream *s = stream_find(m, p, r->stream);
    uint32_t act = model_act(m, is_alloc ? ACT_ALLOC : ACT_FREE, s);
    struct operation *o =
        operation_make(m, is_alloc ? OPERATION_POOL_ALLOC : OPERATION_POOL_FREE, act);
    struct name *n = name_find(m, p, &r->name);

    o->stream = s;
    n->pool = true;
    acts_unref(&m->acts, n->freed);
    n->freed = is_alloc ? WORLD_NONE : acts_ref(&m->acts, act);
    if (is_alloc) { /* for the program it is other memory than before */
        acts_unref(&m->acts, n->memory->made);
        n->memory->made = acts_ref(&m->acts, act);
        /* Not smaller: uses of what was there before may not have been looked at yet. */
        if (n->memory->size < r->size)
            n->memory->size = r->size;
    }
    add_bytes(m, o, r->name.slot, r->name.generation, offset_of(n, r), r->size, CHECK_WRITE);
    if (is_alloc)
        add_piece(m, p, r, act);
    else
        pool_piece_end(m, p, r->address);
    stream_give(m, s, o);
}

/* ----------------------------------------------------------------------- streams and threads */

static void take_stream(struct model *m, struct process *p)
{
    const struct check_stream *r = (const void *)m->input->r;
    struct stream *s;

    HASH_FIND(hh, p->streams, &r->stream, sizeof(r->stream), s);
    if (s)
        stream_free(m, s);
    stream_make(m, p, r);
}

static void take_stream_gone(struct model *m, struct process *p)
{
    const struct check_stream_gone *r = (const void *)m->input->r;
    struct stream *s;

    HASH_FIND(hh, p->streams, &r->stream, sizeof(r->stream), s);
    if (!s)
        return;
    stream_synchronise(m, s, r->r.ns, model_host(m));
    if (r->code)
        find_ignored(m, s, r->code);
    stream_free(m, s);
}

static void take_sync_stream(struct model *m, struct process *p)
{
    const struct check_sync *r = (const void *)m->input->r;
    struct stream *s;

    HASH_FIND(hh, p->streams, &r->stream, sizeof(r->stream), s);
    if (s)
        stream_synchronise(m, s, r->since_ns, model_host(m));
}

/* As its process ends: a stream that is destroyed says it when it goes. */
static void take_ignored(struct model *m, struct process *p)
{
    const struct check_failed *r = (const void *)m->input->r;
    struct stream *s;

    HASH_FIND(hh, p->streams, &r->stream, sizeof(r->stream), s);
    if (s)
        find_ignored(m, s, (int32_t)r->code);
}

static void take_callback(struct model *m, struct process *p)
{
    const struct check_callback *r = (const void *)m->input->r;
    struct stream *s;

    HASH_FIND(hh, p->streams, &r->stream, sizeof(r->stream), s);
    if (!s)
        return;
    if (r->r.kind == CHECK_CALLBACK_BEGIN)
        stream_begin_callback(m, s, r->ordinal, model_host(m));
    else
        stream_end_callback(m, s, r->ordinal, model_host(m));
}

/* One host knows it anyway. */
static void take_put(struct model *m, struct process *p)
{
    const struct check_handover *r = (const void *)m->input->r;
    struct handover *h;

    (void)p;
    if (!m->host_seen)
        return;
    HASH_FIND(hh, m->handovers, &r->buffer, sizeof(r->buffer), h);
    if (!h) {
        h = need_zeroed(1, sizeof(*h));
        h->buffer = r->buffer;
        h->point = POINT_NOTHING;
        HASH_ADD(hh, m->handovers, buffer, sizeof(h->buffer), h);
    }
    point_free(&h->point);
    h->point = actor_point(model_host(m));
}

static void take_take(struct model *m, struct process *p)
{
    const struct check_handover *r = (const void *)m->input->r;
    struct handover *h;

    (void)p;
    HASH_FIND(hh, m->handovers, &r->buffer, sizeof(r->buffer), h);
    if (h)
        actor_join(model_host(m), &h->point);
}

void handovers_free(struct model *m)
{
    struct handover *h = m->handovers, *next;

    HASH_CLEAR(hh, m->handovers);
    for (; h; h = next) {
        next = h->hh.next;
        point_free(&h->point);
        free(h);
    }
}

void (*const task_takers[CHECK_KINDS])(struct model *, struct process *) = {
    [CHECK_TASK] = take_task,
    [CHECK_ACCESS] = take_access,
    [CHECK_POOL_ALLOC] = take_pool,
    [CHECK_POOL_FREE] = take_pool,
    [CHECK_STREAM] = take_stream,
    [CHECK_STREAM_GONE] = take_stream_gone,
    [CHECK_SYNC_STREAM] = take_sync_stream,
    [CHECK_IGNORED] = take_ignored,
    [CHECK_CALLBACK_BEGIN] = take_callback,
    [CHECK_CALLBACK_END] = take_callback,
    [CHECK_PUT] = take_put,
    [CHECK_TAKE] = take_take,
};
