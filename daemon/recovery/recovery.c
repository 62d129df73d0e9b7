#include "daemon/recovery/recovery.h"

#include <errno.h>

#include "daemon/admin/commands.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/buffers/buffers.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/control/answer.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/session_life.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/notify.h"
#include "daemon/core/release.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/inject.h"
#include "daemon/core/survivor.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "daemon/memory/allocation.h"

#define FAULTS_MAX 2

/* Each kind is restored by the module that has written the record. */
struct row {
    enum kept_kind kind;
    bool (*restore)(struct server *server, struct kept_cell *cell);
};

/* A row each. */
/* clang-format off */
static const struct row rows[] = {
    {KEPT_SERVER, server_restore},
    {KEPT_RULE, inject_restore_rule},
    {KEPT_DEVICE, device_restore},
    {KEPT_COMMANDS, commands_restore},
    {KEPT_SESSION, session_restore},
    {KEPT_ATTACH, attach_restore},
    {KEPT_CONTEXT, context_restore},
    {KEPT_STREAMS, streams_restore},
    {KEPT_EVENTS, events_restore},
    {KEPT_DISCARDS, discards_restore},
    {KEPT_MEMORY, allocation_restore},
    {KEPT_SURVIVOR, survivor_restore},
    {KEPT_IPC_EVENT, ipc_event_restore},
    {KEPT_IPC_OPENER, ipc_opener_restore},
    {KEPT_IPC_FAILURES, ipc_failures_restore},
    {KEPT_IPC_OPEN, ipc_open_restore},
    {KEPT_IPC_EXPORT, ipc_export_restore},
    {KEPT_IPC_LEFT, ipc_left_restore},
    {KEPT_NOTIFY, notify_restore},
    {KEPT_NOTIFY_PIDS, notify_pids_restore},
    {KEPT_NOTIFY_OPEN, notify_open_restore},
    {KEPT_RELEASE, release_restore},
    {KEPT_EVENT_FD, event_fd_restore},
    {KEPT_PEER, buffers_restore_peer},
    {KEPT_POOL, pool_restore},
    {KEPT_SEGMENT, segment_restore},
    {KEPT_SEGMENT_MAP, segment_map_restore},
    {KEPT_QUEUE, queue_restore},
    {KEPT_QUEUE_ATTACH, queue_attach_restore},
    {KEPT_GRANT, grant_restore},
    {KEPT_QUEUE_MAP, queue_map_restore},
    {KEPT_QUEUE_REST, queue_rest_restore},
    {KEPT_RELAY, relay_restore},
    {KEPT_ROUTE, route_restore},
    {KEPT_MESSAGE, message_restore},
    {KEPT_ROUTE_GAP, route_gap_restore},
    {KEPT_ANSWER, answer_restore},
};
/* clang-format on */

/* Before anything is freed: slots of sessions that no object has are free. */
static void finish_tables(struct server *server)
{
    (void)server;
    sessions_restored();
}

/* When all objects are there, in this order. Sessions come last: some of them end. */
static void (*const finish[])(struct server *server) = {
    finish_tables,
    ipc_events_finish_restoring,
    survivors_finish_restoring,
    engines_finish_restoring,
    notifies_look_again,
    notifies_finish_restoring,
    releases_finish_restoring,
    event_fds_finish_restoring,
    sessions_finish_restoring,
};

static bool restore_record(void *arg, struct kept_cell *cell)
{
    const struct {
        struct server *server;
        const struct row *row;
    } *now = arg;

    KILL_HERE(RECORD_RESTORED);
    return now->row->restore(now->server, cell);
}

static int restore_all(struct server *server)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct {
            struct server *server;
            const struct row *row;
        } now = {server, &rows[i]};

        KILL_HERE(KIND_RESTORED);
        if (!kept_each(rows[i].kind, restore_record, &now)) {
            log_error("a record of the npud before cannot be restored: kind %d", (int)rows[i].kind);
            return -EIO;
        }
    }
    return 0;
}

/*
 * One fault may be anybody's. The second with the same session in hand is taken for its doing: else
 * its request, or its task, which are done again, would end each npud that comes.
 */
static void suspect(void *arg, uint64_t id, uint64_t what)
{
    struct session *session = session_by_id(id);

    (void)arg;
    if (!session)
        return;
    kept_touch(&session->record);
    if (++session->faults < FAULTS_MAX)
        return;
    session->state = SESSION_ENDED;
    log_line(LOG_ERR, &session->log,
             "npud has ended by a fault for the second time with something of this session in hand "
             "(request or task %u): session ended; please report it",
             (unsigned)what);
}

int recovery_run(struct server *server, bool fault)
{
    int r = kept_scan();

    if (r == 0)
        r = restore_all(server);
    KILL_HERE(RECORDS_RESTORED);
    kept_scan_end();
    if (r == 0 && !buffers_finish_restoring(server)) {
        log_error("no memory to restore the messages of the npud before");
        r = -ENOMEM;
    }
    if (r < 0)
        return r;
    KILL_HERE(BUFFERS_FINISHED);
    kept_each_in_hand(fault, suspect, NULL);
    KILL_HERE(IN_HAND_FORGOTTEN);
    for (size_t i = 0; i < sizeof(finish) / sizeof(finish[0]); i++) {
        finish[i](server);
        KILL_HERE(KIND_FINISHED);
    }
    kept_fds_forget_rest();
    KILL_HERE(FDS_FORGOTTEN);
    kept_commit();
    KILL_HERE(RECOVERY_CERTAIN);
    return 0;
}
