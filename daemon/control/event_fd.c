#include "daemon/control/event_fd.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"

struct event_fd {
    struct waiter waiter; /* on the list of a stream or an IPC event */
    struct job job;       /* to write it */
    struct session *session;
    struct ipc_open *open; /* keeps it from being freed; NULL: a stream's position */
    int fd;
    uint32_t number;
    struct charge charge;
    struct event_fd *prev, *next; /* session->event_fds */
};

/* --- writing --- */

static int add_one(struct server *server, int fd)
{
    /* Poll for what holds already: the counter of npud's own descriptor is never full. */
    struct iocb op = {
        .aio_lio_opcode = IOCB_CMD_POLL,
        .aio_fildes = (uint32_t)server->schedule.fd,
        .aio_buf = POLLOUT,
        .aio_flags = IOCB_FLAG_RESFD,
        .aio_resfd = (uint32_t)fd,
    };
    struct iocb *list[] = {&op};
    struct io_event done;

    if (syscall(SYS_io_submit, server->aio, 1, list) != 1)
        return -errno;
    /* It is over; this only makes room for the next. */
    syscall(SYS_io_getevents, server->aio, 0, 1, &done, NULL);
    return 0;
}

void event_fds_deinit(struct server *server)
{
    if (server->aio)
        syscall(SYS_io_destroy, server->aio);
    server->aio = 0;
}

/*
 * False: not to be had from this kernel, or not now. Tried once, so that what fails later is for
 * want of memory.
 */
static bool prepare_aio(struct server *server)
{
    eventfd_t count = 0;
    int fd;

    if (server->aio)
        return true;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return false;
    if (syscall(SYS_io_setup, 8, &server->aio) < 0)
        server->aio = 0;
    else if (add_one(server, fd) < 0 || eventfd_read(fd, &count) < 0 || count != 1)
        event_fds_deinit(server);
    close(fd);
    return server->aio != 0;
}

/* --- one descriptor --- */

static void fd_free(struct event_fd *e)
{
    DL_DELETE(e->session->event_fds, e);
    e->session->n_event_fds--;
    deferred_close_slow(e->fd); /* a client's epoll set may make this wait */
    user_uncharge(&e->charge);
    if (e->open)
        ipc_open_unpin(e->open);
    free(e);
}

static void fd_write(struct event_fd *e)
{
    struct session *session = e->session;
    int r = add_one(session->server, e->fd);

    if (r < 0) {
        /*
         * A thread that waits for it would never wake: so the client learns of the end of its
         * session.
         */
        log_line(LOG_ERR, &session->log,
                 "an event descriptor could not be written (%s): session ended", strerror(-r));
        shutdown(session->socket, SHUT_RDWR);
    } else {
        atomic_fetch_or_explicit(&session->page->written[e->number / 64],
                                 UINT64_C(1) << e->number % 64, memory_order_release);
    }
    fd_free(e);
}

static bool run_write(struct job *job)
{
    struct event_fd *e = (struct event_fd *)((char *)job - offsetof(struct event_fd, job));

    /* The end of a session fires what waits for its streams: nothing has come. */
    if (e->session->halted)
        fd_free(e);
    else
        fd_write(e);
    return false;
}

static void on_fire(struct waiter *w)
{
    struct event_fd *e = (struct event_fd *)w;

    job_send(&e->job);
}

static bool record_over(const struct event_fd *e, uint64_t number)
{
    int32_t error, pid;

    return ipc_record_outcome(e->open->event, number, &error, &pid);
}

/* True: what it waits for has come. Else it is on the list, or already fired from there. */
static bool await_record(struct event_fd *e, uint64_t number)
{
    struct waitlist *list = &e->open->event->completed;

    if (record_over(e, number))
        return true;
    waitlist_add(list, &e->waiter, number);
    return record_over(e, number) && waitlist_remove(list, &e->waiter);
}

/* A stopped stream passes nothing more: what it has not passed has failed. */
static bool position_over(struct stream *s, uint64_t position)
{
    return atomic_load(&s->done) >= position || atomic_load(&s->stopped) != 0;
}

static bool await_position(struct event_fd *e, uint32_t slot, uint64_t position)
{
    struct stream *s = slots_get(&e->session->streams, slot);

    if (!s)
        return true;
    /*
     * What the client says cannot be later than what it has submitted; beyond that it would never
     * come.
     */
    if (position > stream_end(s))
        position = stream_end(s);
    if (position_over(s, position))
        return true;
    waitlist_add(&s->passed, &e->waiter, position);
    return position_over(s, position) && waitlist_remove(&s->passed, &e->waiter);
}

/* The name that the kernel gives to nothing else: names of files begin with a slash. */
static bool is_eventfd(int fd)
{
    static const char name[] = "anon_inode:[eventfd]";
    char path[32], text[sizeof(name)];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, text, sizeof(text)) == sizeof(name) - 1 &&
           memcmp(text, name, sizeof(name) - 1) == 0;
}

static enum cause may_watch(struct session *session, int fd, uint32_t number)
{
    if (!is_eventfd(fd))
        return CAUSE_NOT_AN_EVENTFD;
    if (number >= EVENT_FDS_MAX)
        return CAUSE_EVENT_FD_NUMBER;
    if (session->n_event_fds == EVENT_FDS_MAX)
        return CAUSE_EVENT_FDS_OF_SESSION;
    return prepare_aio(session->server) ? CAUSE_NONE : CAUSE_EVENT_FD_KERNEL;
}

enum cause event_fd_watch(struct session *session, int fd, uint32_t number,
                          const struct captured *captured)
{
    enum cause cause = may_watch(session, fd, number);
    struct event_fd *e = cause == CAUSE_NONE ? calloc(1, sizeof(*e)) : NULL;

    if (cause == CAUSE_NONE && !e)
        cause = CAUSE_MEMORY;
    if (e && user_charge(&e->charge, session->user, RESOURCE_FDS, 1) < 0)
        cause = CAUSE_USER_DESCRIPTORS;
    if (cause != CAUSE_NONE) {
        deferred_close_slow(fd);
        free(e);
        return cause;
    }
    e->waiter.fire = on_fire;
    e->job = (struct job){run_write, "write event descriptor", &session->owner};
    e->session = session;
    e->open = captured->open;
    e->fd = fd;
    e->number = number;
    if (e->open)
        ipc_open_pin(e->open);
    DL_APPEND(session->event_fds, e);
    session->n_event_fds++;
    if (e->open ? await_record(e, captured->target)
                : await_position(e, captured->stream, captured->target))
        fd_write(e);
    return CAUSE_NONE;
}

bool event_fd_drop(struct session *session)
{
    struct event_fd *e = session->event_fds;

    if (!e)
        return true;
    /*
     * Streams have fired all that waited for them, and their lists are gone. An event is there
     * while it is pinned.
     */
    if (e->open)
        waitlist_remove(&e->open->event->completed, &e->waiter);
    job_cancel(&e->job);
    fd_free(e);
    return false;
}
