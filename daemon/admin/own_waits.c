#include "daemon/admin/own_waits.h"

#include "daemon/admin/report.h"
#include "daemon/core/call.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"

#define SHARE 10 /* the reports of one user take at most one part in so many of npud's time */

/*
 * A user whose only session is this one waits for nothing. npud then makes no report, however often
 * this user asks.
 */
static bool waits_for_something(const struct session *session)
{
    return user_used(session->user, RESOURCE_SESSIONS) > 1;
}

static int32_t make_report(struct call *call, Npud__OwnWaitsReply *out)
{
    struct session *session = call->session;
    struct admin_report report;
    uint64_t since = clock_ns(), now;
    int r = report_own_waits(session->server, &report, session->uid);

    call->fd = report.fd;
    call->close_fd = true;
    now = clock_ns();
    session->user->report_ns = now + (SHARE - 1) * (now - since);
    if (r < 0)
        return refuse(call, cause_of_file(r), "no report");
    out->size = report.size;
    return 0;
}

int32_t own_waits_answer(struct call *call)
{
    static Npud__OwnWaitsReply out;
    uint64_t now = clock_ns(), from = call->session->user->report_ns;

    CALL_REPLY(call, own_waits, OWN_WAITS, &out);
    if (!waits_for_something(call->session))
        return 0;
    if (now < from) {
        out.again_ms = (uint32_t)((from - now) / NSEC_PER_MSEC) + 1;
        return 0;
    }
    return make_report(call, &out);
}
