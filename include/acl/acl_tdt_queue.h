/* Shared buffers, and the queues that carry them between threads and processes. */
#ifndef ACL_ACL_TDT_QUEUE_H
#define ACL_ACL_TDT_QUEUE_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------- shared buffers */

/*
 * A buffer is a reference-counted block of data and, per handle, a data length and 96 bytes of user
 * data. Sizes, lengths and offsets are in bytes.
 *
 * Ownership. The caller that got a handle from acltdtAllocBuf, acltdtCopyBufRef or acltdtDequeue
 * owns it, and frees it once, or gives it away with an enqueue that succeeds: then the handle is
 * dead, and so are the pointers that were got with it. A handle means nothing in another process,
 * and changes on the way: a queue is the only carrier, and a consumer uses what it dequeued. What a
 * process holds when it ends is freed; what it has enqueued stays in the queue.
 *
 * No call on buffers waits for another process. Threads may use different buffers at the same time.
 * Threads that use the same buffer, or the same chain, need a lock of their own; the counts of
 * references need none. All owners of references to the same data may read it at once; an owner
 * that writes to it must agree with the others, also with those in other processes. A forked child
 * has none of the buffers of its parent (its memory does not have the data either), and gets 100001
 * until it calls aclInit.
 *
 * Errors common to all: NULL 100000; a handle that was freed or enqueued, is another process's, or
 * never was one, 107000 (a dead handle is recognised until its place in the pool has had 2^28 more
 * owners, which takes a loop of alloc and free some seconds: a handle has 28 bits to tell them
 * apart); one that a process which shares it has damaged 507899; npud cannot be
 * reached 207004, or has ended 507901. A call that fails changes nothing and writes no result.
 * There is no gate by run mode: what elsewhere works on one side of a system only works here
 * everywhere.
 */
typedef void *acltdtBuf;

typedef enum acltdtAllocBufType {
    ACL_TDT_NORMAL_MEM = 0,
    ACL_TDT_DVPP_MEM = 1, /* for the image and video units; the same memory here */
} acltdtAllocBufType;

/*
 * Allocates a buffer with room for size bytes, 1 to 4 GiB, of one acltdtAllocBufType, which the
 * caller owns: a chain of one, with data length 0, zero user data, and undefined data. The data
 * starts at a multiple of 128, from 1 MiB on at a page. The first one connects to npud; later
 * ones ask npud only when the pool of the process has to grow.
 * Errors: bad type 100000; size 0 or above 4 GiB 107000; the user's limit or the memory is used up
 * 207001; descriptors or numbers are 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtAllocBuf(size_t size, uint32_t type, acltdtBuf *buf);

/*
 * Gives up a buffer; with the head of a chain, the whole chain. Data that has other references, in
 * any process, stays until the last of them is freed, and the memory then returns to the process
 * that allocated it; it is given back to the system when that process needs it no more.
 * Errors: a member of a chain that is not its head 107000.
 */
ACL_FUNC_VISIBILITY aclError acltdtFreeBuf(acltdtBuf buf);

/*
 * Where the data starts, and how much room there is: the size of the allocation, not the data
 * length; of this buffer of a chain only. aclrtMemcpy takes the address as host and as device
 * memory. It is valid until the handle is freed or enqueued, differs from process to process, and
 * is asked for again after a dequeue.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetBufData(const acltdtBuf buf, void **dataPtr, size_t *size);

/*
 * Notes how many bytes from the start mean something, 1 to the room; it travels with the buffer.
 * Of several references to the data each has a length of its own. Errors: len 0 or above the room
 * 107000.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetBufDataLen(acltdtBuf buf, size_t len);

/* The noted length; 0 when it was never set. */
ACL_FUNC_VISIBILITY aclError acltdtGetBufDataLen(acltdtBuf buf, size_t *len);

