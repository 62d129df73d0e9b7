/* IPC events, the library's side. See proto/shm/ipc_page.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/event/event.h"
#include "client/callback/exception.h"
#include "client/core/handle.h"
#include "client/runtime/stream.h"
#include "client/core/wait.h"
#include "proto/wire/ipc_handle.h"
#include "proto/shm/ipc_page.h"
#include "proto/util/clock.h"

static_assert(sizeof(struct ipc_handle) == sizeof(aclrtIpcEventHandle),
              "what npud makes is what programs pass");

/* A record that is pending for so long is asked for, then after twice as long, and so on. */
#define ASK_FIRST_NS NSEC_PER_SEC
#define ASK_MAX_NS   (16 * NSEC_PER_SEC)
/*
 * A record that waits for its place: npud is asked to search, and a moment later for what it has
 * found. Together less than a second.
 */
#define SEARCH_NS (200 * NSEC_PER_MSEC)
#define FOUND_NS  (600 * NSEC_PER_MSEC)
/*
 * Of one call for room in the window. A wait that did not help means that other recorders were
 * faster, and a blocker that was not executed, that its process died: both happen a few times.
 */
#define WINDOW_WAITS_MAX (1u << 20)
#define WINDOW_LOST_MAX  64

/* --- mapping --- */

static int map_page(struct event *e, const char *function, int fd)
{
    /* The first event in this slot gets a range of its own; later ones are mapped over it. */
    void *map = mmap(e->page, sizeof(struct ipc_page), PROT_READ | PROT_WRITE,
                     MAP_SHARED | (e->page ? MAP_FIXED : 0), fd, 0);

    KILL_POINT(SEGMENT_MAPPED);
    close(fd);
    if (map == MAP_FAILED)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: cannot map shared memory: %m",
                         function);
    madvise(map, sizeof(struct ipc_page), MADV_DONTFORK);
    e->page = map;
    return 0;
}

static void empty_page(struct event *e)
{
    void *map = mmap(e->page, sizeof(struct ipc_page), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

    (void)map; /* failed: the old page stays mapped, which wastes it and does no harm */
}

void ipc_event_unmap(struct event *e)
{
    if (e->page)
        munmap(e->page, sizeof(struct ipc_page));
    e->page = NULL;
}

/* --- create, open, close --- */

static int close_remote(struct event *e, const char *function)
{
    REQUEST(close_ipc_event, CLOSE_IPC_EVENT, .slot = e->remote);
    int error;

    in.fences = event_fences(e, &in.n_fences, &in.all_streams);
    error = session_command(e->session, function, &request);
    event_fences_free(in.fences);
    return error;
}

int ipc_event_close(struct event *e, const char *function)
{
    int error = close_remote(e, function);

    if (error != ACL_ERROR_RT_RESOURCE_ALLOC_FAIL)
        empty_page(e);
    return error;
}

/* Send the request that gives an IPC event, and make its local object. */
static int obtain_event(struct session *s, struct context *c, uint32_t device, const char *function,
                        Npud__Request *request, void **handle)
{
    Npud__Reply *reply = NULL;
    int error, fd = -1;
    struct event *e = FIND_OR_RETURN(event_new, s, c, device, function, EVENT_IPC, ACL_EVENT_IPC);

    error = session_request(s, function, request, &reply, &fd);
    if (error == 0) {
        e->remote = reply->ipc_event->slot;
        e->remote_generation = reply->ipc_event->generation;
        e->opener = reply->ipc_event->opener;
        e->ipc_id = reply->ipc_event->event;
        session_reply_free(reply);
        error = map_page(e, function, fd);
        if (error != 0)
            close_remote(e, function);
    }
    if (error != 0) {
        event_abandon(e);
        return error;
    }
    slots_publish(e);
    *handle = handle_of(HANDLE_EVENT, e);
    if (checked_runs())
        event_note_created(e, request->body_case == NPUD__REQUEST__BODY_OPEN_IPC_EVENT);
    return 0;
}

int ipc_event_create(const char *function, void **handle)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    REQUEST(create_ipc_event, CREATE_IPC_EVENT, .device = c->device);

    return obtain_event(c->session, c, c->device, function, &request, handle);
}

