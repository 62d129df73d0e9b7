#include "daemon/base/deferred_close.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/client_socket.h"
#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"
#include "daemon/base/worker.h"

#define UNMAP_SLICE ((size_t)2 << 20)

enum how {
    HOW_CLOSE,
    HOW_SAY,    /* to a client's socket, which stays open */
    HOW_SHUT,   /* the same */
    HOW_SOCKET, /* shut down, and closed by client_socket_close() */
};

struct item {
    int fd;
    enum how how;
    bool takes_fds; /* a socket */
    void *map;      /* NULL: none */
    size_t bytes;
    uint64_t number;          /* of all that ever were */
    struct item *prev, *next; /* owner->items, oldest first */
    size_t size;              /* HOW_SAY: of the packet */
    unsigned char packet[];
};

/* A user with something to be closed: each turn closes some of it. */
struct owner {
    struct errand errand;
    struct lane *lane;
    const void *user; /* compared only: it may have gone */
    struct item *items;
    UT_hash_handle hh;
};

/*
 * A thread, and whose things it has to close. Two, so that freed memory never waits for the watches
 * of a client, nor they for it.
 */
struct lane {
    struct worker worker;
    struct owner *by_user;
};

static enum errand_end close_some(struct errand *errand);

static struct closer {
    pthread_mutex_t lock;
    struct lane memory, watched;
    uint64_t last;           /* number of an item */
    _Atomic uint64_t closed; /* how many; changes under the lock */
    struct job *awaits;      /* sent when the next one has been closed; or NULL */
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .memory = {.worker = WORKER("closer", close_some)},
            .watched = {.worker = WORKER("watch-closer", close_some)}};

static void close_one(const struct item *item)
{
    switch (item->how) {
    case HOW_CLOSE:
        close(item->fd);
        break;
    case HOW_SAY:
        (void)send(item->fd, item->packet, item->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case HOW_SHUT:
        shutdown(item->fd, SHUT_RDWR);
        break;
    case HOW_SOCKET:
        /* The keeper may have a copy for a moment, and so this close may not be the last one. */
        shutdown(item->fd, SHUT_RDWR);
        client_socket_close(item->fd, item->takes_fds);
        break;
    }
}

static void close_now(const struct item *item)
{
    if (item->map)
        munmap(item->map, item->bytes);
    close_one(item);
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
    close_one(item);
    return true;
}

/* --- under the lock --- */

/* NULL: no memory, or no thread. */
static struct owner *find_owner(struct lane *lane, const void *user)
{
    struct owner *owner;

    HASH_FIND_PTR(lane->by_user, &user, owner);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->lane = lane;
    owner->user = user;
    HASH_ADD_PTR(lane->by_user, user, owner);
    if (owner->hh.tbl && worker_put(&lane->worker, &owner->errand))
        return owner;
    if (owner->hh.tbl)
        HASH_DEL(lane->by_user, owner);
    free(owner);
    return NULL;
}

/* The item of whose turn it was, and whether it is closed. */
static enum errand_end end_turn(struct owner *owner, struct item *item, bool closed)
{
    if (!closed)
        return ERRAND_AGAIN;
    DL_DELETE(owner->items, item);
    free(item);
    atomic_fetch_add_explicit(&closer.closed, 1, memory_order_release);
    if (closer.awaits)
        job_send(closer.awaits);
    closer.awaits = NULL;
    if (owner->items)
        return ERRAND_AGAIN;
    HASH_DEL(owner->lane->by_user, owner);
    return ERRAND_DONE;
}

/* --- the threads --- */

static enum errand_end close_some(struct errand *errand)
{
    struct owner *owner = (struct owner *)errand; /* its first member */
    struct item *item;
    enum errand_end end;
    bool closed;

    pthread_mutex_lock(&closer.lock);
    item = owner->items;
    pthread_mutex_unlock(&closer.lock);
    closed = close_slice(item);
    pthread_mutex_lock(&closer.lock);
    end = end_turn(owner, item, closed);
    pthread_mutex_unlock(&closer.lock);
    return end;
}

int deferred_close_start(void)
{
    int r = worker_start(&closer.memory.worker);

    return r < 0 ? r : worker_start(&closer.watched.worker);
}

void deferred_close_stop(void)
{
    worker_stop(&closer.memory.worker);
    worker_stop(&closer.watched.worker);
}

/* On the thread, if there is one, and memory to tell it. Takes the item over. */
static void close_later(struct lane *lane, const void *user, struct item *item)
{
    struct owner *owner;

    pthread_mutex_lock(&closer.lock);
    owner = find_owner(lane, user);
    if (owner) {
        item->number = ++closer.last;
        DL_APPEND(owner->items, item);
    }
    pthread_mutex_unlock(&closer.lock);
    if (owner)
        return;
    close_now(item);
    free(item);
}

static void close_like(struct lane *lane, const void *user, const struct item *like)
{
    struct item *item = malloc(sizeof(*item));

    if (item) {
        *item = *like;
        close_later(lane, user, item);
    } else {
        close_now(like);
    }
}

void deferred_close_free_memory(const void *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes)
{
    const struct item item = {.fd = fd, .map = map, .bytes = map ? map_bytes : 0};

    if (bytes <= DEFERRED_CLOSE_MUCH)
        close_now(&item);
    else
        close_like(&closer.memory, user, &item);
}

void deferred_close_watched(const void *user, int fd)
{
    close_like(&closer.watched, user, &(struct item){.fd = fd, .how = HOW_CLOSE});
}

void deferred_close_say(const void *user, int socket, const void *packet, size_t size)
{
    struct item *item = malloc(sizeof(*item) + size);

    if (!item)
        return;
    *item = (struct item){.fd = socket, .how = HOW_SAY, .size = size};
    memcpy(item->packet, packet, size);
    close_later(&closer.watched, user, item);
}

void deferred_close_shut(const void *user, int socket)
{
    close_like(&closer.watched, user, &(struct item){.fd = socket, .how = HOW_SHUT});
}

void deferred_close_socket(const void *user, int socket, bool takes_fds)
{
    close_like(&closer.watched, user,
               &(struct item){.fd = socket, .how = HOW_SOCKET, .takes_fds = takes_fds});
}

/* --- waiting for that --- */

/* Acquire: what was closed before it was counted is there for the attempt that begins. */
uint64_t deferred_close_count(void)
{
    return atomic_load_explicit(&closer.closed, memory_order_acquire);
}

/* Under the lock. */
static bool is_left(const struct lane *lane, uint64_t last)
{
    const struct owner *owner;

    for (owner = lane->by_user; owner; owner = owner->hh.next)
        if (owner->items->number <= last)
            return true;
    return false;
}

enum deferred deferred_close_await(uint64_t closed, uint64_t *last, struct job *job)
{
    enum deferred r = DEFERRED_LATER;

    pthread_mutex_lock(&closer.lock);
    if (*last == 0)
        *last = closer.last;
    if (atomic_load_explicit(&closer.closed, memory_order_relaxed) != closed)
        r = DEFERRED_CLOSED;
    else if (!is_left(&closer.memory, *last) && !is_left(&closer.watched, *last))
        r = DEFERRED_NONE;
    else if (job)
        closer.awaits = job;
    pthread_mutex_unlock(&closer.lock);
    return r;
}

void deferred_close_forget(void)
{
    pthread_mutex_lock(&closer.lock);
    closer.awaits = NULL;
    pthread_mutex_unlock(&closer.lock);
}
