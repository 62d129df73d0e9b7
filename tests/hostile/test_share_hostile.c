/*
 * Hostile sessions that share buffers and queues.
 *
 * Rights: what a session was not given it cannot write, map, open again or attach, whatever it
 * tries; not even if it is given the pid of the process that was granted it. Damage: a session that
 * writes garbage to all that it may write hurts only those that it shares with: npud lives, cleans
 * up all of it, and a pair that shares other queues goes on as if nothing were, with no message
 * lost or changed.
 *
 * Hostile sessions run as another user than npud, if the test is root. NPUD_HOSTILE_SEED,
 * NPUD_HOSTILE_CASE: as for test_hostile. NPUD_HOSTILE_SECONDS: how long each case goes on (default
 * 0.6).
 *
 * Skipped under TSan: hostile sessions write into shared memory that only one thread of npud
 * reads; ASan looks at it.
 * Runs long: 17 s.
 */
#include "tests/common/share_cast.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "proto/util/futex.h"
#include "proto/shm/mbuf_ref.h"
#include "tests/common/raw_share.h"
#include "tests/common/second_user.h"
#include "tests/common/need.h"
#include "tests/hostile/row.h"

/* The cast. */
enum { MANAGER, PARTNER, PING, PONG, HOSTILE };
/* Queues: what the hostile one shares with manager and partner; the innocent ones' own. */
enum { LINE, BRANCH, THERE, BACK };

#define DEPTH     16
#define MEDIAN_NS UINT64_C(20000000) /* of a round of the innocent ones, at most */
#define QUEUES    4                  /* that it has, at most */
#define SEGMENTS  32                 /* that a hostile session maps */

static struct {
    _Atomic uint32_t stop;
    _Atomic uint32_t progress;
    _Atomic int32_t hostile; /* process that is to be granted both queues ... */
    _Atomic uint32_t asked;  /* ... again, whenever this changes */
} * shared;

static uid_t owner; /* of the queues: the user of the test */

static void set_up_test(void)
{
    npud_setup();
    owner = geteuid();
    second_user_let_in();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    cast_begin();
}

static void finish_test(void)
{
    npud_expect_empty();
    shared_expect_empty();
    cast_finish();
    npud_teardown();
}

/* --- rights --- */

/* The session of a member that does not use the library. */
static struct raw raw = {.socket = -1};

static aclError order_raw_open(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    second_user_become();
    ck_assert(raw_open(&raw));
    return 0;
}

static aclError order_raw_attach(const struct order *o, int64_t *value)
{
    struct raw_queue q;

    if (!raw_attach_queue(&raw, owner, queue_id(o->a), &q))
        return raw.error;
    *value = q.rights;
    raw_unmap_queue(&q);
    return 0;
}

/* What a store there comes to: the signal, or 0. */
static int store_signal(volatile unsigned char *at)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        at[0] = 1;
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* As a debugger would: through /proc/PID/mem, which forces its way into private mappings. */
static bool memory_file_writes(void *at)
{
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    bool wrote;

    ck_assert_int_ge(fd, 0);
    wrote = pwrite(fd, "x", 1, (off_t)(uintptr_t)at) == 1;
    close(fd);
    return wrote;
}

