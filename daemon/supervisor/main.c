/*
 * npud-supervisor: what `npud --restartable` executes. usage: npud-supervisor NPUD [OPTION]...
 * NPUD is the path of npud, and the options are those of npud.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/base/own_fds.h"
#include "daemon/base/own_program.h"
#include "daemon/base/service_manager.h"
#include "daemon/base/supervisor_message.h"
#include "daemon/supervisor/again.h"
#include "daemon/supervisor/supervisor.h"
#include "proto/util/clock.h"

static int signals_open(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, the kernel reaps our children itself */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Beside this program; NPUD_KEEPER: elsewhere, for tests. */
static int find_programs(struct supervisor *s)
{
    static char self[PATH_MAX], keeper[PATH_MAX + sizeof("npud-keeper")];
    const char *named = secure_getenv("NPUD_KEEPER");
    int r = own_program_path(self, NULL);
    char *slash;

    if (r < 0)
        return r;
    strcpy(keeper, self);
    slash = strrchr(keeper, '/');
    strcpy(slash ? slash + 1 : keeper, "npud-keeper");
    s->self = self;
    s->keeper_path = named && named[0] ? named : keeper;
    return 0;
}

/* npud --server --server --supervisor-fd=3 [OPTION]...; the second one may become --can-read. */
static int make_server_argv(struct supervisor *s, int n_options, char **options)
{
    size_t n = 0;

    s->server_argv = calloc((size_t)n_options + 5, sizeof(char *));
    if (!s->server_argv)
        return -ENOMEM;
    s->server_argv[n++] = "npud";
    s->server_argv[n++] = "--server";
    s->server_argv[n++] = "--server";
    s->server_argv[n++] = "--supervisor-fd=3";
    memcpy(s->server_argv + n, options, (size_t)n_options * sizeof(char *));
    return 0;
}

static void take_watchdog(struct supervisor *s)
{
    uint64_t usec;

    if (sd_watchdog_enabled(0, &usec) <= 0)
        return;
    s->watchdog_ns = usec / 2 * NSEC_PER_USEC;
    s->next_watchdog_ns = clock_ns() + s->watchdog_ns;
}

/* What an earlier supervisor has left in the store. */
static int take_passed(struct supervisor *s)
{
    struct passed_fds passed;
    int r = fd_store_take(&passed);

    if (r < 0)
        return r;
    s->control = passed.control;
    s->admin = passed.admin;
    s->lease = passed.lease;
    /* systemd does not keep a lease whose keeper has died. */
    if (passed.lease >= 0 || passed.server >= 0) {
        s->served = true;
        s->cause = SUPERVISOR_KILLED;
    }
    if (passed.server >= 0) {
        s->server.pidfd = passed.server;
        s->server.life = passed.life;
        s->server.socket = fcntl(passed.life, F_DUPFD_CLOEXEC, 0);
        s->server.state = CHILD_SERVING;
        s->replace = true;
    } else if (passed.life >= 0) {
        close(passed.life);
    }
    return 0;
}

/* One that has executed itself again goes on with the program of its server. */
static int open_program(struct supervisor *s)
{
    int r;

    if (supervisor_is_again(s)) {
        executable_set(&s->program, s->server.program);
        executable_set(&s->good_program, s->server.program);
        return s->program ? 0 : executable_open(&s->program, s->npud);
    }
    r = take_passed(s);
    return r < 0 ? r : executable_open(&s->program, s->npud);
}

static int supervise(struct supervisor *s)
{
    int r = find_programs(s);

    if (r == 0)
        r = open_program(s);
    if (r < 0) {
        log_error("npud cannot be started: %s: %s", s->npud, strerror(-r));
        return 1;
    }
    take_watchdog(s);
    s->lease_number = (uint32_t)(clock_ns() / NSEC_PER_MSEC);
    return supervisor_run(s);
}

int main(int argc, char **argv)
{
    static struct supervisor s = {.signals = -1,
                                  .lease = -1,
                                  .keeper = CHILD_NULL_VALUE,
                                  .server = CHILD_NULL_VALUE,
                                  .standby = CHILD_NULL_VALUE,
                                  .candidate = CHILD_NULL_VALUE};
    struct options options;
    int r = argc < 2 ? 2 : options_read(&options, argc - 1, argv + 1);

    if (r >= 0) {
        fputs("usage: npud-supervisor NPUD [OPTION]...: see npud --restartable\n", stderr);
        return r;
    }
    own_fds_occupy_standard();
    log_setup(options.log_level);
    s.signals = signals_open();
    if (options.die_with_parent)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    s.argv = argv;
    s.npud = argv[1];
    s.fd_store = options.fd_store;
    s.ready_fd = options.ready_fd;
    r = make_server_argv(&s, argc - 2, argv + 2);
    if (r == 0)
        r = log_start();
    if (r == 0)
        r = service_manager_start();
    if (r < 0)
        log_error("npud-supervisor cannot begin: no memory or threads");
    r = r == 0 ? supervise(&s) : 1;
    service_manager_stop();
    log_stop();
    return r;
}
