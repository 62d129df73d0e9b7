/* npud's queues: messages by bytes, which are copied in and out, and by buffer. */
#include "tests/bench/peers/peers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"

static void check_acl(aclError error)
{
    const char *text = error == ACL_SUCCESS ? NULL : aclGetRecentErrMsg();

    if (error == ACL_SUCCESS)
        return;
    fprintf(stderr, "npud: %d %s\n", error, text ? text : "");
    exit(1);
}

/* Two queues; their ids go through a pipe, because the second process must not be there yet. */
struct lane {
    int ids[2];
    uint32_t queue[2];
};

static void prepare_lane(struct lane *l)
{
    peers_check(pipe(l->ids) == 0, "pipe");
}

static uint32_t new_queue(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t id;

    check_acl(acltdtCreateQueue(attr, &id));
    check_acl(acltdtDestroyQueueAttr(attr));
    return id;
}

static void begin_first(struct lane *l, int other)
{
    for (int i = 0; i < 2; i++) {
        l->queue[i] = new_queue();
        check_acl(acltdtGrantQueue(
            l->queue[i], other, ACL_TDT_QUEUE_PERMISSION_DEQUEUE | ACL_TDT_QUEUE_PERMISSION_ENQUEUE,
            0));
    }
    peers_check(write(l->ids[1], l->queue, sizeof(l->queue)) == sizeof(l->queue), "write");
}

static void begin_second(struct lane *l)
{
    uint32_t rights;

    peers_check(read(l->ids[0], l->queue, sizeof(l->queue)) == sizeof(l->queue), "read");
    for (int i = 0; i < 2; i++)
        check_acl(acltdtAttachQueue(l->queue[i], -1, &rights));
}

static void begin_lane(struct lane *l, bool first, int other)
{
    static bool begun;

    if (!begun)
        check_acl(aclInit(NULL));
    begun = true;
    if (first)
        begin_first(l, other);
    else
        begin_second(l);
}

/* --- by bytes --- */

static struct lane bytes, buffers;

static void prepare_bytes(void)
{
    prepare_lane(&bytes);
}

static void begin_bytes(bool first, int other)
{
    begin_lane(&bytes, first, other);
}

static void send_bytes(bool first, const void *message)
{
    check_acl(acltdtEnqueueData(bytes.queue[!first], (void *)(uintptr_t)message, MESSAGE, NULL, 0,
                                -1, 0));
}

static void receive_bytes(bool first, void *message)
{
    size_t got;

    check_acl(acltdtDequeueData(bytes.queue[first], message, MESSAGE, &got, NULL, 0, -1));
}

const struct peer peer_npud_bytes = {"npud, by bytes", prepare_bytes, begin_bytes, send_bytes,
                                     receive_bytes};

/* --- by buffer --- */

static void prepare_buffer(void)
{
    prepare_lane(&buffers);
}

static void begin_buffer(bool first, int other)
{
    begin_lane(&buffers, first, other);
}

static void *data_of(acltdtBuf buf)
{
    size_t size;
    void *data;

    check_acl(acltdtGetBufData(buf, &data, &size));
    return data;
}

static void send_buffer(bool first, const void *message)
{
    acltdtBuf buf;

    check_acl(acltdtAllocBuf(MESSAGE, ACL_TDT_NORMAL_MEM, &buf));
    memcpy(data_of(buf), message, MESSAGE);
    check_acl(acltdtEnqueue(buffers.queue[!first], buf, -1));
}

static void receive_buffer(bool first, void *message)
{
    acltdtBuf buf;

    check_acl(acltdtDequeue(buffers.queue[first], &buf, -1));
    memcpy(message, data_of(buf), MESSAGE);
    check_acl(acltdtFreeBuf(buf));
}

const struct peer peer_npud_buffer = {"npud, by buffer", prepare_buffer, begin_buffer, send_buffer,
                                      receive_buffer};

/* --- one thread --- */

static uint32_t queue_of_one;

static void allocate_and_free(void)
{
    acltdtBuf buf;

    check_acl(acltdtAllocBuf(MESSAGE, ACL_TDT_NORMAL_MEM, &buf));
    check_acl(acltdtFreeBuf(buf));
}

static acltdtBuf buf_of_one;

static void put_and_take(void)
{
    check_acl(acltdtEnqueue(queue_of_one, buf_of_one, 0));
    check_acl(acltdtDequeue(queue_of_one, &buf_of_one, 0));
}

struct pair_cost npud_measure(void)
{
    struct pair_cost cost;

    queue_of_one = new_queue();
    cost.buffer = peers_median(allocate_and_free);
    check_acl(acltdtAllocBuf(MESSAGE, ACL_TDT_NORMAL_MEM, &buf_of_one));
    cost.ring = peers_median(put_and_take);
    check_acl(acltdtFreeBuf(buf_of_one));
    check_acl(acltdtDestroyQueue(queue_of_one));
    return cost;
}
