/*
 * Rows 4, 4b and 4s: two processes that answer each other through IPC events, both asleep in
 * aclrtSynchronizeEvent.
 *
 * A process can only sleep there if a record is submitted and not executed. So each side queues its
 * records ahead, each behind a gate: [wait for the gate][lower the gate][record event k], and fires
 * record k by raising its gate on a second stream.
 *
 * A wait belongs to the record that is latest at the call, so record k + 1 must not sit on the
 * event of record k while the other side may still be about to wait for k. With events taken in
 * turn, k % IPC_EVENTS, and record k + 2 submitted after k was fired, the event of k is not
 * recorded again before the other side has answered k + 1, so has returned from its wait for k; and
 * record k + 1 was submitted before k was fired, so before the other side can wait for it.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/proc.h"
#include "tests/common/process.h"

#define WARM_UP 16

struct side {
    aclrtStream main, fire;
    aclrtEvent gate;
    aclrtEvent mine[IPC_EVENTS], theirs[IPC_EVENTS];
    unsigned next; /* record to fire */
};

static void submit_round(struct side *s, unsigned k)
{
    CHECK(aclrtStreamWaitEvent(s->main, s->gate));
    CHECK(aclrtResetEvent(s->gate, s->main));
    CHECK(aclrtRecordEvent(s->mine[k % IPC_EVENTS], s->main));
}

static void side_create(struct side *s, aclrtIpcEventHandle *handles)
{
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&s->main));
    CHECK(aclrtCreateStream(&s->fire));
    CHECK(aclrtCreateEventWithFlag(&s->gate, ACL_EVENT_SYNC));
    for (unsigned i = 0; i < IPC_EVENTS; i++) {
        CHECK(aclrtCreateEventExWithFlag(&s->mine[i], ACL_EVENT_IPC));
        CHECK(aclrtIpcGetEventHandle(s->mine[i], &handles[i]));
    }
    s->next = 0;
    submit_round(s, 0);
    submit_round(s, 1);
}

static void side_open(struct side *s, const aclrtIpcEventHandle *handles)
{
    for (unsigned i = 0; i < IPC_EVENTS; i++)
        CHECK(aclrtIpcOpenEventHandle(handles[i], &s->theirs[i]));
}

static void fire_record(struct side *s)
{
    CHECK(aclrtRecordEvent(s->gate, s->fire));
}

static void fire_gate(struct side *s)
{
    fire_record(s);
    submit_round(s, s->next + 2);
}

static void wait_for_other(struct side *s)
{
    CHECK(aclrtSynchronizeEvent(s->theirs[s->next % IPC_EVENTS]));
}

static void lead_rounds(struct side *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        fire_gate(s);
        wait_for_other(s);
        s->next++;
    }
}

static void follow_rounds(struct side *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        wait_for_other(s);
        fire_gate(s);
        s->next++;
    }
}

/* --- a helper as one side --- */

static struct side side_of_helper;

void ipc_setup(struct page *page, bool first)
{
    struct side *s = &side_of_helper;

    side_create(s, page->handle[first ? 0 : 1]);
    if (first) {
        tell(&page->handles, 1);
        sleep_until(&page->ready, 1);
        side_open(s, page->handle[1]);
    } else {
        sleep_until(&page->handles, 1);
        side_open(s, page->handle[0]);
        tell(&page->ready, 1);
    }
}

void ipc_play(unsigned rounds, bool first)
{
    (first ? lead_rounds : follow_rounds)(&side_of_helper, rounds);
}

/* --- the measuring process --- */

struct sleeps {
    uint64_t first, second, rounds;
};

struct ipc {
    struct helper helper;
    struct side side;
    struct pair pair;
    enum relay_mode relay;
    struct sleeps acl, raw;
};

static double ipc_side(void *arg, unsigned n)
{
    struct ipc *ipc = arg;
    uint64_t sleeps = sleeps_so_far();
    uint64_t start;

    helper_command(&ipc->helper, GAME_IPC, WARM_UP, n);
    lead_rounds(&ipc->side, WARM_UP);
    start = now_ns();
    lead_rounds(&ipc->side, n);
    start = now_ns() - start;
    ipc->acl.first += sleeps_so_far() - sleeps;
    helper_wait(&ipc->helper);
    ipc->acl.second += ipc->helper.seat->sleeps;
    ipc->acl.rounds += WARM_UP + n;
    return (double)start / n;
}

static double raw_side(struct ipc *ipc, enum game game, unsigned n)
{
    double ns = pair_play(&ipc->pair, game, WARM_UP, n);

    ipc->raw.first += ipc->pair.first.seat->sleeps;
    ipc->raw.second += ipc->pair.second.seat->sleeps;
    ipc->raw.rounds += WARM_UP + n;
    return ns;
}

static double futex_side(void *arg, unsigned n)
{
    return raw_side(arg, GAME_FUTEX, n);
}

