#include "client/tools/npuctl/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/lift_fd.h"

extern char **environ;

static int add_descriptor(posix_spawn_file_actions_t *actions, int fd, int number)
{
    if (fd >= 0)
        return posix_spawn_file_actions_adddup2(actions, fd, number);
    return posix_spawn_file_actions_addopen(actions, number, "/dev/null", O_RDWR, 0);
}

/* 0, or a negative errno. */
static int start(char *const argv[], int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r != 0)
        return -r;
    r = add_descriptor(&actions, in, STDIN_FILENO);
    if (r == 0)
        r = add_descriptor(&actions, out, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* True when it has ended in time. */
static bool await_end(pid_t pid)
{
    struct pollfd end = {.fd = lift_fd(pidfd_open(pid, 0)), .events = POLLIN};
    bool ended = end.fd < 0 || poll(&end, 1, HELPER_LIMIT_S * 1000) != 0;

    if (end.fd >= 0)
        close(end.fd);
    return ended;
}

int helper_run(char *const argv[], int in, int out)
{
    bool ended;
    int r, status;
    pid_t pid = -1;

    r = start(argv, in, out, &pid);
    if (r < 0)
        return r;
    ended = await_end(pid);
    if (!ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (!ended)
        return -ETIME;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int helper_read(char *const argv[], char *text, size_t size)
{
    int out = lift_fd(memfd_create("npuctl-helper", MFD_CLOEXEC)), r;
    ssize_t n;

    if (out < 0)
        return -errno;
    r = helper_run(argv, -1, out);
    n = pread(out, text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(out);
    return r;
}
