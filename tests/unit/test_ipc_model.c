/*
 * The page of an IPC event, one interleaving after the other: processes that record, wait, open and
 * close, npud's engine and control thread (daemon/core/ipc_event.c as it is), deaths between any
 * two steps, and processes that live on and record after their session has ended. The page has four
 * slots, so that a handful of records goes round it three times.
 *
 *   - each wait comes back, whatever became of the recorder
 *   - a record that was executed never fails, and one that was not never succeeds
 *   - a failure names the process whose record it was
 *   - no record number is taken twice, and no opener number is given out while a process can write
 *     in the name of its last owner
 *
 * Skipped under TSan: one thread, on many stacks.
 */
#include <stdlib.h>

#include "tests/common/effort.h"
#include "interleave.h"

/* From here on each atomic operation is a step. */
#include "tests/unit/hooks/ipc_event.h"

#include "daemon/base/log.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/stream.h"

/* Static in daemon/core/ipc_event.c and ipc_record.c. */
enum cause open_new(struct session *session, struct ipc_event *ev, struct ipc_open *open);
void left_free(struct ipc_left *left);
void fail_if_opener_gone(struct ipc_event *ev, uint64_t number);

#define RECORDS  64u
#define FIRST_ID 1000 /* pid of actor 0 */
#define FAILED   ACL_ERROR_RT_SUSPECT_REMOTE_ERROR

struct scenario {
    const char *name;
    struct {
        void (*run)(void);
        unsigned count; /* records, or waits */
    } actor[ACTORS_MAX];
    bool kills;
    bool ends;       /* npud ends the session of actor 0, whose process goes on */
    bool fails;      /* each third record fails in its stream */
    uint64_t before; /* so many records were there before */
};

/* A process that has the event open, and its session. */
struct client {
    struct session session;
    struct survivor survivor;
    struct ipc_open *open;
    uint32_t opener;
    unsigned count;
    bool ended;              /* its session ends, or has ended: it is told so */
    bool outlives, exited;   /* npud keeps it as a survivor; it has exited */
    uint64_t queue[RECORDS]; /* its stream: numbers of records */
    unsigned head, tail;
    bool attached; /* the engine knows the stream */
};

struct record {
    bool taken, executed, excused;
    enum ipc_state at_call;
    unsigned by;
};

static struct client client[ACTORS_MAX], keeper;
static struct record record_of[RECORDS];
static struct ipc_event event;
static struct ipc_event_live live;
static struct ipc_events events;
static alignas(4096) struct ipc_page page;
static const struct scenario *scenario;
static bool control_busy, engine_busy;
static unsigned engine_next, failures;

static const char *interleave_describe(void)
{
    return scenario->name;
}

static struct client *get_client(void)
{
    return &client[cast.current];
}

static struct record *record_at(uint64_t number)
{
    SURE(number > scenario->before && number <= scenario->before + RECORDS);
    return &record_of[number - scenario->before - 1];
}

/* --- what is true, told by the words that change --- */

static void note_taken(uint64_t latest)
{
    struct record *r = record_at(ipc_latest_number(latest));

    SURE(!r->taken);
    *r = (struct record){.taken = true, .at_call = ipc_latest_state(latest), .by = cast.current};
    SURE(((latest >> 2) & 0xfff) == get_client()->opener);
}

static void note_slot(uint64_t slot)
{
    uint64_t number = scenario->before + (ipc_slot_tag(slot) - (uint32_t)scenario->before);
    struct record *r = record_at(number);

    SURE(r->taken);
    if (ipc_slot_state(slot) == IPC_DONE)
        SURE(r->executed || r->at_call == IPC_DONE);
    if (ipc_slot_state(slot) == IPC_FAILED)
        SURE(!r->executed && r->at_call == IPC_PENDING);
}

void interleave_swapped(const void *word, uint64_t value)
{
    if (word == (const void *)&page.latest)
        note_taken(value);
    else if (word >= (const void *)page.slot && word < (const void *)(page.slot + IPC_SLOTS))
        note_slot(value);
}

static void check_success(uint64_t number)
{
    const struct record *r;

    if (number <= scenario->before)
        return;
    r = record_at(number);
    SURE(r->executed || r->at_call == IPC_DONE);
}

static void check_failure(uint64_t number, int32_t pid)
{
    const struct record *r = record_at(number);

    SURE(r->taken && !r->executed && r->at_call == IPC_PENDING);
    SURE(r->excused || client[r->by].ended);
    SURE(pid == FIRST_ID + (int32_t)r->by);
}