static int open_handle(struct session *s, struct context *c, uint32_t device, const char *function,
                       aclrtIpcEventHandle *handle, aclrtEvent *event)
{
    REQUEST(open_ipc_event, OPEN_IPC_EVENT, .handle = {sizeof(*handle), (uint8_t *)handle});

    return obtain_event(s, c, device, function, &request, event);
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event)
{
    CALL_SCOPE;
    REQUIRE(event);
    struct context *c = FIND_OR_RETURN(context_get, __func__);

    return open_handle(c->session, c, c->device, __func__, &handle, event);
}

aclError aclnpudIpcOpenEventOnDevice(aclrtEvent *event, aclrtIpcEventHandle handle,
                                     int32_t deviceId)
{
    CALL_SCOPE;
    struct session *s;
    struct context *c;
    uint32_t device;

    REQUIRE(event);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    pthread_mutex_lock(&s->lock);
    c = s->devices[device].primary;
    pthread_mutex_unlock(&s->lock);
    return open_handle(s, c, device, __func__, &handle, event);
}

aclError aclnpudIpcOpenEventInContext(aclrtEvent *event, aclrtIpcEventHandle handle,
                                      aclrtContext context)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(context);
    struct context *c;
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    c = handle_get(&s->contexts, HANDLE_CONTEXT, context);
    if (!c)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: no such context, or it was destroyed",
                         __func__);
    return open_handle(s, c, c->device, __func__, &handle, event);
}

aclError aclnpudIpcEventGetInfo(aclrtIpcEventHandle handle, aclnpudIpcEventInfo *info)
{
    CALL_SCOPE;
    REQUIRE(info);
    REQUEST(ipc_event_info, IPC_EVENT_INFO, .handle = {sizeof(handle), (uint8_t *)&handle});
    Npud__Reply *reply = NULL;
    struct session *s = FIND_OR_RETURN(session_get, __func__);
    uint32_t device;

    RETURN_IF_ERROR(session_request(s, __func__, &request, &reply, NULL));
    device = reply->ipc_event_info->device;
    *info = (aclnpudIpcEventInfo){
        .deviceId = device_user_id(s, device),
        .pid = reply->ipc_event_info->pid,
        .alive = reply->ipc_event_info->alive,
    };
    session_reply_free(reply);
    memcpy(info->deviceUuid.bytes, s->device_info[device].uuid, sizeof(info->deviceUuid));
    return 0;
}

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUIRE(handle);
    Npud__Reply *reply = NULL;
    struct event *e = FIND_OR_RETURN(event_find, __func__, event);
    REQUEST(export_ipc_event, EXPORT_IPC_EVENT, .slot = e->remote);

    if (e->kind != EVENT_IPC)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtIpcGetEventHandle: only an event made by aclrtCreateEventExWithFlag "
                         "with ACL_EVENT_IPC has a handle");
    RETURN_IF_ERROR(session_request(e->session, __func__, &request, &reply, NULL));
    memcpy(handle, reply->export_ipc_event->handle.data, sizeof(*handle));
    session_reply_free(reply);
    return 0;
}

/* --- what became of a record --- */

/*
 * The code for which a stream of this process has stopped that the event was used in; 0: there is
 * none.
 */
static int stopped_here(struct event *e, const char *function)
{
    struct stream_ctrl *stopped = NULL;

    biased_lock_take(&e->lock);
    for (uint32_t i = 0; i < e->uses_size && !stopped; i++) {
        struct point *p = &e->uses[i].point;

        if (!point_passed(p) && atomic_load_explicit(&p->ctrl->stopped, memory_order_acquire) != 0)
            stopped = p->ctrl;
    }
    biased_lock_give(&e->lock);
    return stopped ? stream_error_stopped(stopped, function) : 0;
}

/* What npud says of a record. */
struct told {
    bool failed;
    bool unsubmitted; /* because it was in no stream of its opener */
    bool missing;     /* it is pending, and was in no stream when npud last searched for it */
    int pid;
};

/*
 * Ask npud what became of a record. One that is pending fails then if its opener is gone. search:
 * and fails some time later if no stream has it.
 */
