/*
 * Processes that pass buffers through shared queues and die at any moment.
 *
 * Workers allocate, refer, chain, put, take and free at random, over several queues, with rights that differ and are taken away now and then.
 * The test kills them at random and starts others in their place. Each message has a number of its own, each block of data a content that is
 * computed from its first word, and a board that all have mapped tells what became of each number. At the end of a round the count is exact:
 *   - every message was received at most once, by each receiver in the order in which its sender had put it, and whole
 *   - what was put and never received was in the hands of a killed process, one message for each process killed in a call that takes
 *   - npud has no buffer, no pool, no queue and no grant
 *
 * NPUD_SHARE_KILL_SECONDS (default 5), NPUD_SHARE_KILL_SEED: another run, or the same one as far as the scheduler lets it.
 */
#include "share_cast.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/chance.h"

#define KEEPER   0 /* member of the cast */
#define WORKERS  5
#define QUEUES   6
#define HELD     12 /* messages that a worker keeps */
#define CHAIN    6
#define LIVES    4096       /* workers in a round */
#define ENTRIES  (4u << 20) /* messages in a round */
#define ROUND_MS 1500
#define TAKE     2u
#define PUT      4u
#define GUARD_MS 30000

enum fate { NONE, TRIED, DONE, FAILED };

/* What is known of a message. */
struct entry {
    _Atomic uint32_t sent; /* enum fate | queue << 2 | life of the sender << 8 */
    _Atomic uint32_t got;  /* 1 + life of the receiver */
};

struct board {
    _Atomic uint32_t stop;
    _Atomic uint32_t next; /* number of the message before, from 1 */
    struct {
        _Atomic int32_t taking; /* queue + 1 */
        _Atomic uint64_t operations;
    } life[LIVES];
    struct entry entry[ENTRIES];
};
static struct board *board;

/* What travels with each message, in the user data of its head. */
struct label {
    uint32_t number, queue, members;
};

/* --- one worker --- */

static struct {
    uint32_t life;
    uint64_t rng;
    uint32_t rights[QUEUES];
    acltdtBuf held[HELD];
    unsigned n_held;
    uint32_t last[QUEUES][LIVES];
} me;

static const size_t sizes[] = {64, 200, 1000, 4096, 70000, 300000};

static uint64_t content_word(uint64_t first, size_t i)
{
    return first + i * UINT64_C(0x9e3779b97f4a7c15);
}

/* All of what is small, both ends of what is not. */
static size_t content_step(size_t n)
{
    return n < 1000 ? 1 : n / 64;
}

