#include "daemon/buffers/pool.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/buffers/segment.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/buffers/peer.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/record.h"
#include "daemon/kept/restored.h"
#include "proto/util/clock.h"

#define LOOK_DELAY      NSEC_PER_SEC
#define LOOK_PAUSE      (100 * NSEC_PER_MSEC) /* of an orphan, between two looks */
#define ORPHANS_AT_ONCE 64   /* that are told to look, before clients have their turn */
#define TOLD_AT_ONCE    1024 /* segments, each time that a client tells npud */

static bool run_orphans(struct job *job);

int pools_init(struct pools *pools, struct job_owner *owner, const struct pools_above *above)
{
    pools->above = above;
    pools->look_at_orphans = (struct job){run_orphans, "orphaned pools", owner};
    /* As peers_init(): only the pages with segments in them are ever touched. */
    pools->table = calloc(1, sizeof(*pools->table));
    return pools->table ? 0 : -ENOMEM;
}

static void pool_free(struct pool *pool)
{
    struct server *server = pool->server;
    struct segment *s, *next;

    DL_FOREACH_SAFE (pool->segments, s, next)
        segment_free(s);
    assert(pool->n_segments == 0 && pool->bytes == 0);
    if (pool->on_look)
        event_free(pool->on_look);
    job_cancel(&pool->job);
    DL_DELETE(server->pools->list, pool);
    if (!pool->session) {
        DL_DELETE2(server->pools->orphans, pool, orphan_prev, orphan_next);
        server->pools->n_orphans--;
    }
    kept_drop(&pool->kept);
    user_unref(pool->user);
    batch_job_unref(pool->batch_job);
    free(pool);
}

void pools_deinit(struct pools *pools)
{
    struct pool *pool, *next;

    DL_FOREACH_SAFE (pools->list, pool, next)
        pool_free(pool);
    job_cancel(&pools->look_at_orphans);
    free(pools->table);
    *pools = (struct pools){0};
}

/* --- giving memory back --- */

/*
 * A look is due, so clients need not ask for one. In a large pool those of the segments that come
 * later do ask, and each time further ones are told: a step is short, and a client that frees
 * thousands of segments sends few requests.
 */
static void tell_clients(struct pool *pool)
{
    for (unsigned n = 0; pool->next_told && n < TOLD_AT_ONCE; n++) {
        atomic_store_explicit(&pool->next_told->view.news->look_due, 1, memory_order_relaxed);
        pool->next_told = pool->next_told->next;
    }
}

static void schedule_look(struct pool *pool, uint64_t ns)
{
    struct timeval in = {(time_t)(ns / NSEC_PER_SEC),
                         (suseconds_t)(ns % NSEC_PER_SEC / NSEC_PER_USEC)};

    event_add(pool->on_look, &in);
}

/* Worth giving something back of. */
static bool is_large(const struct pool *pool)
{
    return !pool->session || pool->bytes > POOL_KEPT;
}

/*
 * Or one of its segments drains, in which npud, or a client that has died since, may have freed the
 * last buffer. Of a pool that is not large this looks at few segments: none is smaller than the
 * words of SEGMENT_REFS_MIN slots.
 */
static bool is_worth_a_look(const struct pool *pool)
{
    const struct segment *s;

    if (is_large(pool))
        return true;
    DL_FOREACH (pool->segments, s)
        if (segment_drains(s))
            return true;
    return false;
}

/*
 * From here on, a client that frees something there tells npud again, unless another look is due.
 */
