/* An npud that comes back: which process does what, and their deaths. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/chaos.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"

bool npud_is_restartable(void)
{
    return npud.restartable;
}

pid_t npud_server_pid(void)
{
    return npud.restartable ? proc_child_named(npud.pid, "npud") : npud.pid;
}

pid_t npud_keeper_pid(void)
{
    return proc_child_named(npud.pid, "npud-keeper");
}

pid_t npud_standby_pid(void)
{
    return proc_child_named(npud.pid, "npud-standby");
}

pid_t npud_serving_pid(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    pid_t pid = (pid_t)r->status[0]->pid;

    npud__report__free_unpacked(r, NULL);
    return pid;
}

/* The one of this role, which is there or about to be. */
static pid_t await_pid(pid_t (*find)(void), pid_t but)
{
    pid_t pid;

    EVENTUALLY((pid = find()) != 0 && pid != but, "npud does not start what was killed");
    return pid;
}

void npud_kill_server(void)
{
    pid_t pid = await_pid(npud_server_pid, 0);

    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    EVENTUALLY(npud_serving_pid() != pid, "no other server serves");
}

void npud_kill_keeper(void)
{
    pid_t pid = await_pid(npud_keeper_pid, 0), next;

    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    next = await_pid(npud_keeper_pid, pid);
    /* The server gives everything in one go: it answers when the last of it is on its way. */
    EVENTUALLY(proc_fds(next, "memfd:") > 0, "the next keeper gets nothing");
    npud_serving_pid();
}

void npud_kill_standby(void)
{
    pid_t pid = await_pid(npud_standby_pid, 0);

    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    await_pid(npud_standby_pid, pid);
}

static bool has_ended(pid_t pid)
{
    return pid == 0 || kill(pid, 0) < 0 || proc_is_zombie(pid);
}

void npud_kill_supervisor(void)
{
    pid_t of_it[3];
    struct stat st;

    if (chaos_end())
        npud_ledger(); /* without a server that serves, none would remove the sockets */
    of_it[0] = npud_server_pid();
    of_it[1] = npud_standby_pid();
    of_it[2] = npud_keeper_pid();
    ck_assert_int_eq(kill(npud.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(npud.pid, NULL, 0), npud.pid);
    npud.pid = 0;
    for (size_t i = 0; i < sizeof(of_it) / sizeof(of_it[0]); i++)
        EVENTUALLY(has_ended(of_it[i]), "process %d does not end", (int)of_it[i]);
    rmdir(npud.dir); /* that of a shared one */
    ck_assert_msg(lstat(npud.dir, &st) < 0, "%s is left", npud.dir);
}
