/*
 * An oracle for callbacks and exceptions of processes that are stopped, killed, abort their streams
 * and lose their sessions at random. In each process one thread launches and another runs.
 *
 *   - a callback that was launched runs once or is dropped once, in the order of launches
 *   - its stream is not idle while a blocking callback runs, and a synchronise waits for it
 *   - a task that fails is told once, before a synchronise returns its failure
 *   - in the end npud holds nothing
 *
 * HANDOVER_SEED, HANDOVER_SECONDS: another run, or the same one as far as the scheduler lets it.
 *
 * Skipped under TSan: it kills processes for minutes; the same threads meet in the soak.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "stage.h"
#include "tests/common/moment.h"

#define PLAYERS  5u
#define LAUNCHES 100000u
#define GHOSTLY  20u
#define MS       UINT64_C(1000000)
#define FAILURE  ACL_ERROR_RT_AICORE_EXCEPTION

static struct totals {
    _Atomic uint64_t launched, dropped, failures;
} * totals;

struct launch {
    _Atomic uint32_t ran, dropped;
    bool blocks;
    uint32_t aborts; /* of the stream before it was launched */
};

static struct {
    uint64_t rng;
    aclrtStream stream;
    struct launch *launch;
    uint32_t n, synchronized; /* launches, and how many of them were looked at */
    _Atomic uint32_t last;    /* 1 + number of the one that ran last */
    _Atomic uint64_t told;
    uint64_t failed;
    _Atomic uint32_t aborts;
    bool aborted; /* since the last look: failures may have been discarded */
    _Atomic bool leave;
    _Atomic uint32_t ghostly;
    pthread_t reporter;
    pthread_barrier_t begun; /* both threads have the device, before the session may be left */
    struct player *player;
} me;

static bool check_result(aclError r, const char *what)
{
    if (life_judges(r, what))
        return true;
    me.ghostly++;
    return false;
}
#define DO(call) check_result(CALL(-1, WITHOUT_END, call), #call)

/*
 * Its stream was aborted meanwhile: it runs on if it had begun, and its stream does not wait for
 * it.
 */
static bool is_aborted(const struct launch *l)
{
    return l->aborts != atomic_load(&me.aborts);
}

/* --- in the thread that runs --- */

