/*
 * npud-keeper: keeps npud's descriptors while npud is not there. Its owner is at the other end of
 * one connection, the lease, and it ends with it. systemd passes a socket that listens, at which
 * the owner connects; a supervisor without systemd passes the lease itself.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/own_fds.h"
#include "daemon/keeper/closer.h"
#include "daemon/keeper/keeper.h"

static int serve_lease(const char *text)
{
    int fd = atoi(text);

    if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 0) <= 0) {
        log_error("--lease-fd=%s: not a Unix socket of type SOCK_SEQPACKET", text);
        return -EINVAL;
    }
    return keeper_serve(fd);
}

/*
 * One owner after the other: an npud that starts while another one still ends waits for that. With
 * the last one the keeper ends, so that the next owner gets the keeper that is installed then;
 * systemd starts it for an owner that waits already.
 */
static int serve_listener(int listener)
{
    int r = 0;

    keeper_watch();
    sd_notify(0, "READY=1");
    do {
        int lease = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (lease >= 0)
            r = keeper_serve(lease);
        else if (errno != EINTR && errno != ECONNABORTED)
            r = -errno;
    } while (r == 0 && !closer_is_idle());
    return r;
}

static int serve_passed(void)
{
    int n = sd_listen_fds(1);

    if (n == 1 && sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) > 0)
        return serve_listener(SD_LISTEN_FDS_START);
    log_error("npud-keeper is started by npud or by npud-keeper.socket: it was passed %d "
              "descriptors, and no listening Unix socket of type SOCK_SEQPACKET",
              n);
    return -EINVAL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"lease-fd", required_argument, NULL, 'l'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    const char *lease = NULL;
    int c;

    while ((c = getopt_long(argc, argv, "V", options, NULL)) != -1) {
        if (c == 'V')
            return puts("npud-keeper " NPUD_VERSION) < 0;
        if (c != 'l')
            return 2;
        lease = optarg;
    }
    own_fds_occupy_standard();
    log_setup(LOG_INFO);
    signal(SIGPIPE, SIG_IGN);
    own_fds_reserve(own_fds_raise_limit());
    return (lease ? serve_lease(lease) : serve_passed()) == 0 ? 0 : 1;
}
