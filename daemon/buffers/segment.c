#include "daemon/buffers/segment.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/deferred_close.h"
#include "daemon/base/file_pages.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/memfd.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/kept/record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/fds.h"

#define DATA_ALIGN  UINT64_C(128)
#define PAGES_ABOVE (UINT64_C(1) << 20) /* strides from here on are whole pages */

struct segment_table *segments_table(struct server *server)
{
    return server->pools->table;
}

struct segment *segment_find(struct server *server, uint32_t id)
{
    if (id >= SEGMENT_IDS)
        return NULL;
    return (struct segment *)atomic_load_explicit(&server->pools->table->view[id],
                                                  memory_order_relaxed);
}

static struct segment_map *find_map(const struct session *session, uint32_t id)
{
    struct segment_map *map = NULL;

    if (session->peer)
        HASH_FIND(hh, session->peer->maps, &id, sizeof(id), map);
    return map;
}

bool segment_left(const struct segment *segment, uint32_t number)
{
    struct peer *peer = peer_left(segment->pool->server, number);
    struct segment_map *map = NULL;

    if (peer)
        HASH_FIND(hh, peer->maps, &segment->view.id, sizeof(segment->view.id), map);
    return map != NULL;
}

struct segment_map *segment_find_map(const struct session *session, const struct segment *segment)
{
    return find_map(session, segment->view.id);
}

bool segment_maps(struct session *session, struct segment *segment)
{
    return segment_find_map(session, segment) != NULL;
}

/* --- life --- */

static uint32_t clamp_count(uint64_t n, uint32_t least, uint32_t most)
{
    return n > most ? most : n < least ? least : (uint32_t)n;
}

bool segment_shape(struct segment_view *v, uint64_t stride, uint32_t count)
{
    uint64_t align = stride >= PAGES_ABOVE ? SEGMENT_PAGE : DATA_ALIGN;

    if (stride == 0 || stride > MBUF_SIZE_MAX || count == 0)
        return false;
    v->stride = (stride + align - 1) & ~(align - 1);
    v->n_data = clamp_count(count, 1, SEGMENT_N_DATA_MAX);
    v->n_data = clamp_count(SEGMENT_DATA_MAX / v->stride, 1, v->n_data);
    v->n_refs = clamp_count(UINT64_C(4) * v->n_data, SEGMENT_REFS_MIN, SEGMENT_SLOTS - v->n_data);
    return true;
}

/*
 * Ids are used again as late as possible, so that a stale handle of a buffer names an id that is
 * not in use.
 */
static bool take_id(struct segment *s)
{
    struct server *server = s->pool->server;

    for (uint32_t i = 1; i < SEGMENT_IDS; i++) {
        uint32_t id = (uint32_t)(server->last->segment_id % (SEGMENT_IDS - 1) + 1);

        server->last->segment_id = id;
        if (segment_find(server, id))
            continue;
        s->view.id = id;
        s->view.number = ++server->last->segment;
        return true;
    }
    return false;
}

static void note_sizes(struct segment *s)
{
    s->mapped = segment_data_offset(segment_slots(&s->view));
    s->size = segment_size(s->view.n_data, s->view.n_refs, s->view.stride);
}

static enum cause charge_size(struct segment *s)
{
    note_sizes(s);
    if (user_charge(&s->charge, s->pool->user, RESOURCE_MBUF_MEMORY, s->size) < 0)
        return CAUSE_USER_BUFFERS;
    if (batch_job_charge(&s->charge_batch_job, s->pool->batch_job, s->size))
        return CAUSE_NONE;
    user_uncharge(&s->charge);
    return CAUSE_JOB_MEMORY;
}

/*
 * With fewer buffers than was wished if the limits have no room for all: what is refused is what
 * does not fit, and not a wish to grow in large steps.
 */
static enum cause charge_memory(struct segment *s)
{
    enum cause cause;

    while ((cause = charge_size(s)) != CAUSE_NONE && s->view.n_data > 1)
        segment_shape(&s->view, s->view.stride, s->view.n_data / 2);
    return cause;
}

static enum cause charge_numbers(struct segment *s)
{
    if (s->pool->n_segments >= POOL_SEGMENTS_MAX)
        return CAUSE_SEGMENTS_OF_POOL;
    if (!take_id(s))
        return CAUSE_SEGMENT_IDS;
    return cause_of_files(user_charge_files(&s->charge_fd, s->pool->user, 2),
                          CAUSE_USER_DESCRIPTORS);
}

