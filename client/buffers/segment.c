#include "client/buffers/segment.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/core/lock_order.h"
#include "client/runtime/session.h"
#include "client/core/thread.h"

/* Segments that are looked at whether they are gone, for each one that comes. */
#define LOOK_AT 4
/*
 * The heads of a segment up to here, and its data if it is no more, are made present when it is
 * mapped: touching pages one by one costs more than the rest of a call.
 */
#define POPULATE_MAX ((size_t)256 << 10)

struct segment_table segment_table;

static void init(struct session *s, uint32_t seed)
{
    struct segments *all = &s->segments;

    (void)seed;
    lock_init(&all->lock, LOCK_SEGMENTS);
    lock_init_shared(&all->map_lock, LOCK_SEGMENT_MAP);
}

bool segment_locate(struct session *s, const void *address, struct segment_place *place)
{
    struct segments *all = &s->segments;
    const unsigned char *p = address;
    struct segment *g = NULL;
    struct address_range *range;
    bool found = false;

    if (!atomic_load_explicit(&all->mapped, memory_order_acquire))
        return false;
    pthread_rwlock_rdlock(&all->map_lock);
    range = range_map_find(&all->by_address, address);
    if (range)
        g = RANGE_OWNER(range, struct segment, range);
    if (g && p >= g->view.data && p < g->view.data + g->view.n_data * g->view.stride) {
        uint64_t offset = (uint64_t)(p - g->view.data);

        *place = (struct segment_place){.view = &g->view,
                                        .block = (uint32_t)(offset / g->view.stride),
                                        .offset = offset % g->view.stride};
        found = true;
    }
    pthread_rwlock_unlock(&all->map_lock);
    return found;
}

/* --- coming and going --- */

static void unmap_segment(struct segment *g)
{
    munmap(g->map, g->range.size);
    munmap(g->view.news, SEGMENT_PAGE);
    free(g);
}

/* Unless another segment with its id has come already. */
static void take_out_of_table(struct segment *g)
{
    struct segment_view *view = &g->view;

    atomic_compare_exchange_strong(&segment_table.view[g->view.id], &view, NULL);
}

/* Caller holds lock. From here on no call finds it. */
static void bury_segment(struct segments *all, struct segment *g)
{
    size_t heads = segment_data_offset(segment_slots(&g->view));

    assert(g->range.size > heads); /* not buried before */
    take_out_of_table(g);
    DL_DELETE(all->live, g);
    pthread_rwlock_wrlock(&all->map_lock);
    range_map_remove(&all->by_address, &g->range);
    pthread_rwlock_unlock(&all->map_lock);
    munmap(g->map + heads, g->range.size - heads);
    g->range.size = heads;
    DL_APPEND(all->retired, g);
}

static bool is_dead(const struct segment_view *view)
{
    return __builtin_expect(atomic_load_explicit(&view->news->dead, memory_order_relaxed) != 0, 0);
}

bool segment_gone(struct session *s, const struct segment *g)
{
    /*
     * npud ends a session before it gives back what the process may use after that
     * (session_announce_end()). A session that has ended lets go of nothing.
     */
    return is_dead(&g->view) && !session_ended(s);
}

/*
 * Caller holds lock. Of others' segments the first n in the list, which goes round: our own are
 * noticed when the pool finds them among its own.
 */
static void look_around(struct session *s, size_t n)
{
    struct segments *all = &s->segments;

    while (n-- > 0 && all->live) {
        struct segment *g = all->live;

        if (!g->own && segment_gone(s, g)) {
            bury_segment(all, g);
        } else {
            DL_DELETE(all->live, g);
            DL_APPEND(all->live, g);
        }
    }
}

/*
 * Caller holds lock. What was retired since the last time gets an epoch of its own now; the calling
 * thread, too, may be in a call in which it has found one of the others.
 */
static void unmap_retired(struct segments *all)
{
    uint64_t epoch = 0;
    struct segment *g, *next;

    DL_FOREACH_SAFE (all->retired, g, next) {
        if (g->left_epoch == 0) {
            epoch = epoch == 0 ? api_call_new_epoch() : epoch;
            g->left_epoch = epoch;
        }
        if (!api_call_all_left_views(g->left_epoch))
            continue;
        DL_DELETE(all->retired, g);
        unmap_segment(g);
    }
}

bool segment_let_go_all(struct session *s)
{
    struct segments *all = &s->segments;
    struct segment *g;
    size_t n;
    bool done;

    pthread_mutex_lock(&all->lock);
    DL_COUNT(all->live, g, n);
    if (!all->forgotten)
        look_around(s, n);
    unmap_retired(all);
    done = all->retired == NULL;
    pthread_mutex_unlock(&all->lock);
    return done;
}

