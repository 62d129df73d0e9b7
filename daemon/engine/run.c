#include "daemon/engine/run.h"

#include <assert.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/log.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"

enum run_result run_fail(struct stream *s, int32_t code, int32_t pid)
{
    stream_fail(s, code, pid);
    return RUN_RETIRED;
}

enum run_result run_bad_entry(struct stream *s, const char *what)
{
    log_client_fault(&s->session->log, "stream %d: bad %s task: %s", (int)stream_id(s),
                     task_row(s->kept->task.op)->name, what);
    return run_fail(s, ACL_ERROR_RT_PARAM_INVALID, 0);
}

/* --- waiting --- */

void run_fire_stream(struct waiter *w)
{
    engine_unpark(run_stream_of(w));
}

int run_park(struct stream *s, struct waitlist *list, uint64_t target, uint64_t timeout_ns,
             uint64_t now)
{
    assert(!s->waiting_on);
    if (timeout_ns != 0 && engine_set_timer(s, now + timeout_ns) < 0)
        return -1;
    s->waiter = (struct waiter){.fire = run_fire_stream};
    s->waiting_on = list;
    waitlist_add(list, &s->waiter, target);
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

bool run_valid_timeout(uint64_t ns)
{
    return ns <= UINT64_C(1) << 62;
}