static void expect_read_only(int fd, size_t size)
{
    char path[64];
    struct stat st;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert_ptr_eq(at, MAP_FAILED);
    ck_assert_int_eq(errno, EACCES);
    at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(mprotect(at, size, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(store_signal(at), SIGSEGV);
    ck_assert(!memory_file_writes(at));
    ck_assert_int_eq(pwrite(fd, "x", 1, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    if (geteuid() != 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ck_assert_int_eq(open(path, O_RDWR | O_CLOEXEC), -1);
        ck_assert(errno == EACCES || errno == EPERM);
        /*
         * Where npud has the attacker's own uid, the file is the attacker's: nothing is promised.
         */
        if (fstat(fd, &st) == 0 && st.st_uid != geteuid())
            ck_assert_int_eq(fchmod(fd, 0666), -1);
    }
    munmap(at, size);
}

/* Attach LINE with rights b, and try to write what these do not allow. */
static aclError order_rights(const struct order *o, int64_t *value)
{
    struct raw_queue q;

    (void)value;
    if (!raw_attach_queue(&raw, owner, queue_id(LINE), &q))
        return raw.error;
    ck_assert_uint_eq(q.rights, o->b);
    if (o->b & QUEUE_PUT)
        ck_assert_int_eq(store_signal((void *)q.view.put->slot), 0);
    else
        expect_read_only(q.fd[0], queue_put_size(q.view.depth));
    if (o->b & QUEUE_TAKE)
        ck_assert_int_eq(store_signal((void *)&q.view.take->wake), 0);
    else
        expect_read_only(q.fd[1], queue_take_size());
    expect_read_only(q.fd[2], QUEUE_NEWS_SIZE);
    raw_unmap_queue(&q);
    return 0;
}

START_TEST(a_right_is_a_mapping)
{
    uint32_t rights = (uint32_t)_i;

    member_start(MANAGER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    member_does(MANAGER, (struct order){order_create, LINE, 4, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), rights});
    member_does(HOSTILE, (struct order){order_rights, 0, rights, 0});
    member_end(HOSTILE);
    member_end(MANAGER);
}
END_TEST

/* All that it can do with the bell of LINE, which it may put into. */
static aclError order_spoil_bell(const struct order *o, int64_t *value)
{
    struct raw_queue q;
    int fd;

    (void)o;
    if (!raw_attach_queue(&raw, owner, queue_id(LINE), &q) || !raw_bell(&raw, q.view.number, &fd))
        return raw.error;
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    *value = eventfd_write(fd, UINT64_MAX - 1);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    close(fd);
    raw_unmap_queue(&q);
    return 0;
}

static aclError change_route(aclError (*change)(acltdtQueueRouteList *list))
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route = acltdtCreateQueueRoute(queue_id(LINE), queue_id(BRANCH));
    aclError error = acltdtAddQueueRoute(list, route);

    if (error == 0)
        error = change(list);
    acltdtDestroyQueueRoute(route);
    acltdtDestroyQueueRouteList(list);
    return error;
}

static aclError order_route(const struct order *o, int64_t *value)
{
    (void)value;
    return change_route(o->a ? acltdtBindQueueRoutes : acltdtUnbindQueueRoutes);
}

/* The owner of the queue can put, and npud carries. */
START_TEST(a_bell_is_not_shared)
{
    member_start(MANAGER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    member_does(MANAGER, (struct order){order_create, LINE, 4, 0});
    member_does(MANAGER, (struct order){order_create, BRANCH, 4, 0});
    member_does(MANAGER, (struct order){order_route, true, 0, 0});
    cast->leads_to[LINE] = BRANCH + 1;
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), QUEUE_PUT});
    for (int i = 0; i < 3; i++) {
        member_does(HOSTILE, (struct order){order_spoil_bell, 0, 0, 0});
        member_does(MANAGER, (struct order){order_put, LINE, 1, 0});
        member_does(MANAGER, (struct order){order_take_free, BRANCH, 5000, 0});
    }
    member_does(MANAGER, (struct order){order_route, false, 0, 0});
    member_end(HOSTILE);
    member_end(MANAGER);
}
END_TEST

/* How many segments does npud let it map, of all those that it could guess? */
static aclError order_guess_segments(const struct order *o, int64_t *value)
{
    struct raw_segment s;

    (void)o;
    for (uint32_t id = 0; id < 300; id++) {
        if (raw_map_segment(&raw, id, &s)) {
            ++*value;
            raw_unmap_segment(&s);
        } else {
            ck_assert_int_ge(raw.socket, 0);
            ck_assert(raw.error == ACL_ERROR_RT_NO_PERMISSION ||
                      raw.error == ACL_ERROR_RT_PARAM_INVALID);
        }
    }
    for (uint32_t bit = 9; bit < 32; bit++)
        ck_assert(!raw_map_segment(&raw, UINT32_C(1) << bit, &s));
    return 0;
}

/* And queues: attached, allowed to map, granted to itself, destroyed, routed, its bell. */
static aclError order_guess_queues(const struct order *o, int64_t *value)
{
    struct raw_queue q;
    int fd;

    (void)o;
    for (uint32_t id = 0; id < 300; id++) {
        *value += raw_attach_queue(&raw, owner, id, &q);
        *value += raw_destroy_queue(&raw, id);
        *value += raw_grant(&raw, id, getpid(), QUEUE_RIGHTS);
        *value += raw_bell(&raw, id, &fd);
        for (uint32_t segment = 0; segment < 8; segment++)
            *value += raw_allow_map(&raw, id, segment);
    }
    ck_assert(!raw_attach_queue(&raw, owner, UINT32_MAX, &q));
    ck_assert(!raw_grant(&raw, queue_id(LINE), getpid(), UINT32_MAX));
    ck_assert_int_ge(raw.socket, 0);
    return 0;
}

/*
 * Without a grant there is nothing to be had. With the right to take, what has been put there, and
 * no more.
 */
START_TEST(only_what_was_granted)
{
    member_start(MANAGER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    member_does(MANAGER, (struct order){order_create, LINE, 4, 0});
    member_does(MANAGER, (struct order){order_create, BRANCH, 4, 0});
    member_does(MANAGER, (struct order){order_put, BRANCH, 1, 0});
    member_does(MANAGER, (struct order){order_churn, 500, 0, 0}); /* more segments */
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_guess_segments, 0, 0, 0}), 0);
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_guess_queues, 0, 0, 0}), 0);
    member_fails(HOSTILE, ACL_ERROR_RT_NO_PERMISSION, (struct order){order_raw_attach, LINE, 0, 0});
    /* The right to put gives no buffers; nor does that to take where there are none. */
    member_does(MANAGER, (struct order){order_grant, BRANCH, member_pid(HOSTILE), QUEUE_PUT});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), QUEUE_TAKE});
    member_does(HOSTILE, (struct order){order_raw_attach, LINE, 0, 0});
    member_does(HOSTILE, (struct order){order_raw_attach, BRANCH, 0, 0});
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_guess_segments, 0, 0, 0}), 0);
    member_does(MANAGER, (struct order){order_put, LINE, 1, 0});
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_guess_segments, 0, 0, 0}), 1);
    /* Taken away: nor the queue, nor what it had not mapped. */
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), 0});
    member_fails(HOSTILE, ACL_ERROR_RT_NO_PERMISSION, (struct order){order_raw_attach, LINE, 0, 0});
    member_end(HOSTILE);
    member_end(MANAGER);
}
END_TEST

static struct raw_segment mapped;

