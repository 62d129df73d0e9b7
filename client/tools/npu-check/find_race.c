/* Two accesses without an order between them, and the wait that would have made one. */
#include "client/tools/npu-check/model.h"

/* The latest wait for something that the first's stream has recorded too early. */
static const struct stream_wait *find_early_wait(const struct stream *s,
                                                 const struct history *first)
{
    for (uint64_t i = s->n_waits; i > 0 && i + STREAM_WAITS > s->n_waits; i--) {
        const struct stream_wait *w = &s->wait[(i - 1) % STREAM_WAITS];

        if (w->actor == first->actor && w->epoch < first->epoch)
            return w;
    }
    return NULL;
}

static void set_wait(struct model *m, struct finding *f, const struct stream *s,
                     const struct history *first)
{
    const struct stream_wait *w = find_early_wait(s, first);

    f->missing.kind = w ? MISSING_WAIT_EARLIER : MISSING_WAIT;
    if (!w)
        return;
    f->missing.wait = acts_get(&m->acts, w->wait);
    f->missing.record = acts_get(&m->acts, w->record);
    f->missing.event = w->what;
    f->missing.event_number = (uint32_t)w->number; /* a notify's identity also has its device */
}

static bool is_host(const struct act *a)
{
    return a->stream == WORLD_NONE;
}

static void set_missing(struct model *m, struct finding *f, const struct history *first,
                        const struct actor *a)
{
    if (!is_host(&f->first) && !is_host(&f->second) && a->stream)
        set_wait(m, f, a->stream, first);
    else if (m->host_seen && is_host(&f->first))
        f->missing.kind = MISSING_HOST_EDGE;
    else
        f->missing.kind = MISSING_SYNCHRONISE;
}

static void swap_acts(struct finding *f)
{
    struct act a = f->first;

    f->first = f->second;
    f->second = a;
}

void find_race(struct model *m, const struct history *first, enum act_what what,
               const struct actor *a, uint32_t act, const struct byte_range *bytes)
{
    struct finding f = {.kind = FINDING_RACE};

    f.first = acts_get(&m->acts, first->act);
    f.second = acts_get(&m->acts, act);
    if (f.first.what == ACT_SUBMIT)
        f.first.what = (uint8_t)what;
    if (f.second.what == ACT_SUBMIT)
        f.second.what = bytes->use->how & CHECK_WRITE ? ACT_WRITE : ACT_READ;
    find_set_memory(m, &f, bytes);
    /* All that a thread does before it submits a task comes before that: this was done after it. */
    if (is_host(&f.first) && !is_host(&f.second) && !m->host_seen)
        swap_acts(&f);
    set_missing(m, &f, first, a);
    find_add(m, &f);
}
