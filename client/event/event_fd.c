/*
 * Event descriptors, the library's side: eventfds of the program that npud writes when a record is
 * complete. A copy of each is kept until npud has written it, so that the library can write it when
 * npud ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/error.h"
#include "client/event/event.h"
#include "client/runtime/session.h"

#define FREE  (-1)
#define TAKEN (-2) /* asked for, not answered yet */

static void init(struct session *s, uint32_t seed)
{
    (void)seed;
    pthread_mutex_init(&s->event_fds.lock, NULL);
}

static void close_copies(struct session *s)
{
    struct event_fds *fds = &s->event_fds;

    for (uint32_t i = 0; fds->copy && i < EVENT_FDS_MAX; i++)
        if (fds->copy[i] >= 0)
            close(fds->copy[i]);
    free(fds->copy);
    fds->copy = NULL;
}

/* --- numbers; under the lock --- */

static _Atomic uint64_t *word_of(struct session *s, uint32_t number)
{
    return &s->page->written[number / 64];
}

static uint64_t bit_of(uint32_t number)
{
    return UINT64_C(1) << number % 64;
}

/* True: npud has written it. Then the number is free. */
static bool reap_written(struct session *s, uint32_t number)
{
    int *copy = &s->event_fds.copy[number];

    if (*copy < 0 ||
        !(atomic_load_explicit(word_of(s, number), memory_order_acquire) & bit_of(number)))
        return false;
    close(*copy);
    *copy = FREE;
    return true;
}

static int take_number(struct session *s)
{
    struct event_fds *fds = &s->event_fds;
    int found = -1;

    if (!fds->copy) {
        fds->copy = malloc(EVENT_FDS_MAX * sizeof(*fds->copy));
        if (!fds->copy)
            return -1;
        for (uint32_t i = 0; i < EVENT_FDS_MAX; i++)
            fds->copy[i] = FREE;
    }
    for (uint32_t i = 0; i < EVENT_FDS_MAX; i++) {
        reap_written(s, i);
        if (found < 0 && fds->copy[i] == FREE)
            found = (int)i;
    }
    if (found < 0)
        return -1;
    atomic_fetch_and_explicit(word_of(s, (uint32_t)found), ~bit_of((uint32_t)found),
                              memory_order_relaxed);
    fds->copy[found] = TAKEN;
    return found;
}

/*
 * In npud's place. A program that has filled the counter itself is not waited for: its descriptor
 * is readable.
 */
static void write_all(struct session *s)
{
    struct event_fds *fds = &s->event_fds;

    for (uint32_t i = 0; fds->copy && i < EVENT_FDS_MAX; i++) {
        struct pollfd p = {.fd = fds->copy[i], .events = POLLOUT};

        if (fds->copy[i] < 0 || reap_written(s, i))
            continue;
        if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT))
            eventfd_write(p.fd, 1);
        close(p.fd);
        fds->copy[i] = FREE;
    }
}

/* The threads of the program that wait for these descriptors find out that way. */
static void write_all_lost(struct session *s)
{
    pthread_mutex_lock(&s->event_fds.lock);
    write_all(s);
    pthread_mutex_unlock(&s->event_fds.lock);
}

const struct part event_fd_part = {
    .session_init = init,
    .session_lost = write_all_lost,
    .session_free = close_copies,
    .session_inherited = close_copies,
};

/* --- the call --- */

/* Which record is the latest now? */
static int capture_record(struct event *e, const char *function, aclrtEvent event,
                          Npud__NotifyFd *in)
{
    struct record r;

    if (e->kind == EVENT_IPC) {
        in->ipc = true;
        in->slot = e->remote;
        in->generation = e->remote_generation;
        in->target =
            ipc_latest_number(atomic_load_explicit(&e->page->latest, memory_order_acquire));
        return 0;
    }
    RETURN_IF_ERROR(event_lock(e, function, event));
    event_record_locked(e, &r);
    in->slot = e->record_stream;
    /* A position that every stream has passed: there is no record, or it is complete. */
    in->target = point_passed(&r.point) ? 0 : r.point.position;
    event_unlock(e);
    return 0;
}

static int announce_descriptors(struct session *s, const char *function)
{
    REQUEST(send_descriptors, SEND_DESCRIPTORS);
    int error;

    if (atomic_load(&s->event_fds.announced))
        return 0;
    error = session_command(s, function, &request);
    if (error == 0)
        atomic_store(&s->event_fds.announced, true);
    return error;
}

/*
 * Hand the copy over. On success it is ours to close once npud has written it; else the caller's.
 */
static int hand_over(struct session *s, const char *function, Npud__Request *request, int copy)
{
    int number, error = announce_descriptors(s, function);

    if (error != 0)
        return error;
    pthread_mutex_lock(&s->event_fds.lock);
    number = take_number(s);
    pthread_mutex_unlock(&s->event_fds.lock);
    if (number < 0)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: %u descriptors of this process wait for records already", function,
                         EVENT_FDS_MAX);
    request->notify_fd->number = (uint32_t)number;
    error = session_command_fd(s, function, request, copy);
    pthread_mutex_lock(&s->event_fds.lock);
    s->event_fds.copy[number] = error == 0 ? copy : FREE;
    /* Lost after the answer, and the others were written before this one was among them? */
    if (error == 0 && session_lost(s))
        write_all(s);
    pthread_mutex_unlock(&s->event_fds.lock);
    return error;
}

aclError aclnpudEventNotifyFd(aclrtEvent event, int fd)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUEST(notify_fd, NOTIFY_FD);
    int error, copy;
    struct event *e = FIND_OR_RETURN(event_find, __func__, event);

    RETURN_IF_ERROR(event_check_use(e, __func__, USE_SYNCHRONIZE));
    if (session_lost(e->session))
        return session_error_lost(__func__);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0 && errno == EBADF)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclnpudEventNotifyFd: descriptor %d is not open", fd);
    if (copy < 0)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "aclnpudEventNotifyFd: this process has no file descriptor left");
    error = capture_record(e, __func__, event, &in);
    if (error == 0)
        error = hand_over(e->session, __func__, &request, copy);
    if (error != 0)
        close(copy);
    return error;
}
