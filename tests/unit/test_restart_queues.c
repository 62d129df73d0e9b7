/*
 * Queues over the end of npud: their rights, their messages, rings that end and that move. Each
 * step of npud is cut short at each place that it passes, and the end is as without.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 * Runs long: 15 s.
 */
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "daemon/base/keeper_message.h"
#include "daemon/buffers/channel.h"
#include "daemon/buffers/queue_rest.h"
#include "tests/unit/restart_buffers.h"

static uint32_t segment, second; /* of the owner */
static uint32_t of_writer;
static uint32_t queue;

/* A queue of all three, with messages of two of them; the other is granted it. */
static void begin_shared(void)
{
    segment = make_segment_of(OWNER, 64);
    second = make_segment_of(OWNER, 64);
    of_writer = make_segment_of(WRITER, 64);
    queue = make_queue_of(OWNER, 16);
    share_queue(OWNER, queue, READER, QUEUE_TAKE | QUEUE_PUT);
    share_queue(OWNER, queue, WRITER, QUEUE_PUT | QUEUE_TAKE);
    allow_map(OWNER, queue, segment);
    allow_map(WRITER, queue, of_writer);
    map_segment(READER, segment);
    map_segment(READER, of_writer);
    map_segment(OWNER, of_writer);
    put_grant_queue(OWNER, queue, OTHER->pid, QUEUE_TAKE);
    expect_done(OWNER);
    for (uint64_t n = 1; n <= 6; n++)
        put_number(n % 2 ? OWNER : WRITER, queue, n % 2 ? segment : of_writer, n);
}

static void expect_other(void)
{
    expect_answer(OTHER);
}

static void expect_reader(void)
{
    expect_answer(READER);
}

static void take_all(void)
{
    take_numbers(OWNER, queue, 1, 6);
    expect_no_buffer();
}

/* --- the cuts --- */

static void act_create(void)
{
    put_create_queue(OTHER, 8);
}

static void act_segment(void)
{
    put_create_segment(OTHER, 4096, 100);
}

static void act_grant(void)
{
    put_grant_queue(OWNER, queue, OTHER->pid, QUEUE_PUT);
}

static void act_attach(void)
{
    put_attach_queue(OTHER, queue);
}

static void act_allow(void)
{
    put_allow_map(OWNER, ring_of(queue)->number, second);
}

static void begin_allowed(void)
{
    begin_shared();
    allow_map(OWNER, queue, second);
}

static void act_map(void)
{
    put_map_segment(READER, second);
}

static void act_trim(void)
{
    put_trim_segment(OWNER, second);
}

static void act_revoke(void)
{
    put_grant_queue(OWNER, queue, READER->pid, 0);
}

static void act_destroy(void)
{
    put_destroy_queue(OWNER, queue);
}

static void end_destroyed(void)
{
    expect_no_buffer();
}

/* A reader dies with a message that it has taken and not committed, and with one that it holds. */
static void begin_reader(void)
{
    const struct queue_view *v;
    uint64_t head;

    begin_shared();
    ck_assert_uint_ne(take_message(ring_of(queue), session_of(READER)), 0);
    v = ring_of(queue);
    head = atomic_load(&v->take->head);
    atomic_store(&v->take->head, (queue_head_position(head) + 1) << 16 | READER->peer);
}

static void act_reader_dies(void)
{
    kill_process(READER);
    hang_up(READER);
}

static void end_reader(void)
{
    take_numbers(OWNER, queue, 3, 6);
    expect_no_buffer();
}

/* A writer dies with a buffer on its way, which is in no slot, and others that it holds. */
static void begin_writer(void)
{
    uint32_t ref;

    begin_shared();
    make_message(WRITER, of_writer, 100);
    ref = make_message(WRITER, of_writer, 101);
    find_buffer(ref)->word = mbuf_word(mbuf_generation(find_buffer(ref)->word), MBUF_SENDING,
                                       WRITER->peer, ring_of(queue)->number);
}

static void act_writer_dies(void)
{
    kill_process(WRITER);
    hang_up(WRITER);
}