void segment_retire(struct session *s, struct segment *g)
{
    pthread_mutex_lock(&s->segments.lock);
    bury_segment(&s->segments, g);
    pthread_mutex_unlock(&s->segments.lock);
}

/* Caller holds lock. */
static bool add_segment(struct session *s, struct segment *g)
{
    struct segments *all = &s->segments;
    struct segment_view *old = segment_table.view[g->view.id];
    bool ok;

    if (all->forgotten)
        return false;
    /*
     * The id has come again: what had it before is retired. If it was our own, the pool still has
     * it, and notices when it looks there.
     */
    if (old && !segment_of(old)->own)
        bury_segment(all, segment_of(old));
    pthread_rwlock_wrlock(&all->map_lock);
    ok = range_map_add(&all->by_address, &g->range);
    atomic_store_explicit(&all->mapped, true, memory_order_release);
    pthread_rwlock_unlock(&all->map_lock);
    if (!ok)
        return false;
    DL_APPEND(all->live, g);
    atomic_store_explicit(&segment_table.view[g->view.id], &g->view, memory_order_release);
    look_around(s, LOOK_AT);
    unmap_retired(all);
    return true;
}

static void unmap_list(struct segment *list)
{
    struct segment *g, *next;

    DL_FOREACH_SAFE (list, g, next)
        unmap_segment(g);
}

static void clear_table(struct segments *all)
{
    struct segment *g;

    DL_FOREACH (all->live, g)
        take_out_of_table(g);
}

static void unmap_all(struct session *s)
{
    struct segments *all = &s->segments;

    clear_table(all);
    range_map_clear(&all->by_address);
    unmap_list(all->live);
    unmap_list(all->retired);
    all->live = all->retired = NULL;
    pthread_mutex_destroy(&all->lock);
    pthread_rwlock_destroy(&all->map_lock);
}

/* What is mapped stays. */
static void forget_all(struct session *s)
{
    struct segments *all = &s->segments;

    pthread_mutex_lock(&all->lock);
    all->forgotten = true;
    clear_table(all);
    pthread_mutex_unlock(&all->lock);
}

/* What was locked is the parent's, too. */
static void forget_inherited(struct session *s)
{
    lock_init(&s->segments.lock, LOCK_SEGMENTS);
    forget_all(s);
}

const struct part segment_part = {
    .session_init = init,
    .session_forget = forget_all,
    .session_leave = unmap_all,
    .session_inherited = forget_inherited,
};

/* --- giving back --- */

void segment_trim(struct session *s, uint32_t id)
{
    REQUEST(trim_segment, TRIM_SEGMENT, .segment = id);

    session_command_unheard(s, &request);
}

static bool word_full(const struct segment_view *view, uint32_t w)
{
    return atomic_load_explicit(&view->page->hint[w], memory_order_relaxed) == UINT64_MAX;
}

/*
 * npud has set the bits beyond the last slot. The word that was not full last time is looked at
 * first: mostly it still is not.
 */
static bool all_hinted(struct segment *g)
{
    uint32_t words = (segment_slots(&g->view) + 63) / 64;

    if (!word_full(&g->view, atomic_load_explicit(&g->in_use, memory_order_relaxed)))
        return false;
    for (uint32_t w = 0; w < words; w++)
        if (!word_full(&g->view, w)) {
            atomic_store_explicit(&g->in_use, w, memory_order_relaxed);
            return false;
        }
    return true;
}

void segment_freed(struct session *s, struct segment_view *view)
{
    struct segment *g = segment_of(view);

    /*
     * npud says that it is going to look before it looks: either it sees our slot free, or we see
     * that it is not going to.
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (segment_slot_wanted(view)) {
        segment_trim(s, view->id);
        return;
    }
    /* No session allocates from one that drains: npud does not wait, and may look much later. */
    if (is_dead(view) || (segment_usable(view) &&
                          atomic_load_explicit(&view->news->look_due, memory_order_relaxed) != 0))
        return;
    if (all_hinted(g))
        segment_trim(s, view->id);
}

/* --- mapping --- */

/*
 * The process that makes it uses the first pages: others find them present. Of many
 * heads only the first: they are used from the first one on, and most segments are given back
 * before the last.
 */
