#include "client/buffers/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/buffers/queue_object.h"
#include "client/buffers/mapped_ring.h"
#include "client/buffers/retire.h"
#include "client/buffers/segment.h"
#include "client/core/lock_order.h"
#include "client/runtime/session.h"
#include "client/core/wait.h"

/*
 * Entries are made when an id is first used and stay as long as the session, so that finding one
 * takes no lock.
 */
static _Atomic uint32_t ids_end = QUEUE_IDS; /* of all ids that this process can have met */

/* A request that is answered by a ring. 0 with *ringp and *id, or the ACL error. */
static int request_ring(struct session *s, const char *function, Npud__Request *request,
                        struct ring **ringp, uint32_t *id)
{
    Npud__Reply *reply = NULL;
    int fds[QUEUE_FILES] = {-1, -1, -1};
    int error = session_request_fds(s, function, request, &reply, fds, QUEUE_FILES);

    if (error != 0)
        return error;
    *ringp = mapped_ring_new(reply->queue, fds);
    retire_begin(s);
    *id = reply->queue->queue;
    for (int i = 0; i < QUEUE_FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    session_reply_free(reply);
    if (*ringp)
        return 0;
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map queue %u (%m)", function, *id);
}

/* --- the table --- */

static struct queues *queues_of(struct session *s, bool make)
{
    struct queues *t = atomic_load_explicit(&s->queues, memory_order_acquire), *mine;

    if (t || !make)
        return t;
    mine = calloc(1, sizeof(*mine));
    if (mine) {
        lock_init(&mine->retired_lock, LOCK_RETIRED);
        lock_init(&mine->name_lock, LOCK_NAMES);
    }
    if (!mine || atomic_compare_exchange_strong(&s->queues, &t, mine))
        return mine;
    free(mine);
    return t;
}

static struct queue *queue_new(uint32_t id)
{
    struct queue *q = calloc(1, sizeof(*q));

    if (!q)
        return NULL;
    q->id = q->remote = id;
    lock_init(&q->follow_lock, LOCK_FOLLOW);
    return q;
}

/* The entry of an id of this user, made if need be. NULL: no memory, *error set. */
static struct queue *find_entry(struct session *s, const char *function, uint32_t id, int *error)
{
    struct queues *t = queues_of(s, true);
    struct queue *q = t ? atomic_load_explicit(&t->queue[id], memory_order_acquire) : NULL, *mine;

    if (q)
        return q;
    mine = t ? queue_new(id) : NULL;
    if (!mine)
        *error = error_no_memory(function);
    if (!mine || atomic_compare_exchange_strong(&t->queue[id], &q, mine))
        return mine;
    free(mine);
    assert(q);
    return q;
}

/*
 * The entry of another user's queue, made if need be: the next one from QUEUE_IDS on. Under
 * name_lock. NULL: no memory, or *full.
 */
static struct queue *name_entry(struct queues *t, uint32_t owner, uint32_t remote, bool *full)
{
    struct queue *q;
    uint32_t id;

    for (id = QUEUE_IDS; id < QUEUE_LOCAL_IDS; id++) {
        q = atomic_load_explicit(&t->queue[id], memory_order_relaxed);
        if (!q)
            break;
        if (q->owner == owner && q->remote == remote)
            return q;
    }
    *full = id == QUEUE_LOCAL_IDS;
    q = *full ? NULL : queue_new(id);
    if (!q)
        return NULL;
    q->of_user = true;
    q->owner = owner;
    q->remote = remote;
    atomic_store_explicit(&t->queue[id], q, memory_order_release);
    if (atomic_load_explicit(&ids_end, memory_order_relaxed) <= id)
        atomic_store_explicit(&ids_end, id + 1, memory_order_relaxed);
    return q;
}

/* NULL with *error set. */
static struct queue *find_entry_of_user(struct session *s, const char *function, uint32_t owner,
                                        uint32_t remote, int *error)
{
    struct queues *t = queues_of(s, true);
    struct queue *q = NULL;
    bool full = false;

    if (t) {
        pthread_mutex_lock(&t->name_lock);
        q = name_entry(t, owner, remote, &full);
        pthread_mutex_unlock(&t->name_lock);
    }
    if (full)
        *error =
            error_set(ACL_ERROR_RT_OVER_LIMIT,
                      "%s: this process has named %u queues of other users, as many as one may",
                      function, QUEUE_LOCAL_IDS - QUEUE_IDS);
    else if (!q)
        *error = error_no_memory(function);
    return q;
}

static int check_id(const char *function, uint32_t id)
{
    uint32_t end = atomic_load_explicit(&ids_end, memory_order_relaxed);

    if (__builtin_expect(id < end, 1))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: no queue has id %u: ids are 0 to %u",
                     function, id, end - 1);
}