static bool map_slots(struct segment *s)
{
    void *map = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);

    if (map == MAP_FAILED)
        return false;
    segment_view_place(&s->view, map, false);
    return true;
}

static enum cause map_memory(struct segment *s)
{
    void *news;
    int r = memfd_read_only_new("npud-pool-news", SEGMENT_PAGE, &s->news_fd, &news);

    if (r < 0)
        return cause_of_errno(r);
    s->view.news = news;
    s->fd = memfd_new("npud-buffers", s->size);
    if (s->fd < 0)
        return cause_of_errno(s->fd);
    if (!map_slots(s))
        return CAUSE_SEGMENT_MEMORY;
    /*
     * Of the last word all bits, also those of no slot: so it is full when all its slots are free.
     */
    for (uint32_t w = 0; w < (segment_slots(&s->view) + 63) / 64; w++)
        atomic_store_explicit(&s->view.page->hint[w], UINT64_MAX, memory_order_relaxed);
    return CAUSE_NONE;
}

/* What segment_new() has made of it so far. */
static void discard_segment(struct segment *s)
{
    const struct user *user = s->pool->user;

    kept_drop(&s->kept);
    kept_fd_leave(s->news_fd);
    kept_fd_leave(s->fd);
    if (s->news_fd >= 0)
        deferred_close_free_memory(user, s->news_fd, s->view.news, SEGMENT_PAGE, SEGMENT_PAGE);
    if (s->fd >= 0)
        deferred_close_free_memory(user, s->fd, s->view.page, s->mapped, s->size);
    user_uncharge(&s->charge);
    user_uncharge(&s->charge_fd);
    batch_job_uncharge(&s->charge_batch_job);
    free(s);
}

#define SEGMENT_MEMBERS(DO)                                                                        \
    DO##FIND(pool, pool, number, pool_restored(r->pool));                                          \
    DO##SAME(number, view.number);                                                                 \
    DO##SAME(stride, view.stride);                                                                 \
    DO##FD(key, fd);                                                                               \
    DO##FD(news_key, news_fd);                                                                     \
    DO##SAME(id, view.id);                                                                         \
    DO##SAME(n_data, view.n_data);                                                                 \
    DO##SAME(n_refs, view.n_refs);                                                                 \
    DO##SAME(damaged, damaged);                                                                    \
    DO##SAME(spoiled, spoiled);

RECORD_LIVE(static, segment, SEGMENT, struct segment, kept, struct segment_record, SEGMENT_MEMBERS,
            wanted)

static bool keep_segment(struct segment *s)
{
    kept_fd(s->fd);
    kept_fd(s->news_fd);
    return segment_keep(s);
}

/* Processes find it from here on. */
static void add_segment(struct pool *pool, struct segment *s)
{
    DL_APPEND(pool->segments, s);
    pool->n_segments++;
    pool->bytes += s->size;
    atomic_store_explicit(&pool->server->pools->table->view[s->view.id], &s->view,
                          memory_order_relaxed);
}

enum cause segment_new(struct pool *pool, uint64_t stride, uint32_t count,
                       struct segment **segmentp)
{
    struct segment *s = calloc(1, sizeof(*s));
    enum cause cause;

    if (!s)
        return CAUSE_SEGMENT_MEMORY;
    s->pool = pool;
    s->fd = s->news_fd = -1;
    if (!segment_shape(&s->view, stride, count)) {
        free(s);
        return CAUSE_SEGMENT_SIZE;
    }
    cause = charge_memory(s);
    if (cause == CAUSE_NONE)
        cause = charge_numbers(s);
    if (cause == CAUSE_NONE)
        cause = map_memory(s);
    if (cause == CAUSE_NONE && !keep_segment(s))
        cause = CAUSE_SEGMENT_MEMORY;
    if (cause == CAUSE_NONE && !segment_map(pool->session->peer, s))
        cause = session_cause_of_object(pool->session);
    if (cause != CAUSE_NONE) {
        discard_segment(s);
        return cause;
    }
    atomic_store_explicit(&s->view.news->look_due, pool->look != POOL_LOOK_NONE,
                          memory_order_relaxed);
    add_segment(pool, s);
    pool_grown(pool);
    *segmentp = s;
    return CAUSE_NONE;
}

