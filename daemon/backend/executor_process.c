/*
 * The process of an executor: how it begins, with which rights, and how it ends.
 *
 * If it has a uid of its own, what it has forked has that, too: when it is gone, a process with
 * that uid, which npud starts (npud-executor --sweep), kills all others, and only then is the uid
 * free for another executor. What is left of an npud that died before that, the next executor with
 * this uid kills, before it loads a library (daemon/executor/rights.c).
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/backend/executors.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/base/pidfd.h"
#include "daemon/base/worker.h"
#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "daemon/kept/executor_record.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/record.h"
#include "proto/util/clock.h"

/* PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9 */
#define SIGNAL_GROUP 4u

/* --- its begin --- */

static bool make_files(struct executor *x)
{
    void *ring, *page;

    if (memfd_read_only_new("npud-executor-ring", sizeof(*x->ring), &x->ring_fd, &ring) < 0)
        return false;
    x->ring = ring;
    x->ring->head.version = EXECUTOR_VERSION;
    if (memfd_map_new("npud-executor-page", sizeof(*x->page), &x->page_fd, &page) < 0)
        return false;
    x->page = page;
    return true;
}

/*
 * A session of its own: a terminal's signals are for npud, and the executor may outlive that. It
 * has nothing of npud's environment: a library of a device hears of many variables. socket and
 * output: -1: none.
 */
static int spawn(const struct executors *all, char *const *argv, int socket, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    int r;

    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    for (int fd = STDOUT_FILENO; r == 0 && output >= 0 && fd <= STDERR_FILENO; fd++)
        r = posix_spawn_file_actions_adddup2(&files, output, fd);
    if (r == 0 && socket >= 0)
        r = posix_spawn_file_actions_adddup2(&files, socket, EXECUTOR_SOCKET);
    if (r == 0)
        r = posix_spawn(pid, all->program, &files, &attr, argv, all->environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    if (r != 0)
        *pid = 0;
    return -r;
}

/* For daemon/executor/rights.h. */
static void write_rights(const struct executors *all, uint32_t uid, char *text, size_t size)
{
    snprintf(text, size, "--rights=%u:%u:%llu", uid, all->uids.group,
             (unsigned long long)all->server->config->limit[RESOURCE_HOST_MEMORY]);
}

static int start_program(struct executor *x, int socket, int output)
{
    struct executors *all = x->all;
    char rights[64];
    char *argv[] = {"npud-executor",
                    rights,
                    (char *)all->kind,
                    all->library,
                    all->nesting ? "--nesting" : NULL,
                    NULL};

    write_rights(all, x->own_uid, rights, sizeof(rights));
    return spawn(all, argv, socket, output, &x->pid);
}

/* The executor's ends of the socket and the pipe go with this: what it has are copies. */
int executor_start(struct executor *x)
{
    int pair[2], output, r;

    if (!make_files(x))
        return -ENOMEM;
    output = executor_log_open(x);
    if (output < 0)
        return output;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        r = -errno;
        close(output);
        return r;
    }
    /* The executor waits for what comes. */
    fcntl(pair[1], F_SETFL, 0);
    x->socket = pair[0];
    r = start_program(x, pair[1], output);
    close(pair[1]);
    close(output);
    if (r < 0)
        return r;
    x->pidfd = pidfd_open_process(x->pid);
    return x->pidfd < 0 ? x->pidfd : 0;
}

/* --- its end --- */

static void send_kill(struct executor *x, unsigned flags)
{
    if (x->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, x->pidfd, SIGKILL, NULL, flags);
}

