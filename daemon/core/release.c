#include "daemon/core/release.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/kept/release_record.h"

enum release_kind { RELEASE_EVENT, RELEASE_IPC_EVENT, RELEASE_BINARY };

void (*release_free_binary)(struct session *session, uint32_t slot);

/* Waits for one fence after the other: one waiter, however many fences. */
struct release {
    struct waiter waiter; /* on the stream of fences[next] */
    struct kept kept;
    struct session *session;
    enum release_kind kind;
    uint32_t slot;               /* of the object, in the session's table of this kind */
    struct job job;              /* a fence was passed */
    struct release *prev, *next; /* session->releases */
    size_t n;
    size_t at;
    struct fence fences[];
};

/* Any thread, under the lock of a stream's waitlist: only hand it on. */
static void fence_fired(struct waiter *w)
{
    struct release *r = (struct release *)w;

    job_send(&r->job);
}

/* The slot is still the object's: nothing else frees what is being released. */
static void free_object(struct session *session, enum release_kind kind, uint32_t slot)
{
    switch (kind) {
    case RELEASE_EVENT:
        event_obj_free(session, slots_get(&session->events, slot));
        break;
    case RELEASE_IPC_EVENT:
        ipc_open_release(slots_get(&session->ipc, slot));
        break;
    case RELEASE_BINARY:
        release_free_binary(session, slot);
        break;
    }
}

static void finish_release(struct release *r)
{
    DL_DELETE(r->session->releases, r);
    kept_drop(&r->kept);
    KILL_HERE(RELEASE_PASSED);
    assert(r->session->n_fences >= r->n);
    r->session->n_fences -= r->n;
    free_object(r->session, r->kind, r->slot);
    free(r);
}

/* Wait for the next stream that has not passed yet; without one, finish. */
static void await_next_fence(struct release *r)
{
    for (; r->at < r->n; r->at++) {
        struct stream *s = slots_get(&r->session->streams, r->fences[r->at].stream);
        uint64_t position = r->fences[r->at].position;

        if (!s || atomic_load(&s->live->done) >= position)
            continue;
        waitlist_add(&s->passed, &r->waiter, position);
        if (atomic_load(&s->live->done) < position || !waitlist_remove(&s->passed, &r->waiter))
            return;
    }
    finish_release(r);
}

static bool run_passed(struct job *job)
{
    await_next_fence((struct release *)((char *)job - offsetof(struct release, job)));
    return false;
}

/* fences NULL: only count. */
static size_t fill_all_fences(struct session *session, struct fence *fences, size_t max)
{
    struct stream *s;
    size_t n = 0;

    slots_foreach (&session->streams, i, s) {
        uint64_t end = stream_end(s);

        if (end <= atomic_load(&s->live->done) || n == max)
            continue;
        if (fences)
            fences[n] = (struct fence){.stream = s->slot.number, .position = end};
        n++;
    }
    return n;
}

static size_t fill_fences(struct session *session, struct fence *out, const struct fence *fences,
                          size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        struct stream *s = slots_get(&session->streams, fences[i].stream);

        if (!s)
            continue;
        out[used] = fences[i]; /* one beyond the end would never be passed */
        if (out[used].position > stream_end(s))
            out[used].position = stream_end(s);
        used++;
    }
    return used;
}

static size_t bytes_of_record(size_t n)
{
    const struct release_record *r = NULL;

    return sizeof(*r) + n * sizeof(r->fence[0]);
}

/* It does not change: what was passed is seen again. */
static size_t write_record(const struct kept *kept, void *record)
{
    const struct release *release =
        (const struct release *)((const char *)kept - offsetof(struct release, kept));
    struct release_record *r = record;

    r->session = release->session->id;
    r->kind = release->kind;
    r->slot = release->slot;
    r->n = release->n;
    for (size_t i = 0; i < release->n; i++) {
        r->fence[i].position = release->fences[i].position;
        r->fence[i].stream = release->fences[i].stream;
    }
    return bytes_of_record(release->n);
}