static void run_callback(void *data)
{
    struct launch *l = data;
    uint32_t number = (uint32_t)(l - me.launch) + 1, last = atomic_exchange(&me.last, number);
    aclrtStreamStatus status;

    HOLDS(last < number, "callback %u runs after %u", number, last);
    if (l->blocks && aclrtStreamQuery(me.stream, &status) == 0)
        HOLDS(status != ACL_STREAM_STATUS_COMPLETE || is_aborted(l) || life_ends(),
              "the stream is complete inside its blocking callback %u", number);
    HOLDS(atomic_fetch_add(&l->ran, 1) == 0 && !atomic_load(&l->dropped),
          "callback %u runs once more, or after it was dropped", number);
    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

/* In any thread. */
static void drop_callback(void *data)
{
    struct launch *l = data;

    HOLDS(atomic_fetch_add(&l->dropped, 1) == 0 && !atomic_load(&l->ran),
          "callback %u is dropped once more, or after it has run", (uint32_t)(l - me.launch) + 1);
    atomic_fetch_add(&totals->dropped, 1);
}

static void on_exception(aclrtExceptionInfo *info)
{
    if (aclrtGetErrorCodeFromExceptionInfo(info) == (uint32_t)FAILURE)
        atomic_fetch_add(&me.told, 1);
}

static void *process_reports(void *arg)
{
    (void)arg;
    life_begin(me.player->first + 1);
    DO(aclrtSetDevice(0)); /* to query the stream */
    pthread_barrier_wait(&me.begun);
    while (!atomic_load(&me.leave)) {
        aclError r = CALL(-1, 20, aclrtProcessReport(20));

        HOLDS(r == 0 || r == ACL_ERROR_RT_REPORT_TIMEOUT || r == ACL_ERROR_RT_THREAD_SUBSCRIBE ||
                  life_ends(),
              "aclrtProcessReport: %d: %s", r, aclGetRecentErrMsg());
        if (r == ACL_ERROR_RT_THREAD_SUBSCRIBE || life_ends())
            wait_a_moment();
    }
    life_over();
    return NULL;
}

/* --- in the thread that launches --- */

static void launch_callback(void)
{
    struct launch *l = &me.launch[me.n];

    if (me.n == LAUNCHES)
        return;
    l->blocks = draw_chance(&me.rng, 50);
    l->aborts = atomic_load(&me.aborts);
    if (!DO(aclnpudLaunchCallbackWithDrop(run_callback, drop_callback, l,
                                          l->blocks ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                                          me.stream)))
        return;
    me.n++;
    atomic_fetch_add_explicit(&totals->launched, 1, memory_order_relaxed);
}

/* All that was launched before and blocks has run, or was dropped. */
static void check_callbacks(bool all)
{
    for (uint32_t i = all ? 0 : me.synchronized; i < me.n; i++) {
        struct launch *l = &me.launch[i];

        HOLDS(!(all || (l->blocks && !is_aborted(l))) ||
                  atomic_load(&l->ran) + atomic_load(&l->dropped) == 1 || (life_ends() && !all),
              "callback %u of %u ran %u times, and was dropped %u times, after its stream has %s",
              i + 1, me.n, l->ran, l->dropped, all ? "ended" : "come to its end");
    }
    me.synchronized = me.n;
}

static void synchronize_stream(void)
{
    aclError r = CALL(-1, WITHOUT_END, aclrtSynchronizeStream(me.stream));

    HOLDS(r == 0 || r == FAILURE || (life_ends() && r == ACL_ERROR_RT_SOCKET_CLOSE),
          "aclrtSynchronizeStream: %d: %s", r, aclGetRecentErrMsg());
    me.ghostly += r == ACL_ERROR_RT_SOCKET_CLOSE;
    if (life_ends())
        return;
    check_callbacks(false);
    HOLDS(me.aborted ? atomic_load(&me.told) <= me.failed
                     : atomic_load(&me.told) == me.failed || life_ends(),
          "%llu tasks have failed, %llu were told", (unsigned long long)me.failed,
          (unsigned long long)atomic_load(&me.told));
    atomic_fetch_add(&totals->failures, me.failed);
    me.failed = 0;
    atomic_store(&me.told, 0);
    me.aborted = false;
}

/* On a stream that is at its end, and with nothing behind it. */
static void launch_alone(void)
{
    synchronize_stream();
    launch_callback();
    if (draw_chance(&me.rng, 50))
        synchronize_stream();
    else
        stage_rest(0);
}

static void launch_failure(void)
{
    if (DO(aclnpudLaunchDelay(draw_below(&me.rng, 50), FAILURE, me.stream)))
        me.failed++;
}

/* Discards what is queued; what it may have to tell is told when the stream has come to rest. */
static void abort_stream(void)
{
    me.aborted = true;
    atomic_fetch_add(&me.aborts, 1);
    DO(aclrtStreamAbort(me.stream));
    synchronize_stream();
}

/* The thread goes on with another subscription of the same stream. */
static void subscribe_anew(void)
{
    if (DO(aclrtUnSubscribeReport((uint64_t)me.reporter, me.stream)))
        DO(aclrtSubscribeReport((uint64_t)me.reporter, me.stream));
    else
        me.ghostly = GHOSTLY + 1;
}

static void do_one_thing(void)
{
    unsigned what = draw_below(&me.rng, 1000);

    if (what < 400)
        launch_callback();
    else if (what < 700)
        launch_alone();
    else if (what < 800)
        DO(aclnpudLaunchDelay(draw_below(&me.rng, 200), 0, me.stream));
    else if (what < 860)
        launch_failure();
    else if (what < 990)
        synchronize_stream();
    else if (what < 995)
        subscribe_anew();
    else
        abort_stream();
}

static int callbacks_main(struct player *p)
{
    me.player = p;
    me.rng = p->seed;
    me.launch = calloc(LAUNCHES, sizeof(*me.launch));
    life_begin(p->first);
    if (!DO(aclInit(NULL)) || !DO(aclrtSetDevice(0)) || !DO(aclrtCreateStream(&me.stream)))
        return 0;
    DO(aclrtSetExceptionInfoCallback(on_exception));
    pthread_barrier_init(&me.begun, NULL, 2);
    HOLDS(pthread_create(&me.reporter, NULL, process_reports, NULL) == 0, "no thread");
    pthread_barrier_wait(&me.begun);
    DO(aclrtSubscribeReport((uint64_t)me.reporter, me.stream));
    while (!atomic_load(&stage->stop) && me.ghostly < GHOSTLY && me.n < LAUNCHES)
        if (atomic_load(&stage->hold))
            stage_rest(1);
        else
            do_one_thing();
    if (!life_ends())
        synchronize_stream();
    if (draw_chance(&me.rng, 50))
        CALL(-1, WITHOUT_END, aclrtDestroyStreamForce(me.stream));
    CALL(-1, WITHOUT_END, aclrtResetDeviceForce(0));
    CALL(-1, WITHOUT_END, aclFinalize());
    atomic_store(&me.leave, true);
    pthread_join(me.reporter, NULL);
    if (life_ends()) /* what is left of a session that has ended goes with the next one */
        CALL(-1, WITHOUT_END, aclInit(NULL));
    check_callbacks(true);
    life_over();
    return 0;
}

/* --- the director --- */

static struct {
    uint64_t rng, killed, stopped, ended;
    struct player player[PLAYERS];
} round_of;

static void start_player(unsigned i)
{
    player_start(&round_of.player[i], "callbacks", 2, draw_random(&round_of.rng), callbacks_main);
}

static void look_after_players(bool replace)
{
    players_look_after(round_of.player, PLAYERS, NULL, replace ? start_player : NULL);
}

static void disturb_player(void)
{
    struct player *p = &round_of.player[draw_below(&round_of.rng, PLAYERS)];
    unsigned what = draw_below(&round_of.rng, 100);

    if (what < 5) {
        player_kill(p);
        round_of.killed++;
    } else if (what < 30 && !p->stopped) {
        player_stop(p, now_ns() + draw_below(&round_of.rng, 50) * MS);
        round_of.stopped++;
    } else if (what < 50 && !p->stopped && !p->ended) {
        round_of.ended += player_end_session(p);
    }
}

static bool are_all_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    return players_are_over(round_of.player, PLAYERS);
}