static acltdtBuf buffer_new(void)
{
    size_t size = sizes[below(&me.rng, sizeof(sizes) / sizeof(sizes[0]))], room;
    uint64_t first = draw(&me.rng), *words;
    acltdtBuf buf;

    OK(acltdtAllocBuf(size, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtGetBufData(buf, (void **)&words, &room));
    MUST(room == size);
    for (size_t i = 0; i < size / 8; i += content_step(size / 8))
        words[i] = content_word(first, i);
    OK(acltdtSetBufDataLen(buf, size));
    return buf;
}

static void content_check(const uint64_t *words, size_t size)
{
    for (size_t i = 0; i < size / 8; i += content_step(size / 8))
        MUST_SAY(words[i] == content_word(words[0], i), "word %zu of %zu bytes has changed", i,
                 size);
}

static uint32_t chain_check(acltdtBuf head)
{
    size_t room, length;
    uint64_t *words;
    acltdtBuf buf;
    uint32_t n;

    OK(acltdtGetBufChainNum(head, &n));
    for (uint32_t i = 0; i < n; i++) {
        OK(acltdtGetBufFromChain(head, i, &buf));
        OK(acltdtGetBufData(buf, (void **)&words, &room));
        OK(acltdtGetBufDataLen(buf, &length));
        MUST(length == room);
        content_check(words, room);
    }
    return n;
}

static void drop(unsigned i)
{
    chain_check(me.held[i]);
    OK(acltdtFreeBuf(me.held[i]));
    me.held[i] = me.held[--me.n_held];
}

/* A number for a message that is about to be put into the queue; 0: there are none left. */
static uint32_t number_new(uint32_t queue)
{
    uint32_t number = atomic_fetch_add(&board->next, 1) + 1;

    if (number >= ENTRIES)
        return 0;
    atomic_store(&board->entry[number].sent, TRIED | queue << 2 | me.life << 8);
    return number;
}

static void note_put(uint32_t number, uint32_t queue, aclError r)
{
    atomic_store(&board->entry[number].sent,
                 (r == 0 ? (uint32_t)DONE : (uint32_t)FAILED) | queue << 2 | me.life << 8);
}

static void note_taken(const struct label *label, uint32_t queue)
{
    struct entry *e;
    uint32_t expected = 0, sent;

    MUST(label->number < ENTRIES);
    e = &board->entry[label->number];
    sent = atomic_load(&e->sent);
    MUST(label->queue == queue);
    MUST_SAY(atomic_compare_exchange_strong(&e->got, &expected, 1 + me.life),
             "message %u comes twice: it was life %u's", label->number, expected - 1);
    MUST_SAY((sent & 3) == TRIED || (sent & 3) == DONE, "message %u: fate %u", label->number,
             sent & 3);
    MUST((sent >> 2 & 63) == (queue));
    MUST_SAY(me.last[queue][sent >> 8] < label->number, "message %u comes after %u", label->number,
             me.last[queue][sent >> 8]);
    me.last[queue][sent >> 8] = label->number;
}

static int32_t draw_timeout(void)
{
    static const int32_t timeouts[] = {0, 0, 0, 0, 1, 10};

    return timeouts[below(&me.rng, sizeof(timeouts) / sizeof(timeouts[0]))];
}

/* Without the right: it was taken away, or comes back. */
static void expect_result(aclError r, uint32_t queue, aclError usual)
{
    uint32_t qid = queue_id(queue);

    if (r == ACL_ERROR_RT_NO_PERMISSION)
        OK(acltdtAttachQueue(qid, 0, &me.rights[queue]));
    else
        MUST_SAY(r == 0 || r == usual, "queue %u: %d: %s", queue, r, aclGetRecentErrMsg());
}

static void do_put(uint32_t queue)
{
    unsigned i = below(&me.rng, me.n_held);
    struct label label = {.number = number_new(queue), .queue = queue};
    aclError r;

    if (label.number == 0)
        return;
    label.members = chain_check(me.held[i]);
    OK(acltdtSetBufUserData(me.held[i], &label, sizeof(label), 0));
    r = acltdtEnqueue(queue_id(queue), me.held[i], draw_timeout());
    note_put(label.number, queue, r);
    expect_result(r, queue, ACL_ERROR_RT_QUEUE_FULL);
    if (r == 0)
        me.held[i] = me.held[--me.n_held];
}

static void do_take(uint32_t queue, int32_t timeout)
{
    struct label label;
    acltdtBuf buf;
    aclError r;

    atomic_store(&board->life[me.life].taking, (int32_t)queue + 1);
    r = acltdtDequeue(queue_id(queue), &buf, timeout);
    if (r == 0) {
        OK(acltdtGetBufUserData(buf, &label, sizeof(label), 0));
        note_taken(&label, queue);
    }
    atomic_store(&board->life[me.life].taking, 0);
    expect_result(r, queue, ACL_ERROR_RT_QUEUE_EMPTY);
    if (r == 0) {
        MUST((chain_check(buf)) == (label.members));
        me.held[me.n_held++] = buf;
    }
}

static void do_put_data(uint32_t queue)
{
    struct label label = {.number = number_new(queue), .queue = queue, .members = 1};
    uint64_t words[32], first = draw(&me.rng);
    aclError r;

    if (label.number == 0)
        return;
    for (size_t i = 0; i < 32; i++)
        words[i] = content_word(first, i);
    r = acltdtEnqueueData(queue_id(queue), words, sizeof(words), &label, sizeof(label),
                          draw_timeout(), 0);
    note_put(label.number, queue, r);
    expect_result(r, queue, ACL_ERROR_RT_QUEUE_FULL);
}

static void do_take_data(uint32_t queue)
{
    struct label label;
    uint64_t words[64];
    size_t size;
    aclError r;

    atomic_store(&board->life[me.life].taking, (int32_t)queue + 1);
    r = acltdtDequeueData(queue_id(queue), words, sizeof(words), &size, &label, sizeof(label),
                          draw_timeout());
    if (r == 0)
        note_taken(&label, queue);
    atomic_store(&board->life[me.life].taking, 0);
    expect_result(r, queue, ACL_ERROR_RT_QUEUE_EMPTY);
    /* Of what is big only some words are written. */
    if (r == 0 && label.members == 1 && content_step(size / 8) == 1)
        content_check(words, size < sizeof(words) ? size : sizeof(words));
}

/* To be tried with what is held; chains stay short, or they would all grow into one. */
static void do_append(void)
{
    unsigned i = below(&me.rng, me.n_held), j = below(&me.rng, me.n_held);
    uint32_t a, b;

    if (i == j)
        return;
    OK(acltdtGetBufChainNum(me.held[i], &a));
    OK(acltdtGetBufChainNum(me.held[j], &b));
    if (a + b > CHAIN)
        return;
    OK(acltdtAppendBufChain(me.held[i], me.held[j]));
    me.held[j] = me.held[--me.n_held];
}

static void do_refer(void)
{
    OK(acltdtCopyBufRef(me.held[below(&me.rng, me.n_held)], &me.held[me.n_held]));
    me.n_held++;
}

static void do_one_thing(void)
{
    uint32_t queue = below(&me.rng, QUEUES);
    unsigned what = below(&me.rng, 100);

    if (what < 30 && me.n_held > 0 && (me.rights[queue] & PUT))
        do_put(queue);
    else if (what < 60 && me.n_held < HELD && (me.rights[queue] & TAKE))
        do_take(queue, draw_timeout());
    else if (what < 63 && (me.rights[queue] & PUT))
        do_put_data(queue);
    else if (what < 66 && (me.rights[queue] & TAKE))
        do_take_data(queue);
    else if (what < 76 && me.n_held < HELD)
        me.held[me.n_held++] = buffer_new();
    else if (what < 84 && me.n_held > 0 && me.n_held < HELD)
        do_refer();
    else if (what < 90 && me.n_held > 1)
        do_append();
    else if (me.n_held > 0)
        drop(below(&me.rng, me.n_held));
    atomic_fetch_add(&board->life[me.life].operations, 1);
}

static int worker_main(void *arg)
{
    uint32_t *of = arg;

    alarm(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    me.life = of[0];
    me.rng = of[1];
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (uint32_t q = 0; q < QUEUES; q++)
        OK(acltdtAttachQueue(queue_id(q), -1, &me.rights[q]));
    while (!atomic_load(&board->stop))
        do_one_thing();
    while (me.n_held > 0)
        drop(0);
    OK(aclFinalize());
    return 0;
}

/* --- the keeper --- */

/* Takes what is left in all queues, as life 0. */
static aclError order_collect(const struct order *o, int64_t *value)
{
    (void)o;
    for (uint32_t q = 0; q < QUEUES; q++) {
        do_take(q, 0);
        while (me.n_held > 0) {
            drop(0);
            ++*value;
            do_take(q, 0);
        }
    }
    return 0;
}

/* --- the round --- */

static struct {
    uint64_t rng;
    pid_t pid[WORKERS];
    uint32_t life[WORKERS];
    uint32_t lives;
    uint32_t in_hand[QUEUES]; /* workers killed while they took from it */
    uint32_t killed, revoked;
    uint64_t operations, messages;
} round_of;

static uint32_t draw_rights(void)
{
    static const uint32_t rights[] = {TAKE | PUT, TAKE | PUT, TAKE | PUT, TAKE, PUT};

    return rights[below(&round_of.rng, 5)];
}

static void grant_all(unsigned w)
{
    for (int q = 0; q < QUEUES; q++)
        member_does(KEEPER, (struct order){order_grant, q, round_of.pid[w], draw_rights()});
}

static void start_worker(unsigned w)
{
    uint32_t arg[2] = {++round_of.lives, (uint32_t)draw(&round_of.rng)};

    ck_assert_uint_lt(round_of.lives, LIVES);
    round_of.life[w] = arg[0];
    round_of.pid[w] = child_start(worker_main, arg);
    grant_all(w);
}

static void kill_worker(unsigned w)
{
    int status, taking;

    kill(round_of.pid[w], SIGKILL);
    ck_assert_int_eq(waitpid(round_of.pid[w], &status, 0), round_of.pid[w]);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "worker ends with 0x%x",
                  status);
    taking = atomic_load(&board->life[round_of.life[w]].taking);
    if (taking > 0)
        round_of.in_hand[taking - 1]++;
    round_of.killed++;
}

/* Somebody loses a right, or gets one; somebody dies. */
static void disturb(void)
{
    unsigned w = below(&round_of.rng, WORKERS);

    if (chance(&round_of.rng, 20)) {
        member_do(KEEPER, (struct order){order_grant, below(&round_of.rng, QUEUES), round_of.pid[w],
                                         draw_rights()});
        round_of.revoked++;
        return;
    }
    kill_worker(w);
    start_worker(w);
}

static void end_worker(unsigned w, bool by_force)
{
    uint64_t give_up = now_ns() + GUARD_MS * UINT64_C(1000000);
    int status;
    pid_t r;

    if (by_force) {
        kill_worker(w);
        return;
    }
    while ((r = waitpid(round_of.pid[w], &status, WNOHANG)) == 0) {
        ck_assert_msg(now_ns() < give_up, "worker %u does not come to its end", w);
        poll(NULL, 0, 1);
    }
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "worker ends with 0x%x", status);
}

