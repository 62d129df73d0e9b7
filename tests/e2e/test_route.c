/*
 * Routes between queues: npud moves messages, between threads of one process and between processes.
 *
 * Runs long: 7 s.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "tests/common/effort.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/e2e/queue_kit.h"

#define MANAGE  ACL_TDT_QUEUE_PERMISSION_MANAGE
#define DEQUEUE ACL_TDT_QUEUE_PERMISSION_DEQUEUE
#define ENQUEUE ACL_TDT_QUEUE_PERMISSION_ENQUEUE
#define ALL     (MANAGE | DEQUEUE | ENQUEUE)

#define GUARD_MS 300000 /* against hanging only */

/*
 * ck_assert() for processes that are killed, and for loops: ck_assert() writes to the runner's file
 * for each success, and a message of which a killed process has written a part makes the rest of it
 * unreadable.
 */
#define SURE(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* --- helpers --- */

static acltdtQueueRouteList *list_of(size_t n, const uint32_t (*pairs)[2])
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();

    SURE(list);
    for (size_t i = 0; i < n; i++) {
        acltdtQueueRoute *route = acltdtCreateQueueRoute(pairs[i][0], pairs[i][1]);

        SURE(route);
        OK(acltdtAddQueueRoute(list, route));
        OK(acltdtDestroyQueueRoute(route));
    }
    return list;
}

struct row {
    uint32_t source, destination;
    int32_t status;
};

static struct row row_of(const acltdtQueueRouteList *list, size_t i)
{
    acltdtQueueRoute *route = acltdtCreateQueueRoute(0, 0);
    struct row row;
    size_t size;

    OK(acltdtGetQueueRoute(list, i, route));
    OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_SRC_UINT32, 4, &size, &row.source));
    OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_DST_UINT32, 4, &size, &row.destination));
    OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_STATUS_INT32, 4, &size, &row.status));
    OK(acltdtDestroyQueueRoute(route));
    return row;
}

/* Bind or unbind one pair; the state goes to *status. */
static aclError change_route(aclError (*fn)(acltdtQueueRouteList *), uint32_t source,
                             uint32_t destination, int32_t *status)
{
    const uint32_t pair[1][2] = {{source, destination}};
    acltdtQueueRouteList *list = list_of(1, pair);
    aclError error = fn(list);

    *status = row_of(list, 0).status;
    OK(acltdtDestroyQueueRouteList(list));
    return error;
}

static void bind_pair(uint32_t source, uint32_t destination)
{
    int32_t status = -1;

    OK(change_route(acltdtBindQueueRoutes, source, destination, &status));
    SURE(status == ACL_TDT_QUEUE_ROUTE_BIND);
}

static void unbind_pair(uint32_t source, uint32_t destination)
{
    int32_t status = -1;

    OK(change_route(acltdtUnbindQueueRoutes, source, destination, &status));
    SURE(status == ACL_TDT_QUEUE_ROUTE_UNBIND);
}

static void expect_refused(uint32_t source, uint32_t destination, const char *words)
{
    int32_t status = -1;

    FAILS_SAYING(ACL_ERROR_FAILURE, words,
                 change_route(acltdtBindQueueRoutes, source, destination, &status));
    ck_assert_int_eq(status, ACL_TDT_QUEUE_ROUTE_UNBIND);
}

/* What a query finds; source, destination: UINT32_MAX: not configured. */
static acltdtQueueRouteList *query_routes(uint32_t mode, uint32_t source, uint32_t destination)
{
    acltdtQueueRouteQueryInfo *info = acltdtCreateQueueRouteQueryInfo();
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();

    OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, 4, &mode));
    if (source != UINT32_MAX)
        OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32, 4, &source));
    if (destination != UINT32_MAX)
        OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32, 4,
                                        &destination));
    OK(acltdtQueryQueueRoutes(info, list));
    OK(acltdtDestroyQueueRouteQueryInfo(info));
    return list;
}

static size_t count_routes(uint32_t mode, uint32_t source, uint32_t destination, int32_t status)
{
    acltdtQueueRouteList *list = query_routes(mode, source, destination);
    size_t n = acltdtGetQueueRouteNum(list);

    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(row_of(list, i).status, status);
    OK(acltdtDestroyQueueRouteList(list));
    return n;
}

/*
 * A buffer with `value` as its bytes, and as its user data behind the first 8 bytes. Not those of
 * queue_kit.h: half a million messages are too many for the asserts there.
 */
static acltdtBuf numbered_buffer(uint64_t value)
{
    acltdtBuf buf;
    void *data;
    size_t size;

    OK(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(data, &value, sizeof(value));
    OK(acltdtSetBufDataLen(buf, sizeof(value)));
    OK(acltdtSetBufUserData(buf, &value, sizeof(value), 8));
    return buf;
}

static uint64_t value_of(acltdtBuf buf)
{
    uint64_t value, user;
    void *data;
    size_t size;

    OK(acltdtGetBufDataLen(buf, &size));
    SURE(size == sizeof(value));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(&value, data, sizeof(value));
    OK(acltdtGetBufUserData(buf, &user, sizeof(user), 8));
    SURE(user == value);
    return value;
}

static void send_value(uint32_t queue, uint64_t value)
{
    OK(acltdtEnqueue(queue, numbered_buffer(value), GUARD_MS));
}

static uint64_t take_number(uint32_t queue)
{
    acltdtBuf buf;
    uint64_t value;

    OK(acltdtDequeue(queue, &buf, GUARD_MS));
    value = value_of(buf);
    OK(acltdtFreeBuf(buf));
    return value;
}

static void expect_values(uint32_t queue, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t value = take_number(queue);

        if (value != i)
            ck_abort_msg("queue %u: %llu instead of %llu", queue, (unsigned long long)value,
                         (unsigned long long)i);
    }
}

/* What processes tell each other. */
#define NUMBERS (UINT64_C(1) << 19) /* of messages, while processes are killed */