void segment_free(struct segment *s)
{
    struct segment_map *map, *next;

    /* What waits for a slot there has nothing to wait for. */
    s->pool->server->pools->above->freed(s);
    assert(!s->slot_waiters);
    pool_pass_over(s);
    atomic_store_explicit(&s->pool->server->pools->table->view[s->view.id], NULL,
                          memory_order_relaxed);
    atomic_store(&s->view.news->dead, 1);
    KILL_HERE(SEGMENT_DEAD);
    DL_FOREACH_SAFE (s->maps, map, next) {
        peer_tell_retired(map->peer);
        segment_unmap(map);
        KILL_HERE(SEGMENT_LEFT);
    }
    assert(s->n_maps == 0 && s->n_lost == 0 && s->n_left == 0);
    DL_DELETE(s->pool->segments, s);
    s->pool->n_segments--;
    s->pool->bytes -= s->size;
    discard_segment(s);
}

bool segment_touched(const struct segment *segment, uint32_t *from, uint32_t *to)
{
    const size_t heads = segment_mbufs_offset(), size = sizeof(struct mbuf);
    uint32_t slots = segment_slots(&segment->view);
    size_t data, hole;

    if (*from >= slots)
        return false;
    data = (heads + *from * size) & ~(SEGMENT_PAGE - 1);
    if (!file_pages_next(segment->fd, segment->view.page, segment->mapped, &data, &hole))
        return false;
    /* Words count, which are where their slot begins. */
    if (data > heads && (data - heads + size - 1) / size > *from)
        *from = (uint32_t)((data - heads + size - 1) / size);
    *to = slots;
    if ((hole - heads + size - 1) / size < slots)
        *to = (uint32_t)((hole - heads + size - 1) / size);
    return *from < slots;
}

/* --- mappings --- */

#define MAP_MEMBERS(DO)                                                                            \
    DO##DERIVED(segment, o->segment->view.number);                                                 \
    DO##DERIVED(id, o->id);                                                                        \
    DO##DERIVED(peer, o->peer->number);                                                            \
    DO##SAME(passed_on, passed_on);                                                                \
    DO##DERIVED(left, o->left);                                                                    \
    DO##SAME(lost, lost);

RECORD(static, segment_map, SEGMENT_MAP, struct segment_map, kept, struct segment_map_record,
       MAP_MEMBERS)

/* Listed at both ends. NULL: no memory. */
static struct segment_map *make_map(struct peer *peer, struct segment *s)
{
    struct segment_map *map = calloc(1, sizeof(*map));

    if (!map)
        return NULL;
    map->peer = peer;
    map->segment = s;
    map->id = s->view.id;
    HASH_ADD(hh, peer->maps, id, sizeof(map->id), map);
    if (!map->hh.tbl) {
        free(map);
        return NULL;
    }
    DL_APPEND(s->maps, map);
    s->n_maps++;
    return map;
}

static void unlist_map(struct segment_map *map)
{
    kept_drop(&map->kept);
    HASH_DEL(map->peer->maps, map);
    DL_DELETE(map->segment->maps, map);
    map->segment->n_maps--;
    user_uncharge(&map->charge);
    free(map);
}

bool segment_map(struct peer *peer, struct segment *s)
{
    struct segment_map *map = find_map(peer->session, s->view.id);

    if (map)
        return true;
    map = make_map(peer, s);
    if (!map)
        return false;
    if (user_charge(&map->charge, peer->session->user, RESOURCE_TABLE_MEMORY, sizeof(*map)) < 0 ||
        !segment_map_keep(map)) {
        unlist_map(map);
        return false;
    }
    /* A slot that was seen unused, because no session could have it, may be in use from here on. */
    segment_look_ends(s);
    s->pool->server->pools->above->mapped(map);
    return true;
}

static void tell_draining(struct segment *s)
{
    atomic_store(&s->view.news->draining, segment_drains(s));
}

void segment_spoil(struct segment *s)
{
    if (!s->spoiled)
        kept_touch(&s->kept);
    s->spoiled = true;
    tell_draining(s);
}

void segment_damage(struct segment *s)
{
    s->damaged = true;
    kept_touch(&s->kept);
}

void segment_map_set_lost(struct segment_map *map, bool lost)
{
    struct segment *s = map->segment;

    if (map->lost == lost)
        return;
    map->lost = lost;
    kept_touch(&map->kept);
    s->n_lost += lost ? 1 : -1u;
    assert(s->n_lost <= s->n_maps);
    tell_draining(s);
}

void segment_unmap(struct segment_map *map)
{
    struct segment *s = map->segment;

    bool draining = map->lost;

    segment_map_set_lost(map, false);
    if (map->peer->sweep.map == map) {
        map->peer->sweep.map = map->hh.next;
        map->peer->sweep.slot = 0;
    }
    s->n_left -= map->left;
    unlist_map(map);
    /*
     * Buffers of an orphan that only this session could hold are not in use any more; and what it
     * held in a segment that drained is free now.
     */
    if (!s->pool->session || draining)
        pool_look_soon(s->pool);
}

