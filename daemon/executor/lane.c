#include "daemon/executor/lane.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/answer.h"
#include "daemon/executor/handled.h"
#include "daemon/executor/lane_work.h"
#include "daemon/executor/library.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

/* How long a lane looks for its next task before it sleeps. To be woken takes longer than that. */
#define SPIN_NS (20 * NSEC_PER_USEC)

static struct lane {
    const struct executor_bell *bell;
    const struct executor_task *entry; /* EXECUTOR_DEPTH of them */
    struct executor_done *done;
    _Atomic int32_t *code;  /* of each of its tasks: executor_page.code */
    _Atomic uint64_t ended; /* tasks up to this number are not begun any more */
    bool has_thread;        /* control thread */
    struct lane_work work;
} lanes[EXECUTOR_LANES];

/* At most half of the CPUs spin, so that npud and the library's threads find the others. */
static _Atomic int spinners;
static int spinners_max;

static void count_cpus(void)
{
    cpu_set_t set;

    spinners_max = sched_getaffinity(0, sizeof(set), &set) < 0 ? 0 : CPU_COUNT(&set) / 2;
}

void lanes_set_up(const struct executor_ring *ring, struct executor_page *page)
{
    count_cpus();
    for (unsigned i = 0; i < EXECUTOR_LANES; i++) {
        lanes[i].bell = &ring->bell[i];
        lanes[i].entry = ring->entry[i];
        lanes[i].done = &page->lane[i];
        lanes[i].code = page->code[i];
        lane_work_init(&lanes[i].work, i, &page->lane[i].busy_since);
    }
}

/* --- waiting for a task --- */

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Is the task of this number given out? The bell has the low half of the last one. */
static bool is_given(uint32_t news, uint64_t number)
{
    return news - (uint32_t)number < EXECUTOR_DEPTH;
}

static bool is_given_acquire(const struct lane *lane, uint64_t number)
{
    return is_given(atomic_load_explicit(&lane->bell->news, memory_order_acquire), number);
}

static bool spin(const struct lane *lane, uint64_t number)
{
    uint64_t end;
    bool given = false;

    if (atomic_fetch_add(&spinners, 1) < spinners_max) {
        end = clock_ns() + SPIN_NS;
        do {
            cpu_relax();
            given = is_given_acquire(lane, number);
        } while (!given && clock_ns() < end);
    }
    atomic_fetch_sub(&spinners, 1);
    return given;
}

/*
 * npud stores `news`, then looks at `asleep`; here it is the other way round, so that one of both
 * sees the other. The ring is mapped for reading, which is all that a futex needs to be slept on.
 */
static void sleep_until_given(const struct lane *lane, uint64_t number)
{
    for (;;) {
        uint32_t news;

        atomic_store(&lane->done->asleep, 1);
        news = atomic_load(&lane->bell->news);
        if (is_given(news, number))
            break;
        futex_wait_until((_Atomic uint32_t *)&lane->bell->news, news, NULL);
    }
    atomic_store_explicit(&lane->done->asleep, 0, memory_order_relaxed);
}

static void await_task(const struct lane *lane, uint64_t number)
{
    if (!is_given_acquire(lane, number) && !spin(lane, number))
        sleep_until_given(lane, number);
}

/* --- its life --- */

/* What the task says is read once, whatever npud does with the entry meanwhile. */
static int32_t run_task(struct lane *lane, uint64_t number, struct executor_task *task,
                        uint64_t *asker)
{
    uint64_t value = 0;
    int32_t code;

    *task = lane->entry[number % EXECUTOR_DEPTH];
    *asker = 0;
    if (task->number != number)
        return ACL_ERROR_RT_INTERNAL_ERROR;
    if (number <= atomic_load_explicit(&lane->ended, memory_order_relaxed))
        return ACL_ERROR_RT_STREAM_ABORT;
    handled_await(task->after);
    code = lane_work_do(&lane->work, task, &value, asker);
    if (task->op == EXECUTOR_WORD_READ)
        atomic_store_explicit(&lane->done->value, value, memory_order_relaxed);
    return code;
}

/*
 * npud stores `awaited`, has the same fence, and looks at `done`. What lost the device is told with
 * the task that met it.
 */
static void publish(const struct lane *lane, uint64_t number, int32_t code, uint32_t device)
{
    int32_t gone = code != 0 ? library_gone(device) : 0;

    if (gone != 0) {
        atomic_store_explicit(&lane->done->gone, 1, memory_order_relaxed);
        code = gone;
    }
    atomic_store_explicit(&lane->done->code, code, memory_order_relaxed);
    atomic_store_explicit(&lane->code[number % EXECUTOR_DEPTH], code, memory_order_relaxed);
    atomic_store_explicit(&lane->done->done, number, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&lane->bell->awaited, memory_order_relaxed) != 0)
        library_wake_npud(device);
}

static void answer_asker(uint64_t asker)
{
    struct executor_answer answer = {.op = EXECUTOR_LANE_ABORT, .number = asker};

    answer_send(&answer, NULL, 0, -1);
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    char name[16];

    snprintf(name, sizeof(name), "npud-lane-%u", (unsigned)(lane - lanes));
    pthread_setname_np(pthread_self(), name);
    for (uint64_t number = 1;; number++) {
        struct executor_task task;
        uint64_t asker;
        int32_t code;

        await_task(lane, number);
        code = run_task(lane, number, &task, &asker);
        publish(lane, number, code, task.device);
        if (asker != 0)
            answer_asker(asker);
    }
    return NULL;
}

/* The kernel ends a process for these without its handler, where they are blocked. */
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static int start_thread(struct lane *lane)
{
    sigset_t all, before;
    pthread_t thread;
    int r;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    r = pthread_create(&thread, NULL, run_lane, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        pthread_detach(thread);
    return r;
}

void lane_begin(uint64_t number)
{
    struct lane *lane = &lanes[number % EXECUTOR_LANES];
    int r;

    if (number >= EXECUTOR_LANES || lane->has_thread)
        return;
    r = start_thread(lane);
    if (r != 0) {
        fprintf(stderr, "npud-executor: no thread for a lane: %s\n", strerror(r));
        _exit(1);
    }
    lane->has_thread = true;
}

int32_t lane_abort(uint64_t number, uint64_t to, uint64_t asker, bool *later)
{
    *later = false;
    if (number >= EXECUTOR_LANES)
        return library_refuses("a lane that cannot be");
    /*
     * First: what is behind the task that is ended must not begin. Relaxed, as the lane takes the
     * lock that lane_work_abort() takes next before it ends that task, and looks only behind that.
     * One that has looked just before, and is not yet at the library, is done: still a prefix.
     */
    atomic_store_explicit(&lanes[number].ended, to, memory_order_relaxed);
    return lane_work_abort(&lanes[number].work, to, asker, later);
}

int32_t lanes_leave_device(uint32_t device)
{
    int32_t code = 0;

    for (unsigned i = 0; i < EXECUTOR_LANES && code == 0; i++)
        code = lane_work_leave_device(&lanes[i].work, device);
    return code;
}