/* --- npud --- */

static bool is_false(void *flag)
{
    return !*(bool *)flag;
}

/* A request, or what npud does by itself: the control thread does one thing at a time. */
static void control_enter(void)
{
    actor_await(is_false, &control_busy);
    control_busy = true;
    actor_self()->safe++;
}

static void control_leave(void)
{
    control_busy = false;
    actor_self()->safe--;
}

static void engine_enter(void)
{
    actor_await(is_false, &engine_busy);
    engine_busy = true;
}

void engine_lock_all(struct session *session)
{
    if (!session->halted)
        engine_enter();
}

void engine_unlock_all(struct session *session)
{
    if (!session->halted)
        engine_busy = false;
}

struct survivor *model_survivor_of(struct session *session)
{
    struct client *c = (struct client *)session;

    if (c->exited)
        return NULL;
    c->outlives = true;
    return &c->survivor;
}

static void open_event(struct client *c)
{
    struct ipc_open *open = slots_take(&c->session.ipc);

    ck_assert_ptr_nonnull(open);
    ck_assert_int_eq(open_new(&c->session, &event, open), 0);
    c->open = open;
    c->opener = open->opener->slot.number;
    for (unsigned i = 0; i < ACTORS_MAX; i++)
        SURE(&client[i] == c || !client[i].outlives || client[i].opener != c->opener);
}

/* As session_free(): the engines forget its streams, then its open events are freed. */
static void end_session(struct client *c)
{
    c->ended = true;
    engine_lock_all(&c->session);
    c->attached = false;
    engine_unlock_all(&c->session);
    c->session.halted = true;
    if (c->open)
        ipc_open_free(c->open);
    c->open = NULL;
}

static bool has_news(void *arg)
{
    for (unsigned i = 0; i < cast.n; i++)
        if (client[i].exited && (!client[i].ended || client[i].outlives))
            return true;
    (void)arg;
    return false;
}

static void hear_of_exits(void)
{
    for (unsigned i = 0; i < cast.n; i++) {
        if (!client[i].exited)
            continue;
        if (!client[i].ended)
            end_session(&client[i]);
        if (client[i].outlives)
            survivor_free_parts(&client[i].survivor);
        client[i].outlives = false;
    }
}

static void run_npud(void)
{
    if (scenario->ends) {
        control_enter();
        if (!client[0].ended)
            end_session(&client[0]);
        control_leave();
    }
    for (;;) {
        actor_await(has_news, NULL);
        control_enter();
        hear_of_exits();
        control_leave();
    }
}

static bool has_work(const struct client *c)
{
    return c->attached && c->head < c->tail;
}

static bool any_has_work(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < cast.n; i++)
        if (has_work(&client[i]))
            return true;
    return false;
}

static void execute_next(struct client *c)
{
    uint64_t number = c->queue[c->head];
    struct record *r = record_at(number);

    if (scenario->fails && ++failures % 3 == 0) {
        r->excused = true;
        ipc_record_fail(c->open, number);
    } else {
        r->executed = true;
        ipc_record_complete(c->open, number);
    }
    SURE(ipc_state_of(&page, number) != IPC_PENDING);
    c->head++;
}

static void run_engine(void)
{
    for (;;) {
        actor_await(any_has_work, NULL);
        engine_enter();
        for (unsigned i = 0; i < cast.n; i++) {
            struct client *c = &client[engine_next++ % cast.n];

            if (!has_work(c))
                continue;
            execute_next(c);
            break;
        }
        engine_busy = false;
    }
}

/* --- processes: as client/event/ipc_event.c and client/core/wait.c --- */

/* False: the session has ended. */
static bool ask_outcome(uint64_t number, bool *failed, int32_t *pid)
{
    struct client *c = get_client();
    bool known;
    int32_t error;

    control_enter();
    known = !c->ended && c->open;
    if (known)
        *failed = ipc_record_outcome(&event, number, &error, pid) && error != 0;
    control_leave();
    return known;
}

static bool record_settled(uint64_t number, bool known)
{
    return !ipc_arm(&page, number) || (!known && ipc_orphaned(&page, number));
}

/* False: the session has ended. */
static bool await_record(uint64_t number)
{
    bool failed, known = false;
    int32_t pid;

    for (;;) {
        uint32_t seen;

        if (ipc_state_of(&page, number) != IPC_PENDING)
            return true;
        for (;;) {
            seen = atomic_load_explicit(&page.wake_seq, memory_order_acquire);
            if (record_settled(number, known))
                break;
            if (get_client()->ended)
                return false;
            actor_sleep(&page.wake_seq, seen);
        }
        if (ipc_state_of(&page, number) != IPC_PENDING)
            return true;
        if (!known && !ask_outcome(number, &failed, &pid))
            return false;
        known = true;
    }
}

