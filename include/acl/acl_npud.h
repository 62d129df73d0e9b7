/* What npud offers beyond the common interface. All names begin with aclnpud. */
#ifndef ACL_ACL_NPUD_H
#define ACL_ACL_NPUD_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A task that stands for work: it occupies the stream for so many microseconds and then succeeds,
 * when result is 0, or fails with result, as a kernel would. Asynchronous; the failure appears at
 * the next synchronise. stream NULL is the default stream of the current context.
 * Errors: more than 3,600,000,000 microseconds (an hour), or a result that is neither 0 nor a
 * documented error code, 107000; no context 107002; stream of another context 107003; stale or
 * wrong stream handle 107017.
 */
ACL_FUNC_VISIBILITY aclError aclnpudLaunchDelay(uint64_t microseconds, aclError result,
                                                aclrtStream stream);

/*
 * acltdtAttachQueue for a queue of another user: an id alone means a queue of the process's own
 * user, so that nobody else can put a queue in its place. owner is the uid of the user whose
 * process has created the queue, and qid its id there; a process of the owner must have granted it
 * to this process (acltdtGrantQueue). *localQid is the id by which this process names the queue
 * from then on, 4096 to 8191, always the same for the same owner and qid; if owner is the process's
 * own user, it is qid. timeout as for acltdtAttachQueue, but the queue need not exist yet. Errors:
 * localQid or permission NULL 100000; qid above 4095, or timeout below -1, 107000; no grant in time
 * 207006; the process has named 4096 queues of other users 207012; npud cannot be reached 207004,
 * or has ended 507901.
 */
ACL_FUNC_VISIBILITY aclError aclnpudAttachQueueOfUser(uint32_t owner, uint32_t qid, int32_t timeout,
                                                      uint32_t *localQid, uint32_t *permission);

/*
 * aclrtLaunchCallback for callers that must release userData, such as bindings of other languages:
 * if fn is never going to run, because the stream or its subscription ended first, drop(userData)
 * is called in its place, once, in the thread that ended it. If drop is NULL, nothing is called. If
 * this function returns an error, neither is called, and the sentence names aclrtLaunchCallback.
 */
ACL_FUNC_VISIBILITY aclError aclnpudLaunchCallbackWithDrop(aclrtCallback fn, aclrtCallback drop,
                                                           void *userData,
                                                           aclrtCallbackBlockType blockType,
                                                           aclrtStream stream);

/* What aclnpudIpcEventGetInfo() tells. */
typedef struct aclnpudIpcEventInfo {
    int32_t deviceId;     /* of the event, as this process numbers it; -1: it does not see it */
    int32_t pid;          /* process that exported it, in npud's numbering */
    int32_t alive;        /* 1: that process lives and is connected to npud; else 0 */
    uint32_t reserved;    /* 0 */
    aclrtUuid deviceUuid; /* what aclrtDeviceGetUuid() has for the device, in every process */
} aclnpudIpcEventInfo;

/*
 * What stands behind the handle of an IPC event. Opens nothing; needs no context. If several
 * processes have exported the event (all of them get the same handle), the first one of those that
 * live counts; if none lives, the one that left last. npud knows processes by their connection and
 * pidfd: another process with the same pid is not taken for it. Between the answer and its use the
 * process may end: to learn of that, open the event and wait. Errors: info NULL 100000; not a
 * handle that this npud gave out 107000; the event is gone (no process has it open, and no process
 * that exported it lives) 107017; another user's, see [ipc] scope, 207006. An event that is open
 * somewhere, but whose exporters have all left, has information and cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclnpudIpcEventGetInfo(aclrtIpcEventHandle handle,
                                                    aclnpudIpcEventInfo *info);

/*
 * aclrtIpcOpenEventHandle() on a device, whatever is current. The thread needs no context and keeps
 * the one that it has; the device need not have been set. Each call is matched by
 * aclrtDestroyEvent().
 * Errors: event NULL 100000; no such device 107001; those of aclrtIpcOpenEventHandle().
 */