struct board {
    uint32_t queue[4];
    _Atomic uint64_t sent, taken[4], next[4];
    _Atomic int stop;
    _Atomic unsigned char begun[NUMBERS], put[NUMBERS], seen[3][NUMBERS];
};
static struct board *board;
static struct turn turns[4];

static void set_up_test(void)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
    for (int i = 0; i < 4; i++)
        turn_init(&turns[i]);
    npud_setup();
}

static void attach_queue(uint32_t queue, uint32_t wanted)
{
    uint32_t rights;

    OK(acltdtAttachQueue(queue, GUARD_MS, &rights));
    SURE(rights == wanted);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1;
    return *state >> 33;
}

/* --- in one process --- */

START_TEST(one_to_one)
{
    uint32_t a, b;

    OK(aclInit(NULL));
    a = create_queue(16);
    b = create_queue(4);
    bind_pair(a, b);
    for (uint64_t i = 0; i < 5000; i += 10) {
        for (uint64_t j = i; j < i + 10; j++)
            send_value(a, j);
        expect_values(b, i, i + 10);
    }
    ck_assert_uint_eq(npud_buffers(), 0);
    unbind_pair(a, b);
    OK(acltdtDestroyQueue(a));
    OK(acltdtDestroyQueue(b));
    OK(aclFinalize());
}
END_TEST

START_TEST(all_destinations_see_the_same_bytes)
{
    uint32_t a, b[3];
    acltdtBuf got[3];
    void *data[3];
    size_t size;

    OK(aclInit(NULL));
    a = create_queue(8);
    for (int i = 0; i < 3; i++) {
        b[i] = create_queue(8);
        bind_pair(a, b[i]);
    }
    send_value(a, 77);
    for (uint64_t i = 0; i < 3; i++) {
        OK(acltdtDequeue(b[i], &got[i], GUARD_MS));
        ck_assert_uint_eq(value_of(got[i]), 77);
        OK(acltdtGetBufData(got[i], &data[i], &size));
        ck_assert_uint_eq(size, 64);
        ck_assert_ptr_eq(data[i], data[0]);
        /* Lengths and user data are each one's own. */
        OK(acltdtSetBufDataLen(got[i], 10 + i));
        OK(acltdtSetBufUserData(got[i], &i, sizeof(i), 8));
    }
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t user;

        OK(acltdtGetBufDataLen(got[i], &size));
        ck_assert_uint_eq(size, 10 + i);
        OK(acltdtGetBufUserData(got[i], &user, sizeof(user), 8));
        ck_assert_uint_eq(user, i);
    }
    for (int i = 0; i < 3; i++)
        OK(acltdtFreeBuf(got[i]));
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

