/*
 * What the victim does when it dies. Each is an order to it, see tests/common/share_cast.h; `o`
 * tells nothing.
 */
#include <pthread.h>
#include <string.h>

#include "acl/acl_tdt.h"
#include "tests/kill/share/case.h"

#define BUFFER 200

static acltdtBuf alloc_buffer(size_t size)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(size, ACL_TDT_NORMAL_MEM, &buf));
    return buf;
}

static acltdtBuf copy_of(acltdtBuf buf)
{
    acltdtBuf copy;

    OK(acltdtCopyBufRef(buf, &copy));
    return copy;
}

/* --- buffers of its own --- */

/* The first of its pool and of a class, and later ones; given back in another order. */
static aclError act_alloc(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(BUFFER), b = alloc_buffer(BUFFER), c = alloc_buffer(100000);

    (void)o, (void)value;
    OK(acltdtFreeBuf(a));
    OK(acltdtFreeBuf(c));
    a = alloc_buffer(BUFFER);
    OK(acltdtFreeBuf(b));
    OK(acltdtFreeBuf(a));
    return 0;
}

static void *thread_of_buffers(void *arg)
{
    acltdtBuf bufs[70];

    (void)arg;
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 70; i++)
        bufs[i] = alloc_buffer(BUFFER);
    for (int i = 0; i < 70; i++)
        OK(acltdtFreeBuf(bufs[i]));
    return NULL;
}

/* More than a thread's cache holds, which is emptied when the thread ends. */
static aclError act_thread(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    thread_call(thread_of_buffers, NULL);
    return 0;
}

/* Segments of their own, given back at once. */
static aclError act_big(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(3 << 20), b = alloc_buffer(5 << 20);

    (void)o, (void)value;
    OK(acltdtFreeBuf(a));
    OK(acltdtFreeBuf(b));
    return 0;
}

/* The buffer goes first, then its references: the last of them frees the data. */
static aclError act_references(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(BUFFER), b = copy_of(a), c = copy_of(b);

    (void)o, (void)value;
    OK(acltdtFreeBuf(a));
    OK(acltdtFreeBuf(b));
    b = copy_of(c);
    OK(acltdtFreeBuf(c));
    OK(acltdtFreeBuf(b));
    return 0;
}

/* The references first. */
static aclError act_references_first(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(BUFFER), b = copy_of(a);

    (void)o, (void)value;
    OK(acltdtFreeBuf(b));
    b = copy_of(a);
    OK(acltdtFreeBuf(b));
    OK(acltdtFreeBuf(a));
    return 0;
}

/* Single buffers, a chain, a chain of references: joined, and freed together. */
static aclError act_chain(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(BUFFER), b, c;

    (void)o, (void)value;
    OK(acltdtAppendBufChain(a, alloc_buffer(BUFFER)));
    b = alloc_buffer(BUFFER);
    OK(acltdtAppendBufChain(b, alloc_buffer(1000)));
    OK(acltdtAppendBufChain(a, b));
    c = copy_of(a);
    OK(acltdtAppendBufChain(a, c));
    OK(acltdtFreeBuf(a));
    return 0;
}

/* --- buffers of others --- */

static aclError prepare_take_fed(const struct order *o, int64_t *value)
{
    struct order take = {.a = FEED, .b = 0};
    aclError r;

    (void)o;
    while ((r = order_take(&take, value)) == 0)
        ;
    return r == ACL_ERROR_RT_QUEUE_EMPTY ? 0 : r;
}

static aclError act_free_foreign(const struct order *o, int64_t *value)
{
    (void)value;
    for (int i = 0; i < 2; i++)
        OK(acltdtFreeBuf(unkeep()));
    (void)o;
    return 0;
}

/* Of what it keeps; also what the peer is stopped in. */
aclError order_references(const struct order *o, int64_t *value)
{
    acltdtBuf copy = copy_of(kept_newest());

    (void)o, (void)value;
    OK(acltdtFreeBuf(unkeep()));
    keep(copy_of(copy));
    OK(acltdtFreeBuf(copy));
    return 0;
}

static aclError act_references_foreign(const struct order *o, int64_t *value)
{
    order_references(o, value);
    OK(acltdtFreeBuf(unkeep()));
    return 0;
}

