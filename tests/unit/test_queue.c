/*
 * npud's side of queues: rights, grants, mappings, new rings, which sessions are told of the end of
 * a peer, what a dead session has left in a ring.
 */
#include "npud.h"
#include "tests/common/need.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utlist.h>

#include "acl/acl_base.h"
#include "daemon/buffers/grant.h"
#include "daemon/base/pidfd.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/segment.h"
#include "daemon/admin/wait_graph.h"
#include "daemon/control/held_request.h"
#include "daemon/core/call.h"
#include "proto/shm/mbuf_ref.h"
#include "tests/common/child.h"
#include "tests/unit/messages.h"

#define DEPTH 4

/* As the kernel says when it has no memory for a file. */
static bool no_memory;
int memfd_create(const char *name, unsigned flags)
{
    if (!no_memory)
        return (int)syscall(SYS_memfd_create, name, flags);
    errno = ENOMEM;
    return -1;
}

static bool no_heap;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return no_heap ? NULL : __real_calloc(n, size);
}

/* --- messages --- */

static struct queue_attach *make_queue(struct session *session)
{
    struct queue_attach *attach;

    ck_assert_int_eq(queue_new(session, "", DEPTH, &attach), 0);
    return attach;
}

/* As on_attach_queue(). */
static struct queue_attach *join_queue(struct session *session, struct queue *queue)
{
    struct grant *grant = grant_find(session, queue);
    struct queue_attach *attach;

    ck_assert_ptr_nonnull(grant);
    ck_assert_ptr_eq(grant->queue, queue);
    attach = queue_attach_new(session, queue, queue->id, grant->rights);
    ck_assert_ptr_nonnull(attach);
    grant_free(grant);
    queue_party_came(queue, 0);
    return attach;
}

/* --- life --- */

START_TEST(a_queue_lives_as_long_as_somebody_has_it)
{
    struct queue_attach *a;
    struct session *s, *other;
    struct queue *queue;

    npud_start(NULL);
    s = npud_session(100);
    ck_assert_int_eq(queue_new(s, "", 1, &a), CAUSE_QUEUE_DEPTH);
    ck_assert_int_eq(queue_new(s, "", 8193, &a), CAUSE_QUEUE_DEPTH);
    a = make_queue(s);
    queue = a->queue;
    ck_assert_uint_eq(a->rights, QUEUE_RIGHTS);
    ck_assert_str_eq(queue->name, "queue-0");
    ck_assert_ptr_eq(queue_attached(s, queue->id), a);
    ck_assert_ptr_eq(queue_by_number(&server, queue->ring.view.number), queue);

    other = npud_session(getpid());
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
    ck_assert_uint_eq(join_queue(other, queue)->rights, QUEUE_TAKE);
    session_free(s);
    ck_assert_uint_eq(server.queues->n, 1);
    ck_assert_ptr_null(queue->creator);
    session_free(other);
    ck_assert_uint_eq(server.queues->n, 0);
    npud_stop();
}
END_TEST

START_TEST(ids_are_used_again_as_late_as_possible)
{
    struct queue_attach *a;
    struct session *s;

    if (!need_own_fds(__func__, QUEUE_FILES * QUEUE_IDS + 100))
        return;
    npud_start((const char *const[]){"limits.queues=5000", NULL});
    s = npud_session(100);
    for (uint32_t i = 0; i < 10; i++) {
        a = make_queue(s);
        ck_assert_uint_eq(a->queue->id, i);
        queue_destroy(a->queue);
    }
    for (uint32_t i = 0; i < QUEUE_IDS; i++)
        make_queue(s);
    ck_assert_int_eq(queue_new(s, "", 2, &a), CAUSE_QUEUE_IDS);
    queue_destroy(queue_attached(s, 77)->queue);
    ck_assert_uint_eq(make_queue(s)->queue->id, 77);
    session_free(s);
    npud_stop();
}
END_TEST

START_TEST(limits_hold)
{
    struct queue_attach *a;
    struct session *s;

    npud_start((const char *const[]){"limits.queues=3", "limits.fds=100", NULL});
    s = npud_session(100);
    for (int i = 0; i < 3; i++)
        make_queue(s);
    ck_assert_int_eq(queue_new(s, "", 2, &a), CAUSE_USER_QUEUES);
    ck_assert_uint_eq(server.queues->n, 3);
    /* A pidfd each, of what the creator may have. */
    config.limit[RESOURCE_FDS] = s->user->used[RESOURCE_FDS];
    ck_assert_int_eq(grant_set(queue_attached(s, 0)->queue, getpid(), QUEUE_PUT),
                     CAUSE_USER_DESCRIPTORS);
    queue_destroy(queue_attached(s, 2)->queue);
    ck_assert_int_eq(grant_set(queue_attached(s, 0)->queue, getpid(), QUEUE_PUT), 0);
    ck_assert_int_eq(queue_new(s, "", 2, &a), CAUSE_USER_DESCRIPTORS);
    session_free(s);
    ck_assert_uint_eq(server.queues->n, 1); /* of this process, which may still attach */
    grant_set(queue_from(&server, 0), getpid(), 0);
    ck_assert_uint_eq(server.queues->n, 0);
    npud_stop();
}
END_TEST

/* --- grants --- */

START_TEST(a_grant_is_for_one_process)
{
    struct session *s, *other, *third;
    struct queue *queue;
    uint32_t told;

    npud_start(NULL);
    s = npud_session(100);
    other = npud_session(getpid());
    third = npud_session(getppid());
    queue = make_queue(s)->queue;
    ck_assert_int_eq(grant_set(queue, 0, QUEUE_TAKE), CAUSE_GRANT_PID);
    ck_assert_int_eq(grant_set(queue, -1, QUEUE_TAKE), CAUSE_GRANT_PID);
    ck_assert_int_eq(grant_set(queue, INT32_MAX, QUEUE_TAKE), CAUSE_GRANT_NO_PROCESS);
    ck_assert_ptr_null(grant_find(other, queue));

    grant_asked(other);
    told = atomic_load(&other->page->grants);
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
    ck_assert_uint_ne(atomic_load(&other->page->grants), told);
    ck_assert_ptr_null(grant_find(third, queue));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT | QUEUE_MANAGE), 0);
    ck_assert_uint_eq(queue->n_grants, 1);
    ck_assert_uint_eq(join_queue(other, queue)->rights, QUEUE_PUT | QUEUE_MANAGE);
    ck_assert_uint_eq(queue->n_grants, 0);
    ck_assert_int_eq(grant_set(queue, getppid(), QUEUE_PUT), 0);
    ck_assert_int_eq(grant_set(queue, getppid(), 0), 0);
    ck_assert_ptr_null(grant_find(third, queue));
    ck_assert_int_eq(grant_set(queue, getppid(), 0), 0);
    session_free(third);
    session_free(other);
    session_free(s);
    npud_stop();
}
END_TEST