/* All that it may map: one segment. */
static aclError order_map_one(const struct order *o, int64_t *value)
{
    (void)o;
    for (uint32_t id = 0; id < 300 && !mapped.map; id++)
        *value += raw_map_segment(&raw, id, &mapped);
    return 0;
}

/* What npud says of the segment can only be read. */
static aclError order_try_news(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    expect_read_only(mapped.news_fd, SEGMENT_PAGE);
    ck_assert_int_eq(store_signal((void *)mapped.view.news), SIGSEGV);
    return 0;
}

/* Is `a` anywhere in the data of the segment? As the attacker would look for it. */
static aclError order_search(const struct order *o, int64_t *value)
{
    const int64_t *words = (const int64_t *)(void *)mapped.view.data;
    size_t n = mapped.view.n_data * mapped.view.stride / sizeof(*words);

    for (size_t i = 0; i < n; i++)
        *value += words[i] == o->a;
    return 0;
}

/* The buffers of the first hints seem free, and nothing else stands before the heads. */
static aclError order_free_hints(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    memset(mapped.view.page, 0, 64);
    memset((void *)mapped.view.page->hint, 0xff, 64);
    return 0;
}

/* Let readers of a queue of its own map the segment; a: the error that npud answers with. */
static aclError order_pass_on(const struct order *o, int64_t *value)
{
    struct raw_queue own;

    (void)value;
    ck_assert(raw_create_queue(&raw, 4, &own));
    if (o->a == 0)
        ck_assert(raw_allow_map(&raw, own.view.number, mapped.view.id));
    else
        ck_assert(!raw_allow_map(&raw, own.view.number, mapped.view.id) && raw.error == o->a);
    ck_assert(raw_destroy_queue(&raw, own.id));
    raw_unmap_queue(&own);
    return 0;
}

/* With the right to take, buffers may be passed on; with a mapping that is left of it they may not.
 */
START_TEST(a_lost_right_is_not_passed_on)
{
    member_start(MANAGER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    for (int q = LINE; q <= BRANCH; q++) {
        member_does(MANAGER, (struct order){order_create, q, 4, 0});
        member_does(MANAGER, (struct order){order_grant, q, member_pid(HOSTILE), QUEUE_TAKE});
        member_does(HOSTILE, (struct order){order_raw_attach, q, 0, 0});
    }
    member_does(MANAGER, (struct order){order_put, LINE, 1, 0});
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_map_one, 0, 0, 0}), 1);
    member_does(HOSTILE, (struct order){order_pass_on, 0, 0, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), 0});
    member_does(HOSTILE, (struct order){order_pass_on, ACL_ERROR_RT_NO_PERMISSION, 0, 0});
    member_end(HOSTILE);
    member_end(MANAGER);
}
END_TEST

#define SECRET  INT64_C(0x5ec2e75ec2e75ec2)
#define SECRETS 200

/* Write a buffers of b words that all say c; the first four of them stay in BRANCH. */
static aclError order_put_secrets(const struct order *o, int64_t *value)
{
    acltdtBuf buf;
    int64_t *words;
    size_t size;

    (void)value;
    for (int64_t i = 0; i < o->a; i++) {
        OK(acltdtAllocBuf((size_t)o->b * sizeof(*words), ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtGetBufData(buf, (void **)&words, &size));
        for (int64_t w = 0; w < o->b; w++)
            words[w] = o->c;
        if (i < 4)
            OK(acltdtEnqueue(queue_id(BRANCH), buf, 0));
        else
            OK(acltdtFreeBuf(buf));
    }
    return 0;
}

static aclError order_free_secrets(const struct order *o, int64_t *value)
{
    acltdtBuf buf;

    (void)o, (void)value;
    while (acltdtDequeue(queue_id(BRANCH), &buf, 0) == 0)
        OK(acltdtFreeBuf(buf));
    return 0;
}

/*
 * The peer had a right, maps a segment, and has lost the right. It writes whatever it can into what
 * it maps, to make the owner use the segment. Of buffers that are written from then on it sees
 * nothing; the owner keeps what it holds there.
 */
START_TEST(a_revoked_peer_sees_nothing_new)
{
    member_start(MANAGER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    for (int q = LINE; q <= BRANCH; q++)
        member_does(MANAGER, (struct order){order_create, q, 16, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), QUEUE_TAKE});
    member_does(HOSTILE, (struct order){order_raw_attach, LINE, 0, 0});
    member_does(MANAGER, (struct order){order_put_keep, LINE, 1, 0});
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_map_one, 0, 0, 0}), 1);
    /* With the right it sees what there is: so it looks in the right place. */
    member_does(MANAGER, (struct order){order_put_secrets, 4, 25, SECRET});
    ck_assert_int_gt(member_does(HOSTILE, (struct order){order_search, SECRET, 0, 0}), 0);
    member_does(HOSTILE, (struct order){order_try_news, 0, 0, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), 0});
    member_does(HOSTILE, (struct order){order_try_news, 0, 0, 0});
    member_does(HOSTILE, (struct order){order_free_hints, 0, 0, 0});
    member_does(MANAGER, (struct order){order_free_secrets, 0, 0, 0});
    member_does(MANAGER, (struct order){order_put_secrets, SECRETS, 25, SECRET + 1});
    ck_assert_int_eq(member_does(HOSTILE, (struct order){order_search, SECRET + 1, 0, 0}), 0);
    member_does(MANAGER, (struct order){order_check, 0, 0, 0});
    member_end(HOSTILE);
    member_end(MANAGER);
}
END_TEST

