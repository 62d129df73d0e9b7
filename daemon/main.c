/* npud: signals, the service manager, and the loop of the control thread. */
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/admin/admin.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/waker.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/base/config.h"
#include "daemon/base/heap.h"
#include "daemon/core/engine.h"
#include "daemon/entrance.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/service_manager.h"
#include "daemon/base/options.h"
#include "daemon/base/own_fds.h"
#include "daemon/base/own_program.h"
#include "daemon/control/reload.h"
#include "daemon/control/session_life.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/device.h"
#include "daemon/kept/blame.h"
#include "daemon/kept/config_text.h"
#include "daemon/kept/kept.h"
#include "daemon/npud.h"
#include "daemon/recovery/recovery.h"
#include "daemon/server_role.h"
#include "proto/util/clock.h"
#include "proto/wire/packet.h"
#include "proto/util/random.h"

#define ENGINE_STUCK_MS 10000 /* a turn takes microseconds: ten seconds is a hang */

/* --- running --- */

/* What main() has, for the callbacks of the loop. */
struct npud {
    struct server *server;
    const struct options *options;
    struct entrance entrance;
    struct reload reload;
    struct event *on_signal, *on_watchdog;
    bool ending; /* in order, not for a failure */
};

static void end_npud(void *arg, const char *why)
{
    struct npud *npud = arg;

    log_event(MESSAGE_ENDING, LOG_INFO, NULL, "%s: ending", why);
    service_manager_tell("STOPPING=1");
    npud->ending = true;
    event_base_loopbreak(npud->server->base);
}

static void read_configuration(void *arg)
{
    struct npud *npud = arg;

    reload_begin(&npud->reload, npud->server, npud->options);
}

