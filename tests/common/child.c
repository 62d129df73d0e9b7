#include "tests/common/child.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/clock.h"

#define GUARD_MS 60000                /* against hanging only */
#define QUIET_NS UINT64_C(2000000000) /* then it is forked all the same */

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
    char path[64], line[512], *state;
    bool asleep = true;
    DIR *dir = opendir("/proc/self/task");

    while (dir && asleep && (entry = readdir(dir))) {
        FILE *f;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", entry->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        /* The name before it may hold anything but a ')' that comes later. */
        state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        asleep = !state || state[2] == 'S';
        fclose(f);
    }
    if (dir)
        closedir(dir);
    return asleep;
}

pid_t fork_when_quiet(void)
{
    uint64_t give_up = clock_ns() + QUIET_NS;
    pid_t pid;

    while (!others_sleep() && clock_ns() < give_up)
        sched_yield();
    pid = fork();
    ck_assert_int_ge(pid, 0);
    return pid;
}

pid_t child_start(int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        /*
         * Against hanging. check's handler, which was inherited, would kill the whole test without
         * a word. With the default action, the process that waits for this child learns what became
         * of it.
         */
        signal(SIGALRM, SIG_DFL);
        alarm(60);
        _exit(fn(arg));
    }
    return pid;
}

void child_expect_ok(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with status 0x%x",
                  status);
}

void child_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
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
    struct pollfd p = {.fd = t->fd[0], .events = POLLIN};
    char c;

    ck_assert_msg(poll(&p, 1, GUARD_MS) == 1, "the other side did not come");
    ck_assert_int_eq(read(t->fd[0], &c, 1), 1);
}
