#include "daemon/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/failure.h"
#include "proto/util/clock.h"

/*
 * Words of a doorbell that are looked at per turn. A session can make the engine do that much by
 * ringing alone, which must be well below a slice.
 */
#define COLLECT_WORDS 2
/* Doorbells without a task: an honest client's last one may come too late, but not more. */
#define SPURIOUS_MAX 1000

void watch_attach(struct engine *e, struct attach *a, uint64_t now)
{
    a->idle_since = now;
    if (a->watched)
        return;
    a->watched = true;
    if (!a->user->watched)
        DL_APPEND(e->users, a->user);
    DL_APPEND(a->user->watched, a);
    atomic_store(&a->bell->watched, 1);
}

static void unlist_attach(struct engine *e, struct attach *a)
{
    a->watched = false;
    DL_DELETE(a->user->watched, a);
    if (!a->user->watched)
        DL_DELETE(e->users, a->user);
}

static void watch_stream(struct stream *s, uint64_t now)
{
    s->run = RUN_ACTIVE;
    s->rung = true;
    s->idle_since = now;
    DL_APPEND(s->attach->active, s);
    atomic_store_explicit(&s->ctrl->watched, 1, memory_order_relaxed);
}

/* --- doorbells --- */

static bool collect_word(struct engine *e, struct attach *a, unsigned w, uint64_t now)
{
    uint64_t bits = atomic_exchange(&a->bell->word[w], 0);
    bool found = false;

    KILL_HERE(BELL_TAKEN);
    for (; bits; bits &= bits - 1) {
        struct stream *s =
            slots_get(&a->session->streams, w * 64 + (unsigned)__builtin_ctzll(bits));

        if (!s || s->attach != a)
            continue;
        if (s->run == RUN_IDLE) {
            watch_stream(s, now);
            found = true;
        } else if (s->in_callback && execute_callback_done(s)) {
            engine_resume(e, s);
            found = true;
        }
    }
    return found;
}

bool watch_collect(struct engine *e, struct attach *a, uint64_t now)
{
    bool found = failure_can_retry(a) && failure_retry(a);

    /* Before the words: a bit raised after this exchange raises the summary again. */
    if (a->words == 0 && atomic_load_explicit(&a->bell->summary, memory_order_relaxed) != 0) {
        a->words = atomic_exchange(&a->bell->summary, 0);
        KILL_HERE(SUMMARY_TAKEN);
    }
    for (unsigned n = 0; n < COLLECT_WORDS && a->words; n++) {
        found |= collect_word(e, a, (unsigned)__builtin_ctzll(a->words), now);
        a->words &= a->words - 1;
    }
    if (found)
        a->idle_since = now;
    return found;
}

/*
 * A spurious doorbell: it rang, and there was no task. A client that rings all the time keeps the
 * engine from its sleep. No honest client does so, and the session is ended: by the control thread.
 * To shut its socket here would wake all who watch the other end, and a client can have very many.
 */
static void count_spurious(struct attach *a)
{
    if (++a->spurious < SPURIOUS_MAX || a->faulty)
        return;
    a->faulty = true;
    log_client_fault(&a->session->log,
                     "rings its doorbell again and again without a task: session ended");
    job_send(&a->fault);
}

void watch_handle_doorbells(struct engine *e, const struct epoll_event *events, int n, uint64_t now)
{
    for (int i = 0; i < n; i++) {
        uint64_t token = events[i].data.u64;
        struct attach_ref *ref;

        if (token == WATCH_TOKEN_WAKE)
            continue;
        ref = slots_get_generation(&e->refs, (uint32_t)token, (uint32_t)(token >> 32));
        if (ref) {
            watch_attach(e, ref->attach, now);
            if (!watch_collect(e, ref->attach, now) && !ref->attach->active && !ref->attach->words)
                count_spurious(ref->attach);
        }
    }
}

/* NULL: no memory. */
static struct engine_user *take_user(struct engine *e, uid_t uid)
{
    struct engine_user *user;

    HASH_FIND(hh, e->by_uid, &uid, sizeof(uid), user);
    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->uid = uid;
        HASH_ADD(hh, e->by_uid, uid, sizeof(uid), user);
        if (!user->hh.tbl) {
            free(user);
            return NULL;
        }
    }
    user->attaches++;
    return user;
}

static void leave_user(struct engine *e, struct engine_user *user)
{
    if (--user->attaches > 0)
        return;
    HASH_DEL(e->by_uid, user);
    free(user);
}

/* Release: a client that sees the device back sees as done what was passed while it was lost. */
static void set_mode(const struct engine *e, const struct attach *a)
{
    atomic_store_explicit(&a->bell->mode, a->lost != 0 ? (uint32_t)a->lost : e->mode,
                          memory_order_release);
}

int engine_attach(struct engine *e, struct attach *a)
{
    struct attach_ref *ref;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    int r = 0;

    engine_lock(e);
    a->user = take_user(e, a->session->user->payer->uid);
    ref = a->user ? slots_take(&e->refs) : NULL;
    if (!ref) {
        r = -ENOMEM;
        goto out;
    }
    ref->attach = a;
    set_mode(e, a);
    slots_publish(ref);
    /* Edge-triggered: every write to an eventfd is an edge, so the counter never has to be read. */
    ev.data.u64 = (uint64_t)slot_generation(ref) << 32 | ref->slot.number;
    if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, a->fd, &ev) < 0) {
        r = -errno;
        slots_put(&e->refs, ref);
        goto out;
    }
    a->ref = ref;
out:
    if (r < 0 && a->user)
        leave_user(e, a->user);
    engine_unlock(e);
    return r;
}

void engine_detach(struct engine *e, struct attach *a)
{
    if (!a->ref)
        return;
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, a->fd, NULL);
    slots_put(&e->refs, a->ref);
    a->ref = NULL;
    if (a->watched)
        unlist_attach(e, a);
    leave_user(e, a->user);
}

void engine_each_attach(struct engine *e, void (*fn)(struct attach *a))
{
    struct attach_ref *ref;

    slots_foreach (&e->refs, i, ref)
        fn(ref->attach);
}

void engine_set_mode(struct engine *e, uint32_t mode)
{
    struct attach_ref *ref;

    e->mode = mode;
    slots_foreach (&e->refs, i, ref)
        set_mode(e, ref->attach);
}

void engine_set_lost(struct attach *a, int32_t code)
{
    struct engine *e = a->device->engine;

    engine_lock(e);
    a->lost = code;
    set_mode(e, a);
    if (code != 0)
        engine_unpark_attach(e, a, code);
    engine_unlock(e);
}

bool watch_drop_stream(struct stream *s)
{
    if (!stream_unwatch(s->ctrl, &s->ring[s->live->position & (s->depth - 1)], s->live->position))
        return false;
    DL_DELETE(s->attach->active, s);
    s->run = RUN_IDLE;
    if (s->rung)
        count_spurious(s->attach);
    return true;
}

bool watch_drop_attach(struct engine *e, struct attach *a, uint64_t now)
{
    if (!doorbell_unwatch(a->bell) || a->words || failure_can_retry(a)) {
        atomic_store(&a->bell->watched, 1);
        a->idle_since = now;
        return false;
    }
    unlist_attach(e, a);
    return true;
}

void watch_poll(struct engine *e, uint64_t now)
{
    struct epoll_event events[WATCH_EVENTS];

    e->last_poll = now;
    watch_handle_doorbells(e, events, epoll_wait(e->epoll, events, WATCH_EVENTS, 0), now);
}
