/* Requests about the session itself: Hello, devices, the end, and what its user waits for. */
#include "acl/acl_base.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/session_idle.h"
#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/kept.h"
#include "proto/util/clock.h"
#include "proto/wire/packet.h"

int32_t on_hello(struct call *call)
{
    const Npud__Hello *hello = call->request->hello;
    struct devices *devices = call->session->server->devices;
    Npud__HelloReply *out;
    enum cause cause;

    if (call->session->state != SESSION_CONNECTED) {
        call->fault = true;
        return refuse_with_error(call, ACL_ERROR_REPEAT_INITIALIZE, "Hello a second time");
    }
    if (!protocol_is_served(hello->protocol))
        return refuse_with_error(
            call, ACL_ERROR_API_NOT_SUPPORT,
            PROTOCOL < hello->protocol
                ? "this npud speaks protocols %u to %u, the client library speaks %u: npud is the "
                  "older one; replace it by the version that is installed (npuctl upgrade, or "
                  "systemctl restart npud)"
                : "this npud speaks protocols %u to %u, the client library speaks %u: the program "
                  "runs with the older one; restart the program, so that it loads the library that "
                  "is installed",
            PROTOCOL_OLDEST, PROTOCOL, hello->protocol);
    call->session->protocol = hello->protocol;
    cause = session_hello(call->session, hello->program);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no session");
    call->fd = call->session->page_fd;
    out = CALL_REPLY(call, hello, HELLO);
    out->session = call->session->id;
    out->ring_depth = call->session->ring_depth;
    out->epoch_ns = devices->epoch_ns;
    out->clock_ns = clock_ns();
    out->pid = call->session->pid;
    out->uid = call->session->uid;
    out->page_bytes = sizeof(struct session_page);
    out->peer = call->session->peer_id;
    if (call->session->server->check_directory)
        out->check_directory = call->session->server->check_directory;
    out->backend = (char *)devices->backend->name;
    out->n_devices = devices->n;
    out->devices = call->body->parts.devices.list;
    for (uint32_t i = 0; i < devices->n; i++) {
        Npud__Device *device = out->devices[i] = &call->body->parts.devices.row[i];

        *device = (Npud__Device)NPUD__DEVICE__INIT;
        device->soc_name = (char *)devices->device[i].info.soc_name;
        device->memory = devices->device[i].info.memory;
        device->strict = devices->device[i].info.strict;
        device->away = devices->device[i].info.away;
        device->uuid.data = devices->device[i].uuid;
        device->uuid.len = sizeof(devices->device[i].uuid);
    }
    return 0;
}

int32_t on_open_device(struct call *call)
{
    uint32_t number = call->request->open_device->device;
    enum cause cause = session_open_device(call->session, number, &call->fd);
    const struct device *device = devices_get(call->session->server->devices, number);
    bool said = cause == CAUSE_DEVICE_REFUSED;

    return refuse(call, cause, "device %u%s%.80s", number, said ? ": " : "",
                  said ? device->backend->refusal(call->session->space) : "");
}

int32_t on_leave_session(struct call *call)
{
    call->session->left = true;
    kept_touch(&call->session->kept);
    return 0;
}

int32_t on_idle_session(struct call *call)
{
    struct session *session = call->session;

    if (call->request->idle_session->idle)
        return refuse(call, session_idle_begin(session), "others are not told");
    if (!session_idle_end(session))
        return refuse(call, CAUSE_IDLE_GOES_ON, "the session is in use again");
    return 0;
}

int32_t (*dispatch_own_waits)(struct call *call);
void (*dispatch_drop_own_waits)(struct session *session);

int32_t on_own_waits(struct call *call)
{
    return dispatch_own_waits(call);
}
