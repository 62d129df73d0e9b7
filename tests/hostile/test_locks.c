/*
 * Hostile clients that stay in the kernel, with locks that npud could come to wait for: a write()
 * to a file that they share with npud, whose data is in a page that never comes, keeps the lock of
 * that file; and files whose close never ends are sent to npud. npud answers others as if nothing
 * were, which is what the well-behaved pair (victims.c) shows.
 *
 * Skipped under ASan and TSan: with ASan it did not end within a minute, which is not understood;
 * under TSan there is no file system in user space.
 */
#include "tests/common/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/util/futex.h"
#include "proto/wire/packet.h"
#include "tests/common/need.h"
#include "tests/common/raw_share.h"
#include "tests/common/second_user.h"
#include "tests/hostile/row.h"
#include "tests/hostile/silent_file.h"
#include "tests/hostile/victims.h"

#define PAGE 4096

static struct {
    _Atomic uint32_t reached; /* what the hostile process has got to */
    _Atomic uint32_t allowed; /* how far it may go */
    _Atomic bool refused;     /* the kernel makes no hole for it */
} * shared;

static struct silent_file file;

/* --- the hostile process --- */

static void reach_step(uint32_t step)
{
    uint32_t now;

    atomic_store(&shared->reached, step);
    while ((now = atomic_load(&shared->allowed)) < step)
        futex_wait_until(&shared->allowed, now, NULL);
}

static void *write_silent_page(void *arg)
{
    const int *fd = arg;
    const char *page =
        mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file.fd, (off_t)atomic_load(file.reads) * PAGE);

    if (page != MAP_FAILED && pwrite(*fd, page, PAGE, 0) < 0)
        _exit(1);
    return NULL;
}

/* Returns when the lock of the file is held, for good. */
static void hold_lock(int fd)
{
    uint32_t before = atomic_load(file.reads);
    int *arg = malloc(sizeof(*arg));
    pthread_t thread;

    if (!arg)
        _exit(1);
    *arg = fd;
    if (pthread_create(&thread, NULL, write_silent_page, arg) != 0)
        _exit(1);
    while (atomic_load(file.reads) == before)
        futex_wait_until(file.reads, before, NULL);
}

static struct raw raw = {.socket = -1};

static void take_one_of_all(void)
{
    struct raw_object o;

    raw.keep_fds = true;
    if (!raw_open(&raw) || !raw_open_device(&raw, 0) || !raw_create_stream(&raw, 0) ||
        !raw_create_event(&raw, &o) || !raw_create_ipc(&raw, &o) ||
        !raw_malloc(&raw, false, 1 << 20, &o) || !raw_malloc(&raw, true, 1 << 20, &o))
        _exit(1);
}

/*
 * It has the locks of all files that npud gave it, and has npud do something with each of the
 * objects.
 */
static int hold_locks(void *arg)
{
    struct raw_segment segment;
    struct raw_queue queue;

    (void)arg;
    if (!silent_file_open(&file))
        return 1;
    second_user_become();
    take_one_of_all();
    if (!raw_create_segment(&raw, PAGE, 64, &segment) || !raw_create_queue(&raw, 64, &queue))
        return 1;
    atomic_store(&segment.view.mbufs[0].word, mbuf_word_held(1, 1));
    for (unsigned i = 0; i < raw.n_maps; i++)
        hold_lock(raw.map[i].fd);
    hold_lock(segment.fd);
    hold_lock(queue.fd[0]);
    hold_lock(queue.fd[1]);
    reach_step(1);
    raw_trim(&raw, segment.view.id);
    raw_create_stream(&raw, 0);
    raw_destroy_stream(&raw, 0);
    reach_step(2);
    /* Its end: npud gives back files whose locks are held. */
    if (!raw_destroy_queue(&raw, queue.id))
        _exit(1);
    close(raw.socket);
    reach_step(3);
    for (;;)
        pause();
}

/* --- a file with many mappings --- */

/*
 * For a hole in a file the kernel walks all its mappings, under the lock that npud needs to map and
 * to unmap it, and its page faults wait. A thread that gets hardly any CPU time walks for seconds.
 */
#define MAPPINGS 60000u
#define BYTES    (ROUNDS * PAGE)
#define HOGS     4u
#define ROUNDS   4u
#define PUNCH    (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

/* Other programs have their CPU time beside them; the thread that makes holes has not. */
static void start_hogs(void)
{
    for (unsigned i = 0; i < HOGS; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                continue;
        }
}

static struct {
    char *map[MAPPINGS];
    int fd;
    _Atomic unsigned begun, ended; /* holes */
} holes;