/* Its own at the head of another's, another's at the head of its own. */
static aclError act_chain_foreign(const struct order *o, int64_t *value)
{
    acltdtBuf a = alloc_buffer(BUFFER), b = unkeep();

    (void)o, (void)value;
    OK(acltdtAppendBufChain(a, copy_of(b)));
    OK(acltdtAppendBufChain(b, a));
    OK(acltdtFreeBuf(b));
    return 0;
}

/* --- putting --- */

/* Twice: the first needs to ask npud to let takers map the segment. */
static aclError act_put(const struct order *o, int64_t *value)
{
    struct order put = {.a = LINE, .b = 1, .c = 0};

    (void)o;
    OK(order_put(&put, value));
    OK(order_put(&put, value));
    return 0;
}

static aclError act_put_chain(const struct order *o, int64_t *value)
{
    struct order put = {.a = LINE, .b = 3, .c = 0};

    (void)o;
    OK(order_put_keep(&put, value));
    return 0;
}

/*
 * What is another's goes on to a third, with something of its own behind it, while it keeps a
 * reference.
 */
static aclError act_pass(const struct order *o, int64_t *value)
{
    acltdtBuf buf = unkeep(), mine;
    uint32_t number;

    (void)o, (void)value;
    mine = message_make(1, &number);
    OK(acltdtAppendBufChain(buf, mine));
    keep(copy_of(buf));
    number = message_renumber(buf);
    OK(message_put(LINE, buf, number, 0));
    return 0;
}

static aclError act_put_waiting(const struct order *o, int64_t *value)
{
    struct order put = {.a = LINE, .b = 2, .c = -1};

    (void)o;
    OK(order_put(&put, value));
    return 0;
}

/* As order_put() notes it. */
static aclError act_put_data(const struct order *o, int64_t *value)
{
    uint32_t number = atomic_fetch_add(&cast->next, 1) + 1, words[BUFFER / 4];

    (void)o, (void)value;
    for (unsigned i = 0; i < BUFFER / 4; i++)
        words[i] = number;
    message_put_begins(LINE, number);
    OK(acltdtEnqueueData(queue_id(LINE), words, sizeof(words), &number, sizeof(number), 0, 0));
    message_put_ends(number, 0);
    return 0;
}

/* --- taking --- */

static aclError act_take(const struct order *o, int64_t *value)
{
    struct order take = {.a = LINE, .b = 0};

    (void)o;
    OK(order_take(&take, value));
    OK(order_take_free(&take, value));
    return 0;
}

static aclError act_take_one(const struct order *o, int64_t *value)
{
    struct order take = {.a = LINE, .b = 0};

    (void)o;
    OK(order_take(&take, value));
    return 0;
}

static aclError act_take_waiting(const struct order *o, int64_t *value)
{
    struct order take = {.a = LINE, .b = -1};

    (void)o;
    OK(order_take(&take, value));
    return 0;
}

static aclError act_take_data(const struct order *o, int64_t *value)
{
    uint32_t number = 0, words[BUFFER / 4];
    size_t size;

    (void)o, (void)value;
    message_take_begins(LINE);
    OK(acltdtDequeueData(queue_id(LINE), words, sizeof(words), &size, &number, sizeof(number), 0));
    message_take_ends(LINE, number);
    MUST((words[0]) == (words[BUFFER / 4 - 1]));
    return 0;
}

/* --- queues --- */

static aclError act_attach(const struct order *o, int64_t *value)
{
    struct order attach = {.a = LINE, .b = 0}, take = {.a = LINE, .b = 0};

    (void)o;
    OK(order_attach(&attach, value));
    OK(order_take(&take, value));
    return 0;
}

static aclError act_attach_waiting(const struct order *o, int64_t *value)
{
    struct order attach = {.a = LINE, .b = -1};

    (void)o;
    OK(order_attach(&attach, value));
    return 0;
}

/* Made, granted, filled, emptied by its end. */
static aclError act_queue(const struct order *o, int64_t *value)
{
    struct order create = {.a = EXTRA, .b = 2}, put = {.a = EXTRA, .b = 2, .c = 0};
    struct order grant = {.a = EXTRA, .b = atomic_load(&cast->pid[PEER]), .c = 2};

    (void)o;
    OK(order_create(&create, value));
    OK(order_grant(&grant, value));
    OK(order_put(&put, value));
    OK(order_destroy(&create, value));
    return 0;
}