struct queue *queue_find(struct session *s, const char *function, uint32_t id, int *error)
{
    struct queues *t = queues_of(s, false);
    struct queue *q;

    *error = check_id(function, id);
    if (*error != 0)
        return NULL;
    q = t ? atomic_load_explicit(&t->queue[id], memory_order_acquire) : NULL;
    if (__builtin_expect(!q, 0))
        *error = queue_error_unknown(function, id);
    return q;
}

/* Caller holds retired_lock. What no thread uses any more is unmapped. */
static void unmap_retired(struct queues *t)
{
    struct ring **where = t->retired && ring_guard_barrier() ? &t->retired : NULL;

    while (where && *where) {
        struct ring *old = *where;

        if (ring_guard_is_used(old)) {
            where = &old->retired_next;
            continue;
        }
        *where = old->retired_next;
        queue_drop_ring(old);
    }
}

/*
 * It is no queue's any more: unmap it, and others that have been in use until now, unless some
 * thread is still there. That is rare and over soon.
 */
static void retire_ring(struct queues *t, struct ring *ring)
{
    pthread_mutex_lock(&t->retired_lock);
    ring->retired_next = t->retired;
    t->retired = ring;
    unmap_retired(t);
    pthread_mutex_unlock(&t->retired_lock);
}

/* From here on the queue's ring is `ring`, which it takes over; NULL: none. Under follow_lock. */
static void set_ring(struct session *s, struct queue *q, struct ring *ring)
{
    struct ring *old = atomic_exchange(&q->ring, ring);

    if (old)
        retire_ring(queues_of(s, false), old);
}

/* The ring of the queue at this moment, to be dropped. NULL: none. */
static struct ring *use_ring(struct queue *q)
{
    struct ring *ring;

    pthread_mutex_lock(&q->follow_lock);
    ring = q->ring;
    if (ring)
        queue_use_ring(ring);
    pthread_mutex_unlock(&q->follow_lock);
    return ring;
}

static void free_all(struct session *s)
{
    struct queues *t = queues_of(s, false);

    for (uint32_t id = 0; t && id < QUEUE_LOCAL_IDS; id++) {
        struct queue *q = t->queue[id];

        if (q && q->ring)
            queue_drop_ring(q->ring);
        free(q);
    }
    while (t && t->retired) {
        struct ring *ring = t->retired;

        t->retired = ring->retired_next;
        queue_drop_ring(ring);
    }
    free(t);
}

static void close_bells(struct session *s)
{
    struct queues *t = queues_of(s, false);

    for (uint32_t id = 0; t && id < QUEUE_LOCAL_IDS; id++)
        if (t->queue[id] && t->queue[id]->ring)
            queue_bell_close(&t->queue[id]->ring->bell);
}

const struct part queue_part = {.session_leave = free_all, .session_inherited = close_bells};

/* --- attaching --- */

/* Take the ring over, unless it is the one that is known already. Under follow_lock. */
static void adopt_ring(struct session *s, struct queue *q, struct ring *ring)
{
    const struct ring *known = q->ring;

    if (known && known->view.number == ring->view.number && known->life == ring->life &&
        known->rights == ring->rights)
        queue_drop_ring(ring);
    else
        set_ring(s, q, ring);
}

/* Ask npud, and take over the ring that it answers with. Under follow_lock. */
static int attach_queue(struct session *s, const char *function, struct queue *q, uint32_t *rights)
{
    REQUEST(attach_queue, ATTACH_QUEUE, .queue = q->remote, .of_user = q->of_user,
            .owner = q->owner, .local = q->id);
    struct ring *ring;
    uint32_t id;

    RETURN_IF_ERROR(request_ring(s, function, &request, &ring, &id));
    *rights = ring->rights;
    adopt_ring(s, q, ring);
    return 0;
}

/* The queue has no ring here any more, for this reason: 507899 destroyed, or 207006. */
static void forget_ring(struct session *s, struct queue *q, int error)
{
    /*
     * First: threads that slept on the ring find none, and the thread that lets go of rings may
     * have been here before them.
     */
    atomic_store(&q->lost_right, error == ACL_ERROR_RT_NO_PERMISSION);
    set_ring(s, q, NULL);
}

/* queue_follow() under follow_lock, of the ring that the queue still has. */
static int leave_ring(struct session *s, const char *function, struct queue *q, struct ring *old)
{
    bool moved = atomic_load(&old->view.news->state) == QUEUE_MOVED;
    uint32_t rights;
    int error =
        moved ? attach_queue(s, function, q, &rights) : queue_error_destroyed(function, q->id);

    /*
     * Whatever else npud says, say that no descriptor was left, says nothing about the queue, and
     * may be over next time.
     */
    if (error == ACL_ERROR_RT_NO_PERMISSION || error == ACL_ERROR_RT_DRV_INTERNAL_ERROR)
        forget_ring(s, q, error);
    return error;
}