START_TEST(a_grant_ends_with_its_process)
{
    struct session *s;
    struct queue *queue;
    pid_t pid;

    npud_start(NULL);
    s = npud_session(100);
    queue = make_queue(s)->queue;
    pid = child_start_idle();
    ck_assert_int_eq(grant_set(queue, pid, QUEUE_PUT), 0);
    ck_assert_uint_eq(queue->ring.view.news->puts.n, 2);
    session_free(s);
    ck_assert_uint_eq(server.queues->n, 1);
    ck_assert_uint_eq(queue->ring.view.news->puts.n, 1);
    child_kill(pid);
    AWAIT((npud_turn(), server.queues->n == 0));
    npud_stop();
}
END_TEST

/* The loop only tells of the death: each grant ends in a step of the queue's user. */
START_TEST(grants_of_a_process_end_in_steps)
{
    struct queue *queue[8];
    struct session *s;
    pid_t pid;
    unsigned left;

    npud_start(NULL);
    s = npud_session(100);
    pid = child_start_idle();
    for (int i = 0; i < 8; i++) {
        queue[i] = make_queue(s)->queue;
        ck_assert_int_eq(grant_set(queue[i], pid, QUEUE_PUT), 0);
    }
    child_kill(pid);
    AWAIT((event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE),
           queue[0]->grants->ended.listed));
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(queue[i]->n_grants, 1);
    AWAIT((event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE),
           queue[7]->grants->ended.listed));
    ck_assert_ptr_eq(queue[0]->grants->ended.owner->user, &s->user->schedule);
    npud_turn();
    left = 0;
    for (int i = 0; i < 8; i++)
        left += queue[i]->n_grants;
    ck_assert_uint_eq(left, 0);
    session_free(s);
    npud_stop();
}
END_TEST

/* The number is another process's already, and npud has not heard of the end of the first. */
START_TEST(who_gets_the_pid_later_gets_no_grant)
{
    struct session *s, *later;
    struct queue *queue;
    pid_t pid = child_start_idle();

    npud_start(NULL);
    s = npud_session(100);
    queue = make_queue(s)->queue;
    ck_assert_int_eq(grant_set(queue, pid, QUEUE_RIGHTS), 0);
    child_kill(pid);
    later = npud_session(pid);
    ck_assert_ptr_null(grant_find(later, queue));
    ck_assert_int_eq(grant_set(queue, pid, QUEUE_TAKE), CAUSE_GRANT_NO_PROCESS);
    session_free(later);
    session_free(s);
    AWAIT((npud_turn(), server.queues->n == 0));
    npud_stop();
}
END_TEST

/* --- descriptors --- */

/* Can this process map the file for writing? With the descriptor as it is, or opened again. */
static bool is_writable(int fd)
{
    char path[32];
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int again;

    if (map != MAP_FAILED)
        return true;
    ck_assert_int_eq(errno, EACCES);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_lt(mprotect(map, 4096, PROT_READ | PROT_WRITE), 0);
    munmap(map, 4096);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0)
        close(again);
    return again >= 0;
}

/* As another user: root may write to anything. */
static int try_as_nobody(void *fd)
{
    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        return 2;
    return is_writable(*(int *)fd);
}

static bool is_writable_for_others(int fd)
{
    int status = child_reap(child_start(try_as_nobody, &fd));

    ck_assert(WIFEXITED(status));
    ck_assert_int_lt(WEXITSTATUS(status), 2);
    return WEXITSTATUS(status);
}

START_TEST(a_right_is_a_mapping)
{
    struct session *s;
    int fd[QUEUE_FILES];

    npud_start(NULL);
    s = npud_session(100);
    make_queue(s);
    for (uint32_t rights = 0; rights <= QUEUE_RIGHTS; rights++) {
        ck_assert_int_eq(queue_ring_open(&queue_attached(s, 0)->queue->ring, rights, fd), 0);
        ck_assert_int_eq(is_writable_for_others(fd[0]), (rights & QUEUE_PUT) != 0);
        ck_assert_int_eq(is_writable_for_others(fd[1]), (rights & QUEUE_TAKE) != 0);
        ck_assert(!is_writable_for_others(fd[2]));
        for (int i = 0; i < QUEUE_FILES; i++)
            close(fd[i]);
    }
    session_free(s);
    npud_stop();
}
END_TEST

/* --- whose segments clients may map --- */

START_TEST(takers_may_map_what_the_queue_allows)
{
    struct session *a, *b;
    struct segment *allowed, *not_allowed;
    struct queue *queue;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    allowed = make_segment(a);
    not_allowed = make_segment(a);
    queue = make_queue(a)->queue;
    ck_assert(!queue_session_may_map(a, allowed));
    ck_assert(queue_allow_map(queue, allowed));
    ck_assert(queue_session_may_map(a, allowed));
    ck_assert(!queue_session_may_map(a, not_allowed));
    ck_assert(!queue_session_may_map(b, allowed));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    join_queue(b, queue);
    ck_assert(!queue_session_may_map(b, allowed));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT | QUEUE_TAKE), 0);
    ck_assert(queue_session_may_map(b, allowed));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    ck_assert(!queue_session_may_map(b, allowed));
    ck_assert(queue_session_may_map(a, allowed)); /* what it allows moves along */
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/* It goes, and a new one of the session's has its id. */
static struct segment *replace_segment(struct session *session, struct segment *old)
{
    uint32_t id = old->view.id;
    struct segment *segment;

    segment_free(old);
    server.last->segment_id = id - 1;
    segment = make_segment(session);
    ck_assert_uint_eq(segment->view.id, id);
    return segment;
}