static int ask_npud(struct event *e, const char *function, uint64_t number, bool search,
                    struct told *told)
{
    REQUEST(explain_record, EXPLAIN_RECORD, .slot = e->remote, .number = number, .search = search);
    Npud__Reply *reply = NULL;
    int error = session_request(e->session, function, &request, &reply, NULL);
    if (error != 0)
        return error;
    told->failed = reply->explain_record->failed;
    told->unsubmitted = reply->explain_record->unsubmitted;
    told->missing = reply->explain_record->missing;
    told->pid = reply->explain_record->pid;
    session_reply_free(reply);
    return 0;
}

static int error_unsubmitted(struct event *e, const char *function, uint64_t number, int pid)
{
    char who[32] = "a process that has left";

    if (pid != 0)
        snprintf(who, sizeof(who), "process %d", pid);
    return error_set(
        ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
        "%s: record %llu of IPC event %llu was taken by %s and never submitted: that process was "
        "stopped or killed meanwhile, or a process that has the event open wrote nonsense into its "
        "page; if it happens again, use a new event",
        function, (unsigned long long)number, (unsigned long long)e->ipc_id, who);
}

/* npud knows: the page tells only that the record failed, or that its place was taken over. 0: it
 * is done, or pending. */
static int explain_record(struct event *e, const char *function, uint64_t number,
                          enum ipc_state state)
{
    struct told told;

    RETURN_IF_ERROR(stopped_here(e, function));
    RETURN_IF_ERROR(ask_npud(e, function, number, false, &told));
    if (told.unsubmitted)
        return error_unsubmitted(e, function, number, told.pid);
    if (told.failed && told.pid != 0)
        return error_set(
            ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
            "%s: record %llu of IPC event %llu was never executed: process %d, which had submitted "
            "it, ended or dropped its stream before, or the record failed",
            function, (unsigned long long)number, (unsigned long long)e->ipc_id, told.pid);
    if (told.failed || state == IPC_FAILED)
        return error_set(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
                         "%s: record %llu of IPC event %llu has failed, or failed so long ago that "
                         "npud has forgotten it",
                         function, (unsigned long long)number, (unsigned long long)e->ipc_id);
    return 0;
}

/* Outcome of a record that is not pending any more, or whose opener is gone. */
static int record_outcome(struct event *e, const char *function, uint64_t number,
                          enum ipc_state state)
{
    if (__builtin_expect(state == IPC_DONE || number == 0, 1))
        return 0;
    if (state == IPC_NONE && number > atomic_load_explicit(&e->page->failed, memory_order_acquire))
        return 0;
    return explain_record(e, function, number, state);
}

static uint64_t newest_number(struct event *e)
{
    return ipc_latest_number(atomic_load_explicit(&e->page->latest, memory_order_acquire));
}

/*
 * Wait until a record is not pending. If its opener is gone, npud fails it when it is asked; if
 * npud says that it knows the opener after all, it will wake this process when that one leaves.
 *
 * Openers can write pending records into the page that no stream has. So after a while npud is
 * asked to search the streams for the record, and again in growing distances: a record that is in
 * none fails, and what npud says counts, whatever the page says then. One that a stream has is
 * waited for, however long that takes. brief: one that is in none is waited for no longer than it
 * takes to find that out.
 */
static int await_told(struct event *e, struct record_wait *w, bool brief, struct told *told)
{
    uint64_t ask_after = brief ? SEARCH_NS : ASK_FIRST_NS;
    unsigned asked = 0;
    int r;

    for (;;) {
        if (ipc_state_of(e->page, w->number) != IPC_PENDING)
            return 0;
        w->ask_at = clock_ns() + ask_after;
        r = wait_record(&e->session->waits, w);
        if ((r != 0 && r != -EAGAIN) || ipc_state_of(e->page, w->number) != IPC_PENDING)
            return r == -EAGAIN ? 0 : r;
        if (r == -EAGAIN && ask_after < ASK_MAX_NS)
            ask_after = brief && asked == 0 ? FOUND_NS : 2 * ask_after;
        if ((r == -EAGAIN || !w->known) &&
            ask_npud(e, w->function, w->number, r == -EAGAIN, told) != 0)
            return session_lost(e->session) ? -EPIPE : 0;
        /* What was missed by a search of before may have been submitted since. */
        asked += r == -EAGAIN;
        told->missing &= brief && asked > 1;
        if (told->failed || told->missing)
            return 0;
        w->known = true;
    }
}