static void send_tensor(acltdtChannelHandle *channel, size_t size)
{
    static char data[50000];
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *item =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT8, data, size);

    OK(acltdtAddDataItem(dataset, item));
    OK(acltdtSendTensor(channel, dataset, 0));
    OK(acltdtDestroyDataset(dataset));
    OK(acltdtDestroyDataItem(item));
}

/* A channel of its own: made, used, emptied, closed with a tensor in it. */
static aclError act_channel(const struct order *o, int64_t *value)
{
    acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(0, "a-channel", 2);
    acltdtDataset *dataset = acltdtCreateDataset();

    (void)o, (void)value;
    MUST(channel && dataset);
    send_tensor(channel, 8);
    send_tensor(channel, 50000);
    OK(acltdtReceiveTensor(channel, dataset, 0));
    OK(acltdtReceiveTensor(channel, dataset, 0));
    send_tensor(channel, 100);
    OK(acltdtCleanChannel(channel));
    send_tensor(channel, 100);
    OK(acltdtDestroyDataset(dataset));
    OK(acltdtDestroyChannel(channel));
    return 0;
}

/* The peer loses a right, so that the queue moves, and gets it back. */
static aclError act_revoke(const struct order *o, int64_t *value)
{
    struct order grant = {.a = LINE, .b = atomic_load(&cast->pid[PEER]), .c = 2};
    struct order put = {.a = LINE, .b = 1, .c = 0};

    (void)o;
    OK(order_grant(&grant, value));
    OK(order_put(&put, value));
    grant.c = ALL_RIGHTS;
    OK(order_grant(&grant, value));
    return 0;
}

static aclError act_destroy(const struct order *o, int64_t *value)
{
    struct order put = {.a = LINE, .b = 2, .c = 0};

    (void)o;
    OK(order_put(&put, value));
    OK(order_destroy(&put, value));
    return 0;
}

static void route_set(acltdtQueueRouteList *list, bool bind)
{
    if (bind)
        OK(acltdtBindQueueRoutes(list));
    else
        OK(acltdtUnbindQueueRoutes(list));
}

/* npud takes what is put into one queue over into two others. */
static aclError act_route(const struct order *o, int64_t *value)
{
    struct order create = {.a = EXTRA, .b = DEPTH}, put = {.a = EXTRA, .b = 2, .c = 0};
    struct order create_too = {.a = EXTRA_TOO, .b = DEPTH};
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route;

    (void)o;
    OK(order_create(&create, value));
    OK(order_create(&create_too, value));
    atomic_store(&cast->leads_to[EXTRA], LINE + 1);
    for (int i = 0; i < 2; i++) {
        route = acltdtCreateQueueRoute(queue_id(EXTRA), queue_id(i ? EXTRA_TOO : LINE));
        OK(acltdtAddQueueRoute(list, route));
        OK(acltdtDestroyQueueRoute(route));
    }
    route_set(list, true);
    OK(order_put(&put, value));
    OK(order_put_keep(&put, value));
    route_set(list, false);
    OK(acltdtDestroyQueueRouteList(list));
    return 0;
}

static aclError act_leave(const struct order *o, int64_t *value)
{
    act_put_chain(o, value);
    OK(order_drop(o, value));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}

/* --- the table --- */

#define STOPPED(point, order) .stop_at = KILL_##point + 1, .stopped = (order)
#define REFERRING(point)                                                                           \
    {                                                                                              \
        .name = "reference, other at " #point, .prepare = prepare_take_fed,                        \
        .act = act_references_foreign, .fed = 1, .shared = true, STOPPED(point, order_references)  \
    }
#define FREEING(point)                                                                             \
    {                                                                                              \
        .name = "free, other at " #point, .prepare = prepare_take_fed, .act = order_drop,          \
        .fed = 1, .shared = true, STOPPED(point, order_drop)                                       \
    }
#define TAKING(point)                                                                              \
    {                                                                                              \
        .name = "take, other at " #point, .act = act_take, .filled = 3, STOPPED(point, order_take) \
    }
#define PUTTING(point)                                                                             \
    {                                                                                              \
        .name = "put, other at " #point, .act = act_put, STOPPED(point, order_put)                 \
    }

