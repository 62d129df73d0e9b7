/* npud: options, sockets, signals, systemd, and the loop of the control thread. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/admin.h"
#include "daemon/closer.h"
#include "daemon/config.h"
#include "daemon/engine.h"
#include "daemon/log.h"
#include "daemon/event_fd.h"
#include "daemon/post.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "proto/clock.h"
#include "proto/packet.h"

#define CONFIG_DEFAULT  "/etc/npud/npud.conf"
#define ENGINE_STUCK_MS 10000 /* a turn takes microseconds: ten seconds is a hang */

struct options {
    const char *config_file;
    char *runtime_dir;
    int ready_fd;
    int log_level;
    bool die_with_parent;
};

static void usage(FILE *f)
{
    fprintf(f,
            "Usage: npud [OPTION]...\n"
            "Own the NPU devices of this host and let processes share them.\n"
            "\n"
            "  -c, --config=FILE         read FILE instead of " CONFIG_DEFAULT "\n"
            "  -s, --set=SECTION.KEY=VALUE\n"
            "                            override one key of the file; may be repeated\n"
            "  -d, --devices=N           same as --set=sim.devices=N\n"
            "  -S, --socket=PATH         same as --set=npud.socket=PATH\n"
            "  -A, --admin-socket=PATH   same as --set=npud.admin_socket=PATH\n"
            "  -r, --runtime-dir=DIR     make DIR (mode 0700), keep both sockets in it, remove it "
            "at the end\n"
            "      --ready-fd=N          write a newline to descriptor N when clients can connect\n"
            "      --die-with-parent     end when the parent process ends\n"
            "  -v, --verbose             log what clients do\n"
            "  -q, --quiet               log warnings and errors only\n"
            "      --print-config        print a configuration file with every key and its "
            "default, and exit\n"
            "  -V, --version             print the version and exit\n"
            "  -h, --help                print this and exit\n"
            "\n"
            "Sockets passed by systemd (FileDescriptorName=control and =admin) take the place of "
            "its own.\n"
            "SIGTERM and SIGINT end it; connected programs get ACL_ERROR_RT_SOCKET_CLOSE.\n"
            "Exit status: 0 ended by a signal, 1 could not start, 2 wrong usage.\n"
            "See npud(8), and npud.conf(5) for what the keys below mean.\n"
            "\n"
            "Configuration keys, with their defaults:\n\n");
    config_print_reference(f);
}

/* --- command line --- */

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"set", required_argument, NULL, 's'},
    {"devices", required_argument, NULL, 'd'},
    {"socket", required_argument, NULL, 'S'},
    {"admin-socket", required_argument, NULL, 'A'},
    {"runtime-dir", required_argument, NULL, 'r'},
    {"ready-fd", required_argument, NULL, 1},
    {"die-with-parent", no_argument, NULL, 2},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {"print-config", no_argument, NULL, 3},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};
#define SHORT_OPTIONS "c:s:d:S:A:r:vqVh"

static int set_key(struct config *config, const char *key, const char *value)
{
    char *assignment;
    int r;

    if (asprintf(&assignment, "%s=%s", key, value) < 0)
        return -ENOMEM;
    r = config_set(config, assignment);
    free(assignment);
    return r;
}

static bool read_fd(const char *text, int *fd)
{
    char *end;
    long n = strtol(text, &end, 10);

    *fd = (int)n;
    return end != text && *end == '\0' && n >= 0 && n <= INT_MAX && fcntl(*fd, F_GETFD) >= 0;
}

/* First pass: what must be known before the configuration file is read. Returns an exit status, or
 * -1 to go on. */
static int read_options(int argc, char **argv, struct options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, SHORT_OPTIONS, long_options, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->config_file = optarg;
            break;
        case 'r':
            o->runtime_dir = optarg;
            break;
        case 1:
            if (!read_fd(optarg, &o->ready_fd)) {
                fprintf(stderr, "npud: --ready-fd=%s: not an open descriptor\n", optarg);
                return 2;
            }
            break;
        case 2:
            o->die_with_parent = true;
            break;
        case 3:
            puts("# npud.conf: lines that are commented out show the defaults. See npud.conf(5).");
            config_print_reference(stdout);
            return 0;
        case 'v':
            o->log_level = LOG_DEBUG;
            break;
        case 'q':
            o->log_level = LOG_WARNING;
            break;
        case 'V':
            puts("npud " NPUD_VERSION);
            return 0;
        case 'h':
            usage(stdout);
            return 0;
        case '?':
            fputs("Try 'npud --help'.\n", stderr);
            return 2;
        default:
            break;
        }
    }
    if (optind == argc)
        return -1;
    fprintf(stderr, "npud: unexpected argument \"%s\"\nTry 'npud --help'.\n", argv[optind]);
    return 2;
}