/* What a wait for the record tells its caller. */
static void check_outcome(uint64_t number)
{
    enum ipc_state state = ipc_state_of(&page, number);
    bool failed = false;
    int32_t pid = 0;

    if (state == IPC_NONE && number > atomic_load_explicit(&page.failed, memory_order_acquire))
        state = IPC_DONE;
    if (state == IPC_DONE || number == 0) {
        check_success(number);
        return;
    }
    if (!ask_outcome(number, &failed, &pid))
        return;
    if (failed || state == IPC_FAILED)
        check_failure(number, pid);
    else
        check_success(number);
}

static uint64_t get_newest(void)
{
    return ipc_latest_number(atomic_load_explicit(&page.latest, memory_order_acquire));
}

static bool is_recorder(unsigned i);

static bool has_newer(void *seen)
{
    for (unsigned i = 0; i < cast.n; i++)
        if (is_recorder(i) && !cast.actor[i].done && !cast.actor[i].dead)
            return ipc_latest_number(page.latest) > *(uint64_t *)seen;
    return true;
}

static void run_waiter(void)
{
    uint64_t seen = 0;

    for (unsigned i = 0; i < get_client()->count; i++) {
        actor_await(has_newer, &seen);
        seen = get_newest();
        if (!await_record(seen))
            return;
        check_outcome(seen);
    }
}

/* 0: the session has ended. */
static uint64_t take_record(enum ipc_state state)
{
    uint64_t number, blocker = 0;

    while ((number = ipc_take(&page, get_client()->opener, state, &blocker)) == 0)
        if (!await_record(blocker))
            return 0;
    return number;
}

/* False: the session has ended. One that does not wait for anything does not notice that. */
static bool record_once(bool at_call)
{
    struct client *c = get_client();
    bool idle = c->head == c->tail;
    uint64_t number = take_record(at_call && idle ? IPC_DONE : IPC_PENDING);

    if (number == 0)
        return false;
    if (at_call && idle)
        return true;
    interleave_step();
    c->queue[c->tail] = number;
    c->tail++;
    return true;
}

static void run_recorder(void)
{
    struct client *c = get_client();

    for (unsigned i = 0; i < c->count; i++)
        if (!record_once(i % 3 == 2))
            break;
    /* The engine may be on its way to the rest. */
    interleave_step();
}

/* Its process ends when it has recorded all, whatever became of its session. */
static void run_leaver(void)
{
    run_recorder();
    get_client()->exited = true;
}

/* StreamAbort after half of the records: what is queued is discarded. */
static void abort_stream(struct client *c)
{
    control_enter();
    if (!c->ended) {
        engine_lock_all(&c->session);
        for (; c->head < c->tail; c->head++) {
            record_at(c->queue[c->head])->excused = true;
            ipc_record_drop(c->open, c->queue[c->head]);
        }
        ipc_records_wake(&events);
        engine_unlock_all(&c->session);
    }
    control_leave();
}

static void run_aborter(void)
{
    struct client *c = get_client();

    for (unsigned i = 0; i < c->count; i++) {
        if (!record_once(false))
            return;
        if (i % 3 == 1)
            abort_stream(c);
    }
}

static bool is_idle(void *arg)
{
    const struct client *c = arg;

    return c->head == c->tail || c->ended;
}

/* Destroys the event and opens it again; npud closes it when the stream has passed. */
static void run_reopener(void)
{
    struct client *c = get_client();

    for (unsigned i = 0; i < c->count; i++) {
        if (!record_once(false))
            return;
        if (i % 3 != 2)
            continue;
        actor_await(is_idle, c);
        control_enter();
        if (c->ended) {
            control_leave();
            return;
        }
        ipc_open_release(c->open);
        open_event(c);
        control_leave();
    }
}

/* Opens the event late, may get the number of one that has left, records and waits. */
static void run_heir(void)
{
    struct client *c = get_client();

    control_enter();
    open_event(c);
    control_leave();
    for (unsigned i = 0; i < c->count; i++) {
        uint64_t seen;

        if (!record_once(false))
            return;
        seen = get_newest();
        if (!await_record(seen))
            return;
        check_outcome(seen);
    }
}

/* A stream that waits, in another engine than that which records: run_ipc_wait() of npud. */
struct parked {
    struct waiter waiter;
    bool fired;
};

