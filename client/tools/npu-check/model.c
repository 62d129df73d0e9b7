/* Who does what: records go to the module of their kind; actors; acts. */
#include <string.h>

#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"

#define HOST 0 /* the actor of all threads */

/* -------------------------------------------------------------------------------------- actors */

static struct actor *add_actor(struct model *m)
{
    struct actor *a = need_zeroed(1, sizeof(*a));

    m->actors = need_room(m->actors, m->n_actors, &m->size_actors, sizeof(struct actor *));
    a->index = (uint32_t)m->n_actors;
    a->process = ACTOR_NONE;
    m->actors[m->n_actors++] = a;
    return a;
}

/* An actor of a stream that has ended, which the maker knows, goes on as the new one. */
struct actor *actor_make(struct model *m, const struct actor *maker)
{
    for (size_t i = m->n_free, n = 0; i > 0 && n < 8; i--, n++) {
        struct actor *a = m->actors[m->free_actors[i - 1]];

        if (!actor_knows(maker, a->index, a->epoch))
            continue;
        m->free_actors[i - 1] = m->free_actors[--m->n_free];
        return a;
    }
    return add_actor(m);
}

struct actor *model_host(struct model *m)
{
    uint32_t writer = m->input ? m->input->writer : 0;

    if (!m->host_seen)
        return m->actors[HOST];
    if (writer >= m->n_writers) {
        m->writers = need_array(m->writers, writer + 1u, sizeof(*m->writers));
        memset(m->writers + m->n_writers, 0, (writer + 1u - m->n_writers) * sizeof(*m->writers));
        m->n_writers = writer + 1u;
    }
    if (m->writers[writer] == 0)
        m->writers[writer] = add_actor(m)->index + 1;
    return m->actors[m->writers[writer] - 1];
}

uint32_t model_act(struct model *m, enum act_what what, const struct stream *s)
{
    const struct model_input *in = m->input;
    struct act act = {
        .what = (uint8_t)what,
        .process = in->process,
        .place = in->place,
        .stream = s ? s->world : WORLD_NONE,
        .thread = in->thread,
        .ordinal = s ? ++((struct stream *)s)->n_acts : 0,
        .range = in->range,
    };

    return acts_add(&m->acts, &act);
}

/* ------------------------------------------------------------------------------------- records */

void model_take(struct model *m, const struct model_input *in)
{
    struct process *p = &m->processes[in->process];
    uint8_t kind = in->r->kind;

    m->input = in;
    if (kind >= CHECK_KINDS)
        return;
    if (task_takers[kind])
        task_takers[kind](m, p);
    else if (event_takers[kind])
        event_takers[kind](m, p);
    else if (memory_takers[kind])
        memory_takers[kind](m, p);
    else if (session_takers[kind])
        session_takers[kind](m, p);
    m->input = NULL;
}

void model_end_process(struct model *m, uint32_t process)
{
    struct world_process *w = &m->world->processes[process];
    struct process *p = &m->processes[process];

    /* Others may still wait for what a process that was killed has done. */
    w->lost = p->in_session && !w->ended;
    if (w->lost)
        find_leaks(m, p);
    else
        session_end(m, p);
}

void model_end(struct model *m)
{
    for (size_t i = 0; i < m->n_processes; i++)
        for (struct stream *s = m->processes[i].streams; s; s = s->hh.next)
            stream_force(m, s, UINT64_MAX);
}

void model_init(struct model *m, struct world *w, struct findings *f, bool host_seen)
{
    memset(m, 0, sizeof(*m));
    m->world = w;
    m->findings = f;
    m->kinds = ~0u;
    m->host_seen = host_seen;
    acts_init(&m->acts, w);
    m->n_processes = w->n_processes;
    m->processes = need_zeroed(w->n_processes, sizeof(*m->processes));
    for (size_t i = 0; i < m->n_processes; i++)
        m->processes[i].index = (uint32_t)i;
    add_actor(m);
}

static void free_actors(struct model *m)
{
    for (size_t i = 0; i < m->n_actors; i++) {
        clock_unref(m->actors[i]->known);
        free(m->actors[i]);
    }
    free(m->actors);
    free(m->free_actors);
    free(m->writers);
}

static void free_shared(struct model *m)
{
    struct handle *h, *next;
    struct memory *y, *next_memory;

    HASH_ITER (hh, m->shared_notifies, h, next)
        handle_free(m, &m->shared_notifies, h);
    HASH_ITER (hh, m->segments, y, next_memory)
        memory_unref(m, y);
    handovers_free(m);
}

void model_deinit(struct model *m)
{
    struct operation *o;

    for (size_t i = 0; i < m->n_processes; i++)
        process_free(m, &m->processes[i]);
    free_shared(m);
    while ((o = m->spare)) {
        m->spare = o->next;
        free(o);
    }
    free_actors(m);
    free(m->processes);
    acts_deinit(&m->acts);
}
