#include "client/runtime/reply.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/runtime/session.h"
#include "proto/shm/ipc_page.h"
#include "proto/shm/mbuf_shm.h"
#include "proto/shm/queue_shm.h"
#include "proto/shm/trace_ring.h"
#include "proto/wire/ipc_handle.h"
#include "proto/wire/packet.h"

/* Codes of the API. What is beyond has a meaning in the library. */
#define ERROR_FIRST 100000
#define ERROR_LAST  598999

#define DEPTH_MIN  64u /* of streams' rings, as npud's configuration has it */
#define DEPTH_MAX  65536u
#define KEY_LENGTH 64 /* characters of the key of a notify, or of memory */
#define UUID_SIZE  16

/* An answer without error, whose body and number of descriptors are those of its row. */
struct answer {
    const struct session *session;
    const Npud__Request *request;
    const Npud__Reply *reply;
    const int *fds; /* NULL: not known */
    size_t n;
    bool *odd; /* set if it is a descriptor that is wrong */
};

/* --- descriptors --- */

/*
 * So many bytes can be mapped, and used without SIGBUS for as long as they are: a memfd that its
 * other holders cannot shrink.
 */
static bool holds_bytes(const struct answer *a, size_t i, uint64_t size)
{
    struct stat st;
    int seals;

    if (!a->fds)
        return true;
    if (fstat(a->fds[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
        (uint64_t)st.st_size >= size) {
        seals = fcntl(a->fds[i], F_GET_SEALS);
        if (seals >= 0 && (seals & F_SEAL_SHRINK))
            return true;
    }
    *a->odd = true;
    return false;
}

/*
 * Of a kind that no file, pipe, socket or terminal is. Of this kind only an eventfd takes the eight
 * bytes that are written to it. O_NONBLOCK is a flag that all have together who have the
 * descriptor, and any of them may have cleared it: it says nothing of npud, and is set here.
 */
static bool is_doorbell(const struct answer *a)
{
    struct stat st;
    int flags;

    if (!a->fds)
        return true;
    flags = fcntl(a->fds[0], F_GETFL);
    if (fstat(a->fds[0], &st) == 0 && (st.st_mode & S_IFMT) == 0 && flags >= 0 &&
        ((flags & O_NONBLOCK) || fcntl(a->fds[0], F_SETFL, flags | O_NONBLOCK) == 0))
        return true;
    *a->odd = true;
    return false;
}

static const char *check_bell(const struct answer *a)
{
    return is_doorbell(a) ? NULL : "its descriptor is no eventfd";
}

/* --- bodies: NULL, or what is wrong --- */

static const char *check_hello(const struct answer *a)
{
    const Npud__HelloReply *in = a->reply->hello;

    if (in->ring_depth < DEPTH_MIN || in->ring_depth > DEPTH_MAX ||
        (in->ring_depth & (in->ring_depth - 1)) != 0)
        return "the depth of streams is out of range";
    if (in->n_devices > DEVICES_MAX)
        return "it has too many devices";
    for (size_t i = 0; i < in->n_devices; i++)
        if (in->devices[i]->uuid.len != UUID_SIZE)
            return "the UUID of a device has another size";
    if (in->peer == PEER_NPUD || in->peer > PEER_MAX)
        return "the peer id is out of range";
    if (in->page_bytes < sizeof(struct session_page))
        return "the session page is shorter than that of the library";
    return holds_bytes(a, 0, sizeof(struct session_page)) ? NULL
                                                          : "its descriptor is no session page";
}

/* Of the arena: it comes once, with the first object in it, until it is renewed. */
static const char *check_arena_file(const struct answer *a, bool is_new, bool mapped, bool renewed,
                                    uint64_t size)
{
    if (!a->fds)
        return NULL;
    if (is_new != (a->n > 0))
        return "it says something else of its descriptor";
    if (is_new && mapped && !renewed)
        return "it has memory that came before";
    if (!is_new && renewed)
        return "it lacks memory that has been renewed";
    return !is_new || holds_bytes(a, 0, size) ? NULL : "its descriptor is no memory of the arena";
}

static const char *check_create_stream(const struct answer *a)
{
    const Npud__CreateStreamReply *in = a->reply->create_stream;
    const struct session *s = a->session;

    if (in->slot >= SESSION_STREAMS_MAX)
        return "the slot is out of range";
    if (arena_pages_ring_lives(s, in->slot))
        return "the slot is another stream's";
    return check_arena_file(a, in->new_segment, s->stream_files[in->slot / ARENA_STREAMS],
                            s->arena.renewed_rings[in->slot / ARENA_STREAMS],
                            arena_stream_file_size(s->ring_depth));
}

static const char *check_create_event(const struct answer *a)
{
    const Npud__CreateEventReply *in = a->reply->create_event;

    if (in->slot >= SESSION_EVENTS_MAX)
        return "the slot is out of range";
    return check_arena_file(a, in->new_segment, a->session->event_files[in->slot / ARENA_EVENTS],
                            a->session->arena.events[in->slot / ARENA_EVENTS].renewed,
                            arena_event_file_size());
}

static const char *check_abort_stream(const struct answer *a)
{
    return a->reply->abort_stream->from <= a->reply->abort_stream->to
               ? NULL
               : "the positions are out of order";
}

static const char *check_streams_left(const struct answer *a)
{
    return a->reply->streams_left->streams <= SESSION_STREAMS_MAX ? NULL
                                                                  : "the number is out of range";
}

static const char *check_ipc_event(const struct answer *a)
{
    const Npud__IpcEventReply *in = a->reply->ipc_event;

    if (in->slot >= SESSION_IPC_EVENTS_MAX)
        return "the slot is out of range";
    if (in->opener >= IPC_OPENERS_MAX)
        return "the opener is out of range";
    return holds_bytes(a, 0, sizeof(struct ipc_page)) ? NULL
                                                      : "its descriptor is no page of an event";
}

static const char *check_export_ipc_event(const struct answer *a)
{
    return a->reply->export_ipc_event->handle.len == sizeof(struct ipc_handle)
               ? NULL
               : "the handle has another size";
}

static const char *check_ipc_event_info(const struct answer *a)
{
    return a->reply->ipc_event_info->device < a->session->n_devices ? NULL
                                                                    : "there is no such device";
}

static const char *check_notify(const struct answer *a)
{
    const Npud__NotifyReply *in = a->reply->notify;

    if (in->slot >= SESSION_NOTIFIES_MAX)
        return "the slot is out of range";
    return in->device < a->session->n_devices ? NULL : "there is no such device";
}

static bool is_key(const char *key)
{
    return strlen(key) == KEY_LENGTH;
}

static const char *check_export_notify(const struct answer *a)
{
    return is_key(a->reply->export_notify->key) ? NULL : "the key has another size";
}

/* Memory of a device that is away has an address, and no descriptor; all other memory has one. */
static const char *check_memory(const struct answer *a, uint64_t size, uint64_t address,
                                uint32_t device)
{
    bool away =
        address != 0 && device < a->session->n_devices && a->session->device_info[device].away;

    if (!a->fds || (a->n == 0 && away))
        return NULL;
    if (a->n != 1)
        return "it has another number of descriptors";
    return holds_bytes(a, 0, size) ? NULL : "its descriptor is not that much memory";
}

static const char *check_malloc(const struct answer *a)
{
    const Npud__MallocReply *in = a->reply->malloc;

    if (in->slot >= SESSION_MEMS_MAX)
        return "the slot is out of range";
    if (in->size < a->request->malloc->size)
        return "it is less memory than was asked for";
    return check_memory(a, in->size,
                        a->request->malloc->kind == NPUD__MALLOC__KIND__HOST ? 0 : in->address,
                        a->request->malloc->device);
}

static const char *check_export_memory(const struct answer *a)
{
    const Npud__ExportMemoryReply *in = a->reply->export_memory;
    bool by_number = a->request->export_memory->by_number;

    if (by_number ? in->number == 0 || in->key[0] : !is_key(in->key))
        return "the name has another size";
    return NULL;
}

static const char *check_import_memory(const struct answer *a)
{
    const Npud__ImportMemoryReply *in = a->reply->import_memory;

    if (in->slot >= SESSION_MEMS_MAX)
        return "the slot is out of range";
    if (in->device >= a->session->n_devices)
        return "there is no such device";
    if (in->exported == 0 || in->exported > in->size)
        return "more is exported than there is";
    return check_memory(a, in->size, in->host ? 0 : in->address, in->device);
}

static const char *check_load_binary(const struct answer *a)
{
    return a->reply->load_binary->slot < SESSION_MEMS_MAX ? NULL : "the slot is out of range";
}

static const char *check_trace_ring(const struct answer *a)
{
    return holds_bytes(a, 0, trace_ring_bytes(TRACE_CLIENT_ENTRIES))
               ? NULL
               : "its memory is smaller than a ring";
}

static const char *check_fetch_memory(const struct answer *a)
{
    return holds_bytes(a, 0, a->request->fetch_memory->size)
               ? NULL
               : "its descriptor is not that much memory";
}

static const char *check_mem_info(const struct answer *a)
{
    const Npud__MemInfoReply *in = a->reply->mem_info;

    if (in->free > in->total)
        return "more is free than there is";
    return in->busy <= 100 + 1 ? NULL : "the device is busy for more than all of the time";
}

static const char *check_segment(const struct answer *a)
{
    const Npud__SegmentReply *in = a->reply->segment;

    if (in->id >= SEGMENT_IDS || in->number == 0)
        return "the id is out of range";
    if (in->n_data == 0 || in->n_data > SEGMENT_SLOTS || in->n_refs > SEGMENT_SLOTS - in->n_data)
        return "the number of buffers is out of range";
    if (in->stride == 0 || in->stride > MBUF_SIZE_MAX)
        return "the size of buffers is out of range";
    return holds_bytes(a, 0, segment_size(in->n_data, in->n_refs, in->stride)) &&
                   holds_bytes(a, 1, SEGMENT_PAGE)
               ? NULL
               : "its descriptors are no such segment";
}

static const char *check_create_segment(const struct answer *a)
{
    if (a->reply->segment->stride < a->request->create_segment->stride)
        return "buffers are smaller than was asked for";
    return check_segment(a);
}

static const char *check_map_segment(const struct answer *a)
{
    return a->reply->segment->id == a->request->map_segment->segment ? check_segment(a)
                                                                     : "it is another segment";
}

static const char *check_queue(const struct answer *a)
{
    const Npud__QueueReply *in = a->reply->queue;

    if (in->number >= QUEUE_NUMBERS)
        return "the number of the ring is out of range";
    if (in->depth < QUEUE_DEPTH_MIN || in->depth > QUEUE_DEPTH_MAX)
        return "the depth is out of range";
    return holds_bytes(a, 0, queue_put_size(in->depth)) && holds_bytes(a, 1, queue_take_size()) &&
                   holds_bytes(a, 2, QUEUE_NEWS_SIZE)
               ? NULL
               : "its descriptors are no such ring";
}

static const char *check_create_queue(const struct answer *a)
{
    return a->reply->queue->queue < QUEUE_IDS ? check_queue(a) : "the id is out of range";
}

static const char *check_open_channel(const struct answer *a)
{
    uint32_t rights = QUEUE_TAKE | QUEUE_PUT;

    return (a->reply->queue->rights & rights) == rights ? check_create_queue(a)
                                                        : "the rights are not those of a channel";
}

static const char *check_attach_queue(const struct answer *a)
{
    const Npud__AttachQueue *in = a->request->attach_queue;
    bool named = in->of_user && in->owner != a->session->uid;

    return a->reply->queue->queue == (named ? in->local : in->queue) ? check_queue(a)
                                                                     : "it is another queue";
}

static bool is_status(int32_t status)
{
    return status >= 0 && status <= 2;
}

/* Each of the request, with its state. */
static const char *check_changed_routes(const struct answer *a, size_t n, Npud__Route **asked)
{
    const Npud__RoutesReply *in = a->reply->routes;

    if (in->n_routes != n)
        return "it has another number of routes";
    for (size_t i = 0; i < n; i++)
        if (in->routes[i]->source != asked[i]->source ||
            in->routes[i]->destination != asked[i]->destination ||
            !is_status(in->routes[i]->status))
            return "it has other routes";
    return NULL;
}

static const char *check_bind_routes(const struct answer *a)
{
    const Npud__BindRoutes *in = a->request->bind_routes;

    return check_changed_routes(a, in->n_routes, in->routes);
}

static const char *check_unbind_routes(const struct answer *a)
{
    const Npud__UnbindRoutes *in = a->request->unbind_routes;

    return check_changed_routes(a, in->n_routes, in->routes);
}

/* -1, 0 or 1: in which order they are listed. */
static int compare_routes(const Npud__Route *a, const Npud__Route *b)
{
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->destination < b->destination ? -1 : a->destination > b->destination;
}

/* Ascending, and beyond those that came before: so asking for more comes to an end. */
static const char *check_query_routes(const struct answer *a)
{
    const Npud__RoutesReply *in = a->reply->routes;
    const Npud__Route *after = a->request->query_routes->after;

    if (in->n_routes > ROUTES_MAX || (in->more && in->n_routes < ROUTES_MAX))
        return "it has another number of routes";
    if (after && in->n_routes > 0 && compare_routes(in->routes[0], after) <= 0)
        return "it has routes that came before";
    for (size_t i = 0; i < in->n_routes; i++)
        if ((i > 0 && compare_routes(in->routes[i - 1], in->routes[i]) > 0) ||
            in->routes[i]->source >= QUEUE_LOCAL_IDS ||
            in->routes[i]->destination >= QUEUE_LOCAL_IDS || !is_status(in->routes[i]->status))
            return "it has other routes";
    return NULL;
}

/* --- the table --- */

static const char *check_any(const struct answer *a)
{
    (void)a;
    return NULL;
}

/* How the answer to a kind of request looks: the end of its row in proto/wire/requests.inc. */
struct rule {
    const char *(*check)(const struct answer *a); /* NULL: there is no such request */
    Npud__Reply__BodyCase body;
    uint8_t fds_min, fds_max;
};

static const struct rule table[] = {
#define ROW(NAME, handler, about, when, reply, fds_min, fds_max, check)                            \
    [NPUD__REQUEST__BODY_##NAME] = {check_##check, NPUD__REPLY__BODY_##reply, fds_min, fds_max},
#include "proto/wire/requests.inc"
#undef ROW
};

static const struct rule abort_without_hold = {.check = check_any};

static const struct rule *find_rule(const Npud__Request *request)
{
    size_t kind = (size_t)request->body_case;

    if (request->body_case == NPUD__REQUEST__BODY_ABORT_STREAM && !request->abort_stream->hold)
        return &abort_without_hold;
    return kind < sizeof(table) / sizeof(table[0]) && table[kind].check ? &table[kind] : NULL;
}

const char *reply_request_name(const Npud__Request *request)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &npud__request__descriptor, (unsigned)request->body_case);

    return field ? field->name : "a request";
}

const char *reply_fault(const struct session *s, const Npud__Request *request,
                        const Npud__Reply *reply, const int *fds, size_t n, bool *odd)
{
    struct answer a = {
        .session = s, .request = request, .reply = reply, .fds = fds, .n = n, .odd = odd};
    const struct rule *rule = find_rule(request);

    if (!reply)
        return "it cannot be read";
    if (reply->id != request->id)
        return "it is to another request";
    if (reply->error != 0)
        return reply->error >= ERROR_FIRST && reply->error <= ERROR_LAST
                   ? NULL
                   : "its error is no code of the API";
    if (!rule)
        return "the library has no rule for it";
    if (reply->body_case != rule->body)
        return "it has another body";
    if (fds && (n < rule->fds_min || n > rule->fds_max))
        return "it has another number of descriptors";
    return rule->check(&a);
}
