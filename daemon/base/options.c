#include "daemon/base/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/log.h"

#define CONFIG_DEFAULT NPUD_SYSCONFDIR "/npud/npud.conf"

static void print_usage(FILE *f)
{
    fprintf(
        f,
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
        "      --check-config        read the configuration, say what is wrong with it, and exit\n"
        "      --check-backend=LIBRARY [OPTION]...\n"
        "                            ask the library of a device (acl:PATH, cuda) what npud "
        "needs to\n"
        "                            know of it, and exit; must come first\n"
        "      --ready-fd=N          write a newline to descriptor N when clients can connect\n"
        "      --die-with-parent     end when the parent process ends\n"
        "      --restartable         come back after a crash, with the sessions that were "
        "connected\n"
        "      --fd-store            with --restartable, as a service: systemd keeps what a "
        "restart "
        "needs\n"
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
        "SIGHUP makes it read the configuration again.\n"
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
    {"check-config", no_argument, NULL, 4},
    {"restartable", no_argument, NULL, 5},
    {"fd-store", no_argument, NULL, 6},
    /* The supervisor's: daemon/base/options.h. */
    {"server", no_argument, NULL, 7},
    {"supervisor-fd", required_argument, NULL, 8},
    {"can-read", no_argument, NULL, 9},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {"print-config", no_argument, NULL, 3},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};
#define SHORT_OPTIONS "c:s:d:S:A:r:vqVh"

/* The exit status of an option that only prints: output that got lost is a failure. */
static int end_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "npud: cannot write: %m\n");
    return 1;
}

static bool read_fd(const char *text, int *fd)
{
    char *end;
    long n = strtol(text, &end, 10);

    *fd = (int)n;
    return end != text && *end == '\0' && n >= 0 && n <= INT_MAX && fcntl(*fd, F_GETFD) >= 0;
}

/* What a restart needs. */
static int read_restart_option(struct options *o, int c)
{
    switch (c) {
    case 5:
        o->restartable = true;
        return -1;
    case 6:
        o->fd_store = true;
        return -1;
    case 7:
        o->server = true;
        return -1;
    case 8:
        if (read_fd(optarg, &o->supervisor_fd))
            return -1;
        fprintf(stderr, "npud: --supervisor-fd=%s: not an open descriptor\n", optarg);
        return 2;
    case 9:
        o->can_read = true;
        return -1;
    default:
        return -1;
    }
}

/* An exit status, or -1 to go on. */
static int read_option(struct options *o, int c)
{
    switch (c) {
    case 'c':
        o->config_file = optarg;
        return -1;
    case 'r':
        o->runtime_dir = optarg;
        return -1;
    case 1:
        if (o->server) /* the supervisor writes to it */
            return -1;
        if (read_fd(optarg, &o->ready_fd))
            return -1;
        fprintf(stderr, "npud: --ready-fd=%s: not an open descriptor\n", optarg);
        return 2;
    case 2:
        o->die_with_parent = true;
        return -1;
    case 3:
        puts("# npud.conf: lines that are commented out show the defaults. See npud.conf(5).");
        config_print_reference(stdout);
        return end_of_output();
    case 4:
        o->check_config = true;
        return -1;
    case 'v':
        o->log_level = LOG_DEBUG;
        return -1;
    case 'q':
        o->log_level = LOG_WARNING;
        return -1;
    case 'V':
        puts("npud " NPUD_VERSION);
        return end_of_output();
    case 'h':
        print_usage(stdout);
        return end_of_output();
    case '?':
        fputs("Try 'npud --help'.\n", stderr);
        return 2;
    default:
        return read_restart_option(o, c);
    }
}

int options_read(struct options *o, int argc, char **argv)
{
    int c, r = -1;

    *o = (struct options){
        .argc = argc, .argv = argv, .ready_fd = -1, .supervisor_fd = -1, .log_level = LOG_INFO};
    while (r < 0 && (c = getopt_long(argc, argv, SHORT_OPTIONS, long_options, NULL)) != -1)
        r = read_option(o, c);
    if (r < 0 && o->server != (o->supervisor_fd >= 0)) {
        fputs("npud: --server and --supervisor-fd are for npud-supervisor, which gives both\n",
              stderr);
        return 2;
    }
    if (r >= 0 || optind == argc)
        return r;
    fprintf(stderr, "npud: unexpected argument \"%s\"\nTry 'npud --help'.\n", argv[optind]);
    return 2;
}

static int apply_option(struct config *config, int c, const char *value)
{
    switch (c) {
    case 's':
        return config_set(config, value);
    case 'd':
        return config_set_key(config, "sim", "devices", value);
    case 'S':
        return config_set_key(config, "npud", "socket", value);
    case 'A':
        return config_set_key(config, "npud", "admin_socket", value);
    case 'v':
        return config_set_key(config, "npud", "log_level", "debug");
    case 'q':
        return config_set_key(config, "npud", "log_level", "warning");
    default:
        return 0;
    }
}

/* A private directory holds both sockets; its mode decides which users may enter it. */
static int use_runtime_dir(struct config *config, const char *dir)
{
    static const char *const keys[] = {"socket", "admin_socket"};
    static const char *const names[] = {"npud.sock", "admin.sock"};
    char *path;
    int r = 0;

    for (int i = 0; i < 2 && r == 0; i++) {
        if (asprintf(&path, "%s/%s", dir, names[i]) < 0) {
            log_error("%s: out of memory", dir);
            return -ENOMEM;
        }
        r = config_set_key(config, "npud", keys[i], path);
        free(path);
    }
    if (r == 0)
        r = config_set_key(config, "npud", "access_group", "");
    return r == 0 ? config_set_key(config, "npud", "admin_group", "") : r;
}

/* What the command line overrides. */
static int apply_options(const struct options *o, struct config *config)
{
    int c, r = 0;

    optind = 0; /* from the start: getopt(3) */
    while (r == 0 && (c = getopt_long(o->argc, o->argv, SHORT_OPTIONS, long_options, NULL)) != -1)
        r = apply_option(config, c, optarg);
    if (r == 0 && o->runtime_dir)
        r = use_runtime_dir(config, o->runtime_dir);
    return r;
}

int options_load_config(const struct options *o, struct config *config)
{
    const char *file = o->config_file;
    int r = 0;

    config_init(config);
    if (!file && access(CONFIG_DEFAULT, F_OK) == 0)
        file = CONFIG_DEFAULT;
    if (file)
        r = config_read(config, file);
    return r == 0 ? apply_options(o, config) : r;
}

int options_load_config_text(const struct options *o, struct config *config, char *text,
                             size_t size)
{
    int r;

    config_init(config);
    r = config_read_text(config, "the configuration of before", text, size);
    return r == 0 ? apply_options(o, config) : r;
}
