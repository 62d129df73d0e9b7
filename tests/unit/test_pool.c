/*
 * Pools as npud has them: what is charged, what a dead session leaves, orphans, and memory that is
 * given back. The clients are the test itself.
 *
 * Runs long: 5 s.
 */
#include "npud.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

#include "acl/acl_base.h"
#include "daemon/base/pidfd.h"
#include "daemon/buffers/chain.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/buffers/sweep.h"
#include "daemon/core/call.h"
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"
#include "tests/common/child.h"

#define MIB(n) ((uint64_t)(n) << 20)

/* --- a client --- */

/** A segment as a client has it mapped. */
struct mapped {
    struct segment_view view;
    void *map;
    size_t size;
};

static struct mapped map_all(const struct segment *s)
{
    struct mapped m = {.view = s->view, .size = s->size};

    m.map = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    ck_assert_ptr_ne(m.map, MAP_FAILED);
    segment_view_place(&m.view, m.map, true);
    m.view.news = mmap(NULL, SEGMENT_PAGE, PROT_READ, MAP_SHARED, s->news_fd, 0);
    ck_assert_ptr_ne(m.view.news, MAP_FAILED);
    return m;
}

static void unmap_all(struct mapped *m)
{
    munmap(m->map, m->size);
    munmap(m->view.news, SEGMENT_PAGE);
}

static struct segment *add_segment(struct session *session, uint64_t stride, uint32_t count)
{
    struct pool *pool = pool_get(session);
    struct segment *s = NULL;

    ck_assert_ptr_nonnull(pool);
    ck_assert_int_eq(segment_new(pool, stride, count, &s), 0);
    return s;
}

/* As a session that took from a queue that allows to map it. */
static void share_segment(struct session *session, struct segment *s)
{
    ck_assert(segment_map(peer_get(session), s));
}

static struct mbuf *claim_data(struct mapped *m, const struct session *session)
{
    uint32_t slot = segment_claim(&m->view, 0, m->view.n_data, session->peer_id);

    ck_assert_uint_lt(slot, m->view.n_data);
    return &m->view.mbufs[slot];
}

static struct mbuf *claim_ref(struct mapped *m, const struct session *session)
{
    uint32_t slot =
        segment_claim(&m->view, m->view.n_data, segment_slots(&m->view), session->peer_id);

    ck_assert_uint_lt(slot, segment_slots(&m->view));
    return &m->view.mbufs[slot];
}

static struct mbuf *alloc_buffer(struct mapped *m, const struct session *session)
{
    struct mbuf *b = claim_data(m, session);

    mbuf_prepare(&m->view, (uint32_t)(b - m->view.mbufs), 100);
    mbuf_hold(b, session->peer_id);
    return b;
}

static struct mbuf *copy_ref(struct mapped *m, const struct mbuf *of, const struct session *session)
{
    struct mbuf *b = claim_ref(m, session);

    ck_assert_int_gt(mbuf_refer(&m->view, b, mbuf_op_block(atomic_load(&of->op))), 1);
    mbuf_hold(b, session->peer_id);
    return b;
}

static void set_word(struct mbuf *b, uint64_t word)
{
    atomic_store(&b->word, word);
}

static enum mbuf_state state_of(const struct mbuf *b)
{
    return mbuf_state(atomic_load(&b->word));
}

static uint32_t count_of(const struct mbuf *b)
{
    return mbuf_refs_count(atomic_load(&b->refs));
}

static uint32_t ref_of(const struct mapped *m, const struct mbuf *b)
{
    return mbuf_ref(&m->view, b);
}

/*
 * Every slot FREE with its hint, and no reference left but those of slots that were only ever their
 * holder's own.
 */
static void check_all_free(const struct mapped *m)
{
    for (uint32_t i = 0; i < segment_slots(&m->view); i++) {
        const struct mbuf *b = &m->view.mbufs[i];

        CHECK(state_of(b) == MBUF_FREE);
        CHECK(atomic_load(&m->view.page->hint[i / 64]) >> i % 64 & 1);
        CHECK(count_of(b) == 0 || mbuf_op_of(atomic_load(&b->op)) == MBUF_HAS);
    }
}

static void append_buffer(struct mapped *m, struct mbuf *head, struct mbuf *tail, struct mapped *of,
                          struct mbuf *b)
{
    uint64_t w = atomic_load(&b->word);

    atomic_store(&b->next, 0);
    set_word(b, mbuf_word_member(mbuf_generation(w), ref_of(m, head)));
    atomic_store(&tail->next, ref_of(of, b));
}

static uint64_t count_used(enum resource r)
{
    struct user *user;
    uid_t uid = 1000;

    HASH_FIND(hh, server.users.by_uid, &uid, sizeof(uid), user);
    return user ? user->used[r] : 0;
}

static uint32_t n_pools(void)
{
    struct pool *pool;
    uint32_t n;

    DL_COUNT(server.pools->list, pool, n);
    return n;
}

static void await_pools(uint32_t n)
{
    uint64_t until = clock_ns() + GUARD_NS;

    while (n_pools() != n) {
        ck_assert_uint_lt(clock_ns(), until);
        schedule_round(&server.schedule, server.base, true);
    }
}

/* npud looks at the segments of a pool in slices of its time: the next turn has the rest. */
static void await_memory(uint64_t bytes)
{
    uint64_t until = clock_ns() + GUARD_NS;

    while (count_used(RESOURCE_MBUF_MEMORY) != bytes) {
        ck_assert_uint_lt(clock_ns(), until);
        schedule_round(&server.schedule, server.base, true);
    }
}

static void start_npud(void)
{
    npud_start(NULL);
}

/* --- shapes --- */

START_TEST(sizes_are_made_to_fit)
{
    static const struct {
        uint64_t stride;
        uint32_t count;
        uint64_t want_stride;
        uint32_t want_data, want_refs;
    } cases[] = {
        {1, 1, 128, 1, 1024},
        {128, 1, 128, 1, 1024},
        {129, 300, 256, 300, 1200},
        {64, UINT32_MAX, 128, 16384, 49152},
        {64, 16384, 128, 16384, 49152},
        {64, 13000, 128, 13000, 52000},
        {64, 13108, 128, 13108, 52428},
        {8192, 100000, 8192, 8192, 32768},
        {MIB(1), 64, MIB(1), 64, 1024},
        {MIB(1), 65, MIB(1), 64, 1024},
        {MIB(1) + 1, 1, MIB(1) + 4096, 1, 1024},
        {MIB(64) + 1, 7, MIB(64) + 4096, 1, 1024},
        {MBUF_SIZE_MAX, 3, MBUF_SIZE_MAX, 1, 1024},
    };
    struct segment_view v;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert(segment_shape(&v, cases[i].stride, cases[i].count));
        ck_assert_uint_eq(v.stride, cases[i].want_stride);
        ck_assert_uint_eq(v.n_data, cases[i].want_data);
        ck_assert_uint_eq(v.n_refs, cases[i].want_refs);
        ck_assert_uint_le(segment_slots(&v), SEGMENT_SLOTS);
    }
    ck_assert(!segment_shape(&v, 0, 1));
    ck_assert(!segment_shape(&v, 1, 0));
    ck_assert(!segment_shape(&v, MBUF_SIZE_MAX + 1, 1));
    ck_assert(!segment_shape(&v, UINT64_MAX, 1));
}
END_TEST