/* --- a ring that a peer would end --- */

#define FEW 4 /* messages that LINE holds */

static struct raw_queue line;

/* Attach LINE, for order_end_ring(). */
static aclError order_keep_line(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    return raw_attach_queue(&raw, owner, queue_id(LINE), &line) ? 0 : raw.error;
}

/* All that npud does to end a ring, as far as this process may write there. */
static aclError order_end_ring(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    ck_assert_int_eq(store_signal((void *)line.view.news), SIGSEGV);
    if (line.rights & QUEUE_TAKE) {
        atomic_store(&line.view.take->head, QUEUE_END << 16 | PEER_NPUD);
        atomic_fetch_add(&line.view.take->wake, 1);
    }
    if (line.rights & QUEUE_PUT) {
        atomic_store(&line.view.put->tail, QUEUE_END);
        atomic_fetch_add(&line.view.put->wake, 1);
    }
    futex_wake_all(&line.view.take->wake);
    futex_wake_all(&line.view.put->wake);
    return 0;
}

/* A sender that has seen head where it was goes on by that for a depth of messages at most. */
static aclError put_until_refused(void)
{
    aclError error = 0;

    for (int n = 0; n <= FEW && error == 0; n++) {
        member_tell(MANAGER, (struct order){order_put, LINE, 1, -1});
        error = member_answer(MANAGER).code;
    }
    return error;
}

/*
 * With every right, or with only one. Who waits for messages waits on, and a put is refused at once
 * where the peer may take. As soon as the peer has lost its right, npud has made another ring, and
 * all goes on.
 */
START_TEST(a_ring_is_ended_by_npud_alone)
{
    static const uint32_t all_rights[] = {QUEUE_PUT | QUEUE_TAKE, QUEUE_PUT, QUEUE_TAKE};
    uint32_t rights = all_rights[_i];

    member_start(MANAGER, true);
    member_start(PARTNER, true);
    member_start(HOSTILE, false);
    member_does(HOSTILE, (struct order){order_raw_open, 0, 0, 0});
    member_does(MANAGER, (struct order){order_create, LINE, FEW, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(PARTNER), QUEUE_TAKE});
    member_does(PARTNER, (struct order){order_attach, LINE, -1, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), rights});
    member_does(HOSTILE, (struct order){order_keep_line, 0, 0, 0});
    member_tell(PARTNER, (struct order){order_take_free, LINE, -1, 0});
    member_await_sleep(PARTNER, "acltdtDequeue");
    member_does(HOSTILE, (struct order){order_end_ring, 0, 0, 0});
    if (rights & QUEUE_TAKE)
        ck_assert_int_eq(put_until_refused(), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    member_await_sleep(PARTNER, "acltdtDequeue");
    member_does(MANAGER, (struct order){order_grant, LINE, member_pid(HOSTILE), 0});
    member_does(MANAGER, (struct order){order_put, LINE, 1, -1});
    ck_assert_int_eq(member_answer(PARTNER).code, 0);
    member_end(HOSTILE);
    member_end(PARTNER);
    member_end(MANAGER);
}
END_TEST

/* --- a pid that comes again --- */

/* A child with this pid; -1 with errno: not here. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void attach_as_another(pid_t pid)
{
    static struct raw_queue q;
    int status;
    pid_t again = fork_as(pid);

    if (again < 0) {
        need_lacks("a_pid_inherits_nothing",
                   errno == EPERM ? "the right to choose a pid (root)" : "a pid that nobody takes");
        return;
    }
    if (again == 0)
        _exit(raw_open(&raw) && !raw_attach_queue(&raw, owner, queue_id(LINE), &q) &&
                      raw.error == ACL_ERROR_RT_NO_PERMISSION
                  ? 0
                  : 1);
    ck_assert_int_eq(again, pid);
    ck_assert_int_eq(waitpid(again, &status, 0), again);
    ck_assert_msg(status == 0, "another process with the same pid: 0x%x", status);
}

/* The grant was for a process, and has ended with it: used (_i: 1) or not. */
START_TEST(a_pid_inherits_nothing)
{
    pid_t pid;

    member_start(MANAGER, true);
    member_start(HOSTILE, _i);
    pid = member_pid(HOSTILE);
    member_does(MANAGER, (struct order){order_create, LINE, 4, 0});
    member_does(MANAGER, (struct order){order_grant, LINE, pid, QUEUE_RIGHTS});
    if (_i)
        member_does(HOSTILE, (struct order){order_attach, LINE, 0, 0});
    member_kill(HOSTILE);
    attach_as_another(pid);
    member_fails(MANAGER, ACL_ERROR_RT_INTERNAL_ERROR,
                 (struct order){order_grant, LINE, pid, QUEUE_RIGHTS});
    member_end(MANAGER);
}
END_TEST

/* --- the innocent --- */