/*
 * 0, -ETIMEDOUT, -EPIPE; -ECANCELED when *leave (or NULL) is not 0. *told: what npud has said last.
 */
static int await_record(struct event *e, const char *function, uint64_t number, uint64_t deadline,
                        _Atomic int32_t *leave, bool brief, struct told *told)
{
    struct record_wait w = {.function = function,
                            .remote = e->remote,
                            .page = e->page,
                            .number = number,
                            .deadline = deadline,
                            .leave = leave};
    int r;

    *told = (struct told){0};
    r = await_told(e, &w, brief, told);
    wait_record_end(&e->session->waits, &w);
    return r;
}

int ipc_event_query(struct event *e, const char *function, bool *complete)
{
    uint64_t number = newest_number(e);
    enum ipc_state state = ipc_state_of(e->page, number);
    int error;

    *complete = state != IPC_PENDING;
    if (state == IPC_DONE && checked_runs())
        event_note_seen(e, number, false);
    if (__builtin_expect(state == IPC_DONE, 1) ||
        (state == IPC_PENDING && !ipc_orphaned(e->page, number)))
        return 0;
    error = record_outcome(e, function, number, state);
    if (error == 0 && state == IPC_PENDING)
        *complete = ipc_state_of(e->page, number) != IPC_PENDING;
    return error;
}

int ipc_event_synchronize(struct event *e, const char *function, int32_t timeout)
{
    uint64_t number = newest_number(e);
    struct told told;
    int r = await_record(e, function, number, wait_deadline(timeout), NULL, false, &told);
    int error;

    if (r == -ETIMEDOUT)
        return error_set(
            ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
            "%s: record %llu of IPC event %llu was not complete after %d ms; its tasks go on",
            function, (unsigned long long)number, (unsigned long long)e->ipc_id, timeout);
    if (r == -EPIPE)
        return session_error_lost(function);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    error = record_outcome(e, function, number, ipc_state_of(e->page, number));
    if (error != 0)
        exception_drain(e->session);
    else if (checked_runs())
        event_note_seen(e, number, true);
    return error;
}

/* --- record and wait --- */

/* The waits of one record for its place in the window. */
struct window {
    uint64_t blocker;
    unsigned waits;
    unsigned lost; /* blockers that were not executed */
};

static int error_window(struct event *e, const char *function, uint64_t blocker)
{
    return error_set(
        ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
        "%s: nothing can be recorded on IPC event %llu: record %llu holds it up, as others did "
        "before, and no stream has it; a process that has the event open writes nonsense into its "
        "page; use a new event",
        function, (unsigned long long)e->ipc_id, (unsigned long long)blocker);
}

static int error_missing(struct event *e, const char *function, uint64_t blocker)
{
    return error_set(
        ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
        "%s: nothing can be recorded on IPC event %llu now: record %llu, in whose place this one "
        "would be, is in no stream; the process that took it was stopped meanwhile, or a process "
        "that has the event open wrote nonsense into its page; try again, or use a new event",
        function, (unsigned long long)e->ipc_id, (unsigned long long)blocker);
}

/*
 * Wait, with the stream's lock, until the record is not pending in whose place the next one is to
 * be: an abort of the stream ends that.
 *
 * A hostile opener can write pending records as fast as they fail, and keep this thread here for
 * ever. So the call ends with an error when its blocker does not come after the one before (numbers
 * only grow, and a record that is over is never pending again), and when too many of them were not
 * executed.
 */
static int await_window(struct event *e, struct stream *s, const char *function, uint64_t blocker,
                        struct window *window)
{
    struct told told;
    int r;

    if (blocker <= window->blocker || window->lost >= WINDOW_LOST_MAX ||
        window->waits++ == WINDOW_WAITS_MAX)
        return error_window(e, function, blocker);
    window->blocker = blocker;
    r = await_record(e, function, blocker, WAIT_FOREVER, &s->aborting, true, &told);
    RETURN_IF_ERROR(stream_waited(s, function, r));
    if (told.missing)
        return error_missing(e, function, blocker);
    if (ipc_state_of(e->page, blocker) == IPC_FAILED)
        RETURN_IF_ERROR(ask_npud(e, function, blocker, false, &told));
    /* npud has waited for long until it has said so of the first. */
    window->lost += told.unsubmitted ? WINDOW_LOST_MAX : told.failed;
    return 0;
}

