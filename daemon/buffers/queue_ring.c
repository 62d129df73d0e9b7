#include "daemon/buffers/queue_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/memfd.h"
#include "proto/util/futex.h"

#define RING_PAGE ((size_t)4096)

void queue_ring_free(struct queue_ring *ring)
{
    struct queue_view *v = &ring->view;

    /*
     * The memory is given back even if clients still have it mapped. The first page stays: it says
     * that the ring has ended.
     */
    if (ring->put_fd >= 0)
        deferred_close_free_shared(ring->put_fd, v->put, v->put ? queue_put_size(v->depth) : 0,
                                   RING_PAGE, queue_put_size(v->depth) - RING_PAGE);
    if (v->take)
        munmap(v->take, queue_take_size());
    if (ring->take_fd >= 0)
        close(ring->take_fd);
    *ring = (struct queue_ring){.put_fd = -1, .take_fd = -1};
}

/*
 * A client with a read-only descriptor could open the file again for writing, through
 * /proc/self/fd, if its mode allowed that. npud itself must be able to open it for reading, and may
 * not be root.
 */
static int make_file(size_t size, int *fd, void **map)
{
    int r = memfd_map_new("npud-queue", size, fd, map);

    return r < 0 ? r : fchmod(*fd, S_IRUSR) < 0 ? -errno : 0;
}

int queue_ring_new(struct queue_ring *ring, uint32_t number, uint32_t depth)
{
    void *put = NULL, *take = NULL;
    int r;

    *ring = (struct queue_ring){.put_fd = -1, .take_fd = -1};
    ring->view.depth = depth;
    ring->view.mask = queue_slots(depth) - 1;
    ring->view.number = number;
    r = make_file(queue_put_size(depth), &ring->put_fd, &put);
    if (r == 0)
        r = make_file(queue_take_size(), &ring->take_fd, &take);
    ring->view.put = put;
    ring->view.take = take;
    if (r < 0)
        queue_ring_free(ring);
    return r;
}

void queue_ring_wake(const struct queue_view *v)
{
    queue_disarm_all(&v->take->waiting);
    atomic_fetch_add(&v->put->wake, 1);
    futex_wake_all(&v->put->wake);
    queue_disarm_all(&v->put->waiting);
    atomic_fetch_add(&v->take->wake, 1);
    futex_wake_all(&v->take->wake);
}

static int open_file(int fd, bool writable)
{
    int r = writable ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : memfd_open_read_only(fd);

    return r < 0 && writable ? -errno : r;
}

int queue_ring_open(const struct queue_ring *ring, uint32_t rights, int *put_fd, int *take_fd)
{
    *take_fd = -1;
    *put_fd = open_file(ring->put_fd, rights & QUEUE_PUT);
    if (*put_fd < 0)
        return *put_fd;
    *take_fd = open_file(ring->take_fd, rights & QUEUE_TAKE);
    if (*take_fd >= 0)
        return 0;
    close(*put_fd);
    *put_fd = -1;
    return *take_fd;
}