static void fire_parked(struct waiter *waiter)
{
    ((struct parked *)waiter)->fired = true;
}

static bool was_fired(void *arg)
{
    return ((struct parked *)arg)->fired;
}

static void wait_in_stream(uint64_t number)
{
    struct parked p = {.waiter.fire = fire_parked};
    int32_t error, pid = 0;

    if (!ipc_record_outcome(&event, number, &error, &pid)) {
        interleave_step();
        waitlist_add(&event.completed, &p.waiter, number);
        interleave_step();
        if (!ipc_record_over(&event, number) || !waitlist_remove(&event.completed, &p.waiter)) {
            actor_await(was_fired, &p);
            error = p.waiter.result;
            pid = p.waiter.pid;
        } else {
            SURE(ipc_record_outcome(&event, number, &error, &pid));
        }
    }
    if (error == 0)
        check_success(number);
    else
        check_failure(number, pid);
}

static void run_stream(void)
{
    uint64_t seen = 0;

    for (unsigned i = 0; i < get_client()->count; i++) {
        actor_await(has_newer, &seen);
        seen = get_newest();
        wait_in_stream(seen);
    }
}

/* --- runs --- */

static bool is_recorder(unsigned i)
{
    void (*run)(void) = cast.actor[i].run;

    return run == run_recorder || run == run_leaver || run == run_aborter || run == run_reopener ||
           run == run_heir;
}

static bool is_npud(unsigned i)
{
    return cast.actor[i].run == run_npud || cast.actor[i].run == run_engine;
}

static void interleave_died(unsigned actor)
{
    client[actor].exited = true;
}

static void client_make(struct client *c, int32_t pid)
{
    c->open = NULL;
    c->ended = c->outlives = c->exited = false;
    c->head = c->tail = 0;
    c->attached = true;
    c->survivor.parts = NULL;
    c->session.pid = pid;
    c->session.halted = false;
    slots_init(&c->session.ipc, sizeof(struct ipc_open), 16, 3);
    slots_init(&c->session.streams, sizeof(struct stream), 16, 1);
}

static void prepare_page(void)
{
    memset(&page, 0, sizeof(page));
    if (scenario->before == 0)
        return;
    page.latest = ipc_latest_make(scenario->before, 0, IPC_DONE);
    for (uint64_t n = scenario->before - IPC_SLOTS + 1; n <= scenario->before; n++)
        page.slot[n % IPC_SLOTS] = ipc_slot_of_latest(ipc_latest_make(n, 0, IPC_DONE));
}

static void interleave_prepare(void)
{
    memset(record_of, 0, sizeof(record_of));
    memset(&event, 0, sizeof(event));
    live = (struct ipc_event_live){0};
    event.live = &live;
    events = (struct ipc_events){0};
    control_busy = engine_busy = false;
    engine_next = failures = 0;
    prepare_page();
    event.page = &page;
    event.all = &events;
    waitlist_init(&event.completed);
    slots_init(&event.openers, sizeof(struct ipc_opener), IPC_OPENERS_MAX, 0);
    client_make(&keeper, FIRST_ID - 1);
    open_event(&keeper);
    for (unsigned i = 0; i < ACTORS_MAX && scenario->actor[i].run; i++) {
        struct actor *a = actor_add(scenario->actor[i].run);

        client_make(&client[i], FIRST_ID + (int32_t)i);
        client[i].count = scenario->actor[i].count;
        a->mortal = scenario->kills && !is_npud(i) && a->run != run_stream;
        if (!is_npud(i) && a->run != run_heir)
            open_event(&client[i]);
    }
}

static void judge_records(void)
{
    uint64_t last = get_newest();

    for (uint64_t n = last > scenario->before + IPC_SLOTS ? last - IPC_SLOTS + 1
                                                          : scenario->before + 1;
         n <= last; n++) {
        const struct record *r = record_at(n);
        bool done = r->executed || r->at_call == IPC_DONE;

        /* Recorded after the sweep, by a process that has exited: it fails when it is asked for. */
        if (ipc_orphaned(&page, n))
            fail_if_opener_gone(&event, n);
        SURE(ipc_state_of(&page, n) == (done ? IPC_DONE : IPC_FAILED));
        SURE(ipc_record_failed(&event, n, &(int32_t){0}) == !done);
    }
}

/* Its handles that are open. */
static void forget_session(struct session *session)
{
    for (uint32_t i = 0; i < session->ipc.end; i++)
        kept_drop(&((struct ipc_open *)slots_at(&session->ipc, i))->kept);
    slots_deinit(&session->ipc);
}

