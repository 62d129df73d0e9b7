#include "daemon/base/keeper_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/base/keeper_message.h"

/* Guards against a keeper that hangs: one that is stopped, for example. It is given up then. */
#define SEND_GUARD_S  5
#define FETCH_GUARD_S 30

static struct {
    int fd; /* the lease; -1: none */
    bool dead;
    struct {
        keeper_enumerate *enumerate;
        void *arg;
    } sources[KEEPER_SOURCES];
    size_t n_sources;
    void (*lost)(void *arg);
    void *lost_arg;
} link_to = {.fd = -1};

static int socket_prepare(int fd)
{
    const struct timeval guard = {.tv_sec = SEND_GUARD_S};
    int type = 0, flags = fcntl(fd, F_GETFL);
    socklen_t size = sizeof(type);

    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return -errno;
    if (type != SOCK_SEQPACKET)
        return -EPROTOTYPE;
    /* A put waits for room in the socket, or it would not be with the keeper. */
    if (fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof(guard)) < 0)
        return -errno;
    return 0;
}

int keeper_link_open(int fd)
{
    int r = fd < 0 ? 0 : socket_prepare(fd);

    keeper_link_close();
    if (r == 0)
        link_to.fd = fd;
    else
        close(fd);
    return r;
}

void keeper_link_close(void)
{
    if (link_to.fd >= 0)
        close(link_to.fd);
    link_to.fd = -1;
    link_to.dead = false;
}

bool keeper_link_is_open(void)
{
    return link_to.fd >= 0 && !link_to.dead;
}

int keeper_link_fd(void)
{
    return link_to.fd;
}

void keeper_link_add_source(keeper_enumerate *enumerate, void *arg)
{
    if (link_to.n_sources == KEEPER_SOURCES)
        abort(); /* each is a module of npud */
    link_to.sources[link_to.n_sources].enumerate = enumerate;
    link_to.sources[link_to.n_sources++].arg = arg;
}

void keeper_link_on_lost(void (*lost)(void *arg), void *arg)
{
    link_to.lost = lost;
    link_to.lost_arg = arg;
}

void keeper_link_lost(void)
{
    if (!keeper_link_is_open())
        return;
    link_to.dead = true;
    if (link_to.lost)
        link_to.lost(link_to.lost_arg);
}

/* At most KEEPER_KEYS_MAX keys. */
static int send_message(enum keeper_operation operation, const uint64_t *keys, size_t n,
                        const int *fds, size_t n_fds)
{
    struct keeper_message m;

    m.operation = (uint16_t)operation;
    m.n = (uint16_t)n;
    m.version = KEEPER_VERSION;
    if (n > 0)
        memcpy(m.keys, keys, n * sizeof(*keys));
    return fd_message_send(link_to.fd, &m, KEEPER_HEADER + n * sizeof(*keys), fds, n_fds, 0);
}

static void send_all(enum keeper_operation operation, const uint64_t *keys, const int *fds,
                     size_t n)
{
    for (size_t at = 0, some; at < n && keeper_link_is_open(); at += some) {
        some = n - at < KEEPER_KEYS_MAX ? n - at : KEEPER_KEYS_MAX;
        if (send_message(operation, keys + at, some, fds ? fds + at : NULL, fds ? some : 0) < 0)
            keeper_link_lost();
    }
}

void keeper_put(uint64_t key, int fd)
{
    send_all(KEEPER_PUT, &key, &fd, 1);
}

void keeper_put_all(const uint64_t *keys, const int *fds, size_t n)
{
    send_all(KEEPER_PUT, keys, fds, n);
}

void keeper_drop(const uint64_t *keys, size_t n)
{
    send_all(KEEPER_DROP, keys, NULL, n);
}

/* --- what it has --- */

/* The answer to a FETCH. */
static int take_answer(int socket, keeper_take *take, void *arg)
{
    struct keeper_message m;
    int fds[FD_MESSAGE_FDS], taken = 0;
    size_t n;

    for (;;) {
        ssize_t size = fd_message_receive(socket, &m, sizeof(m), fds, &n, 0);

        if (size <= 0)
            return size == 0 ? -EPIPE : size == -EAGAIN ? -ETIMEDOUT : (int)size;
        if (m.operation == KEEPER_END)
            return taken;
        for (size_t i = 0; i < n; i++)
            take(arg, m.keys[i], fds[i]);
        taken += (int)n;
        if (n < m.n)
            return -EMFILE; /* the kernel had no room for the rest */
    }
}

static int fetch(const uint64_t *keys, size_t n, keeper_take *take, void *arg)
{
    const struct timeval guard = {.tv_sec = FETCH_GUARD_S};
    int pair[2], r;

    if (!keeper_link_is_open())
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
    r = send_message(KEEPER_FETCH, keys, n, &pair[1], 1);
    close(pair[1]);
    if (r == 0)
        r = take_answer(pair[0], take, arg);
    close(pair[0]);
    return r;
}

int keeper_fetch(keeper_take *take, void *arg)
{
    return fetch(NULL, 0, take, arg);
}

static void take_one(void *arg, uint64_t key, int fd)
{
    int *place = arg;

    (void)key;
    if (*place >= 0)
        close(*place);
    *place = fd;
}

int keeper_peek(uint64_t key, int *fd)
{
    int r;

    *fd = -1;
    r = fetch(&key, 1, take_one, fd);
    if (r < 0)
        return r;
    return *fd >= 0 ? 0 : -ENOENT;
}

/* --- a new one --- */

struct batch {
    uint64_t keys[KEEPER_KEYS_MAX];
    int fds[KEEPER_KEYS_MAX];
    size_t n;
};

static void batch_send(struct batch *b)
{
    send_all(KEEPER_PUT, b->keys, b->fds, b->n);
    b->n = 0;
}

static void batch_add(void *to, uint64_t key, int fd)
{
    struct batch *b = to;

    b->keys[b->n] = key;
    b->fds[b->n++] = fd;
    if (b->n == KEEPER_KEYS_MAX)
        batch_send(b);
}

int keeper_link_replace(int fd)
{
    struct batch b = {.n = 0};
    int r = keeper_link_open(fd);

    if (r < 0)
        return r;
    for (size_t i = 0; i < link_to.n_sources; i++)
        link_to.sources[i].enumerate(link_to.sources[i].arg, batch_add, &b);
    batch_send(&b);
    return keeper_link_is_open() || fd < 0 ? 0 : -EPIPE;
}