/* Queues are not told that a segment goes: a later one with its id is not the one they allow. */
START_TEST(what_is_allowed_goes_with_the_segment)
{
    struct session *a;
    struct segment *first, *other, *second;
    struct queue *queue;

    npud_start(NULL);
    a = npud_session(100);
    first = make_segment(a);
    other = make_segment(a);
    queue = make_queue(a)->queue;
    ck_assert(queue_allow_map(queue, first));
    second = replace_segment(a, first);
    ck_assert(!queue_session_may_map(a, second));
    /* A bit beside it is set, and does not renew it. */
    ck_assert_uint_eq(other->view.id / 64, second->view.id / 64);
    ck_assert(queue_allow_map(queue, other));
    ck_assert(!queue_session_may_map(a, second));
    ck_assert(queue_session_may_map(a, other));
    ck_assert(queue_allow_map(queue, second));
    ck_assert(queue_session_may_map(a, second));
    ck_assert(queue_session_may_map(a, other));
    session_free(a);
    npud_stop();
}
END_TEST

/* The same where a segment does not remember all queues that allow it, and they are asked. */
START_TEST(what_is_allowed_goes_beside_many_queues)
{
    struct session *a, *b;
    struct segment *first, *second;
    struct queue *queue;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(101);
    first = make_segment(a);
    queue = make_queue(a)->queue;
    ck_assert(queue_allow_map(queue, first));
    ck_assert_ptr_nonnull(queue_attach_new(b, queue, 0, QUEUE_TAKE));
    second = replace_segment(a, first);
    for (uint32_t i = 0; i <= SEGMENT_ALLOWED_BY; i++)
        ck_assert(queue_allow_map(make_queue(a)->queue, second));
    ck_assert(!queue_session_may_map(b, second));
    ck_assert(queue_allow_map(queue, second));
    ck_assert(queue_session_may_map(b, second));
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/*
 * The rights of a reader are counted: by each queue that allows the segment, whichever comes first,
 * the queue, the segment, the attachment or the mapping. The last right that goes drains it.
 */
START_TEST(each_right_to_a_segment_counts)
{
    struct queue_attach *first, *second;
    struct session *a, *b;
    struct segment *segment;
    struct queue *queue[4];

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(101);
    segment = make_segment(a);
    make_buffer(a, segment); /* or it would go when it drains */
    for (int i = 0; i < 4; i++)
        queue[i] = make_queue(a)->queue;
    ck_assert(queue_allow_map(queue[0], segment));
    first = queue_attach_new(b, queue[0], 0, QUEUE_TAKE);
    ck_assert(segment_map(b->peer, segment));
    /* The attachment, then what the queue allows. */
    second = queue_attach_new(b, queue[1], 1, QUEUE_TAKE);
    ck_assert(queue_allow_map(queue[1], segment) && queue_allow_map(queue[1], segment));
    ck_assert_int_eq(queue_attach_change(first, 0), 0);
    ck_assert_uint_eq(segment->n_lost, 0);
    ck_assert_int_eq(queue_attach_change(second, QUEUE_PUT), 0);
    ck_assert_uint_eq(segment->n_lost, 1);
    /* What the queue allows, then the attachment, the right to put alone, and that to take. */
    ck_assert(queue_allow_map(queue[2], segment));
    ck_assert_uint_eq(segment->n_lost, 1);
    first = queue_attach_new(b, queue[2], 2, QUEUE_PUT);
    ck_assert_uint_eq(segment->n_lost, 1);
    ck_assert_int_eq(queue_attach_change(first, QUEUE_PUT | QUEUE_TAKE), 0);
    ck_assert_uint_eq(segment->n_lost, 0);
    ck_assert_int_eq(queue_attach_change(second, QUEUE_PUT | QUEUE_TAKE), 0);
    queue_destroy(queue[2]);
    ck_assert_uint_eq(segment->n_lost, 0);
    queue_destroy(queue[1]);
    ck_assert_uint_eq(segment->n_lost, 1);
    /* The only right there is: the attachment, then what the queue allows. */
    ck_assert_ptr_nonnull(queue_attach_new(b, queue[3], 3, QUEUE_TAKE));
    ck_assert_uint_eq(segment->n_lost, 1);
    ck_assert(queue_allow_map(queue[3], segment));
    ck_assert_uint_eq(segment->n_lost, 0);
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/* More than a segment remembers: a reader of the last one may map it, and loses that right. */
START_TEST(many_queues_allow_a_segment)
{
    struct queue_attach *attach;
    struct session *a, *b;
    struct segment *segment;
    struct queue *queue = NULL;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(101);
    segment = make_segment(a);
    make_buffer(a, segment);
    for (uint32_t i = 0; i <= SEGMENT_ALLOWED_BY; i++) {
        queue = make_queue(a)->queue;
        ck_assert(queue_allow_map(queue, segment));
    }
    attach = queue_attach_new(b, queue, 0, QUEUE_TAKE);
    ck_assert(queue_session_may_map(b, segment));
    ck_assert(segment_map(b->peer, segment));
    ck_assert_int_eq(queue_attach_change(attach, QUEUE_PUT), 0);
    ck_assert(!queue_session_may_map(b, segment));
    ck_assert_uint_eq(segment->n_lost, 1);
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/* --- sessions that wait for a grant --- */

static bool is_told(const struct session *session)
{
    return atomic_load(&session->page->grants) != 0;
}

static unsigned count_told(struct session *const *sessions, unsigned n)
{
    unsigned told = 0;

    for (unsigned i = 0; i < n; i++)
        told += is_told(sessions[i]);
    return told;
}

/*
 * A queue that goes lets all look again that ask for a grant, but not all in one go: others have
 * their turn between.
 */
START_TEST(a_crowd_that_asks_is_told_in_slices)
{
    struct session *crowd[200], *a;
    unsigned first;

    npud_start(NULL);
    a = npud_session(100);
    for (int i = 0; i < 200; i++) {
        crowd[i] = npud_session(1000 + i);
        grant_asked(crowd[i]);
        grant_asked(crowd[i]);
    }
    queue_destroy(make_queue(a)->queue);
    first = count_told(crowd, 200);
    ck_assert_uint_gt(first, 0);
    ck_assert_uint_lt(first, 100);
    session_free(crowd[199]); /* while its turn is still to come */
    for (int i = 0; i < 10; i++)
        npud_turn();
    ck_assert_uint_eq(count_told(crowd, 199), 199);
    /* Told once: none asks any more. */
    queue_destroy(make_queue(a)->queue);
    for (int i = 0; i < 199; i++)
        ck_assert_uint_eq(atomic_load(&crowd[i]->page->grants), 1);
    npud_stop();
}
END_TEST

/* A grant is told to the sessions of the process, and to no other. */
START_TEST(a_grant_is_told_to_its_process)
{
    struct session *a, *other, *same[2];
    struct queue *queue;

    npud_start(NULL);
    a = npud_session(100);
    other = npud_session(getppid());
    for (int i = 0; i < 2; i++) {
        same[i] = npud_session(getpid());
        grant_asked(same[i]);
    }
    grant_asked(other);
    queue = make_queue(a)->queue;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
    ck_assert_uint_eq(count_told(same, 2), 2);
    ck_assert(!is_told(other));
    queue_destroy(queue);
    npud_stop();
}
END_TEST

/* --- new rings --- */

START_TEST(who_loses_a_right_is_left_behind_in_the_old_ring)
{
    struct session *a, *b;
    struct segment *segment;
    struct queue_view old, *now;
    struct queue *queue;
    uint32_t ref[DEPTH + 1];
    int fd[QUEUE_FILES];

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    segment = make_segment(a);
    queue = make_queue(a)->queue;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT | QUEUE_TAKE), 0);
    join_queue(b, queue);
    for (int i = 0; i <= DEPTH; i++)
        ref[i] = make_buffer(a, segment);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(put_message(&queue->ring.view, a, ref[i]), QUEUE_OK);
    ck_assert_uint_eq(take_message(&queue->ring.view, b), ref[0]);

    /* As b has it mapped. */
    old = queue->ring.view;
    ck_assert_int_eq(queue_ring_open(&queue->ring, QUEUE_PUT | QUEUE_TAKE, fd), 0);
    old.put = mmap(NULL, queue_put_size(DEPTH), PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
    old.take = mmap(NULL, queue_take_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd[1], 0);
    old.news = mmap(NULL, QUEUE_NEWS_SIZE, PROT_READ, MAP_SHARED, fd[2], 0);
    for (int i = 0; i < QUEUE_FILES; i++)
        close(fd[i]);
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    now = &queue->ring.view;
    ck_assert_uint_ne(now->number, old.number);
    ck_assert_ptr_null(queue_by_number(&server, old.number));
    ck_assert_ptr_eq(queue_by_number(&server, now->number), queue);
    ck_assert_uint_eq(queue_messages(queue), 1);

    ck_assert_int_eq(queue_front(&old, &(struct queue_front){0}), QUEUE_ENDED);
    ck_assert_int_eq(put_message(&old, a, ref[3]), QUEUE_ENDED);
    ck_assert_uint_eq(find_buffer(ref[3])->word, mbuf_word_held(1, a->peer_id));
    ck_assert_int_eq(old.news->state, QUEUE_MOVED);

    ck_assert_int_eq(put_message(now, a, ref[3]), QUEUE_OK);
    for (int i = 1; i <= 3; i++)
        ck_assert_uint_eq(take_message(now, a), ref[i]);
    ck_assert_uint_eq(take_message(now, a), 0);
    ck_assert_uint_eq(now->news->takes.n, 1);
    ck_assert_uint_eq(now->news->puts.n, 2);
    munmap(old.put, queue_put_size(DEPTH));
    munmap(old.take, queue_take_size());
    munmap(old.news, QUEUE_NEWS_SIZE);
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/* What a queue has is freed also if its ring ended long before, and in steps. */
START_TEST(a_queue_that_ends_in_steps_frees_its_messages)
{
    struct session *a;
    struct segment *segment;
    struct queue *queue;
    uint32_t ref;

    npud_start(NULL);
    a = npud_session(100);
    segment = make_segment(a);
    queue = make_queue(a)->queue;
    ref = make_buffer(a, segment);
    ck_assert_int_eq(put_message(&queue->ring.view, a, ref), QUEUE_OK);
    ck_assert(queue_finish_some(queue, queue->attached));
    ck_assert(queue_finish_some(queue, queue->attached));
    ck_assert_uint_ne(mbuf_state(find_buffer(ref)->word), MBUF_FREE);
    queue_destroy(queue);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref)->word), MBUF_FREE);
    session_free(a);
    npud_stop();
}
END_TEST

