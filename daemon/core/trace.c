#include "daemon/core/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"

/* --- rings --- */

/* Pages that nothing was written to cost nothing. */
static struct trace_ring *make_ring(void)
{
    return calloc(1, trace_ring_bytes(TRACE_OWN_ENTRIES));
}

static void free_own_rings(struct trace *trace)
{
    free(trace->control);
    trace->control = NULL;
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        free(trace->engine[i]);
        trace->engine[i] = NULL;
    }
}

static bool make_own_rings(struct server *server)
{
    struct trace *trace = server->trace;
    bool made = (trace->control = make_ring()) != NULL;

    for (uint32_t i = 0; made && i < server->devices->n; i++)
        made = (trace->engine[i] = make_ring()) != NULL;
    if (!made)
        free_own_rings(trace);
    return made;
}

static void end_client(struct trace_client *client)
{
    client->ended = true;
    kept_close(client->fd);
    client->fd = -1;
}

static void free_client(struct trace *trace, struct trace_client *client)
{
    end_client(client);
    DL_DELETE(trace->clients, client);
    trace->n_clients--;
    munmap(client->ring, trace_ring_bytes(TRACE_CLIENT_ENTRIES));
    free(client);
}

/* What the trace before has left: those that live write on in their rings. */
static void forget_before(struct trace *trace)
{
    struct trace_client *client, *next;

    free_own_rings(trace);
    trace->refused = 0;
    DL_FOREACH_SAFE (trace->clients, client, next)
        if (client->ended)
            free_client(trace, client);
        else
            client->from = atomic_load_explicit(&client->ring->next, memory_order_relaxed);
}

/* --- start and stop --- */

static void tell_devices(struct server *server, bool on)
{
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct device *d = &server->devices->device[i];

        d->trace = on ? server->trace->engine[i] : NULL;
        d->traced_from = server->trace->begun_ns;
        device_renew_mode(d);
    }
}

static void tell_sessions(struct server *server)
{
    struct session *session;

    DL_FOREACH (server->sessions, session)
        if (session->page)
            trace_note_session(session);
}

enum cause trace_start(struct server *server)
{
    struct trace *trace = server->trace;

    if (trace->on)
        return CAUSE_TRACE_RUNS;
    forget_before(trace);
    if (!random_fill(&trace->number, sizeof(trace->number)))
        return CAUSE_RANDOM;
    if (!make_own_rings(server))
        return CAUSE_MEMORY;
    trace->number |= 1;
    trace->on = true;
    trace->begun_ns = clock_ns();
    engines_lock(server);
    tell_devices(server, true);
    engines_unlock(server);
    tell_sessions(server);
    log_line(LOG_NOTICE, NULL,
             "trace started: every record, reset and wait is a task until it "
             "stops");
    return CAUSE_NONE;
}

enum cause trace_stop(struct server *server)
{
    struct trace *trace = server->trace;

    if (!trace->on)
        return CAUSE_TRACE_NONE;
    trace->on = false;
    trace->ended_ns = clock_ns();
    engines_lock(server);
    tell_devices(server, false);
    engines_unlock(server);
    tell_sessions(server);
    log_line(LOG_NOTICE, NULL, "trace stopped: npuctl trace dump prints it");
    return CAUSE_NONE;
}

void trace_deinit(struct server *server)
{
    struct trace *trace = server->trace;

    while (trace->clients)
        free_client(trace, trace->clients);
    free_own_rings(trace);
}

/* --- sessions --- */

static void put_process(struct trace *trace, const struct session *session, enum trace_kind kind)
{
    struct trace_event event = {.kind = (uint8_t)kind, .begin_ns = clock_ns()};

    event.end_ns = event.begin_ns;
    event.process.session = session->id;
    event.process.pid = session->pid;
    event.process.uid = session->uid;
    memcpy(event.process.program, session->program, sizeof(event.process.program));
    trace_put(trace->control, &event);
}

void trace_note_session(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (trace->on)
        put_process(trace, session, TRACE_CONNECTED);
    /* Relaxed: it is a wish, and what comes with it is asked for. */
    atomic_store_explicit(&session->page->trace, trace->on ? trace->number : 0,
                          memory_order_relaxed);
}

void trace_forget_session(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (session->trace)
        end_client(session->trace);
    session->trace = NULL;
    if (trace->on && session->page)
        put_process(trace, session, TRACE_DISCONNECTED);
}

/* In the order of their sessions' numbers, in which a dump goes through them. */
static void list_client(struct trace *trace, struct trace_client *client)
{
    struct trace_client *last = trace->clients ? trace->clients->prev : NULL;

    while (last && last->session > client->session)
        last = last == trace->clients ? NULL : last->prev;
    if (last)
        DL_APPEND_ELEM(trace->clients, last, client);
    else
        DL_PREPEND(trace->clients, client);
    trace->n_clients++;
}

/* A place for one more: that of a session that has ended, if there is no other. */
static bool make_room(struct trace *trace)
{
    struct trace_client *client;

    if (trace->n_clients < TRACE_CLIENTS_MAX)
        return true;
    DL_FOREACH (trace->clients, client)
        if (client->ended) {
            free_client(trace, client);
            return true;
        }
    return false;
}

static struct trace_client *make_client(const struct session *session)
{
    struct trace_client *client = calloc(1, sizeof(*client));
    void *map;

    if (!client)
        return NULL;
    client->session = session->id;
    client->pid = session->pid;
    client->uid = session->uid;
    memcpy(client->program, session->program, sizeof(client->program));
    if (memfd_map_new("npud-trace", trace_ring_bytes(TRACE_CLIENT_ENTRIES), &client->fd, &map) <
        0) {
        free(client);
        return NULL;
    }
    client->ring = map;
    /* An answer that a later npud sends once more has it from the keeper. */
    kept_fd(client->fd);
    return client;
}

int trace_ring_of(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (!trace->on)
        return -1;
    if (!session->trace && make_room(trace)) {
        session->trace = make_client(session);
        if (session->trace)
            list_client(trace, session->trace);
    }
    if (!session->trace) {
        trace->refused++;
        return -1;
    }
    return session->trace->fd;
}