static void *make_holes(void *arg)
{
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    while (!atomic_load(&shared->refused)) {
        atomic_fetch_add(&holes.begun, 1);
        if (fallocate(holes.fd, PUNCH, 0, BYTES) < 0)
            atomic_store(&shared->refused, errno == EPERM);
        atomic_fetch_add(&holes.ended, 1);
    }
    return arg;
}

/* A walk takes longer where pages are mapped. Returns in one that lasts, if there are any. */
static void await_hole(void)
{
    unsigned ended;

    for (unsigned i = 0; i < MAPPINGS; i++)
        holes.map[i][0] = 1;
    do {
        ended = atomic_load(&holes.ended);
        poll(NULL, 0, 10);
    } while (!atomic_load(&shared->refused) &&
             (atomic_load(&holes.begun) == ended || atomic_load(&holes.ended) != ended));
}

/* It takes memory, and holds the locks of that file from now on. */
static struct raw_object take_held_memory(void)
{
    static struct raw_object memory;
    pthread_t thread;

    start_hogs(); /* first: none has the session's socket */
    raw.keep_fds = true;
    must(raw_open(&raw) && raw_open_device(&raw, 0) && raw_create_stream(&raw, 0), "a session");
    must(raw_malloc(&raw, false, BYTES, &memory), "memory");
    holes.fd = raw.map[raw.n_maps - 1].fd;
    for (unsigned i = 0; i < MAPPINGS; i++) {
        holes.map[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, holes.fd, 0);
        must(holes.map[i] != MAP_FAILED, "a mapping");
    }
    must(pthread_create(&thread, NULL, make_holes, NULL) == 0, "a thread");
    await_hole();
    return memory;
}

/* npud touches that memory, again and again, and then unmaps it. */
static int have_npud_use_it(void *arg)
{
    struct raw_stream *s = &raw.stream[0];
    struct task set = {.op = TASK_SET, .set.size = PAGE};
    struct raw_object memory;

    second_user_become();
    memory = take_held_memory();
    set.object = memory.slot;
    set.generation = memory.generation;
    reach_step(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        set.set.offset = i * PAGE; /* which npud has not touched so far */
        raw_put(&raw, s, &set);
        raw_ring(&raw, s);
        raw_wait(s);
        await_hole();
    }
    raw_free(&raw, memory.slot);
    close(raw.socket);
    reach_step(2);
    return arg ? 1 : 0;
}

static int hold_it(void *arg)
{
    second_user_become();
    take_held_memory();
    reach_step(1);
    return arg ? 1 : 0;
}

/* --- files whose close does not end --- */

#define SENT 64u

/* A request by which clients said, up to protocol 6, that they were going to send descriptors. */
static const char announcement[] = "\x08\x01\xe2\x03";

/* The kernel refuses it for npud, or the session ends. */
static bool send_silent_file(bool announce)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__NotifyFd in = NPUD__NOTIFY_FD__INIT;
    static uint8_t data[PACKET_MAX];
    static struct packet packet;
    int r;

    /* With the byte that ends it: the length of an empty message. */
    if (announce && packet_send(raw.socket, announcement, sizeof(announcement), NULL, 0, 0) == 0 &&
        packet_recv(raw.socket, &packet, 0) > 0)
        packet_deinit(&packet);
    q.id = ++raw.last_id;
    q.notify_fd = &in;
    q.body_case = NPUD__REQUEST__BODY_NOTIFY_FD;
    r = packet_send(raw.socket, data, npud__request__pack(&q, data), &file.fd, 1, 0);
    return r < 0 || packet_recv(raw.socket, &packet, 0) <= 0;
}

static int send_silent_files(void *arg)
{
    (void)arg;
    if (!silent_file_open(&file))
        return 1;
    second_user_become();
    for (unsigned i = 0; i < SENT; i++) {
        raw.socket = -1; /* of the last one, which stays open */
        if (!raw_open(&raw) || !send_silent_file(i % 2))
            return 2;
    }
    reach_step(1);
    for (;;)
        pause();
}

/* --- the test --- */

static void await_step(uint32_t step)
{
    EVENTUALLY(atomic_load(&shared->reached) >= step, "the hostile process does not come to %u",
               step);
}

static void allow_step(uint32_t step)
{
    atomic_store(&shared->allowed, step);
    futex_wake_all(&shared->allowed);
}

static void set_up_test(void)
{
    npud_setup();
    second_user_let_in();
}