START_TEST(many_to_one)
{
    uint32_t a[3], b;
    uint64_t next[3] = {0};

    OK(aclInit(NULL));
    b = create_queue(2);
    for (int i = 0; i < 3; i++) {
        a[i] = create_queue(256);
        bind_pair(a[i], b);
    }
    for (uint64_t j = 0; j < 200; j++)
        for (uint64_t i = 0; i < 3; i++)
            send_value(a[i], i << 32 | j);
    for (int i = 0; i < 600; i++) {
        uint64_t value = take_number(b);

        ck_assert_uint_eq(value & 0xffffffff, next[value >> 32]);
        next[value >> 32]++;
    }
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

START_TEST(chains_of_128_to_three)
{
    uint32_t a, b[3];

    OK(aclInit(NULL));
    a = create_queue(8);
    for (int i = 0; i < 3; i++) {
        b[i] = create_queue(8);
        bind_pair(a, b[i]);
    }
    for (int round = 0; round < 50; round++) {
        acltdtBuf head = numbered_buffer(0);

        for (uint64_t i = 1; i < 128; i++)
            OK(acltdtAppendBufChain(head, numbered_buffer(i)));
        OK(acltdtEnqueue(a, head, GUARD_MS));
        for (int i = 0; i < 3; i++) {
            acltdtBuf got, member;
            uint32_t n;

            OK(acltdtDequeue(b[i], &got, GUARD_MS));
            OK(acltdtGetBufChainNum(got, &n));
            ck_assert_uint_eq(n, 128);
            for (uint32_t j = 0; j < n; j++) {
                OK(acltdtGetBufFromChain(got, j, &member));
                ck_assert_uint_eq(value_of(member), j);
            }
            OK(acltdtFreeBuf(got));
        }
    }
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

START_TEST(a_destination_that_nobody_reads)
{
    uint32_t a, slow, fast;

    OK(aclInit(NULL));
    a = create_queue(16);
    slow = create_queue(2);
    fast = create_queue(16);
    bind_pair(a, slow);
    bind_pair(a, fast);
    for (uint64_t i = 0; i < 20000; i += 10) {
        for (uint64_t j = i; j < i + 10; j++)
            send_value(a, j);
        expect_values(fast, i, i + 10);
    }
    /* In the ring of the slow one, in its backlog: nothing is lost, nothing is there twice. */
    ck_assert_uint_ge(npud_buffers(), 20000);
    npuctl_says("routes", 0, "waiting");
    npuctl_says("routes", 0, " 19998 ");
    npuctl_says("routes", 0, "bound");
    expect_values(slow, 0, 20000);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

/*
 * Guards against a route that stops because idle destinations have all slots for references: a
 * source with five idle destinations stopped after 409 messages.
 */
START_TEST(idle_destinations_stall_nobody)
{
    enum { IDLE = 5, N = 6000 };
    uint32_t a, fast, idle[IDLE];

    OK(aclInit(NULL));
    a = create_queue(16);
    fast = create_queue(16);
    for (int i = 0; i < IDLE; i++) {
        idle[i] = create_queue(8192);
        bind_pair(a, idle[i]);
    }
    bind_pair(a, fast);
    for (uint64_t i = 0; i < N; i += 10) {
        for (uint64_t j = i; j < i + 10; j++)
            send_value(a, j);
        expect_values(fast, i, i + 10);
    }
    for (int i = 0; i < IDLE; i++)
        expect_values(idle[i], 0, N);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

/*
 * Guards against a message that npud delivers to some of its destinations only: with all of them
 * idle, then unbound, then the source destroyed, three of six missed the last message.
 */
START_TEST(each_destination_gets_what_was_taken)
{
    enum { DESTINATIONS = 6, N = 1200 };
    uint32_t a, b[DESTINATIONS], pairs[DESTINATIONS][2];
    acltdtQueueRouteList *list;
    uint64_t sent = 0, left = 0;
    acltdtBuf buf;

    OK(aclInit(NULL));
    a = create_queue(2);
    for (int i = 0; i < DESTINATIONS; i++) {
        b[i] = create_queue(i % 2 ? 2 : 8192);
        pairs[i][0] = a;
        pairs[i][1] = b[i];
    }
    list = list_of(DESTINATIONS, (const uint32_t(*)[2])pairs);
    OK(acltdtBindQueueRoutes(list));
    while (sent < N && acltdtEnqueue(a, (buf = numbered_buffer(sent)), 2000) == 0)
        sent++;
    if (sent < N)
        OK(acltdtFreeBuf(buf));
    /* All at once: what npud takes between two unbindings goes to those that are still bound. */
    OK(acltdtUnbindQueueRoutes(list));
    OK(acltdtDestroyQueueRouteList(list));
    /* What npud has not taken is the application's again, and is never delivered. */
    for (; acltdtDequeue(a, &buf, 0) == 0; left++)
        OK(acltdtFreeBuf(buf));
    OK(acltdtDestroyQueue(a));
    for (int i = 0; i < DESTINATIONS; i++) {
        expect_values(b[i], 0, sent - left);
        FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(b[i], &buf, 0));
    }
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

/* Frames of 8 MiB: 32 of them are as much as a backlog takes. */
START_TEST(a_full_backlog)
{
    uint32_t a, b;
    uint64_t n = 0;
    acltdtBuf buf;
    aclError error = 0;

    OK(aclInit(NULL));
    a = create_queue(4);
    b = create_queue(2);
    bind_pair(a, b);
    while (error == 0) {
        OK(acltdtAllocBuf(8 << 20, ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtSetBufDataLen(buf, n + 1));
        error = acltdtEnqueue(a, buf, 200);
        n += error == 0;
    }
    ck_assert_int_eq(error, ACL_ERROR_RT_QUEUE_FULL);
    npuctl_says("routes", 0, "stalled");
    npuctl_says("--bytes routes", 0, "268435456");
    ck_assert_uint_eq(n, 2 + 32 + 4);
    OK(acltdtFreeBuf(buf));
    for (uint64_t i = 0; i < n; i++) {
        size_t length;

        OK(acltdtDequeue(b, &buf, GUARD_MS));
        OK(acltdtGetBufDataLen(buf, &length));
        ck_assert_uint_eq(length, i + 1);
        OK(acltdtFreeBuf(buf));
    }
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(b, &buf, 0));
    send_value(a, 5);
    expect_values(b, 5, 6);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

START_TEST(unbind_with_messages_in_flight)
{
    uint32_t a, b[2];

    OK(aclInit(NULL));
    a = create_queue(64);
    for (int i = 0; i < 2; i++)
        b[i] = create_queue(2);
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t n[2] = {0};
        acltdtBuf buf;

        bind_pair(a, b[0]);
        bind_pair(a, b[1]);
        for (uint64_t i = 0; i < 40; i++)
            send_value(a, i);
        unbind_pair(a, b[round % 2]);
        unbind_pair(a, b[1 - round % 2]);
        /*
         * What npud has taken comes, to both, or to that which was unbound last; the rest is in the
         * source, and the application's.
         */
        while (acltdtDequeue(a, &buf, 0) == 0) {
            n[0]++;
            OK(acltdtFreeBuf(buf));
        }
        expect_values(b[1 - round % 2], 0, 40 - n[0]);
        FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(b[1 - round % 2], &buf, 0));
        while (acltdtDequeue(b[round % 2], &buf, 0) == 0) {
            ck_assert_uint_eq(value_of(buf), n[1]++);
            OK(acltdtFreeBuf(buf));
        }
        while (npud_buffers() > 0) {
            ck_assert_uint_eq(take_number(b[round % 2]), n[1]);
            n[1]++;
        }
        ck_assert_uint_le(n[1], 40 - n[0]);
    }
    OK(aclFinalize());
}
END_TEST

START_TEST(bound_again)
{
    uint32_t a, b;

    OK(aclInit(NULL));
    a = create_queue(16);
    b = create_queue(2);
    bind_pair(a, b);
    bind_pair(a, b);
    for (uint64_t i = 0; i < 10; i++)
        send_value(a, i);
    unbind_pair(a, b);
    unbind_pair(a, b);
    bind_pair(a, b);
    for (uint64_t i = 10; i < 20; i++)
        send_value(a, i);
    expect_values(b, 0, 20);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

START_TEST(what_is_refused)
{
    uint32_t a, b, c;
    acltdtBuf buf;
    int32_t status;
    acltdtQueueRouteList *list;
    acltdtQueueRouteQueryInfo *info = acltdtCreateQueueRouteQueryInfo();
    uint32_t mode = 3;

    OK(aclInit(NULL));
    a = create_queue(8);
    b = create_queue(8);
    c = create_queue(8);
    expect_refused(a, a, "itself");
    bind_pair(a, b);
    expect_refused(b, a, "chained");
    expect_refused(b, c, "chained");
    expect_refused(c, a, "chained");
    expect_refused(a, 4000, "queue 4000: this process is not attached");
    expect_refused(5000, a, "queue 5000: this process is not attached");
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "source of a route", acltdtDequeue(a, &buf, 0));
    FAILS_SAYING(ACL_ERROR_FAILURE, "route", acltdtDestroyQueue(a));
    FAILS_SAYING(ACL_ERROR_FAILURE, "route", acltdtDestroyQueue(b));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtBindQueueRoutes(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtUnbindQueueRoutes(NULL));
    list = acltdtCreateQueueRouteList();
    OK(acltdtBindQueueRoutes(list));
    OK(acltdtUnbindQueueRoutes(list));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtQueryQueueRoutes(NULL, list));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtQueryQueueRoutes(info, NULL));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "no mode", acltdtQueryQueueRoutes(info, list));
    OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, 4, &mode));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "mode is 3, must be 0 ",
                 acltdtQueryQueueRoutes(info, list));
    mode = ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST;
    OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, 4, &mode));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "a source", acltdtQueryQueueRoutes(info, list));
    OK(acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32, 4, &a));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "a destination", acltdtQueryQueueRoutes(info, list));
    OK(acltdtDestroyQueueRouteQueryInfo(info));
    OK(acltdtDestroyQueueRouteList(list));
    /* Of several, each by itself; the states of all are written back. */
    {
        const uint32_t pairs[4][2] = {{a, c}, {c, c}, {a, 4000}, {a, b}};

        list = list_of(4, pairs);
        FAILS_SAYING(ACL_ERROR_FAILURE, "itself", acltdtBindQueueRoutes(list));
        ck_assert_int_eq(row_of(list, 0).status, 1);
        ck_assert_int_eq(row_of(list, 1).status, 0);
        ck_assert_int_eq(row_of(list, 2).status, 0);
        ck_assert_int_eq(row_of(list, 3).status, 1);
        OK(acltdtUnbindQueueRoutes(list));
        OK(acltdtDestroyQueueRouteList(list));
    }
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(a, &buf, 0));
    OK(change_route(acltdtUnbindQueueRoutes, 4000, 5000, &status));
    OK(acltdtDestroyQueue(a));
    OK(acltdtDestroyQueue(b));
    OK(aclFinalize());
}
END_TEST

