#include "daemon/base/deferred_close.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"

#define UNMAP_SLICE ((size_t)2 << 20)

struct item {
    int fd;
    void *map; /* NULL: none */
    size_t bytes;
    uint64_t number;          /* of all that ever were */
    struct item *prev, *next; /* owner->items, oldest first */
};

/* A user with something to be closed. */
struct owner {
    const struct user *user; /* compared only: it may have gone */
    struct item *items;
    struct owner *prev, *next; /* closer.owners, the next in turn first */
    UT_hash_handle hh;
};

static struct closer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct owner *owners, *by_user;
    uint64_t last;           /* number of an item */
    _Atomic uint64_t closed; /* how many; changes under the lock */
    struct job *awaits;      /* sent when the next one has been closed; or NULL */
    bool stop;
    bool started;
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

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

    HASH_FIND_PTR(closer.by_user, &user, owner);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->user = user;
    HASH_ADD_PTR(closer.by_user, user, owner);
    if (!owner->hh.tbl) {
        free(owner);
        return NULL;
    }
    DL_APPEND(closer.owners, owner);
    return owner;
}

/* The owner whose turn it was, and what came of it. */
static void end_turn(struct owner *owner, struct item *item, bool done)
{
    if (done) {
        DL_DELETE(owner->items, item);
        free(item);
        atomic_fetch_add_explicit(&closer.closed, 1, memory_order_release);
        if (closer.awaits)
            job_send(closer.awaits);
        closer.awaits = NULL;
    }
    DL_DELETE(closer.owners, owner);
    if (owner->items) {
        DL_APPEND(closer.owners, owner);
    } else {
        HASH_DEL(closer.by_user, owner);
        free(owner);
    }
}

/* --- the thread --- */

static void *close_deferred(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "closer");
    pthread_mutex_lock(&closer.lock);
    for (;;) {
        struct owner *owner;
        struct item *item;
        bool done;

        while (!closer.owners && !closer.stop)
            pthread_cond_wait(&closer.more, &closer.lock);
        owner = closer.owners;
        if (!owner)
            break;
        item = owner->items;
        pthread_mutex_unlock(&closer.lock);
        done = close_slice(item);
        pthread_mutex_lock(&closer.lock);
        end_turn(owner, item, done);
    }
    pthread_mutex_unlock(&closer.lock);
    return NULL;
}

int deferred_close_start(void)
{
    int r = pthread_create(&closer.thread, NULL, close_deferred, NULL);

    closer.started = r == 0;
    return -r;
}

void deferred_close_stop(void)
{
    if (!closer.started)
        return;
    pthread_mutex_lock(&closer.lock);
    closer.stop = true;
    pthread_cond_signal(&closer.more);
    pthread_mutex_unlock(&closer.lock);
    pthread_join(closer.thread, NULL);
    closer.stop = false;
    closer.started = false;
}

/* On the thread, if there is one, and memory to tell it. */
static void close_later(const struct user *user, int fd, void *map, size_t bytes)
{
    struct item *item = malloc(sizeof(*item));
    struct owner *owner = NULL;

    if (item)
        *item = (struct item){.fd = fd, .map = map, .bytes = map ? bytes : 0};
    pthread_mutex_lock(&closer.lock);
    if (item && closer.started)
        owner = find_owner(user);
    if (owner) {
        item->number = ++closer.last;
        DL_APPEND(owner->items, item);
        pthread_cond_signal(&closer.more);
    }
    pthread_mutex_unlock(&closer.lock);
    if (owner)
        return;
    free(item);
    close_now(fd, map, bytes);
}

void deferred_close_free_memory(const struct user *user, int fd, void *map, size_t map_bytes,
                                uint64_t bytes)
{
    if (bytes <= DEFERRED_CLOSE_MUCH)
        close_now(fd, map, map_bytes);
    else
        close_later(user, fd, map, map_bytes);
}

/* --- waiting for that --- */

/* Acquire: what was closed before it was counted is there for the attempt that begins. */
uint64_t deferred_close_count(void)
{
    return atomic_load_explicit(&closer.closed, memory_order_acquire);
}

/* Under the lock. */
static bool is_left(uint64_t last)
{
    const struct owner *owner;

    DL_FOREACH (closer.owners, owner)
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
    else if (!is_left(*last))
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
