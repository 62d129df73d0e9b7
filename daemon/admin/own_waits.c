#include "daemon/admin/own_waits.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/admin/report.h"
#include "daemon/core/call.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"
#include "proto/wire/own_topic.h"

#define ONE_IN   10 /* the reports of one user take at most one part in so many of npud's time */
#define AGAIN_MS 1  /* until the client asks for a report that is being made */

/* A report for a session: made in steps that are the user's, and given to its next request. */
struct own_waits {
    struct session *session;
    struct admin_report report;
    struct job job;
    struct charge charge_fd;
    uint64_t spent_ns; /* on it, so far */
    bool made;
    int error; /* that it was not made for; 0, or -errno */
};

/*
 * A user whose only session is this one has no other process of which a report could tell. npud
 * then makes none, however often this user asks.
 */
static bool has_processes(const struct session *session)
{
    return user_used(session->user, RESOURCE_SESSIONS) > 1;
}

/* All uids of a user share the time that it has: it is that of their payer. */
static struct user *payer_of(const struct session *session)
{
    return session->user->payer;
}

/* From now on the user may have another one made, in its time. */
static void end_making(struct own_waits *o)
{
    struct user *user = payer_of(o->session);

    o->made = true;
    user->reporting = false;
    user->report_ns = clock_ns() + (ONE_IN - 1) * o->spent_ns;
}

static bool run_slice(struct job *job)
{
    struct own_waits *o = (struct own_waits *)((char *)job - offsetof(struct own_waits, job));
    struct server *server = o->session->server;
    uint64_t since = clock_ns();
    int r = report_append_slice(server, &o->report);

    o->spent_ns += clock_ns() - since;
    if (r > 0)
        return true;
    o->error = r < 0 ? r : report_seal(&o->report);
    end_making(o);
    return false;
}

void own_waits_drop(struct session *session)
{
    struct own_waits *o = session->own_waits;

    if (!o)
        return;
    job_cancel(&o->job);
    if (!o->made)
        end_making(o);
    report_close(&o->report);
    user_uncharge(&o->charge_fd);
    session->own_waits = NULL;
    free(o);
}

static enum cause begin_report(struct session *session, unsigned topic)
{
    struct own_waits *o = calloc(1, sizeof(*o));
    int r;

    if (!o)
        return CAUSE_MEMORY;
    if (user_charge(&o->charge_fd, session->user, RESOURCE_FDS, 1) < 0) {
        free(o);
        return CAUSE_USER_DESCRIPTORS;
    }
    r = report_open_own(session->server, &o->report, topic, session->uid);
    if (r < 0) {
        user_uncharge(&o->charge_fd);
        free(o);
        return cause_of_file(r);
    }
    o->session = session;
    o->job = (struct job){run_slice, "report", &session->owner};
    session->own_waits = o;
    payer_of(session)->reporting = true;
    job_list(&o->job);
    return CAUSE_NONE;
}

/* The report is there: it goes with the answer. */
static int32_t give_report(struct call *call, Npud__OwnWaitsReply *out)
{
    struct own_waits *o = call->session->own_waits;
    int error = o->error;

    if (error == 0) {
        call->fd = o->report.fd;
        call->close_fd = true;
        out->size = o->report.size;
        o->report.fd = -1;
    }
    own_waits_drop(call->session);
    return error < 0 ? refuse(call, cause_of_file(error), "no report") : 0;
}

int32_t own_waits_answer(struct call *call)
{
    Npud__OwnWaitsReply *out;
    struct session *session = call->session;
    uint64_t now = clock_ns(), from = payer_of(session)->report_ns;
    unsigned topic = (unsigned)call->request->own_waits->topic;
    enum cause cause;

    if (topic == NPUD__ADMIN_REQUEST__TOPIC__STATUS)
        topic = NPUD__ADMIN_REQUEST__TOPIC__WAITS;
    if (!topic_is_own(topic))
        return refuse(call, CAUSE_TOPIC, "no report");
    out = CALL_REPLY(call, own_waits, OWN_WAITS);
    out->topic = (Npud__AdminRequest__Topic)topic;
    if (session->own_waits && session->own_waits->made && session->own_waits->report.topic == topic)
        return give_report(call, out);
    if (session->own_waits && session->own_waits->made)
        own_waits_drop(session); /* it has asked for another one before, and not fetched that */
    out->again_ms = AGAIN_MS;
    if (payer_of(session)->reporting)
        return 0;
    if (!has_processes(session)) {
        out->again_ms = 0;
        return 0;
    }
    if (now < from) {
        out->again_ms = (uint32_t)((from - now) / NSEC_PER_MSEC) + 1;
        return 0;
    }
    cause = begin_report(session, topic);
    return cause == CAUSE_NONE ? 0 : refuse(call, cause, "no report");
}
