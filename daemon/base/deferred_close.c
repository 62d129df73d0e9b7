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
    struct owner *prev, *next; /* deferred.owners, the next in turn first */
    UT_hash_handle hh;
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct owner *owners, *by_user;
    bool stop;
    bool started;
} deferred = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

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

static struct owner *find_owner(const struct user *user)
{
    struct owner *owner;

    HASH_FIND_PTR(deferred.by_user, &user, owner);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->user = user;
    HASH_ADD_PTR(deferred.by_user, user, owner);
    if (!owner->hh.tbl) {
        free(owner);
        return NULL;
    }
    DL_APPEND(deferred.owners, owner);
    return owner;
}

/* The owner whose turn it was, and what came of it. */
static void end_turn(struct owner *owner, struct item *item, bool done)
{
    if (done) {
        DL_DELETE(owner->items, item);
        free(item);
    }
    DL_DELETE(deferred.owners, owner);
    if (owner->items) {
        DL_APPEND(deferred.owners, owner);
    } else {
        HASH_DEL(deferred.by_user, owner);
        free(owner);
    }
}

/* --- the thread --- */

static void *close_deferred(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "closer");
    pthread_mutex_lock(&deferred.lock);
    for (;;) {
        struct owner *owner;
        struct item *item;
        bool done;

        while (!deferred.owners && !deferred.stop)
            pthread_cond_wait(&deferred.more, &deferred.lock);
        owner = deferred.owners;
        if (!owner)
            break;
        item = owner->items;
        pthread_mutex_unlock(&deferred.lock);
        done = close_slice(item);
        pthread_mutex_lock(&deferred.lock);
        end_turn(owner, item, done);
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
    deferred.stop = false;
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
static void close_later(const struct user *user, int fd, void *map, size_t bytes)
{
    struct item *item = malloc(sizeof(*item));
    struct owner *owner = NULL;

    if (item)
        *item = (struct item){.fd = fd, .map = map, .bytes = map ? bytes : 0};
    pthread_mutex_lock(&deferred.lock);
    if (item && deferred.started)
        owner = find_owner(user);
    if (owner) {
        DL_APPEND(owner->items, item);
        pthread_cond_signal(&deferred.more);
    }
    pthread_mutex_unlock(&deferred.lock);
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
    close_later(NULL, fd, NULL, 0);
}

void deferred_close_free_memory(const struct user *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes)
{
    if (bytes <= DEFERRED_CLOSE_MUCH)
        close_now(fd, map, map_bytes);
    else
        close_later(user, fd, map, map_bytes);
}