void segment_look_ends(struct segment *s)
{
    if (s->look.closing)
        atomic_store(&s->view.news->closing, 0);
    s->look = (struct segment_look){0};
}

bool segments_left(struct peer *peer)
{
    struct sweep_position *at = &peer->sweep;
    struct segment_map *map;

    if (!at->begun)
        *at = (struct sweep_position){.begun = true, .map = peer->maps};
    map = at->map;
    if (!map) {
        *at = (struct sweep_position){0};
        return true;
    }
    at->map = map->hh.next; /* giving the segment back unmaps it */
    map->left = true;
    kept_touch(&map->kept);
    map->segment->n_left++;
    if (map->segment->pool != peer->pool) {
        segment_map_set_lost(map, true);
        segment_give_back(map->segment);
    }
    return false;
}

void segment_want_slot(struct segment *s)
{
    uint32_t wanted = (uint32_t)*s->wanted + 1;

    s->wants = true;
    if (wanted == 0)
        wanted++;
    *s->wanted = wanted;
    atomic_store(&s->view.news->slot_wanted, wanted);
}

bool segment_slot_came(struct segment *s)
{
    bool wanted = s->wants;

    if (wanted)
        atomic_store(&s->view.news->slot_wanted, 0);
    s->wants = false;
    return wanted;
}

void segment_freed(struct segment *s)
{
    struct pools *pools = s->pool->server->pools;

    if (segment_slot_came(s))
        pools->above->freed(s);
    pool_look_soon(s->pool);
}

/* --- over the end of npud --- */

static bool map_files(struct segment *s)
{
    void *news;

    if (!map_slots(s))
        return false;
    news = mmap(NULL, SEGMENT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->news_fd, 0);
    if (news == MAP_FAILED)
        return false;
    s->view.news = news;
    return true;
}

bool segment_restore(struct server *server, struct kept_cell *cell)
{
    struct segment_record r;
    struct segment *s;

    kept_read(cell, &r, sizeof(r));
    s = r.id < SEGMENT_IDS && !segment_find(server, r.id) ? calloc(1, sizeof(*s)) : NULL;
    if (!s || !segment_back(server, s, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    note_sizes(s);
    if (!map_files(s))
        return false;
    user_charge_again(&s->charge, s->pool->user, RESOURCE_MBUF_MEMORY, s->size, false);
    user_charge_again(&s->charge_fd, s->pool->user, RESOURCE_FDS, 2, true);
    batch_job_charge_again(&s->charge_batch_job, s->pool->batch_job, s->size);
    add_segment(s->pool, s);
    return true;
}

bool segment_map_restore(struct server *server, struct kept_cell *cell)
{
    struct segment_map_record r;
    struct segment_map *map;
    struct segment *s;
    struct peer *peer;

    kept_read(cell, &r, sizeof(r));
    s = segment_find(server, r.id);
    peer = peer_restored(server, r.peer);
    map = s && s->view.number == r.segment && peer ? make_map(peer, s) : NULL;
    if (!map || !segment_map_back(server, map, cell, &r))
        return false;
    if (peer->session)
        user_charge_again(&map->charge, peer->session->user, RESOURCE_TABLE_MEMORY, sizeof(*map),
                          false);
    else
        user_charge_again(&map->charge, peer->left.survivor->user, RESOURCE_TABLE_MEMORY,
                          sizeof(*map), false);
    s->n_lost += map->lost;
    /* Of a session whose end is done again from the beginning, this is done again. */
    map->left = r.left && !peer->session;
    s->n_left += map->left;
    return true;
}

/* Bits of queues are stored before the step that they belong to is committed. */
static void count_again(struct segment_map *map)
{
    const struct session *owner = map->segment->pool->session;

    map->segment->pool->server->pools->above->mapped(map);
    if (map->peer->session && map->peer->session != owner)
        segment_map_set_lost(map, map->n_rights == 0);
}

void segments_finish_restoring(struct pool *pool)
{
    struct segment *s, *next;
    struct segment_map *map;

    DL_FOREACH_SAFE (pool->segments, s, next) {
        struct segment_news *news = s->view.news;

        DL_FOREACH (s->maps, map)
            count_again(map);
        tell_draining(s);
        atomic_store(&news->closing, 0);
        atomic_store(&news->slot_wanted, 0);
        /* Its clients know that it has gone. */
        if (atomic_load(&news->dead) != 0)
            segment_free(s);
    }
}