int queue_follow(struct session *s, const char *function, struct queue *q, struct ring *old)
{
    int error = 0;

    pthread_mutex_lock(&q->follow_lock);
    /*
     * Another thread may have been here first; then `old`, which the caller uses, is not the
     * queue's any more.
     */
    if (q->ring == old)
        error = leave_ring(s, function, q, old);
    pthread_mutex_unlock(&q->follow_lock);
    return error;
}

/* Has its ring ended? Then what queue_follow() does is done without a call of the program. */
static void let_go(struct session *s, struct queue *q)
{
    struct ring *ring = use_ring(q);
    struct error_saved ignored;
    bool ended;

    if (!ring)
        return;
    ended = atomic_load(&ring->view.news->state) != QUEUE_LIVE;
    if (ended) {
        error_save(&ignored);
        queue_follow(s, "", q, ring);
        error_save_end(&ignored);
    }
    queue_drop_ring(ring);
}

bool queue_let_go_all(struct session *s)
{
    struct queues *t = queues_of(s, false);
    bool all;

    for (uint32_t id = 0; t && id < QUEUE_LOCAL_IDS; id++) {
        struct queue *q = atomic_load_explicit(&t->queue[id], memory_order_acquire);

        if (q && atomic_load_explicit(&q->ring, memory_order_relaxed) != NULL)
            let_go(s, q);
    }
    if (!t)
        return true;
    pthread_mutex_lock(&t->retired_lock);
    unmap_retired(t);
    all = t->retired == NULL;
    pthread_mutex_unlock(&t->retired_lock);
    return all;
}

/*
 * Attach, and wait for the grant as long as the deadline allows. When there is no more time npud is
 * asked once more, because what it says may have changed without a grant: the queue may be gone.
 */
static int attach_patiently(struct session *s, const char *function, struct queue *q,
                            uint64_t deadline, uint32_t *rights)
{
    bool last = deadline == 0;
    struct error_saved saved;

    for (bool waited = false;; waited = true) {
        uint32_t seen = atomic_load_explicit(&s->page->grants, memory_order_acquire);
        int error, r;

        error_save(&saved);
        pthread_mutex_lock(&q->follow_lock);
        error = attach_queue(s, function, q, rights);
        pthread_mutex_unlock(&q->follow_lock);
        error_save_end(&saved);
        if (error == 0)
            return 0;
        if (error == ACL_ERROR_RT_DRV_INTERNAL_ERROR && waited)
            return queue_error_destroyed(function, q->id);
        if (error != ACL_ERROR_RT_NO_PERMISSION || last)
            return error_tell(&saved, error);
        r = wait_grant(&s->waits, function, q->remote, q->of_user ? &q->owner : NULL, seen,
                       deadline);
        if (r == -EINTR)
            return ACLNPUD_ERROR_INTERRUPTED;
        last = r != 0;
    }
}

/* Until the deadline; timeout in ms, 0: ask once, -1: no limit. */
static int attach_with_timeout(struct session *s, const char *function, struct queue *q,
                               int32_t timeout, uint32_t *permission)
{
    uint64_t deadline = timeout == 0 ? 0 : wait_deadline(timeout);
    uint32_t rights = 0;

    RETURN_IF_ERROR(attach_patiently(s, function, q, deadline, &rights));
    *permission = rights;
    return 0;
}

static int check_timeout(const char *function, int32_t timeout)
{
    if (timeout >= -1)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: timeout is %d ms, must be 0 or more, or -1 for no limit", function,
                     timeout);
}

aclError acltdtAttachQueue(uint32_t qid, int32_t timeout, uint32_t *permission)
{
    CALL_SCOPE;
    struct session *s;
    struct queue *q;

    REQUIRE(permission);
    RETURN_IF_ERROR(check_timeout(__func__, timeout));
    RETURN_IF_ERROR(check_id(__func__, qid));
    s = FIND_OR_RETURN(session_get, __func__);
    q = qid < QUEUE_IDS ? FIND_OR_RETURN(find_entry, s, __func__, qid)
                        : FIND_OR_RETURN(queue_find, s, __func__, qid);
    return attach_with_timeout(s, __func__, q, timeout, permission);
}

aclError aclnpudAttachQueueOfUser(uint32_t owner, uint32_t qid, int32_t timeout, uint32_t *localQid,
                                  uint32_t *permission)
{
    CALL_SCOPE;
    struct session *s;
    struct queue *q;

    REQUIRE(localQid);
    REQUIRE(permission);
    RETURN_IF_ERROR(check_timeout(__func__, timeout));
    if (qid >= QUEUE_IDS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: no user has a queue with id %u: ids are 0 to %u", __func__, qid,
                         QUEUE_IDS - 1);
    s = FIND_OR_RETURN(session_get, __func__);
    q = owner == s->uid ? FIND_OR_RETURN(find_entry, s, __func__, qid)
                        : FIND_OR_RETURN(find_entry_of_user, s, __func__, owner, qid);
    RETURN_IF_ERROR(attach_with_timeout(s, __func__, q, timeout, permission));
    *localQid = q->id;
    return 0;
}