/* The messages are gone, and so is everything that was in the queue by its own. */
START_TEST(a_queue_that_is_destroyed_frees_its_messages)
{
    struct session *a;
    struct segment *segment;
    struct queue *queue;
    uint32_t ref[3];

    npud_start(NULL);
    a = npud_session(100);
    segment = make_segment(a);
    queue = make_queue(a)->queue;
    for (int i = 0; i < 3; i++)
        ref[i] = make_buffer(a, segment);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(put_message(&queue->ring.view, a, ref[i]), QUEUE_OK);
    queue_destroy(queue);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref[0])->word), MBUF_FREE);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref[1])->word), MBUF_FREE);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref[2])->word), MBUF_HELD);
    ck_assert_ptr_null(queue_attached(a, 0));
    session_free(a);
    npud_stop();
}
END_TEST

#define CROWD 12

static unsigned count_attached(const struct queue *queue)
{
    const struct queue_attach *attach;
    unsigned n = 0;

    DL_FOREACH2 (queue->attached, attach, qnext)
        n++;
    return n;
}

/* A queue of the session, with sessions that are attached, and a process that has a grant. */
static struct queue *make_crowded_queue(struct session *s, pid_t pid)
{
    struct queue *queue = make_queue(s)->queue;

    for (int i = 0; i < CROWD; i++)
        ck_assert_ptr_nonnull(
            queue_attach_new(npud_session(1000 + i), queue, queue->id, QUEUE_RIGHTS));
    ck_assert_int_eq(grant_set(queue, pid, QUEUE_TAKE), 0);
    return queue;
}

/* Each step is over at once. */
static void be_late(void)
{
    server.schedule.until = 1;
}

/* Its maker has begun to destroy it, whose attachment this is. */
static struct queue_attach *begin_end_of_crowded_queue(pid_t pid)
{
    struct session *s;
    struct queue *queue;
    struct queue_attach *mine;

    npud_start(NULL);
    s = npud_session(100);
    queue = make_crowded_queue(s, pid);
    mine = queue_attachment(s, queue);
    be_late();
    ck_assert(!queue_finish_some(queue, mine));
    return mine;
}

static void finish_crowded_queue(struct queue *queue, pid_t pid)
{
    queue_destroy(queue);
    server.schedule.until = 0;
    child_kill(pid);
    npud_stop();
}

