#include "client/channel/channel.h"

#include <string.h>

#include "acl/acl.h"
#include "client/buffers/transfer.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/core/lock_order.h"
#include "client/core/process.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

#define HANDLES_MAX     16384u
#define LEGACY_CAPACITY 128
#define RECEIVE_PREFIX  "TF_RECEIVE_"

/* --- finding --- */

static int error_unknown(const char *function, const void *handle)
{
    return handle_error(ACL_ERROR_RT_PARAM_INVALID, function, HANDLE_CHANNEL, handle);
}

struct channel *channel_find(const char *function, const acltdtChannelHandle *handle, int *error)
{
    struct session *s = session_peek();
    struct channel *channel = NULL;

    *error = process_enter();
    if (__builtin_expect(*error == 0 && s != NULL, 1))
        channel = handle_get(&s->channels, HANDLE_CHANNEL, handle);
    if (__builtin_expect(!channel, 0) && *error == 0)
        *error =
            s && session_lost(s) ? session_error_lost(function) : error_unknown(function, handle);
    return channel;
}

/* Has the process another handle of this channel? Under channel_lock. */
static bool is_shared(struct session *s, const struct channel *channel)
{
    for (uint32_t i = 0; i < s->channels.end; i++) {
        const struct channel *other = slots_get(&s->channels, i);

        if (other && other != channel && other->queue == channel->queue &&
            other->life == channel->life)
            return true;
    }
    return false;
}

/* --- creating --- */

/* What a channel is made of. */
struct wish {
    const char *name;
    uint32_t device; /* npud's number */
    uint32_t capacity;
    bool legacy;
};

/* The program has no handle of the queue `id`, and npud has answered: the process leaves it. */
static int give_up(struct session *s, uint32_t id, int error)
{
    REQUEST(close_channel, CLOSE_CHANNEL, .queue = id);

    session_command_unheard(s, &request);
    return error;
}

/* Under channel_lock: `channel` is a slot that was taken. */
static int join_channel(struct session *s, const char *function, const struct wish *wish,
                        struct channel *channel)
{
    REQUEST(open_channel, OPEN_CHANNEL, .device = wish->device, .name = (char *)wish->name,
            .depth = wish->capacity);
    uint32_t id;
    int error = queue_open(s, function, &request, &id, &channel->queue, &channel->life);

    /* A queue that is known here already has handles. */
    if (error != 0)
        return id < QUEUE_LOCAL_IDS ? give_up(s, id, error) : error;
    channel->session = s;
    channel->legacy = wish->legacy;
    channel->receives =
        !wish->legacy || strncmp(wish->name, RECEIVE_PREFIX, strlen(RECEIVE_PREFIX)) == 0;
    atomic_store(&channel->stopped, false);
    if (checked_runs() && !is_shared(s, channel))
        checked_object(CHECK_OBJECT, CHECK_OBJECT_QUEUE, id);
    return 0;
}

static int take_handle(struct session *s, const char *function, const struct wish *wish,
                       acltdtChannelHandle **handle)
{
    struct channel *channel;
    int error;

    pthread_mutex_lock(&s->channel_lock);
    channel = slots_take(&s->channels);
    if (!channel)
        error = error_set(ACL_ERROR_BAD_ALLOC, "%s: no memory, or this process has %u channels",
                          function, HANDLES_MAX);
    else
        error = join_channel(s, function, wish, channel);
    if (error == 0) {
        slots_publish(channel);
        *handle = handle_of(HANDLE_CHANNEL, channel);
    } else if (channel) {
        slots_put(&s->channels, channel);
    }
    pthread_mutex_unlock(&s->channel_lock);
    return error;
}

static int create_channel(const char *function, uint32_t device, const char *name, size_t capacity,
                          bool legacy, acltdtChannelHandle **handle)
{
    struct wish wish = {.name = name, .capacity = (uint32_t)capacity, .legacy = legacy};
    struct session *s;

    if (!name)
        return error_null(function, "name");
    if (strnlen(name, QUEUE_NAME) == QUEUE_NAME)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the name has more than %u characters",
                         function, QUEUE_NAME - 1);
    if (capacity < QUEUE_DEPTH_MIN || capacity > QUEUE_DEPTH_MAX)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: capacity is %zu, must be from %u to %u",
                         function, capacity, QUEUE_DEPTH_MIN, QUEUE_DEPTH_MAX);
    RETURN_IF_ERROR(device_get(function, device, &s, &wish.device));
    return take_handle(s, function, &wish, handle);
}