static void check_fates(void)
{
    uint32_t lost[QUEUES] = {0}, n = atomic_load(&board->next);

    for (uint32_t i = 1; i <= n && i < ENTRIES; i++) {
        uint32_t sent = board->entry[i].sent, got = board->entry[i].got;

        ck_assert_msg((sent & 3) != FAILED || !got, "message %u was not put, but received", i);
        if ((sent & 3) == DONE && !got)
            lost[sent >> 2 & 63]++;
    }
    for (unsigned q = 0; q < QUEUES; q++)
        ck_assert_msg(lost[q] <= round_of.in_hand[q],
                      "queue %u: %u messages are lost, %u workers were killed taking one", q,
                      lost[q], round_of.in_hand[q]);
    round_of.messages += n;
}

static void board_clear(void)
{
    ck_assert_int_eq(madvise(board, sizeof(*board), MADV_REMOVE), 0);
    memset(round_of.in_hand, 0, sizeof(round_of.in_hand));
    round_of.lives = 0;
}

static void run_round(bool by_force)
{
    uint64_t end = now_ns() + ROUND_MS * UINT64_C(1000000);
    uint32_t left;

    board_clear();
    cast_begin();
    member_start(KEEPER, true);
    for (int q = 0; q < QUEUES; q++)
        member_does(KEEPER, (struct order){order_create, q, 2 << below(&round_of.rng, 6), 0});
    for (unsigned w = 0; w < WORKERS; w++)
        start_worker(w);
    while (now_ns() < end && round_of.lives < LIVES - WORKERS) {
        poll(NULL, 0, (int)below(&round_of.rng, 12));
        disturb();
    }
    atomic_store(&board->stop, !by_force);
    for (unsigned w = 0; w < WORKERS; w++)
        end_worker(w, by_force);
    npud_await_sessions(1);
    left = (uint32_t)member_does(KEEPER, (struct order){order_collect, 0, 0, 0});
    shared_await(0, 1);
    check_fates();
    for (uint32_t i = 1; i <= round_of.lives; i++)
        round_of.operations += board->life[i].operations;
    fprintf(stderr, "%u lives, %u messages, %u left in queues\n", round_of.lives,
            atomic_load(&board->next), left);
    member_end(KEEPER);
    cast_finish();
    npud_expect_empty();
    shared_expect_empty();
}