START_TEST(segment_is_charged_whole)
{
    struct session *a = npud_session(1);
    uint64_t fds = count_used(RESOURCE_FDS);
    struct segment *s = add_segment(a, 1000, 10), *t;
    struct stat st;

    ck_assert_int_eq(fstat(s->fd, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, s->size);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), s->size);
    ck_assert_uint_eq(count_used(RESOURCE_FDS), fds + 2);
    ck_assert_ptr_eq(segment_find(&server, s->view.id), s);
    ck_assert(segment_maps(a, s));
    t = add_segment(a, 1000, 10);
    ck_assert_uint_ne(t->view.id, s->view.id);
    ck_assert_uint_ne(t->view.number, s->view.number);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 2 * s->size);
    session_free(a);
    await_pools(0);
    npud_stop();
}
END_TEST

static struct session *start_limited(const char *limit, uint64_t value)
{
    char text[64];
    const char *settings[] = {text, NULL};

    snprintf(text, sizeof(text), "limits.%s=%llu", limit, (unsigned long long)value);
    npud_start(settings);
    return npud_session(1);
}

START_TEST(memory_of_a_user_ends)
{
    struct segment_view v;
    struct session *a;
    struct segment *s;
    uint64_t size;

    ck_assert(segment_shape(&v, 4096, 4));
    size = segment_size(v.n_data, v.n_refs, v.stride);
    a = start_limited("mbuf_memory", 2 * size);
    add_segment(a, 4096, 4);
    /* All that the user has left is for four. */
    s = add_segment(a, 4096, 8);
    ck_assert_uint_eq(s->view.n_data, 4);
    ck_assert_int_eq(segment_new(pool_get(a), 1, 1, &s), CAUSE_USER_BUFFERS);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 2 * size);
    session_free(a);
    npud_stop();
}
END_TEST

START_TEST(descriptors_of_a_user_end)
{
    /* Three of the session, two devices, two segments. */
    struct session *a = start_limited("fds", 9);
    struct segment *s;

    add_segment(a, 1, 1);
    add_segment(a, 1, 1);
    ck_assert_int_eq(segment_new(pool_get(a), 1, 1, &s), CAUSE_USER_DESCRIPTORS);
    ck_assert_uint_eq(count_used(RESOURCE_FDS), 9);
    ck_assert_uint_eq(pool_get(a)->n_segments, 2);
    session_free(a);
    npud_stop();
}
END_TEST

/* An id comes again after all the others. */
START_TEST(ids_are_used_again_late)
{
    struct session *a = npud_session(1);
    struct segment *keep = add_segment(a, 1, 1), *s;
    uint32_t id = keep->view.id, first = 0;

    for (uint32_t i = 0; i < SEGMENT_IDS; i++) {
        s = add_segment(a, 1, 1);
        ck_assert_uint_ne(s->view.id, 0);
        ck_assert_uint_ne(s->view.id, id);
        if (i == 0)
            first = s->view.id;
        else if (s->view.id == first)
            ck_assert_uint_eq(i, SEGMENT_IDS - 2);
        ck_assert(segment_give_back(s));
    }
    session_free(a);
    npud_stop();
}
END_TEST

/* --- the sweep --- */

START_TEST(what_the_dead_hold_is_freed)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct mbuf *kept, *x;

    share_segment(b, s);
    kept = alloc_buffer(&m, a);
    alloc_buffer(&m, b);
    claim_data(&m, b);
    claim_ref(&m, b);
    copy_ref(&m, kept, b);
    copy_ref(&m, alloc_buffer(&m, b), b);
    x = alloc_buffer(&m, b); /* in no ring of this number */
    set_word(x, mbuf_word(mbuf_generation(atomic_load(&x->word)), MBUF_SENDING, b->peer_id, 77));
    /* between the hint and the claim, and between the release and the hint */
    atomic_fetch_and(&m.view.page->hint[0], ~(UINT64_C(1) << 60));
    atomic_fetch_and(&m.view.page->hint[(s->view.n_data + 900) / 64], 0);
    session_free(b);
    ck_assert_int_eq(state_of(kept), MBUF_HELD);
    ck_assert_uint_eq(count_of(kept), 1);
    ck_assert_uint_eq(s->n_maps, 1);
    mbuf_drop(&m.view, kept, &(bool){false});
    check_all_free(&m);
    session_free(a);
    await_pools(0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* Chains over two segments, linked as far as the dead one came. */
START_TEST(chains_of_the_dead_are_freed)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64), *t = add_segment(b, 1000, 64);
    struct mapped ms = map_all(s), mt = map_all(t);
    struct mbuf *head, *x, *y, *z, *others, *other;

    share_segment(b, s);
    head = alloc_buffer(&mt, b);
    x = alloc_buffer(&ms, b);
    y = copy_ref(&ms, x, b);
    z = alloc_buffer(&mt, b);
    append_buffer(&mt, head, head, &ms, x);
    append_buffer(&mt, head, x, &ms, y);
    set_word(z, mbuf_word_member(3, ref_of(&mt, head))); /* a member, not linked */
    others = alloc_buffer(&ms, a);
    other = copy_ref(&ms, x, a);
    append_buffer(&ms, others, others, &ms, other);
    session_free(b);
    npud_turn();
    ck_assert_int_eq(state_of(others), MBUF_HELD);
    ck_assert_int_eq(state_of(other), MBUF_MEMBER);
    ck_assert_int_eq(state_of(x), MBUF_BLOCK);
    ck_assert_uint_eq(count_of(x), 1);
    ck_assert_ptr_null(segment_find(&server, mt.view.id)); /* its pool was empty */
    session_free(a);
    await_pools(0);
    unmap_all(&ms);
    unmap_all(&mt);
    npud_stop();
}
END_TEST

