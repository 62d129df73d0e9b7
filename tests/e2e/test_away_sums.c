/*
 * What devices do is counted, and nothing of it may be done twice: each stream adds one to its sum,
 * by a reduction, a kernel or a graph, and copies the sum to the next place of its log, over and
 * over. Meanwhile streams are stopped, aborted and destroyed, and devices reset, by several
 * threads, at any moment; npud is killed and upgraded; what is behind devices that are away
 * (tests/common/nested.h) stalls and dies, and so does another process. Then sum and log tell what
 * was done: all, but for one task for each stop, or but for those that follow each other for an
 * abort; or the memory was lost, and that was said.
 *
 * Skipped under chaos: what dies here is the test's own choice.
 *
 * AWAY_SUMS_SEED, AWAY_SUMS_SECONDS: another run, whose seed each case prints.
 * Runs long: 15 s.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "device_kit.h"
#include "tests/common/chance.h"
#include "tests/common/chaos.h"
#include "tests/common/effort.h"
#include "tests/common/nested.h"

#define PROCESSES 2u
#define VICTIM    PROCESSES /* another one, which is killed */
#define STREAMS   3u
#define DROPPERS  3u
#define STEPS     40u /* of a stream: more tasks than are given to a device at once */
#define WORDS     4u  /* steps between two words that a stream writes */
#define ABORTED   ACL_ERROR_RT_STREAM_ABORT
#define GUARD_NS  (120 * NSEC_PER_SEC)

enum drop { NOTHING, STOPS, ABORTS, BOTH, DESTROY, DROPS };

/* Of a stream, in memory of the device: new in each round. */
struct lot {
    uint64_t log[STEPS], sum, word, words[STEPS / WORDS];
};

static struct team {
    _Atomic bool over;
    bool loses; /* memory, and is told */
    uint64_t seed;
    pthread_mutex_t lock; /* of the next ones */
    aclrtIpcEventHandle event[PROCESSES];
    uint64_t made[PROCESSES]; /* events so far */
    _Atomic uint64_t rounds, drops, dropped, losses;
} * team;

/* --- each process's own --- */

static unsigned me;
static uint64_t chance, opened;       /* which event of the other */
static _Atomic uint64_t round_number; /* late callbacks look at it */
static jmp_buf new_life;

static struct runner {
    aclrtStream stream;
    aclrtEvent event;
    struct lot *lot;
    aclmdlRI graph;
    enum drop drop;
    unsigned graph_at;
    _Atomic unsigned stops, aborts, destroyed; /* calls */
    _Atomic unsigned called;                   /* behind which step */
} runners[STREAMS];

static aclrtContext context;
static aclrtStream capturing;
static aclrtEvent mine, theirs;
static uint64_t *ones;
static aclrtFuncHandle add;
static struct dropper {
    pthread_t thread;
    uint64_t chance;
    bool runs, resets;
} droppers[DROPPERS];
static bool destroys; /* a stream may be gone at any moment */
static bool resets;   /* it ends with the device, which waits for all that is not dropped */

/* For the main thread: a loss that is named begins anew, all else is wrong. */
static void well(aclError code, const char *call)
{
    if (code == 0)
        return;
    if (team->loses &&
        (code == KIT_LOSS || code == KIT_NOT_BEGUN || code == ACL_ERROR_RT_SOCKET_CLOSE))
        longjmp(new_life, 1);
    ck_abort_msg("process %u, round %llu: %s: %d: %.500s", me, (unsigned long long)round_number,
                 call, code, aclGetRecentErrMsg());
}
#define WELL(call) well(call, #call)

/* Of a stream that may be aborted meanwhile, or wait for one that is. False: it was. */
static bool may_drop(aclError code, const char *call)
{
    if (code != ABORTED && code != ACL_ERROR_RT_SUSPECT_REMOTE_ERROR &&
        !(destroys && code == ACL_ERROR_RT_INVALID_HANDLE))
        well(code, call);
    return code == 0;
}
#define MAY_DROP(call) may_drop(call, #call)

/* --- tasks --- */

static void add_one(struct runner *r, unsigned step, aclrtStream stream)
{
    const uint64_t args[] = {(uint64_t)(uintptr_t)&r->lot->sum, 1};

    if (add && step % 5 == 2 && stream != capturing)
        MAY_DROP(aclrtLaunchKernelWithHostArgs(add, 1, stream, NULL, (void *)(uintptr_t)args,
                                               sizeof(args), NULL, 0));
    else
        MAY_DROP(aclrtReduceAsync(&r->lot->sum, ones, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                                  ACL_INT32, stream, NULL));
}

