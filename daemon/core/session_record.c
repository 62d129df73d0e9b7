/* What is kept of a session, and how it comes back. */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"
#include "daemon/kept/record.h"
#include "daemon/kept/restored.h"
#include "proto/util/clock.h"

#define ONE(name, Type, max) +1
static_assert(SESSION_TABLES(ONE) == SESSION_TABLE_COUNT, "each is kept");
#undef ONE

/* While npud restores: its sessions, by id. */
static struct restored restored;

#define SESSION_MEMBERS(DO)                                                                        \
    DO##DERIVED(id, o->id);                                                                        \
    DO##DERIVED(since_ns, o->since_ns);                                                            \
    DO##DERIVED(socket_key, kept_key(o->socket));                                                  \
    DO##DERIVED(pidfd_key, kept_key(o->pidfd));                                                    \
    DO##DERIVED(page_key, o->page ? kept_key(o->page_fd) : 0);                                     \
    DO##DERIVED(pid, o->pid);                                                                      \
    DO##DERIVED(uid, o->uid);                                                                      \
    DO##DERIVED(peer_id, o->peer_id);                                                              \
    DO##SAME(ring_depth, ring_depth);                                                              \
    DO##SAME(protocol, protocol);                                                                  \
    DO##DERIVED(state, (uint8_t)o->state);                                                         \
    DO##DERIVED(takes_fds, o->takes_fds);                                                          \
    DO##DERIVED(left, o->left);                                                                    \
    DO##SAME(streams_made, streams_made);                                                          \
    DO##DERIVED(latest[0], o->table[0].latest);                                                    \
    DO##DERIVED(latest[1], o->table[1].latest);                                                    \
    DO##DERIVED(latest[2], o->table[2].latest);                                                    \
    DO##DERIVED(latest[3], o->table[3].latest);                                                    \
    DO##DERIVED(latest[4], o->table[4].latest);                                                    \
    DO##DERIVED(faults, o->faults);                                                                \
    DO##DERIVED(fault_by, o->fault_by);                                                            \
    DO##SAME(fault_death, fault_death);                                                            \
    DO##SAME(fault_s, fault_s);                                                                    \
    DO##DERIVED(idle, o->idle_state);                                                              \
    DO##BYTES(program, program);                                                                   \
    DO##DERIVED(job, batch_job_number(o->batch_job));

RECORD_OF(static, record_of_session, SESSION, struct session, kept, struct session_record,
          SESSION_MEMBERS, offsetof(struct session_record, requests), (void)o)

uint64_t *session_requests(const struct session *session)
{
    return &((struct session_record *)kept_record(&session->kept))->requests;
}

bool session_keep(struct session *session)
{
    if (!record_of_session_keep(session))
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
    session->left = r->left;
    session->faults = r->faults & 3;
    session->fault_by = r->fault_by & 63;
    session->idle_state = r->idle & 3;
    for (unsigned i = 0; i < SESSION_TABLE_COUNT; i++)
        slots_init(&session->table[i], session->table[i].object_size, session->table[i].max,
                   r->latest[i] + 1);
    return restored_add(&restored, session->id, session) &&
           record_of_session_back(session->server, session, cell, r) &&
           bind_page(session, r->page_key);
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
    kept_touch(&session->kept);
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
    kept_touch(&session->kept);
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
        for (unsigned t = 0; t < SESSION_TABLE_COUNT; t++)
            finish_table(restored.row[i].object,
                         &((struct session *)restored.row[i].object)->table[t]);
    restored_forget(&restored);
}
