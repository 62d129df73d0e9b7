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
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "daemon/base/own_fds.h"
#include "daemon/executor/check_backend.h"
#include "daemon/executor/library.h"
#include "daemon/executor/serve.h"

static int say_usage(FILE *to, int status)
{
    fputs(
        "usage: npud-executor LIBRARY_KIND PATH [--nesting]\n"
        "\n"
        "Does device work for npud, which starts it, with the library of a device. npud is at the\n"
        "other end of descriptor 3, a socket.\n"
        "\n"
        "  LIBRARY_KIND  acl or cuda\n"
        "  PATH          of the library: absolute, and root's alone to write; or a name that the\n"
        "                dynamic loader finds\n"
        "  --nesting     the library may be npud's own, and anyone's to write: for tests\n",
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
 * Programs that the library starts do not get the socket.
 */
static void shut_in(void)
{
    static const int ignored[] = {SIGPIPE, SIGINT, SIGHUP};

    for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
        signal(ignored[i], SIG_IGN);
    prctl(PR_SET_NAME, "npud-executor");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    fcntl(EXECUTOR_SOCKET, F_SETFD, FD_CLOEXEC);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"nesting", no_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    char why[256] = "";
    bool nesting = false;
    int c;

    if (argc > 1 && strcmp(argv[1], "--check") == 0)
        return check_main(argc, argv); /* npud --check-backend */
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'h')
            return say_usage(stdout, 0);
        if (c == 'V')
            return puts("npud-executor " NPUD_VERSION) < 0;
        if (c != 'n')
            return say_usage(stderr, 2);
        nesting = true;
    }
    if (argc - optind != 2)
        return say_usage(stderr, 2);
    own_fds_occupy_standard();
    if (!has_socket()) {
        fputs("npud-executor is started by npud: descriptor 3 is no socket of npud's\n", stderr);
        return 2;
    }
    shut_in();
    serve(library_load(argv[optind], argv[optind + 1], nesting, why, sizeof(why)), why);
}