/* Those that are attached to a queue go in steps; until then no other process gets it. */
START_TEST(a_queue_of_a_crowd_ends_in_steps)
{
    pid_t pid = child_start_idle();
    struct queue_attach *mine = begin_end_of_crowded_queue(pid);
    struct queue *queue = mine->queue;

    ck_assert_uint_eq(queue->n_grants, 0);
    ck_assert_uint_eq(count_attached(queue), CROWD + 1);
    ck_assert_int_eq(grant_set(queue, pid, QUEUE_TAKE), CAUSE_QUEUE_NOT_ATTACHED);
    for (unsigned n = CROWD; n > 0; n--) {
        ck_assert_uint_eq(count_attached(queue), n + 1);
        ck_assert(!queue_finish_some(queue, mine));
        /* Who is told now looks at the ring once, and at no other time. */
        ck_assert_int_eq(atomic_load(&queue->ring.view.news->state), QUEUE_DEAD);
    }
    ck_assert(queue_finish_some(queue, mine));
    ck_assert_ptr_eq(queue->attached, mine);
    finish_crowded_queue(queue, pid);
}
END_TEST

/* What a session has begun to destroy is its own to finish, also when another ends meanwhile. */
START_TEST(a_session_that_ends_leaves_the_end_of_a_queue_to_another)
{
    pid_t pid = child_start_idle();
    struct queue_attach *mine = begin_end_of_crowded_queue(pid);
    struct queue *queue = mine->queue;

    for (unsigned n = CROWD; n > 0; n--) {
        struct queue_attach *first = queue->attached == mine ? mine->qnext : queue->attached;

        ck_assert(!queue_finish_some(queue, first));
        ck_assert(!queue_sweep_leave(first->peer));
        ck_assert_uint_eq(count_attached(queue), n);
        ck_assert_ptr_eq(queue_attachment(mine->peer->session, queue), mine);
    }
    ck_assert(queue_finish_some(queue, mine));
    finish_crowded_queue(queue, pid);
}
END_TEST

static unsigned count_retired(struct session *const *crowd)
{
    unsigned n = 0;

    for (int i = 0; i < CROWD; i++)
        n += atomic_load(&crowd[i]->page->retired);
    return n;
}

/* Those that map a segment that goes are told of it in steps; a session may end before. */
START_TEST(a_crowd_learns_in_steps_that_a_segment_is_gone)
{
    struct session *s, *crowd[CROWD];
    struct segment *segment;
    unsigned before;

    npud_start(NULL);
    s = npud_session(100);
    segment = make_segment(s);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = npud_session(1000 + i);
        ck_assert(segment_map(peer_get(crowd[i]), segment));
    }
    before = count_retired(crowd);
    be_late();
    segment_free(segment);
    for (int i = 0; i < CROWD; i++)
        ck_assert_ptr_null(crowd[i]->peer->maps);
    ck_assert_uint_eq(count_retired(crowd), before);
    ck_assert(server.peers->tell.listed);
    ck_assert(server.peers->tell.run(&server.peers->tell));
    ck_assert_uint_le(count_retired(crowd), before + 1);
    session_free(s);
    server.schedule.until = 0;
    npud_turn();
    ck_assert_uint_eq(count_retired(crowd), before + CROWD);
    be_late();
    segment = make_segment(crowd[0]);
    for (int i = 1; i < CROWD; i++)
        ck_assert(segment_map(peer_get(crowd[i]), segment));
    segment_free(segment);
    for (int i = 0; i < CROWD; i++) {
        ck_assert(crowd[i]->peer->to_be_told);
        session_free(crowd[i]);
    }
    ck_assert_ptr_null(server.peers->to_tell);
    server.schedule.until = 0;
    npud_stop();
}
END_TEST

/* The request that destroys it is tried again in each turn of its session. */
START_TEST(the_request_waits_until_a_crowd_has_gone)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__DestroyQueue in = NPUD__DESTROY_QUEUE__INIT;
    struct reply_body body;
    struct call call = {.request = &request, .body = &body};
    struct room_wait wait = {0};
    pid_t pid = child_start_idle();
    unsigned tries = 1;

    npud_start(NULL);
    call.session = npud_session(100);
    call.of.queue = queue_attachment(call.session, make_crowded_queue(call.session, pid));
    request.destroy_queue = &in;
    be_late();
    for (; on_destroy_queue(&call) != 0; tries++) {
        ck_assert_int_eq(call.cause, CAUSE_QUEUE_ENDING);
        ck_assert_int_eq(request_try_again(&call, &wait, 0), TRY_NEXT_TURN);
    }
    ck_assert_uint_gt(tries, CROWD);
    ck_assert_uint_eq(server.queues->n, 0);
    server.schedule.until = 0;
    child_kill(pid);
    npud_stop();
}
END_TEST

/* The session that destroys it ends before all of them have gone. */
START_TEST(the_end_of_a_queue_is_ended)
{
    struct session *s;
    struct queue *queue;
    pid_t pid = child_start_idle();

    npud_start(NULL);
    s = npud_session(100);
    queue = make_crowded_queue(s, pid);
    be_late();
    ck_assert(!queue_finish_some(queue, queue_attachment(s, queue)));
    session_free(s);
    server.schedule.until = 0;
    ck_assert_uint_eq(server.queues->n, 0);
    child_kill(pid);
    npud_stop();
}
END_TEST

/* What no session has ends in steps of its user, or with npud. */
START_TEST(a_queue_without_a_session_ends)
{
    struct session *s;
    struct queue *queue[2];
    pid_t pid = child_start_idle();

    npud_start(NULL);
    s = npud_session(100);
    for (int i = 0; i < 2; i++) {
        queue[i] = make_crowded_queue(s, pid);
        be_late();
        queue_finish(queue[i]);
        server.schedule.until = 0;
        ck_assert_uint_eq(server.queues->n, 1);
        ck_assert(queue[i]->end.listed);
        ck_assert_ptr_eq(queue[i]->end.owner, &s->user->schedule.leftovers);
        if (i == 0)
            npud_turn();
        ck_assert_uint_eq(server.queues->n, (unsigned)i);
    }
    child_kill(pid);
    npud_stop();
}
END_TEST

#define RIGHTS 200u /* segments: of several words of map_allowed */

static struct segment *allowed[RIGHTS];

