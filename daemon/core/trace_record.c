/* What is kept of the trace, and how the next npud goes on with it. */
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"
#include "daemon/kept/record.h"
#include "daemon/kept/trace_record.h"

static_assert((int)TRACE_RECORD_RINGS == (int)TRACE_OWN_MAX, "all of npud's own");

static size_t write_trace(const struct kept *kept, void *record)
{
    const struct trace *trace =
        (const struct trace *)((const char *)kept - offsetof(struct trace, kept));
    struct trace_record *r = record;

    *r = (struct trace_record){.begun_ns = trace->begun_ns,
                               .ended_ns = trace->ended_ns,
                               .number = trace->number,
                               .refused = trace->refused,
                               .on = trace->on,
                               .entries = trace->entries};
    for (unsigned i = 0; i < TRACE_OWN_MAX; i++) {
        r->own[i].key = trace->own[i].ring ? kept_key(trace->own[i].fd) : 0;
        r->own[i].from = trace->own[i].from;
    }
    return sizeof(*r);
}

#define CLIENT_MEMBERS(DO)                                                                         \
    DO##SAME(session, session);                                                                    \
    DO##DERIVED(key, kept_key(o->fd));                                                             \
    DO##SAME(from, from);                                                                          \
    DO##SAME(pid, pid);                                                                            \
    DO##DERIVED(uid, o->user->uid);                                                                \
    DO##SAME(ended, ended);                                                                        \
    DO##BYTES(program, program);

RECORD(, trace_client, TRACE_CLIENT, struct trace_client, kept, struct trace_client_record,
       CLIENT_MEMBERS)

bool trace_keep(struct trace *trace)
{
    return trace->kept.cell ||
           kept_make(&trace->kept, KEPT_TRACE, sizeof(struct trace_record), write_trace);
}

/* --- restoring --- */

/* Its file says how large it is: nobody can change that. */
static struct trace_ring *map_ring(int fd, uint64_t least, uint64_t *entries)
{
    struct stat st;
    void *map;

    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    *entries = trace_ring_entries((uint64_t)st.st_size, least);
    map = mmap(NULL, trace_ring_bytes(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static bool restore_own(struct trace_own *own, uint64_t key, uint64_t from)
{
    uint64_t entries;

    if (key == 0)
        return true;
    own->fd = kept_fd_take(key);
    own->from = from;
    own->ring = map_ring(own->fd, TRACE_OWN_ENTRIES, &entries);
    return own->ring != NULL;
}

bool trace_restore(struct server *server, struct kept_cell *cell)
{
    struct trace *trace = server->trace;
    struct trace_record r;

    kept_read(cell, &r, sizeof(r));
    if (!kept_bind(&trace->kept, cell, sizeof(r), write_trace))
        return false;
    for (unsigned i = 0; i < TRACE_OWN_MAX; i++)
        if (!restore_own(&trace->own[i], r.own[i].key, r.own[i].from))
            return false;
    trace->begun_ns = r.begun_ns;
    trace->ended_ns = r.ended_ns;
    trace->number = r.number;
    trace->entries = r.entries;
    trace->refused = r.refused;
    trace->on = r.on && trace->own[TRACE_CONTROL].ring;
    if (!trace->on)
        return true;
    trace_put_moment(trace, TRACE_RESTARTED);
    for (uint32_t i = 0; i < server->devices->n; i++)
        trace_tell_device(server, i);
    return true;
}

/* The npud before has charged for it: also more than the user may have. */
static struct trace_client *restore_charged(struct server *server, uid_t uid, uint64_t entries)
{
    struct user *user = user_ref(&server->users, uid);
    struct trace_client *client = user ? trace_client_new(user) : NULL;

    user_unref(user);
    if (!client)
        return NULL;
    user_charge_again(&client->charge_file, client->user, RESOURCE_FDS, 1, true);
    user_charge_again(&client->charge_memory, client->user, RESOURCE_TABLE_MEMORY,
                      trace_ring_bytes(entries), false);
    return client;
}

/* Its ring is not there, or has no room here: no trace is worth the sessions. */
static void lose_client(struct trace *trace, struct trace_client *client)
{
    kept_drop(&client->kept);
    kept_close(client->fd);
    trace_client_free(client);
    trace->refused++;
    kept_touch(&trace->kept);
}

bool trace_restore_client(struct server *server, struct kept_cell *cell)
{
    uint64_t entries = TRACE_CLIENT_ENTRIES;
    struct trace_client_record r;
    struct trace_client *client;
    struct trace_ring *ring;
    struct session *session;
    int fd;

    kept_read(cell, &r, sizeof(r));
    fd = kept_fd_take(r.key);
    ring = map_ring(fd, TRACE_CLIENT_ENTRIES, &entries);
    client = restore_charged(server, r.uid, entries);
    if (!client)
        return false;
    if (!trace_client_back(server, client, cell, &r)) {
        trace_client_free(client);
        return false;
    }
    client->fd = fd;
    client->ring = ring;
    client->entries = entries;
    if (!ring) {
        lose_client(server->trace, client);
        return true;
    }
    session = session_by_id(r.session);
    if (!session && !client->ended) {
        trace_client_free(client);
        return false;
    }
    if (!client->ended)
        session->trace = client;
    trace_list_client(server->trace, client);
    return true;
}