static void begin_segment(struct segment *s)
{
    atomic_store_explicit(&s->view.news->look_due, s->pool->look != POOL_LOOK_NONE,
                          memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

/* One that became due while the pool was looked at, for a search too, waited for that to end. */
static void look_again(struct pool *pool)
{
    if (pool->look == POOL_LOOK_DUE && !event_pending(pool->on_look, EV_TIMEOUT, NULL))
        schedule_look(pool, pool->session ? LOOK_DELAY : LOOK_PAUSE);
}

/* In slices, also of one segment. True: the round is over. */
static bool look_at_segments(struct pool *pool)
{
    struct schedule *schedule = &pool->server->schedule;

    while (pool->next_look) {
        struct segment *s = pool->next_look, *next = s->next;

        if (!s->look.begun)
            begin_segment(s);
        if ((s->look.begun || s->look_asked || pool->round != 0 || is_large(pool) ||
             segment_drains(s)) &&
            segment_look(s) == SEGMENT_MORE)
            break;
        /* Moved on already if the segment has gone. */
        if (pool->next_look == s) {
            s->look_asked = false;
            pool->next_look = next;
        }
        if (schedule_late(schedule))
            break;
    }
    pool->looked_ns = clock_ns();
    if (pool->next_look)
        return false;
    if (pool->round != 0)
        pool->round_done = pool->round;
    pool->round = 0;
    look_again(pool);
    return true;
}

void pool_pass_over(struct segment *s)
{
    if (s->pool->next_look == s)
        s->pool->next_look = s->next;
    if (s->pool->next_told == s)
        s->pool->next_told = s->next;
}

void pool_look_at(struct segment *s)
{
    struct pool *pool = s->pool;

    if (pool->next_look && pool->next_look != s) {
        pool_pass_over(s);
        DL_DELETE(pool->segments, s);
        DL_PREPEND_ELEM(pool->segments, pool->next_look, s);
    }
    pool->next_look = s;
    s->look_asked = true;
    job_list(&pool->job);
}

/* --- room for a request --- */

/*
 * Searches that go on at the same time share the rounds. A round that had begun before the search
 * has passed segments in which something may have been freed since. True: one that began later is
 * over.
 */
static bool look_at_all(struct pool *pool, uint64_t search)
{
    while (pool->round_done < search) {
        if (pool->round == 0) {
            pool->round = pool->server->pools->last_search;
            pool->next_look = pool->segments;
        }
        if (!look_at_segments(pool)) {
            job_list(&pool->job); /* what has begun goes on, also if the session ends */
            return false;
        }
    }
    return true;
}

/* True: all of it was looked at. */
static bool search_pool(struct pool *pool, const struct room_search *search, bool *found)
{
    uint32_t n = pool->n_segments;
    bool all = look_at_all(pool, search->number);

    *found |= pool->n_segments < n;
    if (!pool->session && !pool->segments)
        job_list(&pool->job); /* which frees it: no pool goes while a search passes over them */
    return all;
}

/* Goes on with p, or with the oldest one if p is NULL. NULL: it has been at all of them. */
static struct pool *search_at(struct pools *pools, struct room_search *search, struct pool *p)
{
    if (!p && !search->wrapped) {
        search->wrapped = true;
        p = pools->list;
    }
    if (p && search->wrapped && p->number >= search->first)
        p = NULL;
    search->at = p ? p->number : UINT64_MAX;
    return p;
}

enum room pools_search_room(struct pools *pools, struct room_search *search, struct pool *own,
                            const struct user *payer)
{
    struct pool *p = NULL;
    bool found = false;

    if (search->number == 0)
        *search = (struct room_search){
            .number = ++pools->last_search, .first = pools->room_at, .at = pools->room_at};
    if (!own || search_pool(own, search, &found))
        p = search_at(pools, search, pool_from(pools, search->at));
    while (p && ((payer && p->user->payer != payer) || search_pool(p, search, &found)) &&
           !schedule_late(&p->server->schedule)) {
        pools->room_at = p->number + 1;
        p = search_at(pools, search, p->next);
    }
    if (found)
        return ROOM_FOUND;
    return search->at == UINT64_MAX ? ROOM_NONE : ROOM_MORE;
}

static bool run_look(struct job *job)
{
    struct pool *pool = (struct pool *)((char *)job - offsetof(struct pool, job));

    if (!pool->next_look) {
        if (pool->look == POOL_LOOK_DUE)
            pool->look = POOL_LOOK_NONE;
        pool->next_look = pool->segments;
    }
    if (!look_at_segments(pool))
        return true;
    if (!pool->session && !pool->segments)
        pool_free(pool);
    return false;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct pool *pool = arg;

    (void)fd;
    (void)what;
    job_list(&pool->job);
}

void pool_look_soon(struct pool *pool)
{
    uint64_t wait = LOOK_DELAY;

    if (pool->look == POOL_LOOK_NONE)
        pool->next_told = pool->segments;
    tell_clients(pool);
    if (pool->look == POOL_LOOK_DUE)
        return;
    pool->look = is_worth_a_look(pool) ? POOL_LOOK_DUE : POOL_LOOK_SMALL;
    if (pool->look == POOL_LOOK_SMALL)
        return;
    if (!pool->session)
        wait = clock_ns() - pool->looked_ns < LOOK_PAUSE ? LOOK_PAUSE : 0;
    if (!pool->next_look)
        schedule_look(pool, wait);
}

/* Clients have not told npud what they freed while the pool was small. */
void pool_grown(struct pool *pool)
{
    if (pool->look == POOL_LOOK_SMALL && is_large(pool))
        pool_look_soon(pool);
}

static void look_at_some_orphans(struct pools *pools)
{
    if (pools->orphans_due > pools->n_orphans)
        pools->orphans_due = pools->n_orphans;
    for (unsigned n = 0; n < ORPHANS_AT_ONCE && pools->orphans_due > 0; n++) {
        struct pool *pool = pools->orphans;

        if (n > 0 && schedule_late(&pool->server->schedule))
            break;
        pools->orphans_due--;
        DL_DELETE2(pools->orphans, pool, orphan_prev, orphan_next);
        DL_APPEND2(pools->orphans, pool, orphan_prev, orphan_next);
        pool_look_soon(pool);
    }
}

static bool run_orphans(struct job *job)
{
    struct pools *pools = (struct pools *)((char *)job - offsetof(struct pools, look_at_orphans));

    look_at_some_orphans(pools);
    return pools->orphans_due > 0;
}

void pools_look_at_orphans(struct pools *pools)
{
    pools->orphans_due = pools->n_orphans;
    look_at_some_orphans(pools);
    if (pools->orphans_due > 0)
        job_list(&pools->look_at_orphans);
}

/* --- life --- */

#define POOL_MEMBERS(DO)                                                                           \
    DO##SAME(number, number);                                                                      \
    DO##SAME(session_id, session_id);                                                              \
    DO##DERIVED(owner, o->session ? o->session->peer_id : PEER_NPUD);                              \
    DO##DERIVED(uid, o->user->uid);                                                                \
    DO##SAME(pid, pid);                                                                            \
    DO##DERIVED(job, batch_job_number(o->batch_job));

RECORD(static, pool, POOL, struct pool, kept, struct pool_record, POOL_MEMBERS)

/* Takes over the reference to the user. NULL: no memory. */
static struct pool *make_pool(struct server *server, struct user *user)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return NULL;
    pool->on_look = event_new(server->base, -1, 0, on_look, pool);
    if (!pool->on_look) {
        free(pool);
        return NULL;
    }
    pool->user = user;
    pool->job = (struct job){run_look, "look at pool", &user->payer->schedule.leftovers};
    pool->server = server;
    DL_APPEND(server->pools->list, pool);
    return pool;
}

struct pool *pool_get(struct session *session)
{
    struct peer *peer = peer_get(session);
    struct server *server = session->server;
    struct pool *pool;

    if (!peer || peer->pool)
        return peer ? peer->pool : NULL;
    pool = make_pool(server, session->user);
    if (!pool)
        return NULL;
    user_hold(pool->user);
    pool->batch_job = batch_job_hold(session->batch_job);
    pool->session = session;
    pool->number = ++server->last->pool;
    pool->session_id = session->id;
    pool->pid = session->pid;
    if (!pool_keep(pool)) {
        pool_free(pool);
        return NULL;
    }
    return peer->pool = pool;
}

/* --- for npuctl --- */

#define COUNT_SLOTS 2048 /* between two looks at the clock: 20 us */

static void count_slots(const struct segment *s, uint32_t from, uint32_t to,
                        struct pool_census *census)
{
    for (; from < to; from++) {
        enum mbuf_state state =
            mbuf_state(atomic_load_explicit(&s->view.mbufs[from].word, memory_order_relaxed));

        if (state == MBUF_FREE || state > MBUF_BLOCK)
            continue;
        census->slots[state]++;
        if (from < s->view.n_data)
            census->slots[MBUF_FREE]--; /* it was counted when the segment was begun */
    }
}

static void begin_to_count(const struct segment *s, struct pool_count *count)
{
    struct pool_census *census = &count->census;
    uint32_t others = s->n_maps - (s->pool->session ? 1 : 0);

    count->segment = s->view.number;
    count->slot = 0;
    census->bytes += s->size;
    census->draining |= segment_drains(s);
    if (others > census->others)
        census->others = others;
    census->slots[MBUF_FREE] += s->view.n_data;
}

/* True: to its end. */
static bool count_segment(const struct segment *s, struct pool_count *count, uint64_t until)
{
    uint32_t from, to;

    if (count->segment != s->view.number)
        begin_to_count(s, count);
    for (from = count->slot; segment_touched(s, &from, &to); from = to) {
        if (to - from > COUNT_SLOTS)
            to = from + COUNT_SLOTS;
        count_slots(s, from, to, &count->census);
        count->slot = to;
        if (clock_ns() >= until)
            return false;
    }
    count->slot = segment_slots(&s->view);
    return true;
}

/*
 * By number: a look may move a segment within the list. The search is short beside the count, which
 * asks the kernel about each segment.
 */
static struct segment *next_to_count(const struct pool *pool, const struct pool_count *count)
{
    struct segment *s, *next = NULL;

    DL_FOREACH (pool->segments, s) {
        if (s->view.number == count->segment && count->slot < segment_slots(&s->view))
            return s;
        if (s->view.number > count->segment && (!next || s->view.number < next->view.number))
            next = s;
    }
    return next;
}

bool pool_count(struct pool *pool, struct pool_count *count, uint64_t until)
{
    struct segment *s;
    bool begun = false;

    if (count->pool != pool->number)
        *count = (struct pool_count){.pool = pool->number};
    while ((s = next_to_count(pool, count))) {
        if (begun && clock_ns() >= until)
            return false;
        begun = true;
        if (!count_segment(s, count, until))
            return false;
    }
    return true;
}

struct pool *pool_from(struct pools *pools, uint64_t number)
{
    struct pool *pool = pools->list;

    while (pool && pool->number < number)
        pool = pool->next;
    return pool;
}

/* --- the end --- */

static void become_orphan(struct pool *pool)
{
    pool->session = NULL;
    DL_APPEND2(pool->server->pools->orphans, pool, orphan_prev, orphan_next);
    pool->server->pools->n_orphans++;
}

void pool_leave(struct peer *peer)
{
    struct pool *pool = peer->pool;

    if (!pool)
        return;
    peer->pool = NULL;
    become_orphan(pool);
    kept_touch(&pool->kept);
    /*
     * From here on, a client that frees its last buffer of a segment tells npud. A client that did
     * so before is seen by the look below.
     */
    event_del(pool->on_look);
    pool->next_look = NULL;
    pool->round = 0;
    pool->look = POOL_LOOK_NONE;
    job_list(&pool->job);
}

/* --- over the end of npud --- */

static struct restored restored;

bool pool_restore(struct server *server, struct kept_cell *cell)
{
    struct pool_record r;
    struct session *session;
    struct peer *peer;
    struct user *user;
    struct pool *pool;

    kept_read(cell, &r, sizeof(r));
    user = user_ref(&server->users, r.uid);
    pool = user ? make_pool(server, user) : NULL;
    if (!pool || !batch_job_take(&server->batch_jobs, r.job, &pool->batch_job) ||
        !restored_add(&restored, r.number, pool) || !pool_back(server, pool, cell, &r))
        return false;
    if (r.owner == PEER_NPUD) {
        become_orphan(pool);
        return true;
    }
    session = peer_session(server, r.owner);
    peer = session ? peer_get(session) : NULL;
    if (!peer)
        return false;
    pool->session = session;
    peer->pool = pool;
    return true;
}

struct pool *pool_restored(uint64_t number)
{
    return restored_find(&restored, number);
}

void pools_finish_restoring(struct server *server)
{
    struct pool *pool, *next;

    restored_forget(&restored);
    DL_FOREACH_SAFE (server->pools->list, pool, next) {
        segments_finish_restoring(pool);
        pool_look_soon(pool);
        job_list(&pool->job);
    }
}