/* Rings of the dead: what is in one stays. */
START_TEST(messages_of_the_dead_stay)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct queue_attach *qa, *qb;
    struct queue_front front;
    struct mbuf *sent, *part;
    uint64_t held;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    qa = queue_attach_new(a, qb->queue, qb->queue->id, QUEUE_PUT);
    ck_assert_ptr_nonnull(qa);
    ck_assert(queue_allow_map(qb->queue, s));
    share_segment(b, s);
    sent = alloc_buffer(&m, a);
    part = alloc_buffer(&m, a);
    append_buffer(&m, sent, sent, &m, part);
    ck_assert_int_eq(queue_enqueue(&qb->queue->ring.view, sent, ref_of(&m, sent),
                                   atomic_load(&sent->word), a->peer_id),
                     QUEUE_OK);
    alloc_buffer(&m, a);
    session_free(a);
    ck_assert_uint_eq(n_pools(), 1);
    ck_assert_int_eq(state_of(sent), MBUF_SENDING);
    ck_assert_int_eq(state_of(part), MBUF_MEMBER);
    ck_assert_uint_eq(atomic_load(&m.view.news->look_due), 0);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), s->size);
    npud_turn();
    ck_assert_uint_eq(n_pools(), 1);

    ck_assert_int_eq(queue_front(&qb->queue->ring.view, &front), QUEUE_OK);
    ck_assert_uint_eq(front.ref, ref_of(&m, sent));
    ck_assert_int_eq(queue_dequeue(&qb->queue->ring.view, &front,
                                   mbuf_at(segments_table(&server), front.ref), b->peer_id,
                                   segments_table(&server), &held),
                     QUEUE_OK);
    ck_assert_int_eq(state_of(sent), MBUF_HELD);
    session_free(b);
    await_pools(0);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* --- orphans --- */

START_TEST(orphan_goes_with_its_last_buffer)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64), *t = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct mbuf *x, *ref;
    bool full = false;

    share_segment(b, s);
    share_segment(b, t);
    x = alloc_buffer(&m, b);
    ref = copy_ref(&m, x, b);
    session_free(a);
    await_memory(s->size); /* the empty one goes */
    ck_assert_uint_eq(n_pools(), 1);
    mbuf_drop(&m.view, x, &full);
    pool_look_soon(s->pool);
    npud_turn();
    ck_assert_uint_eq(n_pools(), 1);
    full = false;
    mbuf_drop(&m.view, ref, &full);
    ck_assert(full);
    check_all_free(&m);
    pool_look_soon(s->pool);
    await_pools(0);
    ck_assert_uint_eq(atomic_load(&m.view.news->dead), 1);
    ck_assert(!peer_get(b)->maps);
    session_free(b);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/*
 * Words that belong to no live session keep an orphan only while a session maps it that could have
 * written them.
 */
START_TEST(lies_do_not_keep_an_orphan)
{
    struct session *a = npud_session(1), *b = npud_session(2), *c = npud_session(3);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    uint64_t lies[] = {
        mbuf_word(1, MBUF_HELD, 999, 0),
        mbuf_word(2, MBUF_CACHED, c->peer_id, 0), /* lives, and does not map it */
        mbuf_word(3, MBUF_SENDING, 999, 5),
        mbuf_word(4, MBUF_SENDING, PEER_NPUD, 5),
        mbuf_word_member(5, s->view.id << 16 | 60),
        mbuf_word_member(6, 0xffffffff),
        mbuf_word(7, MBUF_BLOCK, 0, 0),
        mbuf_word(8, (enum mbuf_state)6, 1, 1),
        mbuf_word(9, (enum mbuf_state)15, 0xffff, 0xffff),
    };

    share_segment(b, s);
    alloc_buffer(&m, b);
    session_free(a);
    ck_assert_uint_eq(n_pools(), 1);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        set_word(&m.view.mbufs[10 + i], lies[i]);
        atomic_store(&m.view.mbufs[10 + i].refs, mbuf_refs(7, 7, 7));
    }
    session_free(b);
    await_pools(0);
    session_free(c);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* Whatever is written there: npud comes through the sweep, and what it has charged comes back. */
START_TEST(garbage_is_survived)
{
    uint64_t rng = 1;

    for (int round = 0; round < 20; round++) {
        struct session *a = npud_session(1), *b = npud_session(2);
        struct segment *s = add_segment(a, 128, 1000), *t = add_segment(b, 128, 10);
        struct mapped m = map_all(s);
        struct queue_attach *q;
        uint64_t *p = m.map;

        ck_assert_int_eq(queue_new(b, "", 8, &q), 0);
        share_segment(b, s);
        share_segment(a, t);
        for (size_t i = 0; i < segment_data_offset(segment_slots(&m.view)) / 8; i++)
            p[i] = random_next(&rng);
        /* Something that makes more sense than that: states, sessions, refs that there are. */
        for (uint32_t i = 0; i < segment_slots(&m.view); i++) {
            struct mbuf *x = &m.view.mbufs[i];
            uint32_t ref = s->view.id << 16 | random_below(&rng, segment_slots(&m.view));
            enum mbuf_state state = (enum mbuf_state)random_below(&rng, 7);
            uint32_t session = random_below(&rng, 2) ? a->peer_id : b->peer_id;

            set_word(x, state == MBUF_MEMBER
                            ? mbuf_word_member(1, ref)
                            : mbuf_word(1, state, session, q->queue->ring.view.number));
            atomic_store(&x->next, s->view.id << 16 | random_below(&rng, 70000));
            atomic_store(&x->op, mbuf_op((enum mbuf_op)random_below(&rng, 4),
                                         random_below(&rng, 1100), random_below(&rng, 3)));
            atomic_store(&x->refs, mbuf_refs(random_below(&rng, 3), random_below(&rng, 6000),
                                             random_below(&rng, 3)));
        }
        session_free(round % 2 ? a : b);
        npud_turn();
        session_free(round % 2 ? b : a);
        await_pools(0);
        unmap_all(&m);
    }
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 0);
    npud_stop();
}
END_TEST

static struct {
    struct mapped m;
    _Atomic bool stop;
} player;

/* Changes the count of slot 0 all the time. */
static void *change_refs(void *arg)
{
    (void)arg;
    while (!atomic_load_explicit(&player.stop, memory_order_relaxed))
        atomic_fetch_add(&player.m.view.mbufs[0].refs, 1);
    return NULL;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STALL_NS (20 * NSEC_PER_SEC)
#else
#define STALL_NS (2 * NSEC_PER_SEC)
#endif

/*
 * Every try to take the references of the dead back is disturbed: npud gives it up, and does not
 * try it once per slot.
 */
START_TEST(who_plays_with_a_count_does_not_stall_npud)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 128, 16384);
    struct mbuf *x;
    pthread_t thread;
    uint64_t begin;

    player.m = map_all(s);
    share_segment(b, s);
    x = alloc_buffer(&player.m, a);
    for (int i = 0; i < 40000; i++)
        copy_ref(&player.m, x, b);
    thread = start_thread(change_refs, NULL);
    begin = clock_ns();
    session_free(b);
    ck_assert_uint_lt(clock_ns() - begin, STALL_NS);
    atomic_store(&player.stop, true);
    thread_join(thread);
    session_free(a);
    await_pools(0);
    unmap_all(&player.m);
    npud_stop();
}
END_TEST

/* --- giving back --- */

