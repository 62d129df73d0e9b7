#include "tests/common/child.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "tests/common/moment.h"
#include "tests/common/proc.h"

#define CHILDREN_MAX 64
#define GUARD_MS     900000               /* against hanging only */
#define QUIET_NS     UINT64_C(2000000000) /* then it is forked all the same */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

void *child_share(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

/* One character per thread but the calling one: are all of them 'S'? */
static bool others_sleep(void)
{
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    bool asleep = true;

    while (dir && asleep && (entry = readdir(dir))) {
        char state;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
            continue;
        state = proc_thread_state(getpid(), (pid_t)atoi(entry->d_name));
        asleep = state == '\0' || state == 'S';
    }
    if (dir)
        closedir(dir);
    return asleep;
}

pid_t fork_when_quiet(void)
{
    uint64_t give_up = clock_ns() + QUIET_NS;
    pid_t pid;

    while (SANITIZED && !others_sleep() && clock_ns() < give_up)
        wait_a_moment();
    pid = fork();
    ck_assert_int_ge(pid, 0);
    return pid;
}

/* What this process has started with child_start() and has not reaped. */
static pid_t children[CHILDREN_MAX];
static unsigned n_children;

static void forget_child(unsigned i)
{
    children[i] = children[--n_children];
}

/* Has it ended? 1: yes, as *info says, 0: no, -1: it has been reaped. */
static int child_look(pid_t pid, siginfo_t *info)
{
    info->si_pid = 0;
    if (waitid(P_PID, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    return info->si_pid != 0;
}

void child_expect_none_failed(void)
{
    siginfo_t info;

    for (unsigned i = 0; i < n_children; i++) {
        int ended = child_look(children[i], &info);

        if (ended < 0)
            forget_child(i--);
        else if (ended && info.si_status != (info.si_code == CLD_EXITED ? 0 : SIGKILL))
            ck_abort_msg("child %d %s %d", (int)children[i],
                         info.si_code == CLD_EXITED ? "exited with" : "died by signal",
                         info.si_status);
    }
}

/*
 * Until fd is readable: then true. A child that has failed will not do what this process waits for,
 * so the test fails at once, and check prints the message of the child, which came first. False:
 * all children have ended, or ms have passed.
 */
static bool await_readable(int fd, int ms)
{
    struct pollfd p[1 + CHILDREN_MAX] = {{.fd = fd, .events = POLLIN}};
    unsigned n = 1 + n_children, running = n_children;
    int r;

    for (unsigned i = 1; i < n; i++)
        p[i] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, children[i - 1], 0),
                               .events = POLLIN};
    do {
        r = poll(p, n, ms);
        for (unsigned i = 1; i < n && r > 0 && !p[0].revents; i++)
            if (p[i].revents) {
                child_expect_none_failed();
                close(p[i].fd);
                p[i].fd = -1;
                running--;
            }
        if (n > 1 && running == 0)
            ms = 0; /* what they have left */
    } while (r > 0 && !p[0].revents);
    for (unsigned i = 1; i < n; i++)
        if (p[i].fd >= 0)
            close(p[i].fd);
    return p[0].revents != 0;
}

pid_t child_start(int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork_when_quiet();

    if (pid == 0) {
        n_children = 0;
        /*
         * Against hanging. check's handler, which was inherited, would kill the whole test without
         * a word. With the default action, the process that waits for this child learns what became
         * of it.
         */
        signal(SIGALRM, SIG_DFL);
        alarm(300);
        _exit(fn(arg));
    }
    if (n_children == CHILDREN_MAX)
        child_expect_none_failed(); /* forgets those that the test has reaped by itself */
    ck_assert_uint_lt(n_children, CHILDREN_MAX);
    children[n_children++] = pid;
    return pid;
}

static int sleep_for_good(void *arg)
{
    (void)arg;
    alarm(0);
    for (;;)
        pause();
    return 0;
}

pid_t child_start_idle(void)
{
    return child_start(sleep_for_good, NULL);
}

int child_reap(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; i < n_children; i++)
        if (children[i] == pid)
            forget_child(i--);
    return status;
}

void child_expect_ok(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), status;

    if (fd >= 0) {
        await_readable(fd, -1);
        close(fd);
    }
    status = child_reap(pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with status 0x%x",
                  status);
}

static int run_in_group(void *arg)
{
    int (*const *fn)(void *arg) = arg;

    setpgid(0, 0);
    return (*fn)(NULL);
}

/* On both sides: before the child forks, and before this process kills the group. */
pid_t child_start_group(int (*fn)(void *arg))
{
    pid_t pid = child_start(run_in_group, &fn);

    setpgid(pid, pid);
    return pid;
}

void child_kill_group(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    child_reap(pid);
}

void child_stop(pid_t pid)
{
    int status;

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
}

void child_kill(pid_t pid)
{
    child_expect_none_failed();
    kill(pid, SIGKILL);
    child_reap(pid);
}

void turn_init(struct turn *t)
{
    ck_assert_int_eq(pipe2(t->fd, O_CLOEXEC), 0);
}

void turn_tell(struct turn *t)
{
    ck_assert_int_eq(write(t->fd[1], "x", 1), 1);
}

void turn_await(struct turn *t)
{
    char c;

    ck_assert_msg(await_readable(t->fd[0], GUARD_MS), "the other side did not come");
    ck_assert_int_eq(read(t->fd[0], &c, 1), 1);
}

struct turn to_child, to_parent;

void turns_init(void)
{
    turn_init(&to_child);
    turn_init(&to_parent);
}