static void note_sum(struct runner *r, unsigned step, aclrtStream stream)
{
    MAY_DROP(aclrtMemcpyAsync(&r->lot->log[step], 8, &r->lot->sum, 8, ACL_MEMCPY_DEVICE_TO_DEVICE,
                              stream));
}

static void on_call(void *arg)
{
    unsigned runner = (uintptr_t)arg % STREAMS, behind = (uintptr_t)arg / STREAMS % (STEPS + 1);

    if ((uintptr_t)arg / STREAMS / (STEPS + 1) != round_number)
        return; /* of a stream that is gone */
    if (atomic_exchange(&runners[runner].called, behind) >= behind)
        ck_abort_msg("process %u: a function is called twice, or late", me);
}

/* What holds up a stream, or the work that is given to its device at once. */
static void join_others(struct runner *r, unsigned step)
{
    unsigned k = (unsigned)(r - runners);
    const struct runner *other = &runners[(k + 1) % STREAMS];

    switch (draw_below(&chance, 16)) {
    case 0:
        if (resets)
            break; /* its writer may be dropped */
        MAY_DROP(aclrtValueWait(&other->lot->word, step / WORDS * WORDS, ACL_STREAM_WAIT_VALUE_GEQ,
                                r->stream));
        break;
    case 1:
        if (MAY_DROP(aclrtRecordEvent(r->event, r->stream)))
            MAY_DROP(aclrtStreamWaitEvent(other->stream, r->event));
        break;
    case 2:
        MAY_DROP(aclrtRecordEvent(mine, r->stream));
        if (theirs)
            MAY_DROP(aclrtStreamWaitEvent(r->stream, theirs));
        break;
    case 3:
        MAY_DROP(aclrtLaunchHostFunc(
            r->stream, on_call, (void *)((round_number * (STEPS + 1) + step + 1) * STREAMS + k)));
        break;
    default:
        break;
    }
    if (step % WORDS == WORDS - 1) {
        MAY_DROP(aclrtValueWrite(&r->lot->words[step / WORDS], 1, 0, r->stream));
        MAY_DROP(aclrtValueWrite(&r->lot->word, step + 1, 0, r->stream));
    }
}

static void submit(struct runner *r, unsigned step)
{
    if (step == r->graph_at) {
        MAY_DROP(aclmdlRIExecuteAsync(r->graph, r->stream));
    } else {
        add_one(r, step, r->stream);
        note_sum(r, step, r->stream);
    }
    join_others(r, step);
}