/*
 * Write to and read from the 96 bytes of user data, which travel with the buffer, and of which each
 * reference to the data has its own; bytes never set are zero. dataPtr is memory of the program,
 * size bytes of it. Errors: size + offset above 96 100000; reading 0 bytes, or writing 0 bytes at
 * offset 96, 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetBufUserData(acltdtBuf buf, const void *dataPtr, size_t size,
                                                  size_t offset);
ACL_FUNC_VISIBILITY aclError acltdtGetBufUserData(const acltdtBuf buf, void *dataPtr, size_t size,
                                                  size_t offset);

/*
 * Makes another reference to the same data, without copying it, for buf and all that follows it in
 * its chain. The caller owns it, and frees or enqueues it by itself. Length and user data are taken
 * over now and go their own ways.
 * Errors: as many references as the pool has room for, for buffers of about this size, 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtCopyBufRef(const acltdtBuf buf, acltdtBuf *newBuf);

/*
 * Puts buf, or the chain that it heads, at the end of the chain of headBuf, which owns it from then
 * on. The handle of buf remains good for data, length and user data, as long as the head is not
 * freed or enqueued. There is no way out of a chain. Errors: either is not a head 107000; both are
 * the same 507899; more than 128 buffers in all 207012.
 */
ACL_FUNC_VISIBILITY aclError acltdtAppendBufChain(acltdtBuf headBuf, acltdtBuf buf);

/* How many buffers a chain has, its head included: 1 to 128. Errors: no head 107000. */
ACL_FUNC_VISIBILITY aclError acltdtGetBufChainNum(acltdtBuf headBuf, uint32_t *num);

/*
 * Lends a member of a chain, 0 being the head: not to be freed or enqueued, and dead with the head.
 * It may be given to acltdtCopyBufRef. Errors: no head, or index of 128 and above, 107000; another
 * index that is too large 507899.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetBufFromChain(acltdtBuf headBuf, uint32_t index,
                                                   acltdtBuf *buf);

/* -------------------------------------------------------------------------- queue attributes */

typedef enum acltdtQueueAttrType {
    ACL_TDT_QUEUE_NAME_PTR = 0,     /* const char *, at most 127 characters, "" unless set */
    ACL_TDT_QUEUE_DEPTH_UINT32 = 1, /* uint32_t, 2 to 8192, 8 unless set */
} acltdtQueueAttrType;

typedef struct tagMemQueueAttr acltdtQueueAttr;

/*
 * New attributes: the name is "", the depth 8. NULL when memory is short, and in a forked child
 * that has not called aclInit. They are private to the process, need no npud, and are for one
 * thread at a time. Free them with acltdtDestroyQueueAttr.
 */
ACL_FUNC_VISIBILITY acltdtQueueAttr *acltdtCreateQueueAttr(void);

/*
 * Frees them, and the name that was lent; queues made from them stay as they are. Not twice.
 * Errors: NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtDestroyQueueAttr(const acltdtQueueAttr *attr);

/*
 * Sets one attribute from *param: for the name a variable that holds a const char * (param is a
 * pointer to that pointer, not the text), whose text is copied, and len 8; for the depth a uint32_t
 * and len 4. Any depth is taken here; acltdtCreateQueue refuses what is out of range. An attribute
 * that could not be set keeps its value.
 * Errors: NULL, also in the variable; unknown type; any other len; a name over 127 characters
 * 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetQueueAttr(acltdtQueueAttr *attr, acltdtQueueAttrType type,
                                                size_t len, const void *param);

/*
 * Reads one attribute into param, which has room for len bytes; *paramRetSize tells the bytes
 * written: 8 for the name, a const char *, and 4 for the depth, a uint32_t. The name is lent: do
 * not free it, and copy it before it is set again or the attributes are destroyed.
 * Errors, which write nothing: NULL, unknown type, len too small 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetQueueAttr(const acltdtQueueAttr *attr,
                                                acltdtQueueAttrType type, size_t len,
                                                size_t *paramRetSize, void *param);

/* ------------------------------------------------------------------------------------- queues */

