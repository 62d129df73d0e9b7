#include "client/runtime/undo.h"

static void undo_stream(struct undo *u, const Npud__CreateStreamReply *made)
{
    u->stream = (Npud__DestroyStream)NPUD__DESTROY_STREAM__INIT;
    u->stream.slot = made->slot;
    u->stream.new_segment = made->new_segment;
    u->request.destroy_stream = &u->stream;
    u->request.body_case = NPUD__REQUEST__BODY_DESTROY_STREAM;
}

static void undo_event(struct undo *u, const Npud__CreateEventReply *made)
{
    u->event = (Npud__DestroyEvent)NPUD__DESTROY_EVENT__INIT;
    u->event.slot = made->slot;
    u->event.new_segment = made->new_segment;
    u->request.destroy_event = &u->event;
    u->request.body_case = NPUD__REQUEST__BODY_DESTROY_EVENT;
}

static void undo_ipc_event(struct undo *u, const Npud__IpcEventReply *made)
{
    u->ipc_event = (Npud__CloseIpcEvent)NPUD__CLOSE_IPC_EVENT__INIT;
    u->ipc_event.slot = made->slot;
    u->request.close_ipc_event = &u->ipc_event;
    u->request.body_case = NPUD__REQUEST__BODY_CLOSE_IPC_EVENT;
}

static void undo_memory(struct undo *u, const Npud__MallocReply *made)
{
    u->memory = (Npud__Free)NPUD__FREE__INIT;
    u->memory.slot = made->slot;
    u->request.free = &u->memory;
    u->request.body_case = NPUD__REQUEST__BODY_FREE;
}

static void undo_segment(struct undo *u, const Npud__SegmentReply *made)
{
    u->segment = (Npud__TrimSegment)NPUD__TRIM_SEGMENT__INIT;
    u->segment.segment = made->id;
    u->request.trim_segment = &u->segment;
    u->request.body_case = NPUD__REQUEST__BODY_TRIM_SEGMENT;
}

static void undo_queue(struct undo *u, const Npud__QueueReply *made)
{
    u->queue = (Npud__DestroyQueue)NPUD__DESTROY_QUEUE__INIT;
    u->queue.queue = made->queue;
    u->request.destroy_queue = &u->queue;
    u->request.body_case = NPUD__REQUEST__BODY_DESTROY_QUEUE;
}

bool undo_fill(struct undo *u, const Npud__Request *request, const Npud__Reply *reply)
{
    u->request = (Npud__Request)NPUD__REQUEST__INIT;
    if (reply->error != 0)
        return false;
    switch (request->body_case) {
    case NPUD__REQUEST__BODY_CREATE_STREAM:
        undo_stream(u, reply->create_stream);
        return true;
    case NPUD__REQUEST__BODY_CREATE_EVENT:
        undo_event(u, reply->create_event);
        return true;
    case NPUD__REQUEST__BODY_CREATE_IPC_EVENT:
    case NPUD__REQUEST__BODY_OPEN_IPC_EVENT:
        undo_ipc_event(u, reply->ipc_event);
        return true;
    case NPUD__REQUEST__BODY_MALLOC:
        undo_memory(u, reply->malloc);
        return true;
    case NPUD__REQUEST__BODY_CREATE_SEGMENT:
        undo_segment(u, reply->segment);
        return true;
    case NPUD__REQUEST__BODY_CREATE_QUEUE:
        undo_queue(u, reply->queue);
        return true;
    default:
        return false;
    }
}