/* Rounds for a ms. value: how many. The first word of each buffer is counted up by either. */
static aclError order_ping(const struct order *o, int64_t *value)
{
    static uint64_t i;
    uint64_t end = now_ns() + (uint64_t)o->a * 1000000, *words, before = i;
    acltdtBuf buf, back;
    size_t size;

    while (now_ns() < end) {
        OK(acltdtAllocBuf(64 << i % 10, ACL_TDT_NORMAL_MEM, &buf));
        OK(acltdtGetBufData(buf, (void **)&words, &size));
        words[0] = 2 * ++i;
        words[size / 8 - 1] += words[0];
        OK(acltdtEnqueue(queue_id(THERE), buf, 10000));
        OK(acltdtDequeue(queue_id(BACK), &back, 10000));
        OK(acltdtGetBufData(back, (void **)&words, &size));
        MUST(size == (size_t)64 << (i - 1) % 10);
        MUST(words[0] == 2 * i + 1);
        OK(acltdtFreeBuf(back));
    }
    *value = (int64_t)(i - before);
    return 0;
}

/* Until it is told to stop. value: how many rounds. */
static aclError order_pong(const struct order *o, int64_t *value)
{
    uint64_t *words;
    acltdtBuf buf;
    size_t size;
    aclError r;

    (void)o;
    while (!atomic_load(&shared->stop)) {
        r = acltdtDequeue(queue_id(THERE), &buf, 50);
        if (r == ACL_ERROR_RT_QUEUE_EMPTY)
            continue;
        OK(r);
        OK(acltdtGetBufData(buf, (void **)&words, &size));
        ++*value;
        MUST(words[0] == 2 * (uint64_t)*value);
        words[0]++;
        OK(acltdtEnqueue(queue_id(BACK), buf, 10000));
    }
    return 0;
}

/* --- one that shares with the hostile, and does nothing wrong itself --- */

static uint64_t touched;

/* All that it is told is there must be there. */
static void touch_buffer(acltdtBuf buf)
{
    unsigned char *data;
    acltdtBuf member;
    uint32_t n = 0;
    size_t size;

    if (acltdtGetBufChainNum(buf, &n) != 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        if (acltdtGetBufFromChain(buf, i, &member) != 0 ||
            acltdtGetBufData(member, (void **)&data, &size) != 0)
            continue;
        for (size_t at = 0; at < size; at += 4096)
            touched += data[at];
        if (size > 0)
            touched += data[size - 1];
        if (acltdtGetBufDataLen(member, &size) == 0)
            touched += size;
    }
}

/* Any error is all right; to crash, to hang, and to have something of others is not. */
static aclError order_partner(const struct order *o, int64_t *value)
{
    uint64_t rng = (uint64_t)o->a;
    acltdtBuf buf, other;

    while (!atomic_load(&shared->stop)) {
        if (acltdtAllocBuf(64 << draw_below(&rng, 12), ACL_TDT_NORMAL_MEM, &buf) != 0)
            continue;
        touch_buffer(buf);
        if (draw_chance(&rng, 30) && acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &other) == 0)
            acltdtAppendBufChain(buf, other);
        if (draw_chance(&rng, 30) && acltdtCopyBufRef(buf, &other) == 0)
            acltdtFreeBuf(other);
        if (acltdtEnqueue(queue_id(LINE), buf, (int32_t)draw_below(&rng, 2)) != 0)
            acltdtFreeBuf(buf);
        if (acltdtDequeue(queue_id(draw_chance(&rng, 70) ? LINE : BRANCH), &buf,
                          (int32_t)draw_below(&rng, 3)) == 0) {
            touch_buffer(buf);
            acltdtFreeBuf(buf);
        }
        ++*value;
    }
    return 0;
}

/* The manager: whatever comes, both queues are granted to it. */
static aclError order_grant_all(const struct order *o, int64_t *value)
{
    uint32_t seen;

    (void)o, (void)value;
    while (!atomic_load(&shared->stop)) {
        seen = atomic_load(&shared->asked);
        for (int q = LINE; q <= BRANCH && atomic_load(&shared->hostile) > 0; q++)
            acltdtGrantQueue(queue_id(q), atomic_load(&shared->hostile), QUEUE_RIGHTS, 0);
        futex_wait_until(&shared->asked, seen, NULL);
    }
    return 0;
}

/* --- the hostile --- */

static struct {
    uint64_t rng;
    struct raw_queue queue[QUEUES]; /* LINE, BRANCH, and two of its own if these are not */
    unsigned n_queues;
    struct raw_segment segment[SEGMENTS]; /* the first is its own */
    unsigned n;
} it;

static struct raw_segment *any_segment(void)
{
    return &it.segment[draw_below(&it.rng, it.n)];
}

static struct mbuf *any_mbuf(struct raw_segment *s)
{
    return &s->view.mbufs[draw_below(&it.rng, segment_slots(&s->view))];
}

/* A reference: right, wrong by little, or of others. */
static uint32_t any_ref(void)
{
    struct raw_segment *s = any_segment();

    switch (draw_below(&it.rng, 5)) {
    case 0:
        return s->view.id << 16 | segment_slots(&s->view);
    case 1:
        return draw_below(&it.rng, 64) << 16 |
               draw_below(&it.rng, 512); /* perhaps of the innocent */
    case 2:
        return (uint32_t)draw_random(&it.rng);
    default:
        return mbuf_ref(&s->view, any_mbuf(s));
    }
}

static uint64_t any_number(void)
{
    static const uint64_t borders[] = {0,     1,          127,        128,        65535,
                                       65536, UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};

    return draw_chance(&it.rng, 60) ? borders[draw_below(&it.rng, 10)] : draw_random(&it.rng);
}