/*
 * A queue is first in, first out; a message is one buffer or one chain, and moves as a whole. An id
 * is a plain number, 0 to 4095, the same in all processes of the user; it may be sent to others,
 * and opens nothing. It names a queue of this user; for another user's there is
 * aclnpudAttachQueueOfUser() in acl_npud.h. A process uses a queue that it has created, or that it
 * was granted and has attached to. Each right is needed for what it names, and enforced by how the
 * memory of the queue is mapped, not by good will.
 *
 * Any thread may use a queue, also several of several processes on the same side; there is no
 * fairness among them. A thread that waits sleeps until it is woken. Each message, and each place,
 * wakes one process. If that process is stopped (SIGSTOP, a debugger) before it has taken the
 * message or the place, the others that wait are woken by the next one, or look when their time is
 * up. Where processes may be stopped, wait with a timeout and call again. Timeouts are in
 * milliseconds, by a clock that cannot be set: 0 tries once and does not wait, a negative one
 * (acltdtAttachQueue: -1) waits for ever. A full queue is 207014, an empty queue 207013, for all
 * four calls, at once and when the time is up: what the manuals say. Elsewhere acltdtEnqueue and
 * acltdtDequeue return 500001 then, as for every other error; a program that is to run there too
 * treats 500001 like these.
 *
 * The queue goes when it is destroyed, or when the last process that is attached has ended and no
 * grant is left. When a process ends, what it had completely enqueued stays, and others go on. One
 * that waits for a message, or for room, is woken with 507899 and a sentence that names the process
 * when the last one that could have served it has died. One that has called aclFinalize while a
 * device was set, so that its session is still there, counts as one that has died, until it calls
 * aclInit again or waits at the queue.
 *
 * Errors common to all: id of 4096 and above, unless
 * aclnpudAttachQueueOfUser() gave it, 107000; a queue that does not exist or was destroyed,
 * or that this process is not attached to, 507899; it has not the right 207006; npud cannot be
 * reached 207004, or has ended 507901. A call that fails changes nothing and writes no result.
 */

/* Rights on a queue, to be combined with |. */
#define ACL_TDT_QUEUE_PERMISSION_MANAGE  1 /* grant onwards and destroy */
#define ACL_TDT_QUEUE_PERMISSION_DEQUEUE 2 /* take messages */
#define ACL_TDT_QUEUE_PERMISSION_ENQUEUE 4 /* put messages */

/*
 * Creates a queue; attr NULL means the defaults. A depth of n holds n messages. Without a name it
 * is called queue-ID; several may have the same. The creator has all rights and need not attach.
 * Errors: qid NULL 100000; depth outside 2 to 8192 107000; the user has too many queues 207012;
 * memory or descriptors are used up 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtCreateQueue(const acltdtQueueAttr *attr, uint32_t *qid);

/*
 * Destroys a queue, in all processes, and frees the messages in it; calls that wait on it return
 * 507899. Needs MANAGE. The id is used again later, for another queue. Errors: the queue is
 * part of a route 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtDestroyQueue(uint32_t qid);

/*
 * Lets the process pid have these rights and no others: it replaces what it was granted before,
 * also when it is attached, and 0 takes all away. Needs MANAGE. pid is what aclrtDeviceGetBareTgid
 * says in that process. The process must run and need not use the library yet; a later process with
 * the same pid has no grant. With DEQUEUE, the process gets to see the memory that the messages
 * come from, and keeps what it has seen (docs/security.md: what a process exposes by sharing).
 * timeout is not used: npud waits for nothing here.
 * Errors: pid not above 0, or bits that are no right, 107000; no such process 507000.
 */
ACL_FUNC_VISIBILITY aclError acltdtGrantQueue(uint32_t qid, int32_t pid, uint32_t permission,
                                              int32_t timeout);

/*
 * Makes a granted queue of this user usable in this process and tells the rights held. timeout
 * limits the wait for the grant of a queue that exists: -1 for ever, 0 not at all. May be repeated,
 * also by the creator. There is no call to detach; the end of the process does. Errors: permission
 * NULL 100000; timeout below -1 107000; no grant in time 207006.
 */
ACL_FUNC_VISIBILITY aclError acltdtAttachQueue(uint32_t qid, int32_t timeout, uint32_t *permission);

/*
 * Moves a buffer, or a whole chain by its head, into the queue; its data is not copied. Success
 * takes it from the caller: the handle is dead. Failure leaves it. Needs ENQUEUE. timeout limits
 * the wait for room. Errors: buf NULL 100000; buf is no head, or no buffer of this process, 107000;
 * full, at once or when the time is up, 207014 (elsewhere also 500001); no process is left that
 * could make room 507899.
 */
ACL_FUNC_VISIBILITY aclError acltdtEnqueue(uint32_t qid, acltdtBuf buf, int32_t timeout);

/*
 * Takes the next message; the caller owns it. Data, length, user data and chain are as enqueued,
 * and all that the producer stored before is visible. Needs DEQUEUE. timeout limits the wait for a
 * message.
 * Errors: buf NULL 100000; empty, at once or when the time is up, 207013 (elsewhere also 500001);
 * the queue is the source of a route, or no process is left that could put a message, 507899; the
 * memory of the message cannot be mapped 207001, and the message stays in the queue; a process that
 * shares the message has damaged it 207005, and it is lost.
 */