/*
 * The socket goes, and the process lives: it becomes a survivor, and the queue moves. npud gives it
 * some milliseconds to die.
 */
static void await_survivor(void)
{
    for (unsigned i = 0; i < 1000 && session_of(WRITER); i++)
        schedule_round(&server.schedule, server.base, true);
    ck_assert_ptr_null(session_of(WRITER));
    ck_assert_ptr_nonnull(server.survivors);
}

static void act_leaves(void)
{
    hang_up(WRITER);
}

static void end_leaves(void)
{
    take_numbers(OWNER, queue, 1, 6);
    kill_process(WRITER);
    npud_turn();
    ck_assert_ptr_null(server.survivors);
    expect_no_buffer();
}

/* npud cannot make the new ring until it has closed what it has of the old one. */
static void be_scarce(void)
{
    restart_lacks = KEPT_QUEUE_REST;
    restart_lacks_times = 1;
}

static void begin_scarce(void)
{
    begin_shared();
    be_scarce();
}

/* It cannot make it then either: the queue ends. */
static void begin_without(void)
{
    begin_shared();
    restart_lacks = KEPT_QUEUE_REST;
    restart_lacks_times = UINT_MAX;
}

static void end_without(void)
{
    ck_assert_ptr_null(server.queues->all);
    kill_process(WRITER);
    npud_turn();
    ck_assert_ptr_null(server.survivors);
    expect_no_buffer();
}

static void act_survivor(void)
{
    kill_process(WRITER);
}

static void begin_survivor(void)
{
    begin_writer();
    hang_up(WRITER);
    await_survivor();
}

static void act_owner_dies(void)
{
    kill_process(OWNER);
    hang_up(OWNER);
}

static void end_owner(void)
{
    take_numbers(READER, queue, 1, 6);
    expect_no_buffer();
}

static void act_all_die(void)
{
    for (unsigned i = 0; i < 4; i++) {
        kill_process(&client[i]);
        hang_up(&client[i]);
    }
}

/* --- channels --- */

static struct queue *find_channel(const char *name)
{
    return channel_find(user_find(&server.users, 1000), 1, name);
}

static uint32_t open_channel_of(struct client *c, const char *name)
{
    put_open_channel(c, name);
    expect_done(c);
    ck_assert_uint_eq(answer.n_fds, 3);
    return answer.id;
}

/* A channel of three, with messages of one of them. */
static void begin_channel(void)
{
    segment = make_segment_of(OWNER, 64);
    queue = open_channel_of(OWNER, "a");
    ck_assert_uint_eq(open_channel_of(READER, "a"), queue);
    ck_assert_uint_eq(open_channel_of(WRITER, "a"), queue);
    allow_map(OWNER, queue, segment);
    map_segment(READER, segment);
    for (uint64_t n = 1; n <= 6; n++)
        put_number(OWNER, queue, segment, n);
}

/* The channel is found, with its messages, by a session that comes later. */
static void end_channel(void)
{
    ck_assert_ptr_eq(find_channel("a"), queue_with_id(queue));
    ck_assert_uint_eq(open_channel_of(OTHER, "a"), queue);
    take_all();
}

static void act_open(void)
{
    put_open_channel(OTHER, "b");
}

static void end_open(void)
{
    ck_assert_ptr_nonnull(find_channel("b"));
    ck_assert_uint_eq(server.queues->n, 2);
    end_channel();
}

static void act_join(void)
{
    put_open_channel(OTHER, "a");
}

static void end_join(void)
{
    ck_assert_uint_eq(server.queues->n, 1);
    end_channel();
}

static void act_close(void)
{
    put_close_channel(READER, queue);
}

static void end_close(void)
{
    ck_assert_ptr_null(queue_attached(session_of(READER), queue));
    ck_assert_uint_eq(queue_with_id(queue)->takes.gone, 1);
    end_channel();
}

static void begin_last(void)
{
    begin_channel();
    put_close_channel(READER, queue);
    expect_done(READER);
    put_close_channel(WRITER, queue);
    expect_done(WRITER);
}