static void refuse_upgrade(void *arg, const char *why)
{
    const struct npud *npud = arg;

    log_event(MESSAGE_UPGRADE_REFUSED, LOG_WARNING, NULL,
              "the installed program does not take this one's place: %s", why);
    schedule_begin(&npud->server->schedule);
    admin_refuse_upgrade(npud->server, why);
    schedule_end(&npud->server->schedule, "upgrade", geteuid());
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct npud *npud = arg;
    struct signalfd_siginfo info;

    (void)what;
    if (read(fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP)
        read_configuration(npud);
    else
        end_npud(npud, info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
}

static bool engines_answer(void *arg)
{
    struct server *server = ((struct npud *)arg)->server;

    for (uint32_t i = 0; i < server->devices->n; i++) {
        uint64_t ms = engine_stuck_ms(server->devices->device[i].engine);

        if (ms > ENGINE_STUCK_MS) {
            log_error("the engine of device %u has not answered for %llu ms: systemd restarts npud "
                      "if this lasts",
                      i, (unsigned long long)ms);
            blame_note_stuck(i);
            return false;
        }
    }
    blame_note_stuck(UINT32_MAX);
    return true;
}

/* Tell systemd that npud lives, unless an engine is stuck. Only armed when the unit has a watchdog:
 * otherwise npud never wakes. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    struct npud *npud = arg;
    struct server *server = npud->server;

    (void)fd;
    (void)what;
    schedule_begin(&server->schedule);
    if (engines_answer(npud))
        service_manager_tell("WATCHDOG=1\nSTATUS=%u devices, %u sessions", server->devices->n,
                             server->n_sessions);
    schedule_end(&server->schedule, "watchdog", geteuid());
}

/*
 * Signals are read, never delivered: blocked in every thread from the first moment, so that what
 * npud has made by then is removed. A SIGHUP that comes early is answered once the loop runs.
 */
static int signals_open(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int add_events(struct npud *npud, int signals)
{
    struct event_base *base = npud->server->base;
    uint64_t usec;
    struct timeval interval;

    npud->on_signal = event_new(base, signals, EV_READ | EV_PERSIST, on_signal, npud);
    if (!npud->on_signal || event_add(npud->on_signal, NULL) < 0)
        return -ENOMEM;
    if (sd_watchdog_enabled(0, &usec) <= 0)
        return 0;
    interval = (struct timeval){.tv_sec = (time_t)(usec / 2 / 1000000),
                                .tv_usec = (suseconds_t)(usec / 2 % 1000000)};
    npud->on_watchdog = event_new(base, -1, EV_PERSIST, on_watchdog, npud);
    return npud->on_watchdog && event_add(npud->on_watchdog, &interval) == 0 ? 0 : -ENOMEM;
}

static void tell_ready(struct npud *npud)
{
    const struct devices *devices = npud->server->devices;
    int fd = npud->options->ready_fd;

    service_manager_tell("READY=1\nSTATUS=%u devices (%s), ready", devices->n,
                         devices->backend->name);
    if (fd >= 0 && write(fd, "\n", 1) != 1)
        log_warning("cannot write to the descriptor of --ready-fd: %m");
    if (fd > STDERR_FILENO)
        close(fd);
    KILL_HERE(READY_TOLD);
    config_text_keep(npud->server->config);
    server_role_tell_serving();
    blame_note_serving();
    KILL_HERE(SERVING_TOLD);
    log_event(MESSAGE_READY, LOG_INFO, NULL, "ready: %u devices (%s), listening at %s", devices->n,
              devices->backend->name,
              npud->entrance.passed ? "the socket passed by systemd" : npud->entrance.control.path);
}

/* The administrators' group; -1: there is none. A name service may take its time: not while npud
 * serves. */
static gid_t find_admin_group(const struct config *config)
{
    struct group *g = config->admin_group[0] ? getgrnam(config->admin_group) : NULL;

    return g ? g->gr_gid : (gid_t)-1;
}

/* Before any of them is freed, because streams of one may wait for another. */
static void halt_sessions(struct server *server)
{
    struct session *s;

    DL_FOREACH (server->sessions, s)
        session_halt(s);
}

/* An npud that was started by hand, without the groups or a directory of an installed one. */
static void say_how_by_hand(const struct options *options)
{
    const char *manager = getenv("NOTIFY_SOCKET");

    if (!options->runtime_dir && !(manager && manager[0]))
        log_error("to run an npud of your own: npu-run -- COMMAND, or npud --runtime-dir=DIR with "
                  "a DIR that does not exist yet, and NPUD_SOCKET=DIR/npud.sock for its clients");
}

static void end_what_is_closed(void *arg)
{
    struct npud *npud = arg;

    queues_end_closed(npud->server->queues);
}

static int listen_to_supervisor(struct npud *npud)
{
    const struct server_role_calls calls = {.end = end_npud,
                                            .reload = read_configuration,
                                            .is_alive = engines_answer,
                                            .upgrade_refused = refuse_upgrade,
                                            .keeper_follows = end_what_is_closed,
                                            .arg = npud};

    admin_request_upgrade = server_role_request_upgrade;
    return server_role_attach(npud->server, &calls);
}

/* The tables, new or those of the npud before, with all parts but the engines and the sockets. */
static int begin_tables(struct server *server)
{
    bool restore;
    int r = server_role_begin_tables(&restore);

    if (r == 0)
        r = npud_begin(server);
    return r == 0 && restore ? recovery_run(server) : r;
}

static int start_threads(struct server *server)
{
    int r = npud_start_engines(server);

    KILL_HERE(ENGINES_STARTED);
    if (r < 0)
        return r;
    r = deferred_close_start();
    if (r == 0)
        r = waker_start();
    if (r < 0)
        log_error("a thread of npud cannot be started: %s", strerror(-r));
    return r;
}

static int serve_begin(struct npud *npud, int signals)
{
    struct server *server = npud->server;
    int r = start_threads(server);

    if (r == 0)
        r = entrance_open(&npud->entrance, server);
    KILL_HERE(SOCKETS_OPEN);
    if (r == -EACCES || r == -ENOENT || r == -EROFS)
        say_how_by_hand(npud->options);
    if (r < 0)
        return r;
    r = add_events(npud, signals);
    if (r < 0)
        log_error("npud cannot listen to signals: no memory");
    return r == 0 ? listen_to_supervisor(npud) : r;
}

/* A server that cannot take over fails, and the next one tries at the same sockets. */
static bool leaves_sockets(const struct npud *npud)
{
    return server_role_is_next() && !npud->ending;
}

static int serve_clients(struct npud *npud, int signals)
{
    struct server *server = npud->server;
    int r = begin_tables(server);

    /* Nothing is ended: the next npud may restore what this one could not. */
    if (r < 0)
        return r;
    r = serve_begin(npud, signals);
    if (r == 0) {
        tell_ready(npud);
        while (schedule_round(&server->schedule, server->base, true))
            ;
    }
    KILL_HERE(NPUD_ENDS);
    halt_sessions(server);
    if (leaves_sockets(npud))
        entrance_leave(&npud->entrance, server);
    else
        entrance_close(&npud->entrance, server);
    KILL_HERE(SOCKETS_REMOVED);
    npud_end(server);
    KILL_HERE(TABLES_FREED);
    deferred_close_stop();
    waker_stop();
    reload_end();
    return r; /* the rest goes with the process */
}

static int make_runtime_dir(const char *dir)
{
    int r = mkdir(dir, 0700) < 0 ? -errno : 0;

    if (r == -EEXIST && server_role_is_next())
        return 0; /* the server before this one has made it */
    if (r < 0)
        log_error("%s: cannot be made: %s%s", dir, strerror(-r),
                  r == -EEXIST ? "; --runtime-dir wants a directory that npud makes and removes"
                               : "");
    return r;
}

/* What takes time and needs nothing of a server before this one. */
static int prepare_server(struct server *server)
{
    if (!random_fill(&server->instance, sizeof(server->instance))) {
        log_error("the kernel gives no random bytes, which npud needs for secrets: %m");
        return -EIO;
    }
    server->admin_gid = find_admin_group(server->config);
    subuids_read(&server->subuids, server->config->subuid_file);
    server->users.subuids = &server->subuids;
    return 0;
}

/* With a configuration: everything from the first socket to the last. */
static int run_server(struct server *server, const struct options *options, int signals)
{
    static struct npud npud; /* a reading thread may outlive the call: reload_end() */
    int r = options->runtime_dir ? make_runtime_dir(options->runtime_dir) : 0;

    if (r < 0)
        return r;
    npud = (struct npud){.server = server,
                         .options = options,
                         .entrance = {.control = SOCKET_FILE_NULL, .admin = SOCKET_FILE_NULL}};
    server_count_resources(server);
    server_configure(server);
    r = serve_clients(&npud, signals);
    if (options->runtime_dir && !leaves_sockets(&npud))
        rmdir(options->runtime_dir);
    KILL_HERE(DIR_REMOVED);
    return r;
}

/*
 * The file is wrong, and sessions wait for this server: it serves with what the one before has
 * served with. Only now: a server that lives is not replaced by one that ignores the file.
 */
static int configure_as_before(const struct options *options, struct server *server)
{
    size_t size;
    char *text = config_text_fetch(&size);
    int r = -EINVAL;

    if (!text)
        return r;
    config_deinit(server->config);
    r = options_load_config_text(options, server->config, text, size);
    if (r == 0)
        log_event(MESSAGE_CONFIG_WRONG, LOG_ERR, NULL,
                  "the configuration is wrong: the one of the server before stays in force");
    return r == 0 ? prepare_server(server) : r;
}

/*
 * What would keep npud from starting with this configuration. All of it is found, also by
 * --check-config; what the machine lacks at the time (memory, a directory) is not.
 */
static int check_start(const struct config *config)
{
    int devices = devices_check(config), sockets = entrance_check(config);

    return devices < 0 ? devices : sockets;
}

static int configure_and_run(const struct options *options, int signals)
{
    static struct config config;
    static struct server server = {.config = &config};
    bool configured;
    int r, go;

    kept_begin_private();
    npud_assemble(&server);
    server.since_ns = clock_ns();
    server.fds = own_fds_raise_limit();
    own_fds_reserve(server.fds);
    r = server_role_begin(options);
    if (r < 0)
        return r;
    r = options_load_config(options, &config);
    if (r == 0) {
        r = check_start(&config);
        if (r < 0 && !options->check_config)
            say_how_by_hand(options);
    }
    if (options->check_config)
        return r;
    configured = r == 0;
    if (configured)
        r = prepare_server(&server);
    go = server_role_await_go(r == 0);
    if (go <= 0)
        return go;
    if (!configured && server_role_is_next())
        r = configure_as_before(options, &server);
    if (r == 0)
        return run_server(&server, options, signals);
    if (!configured)
        entrance_refuse(
            "npud does not start: its configuration is wrong, and its log "
            "(journalctl -u npud) says where; an administrator of this host can mend it");
    return r;
}

static int start_telling(void)
{
    int r = service_manager_start();

    if (r < 0)
        log_error("systemd cannot be told that npud is ready: no memory or threads");
    return r;
}

/* npud --check-backend: the program that loads libraries of devices, as npud does not. */
#define CHECK_BACKEND "--check-backend"

static bool asks_backend(int argc, char **argv)
{
    const size_t n = strlen(CHECK_BACKEND);

    return argc > 1 && strncmp(argv[1], CHECK_BACKEND, n) == 0 &&
           (argv[1][n] == '\0' || argv[1][n] == '=');
}

static int exec_check(int argc, char **argv)
{
    char path[PATH_MAX], *value = argv[1] + strlen(CHECK_BACKEND);
    char **with = calloc((size_t)argc + 3, sizeof(*with));
    int n = 2,
        r = with ? own_program_find(path, sizeof(path), "npud-executor", "NPUD_EXECUTOR") : -ENOMEM;

    if (r == 0) {
        with[0] = "npud-executor";
        with[1] = "--check";
        if (*value == '=')
            with[n++] = value + 1;
        memcpy(with + n, argv + 2, (size_t)(argc - 2) * sizeof(*with));
        execv(path, with);
        r = -errno;
    }
    free(with);
    fprintf(stderr,
            "npud: npud-executor cannot be started: %s (it is installed with npud; NPUD_EXECUTOR "
            "is its path)\n",
            strerror(-r));
    return 1;
}

int main(int argc, char **argv)
{
    struct options options;
    int signals, r;

    if (asks_backend(argc, argv))
        return exec_check(argc, argv);
    r = options_read(&options, argc, argv);
    if (r >= 0)
        return r;
    own_fds_occupy_standard();
    log_setup(options.log_level);
    if (options.restartable && !options.server && !options.check_config)
        return server_role_exec_supervisor(&options) == 0 ? 0 : 1;
    signals = signals_open();
    if (options.die_with_parent && !options.server)
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* the parent makes sure that it still lives */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit: the failed call is a client's named error */
    heap_configure();
    r = log_start();
    if (r < 0)
        log_error("the thread of the log cannot be started: no memory or threads");
    log_flush_on_crash(blame_note_fault);
    blame_thread_is(KEPT_CONTROL);
    if (r == 0)
        r = start_telling();
    if (r == 0)
        r = configure_and_run(&options, signals);
    service_manager_stop();
    log_stop();
    return r == 0 ? 0 : 1;
}
