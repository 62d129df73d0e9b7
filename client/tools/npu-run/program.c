#include "client/tools/npu-run/program.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t program_fork(struct program *program, const char *name)
{
    program->pid = fork();
    if (program->pid > 0)
        program->pidfd = pidfd_open(program->pid, 0);
    if (program->pid == 0 || program->pidfd >= 0)
        return program->pid;
    warn("%s cannot be started", name);
    if (program->pid > 0) {
        kill(program->pid, SIGKILL);
        waitpid(program->pid, NULL, 0);
    }
    return -1;
}

int program_reap(struct program *program)
{
    siginfo_t info = {0};

    while (waitid(P_PIDFD, (id_t)program->pidfd, &info, WEXITED) < 0)
        if (errno != EINTR)
            return STATUS_OWN_FAILURE;
    close(program->pidfd);
    *program = (struct program)PROGRAM_NULL;
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

/* dup2() onto itself leaves close-on-exec as it is. */
void program_pass_fd(int fd, int number)
{
    if (dup2(fd, number) == fd)
        fcntl(number, F_SETFD, 0);
}
