#include "daemon/engine/run.h"

#include <assert.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/trace_note.h"

enum run_result run_fail(struct stream *s, int32_t code, int32_t pid)
{
    stream_fail(s, code, pid);
    return RUN_RETIRED;
}

enum run_result run_bad_entry(struct stream *s, const char *what)
{
    log_client_fault(&s->session->log, "stream %d: bad %s task: %s", (int)stream_id(s),
                     task_name(s->live->task.op), what);
    return run_fail(s, ACL_ERROR_RT_PARAM_INVALID, 0);
}

/* --- waiting --- */

void run_fire_stream(struct waiter *w)
{
    struct stream *s = stream_of_waiter(w);

    /* Not asked of the device of s: that belongs to its engine, which may hear of a trace now. */
    if (__builtin_expect(trace_note_running != NULL, 0))
        trace_note_release(s, w);
    stream_let_go(s, w->result, w->pid);
    engine_unpark(s);
}

void run_begin_join(struct stream *s, struct waitlist *list, struct waiter_group *group)
{
    assert(!s->waiting_on);
    s->waiter = (struct waiter){.fire = run_fire_stream, .group = group};
    s->waiting_on = list;
}

void run_join(struct stream *s, struct waitlist *list, uint64_t target)
{
    run_begin_join(s, list, NULL);
    waitlist_add(list, &s->waiter, target);
    KILL_HERE(WAIT_PARKED);
}

uint64_t run_note_wait(struct stream *s, uint64_t target, uint64_t timeout_ns, uint64_t now)
{
    struct stream_kept *k = s->live;

    /* It may be of a rule that has held the task. */
    k->outcome_at = 0;
    kept_order();
    if (stream_has_waited(s))
        return k->deadline;
    k->target = target;
    k->deadline = timeout_ns != 0 ? now + timeout_ns : 0;
    head_note(k, &k->wait_at);
    KILL_HERE(WAIT_NOTED);
    return k->deadline;
}

int run_park(struct stream *s, struct waitlist *list, uint64_t target, uint64_t timeout_ns,
             uint64_t now)
{
    uint64_t deadline = run_note_wait(s, target, timeout_ns, now);

    if (deadline != 0 && engine_set_timer(s, deadline) < 0)
        return -1;
    run_join(s, list, target);
    return 0;
}

bool run_unpark(struct stream *s)
{
    if (!waitlist_remove(s->waiting_on, &s->waiter))
        return false;
    engine_clear_timer(s);
    s->waiting_on = NULL;
    return true;
}

enum run_result run_finish_wait(struct stream *s)
{
    if (s->waiter.result > 0)
        stream_fail(s, s->waiter.result, s->waiter.pid);
    return RUN_RETIRED;
}

bool run_waits_still(const struct stream *s)
{
    return stream_has_waited(s) && !stream_is_let_go(s) && atomic_load(&s->stopped) == 0 &&
           s->attach->device->lost == 0 && s->attach->lost == 0;
}

bool run_valid_timeout(uint64_t ns)
{
    return ns <= UINT64_C(1) << 62;
}
