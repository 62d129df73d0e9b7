/* Shared buffers, and the queues that carry them between threads and processes. */
#ifndef ACL_ACL_TDT_QUEUE_H
#define ACL_ACL_TDT_QUEUE_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------- shared buffers */

/*
 * A buffer is a reference-counted block of data, and per handle a data length and 96 bytes of user
 * data. Whoever got a handle from AllocBuf, CopyBufRef or Dequeue owns it, and frees it once or
 * gives it away with a successful enqueue. Handles mean nothing in other processes; a queue is the
 * only carrier. Two threads that use one handle, or one chain, need a lock of their own; no call
 * on buffers blocks. Errors common to all: NULL 100000; stale or foreign handle 107000.
 */
typedef void *acltdtBuf;

typedef enum acltdtAllocBufType {
    ACL_TDT_NORMAL_MEM = 0,
    ACL_TDT_DVPP_MEM = 1, /* for the image and video units: aligned to 128 bytes */
} acltdtAllocBufType;

/*
 * Allocates a buffer with room for size bytes, 1 to 4 GiB, of one acltdtAllocBufType. Its data
 * length is 0, the user data zero, the data undefined. Free it with acltdtFreeBuf.
 * Errors: bad type or NULL 100000; bad size 107000; no memory 207001 or 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtAllocBuf(size_t size, uint32_t type, acltdtBuf *buf);

/*
 * Gives up a buffer; with the head of a chain, the whole chain. Data that copy-refs share stays
 * until the last of them is freed. Errors: NULL 100000; a member that is not the head 107000.
 */
ACL_FUNC_VISIBILITY aclError acltdtFreeBuf(acltdtBuf buf);

/*
 * Where the data starts and how much room there is (the size of the allocation, not the data
 * length), for this buffer of a chain only. Valid until the handle is freed or enqueued; ask again
 * after a dequeue.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetBufData(const acltdtBuf buf, void **dataPtr, size_t *size);

/*
 * Notes how many bytes from the start mean something, 1 to the room; it travels with the buffer.
 * Copy-refs made earlier keep their own. Errors: NULL 100000; len 0 or above the room 107000.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetBufDataLen(acltdtBuf buf, size_t len);

/* The noted length; 0 when it was never set. */
ACL_FUNC_VISIBILITY aclError acltdtGetBufDataLen(acltdtBuf buf, size_t *len);

/*
 * Write to and read from the 96 bytes of user data, which travel with the buffer; bytes never set
 * are zero. Errors: size + offset above 96, or NULL, 100000; reading 0 bytes 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtSetBufUserData(acltdtBuf buf, const void *dataPtr, size_t size,
                                                  size_t offset);
ACL_FUNC_VISIBILITY aclError acltdtGetBufUserData(const acltdtBuf buf, void *dataPtr, size_t size,
                                                  size_t offset);

/*
 * Makes a second owner of the same data, without copying bytes, for buf and all that follows it in
 * its chain. Length and user data are taken over now and go their own ways. Free or enqueue it by
 * itself. Errors: NULL 100000; over 128 buffers 207012; no memory 207001 or 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtCopyBufRef(const acltdtBuf buf, acltdtBuf *newBuf);

/*
 * Puts buf, or the chain that it heads, at the end of the chain of headBuf, which owns it from then
 * on. Errors: NULL 100000; either is not a head, or both are the same, 107000; over 128 in all
 * 207012 with both unchanged.
 */
ACL_FUNC_VISIBILITY aclError acltdtAppendBufChain(acltdtBuf headBuf, acltdtBuf buf);

/* How many buffers a chain has, its head included. Errors: NULL 100000; no head 107000. */
ACL_FUNC_VISIBILITY aclError acltdtGetBufChainNum(acltdtBuf headBuf, uint32_t *num);

/*
 * Lends a member of a chain, 0 being the head: not to be freed or enqueued, and dead with the head.
 * Errors: NULL 100000; no head or index of 128 and above 107000; other index too large 507899.
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

/* Rights on a queue. */
#define ACL_TDT_QUEUE_PERMISSION_MANAGE  1 /* grant onwards and destroy */
#define ACL_TDT_QUEUE_PERMISSION_DEQUEUE 2
#define ACL_TDT_QUEUE_PERMISSION_ENQUEUE 4

/*
 * Creates a queue; attr NULL means the defaults. The id is a plain number that may be sent to other
 * processes. The creator holds all rights and need not attach.
 * Errors: qid NULL 100000; depth outside 2..8192 107000; too many queues 207012; 207001, 207005.
 */
