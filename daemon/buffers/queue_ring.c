#include "daemon/buffers/queue_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/memfd.h"
#include "daemon/base/waker.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/fds.h"
#include "proto/util/futex.h"

static void free_puts(struct queue_ring *ring, const struct user *user)
{
    size_t size = queue_put_size(ring->view.depth);

    kept_fd_leave(ring->put_fd);
    if (ring->put_fd >= 0)
        deferred_close_free_memory(user, ring->put_fd, ring->view.put, size, size);
    else
        munmap(ring->view.put, size);
}

void queue_ring_free(struct queue_ring *ring, const struct user *user)
{
    struct queue_view *v = &ring->view;

    if (v->put)
        free_puts(ring, user);
    if (v->take)
        munmap(v->take, queue_take_size());
    kept_close(ring->take_fd);
    /* What it says of the end of the ring stays as long as a client has it mapped. */
    if (v->news)
        munmap(v->news, QUEUE_NEWS_SIZE);
    kept_close(ring->news_fd);
    for (int i = 0; i < QUEUE_FILES; i++)
        kept_key_leave(ring->left_key[i]);
    *ring = QUEUE_RING_NONE;
}

void queue_ring_close(struct queue_ring *ring)
{
    int *fds[QUEUE_FILES] = {&ring->put_fd, &ring->take_fd, &ring->news_fd};

    for (int i = 0; i < QUEUE_FILES; i++) {
        if (*fds[i] < 0)
            continue;
        ring->left_key[i] = kept_fd_part(*fds[i]);
        *fds[i] = -1;
    }
}

int queue_ring_new(struct queue_ring *ring, const struct user *user, uint32_t number,
                   uint32_t depth)
{
    void *put = NULL, *take = NULL, *news = NULL;
    int r;

    *ring = QUEUE_RING_NONE;
    ring->view.depth = depth;
    ring->view.mask = queue_slots(depth) - 1;
    ring->view.number = number;
    r = memfd_read_only_new("npud-queue-news", QUEUE_NEWS_SIZE, &ring->news_fd, &news);
    if (r == 0)
        r = memfd_read_only_new("npud-queue", queue_put_size(depth), &ring->put_fd, &put);
    if (r == 0)
        r = memfd_read_only_new("npud-queue", queue_take_size(), &ring->take_fd, &take);
    ring->view.put = put;
    ring->view.take = take;
    ring->view.news = news;
    if (r < 0)
        queue_ring_free(ring, user);
    return r;
}

void queue_ring_wake(const struct queue_view *v)
{
    queue_disarm_all(&v->take->waiting);
    atomic_fetch_add(&v->put->wake, 1);
    waker_wake(&v->put->wake);
    KILL_HERE(TAKERS_WOKEN);
    queue_disarm_all(&v->put->waiting);
    atomic_fetch_add(&v->take->wake, 1);
    waker_wake(&v->take->wake);
}

void queue_ring_change_words(const struct queue_view *v)
{
    queue_disarm_all(&v->take->waiting);
    atomic_fetch_add(&v->put->wake, 1);
    queue_disarm_all(&v->put->waiting);
    atomic_fetch_add(&v->take->wake, 1);
}

bool queue_ring_wake_some(const struct queue_view *v, unsigned n)
{
    bool takers_awake = futex_wake_some(&v->put->wake, n) < n;

    return futex_wake_some(&v->take->wake, n) < n && takers_awake;
}

static int open_file(int fd, bool writable)
{
    int r = writable ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : memfd_open_read_only(fd);

    return r < 0 && writable ? -errno : r;
}

void queue_ring_files(const struct queue_ring *ring, uint32_t rights,
                      struct queue_file files[QUEUE_FILES])
{
    files[0] = (struct queue_file){ring->put_fd, rights & QUEUE_PUT};
    files[1] = (struct queue_file){ring->take_fd, rights & QUEUE_TAKE};
    files[2] = (struct queue_file){ring->news_fd, false};
}

int queue_ring_open(const struct queue_ring *ring, uint32_t rights, int fds[QUEUE_FILES])
{
    struct queue_file files[QUEUE_FILES];

    queue_ring_files(ring, rights, files);
    for (int i = 0; i < QUEUE_FILES; i++) {
        fds[i] = open_file(files[i].fd, files[i].writable);
        if (fds[i] >= 0)
            continue;
        for (int opened = 0; opened < i; opened++)
            close(fds[opened]);
        return fds[i];
    }
    return 0;
}

/* --- over the end of npud --- */

void queue_ring_keep(const struct queue_ring *ring)
{
    kept_fd(ring->put_fd);
    kept_fd(ring->take_fd);
    kept_fd(ring->news_fd);
}

static uint64_t key_of_file(int fd, uint64_t left_key)
{
    return fd < 0 ? left_key : kept_key(fd);
}

struct ring_record queue_ring_record(const struct queue_ring *ring)
{
    return (struct ring_record){.put_key = key_of_file(ring->put_fd, ring->left_key[0]),
                                .take_key = key_of_file(ring->take_fd, ring->left_key[1]),
                                .news_key = key_of_file(ring->news_fd, ring->left_key[2]),
                                .number = ring->view.number,
                                .depth = ring->view.depth};
}

static void *map_again(int fd, size_t size)
{
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

bool queue_ring_restore(struct queue_ring *ring, const struct ring_record *r)
{
    struct queue_view *v = &ring->view;

    *ring = QUEUE_RING_NONE;
    if (r->depth < QUEUE_DEPTH_MIN || r->depth > QUEUE_DEPTH_MAX || r->number >= QUEUE_NUMBERS)
        return false;
    v->depth = r->depth;
    v->mask = queue_slots(r->depth) - 1;
    v->number = r->number;
    ring->put_fd = kept_fd_take(r->put_key);
    ring->take_fd = kept_fd_take(r->take_key);
    ring->news_fd = kept_fd_take(r->news_key);
    v->put = map_again(ring->put_fd, queue_put_size(r->depth));
    v->take = map_again(ring->take_fd, queue_take_size());
    v->news = map_again(ring->news_fd, QUEUE_NEWS_SIZE);
    return v->put && v->take && v->news;
}