START_TEST(queries_and_many_routes)
{
    uint32_t a[30], b[20], pairs[600][2];
    acltdtQueueRouteList *list;

    OK(aclInit(NULL));
    for (int i = 0; i < 30; i++)
        a[i] = create_queue(2);
    for (int i = 0; i < 20; i++)
        b[i] = create_queue(2);
    for (int i = 0; i < 600; i++) {
        pairs[i][0] = a[i % 30];
        pairs[i][1] = b[i / 30];
    }
    list = list_of(600, pairs);
    OK(acltdtBindQueueRoutes(list));
    for (size_t i = 0; i < 600; i++)
        ck_assert_int_eq(row_of(list, i).status, 1);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC, a[3], UINT32_MAX, 1), 20);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_DST, UINT32_MAX, b[3], 1), 30);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST, a[1], b[2], 1), 1);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST, b[1], a[2], 1), 0);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL, UINT32_MAX, UINT32_MAX, 2),
                      0);
    OK(acltdtUnbindQueueRoutes(list));
    for (size_t i = 0; i < 600; i++)
        ck_assert_int_eq(row_of(list, i).status, 0);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC, a[3], UINT32_MAX, 1), 0);
    OK(acltdtDestroyQueueRouteList(list));
    OK(aclFinalize());
}
END_TEST

/* One source to more destinations than a page of an answer has. */
START_TEST(more_than_a_page)
{
    uint32_t a, pairs[700][2];
    acltdtQueueRouteList *list;
    uint64_t seen = 0;

    if (!need_fds(__func__, 2048)) /* three of each queue */
        return;
    OK(aclInit(NULL));
    a = create_queue(2);
    for (int i = 0; i < 700; i++) {
        pairs[i][0] = a;
        pairs[i][1] = create_queue(2);
    }
    list = list_of(700, pairs);
    OK(acltdtBindQueueRoutes(list));
    OK(acltdtDestroyQueueRouteList(list));
    list = query_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC, a, UINT32_MAX);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 700);
    for (size_t i = 0; i < 700; i++)
        seen += row_of(list, i).destination;
    for (size_t i = 0; i < 700; i++)
        seen -= pairs[i][1];
    ck_assert_uint_eq(seen, 0);
    send_value(a, 9);
    for (int i = 0; i < 700; i++)
        expect_values(pairs[i][1], 9, 10);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(acltdtDestroyQueueRouteList(list));
    OK(aclFinalize());
}
END_TEST

/* --- between processes --- */

#define MESSAGES 20000

static int produce_messages(void *arg)
{
    (void)arg;
    turn_await(&turns[0]);
    OK(aclInit(NULL));
    attach_queue(board->queue[0], ENQUEUE);
    for (uint64_t i = 0; i < MESSAGES; i++)
        send_value(board->queue[0], i);
    OK(aclFinalize());
    return 0;
}

static int consume_messages(void *arg)
{
    uint32_t number = (uint32_t)(uintptr_t)arg;

    turn_await(&turns[number]);
    OK(aclInit(NULL));
    attach_queue(board->queue[number], DEQUEUE);
    expect_values(board->queue[number], 0, MESSAGES);
    OK(aclFinalize());
    return 0;
}

/* All of them sleep and are woken all the time: the queues are short. */
START_TEST(a_producer_and_two_consumers)
{
    pid_t pids[3] = {child_start(produce_messages, NULL), child_start(consume_messages, (void *)1),
                     child_start(consume_messages, (void *)2)};

    OK(aclInit(NULL));
    for (int i = 0; i < 3; i++) {
        board->queue[i] = create_queue(i == 2 ? 2 : 8);
        OK(acltdtGrantQueue(board->queue[i], pids[i], i == 0 ? ENQUEUE : DEQUEUE, 0));
    }
    bind_pair(board->queue[0], board->queue[1]);
    bind_pair(board->queue[0], board->queue[2]);
    for (int i = 0; i < 3; i++)
        turn_tell(&turns[i]);
    for (int i = 0; i < 3; i++)
        child_expect_ok(pids[i]);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
}
END_TEST

/*
 * Makes a queue of its own, grants it to no process, binds it to or from board->queue[0], and waits
 * to be killed.
 */