ACL_FUNC_VISIBILITY aclError acltdtDequeue(uint32_t qid, acltdtBuf *buf, int32_t timeout);

/*
 * Copies dataSize bytes (of host or device memory), and up to 96 bytes of user data (NULL with 0
 * for none), into a new buffer and enqueues that; the caller keeps its memory. The data length is
 * dataSize. rsv is 0, and not looked at. timeout as for acltdtEnqueue.
 * Errors: data NULL, dataSize 0, or userDataSize 97 to 256 100000; userDataSize above 256, user
 * data NULL with a size, or the reverse, 107000; no memory 207001; the others as for acltdtEnqueue.
 */
ACL_FUNC_VISIBILITY aclError acltdtEnqueueData(uint32_t qid, const void *data, size_t dataSize,
                                               const void *userData, size_t userDataSize,
                                               int32_t timeout, uint32_t rsv);

/*
 * Takes the next message, copies out what fits, and frees it; of a chain, the bytes of its buffers
 * one after the other, and the user data of its head. *retDataSize is the full length of them all,
 * so a value above dataSize tells of a loss. userData gets the first userDataSize bytes, at most
 * 96, of the user data; NULL with 0 for none. timeout as for acltdtDequeue, in total.
 * Errors: data or retDataSize NULL, dataSize 0, or userDataSize 97 to 256 100000; userDataSize
 * above 256, user data NULL with a size, or the reverse, 107000; the others as for acltdtDequeue.
 */
ACL_FUNC_VISIBILITY aclError acltdtDequeueData(uint32_t qid, void *data, size_t dataSize,
                                               size_t *retDataSize, void *userData,
                                               size_t userDataSize, int32_t timeout);

/* ------------------------------------------------------------------------------------- routes */

/* States of a route. */
#define ACL_TDT_QUEUE_ROUTE_UNBIND        0
#define ACL_TDT_QUEUE_ROUTE_BIND          1
#define ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL 2 /* bound, but one of its queues is gone */

typedef enum acltdtQueueRouteParamType {
    ACL_TDT_QUEUE_ROUTE_SRC_UINT32 = 0,   /* uint32_t: id of the queue that messages leave */
    ACL_TDT_QUEUE_ROUTE_DST_UINT32 = 1,   /* uint32_t: id of the queue that they go to */
    ACL_TDT_QUEUE_ROUTE_STATUS_INT32 = 2, /* int32_t: one of the states above */
} acltdtQueueRouteParamType;

/* Which routes to look for, and what has to be set for that. */
typedef enum acltdtQueueRouteQueryMode {
    ACL_TDT_QUEUE_ROUTE_QUERY_SRC = 0,         /* those from a source; SRC_ID */
    ACL_TDT_QUEUE_ROUTE_QUERY_DST = 1,         /* those into a destination; DST_ID */
    ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST = 2, /* that one pair; both */
    ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL = 100,  /* all in state BIND_ABNORMAL; nothing */
} acltdtQueueRouteQueryMode;

typedef enum acltdtQueueRouteQueryInfoParamType {
    ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM = 0,     /* acltdtQueueRouteQueryMode */
    ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32 = 1, /* uint32_t */
    ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32 = 2, /* uint32_t */
} acltdtQueueRouteQueryInfoParamType;

typedef struct acltdtQueueRoute acltdtQueueRoute;
typedef struct acltdtQueueRouteList acltdtQueueRouteList;
typedef struct acltdtQueueRouteQueryInfo acltdtQueueRouteQueryInfo;

/*
 * Descriptions of routes, lists of them, and of what to look for. They are private to the process,
 * need no npud, and are for one thread at a time; destroying them unbinds nothing, and must not be
 * done twice. Create functions return NULL when memory is short, and in a forked child that has not
 * called aclInit. Calls that fail write nothing and change nothing. Errors common to all: NULL
 * 100000.
 */

/* A new route, in state UNBIND. The ids are not looked at before the route is bound. */
ACL_FUNC_VISIBILITY acltdtQueueRoute *acltdtCreateQueueRoute(uint32_t srcId, uint32_t dstId);
ACL_FUNC_VISIBILITY aclError acltdtDestroyQueueRoute(const acltdtQueueRoute *route);