START_TEST(memory_is_given_back)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, MIB(1), 4), *t = add_segment(a, MIB(1), 4);
    uint64_t size = s->size;
    struct mapped m = map_all(s);
    struct mbuf *x = alloc_buffer(&m, a), *y = alloc_buffer(&m, b);
    struct stat st;
    uint64_t begin;

    (void)t;
    share_segment(b, s);
    memset(m.view.data, 0xff, MIB(2));
    ck_assert_int_eq(fstat(s->fd, &st), 0);
    ck_assert_uint_ge((uint64_t)st.st_blocks * 512, MIB(2));
    mbuf_drop(&m.view, x, &(bool){false});
    begin = clock_ns();
    pool_look_soon(s->pool);
    ck_assert_uint_eq(atomic_load(&m.view.news->look_due), 1);
    npud_turn();
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 2 * size);
    await_memory(size);
    ck_assert_uint_ge(clock_ns() - begin, 900 * NSEC_PER_MSEC);
    ck_assert_uint_eq(atomic_load(&m.view.news->look_due), 0);
    ck_assert_uint_eq(atomic_load(&m.view.news->closing), 0);
    ck_assert_int_eq(state_of(y), MBUF_HELD);
    mbuf_drop(&m.view, y, &(bool){false});
    ck_assert(segment_give_back(s));
    /* npud makes no hole in it: what a process has mapped stays until it unmaps it. */
    ck_assert_uint_eq(atomic_load(&m.view.news->dead), 1);
    ck_assert_uint_eq(m.view.data[5], 0xff);
    ck_assert_uint_eq(count_used(RESOURCE_MBUF_MEMORY), 0);
    ck_assert_uint_eq(pool_get(a)->n_segments, 0);
    session_free(a);
    session_free(b);
    unmap_all(&m);
    npud_stop();
}
END_TEST

static struct {
    struct session *session;
    struct segment *segment;
    struct mapped m;
    struct mbuf *claimed; /* by the client of the first race */
    struct mbuf *ref;     /* the one that the client of the second has */
    bool gone;
    bool told; /* by the client of the first */
} race;

static void race_prepare(void)
{
    race.segment = add_segment(race.session, 128, 4);
    race.m = map_all(race.segment);
    race.claimed = race.ref = NULL;
    race.gone = race.told = false;
}

static void race_claim(void)
{
    uint32_t slot = segment_claim_data(&race.m.view, 0, race.session->peer_id, &race.told);

    if (slot < race.m.view.n_data)
        race.claimed = &race.m.view.mbufs[slot];
}

static void race_give_back(void)
{
    race.gone = segment_give_back(race.segment);
}

static void race_judge(void)
{
    CHECK(!(race.gone && race.claimed));
    if (!race.gone) {
        CHECK(race.claimed || race.told);
        CHECK(atomic_load(&race.m.view.news->closing) == 0);
        if (race.claimed)
            mbuf_release(&race.m.view, race.claimed);
        CHECK(segment_give_back(race.segment));
    }
    unmap_all(&race.m);
}

static void run_race(const struct duel *duel)
{
    race.session = npud_session(1);
    duel_run(duel, 700);
    session_free(race.session);
    npud_stop();
}

/*
 * A client that claims a slot has it, or the segment goes, or each has kept the other from that:
 * then the client tells npud that the slot is free again.
 */
START_TEST(claim_meets_giving_back)
{
    static const struct duel duel = {race_prepare, race_give_back, race_claim, race_judge};

    run_race(&duel);
}
END_TEST

/*
 * A buffer whose references go from slot to slot, down and up, while npud looks: the segment is
 * never free.
 */
static void race_prepare_used(void)
{
    race_prepare();
    race.claimed = alloc_buffer(&race.m, race.session);
    race.ref = copy_ref(&race.m, race.claimed, race.session);
    mbuf_drop(&race.m.view, race.claimed, &(bool){false});
    race.claimed = NULL;
}

static void race_pass_on(void)
{
    for (int i = 0; i < 20; i++) {
        struct mbuf *next = copy_ref(&race.m, race.ref, race.session);

        mbuf_drop(&race.m.view, race.ref, &(bool){false});
        race.ref = next;
    }
}

static void race_judge_used(void)
{
    CHECK(!race.gone);
    mbuf_drop(&race.m.view, race.ref, &(bool){false});
    check_all_free(&race.m);
    CHECK(segment_give_back(race.segment));
    unmap_all(&race.m);
}

START_TEST(references_on_the_move_are_seen)
{
    static const struct duel duel = {race_prepare_used, race_give_back, race_pass_on,
                                     race_judge_used};

    run_race(&duel);
}
END_TEST

/* Thousands of pools may be orphans: they are not all told to look in one go. */
START_TEST(a_crowd_of_orphans_looks_in_slices)
{
    struct session *holder = npud_session(1);
    struct pool *pool;
    unsigned due = 0;
    uint64_t begun;

    for (int i = 0; i < 200; i++) {
        struct session *owner = npud_session(2 + i);
        struct segment *s = add_segment(owner, 128, 4);

        share_segment(holder, s);
        set_word(&s->view.mbufs[0], mbuf_word_held(1, holder->peer_id));
        session_free(owner);
    }
    ck_assert_uint_eq(server.pools->n_orphans, 200);
    begun = clock_ns();
    pools_look_at_orphans(server.pools);
    DL_FOREACH (server.pools->list, pool)
        due += pool->look == POOL_LOOK_DUE;
    ck_assert_uint_gt(due, 0);
    ck_assert_uint_lt(due, 100);
    npud_turn();
    DL_FOREACH (server.pools->list, pool)
        ck_assert_uint_ge(pool->looked_ns, begun);
    session_free(holder);
    npud_stop();
}
END_TEST

/* --- looks in pieces --- */

/* Every slot of the segment was used once, so a look at it takes many pieces. */
static struct segment *add_large_segment(struct session *session, struct mapped *m)
{
    struct segment *s = add_segment(session, 64, SEGMENT_N_DATA_MAX);

    *m = map_all(s);
    ck_assert_uint_eq(segment_slots(&m->view), SEGMENT_SLOTS);
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++)
        set_word(&m->view.mbufs[i], mbuf_word(1, MBUF_FREE, 0, 0));
    return s;
}

static void look_as_far_as(struct segment *s, uint32_t slot)
{
    while (s->look.slot < slot)
        ck_assert_int_eq(segment_look(s), SEGMENT_MORE);
}

static enum segment_use look_to_the_end(struct segment *s)
{
    enum segment_use use;

    while ((use = segment_look(s)) == SEGMENT_MORE)
        ;
    return use;
}

