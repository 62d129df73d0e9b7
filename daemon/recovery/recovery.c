#include "daemon/recovery/recovery.h"

#include <errno.h>

#include "daemon/base/log.h"
#include "daemon/control/answer.h"
#include "daemon/control/session_life.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "daemon/memory/allocation.h"

/* Each kind is restored by the module that has written the record. */
struct row {
    enum kept_kind kind;
    bool (*restore)(struct server *server, struct kept_cell *cell);
};

static const struct row rows[] = {
    {KEPT_SERVER, server_restore},
    {KEPT_SESSION, session_restore},
    {KEPT_ATTACH, attach_restore},
    {KEPT_MEMORY, allocation_restore},
    {KEPT_SURVIVOR, survivor_restore},
    {KEPT_IPC_EVENT, ipc_event_restore},
    {KEPT_IPC_FAILURES, ipc_failures_restore},
    {KEPT_IPC_OPENER, ipc_opener_restore},
    {KEPT_IPC_OPEN, ipc_open_restore},
    {KEPT_IPC_EXPORT, ipc_export_restore},
    {KEPT_IPC_LEFT, ipc_left_restore},
    {KEPT_ANSWER, answer_restore},
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
    sessions_finish_restoring,
};

static bool restore_record(void *arg, struct kept_cell *cell)
{
    const struct {
        struct server *server;
        const struct row *row;
    } *now = arg;

    return now->row->restore(now->server, cell);
}

static int restore_all(struct server *server)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct {
            struct server *server;
            const struct row *row;
        } now = {server, &rows[i]};

        if (!kept_each(rows[i].kind, restore_record, &now)) {
            log_error("a record of the npud before cannot be restored: kind %d", (int)rows[i].kind);
            return -EIO;
        }
    }
    return 0;
}

int recovery_run(struct server *server)
{
    int r = kept_scan();

    if (r == 0)
        r = restore_all(server);
    kept_scan_end();
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof(finish) / sizeof(finish[0]); i++)
        finish[i](server);
    kept_fds_forget_rest();
    kept_commit();
    return 0;
}