/* --- creating, destroying, granting --- */

/* A queue of which the program will not learn: it must not stay. */
static int give_up(struct session *s, uint32_t id, int error)
{
    REQUEST(destroy_queue, DESTROY_QUEUE, .queue = id);

    session_command_unheard(s, &request);
    return error;
}

int queue_open(struct session *s, const char *function, Npud__Request *request, uint32_t *id,
               struct queue **queue, uint64_t *life)
{
    struct ring *ring;
    struct queue *q;
    int error;

    *id = QUEUE_LOCAL_IDS;
    RETURN_IF_ERROR(request_ring(s, function, request, &ring, id));
    q = find_entry(s, function, *id, &error);
    if (!q) {
        queue_drop_ring(ring);
        return ERROR_NOT_ZERO(error);
    }
    *life = ring->life;
    pthread_mutex_lock(&q->follow_lock);
    adopt_ring(s, q, ring);
    pthread_mutex_unlock(&q->follow_lock);
    if (queue)
        *queue = q;
    return 0;
}

aclError acltdtCreateQueue(const acltdtQueueAttr *attr, uint32_t *qid)
{
    CALL_SCOPE;

    REQUEST(create_queue, CREATE_QUEUE, .name = (char *)(attr ? attr->name : ""),
            .depth = attr ? attr->depth : QUEUE_DEPTH_DEFAULT);
    struct session *s;
    uint64_t life;
    uint32_t id;
    int error;

    REQUIRE(qid);
    s = FIND_OR_RETURN(session_get, __func__);
    error = queue_open(s, __func__, &request, &id, NULL, &life);
    if (error != 0)
        return id < QUEUE_LOCAL_IDS ? give_up(s, id, error) : error;
    if (checked_runs())
        checked_object(CHECK_OBJECT, CHECK_OBJECT_QUEUE, id);
    *qid = id;
    return 0;
}

int queue_leave(struct session *s, const char *function, Npud__Request *request, struct queue *q)
{
    /* Its ring, before npud may give the id to another queue, which another thread may get. */
    struct ring *ring = use_ring(q);
    int error = session_command(s, function, request);

    if (error == 0 && checked_runs())
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_QUEUE, q->id);
    if (!ring)
        return error;
    if (error == 0) {
        pthread_mutex_lock(&q->follow_lock);
        if (q->ring == ring)
            set_ring(s, q, NULL);
        pthread_mutex_unlock(&q->follow_lock);
    }
    queue_drop_ring(ring);
    return error;
}

aclError acltdtDestroyQueue(uint32_t qid)
{
    CALL_SCOPE;

    REQUEST(destroy_queue, DESTROY_QUEUE, .queue = qid);
    struct session *s;

    RETURN_IF_ERROR(check_id(__func__, qid));
    s = FIND_OR_RETURN(session_get, __func__);
    return queue_leave(s, __func__, &request, FIND_OR_RETURN(queue_find, s, __func__, qid));
}

/* A ring that has ended says nothing of the messages, which may be in another one. */
static int count_in_ring(struct session *s, const char *function, struct queue *q,
                         struct ring *ring, uint32_t *count, bool *again)
{
    *again = atomic_load(&ring->view.news->state) != QUEUE_LIVE;
    if (*again)
        return queue_follow(s, function, q, ring);
    *count = queue_fill(&ring->view);
    *again = atomic_load(&ring->view.news->state) != QUEUE_LIVE;
    return 0;
}

int queue_count(struct session *s, const char *function, struct queue *q, uint64_t life,
                uint32_t *count)
{
    bool again = true;
    int error = 0;

    while (again && error == 0) {
        struct ring *ring = use_ring(q);

        if (!ring || ring->life != life)
            error = queue_error_destroyed(function, q->id);
        else
            error = count_in_ring(s, function, q, ring, count, &again);
        if (ring)
            queue_drop_ring(ring);
    }
    return error;
}

aclError acltdtGrantQueue(uint32_t qid, int32_t pid, uint32_t permission, int32_t timeout)
{
    CALL_SCOPE;

    REQUEST(grant_queue, GRANT_QUEUE, .queue = qid, .pid = pid, .rights = permission);

    (void)timeout;
    RETURN_IF_ERROR(check_id(__func__, qid));
    return session_command(FIND_OR_RETURN(session_get, __func__), __func__, &request);
}