/* A look at a large segment goes on where it was; it is closing meanwhile. */
/* For a report. Segments that come and go meanwhile are counted or not, and the count ends. */
START_TEST(a_pool_is_counted_in_slices)
{
    struct session *a = npud_session(1);
    struct mapped m, n;
    struct segment *large = add_large_segment(a, &m), *small = add_segment(a, 4096, 10);
    struct pool *pool = large->pool;
    struct pool_count count = {0};
    uint32_t pieces = 0, last = 0;

    n = map_all(small);
    alloc_buffer(&m, a);
    alloc_buffer(&n, a);
    while (!pool_count(pool, &count, 0)) {
        ck_assert_uint_le(count.slot, last + 2048);
        last = count.segment == large->view.number ? count.slot : 0;
        pieces++;
    }
    ck_assert_uint_ge(pieces, SEGMENT_SLOTS / 2048);
    ck_assert(pool_count(pool, &count, 0)); /* nothing is counted twice */
    ck_assert_uint_eq(count.census.slots[MBUF_HELD], 2);
    ck_assert_uint_eq(count.census.slots[MBUF_FREE], m.view.n_data + n.view.n_data - 2);
    ck_assert_uint_eq(count.census.bytes, large->size + small->size);

    /* A look has moved the second one to the front. */
    DL_DELETE(pool->segments, small);
    DL_PREPEND(pool->segments, small);
    count = (struct pool_count){0};
    while (!pool_count(pool, &count, 0))
        ;
    ck_assert_uint_eq(count.census.bytes, large->size + small->size);

    count = (struct pool_count){0};
    ck_assert(!pool_count(pool, &count, 0));
    segment_free(large);
    while (!pool_count(pool, &count, 0))
        ;
    ck_assert_uint_eq(count.segment, small->view.number);
    unmap_all(&m);
    unmap_all(&n);
    session_free(a);
    npud_stop();
}
END_TEST

