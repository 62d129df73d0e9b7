#include "daemon/core/trace.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"
#include "proto/shm/queue_shm.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"

/* --- rings --- */

/* Pages that nothing was written to cost nothing. */
static bool make_own_ring(struct trace_own *own, uint64_t entries)
{
    void *map;

    if (memfd_map_new("npud-trace-own", trace_ring_bytes(entries), &own->fd, &map) < 0)
        return false;
    own->ring = map;
    own->ring->mask = entries - 1;
    own->from = 0;
    kept_fd(own->fd);
    return true;
}

static void free_own_ring(struct trace_own *own)
{
    size_t bytes = trace_ring_bytes(own->ring->mask + 1);

    kept_fd_leave(own->fd);
    deferred_close_free_memory(NULL, own->fd, own->ring, bytes, bytes);
    own->ring = NULL;
}

/* No trace runs, but its engine may not have heard of that yet. */
static void detach_own_ring(struct server *server, uint32_t i)
{
    struct device *d = i > TRACE_CONTROL ? &server->devices->device[i - 1] : NULL;

    if (!d)
        return;
    engine_lock(d->engine);
    d->trace = NULL;
    engine_unlock(d->engine);
}

/*
 * They stay until npud ends, or a trace asks for others: a later trace writes on in them, and
 * nothing has to be freed.
 */
static bool make_own_rings(struct server *server)
{
    struct trace *trace = server->trace;
    uint64_t entries =
        trace->entries > TRACE_OWN_ENTRIES ? trace->entries : (uint64_t)TRACE_OWN_ENTRIES;
    bool made = true;

    for (uint32_t i = 0; made && i < 1 + server->devices->n; i++) {
        if (trace->own[i].ring && trace->own[i].ring->mask + 1 == entries)
            continue;
        if (trace->own[i].ring) {
            detach_own_ring(server, i);
            free_own_ring(&trace->own[i]);
        }
        made = make_own_ring(&trace->own[i], entries);
    }
    return made;
}

static void free_own_rings(struct trace *trace)
{
    for (unsigned i = 0; i < TRACE_OWN_MAX; i++)
        if (trace->own[i].ring)
            free_own_ring(&trace->own[i]);
}

struct trace_client *trace_client_new(struct user *user)
{
    struct trace_client *client = calloc(1, sizeof(*client));

    if (client)
        client->user = user_hold(user);
    return client;
}

void trace_client_free(struct trace_client *client)
{
    user_uncharge(&client->charge_memory);
    user_uncharge(&client->charge_file);
    user_unref(client->user);
    free(client->queues);
    free(client);
}

static void free_client(struct trace *trace, struct trace_client *client)
{
    DL_DELETE(trace->clients, client);
    trace->n_clients--;
    kept_drop(&client->kept);
    kept_fd_leave(client->fd);
    /* A new trace frees many in one step: so each is much. */
    deferred_close_free_memory(client->user, client->fd, client->ring,
                               trace_ring_bytes(client->entries), DEFERRED_CLOSE_MUCH + 1);
    trace_client_free(client);
}

static uint64_t client_entries(const struct trace *trace)
{
    return trace->entries > TRACE_CLIENT_ENTRIES ? trace->entries : TRACE_CLIENT_ENTRIES;
}

/* Rings of another size than this trace's: their sessions ask anew. */
static void part_with_others(struct server *server)
{
    for (struct session *s = server->sessions; s; s = s->next) {
        if (!s->trace || s->trace->entries == client_entries(server->trace))
            continue;
        s->trace->ended = true;
        s->trace = NULL;
    }
}

/* What the trace before has left: those that live write on in their rings. */
static void forget_before(struct trace *trace)
{
    struct trace_client *client, *next;

    trace->refused = 0;
    for (unsigned i = 0; i < TRACE_OWN_MAX; i++)
        if (trace->own[i].ring)
            trace->own[i].from =
                atomic_load_explicit(&trace->own[i].ring->next, memory_order_relaxed);
    DL_FOREACH_SAFE (trace->clients, client, next) {
        if (client->ended) {
            free_client(trace, client);
            continue;
        }
        client->from = atomic_load_explicit(&client->ring->next, memory_order_relaxed);
        kept_touch(&client->kept);
    }
}

/* --- start and stop --- */

void trace_tell_device(struct server *server, uint32_t index)
{
    const struct trace *trace = server->trace;
    struct device *d = &server->devices->device[index];

    engine_lock(d->engine);
    d->trace = trace->on ? trace->own[TRACE_CONTROL + 1 + index].ring : NULL;
    d->traced_from = trace->begun_ns;
    device_renew_mode(d);
    engine_unlock(d->engine);
}