static double relay_side(void *arg, unsigned n)
{
    struct ipc *ipc = arg;
    double ns;

    relay_set(ipc->pair.page, ipc->relay);
    ns = raw_side(ipc, GAME_RELAY, n);
    relay_set(ipc->pair.page, RELAY_OFF);
    return ns;
}

static double per_round(uint64_t sleeps, const struct sleeps *s)
{
    return (double)sleeps / (double)s->rounds;
}

static void run_contest(struct ipc *ipc, const struct row *row, side_fn baseline)
{
    struct contest contest = {
        .value = ipc_side,
        .baseline = baseline,
        .arg = ipc,
        .n_value = 200,
        .n_baseline = 200,
        .rounds = count_of(300, 5),
    };
    struct result result;

    ipc->acl = ipc->raw = (struct sleeps){0};
    result = contest_run(row, &contest);
    snprintf(result.note, sizeof(result.note),
             "sleeps per round trip: %.2f + %.2f, raw %.2f + %.2f",
             per_round(ipc->acl.first, &ipc->acl), per_round(ipc->acl.second, &ipc->acl),
             per_round(ipc->raw.first, &ipc->raw), per_round(ipc->raw.second, &ipc->raw));
    result_emit(&result);
}

static void place_pair(struct ipc *ipc, int first, int second_cpu)
{
    pin(first);
    ipc->pair.first.seat->cpu = first;
    ipc->pair.second.seat->cpu = ipc->helper.seat->cpu = second_cpu;
}

static void connect_sides(struct ipc *ipc)
{
    int fd;
    struct page *page = page_new(&fd);

    helper_start(&ipc->helper, page, SEAT_SECOND, fd, -1);
    close(fd);
    side_create(&ipc->side, page->handle[0]);
    tell(&page->handles, 1);
    sleep_until(&page->ready, 1);
    side_open(&ipc->side, page->handle[1]);
}

/*
 * Where the scheduler puts two processes that wake each other can decide more than what they do: on
 * one CPU a hand-over is a context switch, on two it is the wake-up of a CPU that may have halted.
 * The first row leaves it free, as users do. The second compares like with like. The third has a
 * baseline that needs three processes, as npud does.
 */
static void run_rows(const struct row rows[3], enum relay_mode relay)
{
    struct ipc ipc = {.relay = relay};
    pid_t relay_pid;

    pair_start(&ipc.pair);
    relay_pid = relay_start(ipc.pair.page);
    connect_sides(&ipc);
    run_contest(&ipc, &rows[0], futex_side);
    if (cpu_count() > 1) {
        place_pair(&ipc, 0, 1);
        run_contest(&ipc, &rows[1], futex_side);
        place_pair(&ipc, -1, -1);
    }
    run_contest(&ipc, &rows[2], relay_side);
    relay_stop(ipc.pair.page, relay_pid);
    pair_stop(&ipc.pair);
    helper_stop(&ipc.helper);
    page_free(ipc.helper.page);
}

void rows_ipc(void)
{
    static const struct row rows[] = {
        {"4", "IPC event ping-pong, both asleep; vs two processes on futexes", BUDGET_NONE},
        {"4-apart", "the same, one pinned to CPU 0, the other to CPU 1", BUDGET_NONE},
        {"4-relay", "the same; vs two on futexes that a spinning third process wakes", BUDGET_NONE},
    };

    run_rows(rows, RELAY_SPINS);
}

void rows_ipc_asleep(void)
{
    static const struct row rows[] = {
        {"4b", "row 4 with the engine asleep at every step (engine.spin_us=0)", 1.5},
        {"4b-apart", "the same, one pinned to CPU 0, the other to CPU 1", 1.5},
        {"4b-relay", "the same; vs two on futexes that a sleeping third process wakes", 1.5},
    };

    run_rows(rows, RELAY_SLEEPS);
}

/* --- row 4s: many sleep on one record --- */

#define SLEEPERS 10u

/* Memory that the sleepers share with the process that measures. */
struct dormitory {
    _Atomic uint32_t ready; /* futex: the events are exported */
    _Atomic uint32_t bell;  /* futex of the raw ones: the round */
    _Atomic uint32_t relay; /* futex of the raw relay: rounds that it has begun */
    _Atomic uint32_t awake; /* how often one has woken */
    _Atomic uint32_t all;   /* futex: the round for which all have */
    _Atomic bool over;
    aclrtIpcEventHandle handle[IPC_EVENTS];
};

struct sleepers {
    struct dormitory *acl, *raw;
    pid_t acl_pid[SLEEPERS], raw_pid[SLEEPERS];
    pid_t relay_pid, npud_pid;
    struct side side;
    uint32_t round; /* of the raw ones */
};

static bool wake_up(struct dormitory *d, uint32_t round)
{
    uint32_t n = atomic_fetch_add_explicit(&d->awake, 1, memory_order_acq_rel) + 1;

    if (n == SLEEPERS * round)
        tell(&d->all, round);
    return !atomic_load_explicit(&d->over, memory_order_acquire);
}

