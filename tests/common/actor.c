#include "tests/common/actor.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/child.h"
#include "tests/common/proc.h"

#define ENDS_MAX 64
#define GUARD_S  300   /* against hanging; an actor that may take longer calls alarm(0) */
#define STEP_MS  60000 /* the same */

/* The test's ends of all socket pairs. An actor closes those that it inherits: otherwise the others
 * would not see the test close them. */
static int ends[ENDS_MAX];
static unsigned n_ends;

struct start {
    int (*main)(int fd, void *arg);
    void *arg;
    int fd;
};

static int run_actor(void *arg)
{
    struct start start = *(struct start *)arg;

    for (unsigned i = 0; i < n_ends; i++)
        close(ends[i]);
    n_ends = 0;
    alarm(GUARD_S);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return start.main(start.fd, start.arg);
}

void actor_start(struct actor *a, int (*main)(int fd, void *arg), void *arg)
{
    struct start start = {.main = main, .arg = arg};
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_uint_lt(n_ends, ENDS_MAX);
    ends[n_ends++] = pair[0];
    start.fd = pair[1];
    *a = (struct actor){.pid = child_start(run_actor, &start), .fd = pair[0]};
    close(pair[1]);
}

bool actor_tell(struct actor *a, const void *order, size_t size)
{
    return send(a->fd, order, size, MSG_NOSIGNAL) == (ssize_t)size;
}

bool actor_answered(struct actor *a, int ms)
{
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    char c;

    return poll(&p, 1, ms) == 1 && recv(a->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

size_t actor_answer(struct actor *a, void *answer, size_t size, int ms)
{
    ssize_t n = actor_answered(a, ms) ? recv(a->fd, answer, size, 0) : 0;

    return n > 0 ? (size_t)n : 0;
}

void actor_next_step(struct actor *a)
{
    ck_assert_msg(actor_tell(a, "n", 1), "the actor has ended");
}

void actor_await_step(struct actor *a)
{
    char c;

    if (actor_answer(a, &c, 1, STEP_MS) == 1)
        return;
    child_expect_none_failed();
    ck_abort_msg(actor_answered(a, 0) ? "the actor has ended" : "the actor hangs: no step in %d ms",
                 STEP_MS);
}

void step_await(int fd)
{
    char c;

    ck_assert_msg(recv(fd, &c, 1, 0) == 1, "the test has ended");
}

void step_done(int fd)
{
    ck_assert_int_eq(send(fd, "d", 1, MSG_NOSIGNAL), 1);
}

void actor_stop(struct actor *a)
{
    kill(a->pid, SIGSTOP);
}

void actor_continue(struct actor *a)
{
    kill(a->pid, SIGCONT);
}

static void close_end(struct actor *a)
{
    for (unsigned i = 0; i < n_ends; i++)
        if (ends[i] == a->fd)
            ends[i] = ends[--n_ends];
    close(a->fd);
    a->fd = -1;
}

static int await_end(struct actor *a)
{
    int status = child_reap(a->pid);

    a->pid = 0;
    return status;
}

void actor_end(struct actor *a)
{
    int status;

    close_end(a);
    status = await_end(a);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "actor ended with status 0x%x",
                  status);
}

int actor_kill(struct actor *a)
{
    kill(a->pid, SIGKILL);
    close_end(a);
    return await_end(a);
}

void actor_reap_killed(struct actor *a)
{
    int status = await_end(a);

    close_end(a);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "actor: status 0x%x", status);
}

bool actor_reap_if_ended(struct actor *a, int *status)
{
    siginfo_t info = {.si_pid = 0};

    ck_assert_int_eq(waitid(P_PID, (id_t)a->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    if (info.si_pid == 0)
        return false;
    *status = await_end(a);
    close_end(a);
    return true;
}

char actor_state(const struct actor *a)
{
    return proc_state(a->pid);
}