static void make_graph(struct runner *r)
{
    WELL(aclmdlRICaptureBegin(capturing, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    add_one(r, r->graph_at, capturing);
    note_sum(r, r->graph_at, capturing);
    WELL(aclmdlRICaptureEnd(capturing, &r->graph));
}

/* --- a process's objects --- */

/*
 * None for the fake of CUDA's driver, which has others. None where addresses are not random, as
 * under TSan: what an executor's device has is often in use in the program then, and a kernel would
 * add to other memory (docs/hardware.md).
 */
static void load_kernels(void)
{
    const char *dir = getenv("NPUD_BINDIR"), *backend = getenv("NPUD_TEST_BACKEND");
    aclrtBinHandle binary;
    char path[512];

    if ((backend && strcmp(backend, "cuda") == 0) || personality(0xffffffff) & ADDR_NO_RANDOMIZE)
        return;
    snprintf(path, sizeof(path), "%s/tests/executor/kernels.so", dir ? dir : "build");
    WELL(aclrtBinaryLoadFromFile(path, NULL, &binary));
    WELL(aclrtBinaryGetFunction(binary, "add", &add));
}

static void open_all(void)
{
    const uint64_t one = 1;

    opened = 0;
    theirs = NULL;
    WELL(aclrtSetDevice(0));
    WELL(aclrtGetCurrentContext(&context));
    WELL(aclrtCreateStream(&capturing));
    load_kernels();
    WELL(aclrtMalloc((void **)&ones, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    WELL(aclrtMemcpy(ones, 8, &one, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    for (unsigned i = 0; i < STREAMS; i++) {
        runners[i].stream = NULL;
        WELL(aclrtCreateEvent(&runners[i].event));
    }
    WELL(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    if (me == VICTIM)
        return; /* it must not die with the lock */
    pthread_mutex_lock(&team->lock);
    team->made[me]++;
    aclError error = aclrtIpcGetEventHandle(mine, &team->event[me]);
    pthread_mutex_unlock(&team->lock);
    WELL(error);
}

/* The event of the other process, if it has another one. It may be gone already. */
static void open_theirs(void)
{
    unsigned other = 1 - me;
    aclrtIpcEventHandle handle;
    uint64_t made;

    if (me == VICTIM)
        return;
    pthread_mutex_lock(&team->lock);
    made = team->made[other];
    handle = team->event[other];
    pthread_mutex_unlock(&team->lock);
    if (made == opened)
        return;
    opened = made;
    if (theirs)
        WELL(aclrtDestroyEvent(theirs));
    if (aclrtIpcOpenEventHandle(handle, &theirs) != 0)
        theirs = NULL;
}

/* --- what was done --- */

/* What is missing between two numbers of the log: so many stops explain it. */
struct gap {
    unsigned adds, copies, stops;
};

static unsigned with_stops(const struct runner *r, unsigned step, unsigned adds, unsigned copies)
{
    /* The graph does both in one task. */
    return adds + copies - (adds > 0 && r->graph_at >= step && r->graph_at < step + copies);
}

/* What follows each other was dropped at once: of the two kinds, one may be one more. */
static unsigned behind_run(const struct gap *g, bool first)
{
    unsigned more = g->adds > g->copies ? g->adds - g->copies : g->copies - g->adds;

    if (!first)
        return g->stops > 0 ? g->stops - 1 : 0;
    return more > 1 ? more - 1 : 0;
}

/* How many stops it takes beside that many runs. */
static unsigned explain(struct gap *gaps, unsigned n, unsigned runs)
{
    bool has_run[STEPS + 1] = {false};
    unsigned stops = 0;

    for (; runs > 0; runs--) {
        unsigned best = 0, saved = 0;

        for (unsigned i = 0; i < n; i++)
            if (gaps[i].stops - behind_run(&gaps[i], !has_run[i]) > saved) {
                saved = gaps[i].stops - behind_run(&gaps[i], !has_run[i]);
                best = i;
            }
        gaps[best].stops -= saved;
        has_run[best] = true;
    }
    for (unsigned i = 0; i < n; i++)
        stops += gaps[i].stops;
    return stops;
}

/* How many stops it takes for that beside the other calls; UINT_MAX: nothing explains it. */
static unsigned judge(const struct runner *r, const struct lot *is)
{
    unsigned runs = r->aborts + (r->drop == DESTROY), drops = 0;
    struct gap gaps[STEPS + 1] = {{0}};
    uint64_t sum = 0;

    for (unsigned i = 0, next = 0; i <= STEPS; i++) {
        uint64_t value = i < STEPS ? is->log[i] : is->sum,
                 most = i < STEPS ? i - next + 1 : i - next;

        if (i < STEPS && value == UINT64_MAX)
            continue;
        if (value < sum || value - sum > most)
            return UINT32_MAX;
        gaps[i].adds = (unsigned)(most - (value - sum));
        gaps[i].copies = i - next;
        gaps[i].stops = with_stops(r, next, gaps[i].adds, gaps[i].copies);
        sum = value;
        next = i + 1;
    }
    for (unsigned i = 0; i < STEPS / WORDS; i++)
        drops += runs == 0 && is->words[i] != 1;
    return drops + explain(gaps, STEPS + 1, runs);
}

static void expect_judged(const struct runner *r)
{
    uint64_t since = clock_ns();
    struct lot is;
    unsigned drops;

    for (;; wait_a_while(since)) {
        WELL(aclrtMemcpy(&is, sizeof(is), r->lot, sizeof(is), ACL_MEMCPY_DEVICE_TO_HOST));
        drops = judge(r, &is);
        /* A device may still do what it has begun of a stream that is gone. */
        if (drops <= r->stops || r->drop != DESTROY || clock_ns() - since > NSEC_PER_SEC)
            break;
    }
    team->drops += is.sum < STEPS;
    if (drops <= r->stops && (r->drop != NOTHING || is.word == STEPS))
        return;
    for (unsigned i = 0; i < STEPS; i++)
        fprintf(stderr, " %lld", (long long)is.log[i]);
    ck_abort_msg(
        "process %u, round %llu, stream %u: drop %d (%u stops, %u aborts), graph at %u: sum %llu, "
        "word %llu: %u drops",
        me, (unsigned long long)round_number, (unsigned)(r - runners), (int)r->drop, r->stops,
        r->aborts, r->graph_at, (unsigned long long)is.sum, (unsigned long long)is.word, drops);
}

/* --- a round --- */

static void drop_once(struct runner *r, uint64_t *any)
{
    bool stops = r->drop == STOPS || (r->drop != ABORTS && draw_chance(any, 50));

    usleep(draw_below(any, 3000)); /* any time is as good */
    team->dropped++;
    if (stops) {
        r->stops++;
        aclrtStreamStop(r->stream);
    } else {
        r->aborts++;
        aclrtStreamAbort(r->stream);
    }
}

static void *drop_some(void *arg)
{
    struct dropper *d = arg;
    uint64_t any = d->chance;

    aclrtSetCurrentContext(context);
    for (unsigned i = 0; i < STREAMS; i++) {
        struct runner *r = &runners[i];

        if (r->drop == NOTHING)
            continue;
        for (unsigned n = draw_below(&any, 3); n > 0; n--)
            drop_once(r, &any);
        if (r->drop != DESTROY)
            continue;
        usleep(draw_below(&any, 3000)); /* likewise */
        r->destroyed += aclrtDestroyStreamForce(r->stream) == 0;
    }
    if (d->resets)
        aclrtResetDeviceForce(0);
    return NULL;
}

static void begin_droppers(void)
{
    for (unsigned i = 0; i < DROPPERS; i++) {
        struct dropper *d = &droppers[i];

        d->chance = draw_random(&chance);
        d->resets = resets && draw_chance(&chance, 50);
        d->runs = pthread_create(&d->thread, NULL, drop_some, d) == 0;
    }
}

static void end_droppers(void)
{
    for (unsigned i = 0; i < DROPPERS; i++) {
        if (droppers[i].runs)
            pthread_join(droppers[i].thread, NULL);
        droppers[i].runs = false;
    }
}

static void begin_runner(struct runner *r)
{
    const bool drops = draw_chance(&chance, 60);

    r->drop = drops ? draw_below(&chance, DROPS) : NOTHING;
    destroys |= r->drop == DESTROY;
    r->stops = r->aborts = r->destroyed = 0;
    r->graph_at = draw_below(&chance, STEPS);
    r->called = 0;
    if (!r->stream)
        WELL(aclrtCreateStream(&r->stream));
    WELL(aclrtMalloc((void **)&r->lot, sizeof(*r->lot), ACL_MEM_MALLOC_HUGE_FIRST));
    WELL(aclrtMemset(r->lot, sizeof(*r->lot), 0, sizeof(*r->lot)));
    WELL(aclrtMemset(r->lot->log, sizeof(r->lot->log), 0xff, sizeof(r->lot->log)));
    make_graph(r);
}

/* Who waits for a word whose writer was dropped is let go. */
static void let_all_go(void)
{
    const uint64_t all = UINT32_MAX;

    for (unsigned i = 0; i < STREAMS; i++)
        if (runners[i].drop != NOTHING)
            WELL(aclrtMemcpy(&runners[i].lot->word, 8, &all, 8, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void finish_runner(struct runner *r)
{
    uint64_t since = clock_ns();
    aclError error;

    while (r->stream && (error = aclrtSynchronizeStreamWithTimeout(r->stream, 200)) != 0) {
        if (clock_ns() - since > GUARD_NS)
            ck_abort_msg("process %u, round %llu: stream %u hangs", me,
                         (unsigned long long)round_number, (unsigned)(r - runners));
        let_all_go();
        if (error != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
            MAY_DROP(error);
    }
}

/* A device may still be at what was stopped, or was of a stream that is gone: its memory stays. */
static void end_runner(struct runner *r)
{
    expect_judged(r);
    WELL(aclmdlRIDestroy(r->graph));
    if (r->drop == NOTHING || r->drop == ABORTS)
        WELL(aclrtFree(r->lot));
}

static void end_destroyed(struct runner *r)
{
    if (r->drop != DESTROY)
        return;
    if (!team->loses && r->destroyed != 1)
        ck_abort_msg("process %u, round %llu: stream %u is destroyed %u times", me,
                     (unsigned long long)round_number, (unsigned)(r - runners), r->destroyed);
    r->stream = NULL;
}

static void run_round(void)
{
    open_theirs();
    resets = draw_chance(&chance, 3);
    destroys = false;
    for (unsigned i = 0; i < STREAMS; i++)
        begin_runner(&runners[i]);
    if (!resets)
        begin_droppers();
    for (unsigned step = 0; step < STEPS; step++)
        for (unsigned i = 0; i < STREAMS; i++)
            submit(&runners[i], step);
    if (resets) {
        begin_droppers();
        usleep(draw_below(&chance, 6000)); /* likewise */
        aclrtResetDeviceForce(0);          /* another thread may have done so */
        end_droppers();
        open_all();
        return;
    }
    end_droppers();
    for (unsigned i = 0; i < STREAMS; i++)
        end_destroyed(&runners[i]);
    for (unsigned i = 0; i < STREAMS; i++)
        finish_runner(&runners[i]);
    for (unsigned i = 0; i < STREAMS; i++)
        end_runner(&runners[i]);
}

static int play(void *arg)
{
    me = (unsigned)(uintptr_t)arg;
    chance = team->seed + me;
    OK(aclInit(NULL));
    if (setjmp(new_life) != 0) {
        end_droppers();
        team->losses++;
        aclrtResetDeviceForce(0); /* it may not even have been set */
    }
    open_all();
    for (; !team->over; round_number++) {
        run_round();
        team->rounds++;
    }
    OK(aclFinalize());
    return 0;
}

/* --- directing --- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void kill_an_executor(uint64_t *any)
{
    pid_t pids[PROCESSES];
    unsigned n = nested_executors(pids, PROCESSES);

    if (n > 0)
        kill(pids[draw_below(any, n)], SIGKILL);
}

/* A task of the device stands for a while. */
static void stall_inside(uint64_t *any)
{
    static const char *const kinds[] = {"copy", "reduce", "launch", "set"};
    char rule[64];

    snprintf(rule, sizeof(rule), "inject stall --kind=%s --count=1",
             kinds[draw_below(any, sizeof(kinds) / sizeof(kinds[0]))]);
    nested_says(rule);
    usleep(draw_below(any, 20000)); /* a stall of any length */
    nested_says("inject clear");
}

static void disturb(uint64_t *any, bool restarts, pid_t *victim)
{
    int status;

    switch (draw_below(any, 9)) {
    case 0:
    case 1:
        if (restarts)
            npud_kill_server();
        break;
    case 2:
        if (restarts)
            free(npuctl("upgrade", &status));
        break;
    case 3:
        if (team->loses)
            kill_an_executor(any);
        break;
    case 4:
        if (team->loses && draw_chance(any, 30)) {
            nested_kill();
            nested_restart();
        }
        break;
    case 5:
        child_kill(*victim);
        *victim = child_start(play, (void *)(uintptr_t)VICTIM);
        break;
    default:
        if (nested_pid() != 0)
            stall_inside(any);
        break;
    }
}

static void run_team(bool restarts, bool loses)
{
    const char *args[] = {"--devices=2", "--set=sim.latency_us=100", NULL};
    pthread_mutexattr_t shared;
    uint64_t any, until;
    pid_t pids[PROCESSES], victim;

    if (restarts)
        npud_start_restartable(args);
    else
        npud_start(args);
    team = child_share(sizeof(*team));
    team->loses = loses;
    any = team->seed = number_of("AWAY_SUMS_SEED", clock_ns() % 1000000);
    fprintf(stderr, "seed %llu\n", (unsigned long long)any);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&team->lock, &shared);
    for (uintptr_t i = 0; i < PROCESSES; i++)
        pids[i] = child_start(play, (void *)i);
    victim = child_start(play, (void *)(uintptr_t)VICTIM);
    until = clock_ns() + number_of("AWAY_SUMS_SECONDS", choose_effort(3, 60)) * NSEC_PER_SEC;
    while (clock_ns() < until) {
        usleep(draw_below(&any, 60000)); /* any time is as good */
        child_expect_none_failed();
        disturb(&any, restarts, &victim);
    }
    child_kill(victim);
    team->over = true;
    for (unsigned i = 0; i < PROCESSES; i++)
        child_expect_ok(pids[i]);
    fprintf(stderr, "%llu rounds, %llu calls that drop, %llu streams lack tasks, %llu losses\n",
            (unsigned long long)team->rounds, (unsigned long long)team->dropped,
            (unsigned long long)team->drops, (unsigned long long)team->losses);
    npud_expect_empty();
    npud_teardown();
}

static void devices_are_away(void)
{
    setenv("NPUD_TEST_BACKEND", "acl", 1);
}

START_TEST(each_task_is_done_once_or_not)
{
    run_team(_i == 1, _i == 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("away sums");
    TCase *t = suite_case(s, "here", 300, NULL, NULL);

    if (chaos_is_on())
        return 0;
    tcase_add_loop_test(t, each_task_is_done_once_or_not, 0, 2);
    t = suite_case(s, "away", 300, devices_are_away, NULL);
    tcase_add_loop_test(t, each_task_is_done_once_or_not, 0, 2);
    t = suite_case(s, "losses", 300, devices_are_away, NULL);
    tcase_add_loop_test(t, each_task_is_done_once_or_not, 2, 3);
    return run_suite(s);
}