static int owner_of_an_end(void *arg)
{
    bool source = arg != NULL;
    uint32_t mine;

    turn_await(&turns[0]);
    OK(aclInit(NULL));
    attach_queue(board->queue[0], ALL);
    mine = create_queue(4);
    board->queue[1] = mine;
    if (source)
        bind_pair(mine, board->queue[0]);
    else
        bind_pair(board->queue[0], mine);
    if (source)
        for (uint64_t i = 0; i < 6; i++)
            send_value(mine, i);
    turn_tell(&turns[1]);
    for (;;)
        pause();
    return 1;
}

static void await_abnormal(size_t n)
{
    EVENTUALLY(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL, UINT32_MAX, UINT32_MAX, 2) == n,
               "not %zu routes are abnormal", n);
}

START_TEST(the_process_of_a_destination_is_killed)
{
    pid_t pid = child_start(owner_of_an_end, NULL);
    acltdtBuf buf;
    int32_t status;

    OK(aclInit(NULL));
    board->queue[0] = create_queue(16);
    OK(acltdtGrantQueue(board->queue[0], pid, ALL, 0));
    turn_tell(&turns[0]);
    turn_await(&turns[1]);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC, board->queue[0], UINT32_MAX, 1),
                      1);
    for (uint64_t i = 0; i < 10; i++)
        send_value(board->queue[0], i);
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtDequeue(board->queue[0], &buf, 0));
    child_kill(pid);
    npud_await_sessions(1);
    await_abnormal(1);
    npuctl_says("routes", 0, "abnormal");
    /* What was meant for it is gone; what npud had not come to is still in the source. */
    while (acltdtDequeue(board->queue[0], &buf, 0) == 0)
        OK(acltdtFreeBuf(buf));
    ck_assert_uint_eq(npud_buffers(), 0);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_SRC, board->queue[0], UINT32_MAX, 2),
                      1);
    FAILS_SAYING(ACL_ERROR_FAILURE, "unbind it first",
                 change_route(acltdtBindQueueRoutes, board->queue[0], board->queue[1], &status));
    ck_assert_int_eq(status, ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL);
    /* There is no queue to send it to: it stays, and is the application's. */
    send_value(board->queue[0], 10);
    expect_values(board->queue[0], 10, 11);
    FAILS(ACL_ERROR_FAILURE, acltdtDestroyQueue(board->queue[0]));
    unbind_pair(board->queue[0], board->queue[1]);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL, UINT32_MAX, UINT32_MAX, 2),
                      0);
    OK(acltdtDestroyQueue(board->queue[0]));
    OK(aclFinalize());
}
END_TEST

/* What it has put is delivered all the same. */
START_TEST(the_process_of_a_source_is_killed)
{
    pid_t pid = child_start(owner_of_an_end, (void *)1);
    acltdtBuf buf;

    OK(aclInit(NULL));
    board->queue[0] = create_queue(2);
    OK(acltdtGrantQueue(board->queue[0], pid, ALL, 0));
    turn_tell(&turns[0]);
    turn_await(&turns[1]);
    child_kill(pid);
    npud_await_sessions(1);
    await_abnormal(1);
    expect_values(board->queue[0], 0, 6);
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtDequeue(board->queue[0], &buf, 0));
    unbind_pair(board->queue[1], board->queue[0]);
    OK(aclFinalize());
}
END_TEST

/* A consumer that sleeps at a destination learns that nothing more will come through the route. */
static int sleep_at_destination(void *arg)
{
    acltdtBuf buf;

    (void)arg;
    turn_await(&turns[2]);
    OK(aclInit(NULL));
    attach_queue(board->queue[0], DEQUEUE);
    for (uint64_t i = 0; i < 6; i++)
        ck_assert_uint_eq(take_number(board->queue[0]), i);
    turn_tell(&turns[3]);
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "no process is left",
                 acltdtDequeue(board->queue[0], &buf, GUARD_MS));
    OK(aclFinalize());
    return 0;
}

static int maker_of_a_destination(void *arg)
{
    int32_t *pids = arg;

    turn_await(&turns[1]);
    OK(aclInit(NULL));
    board->queue[0] = create_queue(2);
    OK(acltdtGrantQueue(board->queue[0], pids[0], MANAGE, 0));
    OK(acltdtGrantQueue(board->queue[0], pids[1], DEQUEUE, 0));
    OK(aclFinalize());
    return 0;
}

static int maker_of_a_source(void *arg)
{
    uint32_t mine;

    (void)arg;
    turn_await(&turns[0]);
    OK(aclInit(NULL));
    attach_queue(board->queue[0], MANAGE);
    mine = create_queue(8);
    bind_pair(mine, board->queue[0]);
    for (uint64_t i = 0; i < 6; i++)
        send_value(mine, i);
    turn_tell(&turns[2]);
    for (;;)
        pause();
    return 1;
}

START_TEST(who_waits_at_a_destination_learns_that_the_source_is_gone)
{
    static int32_t pids[2];
    pid_t maker;

    pids[0] = child_start(maker_of_a_source, NULL);
    pids[1] = child_start(sleep_at_destination, NULL);
    maker = child_start(maker_of_a_destination, pids);
    turn_tell(&turns[1]);
    child_expect_ok(maker);
    turn_tell(&turns[0]);
    turn_await(&turns[3]);
    child_kill(pids[0]);
    child_expect_ok(pids[1]);
}
END_TEST

/* --- kills at random --- */

/* The producer keeps this close to the slower consumer: else it is npud's backlogs that grow. */
#define AHEAD 500u

static uint64_t least_taken(void)
{
    uint64_t a = atomic_load(&board->taken[1]), b = atomic_load(&board->taken[2]);

    return a < b ? a : b;
}

/*
 * A number that a killed producer had begun is not used again, because that message may have been
 * put. put[] has those whose enqueue has returned 0.
 */
