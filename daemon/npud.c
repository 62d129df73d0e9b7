#include "daemon/npud.h"

#include <errno.h>
#include <string.h>

#include "daemon/admin/admin.h"
#include "daemon/admin/commands.h"
#include "daemon/admin/own_waits.h"
#include "daemon/base/log.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/held_request.h"
#include "daemon/control/listener.h"
#include "daemon/control/session_life.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"
#include "daemon/engine/inject.h"
#include "daemon/engine/value.h"
#include "daemon/base/filled.h"
#include "daemon/control/session_hear.h"
#include "daemon/core/release.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/export.h"

static struct parts {
    struct devices devices;
    struct ipc_events ipc;
    struct inject inject;
    struct notifies notifies;
    struct memory_exports memory_exports;
    struct peers peers;
    struct pools pools;
    struct queues queues;
    struct router router;
    struct trace trace;
    struct listener clients, admins;
    struct commands commands;
} parts;

void npud_assemble(struct server *server)
{
    parts = (struct parts){0};
    server->devices = &parts.devices;
    server->ipc = &parts.ipc;
    server->inject = &parts.inject;
    server->notifies = &parts.notifies;
    server->memory_exports = &parts.memory_exports;
    server->peers = &parts.peers;
    server->pools = &parts.pools;
    server->queues = &parts.queues;
    server->router = &parts.router;
    server->trace = &parts.trace;
    server->clients = &parts.clients;
    server->admins = &parts.admins;
    server->commands = &parts.commands;
    server->schedule.fd = -1;
    server->spare = (struct spare_fds)SPARE_FDS_NULL;
    server->users.schedule = &server->schedule;
    dispatch_own_waits = own_waits_answer;
    dispatch_drop_own_waits = own_waits_drop;
    server->schedule.after_step = kept_commit;
    admin_end_session = session_end;
    backend_told = request_device_told;
    backend_landed = value_landed;
    backend_lost = session_lose_devices;
    release_free_binary = allocation_free_binary;
    parts.trace.on_told = admin_trace_told;
}

static int begin_tables(struct server *server)
{
    int r;

    filled_init();
    spare_fds_fill(&server->spare);
    inject_init(server->inject);
    trace_init(server);
    server->base = event_base_new();
    r = server->base ? schedule_init(&server->schedule, server->base) : -ENOMEM;
    if (r == 0)
        r = server_keep(server);
    if (r == 0)
        r = commands_keep(server);
    if (r == 0)
        r = sessions_init(server);
    return r;
}

int npud_begin(struct server *server)
{
    int r = begin_tables(server);

    if (r == 0)
        return devices_init(server->devices, server);
    log_error("npud lacks memory or descriptors to begin: %s", strerror(-r));
    return r;
}

int npud_start_engines(struct server *server)
{
    kept_commit();
    return devices_start(server->devices);
}

void npud_end(struct server *server)
{
    sessions_deinit(server);
    devices_deinit(server->devices);
    inject_deinit(server->inject);
    trace_deinit(server);
    filled_deinit();
    spare_fds_deinit(&server->spare);
    commands_forget(server);
    free(server->check_directory);
    server_forget(server);
    kept_commit();
}