ACL_FUNC_VISIBILITY aclError aclnpudIpcOpenEventOnDevice(aclrtEvent *event,
                                                         aclrtIpcEventHandle handle,
                                                         int32_t deviceId);

/*
 * The same in a context and on its device.
 * Errors: event or context NULL 100000; no such context 107000; those of aclrtIpcOpenEventHandle().
 */
ACL_FUNC_VISIBILITY aclError aclnpudIpcOpenEventInContext(aclrtEvent *event,
                                                          aclrtIpcEventHandle handle,
                                                          aclrtContext context);

/*
 * Has an eventfd written, once, by adding 1, when the record that is the event's latest at the call
 * is complete or has failed: for poll() and event loops. If the record is complete already, or if
 * there is none, the eventfd is written at once. Later records, resets and the end of the event
 * change nothing about it: the record of an event that was destroyed is still told of.
 * aclrtQueryEventStatus() has the outcome; the descriptor does not tell. Any kind of event that can
 * be synchronised with. The call is a request to npud, and never waits for the record.
 *
 * fd stays the program's, blocking or not, semaphore or not; one fd may serve many records. The
 * library keeps a copy until it is written, by a thread that the first call starts: so take fd out
 * of an epoll set before closing it. A counter that is full is not written, as the descriptor is
 * readable; one that another thread or process fills at this very moment overflows (POLLERR), and
 * is readable. aclFinalize() forgets what is not written. If npud or the session ends, the library
 * writes what is not written, and the calls return 507901. A forked child has none of the copies,
 * but for one that is being written during the fork.
 *
 * Errors: event NULL 100000; stale or wrong event 107017; an ACL_EVENT_EXTERNAL event 207000; fd
 * not open, or no eventfd, 107000; more than 1024 unwritten in the process, no descriptors or
 * threads left in it, or no table memory for its user (limits.table_memory), 207005.
 */
ACL_FUNC_VISIBILITY aclError aclnpudEventNotifyFd(aclrtEvent event, int fd);

/*
 * aclrtIpcMemGetExportKey(), aclrtIpcMemImportByKey() and aclrtIpcMemClose() for programs that pass
 * a descriptor on to their importers, over a socket or by fork: a sealed memfd that holds the key,
 * so that who was given it may import, within the list of importers that flags asks for. The
 * descriptor is the program's, close-on-exec; the export does not end when it is closed, and
 * aclnpudMemCloseFd() does not close it. Needs a context, but for aclnpudMemCloseFd().
 * Errors: those of the functions above; fd NULL 100000; not such a descriptor 107000; none left in
 * the process 207005.
 */
