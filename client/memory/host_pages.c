#include "client/memory/host_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* --- mappings of this process --- */

struct mapping {
    uintptr_t start, end;
    bool writable, shared, named; /* named: a file's, or one of the kernel's own names */
    uint64_t inode;
};

/* A line of /proc/self/maps, of which names longer than this are not looked at. */
struct maps_line {
    char text[128];
    size_t length;
};

static void parse_line(const char *text, struct mapping *m)
{
    char *at;

    m->start = strtoull(text, &at, 16);
    m->end = strtoull(at + 1, &at, 16);
    m->writable = strncmp(at + 1, "rw", 2) == 0;
    m->shared = at[4] == 's';
    strtoull(at + 5, &at, 16); /* offset */
    strtoull(at, &at, 16);     /* device */
    strtoull(at + 1, &at, 16);
    m->inode = strtoull(at, &at, 10);
    at += strspn(at, " ");
    m->named = at[0] != '\0' && strcmp(at, "[heap]") != 0 && strncmp(at, "[anon:", 6) != 0;
}

/* False: this is not the end of a line. */
static bool line_add(struct maps_line *l, char c)
{
    if (c != '\n') {
        if (l->length < sizeof(l->text) - 1)
            l->text[l->length++] = c;
        return false;
    }
    l->text[l->length] = '\0';
    l->length = 0;
    return true;
}

typedef enum host_pages_fault mapping_fn(void *arg, const struct mapping *m);

/*
 * Call fn for each mapping that has part of the range in it, in ascending order, until it finds a
 * fault. With system calls alone: a child of fork() may find the locks of stdio held.
 */
static enum host_pages_fault walk_mappings(uintptr_t start, size_t size, mapping_fn *fn, void *arg)
{
    enum host_pages_fault fault = HOST_PAGES_FINE;
    struct maps_line line = {.length = 0};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char buffer[4096];
    struct mapping m;
    ssize_t n = 1;

    if (fd < 0)
        return HOST_PAGES_FAILED;
    while (fault == HOST_PAGES_FINE && (n = read(fd, buffer, sizeof(buffer))) > 0)
        for (ssize_t i = 0; i < n && fault == HOST_PAGES_FINE; i++) {
            if (!line_add(&line, buffer[i]))
                continue;
            parse_line(line.text, &m);
            if (m.start < start + size && m.end > start)
                fault = fn(arg, &m);
        }
    close(fd);
    return n < 0 ? HOST_PAGES_FAILED : fault;
}

/* --- the pieces of a range, one for each mapping: only within one can pages be moved --- */

#define PIECES_MAX 128

struct piece {
    uintptr_t start;
    size_t size;
    uintptr_t aside; /* where its pages are meanwhile */
};

struct pieces {
    uintptr_t start, end; /* of the range */
    uint64_t id;          /* what its pages are to be of; 0: private ones */
    size_t n;
    struct piece list[PIECES_MAX];
};

static enum host_pages_fault add_piece(struct pieces *p, const struct mapping *m)
{
    struct piece *last;

    if (p->n == PIECES_MAX)
        return HOST_PAGES_TOO_MANY;
    last = &p->list[p->n++];
    last->start = m->start > p->start ? m->start : p->start;
    last->size = (m->end < p->end ? m->end : p->end) - last->start;
    return HOST_PAGES_FINE;
}

static enum host_pages_fault add_private(void *arg, const struct mapping *m)
{
    struct pieces *p = arg;
    uintptr_t reached = p->n > 0 ? p->list[p->n - 1].start + p->list[p->n - 1].size : p->start;

    if (m->start > reached)
        return HOST_PAGES_ABSENT;
    if (!m->writable || m->shared || m->named || m->inode != 0)
        return HOST_PAGES_OTHER;
    return add_piece(p, m);
}

static enum host_pages_fault add_shared(void *arg, const struct mapping *m)
{
    struct pieces *p = arg;

    return m->shared && m->inode == p->id ? add_piece(p, m) : HOST_PAGES_FINE;
}

/*
 * Between two system calls of an exchange the range cannot be touched, so the thread that makes it
 * must not have its stack, errno or what else is thread-local there.
 */
static bool is_own(uintptr_t start, size_t size)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0), local = (uintptr_t)&errno;

    return stack - start < size || local - start < size;
}

static enum host_pages_fault find_private(struct pieces *p, uintptr_t start, size_t size)
{
    enum host_pages_fault fault;

    *p = (struct pieces){.start = start, .end = start + size};
    if (is_own(start, size))
        return HOST_PAGES_IN_USE;
    fault = walk_mappings(start, size, add_private, p);
    if (fault != HOST_PAGES_FINE)
        return fault;
    if (p->n == 0 || p->list[p->n - 1].start + p->list[p->n - 1].size < p->end)
        return HOST_PAGES_ABSENT;
    return HOST_PAGES_FINE;
}

enum host_pages_fault host_pages_check(uintptr_t start, size_t size)
{
    struct pieces p;

    return find_private(&p, start, size);
}

/* --- keeping other threads out --- */

/* Threads that touch pages which are not there sleep until the descriptor is closed. -1: cannot. */
static int hold_threads(uintptr_t start, size_t size, uint64_t features, uint64_t mode)
{
    const int flags[] = {O_CLOEXEC, O_CLOEXEC | UFFD_USER_MODE_ONLY};
    struct uffdio_register range = {.range = {.start = start, .len = size}, .mode = mode};
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int fd = -1;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && fd < 0; i++)
        fd = (int)syscall(SYS_userfaultfd, flags[i]);
    if (fd < 0)
        return -1;
    if (ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0)
        return fd;
    close(fd);
    return -1;
}