static int random_producer(void *arg)
{
    (void)arg;
    OK(aclInit(NULL));
    attach_queue(board->queue[0], ENQUEUE);
    for (uint64_t i = atomic_load(&board->sent); i < NUMBERS; i++) {
        acltdtBuf buf;

        if (atomic_exchange(&board->begun[i], 1) != 0)
            continue;
        while (i > least_taken() + AHEAD)
            wait_a_moment();
        buf = numbered_buffer(i);
        if (i % 7 == 0)
            OK(acltdtAppendBufChain(buf, numbered_buffer(i)));
        OK(acltdtEnqueue(board->queue[0], buf, GUARD_MS));
        atomic_store(&board->put[i], 1);
        atomic_store(&board->sent, i + 1);
    }
    return 1;
}

/* Messages of a destination come in order and once, whichever process takes them. */
static void note_taken(uint32_t number, acltdtBuf buf)
{
    uint64_t value = value_of(buf);

    SURE(value < NUMBERS);
    SURE(value >= atomic_load(&board->next[number]));
    atomic_store(&board->next[number], value + 1);
    atomic_store(&board->seen[number][value], 1);
    atomic_store(&board->taken[number], value + 1);
    OK(acltdtFreeBuf(buf));
}

static int random_consumer(void *arg)
{
    uint32_t number = (uint32_t)(uintptr_t)arg;

    OK(aclInit(NULL));
    attach_queue(board->queue[number], DEQUEUE);
    for (;;) {
        acltdtBuf buf;

        OK(acltdtDequeue(board->queue[number], &buf, GUARD_MS));
        note_taken(number, buf);
    }
    return 1;
}

struct role {
    int (*fn)(void *arg);
    uintptr_t arg;
    uint32_t queue;
    uint32_t rights;
};

static int source_owner(void *arg);
static int source_producer(void *arg);

#define SOURCE_OWNER    3
#define SOURCE_PRODUCER 4

/* Must not inherit a session: forked by a helper that has none. */
static const struct role roles[] = {{random_producer, 0, 0, ENQUEUE},
                                    {random_consumer, 1, 1, DEQUEUE},
                                    {random_consumer, 2, 2, DEQUEUE},
                                    {source_owner, 0, 1, MANAGE},
                                    {source_producer, 0, 0, 0}};

static int run_nursery(void *arg)
{
    int(*pipes)[2] = arg;
    uint32_t role;

    alarm((unsigned)choose_effort(110, 600));
    close(pipes[0][1]);
    /* Each byte that comes is a role to be born; its pid goes back. */
    while (read(pipes[0][0], &role, sizeof(role)) == sizeof(role)) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(roles[role].fn((void *)roles[role].arg));
        if (write(pipes[1][1], &pid, sizeof(pid)) != sizeof(pid))
            return 1;
        /* And the pid of one that was killed, to be reaped. */
        if (read(pipes[0][0], &pid, sizeof(pid)) != sizeof(pid) ||
            (pid != 0 && waitpid(pid, NULL, 0) != pid))
            return 1;
    }
    return 0;
}

static pid_t start_role(int pipes[2][2], uint32_t role, pid_t dead)
{
    pid_t pid;

    ck_assert_int_eq(write(pipes[0][1], &role, sizeof(role)), sizeof(role));
    ck_assert_int_eq(read(pipes[1][0], &pid, sizeof(pid)), sizeof(pid));
    ck_assert_int_eq(write(pipes[0][1], &dead, sizeof(dead)), sizeof(dead));
    if (roles[role].rights != 0)
        OK(acltdtGrantQueue(board->queue[roles[role].queue], pid, roles[role].rights, 0));
    return pid;
}

/* What is left in the destinations; it is at most what the producer was ahead. */
static void drain_destinations(void)
{
    uint64_t give_up = now_ns() + 60000000000u;

    while (npud_buffers() > 0) {
        ck_assert_uint_lt(now_ns(), give_up);
        for (uint32_t i = 1; i < 3; i++) {
            acltdtBuf buf;

            while (acltdtDequeue(board->queue[i], &buf, 0) == 0)
                note_taken(i, buf);
        }
    }
}

/* Each message that was put has come, but for the one that a consumer had when it was killed. */
static void expect_all(uint32_t number, unsigned kills)
{
    uint64_t missing = 0;

    for (uint64_t i = 0; i < NUMBERS; i++) {
        bool put = atomic_load(&board->put[i]), seen = atomic_load(&board->seen[number][i]);

        ck_assert(!seen || atomic_load(&board->begun[i]));
        missing += put && !seen;
    }
    ck_assert_uint_le(missing, kills);
}

/* How far the process of a role is. */
static uint64_t read_progress(uint32_t role)
{
    return role == 0 ? atomic_load(&board->sent) : atomic_load(&board->taken[role]);
}

