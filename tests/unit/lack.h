/*
 * What npud lacks, and where it finds it: segments that take long to look at, descriptors that are
 * used up, and memory that is being freed. This process is npud and its clients.
 */
#pragma once

#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/memfd.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "proto/shm/mbuf_ref.h"
#include "requester.h"

#define STRIDE   64u
#define COUNT    60000u
#define SEGMENTS 16 /* a look at all of them takes many steps */
#define MUCH     ((uint64_t)4 << 20)

#define PIECES 2 /* in which it goes */

static _Atomic unsigned allowed = UINT_MAX; /* pieces that the thread which frees memory may free */

/* Only that thread unmaps so much at once here. */
int munmap(void *addr, size_t length)
{
    if (length == MUCH / PIECES) {
        AWAIT(atomic_load(&allowed) > 0);
        atomic_fetch_sub(&allowed, 1);
    }
    return (int)syscall(SYS_munmap, addr, length);
}

static inline struct segment *add_segment(struct session *session, uint64_t stride, uint32_t count)
{
    struct segment *s = NULL;

    ck_assert_int_eq(segment_new(pool_get(session), stride, count, &s), 0);
    return s;
}

/* All slots were in use, and the last one with data is: a look at it passes over all others. */
static inline void use_last_slot(struct segment *s, const struct session *session)
{
    for (uint32_t i = 0; i < segment_slots(&s->view); i++)
        atomic_store(&s->view.mbufs[i].word, 0);
    atomic_store(&s->view.page->hint[0], 0);
    mbuf_hold(&s->view.mbufs[s->view.n_data - 1], session->peer_id);
}

static inline void add_used_segments(struct session *session)
{
    for (int i = 0; i < SEGMENTS; i++)
        use_last_slot(add_segment(session, STRIDE, COUNT), session);
}

/* This process, which is npud, may have none from this number on; -1: as many as it likes. */
static inline void limit_descriptors(int fd)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = fd < 0 ? limit.rlim_max : (rlim_t)fd;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static inline int lowest_free(void)
{
    int fd = dup(0);

    ck_assert_int_ge(fd, 0);
    close(fd);
    return fd;
}

/*
 * All numbers are in use. Not by a low limit: the kernel compares that also with what lies in the
 * sockets of all processes of the user, and would not send what other tests leave no room for.
 */
#define NUMBERS 4096

static int used_up[NUMBERS];
static unsigned n_used_up;

static inline void use_up_descriptors(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit_descriptors(limit.rlim_max < NUMBERS ? (int)limit.rlim_max : NUMBERS);
    while ((used_up[n_used_up] = dup(0)) >= 0)
        n_used_up++;
}

static inline void give_descriptors_back(void)
{
    while (n_used_up > 0)
        close(used_up[--n_used_up]);
    limit_descriptors(-1);
}

/* Memory that is much, and is being freed. */
static inline void free_slowly(void)
{
    void *map;
    int fd;

    ck_assert_int_eq(memfd_map_new("test", MUCH, &fd, &map), 0);
    deferred_close_free_memory(NULL, fd, map, MUCH, MUCH);
}