acltdtChannelHandle *acltdtCreateChannel(uint32_t deviceId, const char *name)
{
    CALL_SCOPE;
    acltdtChannelHandle *handle = NULL;

    create_channel(__func__, deviceId, name, LEGACY_CAPACITY, true, &handle);
    return handle;
}

acltdtChannelHandle *acltdtCreateChannelWithCapacity(uint32_t deviceId, const char *name,
                                                     size_t capacity)
{
    CALL_SCOPE;
    acltdtChannelHandle *handle = NULL;

    create_channel(__func__, deviceId, name, capacity, false, &handle);
    return handle;
}

/* --- stopping, destroying --- */

static void stop_channel(struct channel *channel)
{
    atomic_store(&channel->stopped, true);
    transfer_wake_stopped(channel->queue);
}

aclError acltdtStopChannel(acltdtChannelHandle *handle)
{
    CALL_SCOPE;

    REQUIRE(handle);
    stop_channel(FIND_OR_RETURN(channel_find, __func__, handle));
    return 0;
}

/* Under channel_lock. */
static int leave_channel(struct session *s, const char *function, struct channel *channel)
{
    REQUEST(close_channel, CLOSE_CHANNEL, .queue = channel->queue->id);
    bool shared = is_shared(s, channel);
    int error = 0;

    slots_put(&s->channels, channel);
    if (!shared)
        error = queue_leave(s, function, &request, channel->queue);
    return error;
}

aclError acltdtDestroyChannel(acltdtChannelHandle *handle)
{
    CALL_SCOPE;
    struct channel *channel;
    struct session *s;
    int error;

    REQUIRE(handle);
    channel = FIND_OR_RETURN(channel_find, __func__, handle);
    s = channel->session;
    /* A thread that is inside a call on this handle, against the rules, does not stay there. */
    stop_channel(channel);
    pthread_mutex_lock(&s->channel_lock);
    /* Of two threads that destroy it, one does. */
    channel = handle_get(&s->channels, HANDLE_CHANNEL, handle);
    error = channel ? leave_channel(s, __func__, channel) : error_unknown(__func__, handle);
    pthread_mutex_unlock(&s->channel_lock);
    return error;
}

/* --- what is in it --- */

/* Only of channels with a capacity. 0, or the ACL error. */
static int count_messages(const char *function, const struct channel *channel, uint32_t *count)
{
    if (channel->legacy)
        return error_set(ACL_ERROR_FEATURE_UNSUPPORTED,
                         "%s: only for channels of acltdtCreateChannelWithCapacity", function);
    return queue_count(channel->session, function, channel->queue, channel->life, count);
}

/* Take one message that is there, and free it. 0, or the ACL error. */
static int drop_message(const char *function, const struct channel *channel)
{
    struct mbuf_ref head;
    struct transfer t;
    int error;

    RETURN_IF_ERROR(transfer_begin(&t, function, channel->queue->id, 0, false, &head));
    t.life = channel->life;
    error = transfer_take(&t);
    if (error != 0)
        return t.lost ? 0 : error;
    if (checked_runs()) /* the program has seen no buffer */
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_BUFFER, head.ref);
    mbuf_free(t.session, &head);
    return 0;
}

aclError acltdtCleanChannel(acltdtChannelHandle *handle)
{
    CALL_SCOPE;
    struct error_saved saved;
    struct channel *channel;
    uint32_t count;
    int error = 0;

    REQUIRE(handle);
    channel = FIND_OR_RETURN(channel_find, __func__, handle);
    RETURN_IF_ERROR(count_messages(__func__, channel, &count));
    /* Those that come meanwhile stay, or a sender could keep us here. */
    error_save(&saved);
    while (count-- > 0 && error == 0)
        error = drop_message(__func__, channel);
    error_save_end(&saved);
    return error == 0 || error == ACL_ERROR_RT_QUEUE_EMPTY ? 0 : error_tell(&saved, error);
}

aclError acltdtQueryChannelSize(const acltdtChannelHandle *handle, size_t *size)
{
    CALL_SCOPE;
    struct channel *channel;
    uint32_t count;

    REQUIRE(handle);
    REQUIRE(size);
    channel = FIND_OR_RETURN(channel_find, __func__, handle);
    RETURN_IF_ERROR(count_messages(__func__, channel, &count));
    *size = count;
    return 0;
}

static void init(struct session *s, uint32_t seed)
{
    slots_init(&s->channels, sizeof(struct channel), HANDLES_MAX, seed);
    lock_init(&s->channel_lock, LOCK_CHANNELS);
}

const struct part channel_part = {.session_init = init};