const struct role roles[] = {
    {.name = "alloc, free", .act = act_alloc},
    {.name = "thread with buffers", .act = act_thread},
    {.name = "big buffers", .act = act_big},
    {.name = "references last", .act = act_references},
    {.name = "references first", .act = act_references_first},
    {.name = "chain", .act = act_chain},
    {.name = "free, foreign", .prepare = prepare_take_fed, .act = act_free_foreign, .fed = 2},
    {.name = "free, of the dead",
     .prepare = prepare_take_fed,
     .act = act_free_foreign,
     .fed = 2,
     .orphans = true},
    {.name = "references, foreign",
     .prepare = prepare_take_fed,
     .act = act_references_foreign,
     .fed = 1},
    {.name = "references, of the dead",
     .prepare = prepare_take_fed,
     .act = act_references_foreign,
     .fed = 1,
     .orphans = true},
    {.name = "chain, foreign", .prepare = prepare_take_fed, .act = act_chain_foreign, .fed = 1},
    REFERRING(REF_CLAIMED),
    REFERRING(REF_COMMITTED),
    REFERRING(REF_ANNOUNCED),
    REFERRING(REF_CHANGED),
    FREEING(REF_ANNOUNCED),
    FREEING(REF_CHANGED),
    FREEING(REF_DONE),
    {.name = "put", .act = act_put, .meanwhile = PEER_TAKES},
    {.name = "put, only sender", .act = act_put, .meanwhile = PEER_TAKES, .rights = 2},
    {.name = "put chain", .act = act_put_chain, .meanwhile = PEER_TAKES},
    {.name = "put, foreign",
     .prepare = prepare_take_fed,
     .act = act_pass,
     .fed = 1,
     .meanwhile = PEER_TAKES},
    {.name = "put, of the dead",
     .prepare = prepare_take_fed,
     .act = act_pass,
     .fed = 1,
     .orphans = true},
    {.name = "put data", .act = act_put_data, .meanwhile = PEER_TAKES},
    {.name = "put, full", .act = act_put_waiting, .filled = DEPTH, .sleeps_in = "acltdtEnqueue"},
    {.name = "put, full, served",
     .act = act_put_waiting,
     .filled = DEPTH,
     .served_in = "acltdtEnqueue",
     .serve = order_take_free,
     .varies = true},
    PUTTING(PUT_SENDING),
    PUTTING(PUT_DONE),
    PUTTING(PUT_TAIL),
    {.name = "take", .act = act_take, .filled = DEPTH, .meanwhile = PEER_PUTS},
    {.name = "take, only receiver",
     .act = act_take,
     .filled = DEPTH,
     .meanwhile = PEER_PUTS,
     .rights = 4},
    {.name = "take data", .act = act_take_data, .filled = DEPTH, .meanwhile = PEER_PUTS},
    {.name = "take, empty", .act = act_take_waiting, .sleeps_in = "acltdtDequeue"},
    {.name = "take, empty, served",
     .act = act_take_waiting,
     .served_in = "acltdtDequeue",
     .serve = order_put,
     .varies = true},
    TAKING(TAKE_HEAD),
    TAKING(TAKE_HELD),
    TAKING(TAKE_COMMITTED),
    {.name = "take, sender at PUT_DONE", .act = act_take_one, STOPPED(PUT_DONE, order_put)},
    {.name = "attach", .act = act_attach, .filled = 2, .joining = GRANTED},
    {.name = "attach, waiting",
     .act = act_attach_waiting,
     .joining = STRANGER,
     .sleeps_in = "acltdtAttachQueue"},
    {.name = "attach, waiting, granted",
     .act = act_attach_waiting,
     .joining = STRANGER,
     .served_in = "acltdtAttachQueue",
     .varies = true},
    {.name = "queue", .act = act_queue, .loses = true},
    {.name = "channel", .act = act_channel, .loses = true},
    /* The peer is woken to follow the queue: it may be awake when the message comes. */
    {.name = "revoke",
     .act = act_revoke,
     .rights = ALL_RIGHTS,
     .meanwhile = PEER_TAKES,
     .varies = true},
    {.name = "destroy",
     .act = act_destroy,
     .rights = ALL_RIGHTS,
     .meanwhile = PEER_TAKES,
     .ends = true},
    {.name = "routes", .act = act_route, .meanwhile = PEER_TAKES, .varies = true, .loses = true},
    {.name = "leave", .act = act_leave, .meanwhile = PEER_TAKES},
};
const size_t n_roles = sizeof(roles) / sizeof(roles[0]);