ACL_FUNC_VISIBILITY aclError aclnpudMemExportFd(void *devPtr, size_t size, uint64_t flags, int *fd);
ACL_FUNC_VISIBILITY aclError aclnpudMemImportFd(void **devPtr, int fd, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclnpudMemCloseFd(int fd);

/*
 * For bindings of languages whose signal handlers run outside of signal handlers, as Python's do:
 * the library asks the check whether the call that the thread is in is to end. Holds for the
 * calling thread only; NULL: no check, as at first. A forked child keeps the check.
 *
 * The library asks while the thread sleeps in it: after a signal that a handler has taken without
 * SA_RESTART, and at least ten times a second. moment says what the check may do:
 *   ACLNPUD_INTERRUPT_SLEEP     anything, calls of this library included; for one, run the handlers
 *   ACLNPUD_INTERRUPT_LOCKED    say whether there is something to run, and call nothing of this
 *                               library, which holds locks
 *   ACLNPUD_INTERRUPT_CALLBACK  as SLEEP; a callback has just run in the call
 * If the check returns something else than 0, the call ends; until it has ended, the library may
 * ask again, and the check should say the same.
 *
 * A call that waits or submits has done nothing, and returns ACLNPUD_ERROR_INTERRUPTED without a
 * sentence: it can be made again. So do submitting calls after any signal while they wait for room;
 * no check is asked then. aclrtProcessReport() runs no further callback, and returns 0 if it has
 * run one. A call that ends something ends it by force, and returns what it would have returned:
 * aclrtDestroyStream() becomes aclrtDestroyStreamForce(), and so do the streams of a context or
 * device that ends; a callback that another thread still runs is not waited for.
 * aclrtUnSubscribeReport() does not wait for it either. acltdtAttachQueue() ends as when its time
 * is up. Not ended: a request that waits for npud's answer, and aclFinalize() while a thread runs
 * callbacks.
 */
typedef enum aclnpudInterruptMoment {
    ACLNPUD_INTERRUPT_SLEEP,
    ACLNPUD_INTERRUPT_LOCKED,
    ACLNPUD_INTERRUPT_CALLBACK,
} aclnpudInterruptMoment;

typedef int32_t (*aclnpudInterruptCheck)(void *arg, aclnpudInterruptMoment moment);

#define ACLNPUD_ERROR_INTERRUPTED 599001

/*
 * Marks and ranges for tools, which do not know in which threads ranges end: in a trace, as those
 * of aclnpudTraceMark and aclnpudTraceRangeBegin below, and as stamps of a profile
 * (acl_prof.h), too, while these are collected. A mark with a stream is also one in the order of
 * that stream in the profile; NULL: of the host alone. *id becomes 0 if neither a trace runs nor
 * stamps are collected, and to stop 0 does nothing; any thread may stop a range, and ranges may
 * cross. The first 155 bytes of a name count.
 * Errors: text, name or id NULL 100000; an id that there is not 107000; 65536 ranges 207001; those
 * of submissions to a stream.
 */
ACL_FUNC_VISIBILITY aclError aclnpudTraceMarkInStream(const char *text, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclnpudTraceRangeStart(const char *name, uint64_t *id);
ACL_FUNC_VISIBILITY aclError aclnpudTraceRangeStop(uint64_t id);

/*
 * What the program does, for a trace of npud (npu-run --trace, npuctl trace): a mark, or a range of
 * the calling thread, which the next aclnpudTraceRangeEnd() of this thread ends. Ranges may be in
 * ranges. The first 128 bytes of the text are shown. While no trace runs, and without a session,
 * they cost next to nothing and tell nobody anything. Errors: text or name NULL 100000; 64 ranges
 * deep already, or an end without a beginning, 107000; no memory 207001.
 */
ACL_FUNC_VISIBILITY aclError aclnpudTraceMark(const char *text);
ACL_FUNC_VISIBILITY aclError aclnpudTraceRangeBegin(const char *name);
ACL_FUNC_VISIBILITY aclError aclnpudTraceRangeEnd(void);

/*
 * For bindings of interpreted languages: until it is said anew, the calling thread makes its calls
 * at this line of this file, in this function of the interpreted program. npu-run --check shows
 * that in place of the interpreter's own functions. The texts are not copied: they must stay until
 * the next call of this function in the thread. file NULL: it is not known. Returns 1 if the
 * process is checked; else 0, and nothing else was done.
 */
ACL_FUNC_VISIBILITY int aclnpudCheckCaller(const char *file, const char *function, uint32_t line);

/*
 * For libraries above this one, as libopapi is: aclGetRecentErrMsg() tells the calling thread this
 * sentence, with the code before it, which is returned. code 0 or sentence NULL: nothing is told.
 * Of the sentence the first 500 bytes are kept.
 */
ACL_FUNC_VISIBILITY aclError aclnpudReportError(aclError code, const char *sentence);

/* Returns 0. */
ACL_FUNC_VISIBILITY aclError aclnpudSetInterruptCheck(aclnpudInterruptCheck check, void *arg);

#ifdef __cplusplus
}
#endif

#endif