START_TEST(a_look_keeps_its_place)
{
    struct session *a = npud_session(1);
    struct mapped m;
    struct segment *s = add_large_segment(a, &m);
    uint32_t id = s->view.id, pieces = 0, last = 0;

    while (segment_look(s) == SEGMENT_MORE) {
        ck_assert_uint_gt(s->look.slot, last);
        ck_assert_uint_le(s->look.slot - last, 4096);
        ck_assert_uint_eq(atomic_load(&m.view.news->closing), 1);
        ck_assert_uint_eq(segment_claim(&m.view, 0, m.view.n_data, a->peer_id), m.view.n_data);
        last = s->look.slot;
        pieces++;
    }
    ck_assert_uint_ge(pieces, 15);
    ck_assert_ptr_null(segment_find(&server, id));
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

/* In the first pass, slots behind the place of the look may be claimed: the second one finds them.
 */
START_TEST(a_slot_that_was_claimed_behind_a_look_is_seen)
{
    struct session *a = npud_session(1);
    struct mapped m;
    struct segment *s = add_large_segment(a, &m);
    struct mbuf *x;

    atomic_store(&m.view.page->hint[1], 1); /* hints are wrong: the look begins with a guess */
    look_as_far_as(s, 1000);
    ck_assert_uint_eq(atomic_load(&m.view.news->closing), 0);
    x = claim_data(&m, a);
    ck_assert_int_eq(look_to_the_end(s), SEGMENT_USED);
    ck_assert_uint_eq(atomic_load(&m.view.news->closing), 0);
    ck_assert_uint_eq(s->look.slot, 0);
    mbuf_release(&m.view, x);
    ck_assert_int_eq(look_to_the_end(s), SEGMENT_GONE);
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

/* An orphan that no session maps, with a message in a queue of b: its data has no head any more. */
static struct segment *leave_message(struct session *a, struct mapped *m, struct queue_attach *qb,
                                     uint32_t slot)
{
    struct segment *s = add_large_segment(a, m);
    struct mbuf *x, *y = &m->view.mbufs[slot];
    struct queue_attach *qa = queue_attach_new(a, qb->queue, qb->queue->id, QUEUE_PUT);

    ck_assert(qa && queue_allow_map(qb->queue, s));
    x = alloc_buffer(m, a);
    ck_assert(mbuf_claim(y, a->peer_id));
    ck_assert_int_eq(mbuf_refer(&m->view, y, (uint32_t)(x - m->view.mbufs)), 2);
    mbuf_hold(y, a->peer_id);
    mbuf_drop(&m->view, x, &(bool){false});
    ck_assert_int_eq(
        queue_enqueue(&qb->queue->ring.view, y, ref_of(m, y), atomic_load(&y->word), a->peer_id),
        QUEUE_OK);
    session_free(a);
    ck_assert_ptr_null(s->maps);
    segment_look_ends(s);
    return s;
}

#define FAR 60000 /* a slot without data */

/* b maps the segment, takes the message, and moves its data to a slot behind the place of the look.
 */
START_TEST(a_look_begins_again_with_a_new_session)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct queue_attach *qb;
    struct queue_front front;
    struct segment *s;
    struct mapped m;
    struct mbuf *x, *y;
    uint64_t held;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    s = leave_message(a, &m, qb, FAR);
    look_as_far_as(s, FAR - 20000);
    share_segment(b, s);
    y = &m.view.mbufs[FAR];
    ck_assert_int_eq(queue_front(&qb->queue->ring.view, &front), QUEUE_OK);
    ck_assert_int_eq(
        queue_dequeue(&qb->queue->ring.view, &front, y, b->peer_id, segments_table(&server), &held),
        QUEUE_OK);
    x = copy_ref(&m, y, b);
    ck_assert_uint_lt(x - m.view.mbufs, FAR - 20000);
    mbuf_drop(&m.view, y, &(bool){false});
    ck_assert_int_eq(look_to_the_end(s), SEGMENT_USED);
    mbuf_drop(&m.view, x, &(bool){false});
    session_free(b);
    await_pools(0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* npud takes the message for a route, and what it has put for one destination goes first. */
START_TEST(a_look_begins_again_with_a_copy_of_npud)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct queue_attach *qb;
    struct segment *s;
    struct mapped m;
    struct chain chain;
    uint32_t ref, copy;
    struct mbuf *y;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    s = leave_message(a, &m, qb, FAR);
    look_as_far_as(s, FAR - 20000);
    y = &m.view.mbufs[FAR];
    ref = ref_of(&m, y);
    set_word(y, mbuf_word_held(mbuf_generation(atomic_load(&y->word)) + 1, PEER_NPUD));
    ck_assert(chain_read(&server, ref, &chain));
    ck_assert_int_eq(chain_copy(&chain, &copy), CHAIN_OK);
    ck_assert_uint_lt(copy & 0xffff, FAR - 20000);
    ck_assert_int_eq(queue_enqueue(&qb->queue->ring.view, &m.view.mbufs[copy & 0xffff], copy,
                                   atomic_load(&m.view.mbufs[copy & 0xffff].word), PEER_NPUD),
                     QUEUE_OK);
    queue_carried(qb->queue);
    chain_free(&server, ref);
    ck_assert_int_eq(look_to_the_end(s), SEGMENT_USED);
    session_free(b);
    await_pools(0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* --- what npud remembers of a ring --- */

/* A message that was put after npud has looked at the ring, by a session that has died since. */
START_TEST(what_was_put_after_a_look_at_the_ring_is_seen)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct queue_attach *qb;
    struct mbuf *x;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    ck_assert_ptr_nonnull(queue_attach_new(a, qb->queue, qb->queue->id, QUEUE_PUT));
    ck_assert(queue_allow_map(qb->queue, s));
    x = alloc_buffer(&m, a);
    ck_assert(!queue_sweep_has(qb->queue, ref_of(&m, x), a->peer_id));
    ck_assert_int_eq(
        queue_enqueue(&qb->queue->ring.view, x, ref_of(&m, x), atomic_load(&x->word), a->peer_id),
        QUEUE_OK);
    session_free(a);
    ck_assert_int_eq(state_of(x), MBUF_SENDING);
    npud_turn();
    ck_assert_uint_eq(n_pools(), 1);
    ck_assert_ptr_eq(segment_find(&server, m.view.id), s);
    session_free(b);
    await_pools(0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* The same by npud itself, for a route. */
START_TEST(what_npud_put_after_a_look_at_the_ring_is_seen)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct queue_attach *qb;
    struct mbuf *x;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    ck_assert(queue_allow_map(qb->queue, s));
    x = alloc_buffer(&m, a);
    ck_assert(!queue_sweep_has(qb->queue, ref_of(&m, x), PEER_NPUD));
    mbuf_hold(x, PEER_NPUD);
    ck_assert_int_eq(
        queue_enqueue(&qb->queue->ring.view, x, ref_of(&m, x), atomic_load(&x->word), PEER_NPUD),
        QUEUE_OK);
    queue_carried(qb->queue);
    ck_assert(queue_sweep_has(qb->queue, ref_of(&m, x), PEER_NPUD));
    session_free(a);
    npud_turn();
    ck_assert_uint_eq(n_pools(), 1);
    session_free(b);
    await_pools(0);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* A consumer moves on without the message: its word says that it is in the ring, and it is not. */
START_TEST(a_message_that_was_passed_over_keeps_nothing)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 1000, 64);
    struct mapped m = map_all(s);
    struct queue_attach *qb;
    struct mbuf *x;

    ck_assert_int_eq(queue_new(b, "", 8, &qb), 0);
    ck_assert_ptr_nonnull(queue_attach_new(a, qb->queue, qb->queue->id, QUEUE_PUT));
    ck_assert(queue_allow_map(qb->queue, s));
    x = alloc_buffer(&m, a);
    ck_assert_int_eq(
        queue_enqueue(&qb->queue->ring.view, x, ref_of(&m, x), atomic_load(&x->word), a->peer_id),
        QUEUE_OK);
    session_free(a);
    npud_turn();
    ck_assert_uint_eq(n_pools(), 1);
    atomic_store(&qb->queue->ring.view.take->head, UINT64_C(1) << 16 | b->peer_id);
    atomic_store(&qb->queue->ring.view.take->committed, 1);
    pool_look_soon(s->pool);
    await_pools(0);
    session_free(b);
    unmap_all(&m);
    npud_stop();
}
END_TEST

/* --- rights --- */

START_TEST(lost_rights_drain_a_segment)
{
    struct session *a = npud_session(1), *b = npud_session(2), *c = npud_session(3);
    struct segment *s = add_segment(a, 128, 4);
    struct queue_attach *qa, *qb, *qc;
    struct mapped m = map_all(s);
    struct mbuf *held = alloc_buffer(&m, a);
    uint32_t id = s->view.id;

    ck_assert_int_eq(queue_new(a, "", 8, &qa), 0);
    qb = queue_attach_new(b, qa->queue, qa->queue->id, QUEUE_TAKE);
    qc = queue_attach_new(c, qa->queue, qa->queue->id, QUEUE_TAKE);
    ck_assert(qb && qc);
    ck_assert(!queue_session_may_map(b, s));
    ck_assert(queue_allow_map(qa->queue, s));
    ck_assert(queue_session_may_map(b, s));
    share_segment(b, s);
    share_segment(c, s);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    ck_assert_int_eq(queue_attach_change(qb, 0), 0);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 1);
    ck_assert_int_eq(queue_attach_change(qc, QUEUE_PUT), 0);
    ck_assert_uint_eq(s->n_lost, 2);
    session_free(b);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 1);
    ck_assert_int_eq(queue_attach_change(qc, QUEUE_PUT | QUEUE_TAKE), 0);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    /*
     * No process allocates from it while it drains: when nothing is in it, npud frees it at once.
     */
    mbuf_release(&m.view, held);
    ck_assert_ptr_eq(segment_find(&server, id), s);
    ck_assert_int_eq(queue_attach_change(qc, QUEUE_PUT), 0);
    ck_assert_ptr_null(segment_find(&server, id));
    unmap_all(&m);
    session_free(a);
    session_free(c);
    npud_stop();
}
END_TEST

/*
 * A pool that is not worth giving back, and a segment of it that drains: clients do not allocate
 * there, and tell npud of the last buffer that they free. Guards against its staying when it is
 * npud that frees the last one, for a session that has died.
 */
START_TEST(drained_segment_of_a_small_pool_goes)
{
    struct session *a = npud_session(1), *b = npud_session(2), *c = npud_session(3);
    struct segment *s = add_segment(a, 128, 4);
    struct mapped m = map_all(s);

    share_segment(b, s);
    share_segment(c, s);
    alloc_buffer(&m, b);
    pool_look_soon(s->pool);
    ck_assert_int_eq(s->pool->look, POOL_LOOK_SMALL);
    segment_map_set_lost(segment_find_map(b, s), true);
    segment_map_set_lost(segment_find_map(c, s), true);
    ck_assert(!segment_give_back(s));
    session_free(b);
    await_memory(0);
    unmap_all(&m);
    session_free(a);
    session_free(c);
    npud_stop();
}
END_TEST

/* A look is under way, which has passed a segment that is free meanwhile. */
START_TEST(search_does_not_trust_a_look_that_has_begun)
{
    struct session *a = npud_session(1);
    struct pool *pool = pool_get(a);
    struct room_search search = {0};

    add_segment(a, 128, 4);
    pool_look_at(add_segment(a, 128, 4));
    ck_assert_int_eq(pools_search_room(server.pools, &search, pool, NULL), ROOM_FOUND);
    ck_assert_uint_eq(pool->n_segments, 0);
    ck_assert_int_eq(pools_search_room(server.pools, &search, pool, NULL), ROOM_NONE);
    session_free(a);
    npud_stop();
}
END_TEST

/* Guards against segments that stay: a look became due while a search looked, and never came. */
START_TEST(a_look_that_is_due_comes_after_a_search)
{
    struct session *a = npud_session(1);
    struct pool *pool = pool_get(a);
    struct room_search search = {0};
    struct segment *s = add_segment(a, 128, 4);
    struct mapped m = map_all(s);

    alloc_buffer(&m, a);
    pool->bytes += POOL_KEPT; /* large: worth a look */
    pool->next_look = s;      /* as while the search gives another segment back */
    pool_look_soon(pool);
    pool->bytes -= POOL_KEPT;
    ck_assert_int_eq(pool->look, POOL_LOOK_DUE);
    ck_assert(!event_pending(pool->on_look, EV_TIMEOUT, NULL));
    ck_assert_int_eq(pools_search_room(server.pools, &search, pool, NULL), ROOM_NONE);
    ck_assert(event_pending(pool->on_look, EV_TIMEOUT, NULL));
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

static void tell_freed(struct session *session, const struct segment *s)
{
    Npud__TrimSegment in = NPUD__TRIM_SEGMENT__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;
    struct call call = {.session = session, .request = &request};

    in.segment = s->view.id;
    request.trim_segment = &in;
    ck_assert_int_eq(on_trim_segment(&call), 0);
}

/* What no process allocates from is not kept for the time that others are. */
START_TEST(drained_segment_goes_when_it_is_told)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 128, 4), *t = add_segment(a, 128, 4);
    uint32_t id = s->view.id, other = t->view.id;
    struct mapped m = map_all(s);
    struct mbuf *held = alloc_buffer(&m, b);

    share_segment(b, s);
    segment_map_set_lost(segment_find_map(b, s), true);
    mbuf_release(&m.view, held);
    tell_freed(b, s);
    tell_freed(a, t);
    ck_assert_ptr_null(segment_find(&server, id));
    ck_assert_ptr_eq(segment_find(&server, other), t);
    unmap_all(&m);
    session_free(a);
    session_free(b);
    npud_stop();
}
END_TEST

