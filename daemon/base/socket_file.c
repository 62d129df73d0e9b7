#include "daemon/base/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"

#define LOCK_TRIES 100 /* each is another npud that ended between two calls of this one */

static char *lock_path(const char *path)
{
    char *name;

    return asprintf(&name, "%s.lock", path) < 0 ? NULL : name;
}

/* Is fd, opened as name, still what the name leads to? A holder that ends removes the file, and a
 * lock on a file without a name excludes no other npud. */
static bool lock_is_named(int fd, const char *name)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && lstat(name, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* The lock, or -errno. *found: the file was there, so an npud has died here. */
static int lock_take(const char *name, bool *found)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd, r;

    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        fd = open(name, flags | O_CREAT | O_EXCL, 0600);
        *found = fd < 0 && errno == EEXIST;
        if (*found)
            fd = open(name, flags);
        if (fd < 0 && errno == ENOENT && *found)
            continue;
        if (fd < 0)
            return -errno;
        r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
        if (r == 0 && lock_is_named(fd, name))
            return fd;
        close(fd);
        if (r < 0)
            return r == -EWOULDBLOCK ? -EADDRINUSE : r;
    }
    return -EADDRINUSE;
}

/* systemd-tmpfiles makes /run/npud at boot; an npud that is started by hand makes it itself. */
static void make_parent(const char *path)
{
    char *dir = strdup(path);
    char *slash = dir ? strrchr(dir, '/') : NULL;

    if (slash && slash != dir) {
        *slash = '\0';
        if (mkdir(dir, 0755) == 0)
            chmod(dir, 0755); /* whatever the umask: clients go through it */
    }
    free(dir);
}

/* Does a program listen at addr? 0: none does; -EADDRINUSE; or what else connect() says. */
static int probe_socket(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return -errno;
    r = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ? 0 : -errno;
    close(fd);
    if (r == -ECONNREFUSED)
        return 0;
    /* EAGAIN: its backlog is full. EPROTOTYPE: it listens for another type of connection. */
    return r == 0 || r == -EAGAIN || r == -EPROTOTYPE ? -EADDRINUSE : r;
}

/* Makes the name free. 0 or -errno; *said: the log has the reason. */
static int clear_name(const struct sockaddr_un *addr, bool found, bool *said)
{
    const char *path = addr->sun_path;
    struct stat st;
    int r;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    *said = true;
    if (!S_ISSOCK(st.st_mode)) {
        log_error(
            "%s: exists and is not a socket; npud does not remove it: choose another path, or "
            "remove it yourself",
            path);
        return -EEXIST;
    }
    r = probe_socket(addr);
    if (r == 0 && !found) {
        log_error("%s: no program listens on this socket, but npud did not make it and does not "
                  "remove it: remove it yourself if it is of no use",
                  path);
        return -EEXIST;
    }
    *said = false;
    if (r == 0 && unlink(path) < 0)
        r = -errno;
    return r;
}

/* Connectable by a group, by every user, or by npud's own user. */
static int set_access(const char *path, const char *group, bool everyone)
{
    struct group *g;

    if (everyone || group[0] == '\0')
        return chmod(path, everyone ? 0666 : 0600) < 0 ? -errno : 0;
    g = getgrnam(group);
    if (!g)
        return -ESRCH; /* it went since socket_file_check() */
    if (chown(path, (uid_t)-1, g->gr_gid) < 0 || chmod(path, 0660) < 0)
        return -errno;
    return 0;
}

static int bind_name(struct socket_file *file, int fd, const struct sockaddr_un *addr)
{
    /* No client may connect between bind() and chmod(). */
    mode_t mask = umask(0177);
    int r = bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;
    struct stat st;

    umask(mask);
    if (r == 0 && lstat(addr->sun_path, &st) == 0) {
        file->device = st.st_dev;
        file->inode = st.st_ino;
    }
    return r;
}

static int open_named(struct socket_file *file, const char *group, bool everyone, bool *said)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char *lock = lock_path(file->path);
    int fd, r;

    if (!lock)
        return -ENOMEM;
    strcpy(addr.sun_path, file->path); /* the caller has compared the lengths */
    make_parent(file->path);
    file->lock = r = lock_take(lock, &file->found);
    free(lock);
    if (r < 0)
        return r;
    r = clear_name(&addr, file->found, said);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    r = bind_name(file, fd, &addr);
    if (r == 0)
        r = set_access(file->path, group, everyone);
    if (r == 0 && listen(fd, SOCKET_BACKLOG) < 0)
        r = -errno;
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

int socket_file_check(const char *path, const char *group, bool everyone)
{
    const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

    if (strlen(path) > most) {
        log_error("%s: too long for a socket address, which has at most %zu bytes", path, most);
        return -ENAMETOOLONG;
    }
    if (everyone || group[0] == '\0' || getgrnam(group))
        return 0;
    log_error("%s: there is no group \"%s\"; create it (sysusers.d/npud.conf), or change the "
              "configuration",
              path, group);
    return -ESRCH;
}

int socket_file_bind(struct socket_file *file, const char *path, const char *group, bool everyone)
{
    bool said = false;
    int r = socket_file_check(path, group, everyone);

    *file = SOCKET_FILE_NULL;
    if (r < 0)
        return r;
    file->path = strdup(path);
    r = file->path ? open_named(file, group, everyone, &said) : -ENOMEM;
    if (r >= 0)
        return r;
    if (!said)
        log_error("%s: cannot listen: %s%s", path, strerror(-r),
                  r == -EADDRINUSE ? " (another npud is running there)" : "");
    socket_file_remove(file);
    return r;
}

void socket_file_remove(struct socket_file *file)
{
    char *lock = file->path && file->lock >= 0 ? lock_path(file->path) : NULL;
    struct stat st;

    /* The lock is held, so no other npud takes the name between the look and the removal. */
    if (lock && file->inode != 0 && lstat(file->path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_dev == file->device && st.st_ino == file->inode)
        unlink(file->path);
    KILL_HERE(SOCKET_UNNAMED);
    /* First the name of the lock, then the lock itself: see lock_is_named(). A lock file of a dead
     * npud stays as long as its socket may. */
    if (lock && (file->inode != 0 || !file->found))
        unlink(lock);
    free(lock);
    if (file->lock >= 0)
        close(file->lock);
    free(file->path);
    *file = SOCKET_FILE_NULL;
}

/* The one before has died between the two removals, or a user has removed the socket. */
static void let_lock_go(struct socket_file *file)
{
    char *name = lock_path(file->path);

    file->found = !name || !lock_is_named(file->lock, name);
    free(name);
    socket_file_remove(file);
}

int socket_file_adopt(struct socket_file *file, int socket, int lock)
{
    struct sockaddr_un addr = {.sun_path = ""};
    socklen_t size = sizeof(addr);
    struct stat st;

    *file = SOCKET_FILE_NULL;
    file->lock = lock;
    file->found = true;
    if (getsockname(socket, (struct sockaddr *)&addr, &size) == 0)
        file->path = strndup(addr.sun_path, sizeof(addr.sun_path));
    if (!file->path) {
        socket_file_remove(file);
        return -ENOMEM;
    }
    if (lstat(file->path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        let_lock_go(file);
        return -ENOENT;
    }
    file->device = st.st_dev;
    file->inode = st.st_ino;
    return 0;
}

void socket_file_leave(struct socket_file *file)
{
    free(file->path);
    if (file->lock >= 0)
        close(file->lock);
    *file = SOCKET_FILE_NULL;
}