/* A word as there could be one: of any session, for either queue. */
static uint64_t any_word(void)
{
    enum mbuf_state state = (enum mbuf_state)draw_below(&it.rng, 9);
    uint32_t ref = any_ref();

    if (state == MBUF_MEMBER)
        return mbuf_word_member((uint32_t)draw_random(&it.rng), ref);
    return mbuf_word((uint32_t)draw_random(&it.rng) & 3, state, draw_below(&it.rng, 12),
                     state == MBUF_SENDING ? it.queue[draw_below(&it.rng, it.n_queues)].view.number
                                           : 0);
}

static void garble_mbuf(void)
{
    struct raw_segment *s = any_segment();
    struct mbuf *m = any_mbuf(s);

    atomic_store(&m->refs,
                 mbuf_refs((uint32_t)any_number(), (uint32_t)any_number(), (uint32_t)any_number()));
    atomic_store(&m->op, any_number());
    atomic_store(&m->length, any_number());
    atomic_store(&m->room, any_number());
    atomic_store(&m->block, (uint32_t)any_number());
    atomic_store(&m->next, any_ref());
    atomic_store(&m->tail, any_ref());
    atomic_store(&m->count, (uint32_t)any_number());
    atomic_store(&m->user_set, (uint32_t)any_number());
    atomic_store(&m->word, any_word());
}

static void garble_words(void)
{
    atomic_store(&any_mbuf(any_segment())->word,
                 draw_chance(&it.rng, 90) ? any_word() : draw_random(&it.rng));
}

/* Anything, anywhere in a page of it. */
static void garble_memory(void *at, size_t size)
{
    _Atomic uint64_t *words = at;

    for (unsigned i = 0; i < 32; i++)
        atomic_store(&words[draw_below(&it.rng, (unsigned)(size / 8))], any_number());
}

static void garble_segment(void)
{
    struct raw_segment *s = any_segment();

    garble_memory(s->map, segment_data_offset(segment_slots(&s->view)));
}

static void garble_hints(void)
{
    struct segment_page *page = any_segment()->view.page;

    atomic_store(&page->hint[draw_below(&it.rng, SEGMENT_SLOTS / 64)], any_number());
}

static void garble_ring(void)
{
    struct raw_queue *q = &it.queue[draw_below(&it.rng, it.n_queues)];

    garble_memory(q->view.put, queue_put_size(q->view.depth));
    garble_memory(q->view.take, sizeof(struct queue_take));
    futex_wake_all(&q->view.put->wake);
}

/* The ring stays one, but what is in it is not. */
static void forge_messages(void)
{
    struct raw_queue *q = &it.queue[draw_below(&it.rng, it.n_queues)];
    uint64_t tail = atomic_load(&q->view.put->tail);
    uint32_t ref = any_ref();
    struct raw_segment *s = any_segment();
    struct mbuf *m = any_mbuf(s);

    if (draw_chance(&it.rng, 70)) {
        ref = mbuf_ref(&s->view, m);
        atomic_store(&m->word, mbuf_word(1, MBUF_SENDING, draw_below(&it.rng, 12), q->view.number));
    }
    atomic_store(&q->view.put->slot[tail & q->view.mask].word, queue_slot_word(tail, ref));
    atomic_store(&q->view.put->tail, tail + 1);
    atomic_fetch_add(&q->view.put->wake, 1);
    futex_wake_all(&q->view.put->wake);
}

/* A chain without an end, of its own buffers, as a message. */
static void make_circle(void)
{
    struct segment_view *v = &it.segment[0].view;
    uint32_t head = v->id << 16, n = segment_slots(v) < 200 ? segment_slots(v) : 200;
    struct raw_queue *q = &it.queue[draw_below(&it.rng, it.n_queues)];
    uint64_t tail = atomic_load(&q->view.put->tail);

    for (uint32_t i = 1; i < n; i++) {
        atomic_store(&v->mbufs[i].word, mbuf_word_member(1, head));
        atomic_store(&v->mbufs[i].next, head | (i + 1 < n ? i + 1 : draw_below(&it.rng, 3)));
        atomic_store(&v->mbufs[i].block, draw_chance(&it.rng, 50) ? i : 0);
    }
    atomic_store(&v->mbufs[0].next, head | 1);
    atomic_store(&v->mbufs[0].count, draw_chance(&it.rng, 50) ? UINT32_MAX : 128);
    atomic_store(&v->mbufs[0].word, mbuf_word(1, MBUF_SENDING, PEER_NPUD, q->view.number));
    raw_allow_map(&raw, q->view.number, v->id);
    atomic_store(&q->view.put->slot[tail & q->view.mask].word, queue_slot_word(tail, head));
    atomic_store(&q->view.put->tail, tail + 1);
    atomic_fetch_add(&q->view.put->wake, 1);
    futex_wake_all(&q->view.put->wake);
}

/* Counts that go round, references to blocks that are none. */
static void garble_references(void)
{
    struct raw_segment *s = any_segment();
    struct mbuf *m = any_mbuf(s);

    atomic_store(&m->refs, mbuf_refs(draw_chance(&it.rng, 50) ? 65535 : draw_below(&it.rng, 3),
                                     draw_below(&it.rng, 300), (uint32_t)draw_random(&it.rng)));
    atomic_store(&m->op, draw_random(&it.rng) & 0x3ffffffffull);
    atomic_store(&m->block, draw_below(&it.rng, 2 * segment_slots(&s->view)));
}