START_TEST(kills_at_random)
{
    unsigned rounds = choose_effort(60, 1000), kills[3] = {1, 1, 1};
    uint64_t seed = (uint64_t)getpid();
    int pipes[2][2];
    pid_t pids[3], helper;

    ck_assert_int_eq(pipe(pipes[0]), 0);
    ck_assert_int_eq(pipe(pipes[1]), 0);
    helper = child_start(run_nursery, pipes);
    OK(aclInit(NULL));
    for (int i = 0; i < 3; i++)
        board->queue[i] = create_queue(4);
    bind_pair(board->queue[0], board->queue[1]);
    bind_pair(board->queue[0], board->queue[2]);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start_role(pipes, i, 0);
    for (unsigned round = 0; round < rounds; round++) {
        uint32_t victim = (uint32_t)((seed = seed * 6364136223846793005u + 1) >> 33) % 3;
        uint64_t more = read_progress(victim) + 1 + (seed >> 40) % 300;
        uint64_t give_up = now_ns() + 60000000000u;

        while (read_progress(victim) < more) {
            ck_assert_uint_lt(now_ns(), give_up);
            wait_a_moment();
        }
        ck_assert_int_eq(kill(pids[victim], SIGKILL), 0);
        kills[victim]++;
        pids[victim] = start_role(pipes, victim, pids[victim]);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
    npud_await_sessions(1);
    drain_destinations();
    expect_all(1, kills[1]);
    expect_all(2, kills[2]);
    /* The routes are as good as new. */
    send_value(board->queue[0], 3);
    expect_values(board->queue[1], 3, 4);
    expect_values(board->queue[2], 3, 4);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(aclFinalize());
    close(pipes[0][1]);
    child_expect_ok(helper);
}
END_TEST

/* --- owners of routes at random --- */

#define LOST_NS UINT64_C(20000000000) /* against hanging only */

/* What happens to a source while messages flow from it to both destinations. */
enum event {
    OWNER_KILLED,  /* it is the only process at the source, which goes with it */
    ONE_UNBOUND,   /* then the owner is killed */
    BOUND_AGAIN,   /* after a while, before the owner is killed */
    DESTROYED,     /* by its owner, after it has unbound both destinations */
    ORPHANS_ROUTE, /* the owner is killed, and a producer goes on */
    EVENTS,
};

static struct sources {
    _Atomic uint32_t event, depth;
    _Atomic uint32_t first;   /* DESTROYED: the destination that is unbound first */
    _Atomic uint32_t source;  /* 1 + its id, once it is bound */
    _Atomic int32_t producer; /* ORPHANS_ROUTE: its pid */
    _Atomic uint64_t put;     /* messages whose enqueue returned 0, from 0 on without a gap */
    _Atomic uint64_t got[3];  /* messages of each destination that were taken */
    _Atomic uint32_t stop, over;
    _Atomic uint32_t bind_again; /* the owner shall bind the second destination again */
    _Atomic uint64_t bound;      /* 1 + the message that was put first after that */
} * sources;

/* Numbers from 0. Never far ahead of the first destination. */
static void put_until_stopped(uint32_t queue)
{
    for (uint64_t i = 0; atomic_load(&sources->stop) == 0; i++) {
        if (atomic_exchange(&sources->bind_again, 0) != 0) {
            bind_pair(queue, board->queue[2]);
            atomic_store(&sources->bound, i + 1);
        }
        while (i > atomic_load(&sources->got[1]) + AHEAD && atomic_load(&sources->stop) == 0)
            wait_a_moment();
        OK(acltdtEnqueue(queue, numbered_buffer(i), GUARD_MS));
        atomic_store(&sources->put, i + 1);
    }
}

static int source_owner(void *arg)
{
    uint32_t first = atomic_load(&sources->first), queue;

    (void)arg;
    OK(aclInit(NULL));
    attach_queue(board->queue[1], MANAGE);
    attach_queue(board->queue[2], MANAGE);
    queue = create_queue(atomic_load(&sources->depth));
    bind_pair(queue, board->queue[1]);
    bind_pair(queue, board->queue[2]);
    atomic_store(&sources->source, queue + 1);
    if (atomic_load(&sources->event) == ORPHANS_ROUTE) {
        turn_await(&turns[0]);
        OK(acltdtGrantQueue(queue, atomic_load(&sources->producer), ENQUEUE, 0));
        turn_await(&turns[1]); /* it is killed here */
    }
    put_until_stopped(queue);
    unbind_pair(queue, board->queue[first]);
    unbind_pair(queue, board->queue[3 - first]);
    OK(acltdtDestroyQueue(queue));
    atomic_store(&sources->over, 1);
    OK(aclFinalize());
    return 0;
}

static int source_producer(void *arg)
{
    uint32_t queue = atomic_load(&sources->source) - 1;

    (void)arg;
    OK(aclInit(NULL));
    attach_queue(queue, ENQUEUE);
    put_until_stopped(queue);
    atomic_store(&sources->over, 1);
    turn_await(&turns[2]);
    OK(aclFinalize());
    return 0;
}

/* A destination as the test knows it. */
struct due {
    uint64_t next;      /* message that must come now */
    bool again;         /* it was unbound and bound: messages may be left out, once ... */
    uint64_t must_come; /* ... but not from this one on */
};

/* Takes what is there. In order, once, without a gap. */
static void take_due(uint32_t number, struct due *due)
{
    acltdtBuf buf;

    while (acltdtDequeue(board->queue[number], &buf, 0) == 0) {
        uint64_t value = value_of(buf);

        if (due->again && value > due->next) {
            SURE(value <= due->must_come);
            due->next = value;
        }
        due->again &= value < due->must_come;
        SURE(value == due->next);
        atomic_store(&sources->got[number], ++due->next);
        OK(acltdtFreeBuf(buf));
    }
}

static void take_until(struct due due[3], uint64_t n, bool second)
{
    uint64_t give_up = now_ns() + LOST_NS;

    while (due[1].next < n) {
        ck_assert_uint_lt(now_ns(), give_up);
        take_due(1, &due[1]);
        if (second)
            take_due(2, &due[2]);
    }
}

/* Until no process has a message of the round. */
static void take_all(struct due due[3])
{
    uint64_t give_up = now_ns() + LOST_NS;

    while (npud_buffers() > 0) {
        ck_assert_uint_lt(now_ns(), give_up);
        for (uint32_t i = 1; i < 3; i++)
            take_due(i, &due[i]);
    }
}

/* Of what was put `lost` may be missing, and that of a call which was cut off may have come. */
static void expect_most(uint64_t got, uint64_t lost)
{
    uint64_t put = atomic_load(&sources->put);

    ck_assert_uint_ge(got + lost, put);
    ck_assert_uint_le(got, put + 1);
}

static uint32_t wait_for_source(void)
{
    uint32_t source;

    EVENTUALLY((source = atomic_load(&sources->source)) != 0, "no source begins");
    return source - 1;
}

static void run_orphans_route(int pipes[2][2], pid_t owner, pid_t *last, struct due due[3],
                              uint64_t n, bool second)
{
    pid_t producer;

    producer = start_role(pipes, SOURCE_PRODUCER, *last);
    *last = producer;
    atomic_store(&sources->producer, producer);
    turn_tell(&turns[0]);
    take_until(due, n, second);
    ck_assert_int_eq(kill(owner, SIGKILL), 0);
    take_until(due, 2 * n, second);
    atomic_store(&sources->stop, 1);
    while (atomic_load(&sources->over) == 0)
        take_due(1, &due[1]);
    take_all(due);
    /* Nothing is lost: the routes are the queues', and these live. */
    ck_assert_uint_eq(due[1].next, atomic_load(&sources->put));
    ck_assert_uint_eq(due[2].next, atomic_load(&sources->put));
    turn_tell(&turns[2]);
}

/* The source has gone. Its routes are abnormal until they are unbound. */
static void forget_routes(uint32_t source)
{
    npud_await_sessions(1);
    for (uint32_t i = 1; i < 3; i++)
        unbind_pair(source, board->queue[i]);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_DST, UINT32_MAX, board->queue[1], 0),
                      0);
    ck_assert_uint_eq(count_routes(ACL_TDT_QUEUE_ROUTE_QUERY_DST, UINT32_MAX, board->queue[2], 0),
                      0);
}

