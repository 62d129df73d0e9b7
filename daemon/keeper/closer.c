#include "daemon/keeper/closer.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/client_socket.h"

#define BLOCKS_AT_ONCE 2048 /* of 512 bytes: 1 MiB is freed in less than 0.3 ms */

struct closer {
    void (*close)(int fd);
    pthread_mutex_t lock;
    pthread_cond_t more;
    int *fds;
    size_t n, room;
    bool started, working;
};

static void close_plain(int fd)
{
    close(fd);
}

/* A connection that is shut, in which descriptors may be left, or no socket. */
static void close_watched(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
        client_socket_close(fd, true);
    else
        close(fd);
}

#define CLOSER(fn)                                                                                 \
    {                                                                                              \
        .close = (fn), PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER                         \
    }

static struct closer memory = CLOSER(close_plain), sockets = CLOSER(close_plain),
                     watched = CLOSER(close_watched);

static void *close_waiting(void *arg)
{
    struct closer *c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        int fd;

        while (c->n == 0)
            pthread_cond_wait(&c->more, &c->lock);
        fd = c->fds[--c->n];
        c->working = true;
        pthread_mutex_unlock(&c->lock);
        c->close(fd);
        pthread_mutex_lock(&c->lock);
        c->working = false;
    }
    return NULL;
}

/* False: no memory. */
static bool closer_append(struct closer *c, int fd)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        int *fds = realloc(c->fds, room * sizeof(*fds));

        if (!fds)
            return false;
        c->fds = fds;
        c->room = room;
    }
    c->fds[c->n++] = fd;
    return true;
}

/* If there is no memory, fd stays open; if there is no thread, the next one tries again. */
static void close_by(struct closer *c, int fd)
{
    pthread_t thread;

    pthread_mutex_lock(&c->lock);
    if (closer_append(c, fd))
        pthread_cond_signal(&c->more);
    if (!c->started && pthread_create(&thread, NULL, close_waiting, c) == 0) {
        pthread_detach(thread);
        c->started = true;
    }
    pthread_mutex_unlock(&c->lock);
}

static bool socket_listens(int fd)
{
    int listens = 0;
    socklen_t size = sizeof(listens);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens;
}

/* After this nothing comes any more. */
static bool socket_is_shut(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void close_socket(int fd, bool ending)
{
    if (ending && !socket_listens(fd))
        shutdown(fd, SHUT_RDWR);
    /* The server shuts down the connection of a session that ends. */
    close_by(socket_is_shut(fd) ? &watched : &sockets, fd);
}

void closer_close(int fd, bool ending)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        st.st_mode = 0;
    if (S_ISSOCK(st.st_mode))
        close_socket(fd, ending);
    else if (S_ISREG(st.st_mode) && st.st_blocks > BLOCKS_AT_ONCE)
        close_by(&memory, fd);
    else if ((st.st_mode & S_IFMT) == 0) /* an eventfd or a pidfd */
        close_by(&watched, fd);
    else
        close(fd);
}

static bool is_idle(struct closer *c)
{
    bool idle;

    pthread_mutex_lock(&c->lock);
    idle = c->n == 0 && !c->working;
    pthread_mutex_unlock(&c->lock);
    return idle;
}

bool closer_is_idle(void)
{
    return is_idle(&memory) && is_idle(&sockets) && is_idle(&watched);
}
