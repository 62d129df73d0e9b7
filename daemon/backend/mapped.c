#include "daemon/backend/mapped.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/filled.h"
#include "daemon/kept/device_record.h"
#include "proto/util/copy_large.h"
#include "proto/util/reduce_apply.h"

/* About 3 us of memcpy: long enough to stream, short enough that no other session on the device
 * notices. */
#define SLICE (32 * 1024)
/* The same of a large copy, whose bytes are faster: what is between two slices counts more. */
#define LARGE_SLICE (64 * 1024)
/* The same for numbers that have to be unpacked one by one. */
#define REDUCE_SLICE 2048
static_assert(REDUCE_SLICE <= DEVICE_SLICE_MAX, "a slice that is kept");

struct mapped *mapped_new(int fd, uint64_t size, bool counted)
{
    struct mapped *m = calloc(1, sizeof(*m));

    if (m)
        *m = (struct mapped){.fd = fd, .size = size, .counted = counted, .holders = 1};
    return m;
}

void mapped_leave(struct mapped *m, const struct user *user)
{
    if (--m->holders > 0)
        return;
    deferred_close_free_memory(user, m->fd, atomic_load_explicit(&m->map, memory_order_relaxed),
                               m->size, m->size);
    free(m);
}

/* Engines of two devices may come here at the same time. */
static unsigned char *map_once(struct mapped *m)
{
    unsigned char *map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    unsigned char *other = NULL;

    if (map == MAP_FAILED)
        return NULL;
    if (m->counted)
        filled_watch(map, m->size);
    /* Release: a reader of the address finds the mapping registered. */
    if (atomic_compare_exchange_strong_explicit(&m->map, &other, map, memory_order_acq_rel,
                                                memory_order_acquire))
        return map;
    munmap(map, m->size);
    return other;
}

bool mapped_usable(struct mapped *m)
{
    return atomic_load_explicit(&m->map, memory_order_acquire) || map_once(m);
}

/* The one place where memory becomes an address. */
unsigned char *mapped_at(const struct mapped *m, uint64_t offset)
{
    unsigned char *map = atomic_load_explicit(&m->map, memory_order_relaxed);

    assert(map && offset <= m->size);
    return map + offset;
}

/* --- words --- */

static _Atomic uint64_t *word_at(const struct mapped *m, uint64_t offset)
{
    return (_Atomic uint64_t *)(void *)mapped_at(m, offset);
}

uint64_t mapped_word_read(const struct mapped *m, uint64_t offset)
{
    return atomic_load_explicit(word_at(m, offset), memory_order_acquire);
}

void mapped_word_write(const struct mapped *m, uint64_t offset, uint64_t value)
{
    atomic_store_explicit(word_at(m, offset), value, memory_order_release);
}

void mapped_words_read(const struct mapped *m, uint64_t offset, uint64_t *to, unsigned words)
{
    const _Atomic uint64_t *word = word_at(m, offset);

    for (unsigned i = 0; i < words; i++)
        to[i] = atomic_load_explicit(&word[i], memory_order_relaxed);
}

/* --- work --- */

static void reduce_slice(const struct work *w, const unsigned char *dst, const unsigned char *src,
                         uint64_t n)
{
    memcpy(w->slice, dst, n);
    reduce_apply(w->slice, src, n, w->reduce, w->type);
}

static bool is_large_copy(const struct work *w)
{
    return w->kind == WORK_COPY && w->size >= COPY_LARGE;
}

static uint64_t slice_most(const struct work *w)
{
    if (w->kind == WORK_REDUCE)
        return REDUCE_SLICE;
    return is_large_copy(w) ? LARGE_SLICE : SLICE;
}

static void move_bytes(const struct work *w, const struct mapped *to, const struct mapped *from,
                       uint64_t n)
{
    unsigned char *dst = mapped_at(to, w->dst.offset + w->progress);
    const unsigned char *src =
        w->kind == WORK_SET ? NULL : mapped_at(from, w->src.offset + w->progress);

    if (w->kind == WORK_SET)
        memset(dst, w->value, n);
    else if (w->kind == WORK_REDUCE)
        reduce_slice(w, dst, src, n);
    else if (is_large_copy(w))
        copy_large(dst, src, n);
    else
        /* memmove: overlapping ranges are unspecified for programs, but must not be undefined for
         * npud */
        memmove(dst, src, n);
}

enum work_state mapped_step(struct work *w, const struct mapped *dst, const struct mapped *src)
{
    uint64_t n = w->size - w->progress, most = slice_most(w);

    if (n > most)
        n = most;
    move_bytes(w, dst, src, n);
    w->progress += n;
    return w->progress == w->size ? WORK_DONE : WORK_MORE;
}

/* Its progress is when it ends, so that this stays as it is when npud ends before. */
enum work_state delay_step(struct work *w, uint64_t now, uint64_t *deadline, int32_t *result)
{
    if (w->progress == 0)
        w->progress = now + w->delay_ns;
    *deadline = w->progress;
    *result = w->result;
    return now >= w->progress ? WORK_DONE : WORK_PENDING;
}
