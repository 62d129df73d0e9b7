#include "daemon/control/rest.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/log.h"
#include "daemon/base/wake_cost.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"

struct rest {
    struct server *server;
    struct user *payer; /* a reference */
    uint64_t until;
    struct event *on_over;
    struct job over;          /* sessions are heard again */
    struct resting *waiting;  /* the one that came first first */
    struct rest *prev, *next; /* server->rests */
};

/* A session that waits for the end of it. */
struct resting {
    struct session *session;
    struct rest *rest;
    struct resting *prev, *next; /* rest->waiting */
};

static struct rest *find_rest(struct server *server, const struct user *payer)
{
    struct rest *rest;

    DL_FOREACH (server->rests, rest)
        if (rest->payer == payer)
            return rest;
    return NULL;
}

static void free_rest(struct rest *rest)
{
    DL_DELETE(rest->server->rests, rest);
    job_cancel(&rest->over);
    if (rest->on_over)
        event_free(rest->on_over);
    user_unref(rest->payer);
    free(rest);
}

static void wait_until_over(struct rest *rest)
{
    uint64_t now = clock_ns(), ns = rest->until > now ? rest->until - now : 0;
    struct timeval in = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
                         .tv_usec = (suseconds_t)(ns % NSEC_PER_SEC / NSEC_PER_USEC + 1)};

    if (event_add(rest->on_over, &in) < 0)
        job_list(&rest->over);
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    struct rest *rest = arg;

    (void)fd;
    (void)what;
    job_list(&rest->over);
}

static bool run_over(struct job *job)
{
    struct rest *rest = (struct rest *)((char *)job - offsetof(struct rest, over));

    /* One of them may have cost much already. */
    if (clock_ns() < rest->until) {
        wait_until_over(rest);
        return false;
    }
    while (rest->waiting) {
        struct session *session = rest->waiting->session;

        rest_leave(session);
        session_hear_again(session);
        if (schedule_step_over(&rest->server->schedule))
            return true;
    }
    free_rest(rest);
    return false;
}

static struct rest *make_rest(struct server *server, struct user *payer)
{
    struct rest *rest = calloc(1, sizeof(*rest));

    if (!rest)
        return NULL;
    rest->server = server;
    rest->payer = user_hold(payer);
    rest->over = (struct job){run_over, "users that rested", &payer->schedule.leftovers};
    DL_APPEND(server->rests, rest);
    rest->on_over = event_new(server->base, -1, 0, on_over, rest);
    if (rest->on_over)
        return rest;
    free_rest(rest);
    return NULL;
}

/* Without memory for that it goes on. */
static void rest_begin(struct session *session, uint64_t cost)
{
    struct server *server = session->server;
    struct user *payer = session->user->payer;
    struct rest *rest = find_rest(server, payer);
    uint64_t from = clock_ns();

    if (!rest)
        rest = make_rest(server, payer);
    if (!rest)
        return;
    if (rest->until > from)
        from = rest->until;
    rest->until = from + cost * REST_FACTOR;
    job_cancel(&rest->over);
    wait_until_over(rest);
}

bool rest_after_wake(struct session *session)
{
    uint64_t cost = wake_cost_end(&session->wake_cost);

    if (cost == 0)
        return true;
    rest_begin(session, cost);
    if (!wake_cost_proven(&session->wake_cost))
        return true;
    log_client_fault(&session->log,
                     "its socket has so many watches that npud takes %llu us to answer: session "
                     "ended",
                     (unsigned long long)(cost / NSEC_PER_USEC));
    return false;
}

bool rest_takes(struct session *session)
{
    struct rest *rest = session->server->rests;
    struct resting *resting;

    if (__builtin_expect(!rest, 1))
        return false;
    rest = find_rest(session->server, session->user->payer);
    if (!rest || clock_ns() >= rest->until)
        return false;
    resting = calloc(1, sizeof(*resting));
    if (!resting)
        return false;
    session_hear_no_more(session);
    resting->session = session;
    resting->rest = rest;
    session->resting = resting;
    DL_APPEND(rest->waiting, resting);
    return true;
}

void rest_leave(struct session *session)
{
    struct resting *resting = session->resting;

    if (!resting)
        return;
    DL_DELETE(resting->rest->waiting, resting);
    session->resting = NULL;
    free(resting);
}

void rests_deinit(struct server *server)
{
    while (server->rests)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is taken out of the list */
        free_rest(server->rests);
}