/* With what it has forked. A kernel before 6.9 goes by the number, which nobody else has so far. */
static void kill_group(struct executor *x)
{
    if (syscall(SYS_pidfd_send_signal, x->pidfd, SIGKILL, NULL, SIGNAL_GROUP) == 0 ||
        errno != EINVAL)
        return;
    if (waitid(P_PIDFD, (id_t)x->pidfd, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0)
        kill(-x->pid, SIGKILL);
    send_kill(x, 0);
}

void executor_accuse(struct executor *x, const char *why)
{
    const char *none = NULL;

    if (atomic_compare_exchange_strong(&x->accused, &none, why))
        send_kill(x, 0);
}

/**
 * A process that was killed, until it is gone; then, if it had a uid of its own, the one that kills
 * what is left with that.
 */
struct ending {
    struct executors *all;
    uint32_t own_uid; /* 0: none */
    uint32_t devices; /* that it was told to use */
    bool late;        /* UNWELL_S have passed */
    bool sweeps;      /* pid is the second one */
    struct kept kept; /* if there is a uid */
    pid_t pid;
    int pidfd;
    struct event *on_gone;
    struct ending *prev, *next;
};

#define ENDING_MEMBERS(DO) DO##SAME(own_uid, own_uid);

RECORD(static, ending, EXECUTOR_UID, struct ending, kept, struct executor_uid_record,
       ENDING_MEMBERS)

static void forget_process(struct ending *e)
{
    if (e->on_gone)
        event_free(e->on_gone);
    kept_close(e->pidfd);
    e->on_gone = NULL;
    e->pidfd = -1;
}

static void free_ending(struct ending *e)
{
    DL_DELETE(e->all->ending, e);
    kept_drop(&e->kept);
    forget_process(e);
    free(e);
}

static void on_gone(evutil_socket_t fd, short what, void *arg);

/* A process that was killed ends in milliseconds, unless a driver keeps it in the kernel. */
#define UNWELL_S 5u

static bool await_process(struct ending *e)
{
    unsigned hang_s = e->all->server->config->vendor_hang_s;
    struct timeval limit = {hang_s != 0 && hang_s < UNWELL_S ? hang_s : UNWELL_S, 0};

    e->on_gone = event_new(e->all->server->base, e->pidfd, EV_READ, on_gone, e);
    return e->on_gone && event_add(e->on_gone, &limit) == 0;
}

/* Nobody waits for it but npud, which goes on to do so. */
static void give_up(struct ending *e)
{
    e->late = true;
    if (e->sweeps)
        log_error("what an executor has left with uid %u was killed and does not end",
                  (unsigned)e->own_uid);
    else
        log_error("process %d, which has done device work, was killed and does not end: the "
                  "devices that it has used may not work (docs/hardware.md)",
                  (int)e->pid);
    event_add(e->on_gone, NULL);
}

pid_t executors_unwell(const struct executors *all, uint32_t device)
{
    const struct ending *e;

    DL_FOREACH (all->ending, e)
        if (e->late && (e->devices & 1u << device))
            return e->pid;
    return 0;
}

static int start_sweep(const struct executors *all, uint32_t uid, pid_t *pid)
{
    char sweep[32], rights[64];
    char *argv[] = {"npud-executor", sweep, rights, NULL};

    snprintf(sweep, sizeof(sweep), "--sweep=%d", (int)getpid());
    write_rights(all, uid, rights, sizeof(rights));
    return spawn(all, argv, -1, -1, pid);
}

/* False: there is none to wait for. */
static bool sweep(struct ending *e)
{
    if (e->own_uid == 0 || start_sweep(e->all, e->own_uid, &e->pid) < 0)
        return false;
    e->sweeps = true;
    e->devices = 0;
    forget_process(e);
    e->pidfd = pidfd_open_process(e->pid);
    return e->pidfd >= 0 && await_process(e);
}

/*
 * Its process has ended, with this status. A sweep that was killed met that of an npud before,
 * which can kill it: then another one kills that.
 */
static void go_on(struct ending *e, const siginfo_t *info)
{
    bool well = info->si_code == CLD_EXITED && info->si_status == 0;
    bool killed = info->si_code == CLD_KILLED && info->si_status == SIGKILL;

    if ((!e->sweeps || killed) && sweep(e))
        return;
    if (e->sweeps && well)
        executor_uid_free(e->all, e->own_uid);
    else if (e->own_uid != 0)
        log_warning("uid %u is given to no other executor: npud cannot end what may have it",
                    e->own_uid);
    free_ending(e);
}

struct zombie {
    struct errand errand; /* first */
    pid_t pid;
};

static enum errand_end reap(struct errand *errand)
{
    waitpid(((struct zombie *)errand)->pid, NULL, WNOHANG);
    return ERRAND_DONE;
}

/*
 * The kernel forgets all names below /proc/PID in the thread that reaps the process: milliseconds
 * of its time, if somebody likes to look there.
 */
static struct worker reaper = WORKER_LAZY("reaper", reap);

/* It has ended. */
static void reap_process(pid_t pid)
{
    struct zombie *z = malloc(sizeof(*z));

    if (z)
        *z = (struct zombie){.pid = pid};
    if (z && worker_put(&reaper, &z->errand))
        return;
    free(z);
    waitpid(pid, NULL, WNOHANG);
}

static void on_gone(evutil_socket_t fd, short what, void *arg)
{
    struct ending *e = arg;
    struct schedule *schedule = &e->all->server->schedule;
    siginfo_t info = {0};

    (void)fd;
    schedule_begin(schedule);
    if (what == EV_TIMEOUT) {
        give_up(e);
        schedule_end(schedule, "end of an executor", geteuid());
        return;
    }
    /* Else it is the executor of an npud before. */
    if (waitid(P_PIDFD, (id_t)e->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        reap_process(e->pid);
    go_on(e, &info);
    schedule_end(schedule, "end of an executor", geteuid());
}

static struct ending *make_ending(struct executors *all, uint32_t own_uid, pid_t pid, int pidfd)
{
    struct ending *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    *e = (struct ending){.all = all, .own_uid = own_uid, .pid = pid, .pidfd = pidfd};
    DL_APPEND(all->ending, e);
    return e;
}

/* The npud before has ended while it was at this. The executor itself was killed. */
bool executor_uid_restore(struct server *server, struct kept_cell *cell)
{
    struct executors *all = server->devices->backend_state;
    struct executor_uid_record r;
    struct ending *e;

    kept_read(cell, &r, sizeof(r));
    if (!server->devices->backend->attach_back)
        return false; /* the backend is another one now */
    e = make_ending(all, r.own_uid, 0, -1);
    if (!e || !ending_back(server, e, cell, &r))
        return false;
    executor_uid_again(all, e->own_uid);
    go_on(e, &(siginfo_t){0});
    return true;
}

/*
 * Without memory for it a process is left that has ended, with its uid in use, until npud ends. The
 * executor without a number is npud's own: its uid is no other's in any case.
 */
static void reap_later(struct executor *x)
{
    struct ending *e = make_ending(x->all, x->own_uid, x->pid, x->pidfd);

    if (!e)
        return;
    x->pidfd = -1;
    e->devices = x->begun;
    if ((e->own_uid != 0 && x->number != 0 && !ending_keep(e)) || !await_process(e))
        free_ending(e);
}

/*
 * By SIGKILL: a library may sit in the kernel, or not listen. npud does not wait for the end: the
 * kernel takes milliseconds to free what a library has mapped.
 */
void executor_kill(struct executor *x)
{
    kept_close(x->socket);
    x->socket = -1;
    if (x->pid == 0 && x->had_pid == 0) { /* it did not start */
        executor_uid_free(x->all, x->own_uid);
        x->own_uid = 0;
    }
    if (x->pid == 0)
        return;
    kill_group(x);
    reap_later(x);
    x->had_pid = x->pid;
    x->pid = 0;
}

/*
 * The next npud may give their uids to others: what kills by uid has done so before. It kills the
 * executor as well, if that is not gone yet; for one with npud's uid nobody waits.
 */
void executors_finish_ending(struct executors *all)
{
    uint64_t until = clock_ns() + UNWELL_S * NSEC_PER_SEC;
    struct ending *e;

    DL_FOREACH (all->ending, e)
        if (e->own_uid != 0 && !e->sweeps && !sweep(e))
            log_warning("npud cannot end what may have uid %u", e->own_uid);
    while ((e = all->ending)) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed is taken out of the list */
        struct pollfd p = {.fd = e->pidfd, .events = POLLIN};
        uint64_t now = clock_ns();

        if (e->sweeps && e->pidfd >= 0 && now < until)
            poll(&p, 1, (int)((until - now) / NSEC_PER_MSEC));
        free_ending(e);
    }
    worker_stop(&reaper);
}