static void act_close_last(void)
{
    put_close_channel(OWNER, queue);
}

static void end_last(void)
{
    ck_assert_ptr_null(find_channel("a"));
    ck_assert_ptr_null(server.queues->all);
    expect_no_buffer();
    open_channel_of(OTHER, "a");
}

static void end_dead_opener(void)
{
    ck_assert_ptr_eq(find_channel("a"), queue_with_id(queue));
    take_numbers(READER, queue, 1, 6);
    expect_no_buffer();
}

static const struct cut_short cuts[] = {
    {begin_shared, act_create, expect_other, take_all},
    {begin_shared, act_segment, expect_other, take_all},
    {begin_shared, act_grant, expect_owner, take_all},
    {begin_shared, act_attach, expect_other, take_all},
    {begin_shared, act_allow, expect_owner, take_all},
    {begin_allowed, act_map, expect_reader, take_all},
    {begin_allowed, act_trim, expect_owner, take_all},
    {begin_shared, act_revoke, expect_owner, take_all},
    {begin_shared, act_destroy, expect_owner, end_destroyed},
    {begin_reader, act_reader_dies, nothing, end_reader},
    {begin_writer, act_writer_dies, nothing, take_all},
    {begin_writer, act_leaves, await_survivor, end_leaves},
    {begin_scarce, act_leaves, await_survivor, end_leaves},
    {begin_without, act_leaves, await_survivor, end_without},
    {begin_survivor, act_survivor, nothing, take_all},
    {begin_shared, act_owner_dies, nothing, end_owner},
    {begin_shared, act_all_die, nothing, nothing},
    {begin_channel, act_open, expect_other, end_open},
    {begin_channel, act_join, expect_other, end_join},
    {begin_channel, act_close, expect_reader, end_close},
    {begin_last, act_close_last, expect_owner, end_last},
    {begin_channel, act_owner_dies, nothing, end_dead_opener},
    {begin_channel, act_all_die, nothing, nothing},
};
#define CUTS (sizeof(cuts) / sizeof(cuts[0]))

START_TEST(a_step_is_cut_short)
{
    cut_short(&cuts[_i]);
}
END_TEST

/* The one that takes a right away dies with npud: nobody asks again, and the queue is as sound. */
START_TEST(the_asker_dies_meanwhile)
{
    for (unsigned place = KILL_HERE_RING_MOVES; place <= KILL_HERE_REST_NOTED; place++) {
        begin_clients();
        begin_shared();
        act_revoke();
        ck_assert(restart_kill(place, 1, turns, NULL));
        act_owner_dies();
        npud_turn();
        ck_assert_uint_eq(ring_of(queue)->news->state, QUEUE_LIVE);
        take_numbers(WRITER, queue, 1, 6);
        expect_no_buffer();
        end_all();
    }
}
END_TEST

/*
 * An answer has been made certain and not sent when the ring that it gives moves, and npud ends
 * again and again meanwhile: the client gets it all the same.
 */
START_TEST(an_answer_outlives_what_it_gives)
{
    for (unsigned place = KILL_HERE_RING_MOVES; place <= KILL_HERE_REST_NOTED; place++) {
        begin_clients();
        begin_shared();
        act_attach();
        ck_assert(restart_kill(KILL_HERE_ANSWER_COMMITTED, 1, turns, NULL));
        act_revoke();
        restart_npud();
        restart_kill((enum kill_place)place, 1, turns, NULL);
        restart_npud();
        npud_turn();
        expect_answer(OTHER);
        expect_owner();
        take_all();
        end_all();
    }
}
END_TEST

/* The end of a process comes when the kernel gets to it. */
static void turns_to_its_end(void *arg)
{
    turns(arg);
    await_survivor();
    turns(arg);
}