/* False: once more. */
static bool bear_held_locks(unsigned attempt)
{
    aclrtIpcEventHandle spoiled;
    bool good;
    pid_t pid;

    shared = child_share(sizeof(*shared));
    victims_start(&spoiled);
    pid = child_start_group(hold_locks);
    await_step(1);
    victims_work(20);
    victims_phase(PHASE_HOSTILE);
    allow_step(1);
    await_step(2);
    victims_work(20);
    victims_phase(PHASE_NONE);
    ck_assert_uint_eq(npud_buffers(), 1);
    ck_assert_uint_eq(npud_ledger().sessions, 3);
    allow_step(2);
    await_step(3);
    npud_await_sessions(2);
    victims_work(20);
    child_kill_group(pid);
    good = row_finish_victims("locks of all files that a session has", 1, 1, attempt);
    victims_end();
    npud_expect_empty();
    return good;
}

START_TEST(locks_of_shared_files_are_held)
{
    if (!silent_file_possible() && !need_lacks(__func__, "/dev/fuse and a mount namespace"))
        return;
    for (unsigned attempt = 0; !bear_held_locks(attempt); attempt++) {
        npud_teardown();
        set_up_test();
    }
}
END_TEST

/* In ns. Without holes the machine alone can make a round long, and it has hogs. */
#define ROUND_MAX UINT64_C(1000000000)

/*
 * Until the hostile process has got so far: the longest time in which the victims got no round,
 * which an engine does, or no request done.
 */
static uint64_t watch_victims(uint32_t step)
{
    uint64_t longest = 0;

    while (atomic_load(&shared->reached) < step) {
        uint64_t begin = now_ns(), took;

        victims_phase(PHASE_HOSTILE);
        do
            victims_work(1);
        while (victims_count(PHASE_HOSTILE, MEASURED_ROUND) == 0 ||
               victims_count(PHASE_HOSTILE, MEASURED_REQUEST) == 0);
        took = now_ns() - begin;
        longest = took > longest ? took : longest;
        victims_phase(PHASE_NONE);
        if (atomic_load(&shared->reached) < step)
            victims_forget_times();
    }
    return longest;
}

/* Neither an engine nor the control thread waits for a process that makes a hole. */
START_TEST(holes_in_a_file_with_many_mappings)
{
    aclrtIpcEventHandle spoiled;
    uint64_t longest;
    pid_t pid;

    if (!need_root(__func__) || !need_flags_of_files(__func__))
        return;
    shared = child_share(sizeof(*shared));
    victims_start(&spoiled);
    pid = child_start_group(have_npud_use_it);
    await_step(1);
    allow_step(1);
    longest = watch_victims(2);
    npud_await_sessions(2);
    child_kill_group(pid);
    row_finish_victims("holes in a file with 60,000 mappings", 1, 1, 0);
    ck_assert(atomic_load(&shared->refused));
    ck_assert_msg(longest < ROUND_MAX, "npud held others up for %llu ms",
                  (unsigned long long)longest / 1000000);
    victims_end();
}
END_TEST

/* A later npud maps all files again, when the one before has ended and unmapped them. */
START_TEST(such_a_file_holds_up_no_restart)
{
    uint64_t begin, took;
    pid_t pid;

    if (!need_root(__func__) || !need_flags_of_files(__func__))
        return;
    npud_teardown();
    npud_start_restartable(NULL);
    second_user_let_in();
    shared = child_share(sizeof(*shared));
    pid = child_start_group(hold_it);
    await_step(1);
    begin = now_ns();
    npud_kill_server();
    took = now_ns() - begin;
    ck_assert_msg(took < 2 * ROUND_MAX, "no server for %llu ms",
                  (unsigned long long)took / 1000000);
    ck_assert_uint_eq(npud_ledger().sessions, 1);
    child_kill_group(pid);
    npud_await_sessions(0);
}
END_TEST

/* npud has none of them: it goes on, and it ends while the file system lives. */
START_TEST(files_whose_close_hangs)
{
    aclrtIpcEventHandle spoiled;
    pid_t pid;

    if (!silent_file_possible() && !need_lacks(__func__, "/dev/fuse and a mount namespace"))
        return;
    shared = child_share(sizeof(*shared));
    victims_start(&spoiled);
    pid = child_start_group(send_silent_files);
    await_step(1);
    victims_work(20);
    victims_end();
    npud_teardown();
    child_kill_group(pid);
    set_up_test();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("locks");
    TCase *t = suite_case(suite, "files", 60, set_up_test, npud_teardown);

    tcase_add_test(t, locks_of_shared_files_are_held);
    tcase_add_test(t, files_whose_close_hangs);
    tcase_add_test(t, holes_in_a_file_with_many_mappings);
    tcase_add_test(t, such_a_file_holds_up_no_restart);
    return run_suite(suite);
}