ACL_FUNC_VISIBILITY aclError acltdtCreateQueue(const acltdtQueueAttr *attr, uint32_t *qid);

/*
 * Destroys a queue and frees the messages in it; calls that wait on it return an error. Ids are
 * used again later. Errors: queue is part of a route 500001; bad id 107000; unknown or not attached
 * 507899; no right 207006.
 */
ACL_FUNC_VISIBILITY aclError acltdtDestroyQueue(uint32_t qid);

/*
 * Gives the process pid an OR of rights; it still has to attach. Granting a queue grants the
 * buffers that travel through it. timeout in milliseconds; npud waits for nothing here.
 * Errors: pid not above 0, or bad id, 107000; unknown or not attached 507899; no MANAGE 207006.
 */
ACL_FUNC_VISIBILITY aclError acltdtGrantQueue(uint32_t qid, int32_t pid, uint32_t permission,
                                              int32_t timeout);

/*
 * Makes a granted queue usable in this process and tells the rights held. timeout in milliseconds
 * limits the wait for the grant: -1 for ever, 0 not at all. May be repeated; process exit detaches.
 * Errors: NULL 100000; timeout below -1, or bad id, 107000; unknown 507899; not granted 207006.
 */
ACL_FUNC_VISIBILITY aclError acltdtAttachQueue(uint32_t qid, int32_t timeout, uint32_t *permission);

/*
 * Moves a buffer, or a whole chain by its head, into the queue. Success takes it from the caller:
 * the handle is dead. Failure leaves it. A queue is first in, first out, and has one producer and
 * one consumer, each one thread. timeout in milliseconds: -1 for ever, 0 one attempt.
 * Errors: NULL 100000; full 207014 (elsewhere also 500001); no head or bad id 107000; unknown,
 * destroyed or not attached 507899; no right 207006.
 */
ACL_FUNC_VISIBILITY aclError acltdtEnqueue(uint32_t qid, acltdtBuf buf, int32_t timeout);

/*
 * Takes the next message; the caller owns it. Data, length, user data and chain are as enqueued,
 * and all that the producer stored before is visible. timeout as for acltdtEnqueue.
 * Errors: NULL 100000; empty 207013 (elsewhere also 500001); the others as for acltdtEnqueue.
 */
ACL_FUNC_VISIBILITY aclError acltdtDequeue(uint32_t qid, acltdtBuf *buf, int32_t timeout);

/*
 * Copies dataSize bytes, and up to 96 bytes of user data (NULL with 0 for none), into a fresh
 * buffer and enqueues that; the caller keeps its memory. rsv is 0. timeout in milliseconds.
 * Errors: data NULL, dataSize 0, userDataSize above 96 100000; user data NULL with a size or the
 * reverse 107000; full 207014; 207001; the others as for acltdtEnqueue.
 */
ACL_FUNC_VISIBILITY aclError acltdtEnqueueData(uint32_t qid, const void *data, size_t dataSize,
                                               const void *userData, size_t userDataSize,
                                               int32_t timeout, uint32_t rsv);

/*
 * Takes the next message, copies out what fits, and frees it. *retDataSize is the full length, so a
 * value above dataSize tells of a loss. timeout in milliseconds.
 * Errors: data or retDataSize NULL, dataSize 0 100000; empty 207013; the others as above.
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
 * Has every message of a source queue moved to the destination queue from now on. Routes are taken
 * one by one and nothing is rolled back: the state of each tells what happened. A queue is source
 * or destination, never both. Binding a bound pair succeeds.
 * Errors: NULL 100000; unknown queue, same queue twice, or queue on the other side 500001.
 */
ACL_FUNC_VISIBILITY aclError acltdtBindQueueRoutes(acltdtQueueRouteList *qRouteList);

/* Ends the routes of the list; pairs that are not bound succeed. Errors: NULL 100000. */
ACL_FUNC_VISIBILITY aclError acltdtUnbindQueueRoutes(acltdtQueueRouteList *qRouteList);

/*
 * Empties the list and fills it with the routes that match; none is a success. Errors: NULL, no
 * mode, or an id that the mode needs is missing 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtQueryQueueRoutes(const acltdtQueueRouteQueryInfo *queryInfo,
                                                    acltdtQueueRouteList *qRouteList);

#ifdef __cplusplus
}
#endif

#endif