/*
 * A reader that has lost its right gets it back through no queue of its own: neither by passing the
 * segment on afterwards, nor by having done so before.
 */
START_TEST(a_reader_keeps_no_right_by_passing_on)
{
    struct session *a = npud_session(1), *b = npud_session(2), *c = npud_session(3);
    struct segment *s = add_segment(a, 128, 4), *t = add_segment(a, 256, 4);
    struct queue_attach *qa, *qb, *qc, *own;
    struct mapped m = map_all(s), n = map_all(t);

    alloc_buffer(&m, a);
    alloc_buffer(&n, a);
    ck_assert_int_eq(queue_new(a, "", 8, &qa), 0);
    ck_assert_int_eq(queue_new(b, "", 8, &own), 0);
    qb = queue_attach_new(b, qa->queue, qa->queue->id, QUEUE_TAKE);
    qc = queue_attach_new(c, own->queue, own->queue->id, QUEUE_TAKE);
    ck_assert(qb && qc);
    ck_assert(queue_allow_map(qa->queue, s) && queue_allow_map(qa->queue, t));
    share_segment(b, s);
    share_segment(b, t);
    ck_assert(queue_pass_on(a, s));
    ck_assert(!queue_pass_on(c, s));
    ck_assert(queue_pass_on(b, t));
    ck_assert(queue_allow_map(own->queue, t));
    share_segment(c, t);
    ck_assert_uint_eq(atomic_load(&t->view.news->draining), 0);

    ck_assert_int_eq(queue_attach_change(qb, 0), 0);
    ck_assert(!queue_pass_on(b, s));
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 1);
    ck_assert(queue_session_may_map(b, t));
    ck_assert_uint_eq(atomic_load(&t->view.news->draining), 1);
    session_free(b);
    ck_assert(queue_session_may_map(c, t));
    ck_assert_uint_eq(atomic_load(&t->view.news->draining), 1);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    unmap_all(&m);
    unmap_all(&n);
    session_free(a);
    session_free(c);
    npud_stop();
}
END_TEST

/* The owner has put buffers of the segment into another queue of the reader since. */
/* From then on the owner cannot revoke it, and with it what others have through it. */
START_TEST(what_a_reader_passed_on_is_spoiled_by_its_end)
{
    struct session *a = npud_session(1), *b = npud_session(2), *c = npud_session(3);
    struct segment *s = add_segment(a, 128, 4), *t = add_segment(a, 256, 4);
    struct mapped m = map_all(s), n = map_all(t);
    struct queue_attach *qa, *own;

    alloc_buffer(&m, a);
    alloc_buffer(&n, a);
    ck_assert_int_eq(queue_new(a, "", 8, &qa), 0);
    ck_assert_int_eq(queue_new(b, "", 8, &own), 0);
    ck_assert_ptr_nonnull(queue_attach_new(b, qa->queue, qa->queue->id, QUEUE_TAKE));
    ck_assert_ptr_nonnull(queue_attach_new(c, own->queue, own->queue->id, QUEUE_TAKE));
    ck_assert(queue_allow_map(qa->queue, s) && queue_allow_map(qa->queue, t));
    share_segment(b, s);
    share_segment(b, t);
    ck_assert(queue_pass_on(b, t));
    ck_assert(queue_allow_map(own->queue, t));
    share_segment(c, t);
    session_free(b);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    ck_assert_uint_eq(atomic_load(&t->view.news->draining), 1);
    unmap_all(&m);
    unmap_all(&n);
    session_free(a);
    session_free(c);
    npud_stop();
}
END_TEST

START_TEST(a_right_to_pass_on_comes_back_with_a_message)
{
    struct session *a = npud_session(1), *b = npud_session(2);
    struct segment *s = add_segment(a, 128, 4);
    struct queue_attach *qa, *qb, *other;
    struct mapped m = map_all(s);

    alloc_buffer(&m, a);
    ck_assert_int_eq(queue_new(a, "", 8, &qa), 0);
    ck_assert_int_eq(queue_new(a, "", 8, &other), 0);
    qb = queue_attach_new(b, qa->queue, qa->queue->id, QUEUE_TAKE);
    ck_assert(qb && queue_attach_new(b, other->queue, other->queue->id, QUEUE_TAKE));
    ck_assert(queue_allow_map(qa->queue, s));
    share_segment(b, s);
    ck_assert_int_eq(queue_attach_change(qb, 0), 0);
    ck_assert(!queue_pass_on(b, s));
    ck_assert(queue_allow_map(other->queue, s));
    ck_assert(queue_pass_on(b, s));
    unmap_all(&m);
    session_free(a);
    session_free(b);
    npud_stop();
}
END_TEST

/* --- processes that outlive their session --- */

/* A session whose process is a child that does nothing. */
static struct session *session_of_child(pid_t *child)
{
    struct session *s;

    *child = child_start_idle();
    s = npud_session(*child);
    s->pidfd = pidfd_open_process(*child);
    ck_assert_int_ge(s->pidfd, 0);
    return s;
}

static void end_child(pid_t child)
{
    child_kill(child);
    npud_turn();
}

static bool peer_id_is_free(uint32_t number)
{
    return !peer_session(&server, number) && !peer_left(&server, number);
}

