/*
 * npud-executor: loads the library of a device and does device work for npud, which starts it
 * (docs/hardware.md). npud is at the other end of a socket, and the process ends with that: all
 * that it has is npud's. A library that crashes, or never returns, harms this process, not npud.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/own_fds.h"
#include "daemon/executor/check_backend.h"
#include "daemon/executor/library.h"
#include "daemon/executor/rights.h"
#include "daemon/executor/serve.h"

static int say_usage(FILE *to, int status)
{
    fputs(
        "usage: npud-executor LIBRARY_KIND PATH [--nesting] [--rights=UID:GROUP:LOCKED]\n"
        "       npud-executor --sweep=PID --rights=UID:GROUP:LOCKED\n"
        "\n"
        "Does device work for npud, which starts it, with the library of a device. npud is at the\n"
        "other end of descriptor 3, a socket.\n"
        "\n"
        "  LIBRARY_KIND  acl or cuda\n"
        "  PATH          of the library: absolute, and root's alone to write; or a name that the\n"
        "                dynamic loader finds\n"
        "  --nesting     the library may be npud's own, and anyone's to write: for tests\n"
        "  --rights      its own uid (0: npud's), another group (0: none), bytes that it may lock\n"
        "  --sweep       end all processes that have this uid, if PID, npud, is there, and do\n"
        "                nothing else\n",
        to);
    return status;
}

static bool has_socket(void)
{
    int type = 0, family = 0;
    socklen_t size = sizeof(type);

    return getsockopt(EXECUTOR_SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           getsockopt(EXECUTOR_SOCKET, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
           type == SOCK_SEQPACKET && family == AF_UNIX;
}

/*
 * Before the library is there. Nobody but root looks into the process, and it gains no rights. It
 * outlives the terminal that npud was started from; SIGTERM ends it, as an administrator means it.
 * Programs that the library starts do not get the socket. False: as rights_take().
 */
static bool shut_in(const struct rights *rights, char *why, size_t why_size)
{
    static const int ignored[] = {SIGPIPE, SIGINT, SIGHUP};
    bool well;

    for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
        signal(ignored[i], SIG_IGN);
    prctl(PR_SET_NAME, "npud-executor");
    well = rights_take(rights, why, why_size);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    fcntl(EXECUTOR_SOCKET, F_SETFD, FD_CLOEXEC);
    return well;
}

static int sweep(const struct rights *rights)
{
    char why[256];

    if (rights->uid != 0 && rights_take(rights, why, sizeof(why)))
        return 0;
    return 1;
}

struct arguments {
    struct rights rights;
    bool nesting;
};

/* -1: go on. Else the exit status. */
static int read_options(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        {"nesting", no_argument, NULL, 'n'},     {"rights", required_argument, NULL, 'r'},
        {"sweep", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'h')
            return say_usage(stdout, 0);
        if (c == 'V')
            return puts("npud-executor " NPUD_VERSION) < 0;
        if (c == '?' || (c == 'r' && !rights_read(&arguments->rights, optarg)))
            return say_usage(stderr, 2);
        arguments->nesting |= c == 'n';
        if (c == 's')
            arguments->rights.parent = (int32_t)strtol(optarg, NULL, 10);
    }
    return argc - optind == (arguments->rights.parent != 0 ? 0 : 2) ? -1 : say_usage(stderr, 2);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.rights.locked = RLIM_INFINITY};
    char why[256] = "";
    int32_t code = ACL_ERROR_RT_NO_PERMISSION;
    int status;

    if (argc > 1 && strcmp(argv[1], "--check") == 0)
        return check_main(argc, argv); /* npud --check-backend */
    status = read_options(argc, argv, &arguments);
    if (status >= 0)
        return status;
    if (arguments.rights.parent != 0)
        return sweep(&arguments.rights);
    own_fds_occupy_standard();
    if (!has_socket()) {
        fputs("npud-executor is started by npud: descriptor 3 is no socket of npud's\n", stderr);
        return 2;
    }
    if (shut_in(&arguments.rights, why, sizeof(why)))
        code = library_load(argv[optind], argv[optind + 1], arguments.nesting, why, sizeof(why));
    serve(code, why);
}
