#include "daemon/control/fetch.h"

#include "daemon/buffers/queue.h"
#include "daemon/core/refuse.h"
#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/memory/allocation.h"

static int32_t no_object(struct call *call, const char *what)
{
    return refuse(call, CAUSE_NO_OBJECT, "no such %s", what);
}

static int32_t fetch_device(struct call *call, uint32_t device)
{
    bool known = devices_get(call->session->server->devices, device);

    call->of.attach = session_attach(call->session, device);
    return call->of.attach ? 0
                           : refuse(call, known ? CAUSE_DEVICE_NOT_OPEN : CAUSE_DEVICE_NONE,
                                    "device %u", device);
}

static int32_t fetch_event(struct call *call, uint32_t slot)
{
    struct event_obj *event = slots_get(&call->session->events, slot);

    call->of.event = event && !event->closing ? event : NULL;
    return call->of.event ? 0 : no_object(call, "event");
}

struct ipc_open *fetch_ipc_event(struct session *session, uint32_t slot)
{
    struct ipc_open *open = slots_get(&session->ipc, slot);

    return open && open->state == IPC_OPEN_USED ? open : NULL;
}

static int32_t fetch_queue(struct call *call, uint32_t id)
{
    if (id >= QUEUE_LOCAL_IDS)
        return refuse(call, CAUSE_QUEUE_ID, "queue %u", id);
    call->of.queue = queue_attached(call->session, id);
    return call->of.queue ? 0 : refuse(call, CAUSE_QUEUE_NOT_ATTACHED, "queue %u", id);
}

/* Binaries are in the table of allocations, and are none. */
static struct mem *fetch_memory(struct session *session, uint32_t slot, bool binary)
{
    struct mem *m = slots_get(&session->mems, slot);

    return m && !m->freed && (m->pages->kind == MEM_BINARY) == binary ? m : NULL;
}

int32_t fetch_object(struct call *call, enum need need, uint32_t number)
{
    struct session *session = call->session;

    switch (need) {
    case NEED_NOTHING:
        break;
    case NEED_DEVICE:
        return fetch_device(call, number);
    case NEED_STREAM:
        call->of.stream = slots_get(&session->streams, number);
        return call->of.stream ? 0 : no_object(call, "stream");
    case NEED_EVENT:
        return fetch_event(call, number);
    case NEED_IPC_EVENT:
        call->of.ipc = fetch_ipc_event(session, number);
        return call->of.ipc ? 0 : no_object(call, "event");
    case NEED_NOTIFY:
        call->of.notify = slots_get(&session->notifies, number);
        return call->of.notify ? 0 : no_object(call, "notify");
    case NEED_QUEUE:
        return fetch_queue(call, number);
    case NEED_MEMORY:
        call->of.mem = fetch_memory(session, number, false);
        return call->of.mem ? 0 : no_object(call, "allocation");
    case NEED_BINARY:
        call->of.mem = fetch_memory(session, number, true);
        return call->of.mem ? 0 : no_object(call, "binary");
    }
    return 0;
}