static void populate_segment(struct segment *g)
{
    size_t data = segment_data_offset(segment_slots(&g->view));
    size_t heads = segment_mbufs_offset() + g->view.n_data * sizeof(struct mbuf);

    if (heads > POPULATE_MAX)
        heads = POPULATE_MAX;
    madvise(g->map, heads < data ? (heads + SEGMENT_PAGE - 1) & ~(SEGMENT_PAGE - 1) : data,
            MADV_POPULATE_WRITE);
    if (g->size - data <= POPULATE_MAX)
        madvise(g->map + data, g->size - data, MADV_POPULATE_WRITE);
}

static void *map_file(int fd, size_t size, bool writable)
{
    void *map = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);

    /* A forked child has no business there: its stores would be ours. */
    if (map != MAP_FAILED)
        madvise(map, size, MADV_DONTFORK);
    return map;
}

/* The two files of a segment. False, with errno: neither is mapped. */
static bool map_files(struct segment *g, const int fds[2])
{
    g->map = map_file(fds[0], g->size, true);
    KILL_POINT(SEGMENT_MAPPED);
    if (g->map == MAP_FAILED)
        return false;
    g->view.news = map_file(fds[1], SEGMENT_PAGE, false);
    if ((void *)g->view.news != MAP_FAILED)
        return true;
    munmap(g->map, g->size);
    return false;
}

/* Map what npud has sent. NULL with *error. */
static struct segment *map_segment(const char *function, const Npud__SegmentReply *reply,
                                   const int fds[2], int *error)
{
    struct segment *g = aligned_alloc(alignof(struct segment), sizeof(*g));

    if (!g) {
        *error = error_no_memory(function);
        return NULL;
    }
    *g = (struct segment){
        .view = {.stride = reply->stride,
                 .number = reply->number,
                 .n_data = reply->n_data,
                 .n_refs = reply->n_refs,
                 .id = reply->id,
                 .cached = SEGMENT_NO_CLASS},
        .size = segment_size(reply->n_data, reply->n_refs, reply->stride),
        .pid = reply->pid,
        .cursor = reply->n_data,
    };
    if (!map_files(g, fds)) {
        *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                           "%s: cannot map %zu bytes of shared memory: %m", function, g->size);
        free(g);
        return NULL;
    }
    g->range = (struct address_range){.start = (uintptr_t)g->map, .size = g->size};
    segment_view_place(&g->view, g->map, true);
    return g;
}

static bool is_known(const struct segment *g)
{
    const struct segment_view *known = segment_known(g->view.id << 16);

    return known && known->number == g->view.number;
}

/* Ask, map, and make it known. Caller holds lock. */
static int obtain_segment(const char *function, struct session *s, Npud__Request *request, bool own,
                          struct segment **out)
{
    Npud__Reply *reply = NULL;
    struct segment *g;
    int fds[2] = {-1, -1};
    int error = session_request_fds(s, function, request, &reply, fds, 2);

    if (error != 0)
        return error;
    g = map_segment(function, reply->segment, fds, &error);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (!g && own)
        segment_trim(s, reply->segment->id);
    session_reply_free(reply);
    if (!g)
        return error;
    /* It is mapped already, and buffers of it may be in use here. */
    if (is_known(g)) {
        unmap_segment(g);
        return own ? session_answer_damaged(s, function, request, "the segment came before") : 0;
    }
    g->own = own;
    if (own)
        populate_segment(g);
    *out = g;
    if (add_segment(s, g))
        return 0;
    unmap_segment(g);
    return s->segments.forgotten ? session_error_lost(function) : error_no_memory(function);
}

int segment_need(const char *function, struct session *s, uint32_t ref)
{
    REQUEST(map_segment, MAP_SEGMENT, .segment = ref >> 16);
    struct segment *g;
    int error = 0;

    pthread_mutex_lock(&s->segments.lock);
    if (!segment_get(&segment_table, ref))
        error = obtain_segment(function, s, &request, false, &g);
    /* Given back since npud answered. */
    if (error == 0 && !segment_get(&segment_table, ref))
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "%s: segment %u of shared buffers no longer exists", function, ref >> 16);
    pthread_mutex_unlock(&s->segments.lock);
    return error;
}

int segment_create(const char *function, struct session *s, uint64_t stride, uint32_t count,
                   struct segment **segment)
{
    REQUEST(create_segment, CREATE_SEGMENT, .stride = stride, .count = count);
    int error;

    pthread_mutex_lock(&s->segments.lock);
    error = obtain_segment(function, s, &request, true, segment);
    pthread_mutex_unlock(&s->segments.lock);
    return error;
}