static void let_threads_go(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* --- copying --- */

/*
 * The pages of `to` come in batches, while they are in the cache of the processor: a fault for each
 * takes longer. Before Linux 5.14 there are the faults.
 */
#define BATCH ((size_t)1 << 20)

static void copy_pages(void *to, const void *from, size_t size)
{
    for (size_t at = 0; at < size; at += BATCH) {
        size_t n = size - at < BATCH ? size - at : BATCH;

        madvise((char *)to + at, n, MADV_POPULATE_WRITE);
        memcpy((char *)to + at, (const char *)from + at, n);
    }
}

/* --- private pages become shared ones --- */

static void move_back(struct pieces *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mremap((void *)p->list[i].aside, p->list[i].size, p->list[i].size,
               MREMAP_MAYMOVE | MREMAP_FIXED, (void *)p->list[i].start);
}

/* The pages leave the range, each mapping's at once; the addresses stay, without pages. */
static bool move_aside(struct pieces *p)
{
    for (size_t i = 0; i < p->n; i++) {
        /* The kernel looks at the last argument, too: anywhere. */
        void *to = mremap((void *)p->list[i].start, p->list[i].size, p->list[i].size,
                          MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

        if (to == MAP_FAILED) {
            move_back(p, i);
            return false;
        }
        p->list[i].aside = (uintptr_t)to;
    }
    return true;
}

/*
 * The range may hold anything of the program's heap, and of the library's that is beside it: from
 * move_aside() on, nothing is touched here but the stack, the pages that are aside and the new
 * ones.
 */
static bool exchange_held(struct pieces *p, uintptr_t shared)
{
    size_t size = p->end - p->start;

    for (size_t i = 0; i < p->n; i++)
        copy_pages((void *)(shared + (p->list[i].start - p->start)), (void *)p->list[i].aside,
                   p->list[i].size);
    if (mremap((void *)shared, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)p->start) ==
        MAP_FAILED) {
        move_back(p, p->n);
        return false;
    }
    for (size_t i = 0; i < p->n; i++)
        munmap((void *)p->list[i].aside, p->list[i].size);
    return true;
}

static bool exchange_unheld(const struct pieces *p, uintptr_t shared)
{
    size_t size = p->end - p->start;

    copy_pages((void *)shared, (void *)p->start, size);
    return mremap((void *)shared, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)p->start) !=
           MAP_FAILED;
}

static enum host_pages_fault take_id(void *arg, const struct mapping *m)
{
    *(uint64_t *)arg = m->inode;
    return HOST_PAGES_FINE;
}

enum host_pages_fault host_pages_share(uintptr_t start, size_t size, uintptr_t shared, uint64_t *id)
{
    struct pieces p;
    enum host_pages_fault fault = find_private(&p, start, size);
    bool ok;
    int fd;

    if (fault == HOST_PAGES_FINE)
        fault = walk_mappings(shared, size, take_id, id);
    if (fault != HOST_PAGES_FINE)
        return fault;
    fd = hold_threads(start, size, 0, UFFDIO_REGISTER_MODE_MISSING);
    if (fd >= 0 && !move_aside(&p)) {
        close(fd); /* else it would hold this thread, too */
        fd = -1;
    }
    ok = fd >= 0 ? exchange_held(&p, shared) : exchange_unheld(&p, shared);
    let_threads_go(fd);
    return ok ? HOST_PAGES_FINE : HOST_PAGES_FAILED;
}

/* --- and back --- */

/*
 * Threads that touch the piece wait from here on. Its pages stay where they are, in the memory that
 * is shared, and the process forgets where that is: the next touch of each is a minor fault.
 */
static int hold_shared(const struct piece *p)
{
    int fd = hold_threads(p->start, p->size, UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_MISSING_SHMEM,
                          UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_MISSING);

    if (fd < 0 || madvise((void *)p->start, p->size, MADV_DONTNEED) == 0 ||
        madvise((void *)p->start, p->size, MADV_DONTNEED_LOCKED) == 0) /* after mlock(2) */
        return fd;
    close(fd);
    return -1;
}

/* `shared`: the same pages as the piece's, where no thread is kept from them. */
static bool put_private(const struct piece *p, void *shared, bool alone)
{
    void *own = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok;
    int fd;

    if (own == MAP_FAILED)
        return false;
    fd = alone ? -1 : hold_shared(p);
    copy_pages(own, shared, p->size);
    ok = mremap(own, p->size, p->size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)p->start) !=
         MAP_FAILED;
    let_threads_go(fd);
    if (!ok)
        munmap(own, p->size);
    return ok;
}

static bool keep_piece(const struct piece *p, bool alone)
{
    /* Of length 0: a second mapping of what is shared. */
    void *shared = mremap((void *)p->start, 0, p->size, MREMAP_MAYMOVE);
    bool ok;

    if (shared == MAP_FAILED)
        return false;
    ok = put_private(p, shared, alone);
    munmap(shared, p->size);
    return ok;
}

enum host_pages_fault host_pages_keep(uintptr_t start, size_t size, uint64_t id, bool alone)
{
    struct pieces p = {.start = start, .end = start + size, .id = id};
    enum host_pages_fault fault = walk_mappings(start, size, add_shared, &p);

    for (size_t i = 0; i < p.n && fault == HOST_PAGES_FINE; i++)
        if (!keep_piece(&p.list[i], alone))
            fault = HOST_PAGES_FAILED;
    return fault;
}
