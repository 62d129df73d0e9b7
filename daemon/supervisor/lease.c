#include "daemon/supervisor/lease.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"

#define CONNECT_GUARD_S 5

static int connect_service(void)
{
    const struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = LEASE_SOCKET};
    const struct timeval guard = {.tv_sec = CONNECT_GUARD_S};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r = 0;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof(guard));
    while (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 && r == 0)
        r = errno == EINTR ? 0 : -errno;
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

static int start_own(struct child *keeper, const char *path)
{
    char *const argv[] = {"npud-keeper", "--lease-fd=3", NULL};
    struct executable *program;
    int r = executable_open(&program, path), lease;

    if (r < 0) {
        log_error("%s: %s", path, strerror(-r));
        return r;
    }
    r = child_start(keeper, program, argv);
    executable_drop(&program);
    if (r < 0)
        return r;
    lease = keeper->socket;
    keeper->socket = -1;
    return lease;
}

int lease_open(struct child *keeper, const char *keeper_path, bool service)
{
    int r;

    *keeper = CHILD_NULL;
    if (service) {
        r = connect_service();
        if (r >= 0)
            return r;
        log_warning(LEASE_SOCKET ": %s (systemctl start npud-keeper.socket): npud starts a keeper "
                                 "of its own, which does not outlive its service",
                    strerror(-r));
    }
    return start_own(keeper, keeper_path);
}
