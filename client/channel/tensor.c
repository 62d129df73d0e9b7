/* Datasets into a channel, and out of it: docs/channels.md. */
#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/buffers/mbuf_chain.h"
#include "client/buffers/transfer.h"
#include "client/channel/channel.h"
#include "client/channel/message.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/memory/direct.h"
#include "client/runtime/session.h"

static int check_timeout(const char *function, const struct channel *channel, int32_t timeout)
{
    if (!channel->legacy || timeout == -1)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: timeout is %d: a channel of acltdtCreateChannel takes only -1", function,
                     timeout);
}

static int begin_transfer(struct transfer *t, const char *function, const struct channel *channel,
                          int32_t timeout, bool putting, struct mbuf_ref *head)
{
    RETURN_IF_ERROR(transfer_begin(t, function, channel->queue->id, timeout, putting, head));
    t->life = channel->life;
    t->stopped = &channel->stopped;
    return 0;
}

/*
 * What is behind a channel of acltdtCreateChannel has one code for all that goes wrong. saved: the
 * sentence of `error`.
 */
static int error_of_kind(const struct channel *channel, const struct error_saved *saved, int error)
{
    if (channel->legacy && error != ACLNPUD_ERROR_INTERRUPTED)
        return error_set(ACL_ERROR_FAILURE, "%s", saved->sentence);
    return error_tell(saved, error);
}

/* --- sending --- */

static int check_item(const char *function, const struct acltdtDataItem *item, size_t i)
{
    if (item->kind < ACL_TENSOR_DATA_TENSOR || item->kind > ACL_TENSOR_DATA_ABNORMAL)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: item %zu is of type %d: what is sent is a tensor (0), an end of "
                         "sequence (1) or abnormal (2)",
                         function, i, (int)item->kind);
    if (item->size > 0 && !item->data)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: item %zu has %zu bytes at NULL", function, i,
                         item->size);
    return 0;
}

static int check_dataset(const char *function, const acltdtDataset *d, struct message_plan *plan)
{
    if (d->n == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the dataset has no items", function);
    for (size_t i = 0; i < d->n; i++)
        RETURN_IF_ERROR(check_item(function, dataset_item(d, i), i));
    if (message_plan(d, MESSAGE_PART, plan))
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: the dataset is too large: a message has %llu bytes at most", function,
                     (unsigned long long)MESSAGE_MAX);
}

/* One more buffer of the message, which has n. After an error it has not got it. */
static int add_part(const struct transfer *t, uint64_t size, uint32_t n, struct message_part *part)
{
    struct mbuf_ref mine, *m = n == 0 ? t->buffer : &mine;
    uint64_t room;
    int error;

    RETURN_IF_ERROR(mbuf_alloc(t->function, t->session, size, m));
    part->size = size;
    atomic_store_explicit(&m->mbuf->length, size, memory_order_relaxed);
    if (!mbuf_data(m, &part->data, &room) || room < size)
        error = error_set(ACL_ERROR_FAILURE,
                          "%s: a process that a buffer was shared with has written into its head",
                          t->function);
    else
        error = n == 0 ? 0 : mbuf_chain_append(t->function, t->buffer, m);
    if (error != 0)
        mbuf_free(t->session, m);
    return error;
}

/* The buffers of a message: the chain that t->buffer heads. After an error there are none. */
static int make_parts(const struct transfer *t, const struct message_plan *plan,
                      struct message_part *parts)
{
    uint64_t left = plan->total;
    uint32_t n = 0;

    do {
        uint64_t size = left < plan->part ? left : plan->part;
        int error = add_part(t, size, n, &parts[n]);

        if (error != 0) {
            if (n > 0)
                mbuf_free(t->session, t->buffer);
            return error;
        }
        left -= size;
        n++;
    } while (left > 0);
    return 0;
}

/* The data of an item to this byte of the stream, which is behind those of the last call. */
static int put_item(const struct transfer *t, const struct acltdtDataItem *item,
                    const struct message_part **part, uint64_t *start, uint64_t position)
{
    uint64_t left = item->size;
    struct place at;

    RETURN_IF_ERROR(place_find(t->session, t->function, item->data, item->size, "data", &at));
    for (;;) {
        uint64_t offset, count;

        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): there are parts */
        while (position - *start >= (*part)->size)
            *start += (*part)++->size;
        offset = position - *start;
        count = (*part)->size - offset;
        count = count < left ? count : left;
        RETURN_IF_ERROR(direct_read(t->session, t->function, &at, (*part)->data + offset, count));
        left -= count;
        if (left == 0)
            return 0;
        RETURN_IF_ERROR(place_move(t->session, t->function, &at, count));
        position += count;
    }
}

static int fill_parts(const struct transfer *t, const acltdtDataset *d,
                      const struct message_plan *plan, const struct message_part *parts)
{
    uint64_t position = plan->control, start = 0;

    message_write_control(d, plan, parts[0].data);
    for (size_t i = 0; i < d->n; i++) {
        const struct acltdtDataItem *item = dataset_item(d, i);

        if (item->size == 0)
            continue;
        position = message_align(position);
        RETURN_IF_ERROR(put_item(t, item, &parts, &start, position));
        position += item->size;
    }
    return 0;
}