/* Second pass: overrides of the configuration file. */
static int apply_options(int argc, char **argv, struct config *config)
{
    int c, r = 0;

    optind = 1;
    while (r == 0 && (c = getopt_long(argc, argv, SHORT_OPTIONS, long_options, NULL)) != -1) {
        if (c == 's')
            r = config_set(config, optarg);
        else if (c == 'd')
            r = set_key(config, "sim.devices", optarg);
        else if (c == 'S')
            r = set_key(config, "npud.socket", optarg);
        else if (c == 'A')
            r = set_key(config, "npud.admin_socket", optarg);
    }
    return r;
}

static int load_config(int argc, char **argv, const struct options *o, struct config *config)
{
    const char *file = o->config_file;
    int r;

    config_init(config);
    if (!file && access(CONFIG_DEFAULT, F_OK) == 0)
        file = CONFIG_DEFAULT;
    r = file ? config_read(config, file) : 0;
    if (r == 0)
        r = apply_options(argc, argv, config);
    return r;
}

/* --- sockets --- */

/* A private directory holds both sockets; who may enter it is decided by its mode. */
static int make_runtime_dir(const char *dir, struct config *config)
{
    char *path;

    if (mkdir(dir, 0700) < 0) {
        log_error("%s: cannot be made: %m", dir);
        return -errno;
    }
    for (int i = 0; i < 2; i++) {
        if (asprintf(&path, "%s/%s", dir, i ? "admin.sock" : "npud.sock") < 0)
            return -ENOMEM;
        free(i ? config->admin_socket : config->socket);
        *(i ? &config->admin_socket : &config->socket) = path;
    }
    return set_key(config, "npud.access_group", "") < 0 ? -ENOMEM
                                                        : set_key(config, "npud.admin_group", "");
}

static void accept_client(struct server *server, int socket)
{
    session_new(server, socket);
}

/* The socket that systemd passed under this name, or -1. */
static int passed_socket(const char *name)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(0, &names);
    int fd = -1;

    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            fd = SD_LISTEN_FDS_START + i;
        free(names[i]);
    }
    free(names);
    return fd;
}

static int open_sockets(struct server *server)
{
    struct config *c = server->config;
    int control = passed_socket("control");
    int admin = passed_socket("admin");
    bool own_control = control < 0, own_admin = admin < 0;
    int r;

    if (own_control)
        control = listener_bind(c->socket, c->access_group, strcmp(c->access_group, "*") == 0);
    if (control < 0)
        return control;
    r = listener_init(&server->clients, server, control, own_control ? c->socket : NULL,
                      accept_client);
    if (r < 0)
        return r;
    if (own_admin)
        admin = listener_bind(c->admin_socket, c->admin_group, false);
    if (admin < 0)
        return admin;
    return listener_init(&server->admins, server, admin, own_admin ? c->admin_socket : NULL,
                         admin_accept);
}

/* --- running --- */

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    struct signalfd_siginfo info;

    (void)what;
    if (read(fd, &info, sizeof(info)) != sizeof(info))
        return;
    log_info("%s: ending", info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    sd_notify(0, "STOPPING=1");
    event_base_loopbreak(server->base);
}

/* Tell systemd that we live, unless an engine does not. Only armed when the unit has a watchdog:
 * otherwise npud never wakes. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;

    (void)fd;
    (void)what;
    for (uint32_t i = 0; i < server->devices.n; i++) {
        uint64_t ms = engine_stuck_ms(server->devices.device[i].engine);

        if (ms > ENGINE_STUCK_MS) {
            log_error("the engine of device %u is stuck for %llu ms", i, (unsigned long long)ms);
            return;
        }
    }
    sd_notifyf(0, "WATCHDOG=1\nSTATUS=%u devices, %u sessions", server->devices.n,
               server->n_sessions);
}

/*
 * Signals to end npud are read, never delivered: blocked from the first moment, so that what has been made by then is removed,
 * and in every thread.
 */