static void flood_requests(void)
{
    struct raw_segment s;
    int fd;

    raw_trim(&raw, any_ref() >> 16);
    raw_allow_map(&raw, it.queue[draw_below(&it.rng, it.n_queues)].view.number,
                  draw_below(&it.rng, 64));
    if (raw_map_segment(&raw, draw_below(&it.rng, 64), &s))
        raw_unmap_segment(&s);
    if (raw_bell(&raw, it.queue[0].view.number, &fd)) {
        ck_assert_int_ge(write(fd, &(uint64_t){1}, 8), -1);
        close(fd);
    }
    /* To no other process: a grant that waits for its process is a reason for the queue to stay. */
    raw_grant(&raw, it.queue[0].id,
              draw_chance(&it.rng, 50) ? getpid() : -(int32_t)draw_below(&it.rng, 9), QUEUE_RIGHTS);
    raw_grant(&raw, it.queue[0].id, INT32_MAX - (int32_t)draw_below(&it.rng, 9), QUEUE_RIGHTS);
    if (raw_create_segment(&raw, 64u << draw_below(&it.rng, 12), 1 + draw_below(&it.rng, 100),
                           &s)) {
        raw_trim(&raw, s.view.id);
        raw_unmap_segment(&s);
    }
}

/* What the innocent have is claimed to be here. */
static void blame_others(void)
{
    struct raw_segment *s = any_segment();

    for (uint32_t i = 0; i < segment_slots(&s->view); i++)
        atomic_store(&s->view.mbufs[i].word,
                     mbuf_word_held(i, draw_chance(&it.rng, 90) ? 1 + i % 8 : PEER_NPUD));
}

static void leave_and_come_back(void);

static void route_round(void)
{
    const struct raw_queue *last = &it.queue[it.n_queues - 1];

    raw_route(&raw, last[-1].id, last->id, true);
    forge_messages();
    garble_words();
    if (draw_chance(&it.rng, 5))
        raw_route(&raw, last[-1].id, last->id, false);
}

static void run_any_case(void);

static const struct {
    const char *name;
    void (*misbehave)(void);
} cases[] = {
    {"garbage in heads of buffers", garble_mbuf},
    {"plausible words", garble_words},
    {"garbage in segments", garble_segment},
    {"hints of segments", garble_hints},
    {"garbage in rings", garble_ring},
    {"forged messages", forge_messages},
    {"chains in a circle", make_circle},
    {"counts of references", garble_references},
    {"requests", flood_requests},
    {"buffers of others", blame_others},
    {"routes", route_round},
    {"sessions that come and go", leave_and_come_back},
    {"everything", run_any_case},
};
#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

static void run_any_case(void)
{
    cases[draw_below(&it.rng, CASES - 2)].misbehave();
}

/* All that it may map; its own segment first. */
static void gather_mappings(void)
{
    MUST(raw_open(&raw));
    atomic_fetch_add(&shared->asked, 1);
    futex_wake_all(&shared->asked);
    for (int q = 0; q < 2; q++)
        while (!raw_attach_queue(&raw, owner, queue_id(q ? BRANCH : LINE), &it.queue[q]))
            MUST(raw.socket >= 0);
    it.n_queues = 2;
    /* Another user's cannot be routed: two of its own can. */
    while (owner != geteuid() && it.n_queues < QUEUES)
        MUST(raw_create_queue(&raw, DEPTH, &it.queue[it.n_queues++]));
    MUST(raw_create_segment(&raw, 128, 64, &it.segment[0]));
    it.n = 1;
    for (uint32_t id = 0; id < 64 && it.n < SEGMENTS; id++)
        if (id != it.segment[0].view.id)
            it.n += raw_map_segment(&raw, id, &it.segment[it.n]);
}

/* Another session of this process, which finds what the one before has left. */
static void leave_and_come_back(void)
{
    for (unsigned i = 0; i < 200; i++)
        run_any_case();
    for (unsigned i = 0; i < it.n; i++)
        raw_unmap_segment(&it.segment[i]);
    for (unsigned q = 0; q < it.n_queues; q++)
        raw_unmap_queue(&it.queue[q]);
    raw_close(&raw);
    gather_mappings();
}

/* Case a with seed b, until it is killed. */
static aclError order_misbehave(const struct order *o, int64_t *value)
{
    (void)value;
    second_user_become();
    it.rng = (uint64_t)o->b;
    gather_mappings();
    for (;;) {
        cases[o->a].misbehave();
        MUST(raw.socket >= 0);
        atomic_fetch_add(&shared->progress, 1);
    }
}

/* --- beside --- */

/*
 * Hostile processes, one after the other. They slow the honest down if that is seen beside each of
 * them: beside one of them it may be the machine, which has other work.
 */
#define HOSTILE_TIMES 3
#define GUARD_NS      UINT64_C(300000000000) /* against hanging only */

static void begin_both_groups(void)
{
    for (int who = MANAGER; who <= PONG; who++)
        member_start(who, true);
    for (int q = LINE; q <= BRANCH; q++) {
        member_does(MANAGER, (struct order){order_create, q, DEPTH, 0});
        member_does(MANAGER, (struct order){order_grant, q, member_pid(PARTNER), QUEUE_RIGHTS});
        member_does(PARTNER, (struct order){order_attach, q, 0, 0});
    }
    for (int q = THERE; q <= BACK; q++) {
        member_does(PING, (struct order){order_create, q, 2, 0});
        member_does(PING, (struct order){order_grant, q, member_pid(PONG), q == THERE ? 2 : 4});
        member_does(PONG, (struct order){order_attach, q, 0, 0});
    }
}