/* Those that have come meanwhile have heard. */
static void tell_session(struct session *session)
{
    const struct trace *trace = session->server->trace;

    if (session->page && session->trace_told != (trace->on ? trace->number : 0))
        trace_note_session(session);
}

static bool run_tell(struct job *job)
{
    struct trace *trace = (struct trace *)((char *)job - offsetof(struct trace, tell));
    struct server *server = trace->server;

    if (trace->next_device < server->devices->n) {
        trace_tell_device(server, trace->next_device++);
        return true;
    }
    while (trace->next_session) {
        struct session *session = trace->next_session;

        trace->next_session = session->next;
        tell_session(session);
        if (schedule_step_over(&server->schedule) && trace->next_session)
            return true;
    }
    if (trace->on_told)
        trace->on_told(server);
    return false;
}

/* From the first one on, also if it was at it. */
static void tell_all(struct server *server)
{
    server->trace->next_device = 0;
    server->trace->next_session = server->sessions;
    job_list(&server->trace->tell);
}

enum cause trace_start(struct server *server, uint64_t size, bool calls)
{
    struct trace *trace = server->trace;
    uint32_t number;

    if (trace->on)
        return CAUSE_TRACE_RUNS;
    if (!random_fill(&number, sizeof(number)))
        return CAUSE_RANDOM;
    for (trace->entries = 1;
         trace->entries < TRACE_ENTRIES_MAX && trace->entries * sizeof(struct trace_event) < size;)
        trace->entries *= 2;
    if (!make_own_rings(server) || !trace_keep(trace)) {
        kept_touch(&trace->kept); /* it names rings of the trace before, which are gone */
        return CAUSE_MEMORY;
    }
    part_with_others(server);
    forget_before(trace);
    trace->number = (number & ~TRACE_CALLS) | TRACE_RUNS | (calls ? TRACE_CALLS : 0);
    trace->on = true;
    trace->begun_ns = clock_ns();
    kept_touch(&trace->kept);
    tell_all(server);
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
    kept_touch(&trace->kept);
    tell_all(server);
    log_line(LOG_NOTICE, NULL, "trace stopped: npuctl trace dump prints it");
    return CAUSE_NONE;
}

void trace_init(struct server *server)
{
    server->trace->server = server;
    server->trace->tell = (struct job){run_tell, "a trace begins or ends", &server->schedule.own};
}

void trace_deinit(struct server *server)
{
    struct trace *trace = server->trace;

    job_cancel(&trace->tell);
    while (trace->clients)
        free_client(trace, trace->clients);
    kept_drop(&trace->kept);
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
    trace_put(trace->own[TRACE_CONTROL].ring, &event);
}

void trace_put_moment(struct trace *trace, enum trace_kind kind)
{
    struct trace_event event = {.kind = (uint8_t)kind, .begin_ns = clock_ns()};

    event.end_ns = event.begin_ns;
    trace_put(trace->own[TRACE_CONTROL].ring, &event);
}

void trace_tell_session(struct session *session)
{
    const struct trace *trace = session->server->trace;

    session->trace_told = trace->on ? trace->number : 0;
    /* Relaxed: it is a wish, and what comes with it is asked for. */
    atomic_store_explicit(&session->page->trace, session->trace_told, memory_order_relaxed);
}

void trace_note_session(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (trace->on)
        put_process(trace, session, TRACE_CONNECTED);
    trace_tell_session(session);
}

void trace_forget_session(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (trace->next_session == session)
        trace->next_session = session->next;
    if (session->trace) {
        session->trace->ended = true;
        kept_touch(&session->trace->kept);
    }
    session->trace = NULL;
    if (trace->on && session->page)
        put_process(trace, session, TRACE_DISCONNECTED);
}

/* --- routes --- */

uint64_t trace_carry(const struct trace *trace)
{
    return trace->on ? clock_ns() : 0;
}

void trace_carried(struct trace *trace, enum trace_kind kind, uint64_t begin_ns, uint64_t queue,
                   uint32_t buffer, uint32_t taken)
{
    struct trace_event event = {.kind = (uint8_t)kind, .begin_ns = begin_ns};

    if (begin_ns == 0)
        return;
    event.end_ns = clock_ns();
    event.handover.queue = queue;
    event.handover.buffer = buffer;
    event.handover.taken = taken;
    trace_put(trace->own[TRACE_CONTROL].ring, &event);
}

/* --- what a client may tell of --- */

#define MAY_PUT          UINT64_C(1)
#define MAY_TAKE         UINT64_C(2)
#define NUMBERS_PER_WORD 32

