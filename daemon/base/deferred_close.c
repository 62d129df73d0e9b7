#include "daemon/base/deferred_close.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/array.h"
#include "daemon/base/log.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

struct item {
    int fd;
    void *map; /* NULL: none */
    size_t bytes;
    uint64_t hole, hole_bytes; /* to be punched into the file first */
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct item *items;
    size_t n, size;
    bool stop;
    bool started;
} deferred = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/*
 * Sockets refuse descriptors: nothing that is closed can be a client's. Set by the first socket
 * that could not.
 */
static bool kernel_accepts_fds;

static void close_item(const struct item *item)
{
    if (item->hole_bytes > 0)
        fallocate(item->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)item->hole,
                  (off_t)item->hole_bytes);
    if (item->map)
        munmap(item->map, item->bytes);
    close(item->fd);
}

static void *close_deferred(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "closer");
    pthread_mutex_lock(&deferred.lock);
    for (;;) {
        struct item item;

        while (deferred.n == 0 && !deferred.stop)
            pthread_cond_wait(&deferred.more, &deferred.lock);
        if (deferred.n == 0)
            break;
        item = deferred.items[--deferred.n];
        pthread_mutex_unlock(&deferred.lock);
        close_item(&item);
        pthread_mutex_lock(&deferred.lock);
    }
    pthread_mutex_unlock(&deferred.lock);
    return NULL;
}

int deferred_close_start(void)
{
    int r = pthread_create(&deferred.thread, NULL, close_deferred, NULL);

    deferred.started = r == 0;
    return -r;
}

void deferred_close_stop(void)
{
    if (!deferred.started)
        return;
    pthread_mutex_lock(&deferred.lock);
    deferred.stop = true;
    pthread_cond_signal(&deferred.more);
    pthread_mutex_unlock(&deferred.lock);
    pthread_join(deferred.thread, NULL);
    free(deferred.items);
    deferred.items = NULL;
    deferred.size = 0;
    deferred.started = false;
}

void deferred_close_refuse_fds(int socket)
{
    int off = 0;

    if (setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
        kernel_accepts_fds = true;
}

void deferred_close_accept_fds(int socket)
{
    int on = 1;

    setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}

/* On the thread, if there is one, and memory to tell it. */
static void close_later(const struct item *item)
{
    struct item *items = NULL;

    pthread_mutex_lock(&deferred.lock);
    if (deferred.started)
        items = array_grow(deferred.items, &deferred.size, deferred.n + 1, sizeof(*items));
    if (items) {
        deferred.items = items;
        deferred.items[deferred.n++] = *item;
        pthread_cond_signal(&deferred.more);
    }
    pthread_mutex_unlock(&deferred.lock);
    if (!items)
        close_item(item);
}

void deferred_close(int fd)
{
    if (kernel_accepts_fds)
        deferred_close_slow(fd);
    else
        close(fd);
}

void deferred_close_slow(int fd)
{
    close_later(&(struct item){.fd = fd});
}

void deferred_close_free_memory(int fd, void *map, size_t bytes)
{
    deferred_close_free_shared(fd, map, bytes, 0, 0);
}

void deferred_close_free_shared(int fd, void *map, size_t map_bytes, uint64_t from, uint64_t bytes)
{
    const struct item item = {fd, map, map_bytes, from, bytes};

    if (map_bytes + bytes <= DEFERRED_CLOSE_MUCH)
        close_item(&item);
    else
        close_later(&item);
}