static unsigned count_draining(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < RIGHTS; i++)
        n += segment_drains(allowed[i]);
    return n;
}

/* Segments of a in use, which the queue allows, and which b maps. */
static void allow_many(struct session *a, struct session *b, struct queue *queue)
{
    for (unsigned i = 0; i < RIGHTS; i++) {
        ck_assert_int_eq(segment_new(pool_get(a), 64, 8, &allowed[i]), 0);
        make_buffer(a, allowed[i]);
        ck_assert(queue_allow_map(queue, allowed[i]));
        ck_assert(segment_map(peer_get(b), allowed[i]));
    }
}

static void expect_rights(struct session *b, uint32_t n)
{
    for (unsigned i = 0; i < RIGHTS; i++) {
        ck_assert_uint_eq(segment_find_map(b, allowed[i])->n_rights, n);
        ck_assert_int_eq(queue_session_may_map(b, allowed[i]), n > 0);
    }
}

/*
 * A session gets, and loses, its right to many segments in steps. It may map them, or not, from the
 * first step on; whoever takes the right away waits for the last one.
 */
START_TEST(rights_to_many_segments_change_in_steps)
{
    struct session *a, *b;
    struct queue_attach *attach;
    struct queue *queue;
    unsigned steps = 0, before;

    if (!need_own_fds(__func__, 2 * RIGHTS + 100))
        return;
    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    queue = make_queue(a)->queue;
    allow_many(a, b, queue);
    be_late();
    attach = queue_attach_new(b, queue, queue->id, QUEUE_RIGHTS);
    ck_assert(attach->count.listed);
    for (unsigned i = 0; i < RIGHTS; i++)
        ck_assert(queue_session_may_map(b, allowed[i]));
    segment_unmap(segment_find_map(b, allowed[RIGHTS - 1]));
    ck_assert(segment_map(b->peer, allowed[RIGHTS - 1])); /* before the step that comes to it */
    server.schedule.until = 0;
    npud_turn();
    expect_rights(b, 1);
    ck_assert_uint_eq(count_draining(), 0);

    be_late();
    for (; grant_set(queue, getpid(), QUEUE_PUT) == CAUSE_QUEUE_REVOKING; steps++) {
        before = count_draining();
        ck_assert_uint_lt(before, RIGHTS);
        ck_assert(!queue_session_may_map(b, allowed[0]));
        ck_assert(attach->count.listed);
        ck_assert_uint_eq(queue->takes.n, 1);
    }
    ck_assert_uint_ge(steps, RIGHTS / 64 - 1);
    ck_assert_uint_eq(attach->rights, QUEUE_PUT);
    expect_rights(b, 0);
    ck_assert_uint_eq(count_draining(), RIGHTS);
    server.schedule.until = 0;
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

/* The right comes back before it has gone for all; and a queue allows more segments meanwhile. */
START_TEST(rights_that_change_both_ways_are_counted)
{
    struct session *a, *b;
    struct queue_attach *attach;
    struct queue *queue;

    if (!need_own_fds(__func__, 2 * RIGHTS + 100))
        return;
    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    queue = make_queue(a)->queue;
    allow_many(a, b, queue);
    attach = queue_attach_new(b, queue, queue->id, QUEUE_RIGHTS);
    expect_rights(b, 1);
    be_late();
    for (unsigned i = 0; i < 8; i++) {
        struct segment *more;

        ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), CAUSE_QUEUE_REVOKING);
        ck_assert_int_eq(segment_new(pool_get(a), 64, 8, &more), 0);
        ck_assert(segment_map(b->peer, more));
        ck_assert(queue_allow_map(queue, more));
        ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_RIGHTS), CAUSE_NONE);
    }
    server.schedule.until = 0;
    npud_turn();
    ck_assert_uint_eq(attach->rights, QUEUE_RIGHTS);
    expect_rights(b, 1);
    ck_assert_uint_eq(count_draining(), 0);
    be_late();
    ck_assert_int_eq(grant_set(queue, getpid(), 0), CAUSE_QUEUE_REVOKING);
    session_free(b); /* in the middle of it */
    server.schedule.until = 0;
    session_free(a);
    npud_stop();
}
END_TEST

/*
 * The many messages of a queue that ends are freed in steps of its user. Its number stays its own
 * until the last one is.
 */
START_TEST(a_large_queue_ends_in_steps)
{
    struct session *a;
    struct segment *segment[4];
    struct queue_attach *attach;
    uint32_t ref[200], number, left = 0;

    npud_start(NULL);
    a = npud_session(100);
    for (int i = 0; i < 4; i++)
        segment[i] = make_segment(a);
    ck_assert_int_eq(queue_new(a, "", 256, &attach), 0);
    number = attach->queue->ring.view.number;
    for (int i = 0; i < 200; i++) {
        ref[i] = make_buffer(a, segment[i / 64]);
        ck_assert_int_eq(put_message(&attach->queue->ring.view, a, ref[i]), QUEUE_OK);
    }
    queue_destroy(attach->queue);
    for (int i = 0; i < 200; i++)
        left += mbuf_state(find_buffer(ref[i])->word) != MBUF_FREE;
    ck_assert_uint_ge(left, 150);
    ck_assert_ptr_nonnull(server.queues->rests);
    ck_assert_ptr_null(queue_by_number(&server, number));
    ck_assert_ptr_nonnull(server.queues->by_number[number]);
    npud_turn();
    ck_assert_ptr_null(server.queues->rests);
    ck_assert_ptr_null(server.queues->by_number[number]);
    for (int i = 0; i < 200; i++)
        ck_assert_uint_eq(mbuf_state(find_buffer(ref[i])->word), MBUF_FREE);
    session_free(a);
    npud_stop();
}
END_TEST

/* --- the end of sessions --- */

/*
 * Messages of a dead sender stay; what it was about to put does not; what a dead taker has taken
 * does neither.
 */