static int send_message(struct transfer *t, const acltdtDataset *d, const struct message_plan *plan)
{
    struct message_part parts[MBUF_CHAIN_MAX];
    int error;

    RETURN_IF_ERROR(transfer_room(t));
    error = make_parts(t, plan, parts);
    if (error == 0) {
        error = fill_parts(t, d, plan, parts);
        if (error != 0)
            mbuf_free(t->session, t->buffer);
    }
    if (error != 0) {
        transfer_give_up(t);
        return error;
    }
    error = transfer_put(t);
    if (error != 0 && mbuf_still_there(t->buffer))
        mbuf_free(t->session, t->buffer);
    return error;
}

aclError acltdtSendTensor(const acltdtChannelHandle *handle, const acltdtDataset *dataset,
                          int32_t timeout)
{
    CALL_SCOPE;
    const struct channel *channel;
    struct message_plan plan;
    struct error_saved saved;
    struct mbuf_ref head;
    struct transfer t;
    int error;

    REQUIRE(handle);
    REQUIRE(dataset);
    channel = FIND_OR_RETURN(channel_find, __func__, handle);
    RETURN_IF_ERROR(check_timeout(__func__, channel, timeout));
    RETURN_IF_ERROR(check_dataset(__func__, dataset, &plan));
    error_save(&saved);
    error = begin_transfer(&t, __func__, channel, timeout, true, &head);
    if (error == 0)
        error = send_message(&t, dataset, &plan);
    error_save_end(&saved);
    return error == 0 ? 0 : error_of_kind(channel, &saved, error);
}

/* --- receiving --- */

static int check_empty(const char *function, const struct channel *channel, const acltdtDataset *d)
{
    if (d->state == DATASET_FILLED)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the dataset has items of the program: receive into a new one",
                         function);
    if (channel->legacy && d->n > 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the dataset is not empty, which a channel of acltdtCreateChannel "
                         "asks for",
                         function);
    return 0;
}

static int error_damaged(const struct transfer *t, int code, const char *reason)
{
    return error_set(code, "%s: queue %u: a message was taken, and is lost: %s", t->function,
                     t->queue->id, reason);
}

/* The buffers of the message. 0: a process that shares it has damaged one. */
static uint32_t find_parts(const struct transfer *t, struct message_part *parts)
{
    struct mbuf_ref at = *t->buffer;
    uint32_t n = 0, steps = 0;
    uint64_t room;

    do {
        parts[n].size = atomic_load_explicit(&at.mbuf->length, memory_order_relaxed);
        if (n == MBUF_CHAIN_MAX || !mbuf_data(&at, &parts[n].data, &room) || parts[n].size > room)
            return 0;
        n++;
    } while (mbuf_next(t->buffer->ref, &at, &steps));
    return n;
}

/* The message at *t->buffer becomes what the dataset has received, or is freed. */
static int read_message(const struct transfer *t, acltdtDataset *d)
{
    enum dataset_state before = d->state;
    struct message_part parts[MBUF_CHAIN_MAX];
    uint32_t n = find_parts(t, parts);
    const char *reason = "a process that shares it has written into the head of a buffer";
    int error;

    if (checked_runs()) /* the program has seen no buffer */
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_BUFFER, t->buffer->ref);
    dataset_take_message(d, t->session, t->buffer);
    error = n == 0 ? ACL_ERROR_FAILURE : message_read(d, parts, n, &reason);
    if (error == 0)
        return 0;
    dataset_drop_message(d);
    d->state = before;
    return error_damaged(t, error, reason);
}

static int receive_message(struct transfer *t, acltdtDataset *d)
{
    int error = transfer_take(t);

    if (error == 0)
        return read_message(t, d);
    return t->lost ? error_damaged(t, ACL_ERROR_FAILURE, "buffers of it are missing") : error;
}

aclError acltdtReceiveTensor(const acltdtChannelHandle *handle, acltdtDataset *dataset,
                             int32_t timeout)
{
    CALL_SCOPE;
    const struct channel *channel;
    struct error_saved saved;
    struct mbuf_ref head;
    struct transfer t;
    int error;

    REQUIRE(handle);
    REQUIRE(dataset);
    channel = FIND_OR_RETURN(channel_find, __func__, handle);
    RETURN_IF_ERROR(check_timeout(__func__, channel, timeout));
    RETURN_IF_ERROR(check_empty(__func__, channel, dataset));
    if (!channel->receives)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: a channel of acltdtCreateChannel receives only if its name begins "
                         "with TF_RECEIVE_",
                         __func__);
    error_save(&saved);
    error = begin_transfer(&t, __func__, channel, timeout, false, &head);
    if (error == 0)
        error = receive_message(&t, dataset);
    error_save_end(&saved);
    return error == 0 ? 0 : error_of_kind(channel, &saved, error);
}
