#include "daemon/recovery/recovery.h"

#include <assert.h>
#include <errno.h>

#include "daemon/admin/commands.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
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
#include "daemon/control/session_idle.h"
#include "daemon/control/session_life.h"
#include "daemon/core/batch_job.h"
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
#include "daemon/core/trace.h"
#include "daemon/engine/notify_tasks.h"
#include "daemon/kept/blame.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/export.h"

/* Each kind is restored by the module that has written the record, in the order of kinds.h. */
static const struct row {
    enum kept_kind kind;
    bool (*restore)(struct server *server, struct kept_cell *cell);
} rows[] = {
#define ROW(name, number, version, live, restore, what) {KEPT_##name, restore},
    KEPT_KINDS(ROW)
#undef ROW
};

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
    allocations_count_sharers, /* waits that are rejoined ask for it */
    engines_finish_restoring,
    allocations_finish_restoring,
    devices_finish_restoring,
    notifies_look_again,
    notifies_finish_restoring,
    releases_finish_restoring,
    event_fds_finish_restoring,
    sessions_idle_finish_restoring,
    sessions_finish_restoring,
    batch_jobs_finish_restoring,
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

/* docs/restart.md, "Whose fault". */
static void blame_session(void *arg, uint64_t id, unsigned who, uint64_t what)
{
    struct session *session = session_by_id(id);

    (void)arg;
    if (!session || !session_blame(session, blame_death(), who))
        return;
    session->state = SESSION_ENDED;
    log_event(
        MESSAGE_SESSION_GIVEN_UP, LOG_ERR, &session->log,
        "npud has ended by a fault for the second time with something of this session in hand "
        "(request or task %u): session ended; please report it",
        (unsigned)what);
}

int recovery_run(struct server *server)
{
    int r = kept_scan();

    if (r < 0)
        log_error("no memory to look at the records of the npud before");
    else
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
    blame_each(blame_session, NULL);
    for (size_t i = 0; i < sizeof(finish) / sizeof(finish[0]); i++) {
        finish[i](server);
        KILL_HERE(KIND_FINISHED);
    }
    kept_fds_forget_rest();
    KILL_HERE(FDS_FORGOTTEN);
    kept_commit();
    KILL_HERE(RECOVERY_CERTAIN);
    blame_end();
    KILL_HERE(IN_HAND_FORGOTTEN);
    return 0;
}
