/*
 * Event descriptors, the library's side: eventfds of the program that are written when a record is
 * complete. npud sets a bit in the session page and changes a word (daemon/control/event_fd.h); a
 * thread that sleeps on this word writes the eventfd. So npud needs no descriptor of a program.
 *
 * The library writes copies of its own, which the program cannot close. A copy is taken out of the
 * table before it is written, under the lock, and is closed by the thread that has taken it out: no
 * thread writes to a number that stands for another file by then.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/error.h"
#include "client/core/lock_order.h"
#include "client/event/event.h"
#include "client/runtime/session.h"
#include "proto/util/futex.h"

#define FREE  (-1)
#define TAKEN (-2) /* asked for and not answered yet, or being written */
#define STACK ((size_t)256 << 10)

static void init(struct session *s, uint32_t seed)
{
    (void)seed;
    lock_init(&s->event_fds.lock, LOCK_EVENT_FDS);
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

static void free_writer(struct session *s)
{
    close_copies(s);
    if (s->event_fds.aio != 0)
        syscall(SYS_io_destroy, s->event_fds.aio);
    s->event_fds.aio = 0;
}

/* The context stays the parent's. */
static void forget_inherited(struct session *s)
{
    close_copies(s);
    s->event_fds.aio = 0;
}

/* --- numbers; under the lock --- */

/* What npud has been told of this number is forgotten. True: it has told of it. */
static bool take_bit(struct session *s, uint32_t number)
{
    _Atomic uint64_t *word = &s->page->written[number / 64];
    uint64_t bit = UINT64_C(1) << number % 64;

    return atomic_fetch_and_explicit(word, ~bit, memory_order_acquire) & bit;
}

static bool make_table(struct event_fds *fds)
{
    if (fds->copy)
        return true;
    fds->copy = malloc(EVENT_FDS_MAX * sizeof(*fds->copy));
    for (uint32_t i = 0; fds->copy && i < EVENT_FDS_MAX; i++)
        fds->copy[i] = FREE;
    return fds->copy != NULL;
}

static int take_number(struct session *s)
{
    struct event_fds *fds = &s->event_fds;
    int number = 0;

    if (!make_table(fds))
        return -1;
    while (number < EVENT_FDS_MAX && fds->copy[number] != FREE)
        number++;
    if (number == EVENT_FDS_MAX)
        return -1;
    take_bit(s, (uint32_t)number);
    fds->copy[number] = TAKEN;
    return number;
}

/* --- writing --- */

/* The copy, which is the caller's to write. -1: it is not to be written, or not by the caller. */
static int take_out(struct session *s, uint32_t number, bool untold)
{
    struct event_fds *fds = &s->event_fds;
    int copy = -1;

    pthread_mutex_lock(&fds->lock);
    if (fds->copy && fds->copy[number] >= 0 && (take_bit(s, number) || untold)) {
        copy = fds->copy[number];
        fds->copy[number] = TAKEN;
    }
    pthread_mutex_unlock(&fds->lock);
    return copy;
}

/*
 * Add one without waiting for a reader. Another process can fill the counter between poll() and a
 * write, the descriptor may be a blocking one, and its flags are the program's. No system call that
 * writes an eventfd takes "do not wait" for one call. But the kernel itself never waits when it
 * tells, by an eventfd, that an asynchronous operation is over: so this begins one that is over at
 * once, because an eventfd is always readable, or writable, or both. A counter that is full
 * overflows (POLLERR), and is readable. Caller holds lock. False: the kernel does not do that here.
 */
static bool signal_eventfd(const struct event_fds *fds, int fd)
{
    struct iocb operation = {.aio_lio_opcode = IOCB_CMD_POLL,
                             .aio_fildes = (uint32_t)fd,
                             .aio_buf = POLLIN | POLLOUT,
                             .aio_flags = IOCB_FLAG_RESFD,
                             .aio_resfd = (uint32_t)fd};
    struct iocb *operations[] = {&operation};
    const struct timespec now = {0};
    struct io_event result;

    if (fds->aio == 0 || syscall(SYS_io_submit, fds->aio, 1L, operations) != 1)
        return false;
    /* Its result has a place in the context, which is free again now. */
    syscall(SYS_io_getevents, fds->aio, 0L, 1L, &result, &now);
    return true;
}

static void add_one(struct event_fds *fds, int fd)
{
    bool done;

    pthread_mutex_lock(&fds->lock);
    done = signal_eventfd(fds, fd);
    pthread_mutex_unlock(&fds->lock);
    if (!done)
        eventfd_write(fd, 1); /* this may wait for a reader: no lock is held */
}

/* A program that has filled the counter itself finds its descriptor readable: nothing is added. */
static void write_number(struct session *s, uint32_t number, bool untold)
{
    struct event_fds *fds = &s->event_fds;
    struct pollfd p = {.fd = take_out(s, number, untold), .events = POLLOUT};

    if (p.fd < 0)
        return;
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT))
        add_one(fds, p.fd);
    close(p.fd);
    pthread_mutex_lock(&fds->lock);
    fds->copy[number] = FREE;
    pthread_mutex_unlock(&fds->lock);
}