START_TEST(slots_of_a_survivor_stay_until_it_exits)
{
    pid_t child;
    struct session *a = npud_session(1), *b = session_of_child(&child);
    struct segment *s = add_segment(a, 128, 4);
    struct mapped m = map_all(s);
    struct mbuf *held, *own, *copy, *head, *member;
    uint32_t number = b->peer_id, slot;

    share_segment(b, s);
    own = alloc_buffer(&m, a);
    held = alloc_buffer(&m, b);
    copy = copy_ref(&m, own, b);
    head = alloc_buffer(&m, b);
    member = alloc_buffer(&m, b);
    set_word(member, mbuf_word_member(1, ref_of(&m, head)));
    session_free(b);
    ck_assert(!peer_id_is_free(number));
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 1);
    ck_assert_int_eq(state_of(held), MBUF_HELD);
    ck_assert_int_eq(state_of(copy), MBUF_HELD);
    ck_assert_int_eq(state_of(member), MBUF_MEMBER);
    /*
     * What the survivor still stores is its own affair: here, that it has freed a reference and a
     * buffer.
     */
    slot = segment_claim(&m.view, 0, m.view.n_data, a->peer_id);
    ck_assert_uint_eq(slot, m.view.n_data);
    end_child(child);
    ck_assert(peer_id_is_free(number));
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    ck_assert_int_eq(state_of(held), MBUF_FREE);
    ck_assert_int_eq(state_of(copy), MBUF_FREE);
    ck_assert_int_eq(state_of(head), MBUF_FREE);
    ck_assert_int_eq(state_of(member), MBUF_FREE);
    ck_assert_int_eq(state_of(own), MBUF_HELD);
    ck_assert_uint_eq(count_of(own), 1);
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

/*
 * Memory of a segment is never used for another segment: npud may free the segment while a survivor
 * has a buffer in it, and no other process is hurt.
 */
START_TEST(segment_of_a_survivor_alone_is_given_back)
{
    pid_t child;
    struct session *a = npud_session(1), *b = session_of_child(&child);
    struct segment *s = add_segment(a, 128, 4);
    uint32_t id = s->view.id;
    struct mapped m = map_all(s);
    struct mbuf *own;

    share_segment(b, s);
    own = alloc_buffer(&m, a);
    alloc_buffer(&m, b);
    session_free(b);
    ck_assert(!segment_give_back(s));
    mbuf_release(&m.view, own);
    ck_assert(segment_give_back(s));
    ck_assert_ptr_null(segment_find(&server, id));
    end_child(child);
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

/* Its own pool goes at the end of its session, as far as others have nothing of it. */
START_TEST(pool_of_a_survivor_goes_with_its_session)
{
    pid_t child;
    struct session *a = npud_session(1), *b = session_of_child(&child);
    struct segment *alone = add_segment(b, 128, 4), *with = add_segment(b, 128, 4);
    uint32_t id = alone->view.id, id_with = with->view.id;
    struct mapped m = map_all(alone), w = map_all(with);
    struct mbuf *held;

    share_segment(a, with);
    alloc_buffer(&m, b);
    alloc_buffer(&w, b);
    held = alloc_buffer(&w, a);
    session_free(b);
    npud_turn();
    ck_assert_ptr_null(segment_find(&server, id));
    ck_assert_ptr_eq(segment_find(&server, id_with), with);
    mbuf_release(&w.view, held);
    ck_assert(segment_give_back(with));
    end_child(child);
    unmap_all(&m);
    unmap_all(&w);
    session_free(a);
    npud_stop();
}
END_TEST

/* A session that ends in order has no survivor, though its process lives. */
START_TEST(session_that_leaves_is_freed_at_once)
{
    pid_t child;
    struct session *a = npud_session(1), *b = session_of_child(&child);
    struct segment *s = add_segment(a, 128, 4);
    struct mapped m = map_all(s);
    struct mbuf *held;
    uint32_t number = b->peer_id;

    share_segment(b, s);
    held = alloc_buffer(&m, b);
    b->left = true;
    session_free(b);
    ck_assert(peer_id_is_free(number));
    ck_assert_int_eq(state_of(held), MBUF_FREE);
    ck_assert_uint_eq(atomic_load(&s->view.news->draining), 0);
    end_child(child);
    unmap_all(&m);
    session_free(a);
    npud_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *t = suite_case(suite, "pool", 0, NULL, NULL);

    tcase_add_test(t, sizes_are_made_to_fit);
    tcase_add_test(t, memory_of_a_user_ends);
    tcase_add_test(t, descriptors_of_a_user_end);
    t = suite_case(suite, "npud", 300, start_npud, NULL);
    tcase_add_test(t, segment_is_charged_whole);
    tcase_add_test(t, ids_are_used_again_late);
    tcase_add_test(t, what_the_dead_hold_is_freed);
    tcase_add_test(t, chains_of_the_dead_are_freed);
    tcase_add_test(t, messages_of_the_dead_stay);
    tcase_add_test(t, orphan_goes_with_its_last_buffer);
    tcase_add_test(t, lies_do_not_keep_an_orphan);
    tcase_add_test(t, garbage_is_survived);
    tcase_add_test(t, who_plays_with_a_count_does_not_stall_npud);
    tcase_add_test(t, memory_is_given_back);
    tcase_add_test(t, claim_meets_giving_back);
    tcase_add_test(t, references_on_the_move_are_seen);
    tcase_add_test(t, a_crowd_of_orphans_looks_in_slices);
    tcase_add_test(t, a_pool_is_counted_in_slices);
    tcase_add_test(t, a_look_keeps_its_place);
    tcase_add_test(t, a_slot_that_was_claimed_behind_a_look_is_seen);
    tcase_add_test(t, a_look_begins_again_with_a_new_session);
    tcase_add_test(t, a_look_begins_again_with_a_copy_of_npud);
    tcase_add_test(t, what_was_put_after_a_look_at_the_ring_is_seen);
    tcase_add_test(t, what_npud_put_after_a_look_at_the_ring_is_seen);
    tcase_add_test(t, a_message_that_was_passed_over_keeps_nothing);
    tcase_add_test(t, lost_rights_drain_a_segment);
    tcase_add_test(t, drained_segment_of_a_small_pool_goes);
    tcase_add_test(t, search_does_not_trust_a_look_that_has_begun);
    tcase_add_test(t, a_look_that_is_due_comes_after_a_search);
    tcase_add_test(t, drained_segment_goes_when_it_is_told);
    tcase_add_test(t, a_reader_keeps_no_right_by_passing_on);
    tcase_add_test(t, what_a_reader_passed_on_is_spoiled_by_its_end);
    tcase_add_test(t, a_right_to_pass_on_comes_back_with_a_message);
    tcase_add_test(t, slots_of_a_survivor_stay_until_it_exits);
    tcase_add_test(t, segment_of_a_survivor_alone_is_given_back);
    tcase_add_test(t, pool_of_a_survivor_goes_with_its_session);
    tcase_add_test(t, session_that_leaves_is_freed_at_once);
    return run_suite(suite);
}