START_TEST(the_dead_are_swept_out_of_rings)
{
    struct session *a, *b;
    struct segment *segment;
    struct queue *queue;
    struct queue_view *v;
    struct queue_front f;
    uint32_t ref[4];

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    segment = make_segment(a);
    queue = make_queue(a)->queue;
    v = &queue->ring.view;
    ck_assert(queue_allow_map(queue, segment));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT | QUEUE_TAKE), 0);
    join_queue(b, queue);
    ck_assert(segment_map(b->peer, segment));
    for (int i = 0; i < 4; i++)
        ref[i] = make_buffer(a, segment);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(put_message(v, a, ref[i]), QUEUE_OK);
    /* b takes one, and dies before it is committed. */
    ck_assert_int_eq(queue_front(v, &f), QUEUE_OK);
    atomic_store(&v->take->head, (queue_head_position(f.head) + 1) << 16 | b->peer_id);
    /* a dies between the word and the slot. */
    atomic_store(&find_buffer(ref[3])->word, mbuf_word(1, MBUF_SENDING, a->peer_id, v->number));
    session_free(b);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref[0])->word), MBUF_FREE);
    ck_assert(!queue_sweep_has(queue, ref[0], a->peer_id));
    ck_assert(queue_sweep_has(queue, ref[1], a->peer_id));
    ck_assert_uint_eq(v->news->takes.gone, 1);
    ck_assert_int_eq(v->news->takes.pid, getpid());

    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
    b = npud_session(getpid());
    join_queue(b, queue);
    ck_assert_uint_eq(v->news->takes.gone, 0);
    session_free(a);
    ck_assert_uint_eq(server.queues->n, 1);
    ck_assert_uint_eq(mbuf_state(find_buffer(ref[3])->word), MBUF_FREE);
    ck_assert_uint_eq(take_message(v, b), ref[1]);
    ck_assert_uint_eq(take_message(v, b), ref[2]);
    ck_assert_uint_eq(take_message(v, b), 0);
    ck_assert_uint_eq(v->news->puts.n, 0);
    ck_assert_uint_eq(v->news->puts.gone, 2); /* both */
    ck_assert_int_eq(v->news->puts.pid, 100);
    session_free(b);
    ck_assert_uint_eq(server.queues->n, 0);
    npud_stop();
}
END_TEST

/*
 * npud has read how far the messages are committed, and looks for what a dead session has put.
 * Before it reads the first slot, others take and put so much that this slot belongs to the next
 * lap. It must look further: the message is in a later slot.
 */
START_TEST(a_lap_that_moves_on_under_the_sweep_hides_no_message)
{
    struct session *a, *b;
    struct segment *segment;
    struct queue *queue;
    struct queue_view *v;
    uint32_t ref, dead;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    segment = make_segment(a);
    queue = make_queue(a)->queue;
    v = &queue->ring.view;
    ck_assert(queue_allow_map(queue, segment));
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    join_queue(b, queue);
    ck_assert(segment_map(b->peer, segment));
    for (uint32_t i = 0; i <= DEPTH; i++) {
        ref = make_buffer(a, segment);
        ck_assert_int_eq(put_message(v, a, ref), QUEUE_OK);
        ck_assert_uint_eq(take_message(v, a), ref);
    }
    dead = make_buffer(b, segment);
    ck_assert_int_eq(put_message(v, b, dead), QUEUE_OK);
    for (uint32_t i = 1; i < DEPTH; i++)
        ck_assert_int_eq(put_message(v, a, make_buffer(a, segment)), QUEUE_OK);
    ck_assert(queue_slot_has(v->put->slot[0].word, v->mask + 1));
    atomic_store(&v->take->committed, 0);
    no_heap = _i == 1; /* then npud remembers nothing, and looks at the ring for each message */
    ck_assert(queue_sweep_has(queue, dead, b->peer_id));
    ck_assert_int_eq(queue->swept == NULL, _i);
    no_heap = false;
    session_free(b);
    atomic_store(&v->take->committed, DEPTH + 1);
    ck_assert_uint_eq(take_message(v, a), dead);
    session_free(a);
    npud_stop();
}
END_TEST

/* Sleeping threads are counted anew, and their wake word has changed. */
START_TEST(a_death_wakes_who_sleeps)
{
    struct session *a, *b;
    struct queue *queue;
    struct queue_view *v;
    uint32_t generation, seen;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    queue = make_queue(a)->queue;
    v = &queue->ring.view;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    join_queue(b, queue);
    generation = queue_arm(&v->take->waiting, &v->put->wake, &seen);
    queue_arm(&v->take->waiting, &v->put->wake, &seen);
    ck_assert_uint_eq(queue_waiting(&v->take->waiting), 2);
    session_free(b);
    ck_assert_uint_ne(atomic_load(&v->put->wake), seen);
    ck_assert_uint_eq(queue_waiting(&v->take->waiting), 0);
    queue_disarm(&v->take->waiting, generation);
    ck_assert_uint_eq(queue_waiting(&v->take->waiting), 0);
    session_free(a);
    npud_stop();
}
END_TEST

/* Its process lives, and has the ring mapped: it stays behind in it. */
START_TEST(who_ends_and_lives_is_left_behind_too)
{
    struct session *a, *b;
    struct queue *queue;
    uint32_t number;

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    b->pidfd = pidfd_open_process(getpid());
    queue = make_queue(a)->queue;
    number = queue->ring.view.number;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    join_queue(b, queue);
    ck_assert_uint_eq(queue->ring.view.number, number);
    session_free(b);
    ck_assert_uint_ne(queue->ring.view.number, number);
    ck_assert_uint_eq(queue->ring.view.news->puts.gone, 1);
    session_free(a);
    npud_stop();
}
END_TEST

/* A queue of a, which b may put into; b's process lives when its session ends. */
static struct queue *share_with_survivor(struct session **a, struct session **b)
{
    struct queue *queue;

    npud_start(NULL);
    *a = npud_session(100);
    *b = npud_session(getpid());
    (*b)->pidfd = pidfd_open_process(getpid());
    queue = make_queue(*a)->queue;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_PUT), 0);
    join_queue(*b, queue);
    return queue;
}

/*
 * npud has no descriptor left, but for those of the old ring. Guards against the process keeping
 * its right to a ring that is in use.
 */
START_TEST(a_survivor_is_left_behind_without_descriptors)
{
    struct rlimit normal, tight;
    struct session *a, *b;
    struct queue *queue = share_with_survivor(&a, &b);
    uint32_t number = queue->ring.view.number, ref = make_buffer(a, make_segment(a));

    ck_assert_int_eq(put_message(&queue->ring.view, a, ref), QUEUE_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &normal), 0);
    tight = normal;
    tight.rlim_cur = (rlim_t)dup(STDERR_FILENO); /* all below are in use */
    close((int)tight.rlim_cur);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    session_free(b);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &normal), 0);
    ck_assert_uint_ne(queue->ring.view.number, number);
    ck_assert_uint_eq(queue->ring.view.news->puts.gone, 1);
    ck_assert_int_ge(queue->ring.put_fd, 0);
    ck_assert_int_ge(queue->ring.take_fd, 0);
    ck_assert_int_ge(queue->ring.news_fd, 0);
    ck_assert_uint_eq(take_message(&queue->ring.view, a), ref);
    session_free(a);
    npud_stop();
}
END_TEST