static void run_round(void)
{
    uint64_t end = now_ns() + (200 + draw_below(&round_of.rng, 400)) * MS;

    stage_clear();
    while (now_ns() < end && atomic_load(&stage->lives) < LIVES - 100) {
        look_after_players(true);
        disturb_player();
        stage_rest(draw_below(&round_of.rng, 40));
    }
    players_continue(round_of.player, PLAYERS);
    atomic_store(&stage->stop, 1);
    stage_await(are_all_over, NULL, "all have left");
    npud_expect_empty();
}

START_TEST(callbacks_run_or_are_dropped_once)
{
    round_of.rng = stage_seed();
    stage_open();
    totals = stage_share(sizeof(*totals));
    stage_run(1, run_round);
    fprintf(stderr,
            "%llu callbacks, %llu of them dropped, %llu failures, %llu kills, %llu "
            "stops, %llu sessions ended\n",
            (unsigned long long)totals->launched, (unsigned long long)totals->dropped,
            (unsigned long long)totals->failures, (unsigned long long)round_of.killed,
            (unsigned long long)round_of.stopped, (unsigned long long)round_of.ended);
    ck_assert_uint_gt(totals->launched, 0);
}
END_TEST

int main(void)
{
    return stage_main("hand-over of callbacks", callbacks_run_or_are_dropped_once, 1, 60);
}
