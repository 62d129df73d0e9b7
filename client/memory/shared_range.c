#include "client/memory/shared_range.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

/*
 * The lock is held while pages are exchanged, and while the process forks: a child could not finish
 * an exchange. It is no part of a heap, which a range may have in it.
 */
static struct {
    pthread_mutex_t lock;
    struct shared_range *list;
    int ends[2]; /* of a socket, the parent's and the child's, while the process forks; -1: none */
} ranges = {.lock = PTHREAD_MUTEX_INITIALIZER, .ends = {-1, -1}};

static void close_ends(void)
{
    for (int i = 0; i < 2; i++) {
        if (ranges.ends[i] >= 0)
            close(ranges.ends[i]);
        ranges.ends[i] = -1;
    }
}

static void prepare_fork(void)
{
    pthread_mutex_lock(&ranges.lock);
    /* Without descriptors the parent goes on at once, and the child may see what it writes then. */
    if (ranges.list && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ranges.ends) != 0)
        ranges.ends[0] = ranges.ends[1] = -1;
}

/* Until the child has copied its ranges, or was killed. */
static void await_child(void)
{
    int saved = errno;
    char done;

    if (ranges.ends[0] >= 0) {
        close(ranges.ends[1]);
        ranges.ends[1] = -1;
        while (read(ranges.ends[0], &done, 1) < 0 && errno == EINTR)
            ;
        close_ends();
    }
    pthread_mutex_unlock(&ranges.lock);
    errno = saved;
}

/* A range that cannot be copied must not stay the parent's: then no access is better. */
static void keep_own_pages(void)
{
    struct shared_range *r;

    DL_FOREACH (ranges.list, r)
        if (host_pages_keep(r->start, r->size, r->id, true) != HOST_PAGES_FINE &&
            mmap((void *)r->start, r->size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            mprotect((void *)r->start, r->size, PROT_NONE);
    ranges.list = NULL;
}

static void enter_child(void)
{
    if (ranges.ends[0] >= 0) {
        close(ranges.ends[0]); /* the process may be at its limit, and the copying opens a file */
        ranges.ends[0] = -1;
    }
    keep_own_pages();
    /*
     * A byte, not only the end of the socket: another process may have got the descriptors. No
     * signal if the parent was killed.
     */
    if (ranges.ends[1] >= 0)
        while (send(ranges.ends[1], "", 1, MSG_NOSIGNAL) < 0 && errno == EINTR)
            ;
    close_ends();
    pthread_mutex_unlock(&ranges.lock);
}

static void install_handlers(void)
{
    pthread_atfork(prepare_fork, await_child, enter_child);
}

enum host_pages_fault shared_range_begin(struct shared_range *r, uintptr_t shared)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum host_pages_fault fault;

    pthread_once(&once, install_handlers);
    pthread_mutex_lock(&ranges.lock);
    fault = host_pages_share(r->start, r->size, shared, &r->id);
    if (fault == HOST_PAGES_FINE)
        DL_APPEND(ranges.list, r);
    pthread_mutex_unlock(&ranges.lock);
    return fault;
}

enum host_pages_fault shared_range_end(struct shared_range *r)
{
    enum host_pages_fault fault;

    pthread_mutex_lock(&ranges.lock);
    fault = host_pages_keep(r->start, r->size, r->id, false);
    if (fault == HOST_PAGES_FINE)
        DL_DELETE(ranges.list, r);
    pthread_mutex_unlock(&ranges.lock);
    return fault;
}