/* With no memory for a new ring the queue ends, and the others learn of that. */
START_TEST(a_survivor_is_left_behind_without_memory)
{
    struct session *a, *b;
    struct queue *queue = share_with_survivor(&a, &b);
    uint32_t id = queue->id, ref = make_buffer(a, make_segment(a));
    const struct queue_news *news =
        mmap(NULL, QUEUE_NEWS_SIZE, PROT_READ, MAP_SHARED, queue->ring.news_fd, 0);

    ck_assert_ptr_ne((const void *)news, MAP_FAILED);
    ck_assert_int_eq(put_message(&queue->ring.view, a, ref), QUEUE_OK);
    no_memory = true;
    session_free(b);
    no_memory = false;
    ck_assert_uint_eq(atomic_load(&news->state), QUEUE_DEAD);
    ck_assert_ptr_null(queue_attached(a, id));
    ck_assert_uint_eq(mbuf_state(find_buffer(ref)->word), MBUF_FREE);
    munmap((void *)news, QUEUE_NEWS_SIZE);
    session_free(a);
    npud_stop();
}
END_TEST

/* --- waits and their blockers --- */

static void sleep_slot(struct session *session, uint32_t slot, uint32_t kind, uint32_t object)
{
    struct wait_info info = {
        .since_ns = clock_ns(), .thread = 7 + slot, .object = object, .what = kind, .call = "call"};

    wait_slot_fill(&session->page->waits[slot], &info);
    atomic_store(&session->page->waits_used, slot + 1);
}

static void check_wait(const struct blocked *b, const char *what, const char *who)
{
    char text[128];

    blocked_describe(b, text, sizeof(text));
    ck_assert_str_eq(text, what);
    blocked_describe_blocker(b, text, sizeof(text));
    ck_assert_str_eq(text, who);
}

START_TEST(npuctl_tells_who_could_serve)
{
    struct session *a, *b;
    struct queue *queue;
    struct wait_graph *waits;
    char who[64];

    npud_start(NULL);
    a = npud_session(100);
    b = npud_session(getpid());
    queue = make_queue(a)->queue;
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
    join_queue(b, queue);
    sleep_slot(b, 0, WAIT_MESSAGE, queue->ring.view.number);
    sleep_slot(a, 0, WAIT_ROOM, queue->ring.view.number);
    sleep_slot(b, 1, WAIT_GRANT, queue->id + 1);
    sleep_slot(b, 2, WAIT_MESSAGE, 4711); /* no such ring: it is awake soon */
    sleep_slot(b, 3, WAIT_KIND_MASK, 0);  /* nonsense */
    waits = waits_new(&server);
    ck_assert_ptr_nonnull(waits);
    while (waits_step(waits, 0) > 0)
        ;
    ck_assert_uint_eq(waits->n_blocked, 4);
    snprintf(who, sizeof(who), "process %d or 1 more may dequeue", (int)getpid());
    check_wait(&waits->blocked[0], "room in queue 0", who);
    check_wait(&waits->blocked[1], "a message in queue 0", "process 100 may enqueue");
    check_wait(&waits->blocked[2], "rights to queue 1", "no process any more");
    waits_free(waits);
    session_free(b);
    session_free(a);
    npud_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tc = suite_case(suite, "queue", 60, NULL, NULL);

    tcase_add_test(tc, a_queue_lives_as_long_as_somebody_has_it);
    tcase_add_test(tc, ids_are_used_again_as_late_as_possible);
    tcase_add_test(tc, limits_hold);
    tcase_add_test(tc, a_grant_is_for_one_process);
    tcase_add_test(tc, a_grant_ends_with_its_process);
    tcase_add_test(tc, grants_of_a_process_end_in_steps);
    tcase_add_test(tc, who_gets_the_pid_later_gets_no_grant);
    tcase_add_test(tc, a_right_is_a_mapping);
    tcase_add_test(tc, takers_may_map_what_the_queue_allows);
    tcase_add_test(tc, what_is_allowed_goes_with_the_segment);
    tcase_add_test(tc, what_is_allowed_goes_beside_many_queues);
    tcase_add_test(tc, each_right_to_a_segment_counts);
    tcase_add_test(tc, many_queues_allow_a_segment);
    tcase_add_test(tc, a_crowd_that_asks_is_told_in_slices);
    tcase_add_test(tc, a_grant_is_told_to_its_process);
    tcase_add_test(tc, who_loses_a_right_is_left_behind_in_the_old_ring);
    tcase_add_test(tc, a_queue_that_is_destroyed_frees_its_messages);
    tcase_add_test(tc, a_queue_that_ends_in_steps_frees_its_messages);
    tcase_add_test(tc, rights_to_many_segments_change_in_steps);
    tcase_add_test(tc, rights_that_change_both_ways_are_counted);
    tcase_add_test(tc, a_queue_of_a_crowd_ends_in_steps);
    tcase_add_test(tc, a_session_that_ends_leaves_the_end_of_a_queue_to_another);
    tcase_add_test(tc, a_crowd_learns_in_steps_that_a_segment_is_gone);
    tcase_add_test(tc, the_request_waits_until_a_crowd_has_gone);
    tcase_add_test(tc, the_end_of_a_queue_is_ended);
    tcase_add_test(tc, a_queue_without_a_session_ends);
    tcase_add_test(tc, a_large_queue_ends_in_steps);
    tcase_add_test(tc, the_dead_are_swept_out_of_rings);
    tcase_add_loop_test(tc, a_lap_that_moves_on_under_the_sweep_hides_no_message, 0, 2);
    tcase_add_test(tc, a_death_wakes_who_sleeps);
    tcase_add_test(tc, who_ends_and_lives_is_left_behind_too);
    tcase_add_test(tc, a_survivor_is_left_behind_without_descriptors);
    tcase_add_test(tc, a_survivor_is_left_behind_without_memory);
    tcase_add_test(tc, npuctl_tells_who_could_serve);
    return run_suite(suite);
}
