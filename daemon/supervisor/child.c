#include "daemon/supervisor/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/pidfd.h"

/*
 * A child that cannot be executed exits with this and errno, which is less than 128 for each cause
 * that execveat(2) knows. No program of npud has such a status; ld.so, which lacks a library and
 * says so, exits with 127.
 */
#define EXEC_FAILED 128

/*
 * After fork(), in a process with threads: system calls only. A session of its own, because a
 * terminal's ^C is for the supervisor, which ends the server in order.
 */
static void __attribute__((noreturn)) child_exec(int program, int connection, char *const *argv)
{
    sigset_t none;

    setsid();
    if (dup2(connection, CHILD_FD) == CHILD_FD)
        fcntl(CHILD_FD, F_SETFD, 0); /* dup2 onto itself leaves close-on-exec as it is */
    close_range(CHILD_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execveat(program, "", argv, environ, AT_EMPTY_PATH);
    _exit(EXEC_FAILED | errno);
}

static int fork_child(struct child *child, const struct executable *program, int connection,
                      char *const *argv)
{
    child->pid = fork();
    if (child->pid < 0)
        return -errno;
    if (child->pid == 0)
        child_exec(program->fd, connection, argv);
    child->pidfd = pidfd_open_process(child->pid);
    return child->pidfd < 0 ? child->pidfd : 0;
}

int child_start(struct child *child, struct executable *program, char *const *argv)
{
    int pair[2] = {-1, -1}, r = 0;

    *child = CHILD_NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    if (r == 0)
        r = fork_child(child, program, pair[1], argv);
    if (pair[1] >= 0)
        close(pair[1]);
    child->socket = pair[0];
    child->program = executable_use(program);
    child->state = CHILD_STARTED;
    if (r == 0)
        return 0;
    log_error("%s cannot be started: %s", argv[0], strerror(-r));
    child_discard(child);
    return r;
}

int child_exec_error(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) > EXEC_FAILED
               ? WEXITSTATUS(status) - EXEC_FAILED
               : 0;
}

void child_kill(struct child *child)
{
    if (!child->killed && child->pidfd >= 0)
        pidfd_send_signal(child->pidfd, SIGKILL, NULL, 0);
    child->killed = true;
}

static void forget(struct child *child)
{
    const int fds[] = {child->pidfd, child->socket, child->life, child->life_end};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    executable_drop(&child->program);
    *child = CHILD_NULL;
}

int child_reap(struct child *child)
{
    int status = SIGKILL;

    if (child->pid > 0)
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
            ;
    forget(child);
    return status;
}

void child_discard(struct child *child)
{
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        child_reap(child);
    } else {
        forget(child);
    }
}
