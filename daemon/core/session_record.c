/* What is kept of a session, and how it comes back. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/restored.h"
#include "proto/util/clock.h"

/* While npud restores: its sessions, by id. */
static struct restored restored;

/* In the order of session_record.latest. */
static struct slots *table_of(struct session *session, unsigned i)
{
    struct slots *const tables[SESSION_TABLES] = {
        &session->streams, &session->events, &session->ipc, &session->mems, &session->notifies};

    return tables[i];
}

static size_t write_session(const struct kept *kept, void *record)
{
    struct session *session = (struct session *)((char *)kept - offsetof(struct session, record));
    struct session_record *r = record;

    *r = (struct session_record){.id = session->id,
                                 .since_ns = session->since_ns,
                                 .socket_key = kept_key(session->socket),
                                 .pidfd_key = kept_key(session->pidfd),
                                 .page_key = session->page ? kept_key(session->page_fd) : 0,
                                 .pid = session->pid,
                                 .uid = session->uid,
                                 .peer_id = session->peer_id,
                                 .ring_depth = session->ring_depth,
                                 .protocol = session->protocol,
                                 .state = (uint8_t)session->state,
                                 .takes_fds = session->takes_fds,
                                 .left = session->left,
                                 .streams_made = session->streams_made,
                                 .faults = session->faults,
                                 .fault_by = session->fault_by,
                                 .fault_death = session->fault_death,
                                 .fault_s = session->fault_s,
                                 .job = batch_job_number(session->batch_job)};
    memcpy(r->program, session->program, sizeof(r->program));
    for (unsigned i = 0; i < SESSION_TABLES; i++)
        r->latest[i] = table_of(session, i)->latest;
    return offsetof(struct session_record, requests);
}

uint64_t *session_requests(const struct session *session)
{
    return &((struct session_record *)kept_record(&session->record))->requests;
}

bool session_keep(struct session *session)
{
    if (!kept_make(&session->record, KEPT_SESSION, sizeof(struct session_record), write_session))
        return false;
    kept_fd(session->socket);
    if (session->pidfd >= 0)
        kept_fd(session->pidfd);
    return true;
}

/* Streams that waited for words do so again when they park again. */
static void begin_waits(struct session *session)
{
    struct session_page *page = session->page;

    atomic_store_explicit(&page->value_waiters, 0, memory_order_relaxed);
    if (!session->tells_waited)
        return;
    for (unsigned i = 0; i < sizeof(page->waited) / sizeof(page->waited[0]); i++)
        atomic_store_explicit(&page->waited[i], 0, memory_order_relaxed);
}

static bool bind_page(struct session *session, uint64_t key)
{
    struct stat st;
    void *map;

    if (key == 0)
        return true;
    session->page_fd = session_own_fd(session->server, kept_fd_take(key));
    if (session->page_fd < 0 || fstat(session->page_fd, &st) < 0)
        return false;
    map = mmap(NULL, sizeof(struct session_page), PROT_READ | PROT_WRITE, MAP_SHARED,
               session->page_fd, 0);
    if (map == MAP_FAILED)
        return false;
    session->page = map;
    session->tells_waited = session_page_tells_waited((size_t)st.st_size);
    begin_waits(session);
    trace_tell_session(session);
    session_charge_file_again(session, (uint64_t)st.st_size);
    return true;
}

bool session_bind(struct session *session, struct kept_cell *cell, const struct session_record *r)
{
    session->ring_depth = r->ring_depth;
    session->protocol = r->protocol;
    session->left = r->left;
    session->streams_made = r->streams_made;
    session->faults = r->faults & 3;
    session->fault_by = r->fault_by & 63;
    session->fault_death = r->fault_death;
    session->fault_s = r->fault_s;
    snprintf(session->program, sizeof(session->program), "%.63s", r->program);
    for (unsigned i = 0; i < SESSION_TABLES; i++) {
        struct slots *t = table_of(session, i);

        slots_init(t, t->object_size, t->max, r->latest[i] + 1);
    }
    if (!restored_add(&restored, session->id, session) ||
        !kept_bind(&session->record, cell, sizeof(*r), write_session))
        return false;
    return bind_page(session, r->page_key);
}

/*
 * Two: one fault may be anybody's, and a second one that comes soon after it is taken for the
 * session's. Else its request, or its task, which are done again, would end each npud that comes.
 */
#define FAULTS_MAX 2
#define FORGIVEN_S 600 /* longer than it takes to see a hang */

bool session_blame(struct session *session, uint16_t death, unsigned who)
{
    uint32_t now = (uint32_t)(clock_ns() / NSEC_PER_SEC);

    if (session->fault_death == death)
        return false; /* another thread had it in hand, too, or this end is looked at again */
    kept_touch(&session->record);
    if (now - session->fault_s > FORGIVEN_S)
        session->faults = 0;
    session->faults++;
    session->fault_by = (who + 1) & 63;
    session->fault_death = death;
    session->fault_s = now;
    return session->faults >= FAULTS_MAX;
}

void session_forgive(struct session *session)
{
    if (session->faults == 0 || session->fault_by != KEPT_CONTROL + 1)
        return;
    kept_touch(&session->record);
    session->faults = 0;
    session->fault_by = 0;
}

struct session *session_by_id(uint64_t id)
{
    return restored_find(&restored, id);
}

static void finish_table(struct session *session, struct slots *table)
{
    unsigned maps;
    size_t bytes = slots_memory(table, &maps);

    slots_restored(table);
    if (bytes > 0)
        user_charge_again(&session->charge_tables, session->user, RESOURCE_TABLE_MEMORY, bytes,
                          false);
    if (maps > 0)
        user_charge_again(&session->charge_maps, session->user, RESOURCE_MAPPINGS, maps, false);
}

void sessions_restored(void)
{
    for (size_t i = 0; i < restored.n; i++)
        for (unsigned t = 0; t < SESSION_TABLES; t++)
            finish_table(restored.row[i].object, table_of(restored.row[i].object, t));
    restored_forget(&restored);
}