/* With room for so many fences. NULL: no memory. */
static struct release *make_release(struct session *session, enum release_kind kind, uint32_t slot,
                                    size_t n)
{
    struct release *r = calloc(1, sizeof(*r) + n * sizeof(r->fences[0]));

    if (!r)
        return NULL;
    r->waiter.fire = fence_fired;
    r->job = (struct job){run_passed, "release object", &session->owner};
    r->session = session;
    r->kind = kind;
    r->slot = slot;
    return r;
}

static void list_release(struct release *r)
{
    r->session->n_fences += r->n;
    DL_APPEND(r->session->releases, r);
}

static enum cause release_when_passed(struct session *session, const struct fence *fences, size_t n,
                                      bool all, enum release_kind kind, uint32_t slot)
{
    size_t max = all ? fill_all_fences(session, NULL, SIZE_MAX) : n;
    struct release *r;

    if (max == 0) {
        free_object(session, kind, slot);
        return CAUSE_NONE;
    }
    if (max > SESSION_FENCES_MAX - session->n_fences)
        return CAUSE_FENCES;
    r = make_release(session, kind, slot, max);
    if (!r || !kept_make(&r->kept, KEPT_RELEASE, bytes_of_record(max), write_record)) {
        free(r);
        return CAUSE_MEMORY;
    }
    r->n =
        all ? fill_all_fences(session, r->fences, max) : fill_fences(session, r->fences, fences, n);
    list_release(r);
    await_next_fence(r);
    return CAUSE_NONE;
}

bool release_restore(struct server *server, struct kept_cell *cell)
{
    const struct release_record *r = (const struct release_record *)cell->record;
    struct session *session = session_by_id(r->session);
    struct release *release;

    (void)server;
    if (!session || r->n > SESSION_FENCES_MAX || cell_bytes(cell) < bytes_of_record(r->n))
        return false;
    release = make_release(session, (enum release_kind)r->kind, r->slot, r->n);
    if (!release || !kept_bind(&release->kept, cell, cell_bytes(cell), write_record))
        return false;
    release->n = r->n;
    for (size_t i = 0; i < r->n; i++)
        release->fences[i] = (struct fence){.stream = (uint32_t)r->fence[i].stream,
                                            .position = r->fence[i].position};
    list_release(release);
    return true;
}

void releases_finish_restoring(struct server *server)
{
    struct release *r, *next;
    struct session *session;

    DL_FOREACH (server->sessions, session)
        DL_FOREACH_SAFE (session->releases, r, next)
            await_next_fence(r);
}

enum cause release_event(struct session *session, struct event_obj *event,
                         const struct fence *fences, size_t n, bool all)
{
    enum cause cause;

    /* Before it is freed, which may be at once. */
    event_obj_set_closing(event, true);
    cause = release_when_passed(session, fences, n, all, RELEASE_EVENT, event->slot.number);
    if (cause != CAUSE_NONE)
        event_obj_set_closing(event, false);
    return cause;
}

enum cause release_ipc_event(struct ipc_open *open, const struct fence *fences, size_t n, bool all)
{
    enum cause cause;

    open->state = IPC_OPEN_CLOSING;
    kept_touch(&open->kept);
    cause =
        release_when_passed(open->session, fences, n, all, RELEASE_IPC_EVENT, open->slot.number);
    if (cause != CAUSE_NONE)
        open->state = IPC_OPEN_USED;
    return cause;
}

enum cause release_binary(struct session *session, uint32_t slot)
{
    return release_when_passed(session, NULL, 0, true, RELEASE_BINARY, slot);
}

/*
 * The session's streams are gone, and have fired everything: each release is sent, and none can
 * be fired any more.
 */
bool release_flush(struct session *session)
{
    struct release *r = session->releases;
    bool sent = r && job_cancel(&r->job);

    if (!r)
        return true;
    assert(sent);
    (void)sent;
    finish_release(r);
    return false;
}