/* As take_pending(), and the first try has found the window full. */
static uint64_t take_later(struct event *e, struct stream *s, const char *function, void *handle,
                           uint64_t blocker, int *error)
{
    struct window window = {0};
    uint64_t number;

    for (;;) {
        *error = await_window(e, s, function, blocker, &window);
        if (*error == 0)
            *error = event_lock(e, function, handle);
        if (*error != 0)
            return 0;
        number = ipc_take(e->page, e->opener, IPC_PENDING, &blocker);
        if (number != 0)
            return number;
        event_unlock(e);
    }
}

/*
 * Take the next number, with the event's lock, and only while handle names the event: so nothing is
 * recorded with the number of an opener that has closed it. Waits, without the event's lock, while
 * IPC_SLOTS records are in flight. 0 with *error set and no lock: as await_window(), and if the
 * event was destroyed, or npud is gone.
 */
static uint64_t take_pending(struct event *e, struct stream *s, const char *function, void *handle,
                             int *error)
{
    uint64_t number, blocker = 0;

    *error = event_lock(e, function, handle);
    if (*error != 0)
        return 0;
    number = ipc_take(e->page, e->opener, IPC_PENDING, &blocker);
    if (__builtin_expect(number != 0, 1))
        return number;
    event_unlock(e);
    return take_later(e, s, function, handle, blocker, error);
}

static int take_done_later(struct event *e, struct stream *s, const char *function,
                           uint64_t blocker)
{
    struct window window = {0};

    do
        RETURN_IF_ERROR(await_window(e, s, function, blocker, &window));
    while (ipc_take(e->page, e->opener, IPC_DONE, &blocker) == 0);
    return 0;
}

/*
 * Complete at the call, because nothing is outstanding: never pending, so no thread can sleep on
 * it, and npud hears of nothing.
 */
static int record_done(struct event *e, struct stream *s, const char *function)
{
    uint64_t blocker = 0;

    if (ipc_take(e->page, e->opener, IPC_DONE, &blocker) == 0)
        RETURN_IF_ERROR(take_done_later(e, s, function, blocker));
    stream_count_implicit(s);
    return 0;
}

int ipc_event_record(struct event *e, struct stream *s, const char *function, void *handle)
{
    struct task task = {
        .op = TASK_IPC_RECORD, .object = e->remote, .generation = e->remote_generation};
    int error = 0;

    /* What a checked process writes down has the number, and must come before others see it. */
    if (stream_idle(s) && !checked_runs())
        return record_done(e, s, function);
    task.ipc.number = take_pending(e, s, function, handle, &error);
    if (error != 0)
        return error;
    if (checked_runs())
        checked_event_use(CHECK_RECORD, stream_checked_name(s), (uintptr_t)handle, task.ipc.number);
    stream_submit_reserved(
        s, &task); /* it has its number, and a thread that waits for that must be woken */
    KILL_POINT(RECORD_QUEUED);
    event_used(e, s, USE_FENCE);
    event_unlock(e);
    return 0;
}

/*
 * The record is captured with the event's lock, and only while handle names the event: what a
 * thread that is late wrote down of its use would stay for the next event in this place.
 */
int ipc_event_wait(struct event *e, struct stream *s, const char *function, void *handle,
                   uint64_t timeout_ns)
{
    struct task task = {.op = TASK_IPC_WAIT, .ipc.timeout_ns = timeout_ns};
    uint64_t number = newest_number(e);

    if (checked_runs())
        checked_event_use(CHECK_WAIT, stream_checked_name(s), (uintptr_t)handle, number);
    if (stream_mode(s) == DOORBELL_FREE &&
        (number == 0 || ipc_state_of(e->page, number) == IPC_DONE))
        return 0;
    RETURN_IF_ERROR(event_lock(e, function, handle));
    task.object = e->remote;
    task.generation = e->remote_generation;
    task.ipc.number = newest_number(e);
    KILL_POINT(WAIT_CAPTURED);
    stream_submit_reserved(s, &task);
    KILL_POINT(WAIT_QUEUED);
    event_used(e, s, USE_FENCE);
    event_unlock(e);
    return 0;
}
