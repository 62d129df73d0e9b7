#include "daemon/engine/notify_tasks.h"

#include <stddef.h>

#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/engine.h"
#include "daemon/core/notify.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/run.h"

#define LOOKS_PER_STEP 32 /* at waits for a counter: others have their turn then */

/* --- state; under waiting.lock --- */

static void set_bit(struct notify *n)
{
    struct waiter *w = waitlist_first_locked(&n->waiting, 0);

    n->failed_pid = 0;
    if (w) {
        run_stream_of(w)->took = true;
        waitlist_fire_locked(&n->waiting, w, 0, 0);
    } else {
        n->value = 1;
    }
}

/* The condition of a count wait. */
static bool is_met(const struct task *t, uint32_t count)
{
    switch (t->notify.mode) {
    case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
        return count < t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
        return count == t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
        return count > t->notify.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
        return count >= t->notify.value;
    default:
        return (count & t->notify.value) == t->notify.value;
    }
}

static uint32_t changed_count(const struct task *t, uint32_t count)
{
    switch (t->notify.mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
        return t->notify.value;
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
        return count + t->notify.value;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
        return count | t->notify.value;
    default:
        return count & t->notify.value;
    }
}

/*
 * At some waits, in the order in which they came, each with the counter that those before it have
 * left. After a clear, those that were passed over have another counter to look at: once, since it
 * stays 0.
 */
static void look_at_waits(struct notify *n)
{
    struct waiter *w;

    for (unsigned i = 0; i < LOOKS_PER_STEP; i++) {
        const struct task *t;

        w = waitlist_first_locked(&n->waiting, n->look_from);
        if (!w) {
            n->looking = false;
            return;
        }
        t = &run_stream_of(w)->kept->task;
        n->look_from = w->target + 1;
        if (!is_met(t, n->value))
            continue;
        if (t->notify.clear && n->value != 0) {
            n->value = 0;
            n->look_from = 0;
        }
        waitlist_fire_locked(&n->waiting, w, 0, 0);
    }
}

/* The stream is to go on until all waits have been looked at. */
static void set_count(struct stream *s, struct notify *n, uint32_t value)
{
    n->value = value;
    n->changes++;
    n->looking = true;
    n->look_from = 0;
    look_at_waits(n);
    s->count_change = n->looking ? n->changes : 0;
}

/*
 * True: the wait is over at once. *pid: of the process with whose dropped record it fails; 0: it
 * has not failed.
 */
static bool take_now(struct notify *n, struct stream *s, int32_t *pid)
{
    const struct task *t = &s->kept->task;

    *pid = 0;
    if (n->counts) {
        /* Those that wait already come first. */
        if (n->looking || !is_met(t, n->value))
            return false;
        if (t->notify.clear && n->value != 0)
            set_count(s, n, 0);
        return true;
    }
    if (n->value == 0 && n->failed_pid == 0)
        return false;
    if (n->value == 0)
        *pid = n->failed_pid;
    n->failed_pid = 0;
    n->value = 0;
    return true;
}

/* --- tasks --- */

void notify_give_back(struct stream *s)
{
    struct notify *n = notify_of_task(s->session, &s->kept->task, false);

    s->took = false;
    if (!n)
        return;
    pthread_mutex_lock(&n->waiting.lock);
    set_bit(n);
    pthread_mutex_unlock(&n->waiting.lock);
}

/*
 * The client may destroy a notify while tasks that use it are queued: a record does nothing then, a
 * wait fails.
 */
enum run_result notify_run_record(struct stream *s, uint64_t now)
{
    struct notify *n = notify_of_task(s->session, &s->kept->task, false);

    (void)now;
    if (!n)
        return RUN_RETIRED;
    stream_publish_before(s);
    pthread_mutex_lock(&n->waiting.lock);
    set_bit(n);
    pthread_mutex_unlock(&n->waiting.lock);
    return RUN_RETIRED;
}

