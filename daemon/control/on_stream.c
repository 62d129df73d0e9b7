/* Requests about streams. */
#include "daemon/core/call.h"

#include "acl/acl_base.h"
#include "daemon/core/device.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/work.h"
#include "daemon/core/refuse.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/stream_abort.h"
#include "proto/shm/arena.h"

int32_t on_create_stream(struct call *call)
{
    const Npud__CreateStream *in = call->request->create_stream;
    Npud__CreateStreamReply *out;
    struct stream *stream;
    struct attach *attach = call->of.attach;
    int32_t lost = atomic_load(&attach->device->lost);
    enum cause cause;

    if (lost != 0)
        return refuse_with_error(call, lost, "device %u is lost", in->device);
    cause =
        stream_new(call->session, attach, in->context, in->priority, in->flags, &stream, &call->fd);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no stream on device %u", in->device);
    out = CALL_REPLY(call, create_stream, CREATE_STREAM);
    out->slot = stream->slot.number;
    out->stream_id = stream_id(stream);
    out->position = atomic_load_explicit(&stream->live->done, memory_order_relaxed);
    out->new_segment = call->fd >= 0;
    return 0;
}

static bool has_done_all(const struct stream *stream)
{
    return stream_end(stream) == atomic_load_explicit(&stream->live->done, memory_order_acquire);
}

int32_t on_destroy_stream(struct call *call)
{
    const Npud__DestroyStream *in = call->request->destroy_stream;
    struct stream *stream = call->of.stream;

    /* An honest client has aborted it before, or waited until all was done. */
    if (!has_done_all(stream))
        stream_abort(stream, 0, 0);
    stream_free(stream);
    if (in->new_segment)
        session_arena_file_resend(&call->session->stream_files, in->slot / ARENA_STREAMS);
    return 0;
}

int32_t on_abort_stream(struct call *call)
{
    const Npud__AbortStream *in = call->request->abort_stream;
    Npud__AbortStreamReply *out;
    struct stream *stream = call->of.stream;
    int32_t error;

    if (!in->hold) {
        stream_abort(stream, in->told, call->request->id);
        return 0;
    }
    stream_hold(stream);
    error = refuse(call, cause_of_device(work_await_dropped(stream)),
                   "what stream %u has given to its device goes on", stream_id(stream));
    if (error != 0)
        return error;
    out = CALL_REPLY(call, abort_stream, ABORT_STREAM);
    out->from = stream->live->held_from;
    out->to = stream->live->position;
    return 0;
}

int32_t on_set_failure_mode(struct call *call)
{
    stream_stop_at_failure(call->of.stream);
    return 0;
}

int32_t on_stop_task(struct call *call)
{
    const Npud__StopTask *stop = call->request->stop_task;
    uint64_t work =
        failure_stop_task(call->of.stream, call->request->id, stop->position, stop->tell_work);

    if (stop->tell_work)
        CALL_REPLY(call, stop_task, STOP_TASK)->work = work;
    return 0;
}

int32_t on_set_stream_priority(struct call *call)
{
    call->of.stream->live->priority = call->request->set_stream_priority->priority;
    return 0;
}

int32_t on_renew_arena(struct call *call)
{
    const Npud__RenewArena *in = call->request->renew_arena;
    struct session *session = call->session;
    struct arena_files *files = in->events ? &session->event_files : &session->stream_files;

    return refuse(call, session_arena_file_renew(files, in->segment),
                  "no other memory for segment %u of %s", in->segment,
                  in->events ? "events" : "streams");
}

int32_t on_streams_left(struct call *call)
{
    Npud__StreamsLeftReply *out;

    out = CALL_REPLY(call, streams_left, STREAMS_LEFT);
    out->streams = streams_remaining(call->session, call->of.attach);
    return 0;
}