/* untold: also those of which npud has not told. */
static void write_all(struct session *s, bool untold)
{
    for (uint32_t i = 0; i < EVENT_FDS_MAX / 64; i++) {
        uint64_t bits =
            untold ? UINT64_MAX : atomic_load_explicit(&s->page->written[i], memory_order_relaxed);

        for (; bits != 0; bits &= bits - 1)
            write_number(s, i * 64 + (uint32_t)__builtin_ctzll(bits), untold);
    }
}

/* --- the thread --- */

static void *write_main(void *arg)
{
    struct session *s = arg;
    struct side_thread *thread = &s->event_fds.thread;
    _Atomic uint32_t *told = &s->page->told;

    atomic_fetch_add(&s->page->library_threads, 1);
    for (;;) {
        uint32_t seen = atomic_load_explicit(told, memory_order_acquire);

        if (side_thread_asked(thread) || session_lost(s))
            break;
        write_all(s, false);
        futex_wait_until(told, seen, NULL);
    }
    write_all(s, session_npud_gone(s));
    atomic_fetch_sub(&s->page->library_threads, 1);
    side_thread_leave(thread);
    return NULL;
}

/* Under the lock: a thread that finds it started must not find out later that it could not be. */
static int start_thread(struct session *s)
{
    int r;

    pthread_mutex_lock(&s->event_fds.lock);
    if (s->event_fds.aio == 0)
        syscall(SYS_io_setup, 1L, &s->event_fds.aio);
    r = side_thread_start(&s->event_fds.thread, write_main, s, "npud-eventfd", STACK);
    pthread_mutex_unlock(&s->event_fds.lock);
    return r;
}

static void wake_thread(struct session *s)
{
    if (!s->page)
        return;
    atomic_fetch_add(&s->page->told, 1);
    futex_wake_one(&s->page->told);
}

static void end_thread(struct session *s)
{
    struct side_thread *thread = &s->event_fds.thread;

    if (!side_thread_ask(thread))
        return;
    wake_thread(s);
    pthread_join(thread->id, NULL);
}

const struct part event_fd_part = {
    .session_init = init,
    .session_lost = wake_thread,
    .session_leave = end_thread,
    .session_free = free_writer,
    .session_inherited = forget_inherited,
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

/*
 * Ask npud to tell. On success the copy is written and closed in time; else it is the caller's. If
 * npud has told already, the thread has found nothing to write.
 */
static int await_telling(struct session *s, const char *function, Npud__Request *request, int copy)
{
    struct event_fds *fds = &s->event_fds;
    int number, error;

    pthread_mutex_lock(&fds->lock);
    number = take_number(s);
    pthread_mutex_unlock(&fds->lock);
    if (number < 0)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: %u descriptors of this process wait for records already", function,
                         EVENT_FDS_MAX);
    request->notify_fd->number = (uint32_t)number;
    error = session_command(s, function, request);
    pthread_mutex_lock(&fds->lock);
    fds->copy[number] = error == 0 ? copy : FREE;
    pthread_mutex_unlock(&fds->lock);
    if (error == 0)
        write_number(s, (uint32_t)number, session_npud_gone(s));
    return error;
}

/* The name that the kernel gives to nothing else: names of files begin with a slash. */
static bool is_eventfd(int fd)
{
    static const char name[] = "anon_inode:[eventfd]";
    char path[32], text[sizeof(name)];
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, text, sizeof(text));
    if (n >= 0)
        return n == sizeof(name) - 1 && memcmp(text, name, sizeof(name) - 1) == 0;
    /* Without /proc: no file, pipe, socket or terminal. */
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

/* A copy of the program's eventfd. -1 with *error set. */
static int copy_eventfd(const char *function, int fd, int *error)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (copy < 0 && errno == EBADF) {
        *error =
            error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: descriptor %d is not open", function, fd);
    } else if (copy < 0) {
        *error = error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           "%s: this process has no file descriptor left", function);
    } else if (!is_eventfd(copy)) {
        *error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                           "%s: descriptor %d is no eventfd; make one by eventfd(2)", function, fd);
        close(copy);
        copy = -1;
    }
    return copy;
}

aclError aclnpudEventNotifyFd(aclrtEvent event, int fd)
{
    CALL_SCOPE;
    REQUIRE(event);
    REQUEST(notify_fd, NOTIFY_FD);
    int error = 0, copy;
    struct event *e = FIND_OR_RETURN(event_find, __func__, event);

    RETURN_IF_ERROR(event_check_use(e, __func__, USE_SYNCHRONIZE));
    if (session_lost(e->session))
        return session_error_lost(__func__);
    if (start_thread(e->session) != 0)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot start a thread", __func__);
    copy = copy_eventfd(__func__, fd, &error);
    if (copy < 0)
        return error;
    error = capture_record(e, __func__, event, &in);
    if (error == 0)
        error = await_telling(e->session, __func__, &request, copy);
    if (error != 0)
        close(copy);
    return error;
}