bool notify_count_check(struct stream *s)
{
    struct notify *n;
    bool over;

    if (s->count_change == 0)
        return true;
    n = notify_of_task(s->session, &s->kept->task, true);
    if (!n) {
        s->count_change = 0;
        return true;
    }
    pthread_mutex_lock(&n->waiting.lock);
    if (n->looking && (s->count_change == COUNT_TURN || s->count_change == n->changes))
        look_at_waits(n);
    if (s->count_change == COUNT_TURN) {
        over = !n->looking;
    } else {
        over = !n->looking || s->count_change != n->changes;
        s->count_change = over ? 0 : s->count_change;
    }
    pthread_mutex_unlock(&n->waiting.lock);
    return over;
}

bool notify_count_pass_over(struct stream *s)
{
    if (s->count_change == COUNT_TURN) {
        s->count_change = 0;
        notify_drop_task(s->session, &s->kept->task);
    }
    return notify_count_check(s);
}

/* Control thread. */
static bool run_look(struct job *job)
{
    struct notify *n = (struct notify *)((char *)job - offsetof(struct notify, look));
    bool more;

    pthread_mutex_lock(&n->waiting.lock);
    if (n->looking)
        look_at_waits(n);
    more = n->looking;
    pthread_mutex_unlock(&n->waiting.lock);
    return more;
}

/* No other session has a counter: so the job is this session's. */
void notify_count_drop(struct stream *s)
{
    struct notify *n;

    if (notify_count_pass_over(s))
        return;
    s->count_change = 0;
    n = notify_of_task(s->session, &s->kept->task, true);
    if (n->look.listed)
        return;
    n->look = (struct job){run_look, "count notify record", &s->session->owner};
    job_list(&n->look);
}

enum run_result notify_run_count_record(struct stream *s, uint64_t now)
{
    struct notify *n = notify_of_task(s->session, &s->kept->task, true);

    (void)now;
    if (stream_has_begun(s) && s->count_change != COUNT_TURN)
        return RUN_RETIRED;
    s->count_change = 0;
    if (s->kept->task.notify.mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE ||
        s->kept->task.notify.mode == 3)
        return run_bad_entry(s, "no such mode");
    if (!n)
        return RUN_RETIRED;
    stream_publish_before(s);
    pthread_mutex_lock(&n->waiting.lock);
    if (n->looking)
        s->count_change = COUNT_TURN;
    else
        set_count(s, n, changed_count(&s->kept->task, n->value));
    pthread_mutex_unlock(&n->waiting.lock);
    return s->count_change == 0 ? RUN_RETIRED : RUN_AGAIN;
}

static enum run_result end_wait(struct stream *s)
{
    s->took = false;
    return run_finish_wait(s);
}

/* As run_park() in execute.c does, but that test and change are one step. */
static enum run_result wait_for(struct stream *s, struct notify *n, uint64_t now)
{
    uint64_t timeout = s->kept->task.notify.timeout_ns;
    int32_t pid;
    bool over;

    if (timeout != 0 && engine_set_timer(s, now + timeout) < 0)
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    s->waiter = (struct waiter){.fire = run_fire_stream};
    s->waiting_on = &n->waiting;
    pthread_mutex_lock(&n->waiting.lock);
    over = take_now(n, s, &pid);
    if (!over)
        waitlist_add_locked(&n->waiting, &s->waiter, n->arrivals++);
    pthread_mutex_unlock(&n->waiting.lock);
    if (!over)
        return RUN_WAITS;
    engine_clear_timer(s);
    s->waiting_on = NULL;
    if (pid != 0)
        return run_fail(s, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    return s->count_change == 0 ? RUN_RETIRED : RUN_AGAIN;
}

static enum run_result run_wait(struct stream *s, uint64_t now, bool counts)
{
    struct notify *n;

    if (stream_has_begun(s))
        return end_wait(s);
    if (!run_valid_timeout(s->kept->task.notify.timeout_ns))
        return run_bad_entry(s, "impossible time limit");
    n = notify_of_task(s->session, &s->kept->task, counts);
    if (n)
        return wait_for(s, n, now);
    return run_fail(s, ACL_ERROR_RT_INVALID_HANDLE, 0);
}

enum run_result notify_run_wait(struct stream *s, uint64_t now)
{
    return run_wait(s, now, false);
}

enum run_result notify_run_count_wait(struct stream *s, uint64_t now)
{
    if (s->kept->task.notify.mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE)
        return run_bad_entry(s, "no such mode");
    return run_wait(s, now, true);
}