static int signals_open(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int add_events(struct server *server, int signals, struct event **events)
{
    uint64_t usec;
    struct timeval interval;

    events[0] = event_new(server->base, signals, EV_READ | EV_PERSIST, on_signal, server);
    if (!events[0] || event_add(events[0], NULL) < 0)
        return -ENOMEM;
    if (sd_watchdog_enabled(0, &usec) <= 0)
        return 0;
    interval = (struct timeval){.tv_sec = (time_t)(usec / 2 / 1000000),
                                .tv_usec = (suseconds_t)(usec / 2 % 1000000)};
    events[1] = event_new(server->base, -1, EV_PERSIST, on_watchdog, server);
    return events[1] && event_add(events[1], &interval) == 0 ? 0 : -ENOMEM;
}

static void tell_ready(struct server *server, const struct options *o)
{
    sd_notifyf(0, "READY=1\nSTATUS=%u devices (%s), ready", server->devices.n,
               server->devices.backend->name);
    if (o->ready_fd >= 0) {
        if (write(o->ready_fd, "\n", 1) != 1)
            log_warning("cannot write to --ready-fd: %m");
        close(o->ready_fd);
    }
    log_info("ready: %u devices (%s), listening at %s", server->devices.n,
             server->devices.backend->name,
             server->clients.path ? server->clients.path : "the socket passed by systemd");
}

/* As many descriptors as we may have. Returns how many that are. */
static uint64_t raise_fd_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return UINT64_MAX;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    return r.rlim_max;
}

/*
 * Where several users share npud, none may have more than half of the descriptors that there are, whatever the configuration allows,
 * nor of the mappings, of which most of them need one each: the others are to notice nothing.
 */
static void share_fds(struct config *config, uint64_t fds)
{
    unsigned long long maps = 65530; /* the kernel's default; a sandbox may hide the setting */
    uint64_t *limit = &config->limit[RESOURCE_FDS];
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

    if (f && fscanf(f, "%llu", &maps) != 1)
        maps = 65530;
    if (f)
        fclose(f);
    if (config->access_group[0] == '\0')
        return;
    if (fds > maps)
        fds = maps;
    if (*limit <= fds / 2)
        return;
    log_info("limits.fds: %llu instead of %llu, half of what npud itself may have",
             (unsigned long long)(fds / 2), (unsigned long long)*limit);
    *limit = fds / 2;
}

/* Before any of them is freed, because streams of one may wait for another. */
static void halt_sessions(struct server *server)
{
    struct session *s;

    DL_FOREACH (server->sessions, s)
        session_halt(s);
}

static int serve(struct server *server, const struct options *o, int signals)
{
    struct event *events[2] = {0};
    int r = -ENOMEM;

    server->base = event_base_new();
    server->posts.fd = -1;
    if (!server->base)
        return r;
    packet_close = closer_close_slow;
    inject_init(&server->inject);
    r = closer_start();
    if (r == 0)
        r = sessions_init(server);
    if (r == 0)
        r = posts_init(&server->posts, server->base);
    if (r == 0)
        r = devices_init(&server->devices, server->config);
    if (r == 0)
        r = open_sockets(server);
    if (r == 0)
        r = add_events(server, signals, events);
    if (r == 0) {
        tell_ready(server, o);
        event_base_dispatch(server->base);
    }
    halt_sessions(server);
    listener_deinit(&server->clients);
    listener_deinit(&server->admins);
    admin_end_all(server);
    sessions_deinit(server);
    devices_deinit(&server->devices);
    posts_deinit(&server->posts);
    event_fds_deinit(server);
    inject_deinit(&server->inject);
    closer_stop();
    for (int i = 0; i < 2; i++)
        if (events[i])
            event_free(events[i]);
    event_base_free(server->base);
    return r;
}

int main(int argc, char **argv)
{
    struct options o = {.ready_fd = -1, .log_level = LOG_INFO};
    struct config config;
    struct server server = {.config = &config, .since_ns = clock_ns()};
    int signals, r = read_options(argc, argv, &o);
    uint64_t fds;

    if (r >= 0)
        return r;
    log_setup(o.log_level);
    signals = signals_open();
    if (o.die_with_parent)
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* who starts us makes sure that it still lives */
    signal(SIGPIPE, SIG_IGN);
    /* What big tables took goes back to the system with them: without this, malloc keeps ever bigger pieces for itself. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    fds = raise_fd_limit();
    r = load_config(argc, argv, &o, &config);
    if (r == 0 && o.runtime_dir)
        r = make_runtime_dir(o.runtime_dir, &config);
    if (r == 0) {
        share_fds(&config, fds);
        server.users.limit = config.limit;
        server.ipc.linger_max = config.linger_max;
        server.ipc.any_uid = config.ipc_any_uid;
        getrandom(&server.ipc.instance, sizeof(server.ipc.instance), 0);
        r = serve(&server, &o, signals);
        if (o.runtime_dir)
            rmdir(o.runtime_dir);
    }
    config_deinit(&config);
    return r == 0 ? 0 : 1;
}