static unsigned shift_of(uint32_t number)
{
    return number % NUMBERS_PER_WORD * 2;
}

/* 16 KiB at most, of TRACE_CLIENTS_MAX clients: charged to nobody. Without memory, it is lost. */
void trace_note_queue(struct session *session, uint32_t number, bool put, bool take)
{
    struct trace_client *client = session->trace;

    if (!client || number >= QUEUE_NUMBERS)
        return;
    if (!client->queues)
        client->queues = calloc(QUEUE_NUMBERS / NUMBERS_PER_WORD, sizeof(*client->queues));
    if (client->queues)
        client->queues[number / NUMBERS_PER_WORD] |= ((put ? MAY_PUT : 0) | (take ? MAY_TAKE : 0))
                                                     << shift_of(number);
}

void trace_forget_queue(struct trace *trace, uint32_t number)
{
    struct trace_client *client;

    DL_FOREACH (trace->clients, client)
        if (client->queues)
            client->queues[number / NUMBERS_PER_WORD] &=
                ~((MAY_PUT | MAY_TAKE) << shift_of(number));
}

bool trace_may_tell(const struct trace_client *client, enum trace_kind kind, uint64_t number)
{
    uint64_t may = kind == TRACE_ENQUEUE ? MAY_PUT : MAY_TAKE;

    return number < QUEUE_NUMBERS && client->queues &&
           (client->queues[number / NUMBERS_PER_WORD] >> shift_of((uint32_t)number) & may) != 0;
}

/* --- rings of sessions --- */

/* In the order of their sessions' numbers, in which a dump goes through them. */
void trace_list_client(struct trace *trace, struct trace_client *client)
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

/* The oldest ring of a session that has ended makes room; payer: of its users alone. */
static bool free_ended(struct trace *trace, const struct user *payer)
{
    struct trace_client *client;

    DL_FOREACH (trace->clients, client)
        if (client->ended && (!payer || client->user->payer == payer)) {
            free_client(trace, client);
            trace->refused++;
            kept_touch(&trace->kept);
            return true;
        }
    return false;
}

void trace_forget_read(struct trace *trace, const struct trace_cursor *after, size_t n)
{
    struct trace_client *client, *next;
    size_t i = 0;

    DL_FOREACH_SAFE (trace->clients, client, next) {
        if (!client->ended)
            continue;
        for (i = 0; i < n && after[i].session != client->session;)
            i++;
        if (i < n &&
            after[i].next >= atomic_load_explicit(&client->ring->next, memory_order_relaxed))
            free_client(trace, client);
    }
}

static bool charge_client(struct trace_client *client)
{
    if (user_charge_files(&client->charge_file, client->user, 1) < 0)
        return false;
    if (user_charge(&client->charge_memory, client->user, RESOURCE_TABLE_MEMORY,
                    trace_ring_bytes(client->entries)) == 0)
        return true;
    user_uncharge(&client->charge_file);
    return false;
}

/* Its ring, and the record of that. */
static bool fill_client(struct trace_client *client)
{
    void *map;

    if (memfd_map_new("npud-trace", trace_ring_bytes(client->entries), &client->fd, &map) < 0)
        return false;
    client->ring = map;
    kept_fd(client->fd);
    if (trace_client_keep(client))
        return true;
    munmap(map, trace_ring_bytes(client->entries));
    kept_close(client->fd);
    return false;
}

static struct trace_client *make_client(const struct session *session, uint64_t entries)
{
    struct trace *trace = session->server->trace;
    struct trace_client *client = trace_client_new(session->user);

    if (!client)
        return NULL;
    client->session = session->id;
    client->pid = session->pid;
    client->entries = entries;
    memcpy(client->program, session->program, sizeof(client->program));
    if ((charge_client(client) ||
         (free_ended(trace, session->user->payer) && charge_client(client))) &&
        fill_client(client))
        return client;
    trace_client_free(client);
    return NULL;
}

int trace_ring_of(struct session *session)
{
    struct trace *trace = session->server->trace;

    if (!trace->on)
        return -1;
    if (!session->trace && (trace->n_clients < TRACE_CLIENTS_MAX || free_ended(trace, NULL))) {
        session->trace = make_client(session, client_entries(trace));
        if (!session->trace) /* one that its user can pay */
            session->trace = make_client(session, TRACE_CLIENT_ENTRIES);
        if (session->trace)
            trace_list_client(trace, session->trace);
    }
    if (!session->trace) {
        trace->refused++;
        kept_touch(&trace->kept);
        return -1;
    }
    return session->trace->fd;
}