static int sleep_raw(void *arg)
{
    struct dormitory *d = arg;
    uint32_t round = 0;

    do
        sleep_until(&d->bell, ++round);
    while (wake_up(d, round));
    return 0;
}

static int sleep_on_events(void *arg)
{
    struct dormitory *d = arg;
    struct side s = {.next = 0};

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    sleep_until(&d->ready, 1);
    side_open(&s, d->handle);
    do
        wait_for_other(&s);
    while (wake_up(d, ++s.next));
    CHECK(aclFinalize());
    return 0;
}

static void await_sleep_of(pid_t pid)
{
    while (!proc_sleeps(pid))
        sched_yield();
}

/* What is on its way to its sleep would be woken for less. `between` wakes the sleepers. */
static void await_sleep(const pid_t *pids, pid_t between)
{
    for (unsigned i = 0; i < SLEEPERS; i++)
        await_sleep_of(pids[i]);
    await_sleep_of(between);
}

static void ring_bell(struct dormitory *d)
{
    atomic_fetch_add_explicit(&d->bell, 1, memory_order_release);
    futex_wake_all(&d->bell);
}

/* As the engine does it: a process that is woken first, and wakes the others. */
static int relay_bell(void *arg)
{
    struct dormitory *d = arg;

    for (uint32_t n = 1;; n++) {
        sleep_until(&d->relay, n);
        if (atomic_load_explicit(&d->over, memory_order_acquire))
            return 0;
        ring_bell(d);
    }
}

static void ring_relay(struct dormitory *d)
{
    atomic_fetch_add_explicit(&d->relay, 1, memory_order_release);
    futex_wake(&d->relay);
}

static double wake_raw(struct sleepers *s, unsigned n, void (*ring)(struct dormitory *d))
{
    uint64_t start, sum = 0;

    for (unsigned i = 0; i < n; i++) {
        await_sleep(s->raw_pid, s->relay_pid);
        start = now_ns();
        ring(s->raw);
        sleep_until(&s->raw->all, ++s->round);
        sum += now_ns() - start;
    }
    return (double)sum / n;
}

static double wake_at_once(void *arg, unsigned n)
{
    return wake_raw(arg, n, ring_bell);
}

static double wake_by_relay(void *arg, unsigned n)
{
    return wake_raw(arg, n, ring_relay);
}

static double wake_by_event(void *arg, unsigned n)
{
    struct sleepers *s = arg;
    uint64_t start, sum = 0;

    for (unsigned i = 0; i < n; i++) {
        await_sleep(s->acl_pid, s->npud_pid);
        start = now_ns();
        fire_record(&s->side);
        sleep_until(&s->acl->all, ++s->side.next);
        sum += now_ns() - start;
        submit_round(&s->side, s->side.next + 1);
    }
    return (double)sum / n;
}

static struct dormitory *dormitory_new(pid_t pids[SLEEPERS], int (*sleeper)(void *arg))
{
    struct dormitory *d =
        mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (d == MAP_FAILED)
        die("mmap: %m");
    for (unsigned i = 0; i < SLEEPERS; i++)
        pids[i] = start_process(sleeper, d);
    return d;
}

static void end_sleepers(const pid_t pids[SLEEPERS])
{
    for (unsigned i = 0; i < SLEEPERS; i++)
        expect_success("sleeper", process_end(pids[i]));
}

void rows_sleepers(void)
{
    static const struct row rows[] = {
        {"4s", "wake ten that sleep on one IPC event; vs ten on one futex", BUDGET_NONE},
        {"4s-relay", "the same; vs ten on a futex that a sleeping process wakes", BUDGET_NONE},
    };
    static const side_fn baselines[] = {wake_at_once, wake_by_relay};
    struct sleepers s = {.npud_pid = bench_npud_pid()};

    s.acl = dormitory_new(s.acl_pid, sleep_on_events);
    s.raw = dormitory_new(s.raw_pid, sleep_raw);
    s.relay_pid = start_process(relay_bell, s.raw);
    side_create(&s.side, s.acl->handle);
    atomic_store_explicit(&s.acl->ready, 1, memory_order_release);
    futex_wake_all(&s.acl->ready);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct result result = contest_run(&rows[i], &(struct contest){.value = wake_by_event,
                                                                       .baseline = baselines[i],
                                                                       .arg = &s,
                                                                       .n_value = 10,
                                                                       .n_baseline = 10,
                                                                       .rounds = count_of(200, 3)});

        result_emit(&result);
    }
    atomic_store_explicit(&s.acl->over, true, memory_order_release);
    atomic_store_explicit(&s.raw->over, true, memory_order_release);
    fire_record(&s.side);
    ring_bell(s.raw);
    ring_relay(s.raw);
    end_sleepers(s.acl_pid);
    end_sleepers(s.raw_pid);
    expect_success("relay", process_end(s.relay_pid));
}