START_TEST(killed_at_random)
{
    const char *text = getenv("NPUD_SHARE_KILL_SEED"), *limit = getenv("NPUD_SHARE_KILL_SECONDS");
    uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns() % 1000000;
    uint64_t end = now_ns() + (uint64_t)((limit ? atof(limit) : 5) * 1e9);
    uint32_t fds = npud_ledger().fds;

    fprintf(stderr, "NPUD_SHARE_KILL_SEED=%llu\n", (unsigned long long)seed);
    round_of.rng = seed;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
    for (bool by_force = false; now_ns() < end; by_force = !by_force)
        run_round(by_force);
    npud_await_fds(fds);
    ck_assert_uint_gt(round_of.killed, 0);
    ck_assert_uint_gt(round_of.messages, 100);
    printf("%u workers killed, %u rights changed, %llu messages in %llu operations\n",
           round_of.killed, round_of.revoked, (unsigned long long)round_of.messages,
           (unsigned long long)round_of.operations);
}
END_TEST

int main(void)
{
    const char *limit = getenv("NPUD_SHARE_KILL_SECONDS");
    Suite *s = suite_create("share kill");
    TCase *t =
        suite_case(s, "random", 100 + (limit ? 2 * atof(limit) : 10), npud_setup, npud_teardown);

    tcase_add_test(t, killed_at_random);
    return run_suite(s);
}