static void interleave_judge(void)
{
    for (unsigned i = 0; i < cast.n; i++)
        SURE(cast.actor[i].done || cast.actor[i].dead || is_npud(i));
    SURE(!control_busy && !engine_busy && !has_news(NULL) && !any_has_work(NULL));
    judge_records();
    while (event.left)
        left_free(event.left);
    waitlist_deinit(&event.completed);
    for (uint32_t i = 0; i < event.openers.end; i++)
        kept_drop(&((struct ipc_opener *)slots_at(&event.openers, i))->kept);
    slots_deinit(&event.openers);
    kept_drop(&event.failures_kept);
    forget_session(&keeper.session);
    for (unsigned i = 0; i < cast.n; i++)
        forget_session(&client[i].session);
}

#define NPUD                                                                                       \
    {run_engine, 0},                                                                               \
    {                                                                                              \
        run_npud, 0                                                                                \
    }
#define NUMBERS_END (UINT32_MAX - 6)

static const struct scenario scenarios[] = {
    {"a recorder and a waiter", {{run_recorder, 14}, {run_waiter, 4}, NPUD}},
    {"two recorders, a waiter", {{run_recorder, 7}, {run_recorder, 7}, {run_waiter, 4}, NPUD}},
    {"a stream that waits", {{run_recorder, 7}, {run_recorder, 7}, {run_stream, 4}, NPUD}},
    {"numbers at their end",
     {{run_recorder, 7}, {run_recorder, 7}, {run_waiter, 4}, NPUD},
     .before = NUMBERS_END},
    {"records that fail",
     {{run_recorder, 7}, {run_recorder, 7}, {run_waiter, 4}, NPUD},
     .fails = true},
    {"aborts", {{run_aborter, 7}, {run_recorder, 6}, {run_waiter, 3}, {run_stream, 2}, NPUD}},
    {"closed and opened again",
     {{run_reopener, 7}, {run_recorder, 6}, {run_waiter, 3}, {run_stream, 2}, NPUD}},
    {"killed", {{run_recorder, 7}, {run_recorder, 7}, {run_waiter, 4}, NPUD}, .kills = true},
    {"killed, a stream waits",
     {{run_recorder, 6}, {run_recorder, 7}, {run_waiter, 2}, {run_stream, 3}, NPUD},
     .kills = true},
    {"killed, numbers at their end",
     {{run_recorder, 7}, {run_aborter, 7}, {run_waiter, 4}, NPUD},
     .kills = true,
     .before = NUMBERS_END},
    {"ended, and lives on",
     {{run_leaver, 7}, {run_recorder, 6}, {run_waiter, 3}, {run_stream, 2}, NPUD},
     .ends = true},
    {"ended, and another comes",
     {{run_leaver, 6}, {run_heir, 4}, {run_waiter, 3}, {run_stream, 2}, NPUD},
     .ends = true},
    {"ended, then killed",
     {{run_leaver, 7}, {run_heir, 5}, {run_waiter, 3}, NPUD},
     .kills = true,
     .ends = true,
     .before = NUMBERS_END},
    {"killed, and another comes",
     {{run_recorder, 6}, {run_heir, 6}, {run_waiter, 3}, NPUD},
     .kills = true},
};

/* IPC_MODEL_MS: for each scenario. */
static uint64_t budget_ns(void)
{
    const char *text = getenv("IPC_MODEL_MS");

    return (text ? strtoull(text, NULL, 10) : choose_effort(150, 20000)) * NSEC_PER_MSEC;
}

START_TEST(no_interleaving_breaks_a_record)
{
    uint64_t start = clock_ns(), third = budget_ns() / 3, runs;

    log_setup(LOG_CRIT);
    scenario = &scenarios[_i];
    runs = explore_switches(start + third);
    if (scenario->kills)
        runs += explore_kills(start + 2 * third);
    runs += explore_random(start + 3 * third);
    ck_assert_uint_ge(runs, 64); /* what is done however slow the machine is */
    if (getenv("IPC_MODEL_MS"))
        fprintf(stderr, "%s: %llu runs\n", scenario->name, (unsigned long long)runs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc_model");
    TCase *tc = suite_case(suite, "interleavings", 600, NULL, NULL);

    tcase_add_loop_test(tc, no_interleaving_breaks_a_record, 0,
                        sizeof(scenarios) / sizeof(scenarios[0]));
    return run_suite(suite);
}