/* The same for a ring that npud has closed before it moves. */
START_TEST(an_answer_outlives_a_closed_ring)
{
    for (unsigned place = KILL_HERE_RING_MOVES; place <= KILL_HERE_REST_NOTED; place++) {
        begin_clients();
        begin_shared();
        act_attach();
        ck_assert(restart_kill(KILL_HERE_ANSWER_COMMITTED, 1, turns, NULL));
        be_scarce();
        act_leaves();
        ck_assert(restart_kill(place, 1, turns_to_its_end, NULL));
        ck_assert_uint_eq(restart_lacks_times, 0);
        npud_turn();
        expect_answer(OTHER);
        await_survivor();
        end_leaves();
        end_all();
    }
}
END_TEST

/* --- another keeper --- */

static bool not_yet(struct queue *q)
{
    (void)q;
    return false;
}

/* The keeper dies, and npud gives the next one what it has open. */
static void follow_keeper(void)
{
    int pair[2], fds[FD_MESSAGE_FDS];
    struct keeper_message m;
    size_t n;

    for (unsigned i = 0; i < RESTART_FDS; i++) {
        if (restart_kept[i].key != 0)
            close(restart_kept[i].fd);
        restart_kept[i].key = 0;
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(keeper_link_replace(pair[0]), 0);
    while (fd_message_receive(pair[1], &m, sizeof(m), fds, &n, MSG_DONTWAIT) > 0)
        for (size_t i = 0; i < n; i++) {
            __wrap_keeper_put(m.keys[i], fds[i]);
            close(fds[i]);
        }
    keeper_link_close();
    close(pair[1]);
}

/*
 * A queue ends in steps, and npud has closed what it had of its ring. The next keeper does not get
 * that; all other sessions go on with the npud after that all the same.
 */
START_TEST(a_closed_ring_does_not_outlive_its_keeper)
{
    uint32_t sound;

    begin_clients();
    begin_without();
    sound = make_queue_of(OWNER, 4);
    server.queues->on_ending = not_yet; /* as the routes of a queue do */
    act_leaves();
    await_survivor();
    ck_assert(queue_with_id(queue)->ends);
    ck_assert_int_lt(queue_with_id(queue)->ring.put_fd, 0);
    restart_lacks_times = 0;
    queues_end_closed(server.queues);
    follow_keeper();
    restart_npud();
    ck_assert_ptr_nonnull(session_of(OWNER));
    ck_assert_ptr_eq(server.queues->all, queue_with_id(sound));
    ck_assert_ptr_null(server.queues->all->next);
    put_destroy_queue(OWNER, sound);
    npud_turn();
    expect_owner();
    end_without();
    end_all();
}
END_TEST

/* --- sleepers --- */

#define CROWD 80 /* more than npud wakes in two goes */

static pthread_t crowd[CROWD];
static struct queue_put *slept_on; /* the client's mapping of the ring */
static _Atomic unsigned asleep;

static void *sleep_on_ring(void *arg)
{
    uint32_t seen = (uint32_t)(uintptr_t)arg;

    atomic_fetch_add(&asleep, 1);
    futex_wait_until(&slept_on->wake, seen, NULL);
    atomic_fetch_sub(&asleep, 1);
    return NULL;
}

/* Those that sleep there: the kernel says how many it would move. */
static unsigned count_sleepers(void)
{
    static _Atomic uint32_t aside;
    long n = syscall(SYS_futex, &slept_on->wake, FUTEX_REQUEUE, 0, INT_MAX, &aside, 0);

    ck_assert_int_ge(n, 0);
    ck_assert_int_eq(syscall(SYS_futex, &aside, FUTEX_REQUEUE, 0, INT_MAX, &slept_on->wake, 0), n);
    return (unsigned)n;
}

static void gather_crowd(int fd)
{
    slept_on = mmap(NULL, queue_put_size(16), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(slept_on, MAP_FAILED);
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_create(&crowd[i], NULL, sleep_on_ring,
                                        (void *)(uintptr_t)atomic_load(&slept_on->wake)),
                         0);
    AWAIT(count_sleepers() == CROWD);
}

static void begin_crowd(void)
{
    begin_clients();
    begin_shared();
    gather_crowd(queue_with_id(queue)->ring.put_fd);
}

/* The ring moves, or ends. */
static void ask_for_end(int which)
{
    if (which == 0)
        act_revoke();
    else
        act_destroy();
}

static void part_crowd(void)
{
    AWAIT(atomic_load(&asleep) == 0);
    for (unsigned i = 0; i < CROWD; i++)
        pthread_join(crowd[i], NULL);
}

/*
 * npud ends when it has woken some, before and after the messages of the ring are certain. Where
 * the queue ends, that is nowhere: the next npud still has the ring, and begins with waking all.
 */
START_TEST(sleepers_of_an_old_ring_are_woken_by_the_next_npud)
{
    unsigned pass = 1 + (unsigned)_i / 2;

    begin_crowd();
    ask_for_end(_i % 2);
    ck_assert(restart_kill(KILL_HERE_SLEEPERS_WOKEN, pass, turns, NULL));
    if (_i % 2 == 0)
        ck_assert_uint_gt(count_sleepers(), 0);
    npud_turn();
    expect_owner();
    part_crowd();
    ck_assert_ptr_null(server.queues->rests);
    end_all();
}
END_TEST

/* The ring goes when all are awake, and nothing is left for a later npud. */
START_TEST(a_ring_goes_behind_its_last_sleeper)
{
    begin_crowd();
    ask_for_end(_i);
    npud_turn();
    expect_owner();
    part_crowd();
    ck_assert_ptr_null(server.queues->rests);
    restart_npud();
    ck_assert_ptr_null(server.queues->rests);
    end_all();
}
END_TEST

static int ended_ring; /* the file of a ring that an npud of 0.9.0 has ended */

static size_t write_sleepers(const struct kept *kept, void *record)
{
    (void)kept;
    *(struct queue_sleepers_record *)record =
        (struct queue_sleepers_record){.put_key = kept_key(ended_ring)};
    return sizeof(struct queue_sleepers_record);
}

START_TEST(sleepers_that_0_9_0_has_kept_are_woken)
{
    struct kept kept;

    begin_clients();
    ended_ring = memfd_create("ring", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(ended_ring, (off_t)queue_put_size(16)), 0);
    gather_crowd(ended_ring);
    kept_fd(ended_ring);
    ck_assert(kept_make(&kept, KEPT_QUEUE_SLEEPERS, sizeof(struct queue_sleepers_record),
                        write_sleepers));
    kept_commit();
    restart_npud();
    part_crowd();
    end_all();
}
END_TEST

/* --- as it was --- */

START_TEST(all_is_as_it_was)
{
    begin_clients();
    begin_shared();
    for (unsigned i = 0; i < 100; i++) {
        uint32_t q = make_queue_of(WRITER, 2 + i);

        share_queue(WRITER, q, OTHER, QUEUE_TAKE);
        allow_map(WRITER, q, of_writer);
        if (i % 10 == 0)
            put_number(WRITER, q, of_writer, 1000 + i);
    }
    /* An orphan, and a session that is not there any more. */
    act_owner_dies();
    npud_turn();
    expect_the_same(5);
    take_numbers(READER, queue, 1, 6);
    end_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: queues");
    TCase *t = suite_case(s, "queues", 300, NULL, NULL);

    tcase_add_test(t, all_is_as_it_was);
    tcase_add_test(t, the_asker_dies_meanwhile);
    tcase_add_test(t, an_answer_outlives_what_it_gives);
    tcase_add_test(t, an_answer_outlives_a_closed_ring);
    tcase_add_test(t, a_closed_ring_does_not_outlive_its_keeper);
    tcase_add_loop_test(t, sleepers_of_an_old_ring_are_woken_by_the_next_npud, 0, 4);
    tcase_add_loop_test(t, a_ring_goes_behind_its_last_sleeper, 0, 2);
    tcase_add_test(t, sleepers_that_0_9_0_has_kept_are_woken);
    tcase_add_loop_test(t, a_step_is_cut_short, 0, CUTS);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