/* Rounds that it has made before the honest are judged: one in which it comes back is many. */
static uint32_t rounds_before(int which)
{
    return cases[which].misbehave == leave_and_come_back ? 2 : 20;
}

static void hostile_start(int which, uint64_t seed)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    uint32_t made = 0, now;

    atomic_store(&shared->progress, 0);
    member_start(HOSTILE, false);
    atomic_store(&shared->hostile, member_pid(HOSTILE));
    member_tell(HOSTILE, (struct order){order_misbehave, which, (int64_t)seed, 0});
    while ((now = atomic_load(&shared->progress)) < rounds_before(which)) {
        if (now != made)
            give_up = now_ns() + GUARD_NS;
        made = now;
        ck_assert_int_eq(waitpid(member_pid(HOSTILE), NULL, WNOHANG), 0);
        ck_assert_msg(now_ns() < give_up, "the hostile process gets nowhere");
        poll(NULL, 0, 1);
    }
}

static double read_seconds(void)
{
    const char *text = getenv("NPUD_HOSTILE_SECONDS");

    return text ? atof(text) : choose_effort(3, 6) / 10.0;
}

/*
 * Others have the CPU while those of a round are ready to run: that is not the hostile one's doing.
 */
static uint64_t waited_for_cpu(void)
{
    return cpu_wait_ns(member_pid(PING)) + cpu_wait_ns(member_pid(PONG)) + cpu_wait_ns(npud.pid);
}

/* False: once more. */
static bool bear_hostile_member(int which, unsigned attempt)
{
    const char *text = getenv("NPUD_HOSTILE_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns() % 1000000;
    int64_t rounds = 0, before, n;
    uint64_t waited;
    uint32_t ms = (uint32_t)(read_seconds() * 1000 / HOSTILE_TIMES), fds;
    unsigned slow = 0;
    bool good;

    fprintf(stderr, "%s: NPUD_HOSTILE_SEED=%llu\n", cases[which].name, (unsigned long long)seed);
    fds = npud_ledger().fds;
    begin_both_groups();
    member_tell(MANAGER, (struct order){order_grant_all, 0, 0, 0});
    member_tell(PONG, (struct order){order_pong, 0, 0, 0});
    member_tell(PARTNER, (struct order){order_partner, (int64_t)seed, 0, 0});
    before = member_does(PING, (struct order){order_ping, ms, 0, 0});
    rounds += before;
    for (unsigned i = 0; i < HOSTILE_TIMES; i++) {
        hostile_start(which, seed + i);
        waited = waited_for_cpu();
        n = member_does(PING, (struct order){order_ping, ms, 0, 0});
        waited = waited_for_cpu() - waited;
        slow += (uint64_t)n * MEDIAN_NS + waited < (uint64_t)ms * 1000000;
        ck_assert_msg(slow < HOSTILE_TIMES,
                      "%s: %lld rounds in %u ms, of which %llu waiting for a CPU; %lld before",
                      cases[which].name, (long long)n, ms, (unsigned long long)waited / 1000000,
                      (long long)before);
        rounds += n;
        ck_assert_msg(waitpid(member_pid(HOSTILE), NULL, WNOHANG) == 0,
                      "the hostile process ended by itself");
        member_kill(HOSTILE);
    }
    npud_await_sessions(4);
    atomic_store(&shared->stop, 1);
    atomic_fetch_add(&shared->asked, 1);
    futex_wake_all(&shared->asked);
    member_answer(MANAGER);
    ck_assert_int_gt(member_answer(PARTNER).value, 0);
    ck_assert_int_eq(member_answer(PONG).value, rounds);
    good = row_finish(
        &(struct row){.name = cases[which].name, .attackers = 1, .honest = (uint64_t)rounds},
        attempt);
    member_end(PARTNER);
    member_end(MANAGER);
    shared_await(0, 2); /* of what the others had nothing is left, whatever they have written */
    member_end(PING);
    member_end(PONG);
    npud_await_fds(fds);
    return good;
}

START_TEST(beside_a_hostile_member)
{
    for (unsigned attempt = 0; !bear_hostile_member(_i, attempt); attempt++) {
        finish_test();
        set_up_test();
    }
}
END_TEST

int main(void)
{
    const char *only = getenv("NPUD_HOSTILE_CASE");
    Suite *s = suite_create("share hostile");
    TCase *t = suite_case(s, "rights", 60, set_up_test, finish_test);

    if (!only) {
        tcase_add_loop_test(t, a_right_is_a_mapping, 1, 8);
        tcase_add_test(t, only_what_was_granted);
        tcase_add_test(t, a_bell_is_not_shared);
        tcase_add_test(t, a_lost_right_is_not_passed_on);
        tcase_add_test(t, a_revoked_peer_sees_nothing_new);
        tcase_add_loop_test(t, a_ring_is_ended_by_npud_alone, 0, 3);
        tcase_add_loop_test(t, a_pid_inherits_nothing, 0, 2);
    }
    t = suite_case(s, "beside", 240 + 4 * read_seconds(), set_up_test, finish_test);
    tcase_add_loop_test(t, beside_a_hostile_member, only ? atoi(only) : 0,
                        only ? atoi(only) + 1 : CASES);
    return run_suite(s);
}