static void run_source(int pipes[2][2], pid_t *last, uint64_t *rng)
{
    enum event event = next_random(rng) % EVENTS;
    uint64_t n = 1 + next_random(rng) % 300, seen;
    bool second = next_random(rng) % 2; /* is taken from all the time, or in the end */
    struct due due[3] = {{0}};
    uint32_t source;
    pid_t owner;

    *sources = (struct sources){.event = event,
                                .depth = 2 + (uint32_t)(next_random(rng) % 30),
                                .first = 1 + (uint32_t)(next_random(rng) % 2)};
    owner = start_role(pipes, SOURCE_OWNER, *last);
    *last = owner;
    OK(acltdtGrantQueue(board->queue[2], owner, MANAGE, 0));
    source = wait_for_source();
    if (event == ORPHANS_ROUTE) {
        run_orphans_route(pipes, owner, last, due, n, second);
        forget_routes(source);
        return;
    }
    take_until(due, n, second);
    seen = due[1].next;
    if (event == DESTROYED) {
        atomic_store(&sources->stop, 1);
    } else {
        if (event != OWNER_KILLED)
            unbind_pair(source, board->queue[2]);
        if (event == BOUND_AGAIN) {
            take_until(due, 2 * n, second);
            atomic_store(&sources->bind_again, 1);
            while (atomic_load(&sources->bound) == 0)
                take_due(1, &due[1]);
            due[2].must_come = atomic_load(&sources->bound) - 1;
            due[2].again = true;
            take_until(due, due[2].must_come + n, second);
        }
        ck_assert_int_eq(kill(owner, SIGKILL), 0);
    }
    npud_await_sessions(1);
    take_all(due);
    /* What has come to one was taken while both were bound. */
    ck_assert_uint_ge(due[2].next, seen);
    if (event == DESTROYED) {
        uint32_t first = atomic_load(&sources->first);

        ck_assert_uint_eq(atomic_load(&sources->over), 1);
        ck_assert_uint_le(due[first].next, due[3 - first].next);
        /* What was in the source when both were unbound went with it. */
        expect_most(due[3 - first].next, atomic_load(&sources->depth));
    } else {
        if (event == ONE_UNBOUND)
            ck_assert_uint_le(due[2].next, due[1].next);
        else
            ck_assert_uint_eq(due[2].next, due[1].next);
        /* npud takes what is left when the last process at a source has ended. */
        expect_most(due[1].next, 0);
    }
    forget_routes(source);
}

/*
 * Owners of routes are killed, routes are unbound and bound again, and sources destroyed, while
 * messages flow. Each message arrives once and in order at each destination that was bound when
 * npud took it; what is lost was in a source that was destroyed.
 */
START_TEST(owners_and_sources_go_at_random)
{
    unsigned rounds = choose_rounds(60, 3000);
    uint64_t rng = (uint64_t)getpid();
    pid_t last = 0, helper;
    int pipes[2][2];

    sources =
        mmap(NULL, sizeof(*sources), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sources, MAP_FAILED);
    ck_assert_int_eq(pipe(pipes[0]), 0);
    ck_assert_int_eq(pipe(pipes[1]), 0);
    helper = child_start(run_nursery, pipes);
    OK(aclInit(NULL));
    for (int i = 1; i < 3; i++)
        board->queue[i] = create_queue(i == 1 ? 64 : 4);
    for (unsigned i = 0; i < rounds; i++)
        run_source(pipes, &last, &rng);
    OK(aclFinalize());
    close(pipes[0][1]);
    child_expect_ok(helper);
}
END_TEST

static void tear_down_test(void)
{
    npud_expect_empty();
    npud_teardown();
}

int main(void)
{
    Suite *suite = suite_create("route");
    TCase *c = suite_case(suite, "one process", 120, set_up_test, tear_down_test);

    tcase_add_test(c, one_to_one);
    tcase_add_test(c, all_destinations_see_the_same_bytes);
    tcase_add_test(c, many_to_one);
    tcase_add_test(c, chains_of_128_to_three);
    tcase_add_test(c, a_destination_that_nobody_reads);
    tcase_add_test(c, idle_destinations_stall_nobody);
    tcase_add_test(c, each_destination_gets_what_was_taken);
    tcase_add_test(c, a_full_backlog);
    tcase_add_test(c, unbind_with_messages_in_flight);
    tcase_add_test(c, bound_again);
    tcase_add_test(c, what_is_refused);
    tcase_add_test(c, queries_and_many_routes);
    tcase_add_test(c, more_than_a_page);
    c = suite_case(suite, "processes", choose_effort(120, 600), set_up_test, tear_down_test);
    tcase_add_test(c, a_producer_and_two_consumers);
    tcase_add_test(c, the_process_of_a_destination_is_killed);
    tcase_add_test(c, the_process_of_a_source_is_killed);
    tcase_add_test(c, who_waits_at_a_destination_learns_that_the_source_is_gone);
    tcase_add_test(c, kills_at_random);
    c = suite_case(suite, "owners", choose_effort(120, 600), set_up_test, tear_down_test);
    tcase_add_test(c, owners_and_sources_go_at_random);
    return run_suite(suite);
}
