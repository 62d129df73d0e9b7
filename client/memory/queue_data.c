/*
 * Messages by bytes: copied into a buffer of this process's pool that is put, and out of one that
 * is taken.
 */
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"
#include "client/buffers/transfer.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/memory/direct.h"
#include "client/memory/place.h"

#define USER_MAX 256 /* as the reference: longer user data has another code */

static int check_user(const char *function, const void *data, size_t size)
{
    if (size > MBUF_USER)
        return error_set(size <= USER_MAX ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_PARAM_INVALID,
                         "%s: userDataSize is %zu, must be at most %u", function, size, MBUF_USER);
    if ((data != NULL) != (size != 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: userData is %s and userDataSize %zu",
                         function, data ? "not NULL" : "NULL", size);
    return 0;
}

static int check_data(const char *function, const void *data, size_t size)
{
    if (!data)
        return error_null(function, "data");
    return size > 0 ? 0 : error_set(ACL_ERROR_INVALID_PARAM, "%s: dataSize is 0", function);
}

/* The buffer that the bytes travel in: t->buffer. */
static int fill_buffer(struct transfer *t, const struct place *data, size_t size, const void *user,
                       size_t user_size)
{
    unsigned char *place;
    uint64_t room;
    int error;

    RETURN_IF_ERROR(mbuf_alloc(t->function, t->session, size, t->buffer));
    if (!mbuf_data(t->buffer, &place, &room) || room < size) {
        mbuf_free(t->session, t->buffer);
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: a process that a buffer was shared with has written into its head",
                         t->function);
    }
    error = direct_read(t->session, t->function, data, place, size);
    if (error != 0) {
        mbuf_free(t->session, t->buffer);
        return error;
    }
    atomic_store_explicit(&t->buffer->mbuf->length, size, memory_order_relaxed);
    if (user)
        mbuf_set_user(t->buffer->mbuf, user, user_size, 0);
    return 0;
}

aclError acltdtEnqueueData(uint32_t qid, const void *data, size_t dataSize, const void *userData,
                           size_t userDataSize, int32_t timeout, uint32_t rsv)
{
    CALL_SCOPE;
    struct mbuf_ref buffer;
    struct transfer t;
    struct place at;
    int error;

    (void)rsv;
    RETURN_IF_ERROR(check_data(__func__, data, dataSize));
    RETURN_IF_ERROR(check_user(__func__, userData, userDataSize));
    RETURN_IF_ERROR(transfer_begin(&t, __func__, qid, timeout, true, &buffer));
    RETURN_IF_ERROR(place_find(t.session, __func__, data, dataSize, "data", &at));
    RETURN_IF_ERROR(transfer_room(&t));
    error = fill_buffer(&t, &at, dataSize, userData, userDataSize);
    if (error != 0) {
        transfer_give_up(&t);
        return error;
    }
    error = transfer_put(&t);
    if (error != 0 && mbuf_still_there(&buffer))
        mbuf_free(t.session, &buffer);
    return error;
}

/* Some more bytes of a message, as far as there is room for them. */
static int put_bytes(const struct transfer *t, struct place *to, const void *bytes, uint64_t length,
                     uint64_t room)
{
    if (room == 0)
        return 0;
    if (length >= room)
        return direct_write(t->session, t->function, to, bytes, room);
    RETURN_IF_ERROR(direct_write(t->session, t->function, to, bytes, length));
    return place_move(t->session, t->function, to, length);
}

/*
 * The bytes of the buffers of a message, one behind the other, as far as there is room for them.
 * *totalp: how many there are in all.
 */
static int copy_out(const struct transfer *t, const struct mbuf_ref *head, struct place *to,
                    size_t size, uint64_t *totalp)
{
    struct mbuf_ref at = *head;
    uint64_t total = 0;
    uint32_t n = 0;
    int error = 0;

    do {
        uint64_t length = atomic_load_explicit(&at.mbuf->length, memory_order_relaxed), room;
        unsigned char *place;

        if (!mbuf_data(&at, &place, &room))
            break;
        if (length > room)
            length = room;
        error = put_bytes(t, to, place, length, total < size ? size - total : 0);
        total += length;
    } while (error == 0 && mbuf_next(head->ref, &at, &n));
    *totalp = total;
    return error;
}

aclError acltdtDequeueData(uint32_t qid, void *data, size_t dataSize, size_t *retDataSize,
                           void *userData, size_t userDataSize, int32_t timeout)
{
    CALL_SCOPE;
    struct mbuf_ref buffer;
    struct transfer t;
    struct place at;
    uint64_t total;
    int error;

    RETURN_IF_ERROR(check_data(__func__, data, dataSize));
    REQUIRE(retDataSize);
    RETURN_IF_ERROR(check_user(__func__, userData, userDataSize));
    RETURN_IF_ERROR(transfer_begin(&t, __func__, qid, timeout, false, &buffer));
    RETURN_IF_ERROR(place_find(t.session, __func__, data, dataSize, "data", &at));
    RETURN_IF_ERROR(transfer_take(&t));
    error = copy_out(&t, &buffer, &at, dataSize, &total);
    if (userData)
        mbuf_get_user(buffer.mbuf, userData, userDataSize, 0);
    if (checked_runs()) /* the program has seen no buffer */
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_BUFFER, buffer.ref);
    mbuf_free(t.session, &buffer);
    RETURN_IF_ERROR(error);
    *retDataSize = total;
    return place_tell_written_at(t.session, __func__, data, total < dataSize ? total : dataSize);
}
