#include "tests/common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t process_start(int (*fn)(void *arg), void *arg)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent ? fn(arg) : 1);
}

int process_end(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid ? status : -1;
}

bool piped_start(struct piped *p, void (*exec)(void *arg), void *arg)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        return false;
    p->pid = fork();
    if (p->pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        exec(arg);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    return p->pid > 0 && p->to && p->from;
}

int piped_end(struct piped *p)
{
    int status;

    fclose(p->to);
    status = process_end(p->pid);
    fclose(p->from);
    return status;
}
