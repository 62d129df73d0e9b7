#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/closer.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "daemon/server.h"

#define BACKLOG 1024 /* a thousand clients may start together */

/* Readable and connectable by group, or by everybody when there is none to name. */
static int set_access(const char *path, const char *group, bool everybody)
{
    struct group *g;

    if (everybody || group[0] == '\0')
        return chmod(path, everybody ? 0666 : 0600) < 0 ? -errno : 0;
    g = getgrnam(group);
    if (!g) {
        log_error("%s: there is no group \"%s\"; create it (sysusers.d/npud.conf), or change the "
                  "configuration",
                  path, group);
        return -ESRCH;
    }
    if (chown(path, (uid_t)-1, g->gr_gid) < 0 || chmod(path, 0660) < 0)
        return -errno;
    return 0;
}

/* A socket file that nobody listens on is left over from a crash; one that answers belongs to a
 * running npud. */
static int clear_stale(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int r = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
        r = -EADDRINUSE;
    else if (errno == ECONNREFUSED)
        unlink(addr->sun_path);
    close(fd);
    return r;
}

/* tmpfiles.d makes /run/npud at boot; who starts npud by hand need not. */
static void make_parent(const char *path)
{
    char *dir = strdup(path);
    char *slash = dir ? strrchr(dir, '/') : NULL;

    if (slash && slash != dir) {
        *slash = '\0';
        mkdir(dir, 0755); /* there already, or bind() will say what is wrong */
    }
    free(dir);
}

int listener_bind(const char *path, const char *group, bool everybody)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd, r;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        log_error("%s: too long for a socket address", path);
        return -ENAMETOOLONG;
    }
    strcpy(addr.sun_path, path);
    make_parent(path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    r = clear_stale(&addr);
    if (r == 0) {
        /* Nobody may slip in between bind and chmod. */
        mode_t mask = umask(0177);

        if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
            r = -errno;
        umask(mask);
    }
    if (r == 0) {
        r = set_access(path, group, everybody);
        if (r == 0 && listen(fd, BACKLOG) < 0)
            r = -errno;
        if (r < 0)
            unlink(path);
    }
    if (r == -ESRCH) {
        close(fd); /* set_access() has said it */
        return r;
    }
    if (r < 0) {
        log_error("%s: cannot listen: %s%s", path, strerror(-r),
                  r == -EADDRINUSE ? " (another npud is running there)" : "");
        close(fd);
        return r;
    }
    return fd;
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    int s;

    (void)what;
    s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s >= 0) {
        closer_refuse_fds(s);
        l->accept(l->server, s);
        return;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
        return; /* the client has gone again, or a signal came */
    if (!l->exhausted)
        log_error("out of file descriptors: new clients are refused until others leave");
    l->exhausted = true;
    close(l->reserve);
    s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s >= 0) {
        request_refuse(s, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "npud has no file descriptors left for another client");
        close(s);
    }
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int listener_init(struct listener *l, struct server *server, int fd, const char *path,
                  void (*accept)(struct server *server, int socket))
{
    closer_refuse_fds(fd); /* accepted sockets begin with the listener's setting */
    *l = (struct listener){.server = server, .fd = fd, .reserve = -1, .accept = accept};
    l->path = path ? strdup(path) : NULL;
    l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->on_client = event_new(server->base, fd, EV_READ | EV_PERSIST, on_client, l);
    if ((path && !l->path) || l->reserve < 0 || !l->on_client ||
        event_add(l->on_client, NULL) < 0) {
        listener_deinit(l);
        return -ENOMEM;
    }
    return 0;
}

void listener_deinit(struct listener *l)
{
    if (!l->server)
        return;
    if (l->on_client)
        event_free(l->on_client);
    if (l->reserve >= 0)
        close(l->reserve);
    if (l->path)
        unlink(l->path);
    free(l->path);
    close(l->fd);
    *l = (struct listener){0};
}
