#include "daemon/backend/executors.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/memfd.h"
#include "daemon/base/pidfd.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/kept/fds.h"
#include "proto/util/clock.h"
#include "proto/util/fd_message.h"

#define END_MS 10

/* Requests and handles of different npuds are apart, for an executor that has known several. */
#define FIRST_GENERATION 1u
#define LIFE_SHIFT       20

static uint64_t first_number(const struct executor *x)
{
    return (uint64_t)x->life << 40;
}

static const char process_gone[] = "its process has ended";

/* How its process has ended, if it has. It stays to be waited for: its group has its number. */
static void note_end(struct executor *x, const char *said, bool gone)
{
    struct pollfd end = {.fd = x->pidfd, .events = POLLIN};
    const char *accused = atomic_load(&x->accused), *why = accused ? accused : said;
    siginfo_t info = {0};

    /* Its socket closes a moment before it can be asked how it has ended. */
    if (x->pidfd >= 0 && gone)
        poll(&end, 1, END_MS);
    if (x->pidfd >= 0 && !accused &&
        waitid(P_PIDFD, (id_t)x->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
        if (info.si_code == CLD_EXITED)
            snprintf(x->why, sizeof(x->why), "%.127s: it has exited with status %d", why,
                     info.si_status);
        else
            snprintf(x->why, sizeof(x->why), "%.127s: it was ended by signal %d", why,
                     info.si_status);
        return;
    }
    snprintf(x->why, sizeof(x->why), "%s", why);
}

static void free_files(struct executor *x)
{
    if (x->ring)
        munmap(x->ring, sizeof(*x->ring));
    if (x->page)
        munmap(x->page, sizeof(*x->page));
    kept_close(x->ring_fd);
    kept_close(x->page_fd);
}

/* Without devices, their engines are gone. */
static void end_wakes(struct executor *x)
{
    const struct devices *ds = x->all->server->devices;

    for (uint32_t d = 0; d < DEVICES_MAX; d++) {
        if (ds && ds->n > d)
            engine_end_wake(ds->device[d].engine, x->wake[d]);
        else if (x->wake[d] >= 0)
            close(x->wake[d]);
        x->wake[d] = -1;
    }
}

/* No engine has a lane of it on its list: orphans are left there. */
static void forget_lanes(struct executor *x)
{
    struct server *server = x->all->server;

    if (!server->devices || x->all->ends)
        return;
    engines_lock(server);
    for (uint32_t d = 0; d < x->all->devices; d++) {
        struct lane *l, *next;

        DL_FOREACH_SAFE (x->all->flying[d], l, next)
            if (l->executor == x)
                DL_DELETE(x->all->flying[d], l);
    }
    engines_unlock(server);
}

static void free_unsent(struct executor *x, struct unsent *unsent);
static bool run_free(struct job *job);

static void free_range(void *range)
{
    free(range);
}

static void free_executor(struct executor *x)
{
    DL_DELETE(x->all->list, x);
    job_cancel(&x->flush);
    job_cancel(&x->free);
    if (x->on_socket)
        event_free(x->on_socket);
    if (x->on_end)
        event_free(x->on_end);
    if (x->on_writable)
        event_free(x->on_writable);
    executor_log_end(x);
    executor_kill(x);
    executor_uncharge(x);
    while (x->unsent)
        free_unsent(x, x->unsent);
    end_wakes(x);
    kept_drop(&x->kept);
    kept_close(x->pidfd);
    if (x->ring)
        forget_lanes(x);
    free_files(x);
    slots_deinit(&x->handles);
    tdestroy(x->ranges, free_range);
    pthread_mutex_destroy(&x->sending);
    free(x);
}

/* --- asking --- */

/*
 * A socket holds some hundred requests. More wait here, in their order: of an executor that is
 * stopped, until there are too many.
 */
#define UNSENT_MAX 16384u

struct unsent {
    struct executor_request request;
    int fds[2];
    unsigned n;
    struct unsent *prev, *next;
};

static void free_unsent(struct executor *x, struct unsent *u)
{
    DL_DELETE(x->unsent, u);
    x->n_unsent--;
    while (u->n > 0)
        close(u->fds[--u->n]);
    free(u);
}

/* Under x->sending. */
static int leave_unsent(struct executor *x, const struct executor_request *request, const int *fds,
                        unsigned n)
{
    struct unsent *u = x->n_unsent < UNSENT_MAX ? calloc(1, sizeof(*u)) : NULL;

    if (!u)
        return -ENOBUFS;
    u->request = *request;
    DL_APPEND(x->unsent, u);
    x->n_unsent++;
    for (; u->n < n; u->n++) {
        u->fds[u->n] = fcntl(fds[u->n], F_DUPFD_CLOEXEC, 0);
        if (u->fds[u->n] < 0) {
            free_unsent(x, u);
            return -ENOBUFS;
        }
    }
    if (!x->flushed)
        job_send(&x->flush);
    x->flushed = true;
    return 0;
}

static int send_now(struct executor *x, const struct executor_request *request, const int *fds,
                    unsigned n)
{
    return fd_message_send(x->socket, request, sizeof(*request), fds, n,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * A socket that is broken tells so to who listens there: no error here. Any other one means that
 * the message is lost, such as for want of memory: -ENOBUFS.
 */
static int judge_send(int r)
{
    return r == 0 || r == -EAGAIN ? r : r == -EPIPE || r == -ECONNRESET ? 0 : -ENOBUFS;
}

/* Under x->sending. */
int executor_send(struct executor *x, struct executor_request *request, const int *fds, unsigned n)
{
    int r;

    if (x->socket < 0)
        return -EOWNERDEAD;
    request->number = ++x->sent;
    r = x->unsent ? -EAGAIN : judge_send(send_now(x, request, fds, n));
    return r == -EAGAIN ? leave_unsent(x, request, fds, n) : r;
}

static void send_unsent(struct executor *x)
{
    pthread_mutex_lock(&x->sending);
    x->flushed = false;
    while (x->unsent && x->socket >= 0) {
        int r = judge_send(send_now(x, &x->unsent->request, x->unsent->fds, x->unsent->n));

        if (r == -EAGAIN) {
            x->flushed = event_add(x->on_writable, NULL) == 0;
            break;
        }
        if (r < 0)
            executor_accuse(x, "npud has no memory for what it is to be told");
        free_unsent(x, x->unsent);
    }
    pthread_mutex_unlock(&x->sending);
}

static bool run_flush(struct job *job)
{
    send_unsent((struct executor *)((char *)job - offsetof(struct executor, flush)));
    return false;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct executor *x = arg;
    struct schedule *schedule = &x->all->server->schedule;

    (void)fd;
    (void)what;
    schedule_begin(schedule);
    send_unsent(x);
    schedule_end(schedule, "requests to an executor", x->uid);
}

int executor_ask(struct executor *x, struct asked *asked, asked_fn *over,
                 struct executor_request *request, const int *fds, unsigned n)
{
    int r;

    if (x->state == EXECUTOR_ENDED)
        return -EOWNERDEAD;
    pthread_mutex_lock(&x->sending);
    r = executor_send(x, request, fds, n);
    pthread_mutex_unlock(&x->sending);
    if (r < 0)
        return r;
    if (!atomic_load(&x->all->watched))
        executors_watch(x->all);
    asked->executor = x;
    asked->over = over;
    asked->op = request->op;
    asked->looks = 0;
    asked->number = request->number;
    DL_APPEND(x->asked, asked);
    return 0;
}

/* Without it, work that counts on it would wait for ever: so the process is ended, and tells. */
void executor_tell(struct executor *x, struct executor_request *request, int fd)
{
    pthread_mutex_lock(&x->sending);
    if (executor_send(x, request, &fd, fd >= 0) == -ENOBUFS)
        executor_accuse(x, "it does not take what it is told");
    pthread_mutex_unlock(&x->sending);
}

/* What is asked for next may come from these: the callee may end the executor. */
static void answer_asked(struct executor *x, struct asked *asked,
                         const struct executor_answer *answer, int fd)
{
    DL_DELETE(x->asked, asked);
    asked->over(asked, answer, fd);
}

void executor_wake_engines(struct executor *x)
{
    for (uint32_t d = 0; d < x->all->devices; d++)
        if (x->begun & 1u << d)
            engine_wake(x->all->server->devices->device[d].engine);
}

void executor_end(struct executor *x, const char *fmt, ...)
{
    char why[128];
    int pid = x->pid;
    va_list ap;

    if (x->state == EXECUTOR_ENDED)
        return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    x->state = EXECUTOR_ENDED;
    executor_use(x); /* those that are told may give it back */
    /*
     * In this order: an engine that sees the code ends tasks with it, and other streams go on
     * behind these. Who waits for one of those is told of the loss, too.
     */
    x->all->lost(x, ACL_ERROR_RT_LOST_HEARTBEAT);
    atomic_store_explicit(&x->code, ACL_ERROR_RT_LOST_HEARTBEAT, memory_order_release);
    executor_log_end(x);
    note_end(x, why, fmt == process_gone);
    log_event(MESSAGE_EXECUTOR_ENDED, LOG_ERR, NULL,
              "executor %d of user %u: %s: its device memory is lost", pid, (unsigned)x->uid,
              x->why);
    x->all->failed++;
    if (x->on_socket)
        event_del(x->on_socket);
    if (x->on_end)
        event_del(x->on_end);
    if (x->on_writable)
        event_del(x->on_writable);
    pthread_mutex_lock(&x->sending);
    executor_kill(x);
    pthread_mutex_unlock(&x->sending);
    executor_wake_engines(x);
    end_wakes(x);
    executor_uncharge(x);
    while (x->asked)
        answer_asked(x, x->asked, NULL, -1);
    x->resumes = false;
    executor_drop_note(x);
    x->all->told(x);
    executor_leave(x);
}

bool executor_is_text(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

/* It goes to logs and terminals. */
void executor_clean_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

/* The request that it answers; NULL: none. */
static struct asked *find_asked(struct executor *x, const struct executor_answer *answer)
{
    struct asked *a;

    DL_FOREACH (x->asked, a)
        if (a->number == answer->number)
            return a->op == answer->op ? a : NULL;
    return NULL;
}

/* Behind an answer, in bytes. */
static size_t size_behind(const struct executor_answer *answer)
{
    return answer->op == EXECUTOR_HEALTH && answer->code == 0
               ? sizeof(struct executor_health)
               : answer->more * sizeof(((struct told *)NULL)->handles[0]);
}

static bool is_answer(const struct told *told, ssize_t n, size_t n_fds)
{
    size_t head = sizeof(told->answer);

    return n >= (ssize_t)head && n_fds <= 1 &&
           executor_is_text(told->answer.text, sizeof(told->answer.text)) &&
           (size_t)n == head + size_behind(&told->answer);
}

/* To an npud before: what it was for is not known any more, and memory is found by the list. */
static bool is_late(const struct executor *x, const struct executor_answer *answer)
{
    return answer->number <= first_number(x);
}

/* Answers have at most one descriptor. */
/* With it, what was asked is told of the end. */
static void lose_device(struct executor *x, const struct told *told, int fd)
{
    if (fd >= 0)
        close(fd);
    executor_end(x, "its library has lost the device: %s", told->answer.text);
}

static void take_answer(struct executor *x, struct told *told, ssize_t n, int *fds, size_t n_fds)
{
    bool well = is_answer(told, n, n_fds);
    struct asked *asked = well ? find_asked(x, &told->answer) : NULL;

    if (asked) {
        executor_clean_text(told->answer.text);
        if (told->answer.code == ACL_ERROR_RT_LOST_HEARTBEAT) {
            lose_device(x, told, n_fds == 1 ? fds[0] : -1);
            return;
        }
        x->heard = told;
        answer_asked(x, asked, &told->answer, n_fds == 1 ? fds[0] : -1);
        return;
    }
    while (n_fds > 0)
        close(fds[--n_fds]);
    if (!well || !is_late(x, &told->answer))
        executor_end(x, "it does not keep to the protocol");
}

/* One answer. False: there is none. */
static bool receive(struct executor *x)
{
    int fds[FD_MESSAGE_FDS];
    static struct told told;
    size_t n_fds = 0;
    ssize_t n = fd_message_receive(x->socket, &told, sizeof(told), fds, &n_fds, MSG_DONTWAIT);

    if (n == -EAGAIN)
        return false;
    if (n <= 0 && n != -EBADMSG)
        executor_end(x, process_gone);
    else
        take_answer(x, &told, n, fds, n_fds);
    return true;
}

#define LAST_WORDS 64u

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct executor *x = arg;
    struct schedule *schedule = &x->all->server->schedule;

    (void)fd;
    (void)what;
    executor_use(x); /* the last other user may go with an answer */
    schedule_begin(schedule);
    receive(x);
    schedule_end(schedule, "answer of an executor", x->uid);
    executor_leave(x);
}

/*
 * Its socket does not tell of its end if another process has that, too, such as a child. What it
 * has said before is heard first: it may be the reason.
 */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct executor *x = arg;
    struct schedule *schedule = &x->all->server->schedule;

    (void)fd;
    (void)what;
    executor_use(x);
    schedule_begin(schedule);
    for (unsigned i = 0; i < LAST_WORDS && x->state != EXECUTOR_ENDED && receive(x); i++)
        continue;
    executor_end(x, process_gone);
    schedule_end(schedule, "end of an executor", x->uid);
    executor_leave(x);
}

/* --- life --- */

static void hello_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct executor *x = asked->executor;

    free(asked);
    if (fd >= 0)
        close(fd);
    if (!answer)
        return;
    if (answer->code != 0)
        executor_end(x, "%s", answer->text);
    else
        x->state = EXECUTOR_READY;
}

static int say_hello(struct executor *x)
{
    struct executor_request request = {.op = EXECUTOR_HELLO, .value = EXECUTOR_VERSION};
    struct asked *hello = calloc(1, sizeof(*hello));
    int fds[2] = {memfd_open_read_only(x->ring_fd), x->page_fd}, r;

    if (!hello || fds[0] < 0) {
        free(hello);
        return -ENOMEM;
    }
    r = executor_ask(x, hello, hello_over, &request, fds, 2);
    close(fds[0]);
    if (r < 0)
        free(hello);
    return r;
}

static int listen_to(struct executor *x)
{
    struct event_base *base = x->all->server->base;

    x->on_socket = event_new(base, x->socket, EV_READ | EV_PERSIST, on_socket, x);
    x->on_writable = event_new(base, x->socket, EV_WRITE, on_writable, x);
    x->on_end = event_new(base, x->pidfd, EV_READ, on_end, x);
    return x->on_socket && x->on_writable && x->on_end && event_add(x->on_socket, NULL) == 0 &&
                   event_add(x->on_end, NULL) == 0 && executor_log_listen(x)
               ? 0
               : -ENOMEM;
}

struct executor *executor_make(struct executors *all, uid_t uid, uint64_t session)
{
    struct executor *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->all = all;
    x->uid = uid;
    x->session = session;
    x->users = 1;
    x->pidfd = x->socket = x->log.fd = x->ring_fd = x->page_fd = -1;
    memset(x->wake, -1, sizeof(x->wake));
    x->flush = (struct job){run_flush, "requests to an executor", &all->server->schedule.own};
    x->free = (struct job){run_free, "memory of an executor", &all->server->schedule.own};
    pthread_mutex_init(&x->sending, NULL);
    slots_init(&x->handles, sizeof(struct name), EXECUTOR_HANDLES, FIRST_GENERATION);
    DL_APPEND(all->list, x);
    return x;
}

static int begin(struct executor *x, const struct executor *before)
{
    struct executors *all = x->all;
    int r = executor_start(x);

    if (r == 0)
        r = listen_to(x);
    x->number = ++all->last;
    if (before && x->number % EXECUTOR_NUMBERS == before->number % EXECUTOR_NUMBERS)
        x->number = ++all->last;
    x->since_ns = clock_ns();
    if (r == 0 && !executor_note(x))
        r = -ENOMEM;
    return r == 0 ? say_hello(x) : r;
}

int executor_new(struct executors *all, uid_t uid, uint64_t session, const struct executor *before,
                 struct executor **made)
{
    struct executor *x = executor_make(all, uid, session);
    int r = x ? executor_charge(x, false) : -ENOMEM;

    if (r == 0)
        r = executor_uid_take(x, false);
    if (r == -EDQUOT || r == -ENOSPC || r == -EMLINK || r == -EUSERS) {
        executor_leave(x);
        return r;
    }
    if (r == 0)
        r = begin(x, before);
    if (r == 0) {
        all->started++;
        log_event(MESSAGE_EXECUTOR_STARTED, LOG_DEBUG, NULL, "executor %d of user %u starts",
                  (int)x->pid, (unsigned)uid);
        *made = x;
        return 0;
    }
    log_error("%s cannot be started for user %u: %s", all->program, (unsigned)uid, strerror(-r));
    executor_leave(x);
    return -ENOEXEC;
}

struct executor *executor_use(struct executor *x)
{
    x->users++;
    return x;
}

void executor_leave(struct executor *x)
{
    if (!x || --x->users > 0)
        return;
    x->state = EXECUTOR_ENDED;
    x->users = 1; /* those that are told may use it, and give it back */
    while (x->asked)
        answer_asked(x, x->asked, NULL, -1);
    assert(x->users == 1);
    free_executor(x);
}

/* --- names --- */

static uint64_t handle_of(const struct name *name)
{
    return (uint64_t)slot_generation(name) << 32 | name->slot.number;
}

uint64_t executor_name(struct executor *x)
{
    struct name *name = slots_take(&x->handles);

    if (!name)
        return 0;
    name->memory = NULL;
    name->restored = name->listed = false;
    slots_publish(name);
    return handle_of(name);
}

void executor_unname(struct executor *x, uint64_t handle)
{
    struct name *name = executor_named(x, handle);

    if (name)
        slots_put(&x->handles, name);
}

struct freed {
    uint64_t handle;
    struct freed *next;
};

/* The last user may go with that. */
static void tell_freed(struct executor *x)
{
    struct freed *f;

    executor_use(x);
    while ((f = x->freed)) {
        struct executor_request request = {.op = EXECUTOR_MEMORY_FREE, .handle = f->handle};

        LL_DELETE(x->freed, f);
        executor_tell(x, &request, -1);
        executor_unname(x, f->handle);
        free(f);
        executor_leave(x);
    }
    executor_leave(x);
}

/* The step in which it was freed is certain when this runs. */
static bool run_free(struct job *job)
{
    tell_freed((struct executor *)((char *)job - offsetof(struct executor, free)));
    return false;
}

void executor_free_named(struct executor *x, uint64_t handle)
{
    struct freed *f = malloc(sizeof(*f));

    executor_named(x, handle)->memory = NULL;
    if (!f) {
        /* The executor keeps it, and so does its user's account with the library. */
        log_error("no memory to free what executor %d has", (int)x->pid);
        return;
    }
    f->handle = handle;
    LL_PREPEND(x->freed, f);
    executor_use(x);
    if (!x->free.listed)
        job_list(&x->free);
}

struct name *executor_named(struct executor *x, uint64_t handle)
{
    return slots_get_generation(&x->handles, (uint32_t)handle, (uint32_t)(handle >> 32));
}

struct name *executor_name_again(struct executor *x, uint64_t handle)
{
    struct name *name = executor_named(x, handle);

    if (name || (uint32_t)handle >= EXECUTOR_HANDLES || handle >> 32 == 0)
        return name;
    name = slots_restore(&x->handles, (uint32_t)handle, (uint32_t)(handle >> 32));
    if (name)
        name->restored = true;
    return name;
}

/* --- an executor of the npud before --- */

bool executor_go_on(struct executor *x)
{
    x->sent = first_number(x);
    x->handles.seed = x->life << LIFE_SHIFT | FIRST_GENERATION;
    x->state = EXECUTOR_READY;
    x->restored = x->resumes = true;
    return listen_to(x) == 0 && executor_ask_for_list(x, 0) == 0;
}

void executors_finish_restoring(struct executors *all)
{
    struct executor *x, *next;

    DL_FOREACH_SAFE (all->list, x, next) {
        slots_restored(&x->handles);
        if (x->ring)
            lanes_finish_restoring(x);
        if (x->restored || x->state == EXECUTOR_ENDED) {
            x->restored = false;
            executor_leave(x); /* its use by the list of those that were found */
        }
    }
}

void executors_end(struct executors *all)
{
    struct executor *x, *next;

    all->ends = true;
    DL_FOREACH (all->list, x)
        executor_use(x); /* what is told gives back memory of others, too */
    DL_FOREACH (all->list, x) {
        x->state = EXECUTOR_ENDED;
        while (x->asked)
            answer_asked(x, x->asked, NULL, -1);
    }
    DL_FOREACH (all->list, x)
        tell_freed(x);
    DL_FOREACH_SAFE (all->list, x, next)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): each is in the list once */
        executor_leave(x);
    assert(!all->list);
    executors_finish_ending(all);
    executor_uids_end(all);
}
