#include "daemon/base/deferred_close.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/hash.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define UNMAP_SLICE ((size_t)2 << 20)

struct item {
    int fd;
    void *map; /* NULL: none */
    size_t bytes;
    struct item *prev, *next; /* owner->items, oldest first */
};

/* A user with something to be closed. */
struct owner {
    const struct user *user; /* compared only: it may have gone */
    struct item *items;
    struct owner *prev, *next; /* closer->owners, the next in turn first */
    UT_hash_handle hh;
};

struct closer {
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct owner *owners, *by_user;
    bool stop;
    bool started;
};

#define CLOSER(name_)                                                                              \
    {                                                                                              \
        .name = (name_), .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER       \
    }

/* Two, because what a client has sent can hang for good: memory is not freed after that. */
static struct closer of_memory = CLOSER("closer"), of_clients = CLOSER("client-closer");

/*
 * Sockets refuse descriptors: nothing that is closed can be a client's. Set by the first socket
 * that could not.
 */
static bool kernel_accepts_fds;

static void close_now(int fd, void *map, size_t bytes)
{
    if (map)
        munmap(map, bytes);
    close(fd);
}

/*
 * True: done. Memory goes in slices, because the kernel keeps the process from mapping anything,
 * and from growing its heap, while it takes the pages of one call out of the page tables.
 */
static bool close_slice(struct item *item)
{
    if (item->bytes > 0) {
        size_t slice = (item->bytes - 1) % UNMAP_SLICE + 1;

        item->bytes -= slice;
        munmap((char *)item->map + item->bytes, slice);
        return false;
    }
    close(item->fd);
    return true;
}

/* --- under the lock --- */

static struct owner *find_owner(struct closer *closer, const struct user *user)
{
    struct owner *owner;

    HASH_FIND_PTR(closer->by_user, &user, owner);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->user = user;
    HASH_ADD_PTR(closer->by_user, user, owner);
    if (!owner->hh.tbl) {
        free(owner);
        return NULL;
    }
    DL_APPEND(closer->owners, owner);
    return owner;
}

/* The owner whose turn it was, and what came of it. */
static void end_turn(struct closer *closer, struct owner *owner, struct item *item, bool done)
{
    if (done) {
        DL_DELETE(owner->items, item);
        free(item);
    }
    DL_DELETE(closer->owners, owner);
    if (owner->items) {
        DL_APPEND(closer->owners, owner);
    } else {
        HASH_DEL(closer->by_user, owner);
        free(owner);
    }
}

/* --- the thread --- */

static void *close_deferred(void *arg)
{
    struct closer *closer = arg;

    pthread_setname_np(pthread_self(), closer->name);
    pthread_mutex_lock(&closer->lock);
    for (;;) {
        struct owner *owner;
        struct item *item;
        bool done;

        while (!closer->owners && !closer->stop)
            pthread_cond_wait(&closer->more, &closer->lock);
        owner = closer->owners;
        if (!owner)
            break;
        item = owner->items;
        pthread_mutex_unlock(&closer->lock);
        done = close_slice(item);
        pthread_mutex_lock(&closer->lock);
        end_turn(closer, owner, item, done);
    }
    pthread_mutex_unlock(&closer->lock);
    return NULL;
}

static int start_closer(struct closer *closer)
{
    int r = pthread_create(&closer->thread, NULL, close_deferred, closer);

    closer->started = r == 0;
    return -r;
}

static void stop_closer(struct closer *closer)
{
    if (!closer->started)
        return;
    pthread_mutex_lock(&closer->lock);
    closer->stop = true;
    pthread_cond_signal(&closer->more);
    pthread_mutex_unlock(&closer->lock);
    pthread_join(closer->thread, NULL);
    closer->stop = false;
    closer->started = false;
}

int deferred_close_start(void)
{
    int r = start_closer(&of_memory);

    return r == 0 ? start_closer(&of_clients) : r;
}

void deferred_close_stop(void)
{
    stop_closer(&of_memory);
    stop_closer(&of_clients);
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
static void close_later(struct closer *closer, const struct user *user, int fd, void *map,
                        size_t bytes)
{
    struct item *item = malloc(sizeof(*item));
    struct owner *owner = NULL;

    if (item)
        *item = (struct item){.fd = fd, .map = map, .bytes = map ? bytes : 0};
    pthread_mutex_lock(&closer->lock);
    if (item && closer->started)
        owner = find_owner(closer, user);
    if (owner) {
        DL_APPEND(owner->items, item);
        pthread_cond_signal(&closer->more);
    }
    pthread_mutex_unlock(&closer->lock);
    if (owner)
        return;
    free(item);
    close_now(fd, map, bytes);
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
    close_later(&of_clients, NULL, fd, NULL, 0);
}

void deferred_close_free_memory(const struct user *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes)
{
    if (bytes <= DEFERRED_CLOSE_MUCH)
        close_now(fd, map, map_bytes);
    else
        close_later(&of_memory, user, fd, map, map_bytes);
}