/*
 * Reads an id or the state of a route into param, which has room for len bytes; *paramRetSize tells
 * the bytes written, 4. Errors: unknown type, len below 4 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetQueueRouteParam(const acltdtQueueRoute *route,
                                                      acltdtQueueRouteParamType type, size_t len,
                                                      size_t *paramRetSize, void *param);

/* A new list, empty. Destroying it leaves alone the routes that it was filled from. */
ACL_FUNC_VISIBILITY acltdtQueueRouteList *acltdtCreateQueueRouteList(void);
ACL_FUNC_VISIBILITY aclError acltdtDestroyQueueRouteList(const acltdtQueueRouteList *routeList);

/*
 * Puts a copy of the route at the end of the list, a second one if it is there already. The route
 * may be destroyed; it learns nothing of what becomes of the copy. Errors: no memory 200000.
 */
ACL_FUNC_VISIBILITY aclError acltdtAddQueueRoute(acltdtQueueRouteList *routeList,
                                                 const acltdtQueueRoute *route);

/*
 * Copies one route of the list, 0 being the first, into a route that was created before: the way to
 * read states after acltdtBindQueueRoutes. Takes the same time for each.
 * Errors: index not below acltdtGetQueueRouteNum 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetQueueRoute(const acltdtQueueRouteList *routeList,
                                                 size_t index, acltdtQueueRoute *route);

/* How many routes the list has; 0 for NULL. */
ACL_FUNC_VISIBILITY size_t acltdtGetQueueRouteNum(const acltdtQueueRouteList *routeList);

/* What to look for: a mode, and the ids that it needs. Nothing is set at first. */
ACL_FUNC_VISIBILITY acltdtQueueRouteQueryInfo *acltdtCreateQueueRouteQueryInfo(void);
ACL_FUNC_VISIBILITY aclError
acltdtDestroyQueueRouteQueryInfo(const acltdtQueueRouteQueryInfo *info);

/*
 * Sets the mode or one of the ids from the len bytes at value, 4 for each, once or again. Any value
 * is taken here; acltdtQueryQueueRoutes refuses modes that do not exist.
 * Errors: unknown type, any other len 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetQueueRouteQueryInfo(acltdtQueueRouteQueryInfo *param,
                                                          acltdtQueueRouteQueryInfoParamType type,
                                                          size_t len, const void *value);

/*
 * Has npud move every message of a source queue to the destination queue from now on, those that
 * are in it already first. Data is not copied: of several destinations of a source all but one get
 * a reference to the same data, and each has a length and user data of its own. Order is kept per
 * route. A destination that is full does not stall the others: npud keeps up to 256 MiB, or 32768
 * messages, for each, then the source waits; npud may keep messages for a destination before that
 * holds as many as its depth, when many destinations are not emptied. A queue is source or
 * destination, never both, and no process dequeues from a source. The caller needs MANAGE on both
 * queues. Routes are taken one by one and nothing is rolled back: the state of each is written to
 * the list, also after an error, which tells of the first that is not bound. Binding a bound pair,
 * or an empty list, succeeds. It is the queues that are bound: the process may end.
 * Errors: NULL 100000; a queue that this process is not attached to or may not manage, the same
 * queue twice, a queue on the other side, an abnormal route of this pair, or too many of the user,
 * 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtBindQueueRoutes(acltdtQueueRouteList *qRouteList);

/*
 * Ends the routes of the list; pairs that are not bound succeed. What npud has taken from a source
 * it still delivers, to each destination that was bound then; the rest stays there. The caller must
 * have bound the route, or have MANAGE on one of its queues.
 * Errors: NULL 100000; not this process's to unbind 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtUnbindQueueRoutes(acltdtQueueRouteList *qRouteList);

/*
 * Empties the list and fills it with the routes that match, of queues that this process is attached
 * to, or that it has bound; none is a success. Their state is 1, or 2 when a queue of theirs is
 * gone: such a route is listed until it is unbound. Errors: NULL, unknown mode, or no mode, or an
 * id that the mode needs is missing 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtQueryQueueRoutes(const acltdtQueueRouteQueryInfo *queryInfo,
                                                    acltdtQueueRouteList *qRouteList);

#ifdef __cplusplus
}
#endif

#endif
