/*
 * An oracle for asynchronous copies: each process has a pipeline of streams that hand data on,
 * host to device, device to device and device to host, ordered by events alone. A second thread
 * waits for the last event of each lap and looks at the data. Some laps go on to another process,
 * through a queue, and once more through its device. Processes are killed, stopped, abort their
 * streams and lose their sessions at random.
 *
 *   - what comes out of a lap is what went in, unless the lap was aborted
 *   - an abort forgets no record that was executed, and makes none of those complete that it
 *     discards (aclrtDeviceTaskAbort); a later caller is not told of it again
 *   - no wait hangs
 *   - in the end npud holds nothing
 *
 * HANDOVER_SEED, HANDOVER_SECONDS: another run, or the same one as far as the scheduler lets it.
 *
 * Skipped under TSan: it kills processes for minutes; the same threads meet in the soak.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"
#include "content.h"
#include "stage.h"
#include "tests/common/moment.h"
#include "tests/common/share_cast.h"

#define PLAYERS 4u
#define STAGES  4u /* copies of a lap, at most */
#define SLOTS   4u /* laps under way */
#define LARGEST (600u << 10)
#define GHOSTLY 20u
#define MS      UINT64_C(1000000)

/* One lap: what is copied, and where it arrives. */
struct lap {
    uint64_t seed;
    size_t size, at; /* at: offset in each of the buffers */
    uint8_t *from, *to;
    _Atomic bool aborted;
};

/* One process. Data of slot j are at stage k in device[j][k]. */
static struct {
    uint64_t rng;
    unsigned stages;
    aclrtStream stream[STAGES];
    aclrtEvent event[SLOTS][STAGES];
    uint8_t *device[SLOTS][STAGES];
    uint8_t *pinned[SLOTS][2], *pageable[SLOTS][2];
    struct lap lap[SLOTS];
    _Atomic uint64_t submitted, looked_at;
    uint64_t idle_at; /* laps when all streams were idle: nothing of those is to be waited for */
    _Atomic uint32_t ghostly;
    struct player *player;
} pipe_of;

/* Odd while the process aborts its device. */
static _Atomic uint32_t device_aborts;
static _Thread_local uint32_t aborts_seen;

/* What the second thread has of its own. */
static struct {
    uint64_t rng;
    aclrtStream stream;
    uint8_t *device, *pinned;
} second;

struct note {
    uint64_t seed, size;
};

static struct totals {
    _Atomic uint64_t laps, aborted, passed_on;
} * totals;

static bool is_over(void)
{
    return atomic_load(&stage->stop) || atomic_load(&pipe_of.ghostly) > GHOSTLY;
}

/* May what the thread has begun since it last looked have been discarded with the device's work? */
static bool is_device_aborted(void)
{
    return atomic_load(&device_aborts) != aborts_seen || aborts_seen % 2 != 0;
}

/* True: go on. */
static bool check_result(aclError r, bool aborted, const char *what)
{
    if (r == 0)
        return true;
    if (r == ACL_ERROR_RT_DEVICE_TASK_ABORT && is_device_aborted())
        return false;
    if (aborted && (r == ACL_ERROR_RT_STREAM_ABORT || r == ACL_ERROR_RT_DEVICE_TASK_ABORT))
        return false;
    HOLDS(life_ends() && r == ACL_ERROR_RT_SOCKET_CLOSE, "%s: %d: %s", what, r,
          aclGetRecentErrMsg());
    atomic_fetch_add(&pipe_of.ghostly, 1);
    return false;
}
#define DO(call) check_result(CALL(-1, WITHOUT_END, call), false, #call)

/* Around what copies are cut into, too. */
static size_t draw_size(uint64_t *rng)
{
    unsigned k = draw_below(rng, 10);

    if (k < 3)
        return 1 + draw_below(rng, 300);
    if (k < 8)
        return (1u << (9 + draw_below(rng, 11))) - 2 + draw_below(rng, 5);
    return 1 + draw_below(rng, LARGEST);
}

/* --- the pipeline --- */

static bool copy_stage(struct lap *lap, unsigned slot, unsigned k)
{
    aclrtStream stream = pipe_of.stream[k];
    uint8_t *from = k == 0 ? lap->from : pipe_of.device[slot][k - 1];
    uint8_t *to = k == pipe_of.stages - 1 ? lap->to : pipe_of.device[slot][k];

    if (k > 0 && !DO(aclrtStreamWaitEvent(stream, pipe_of.event[slot][k - 1])))
        return false;
    if (draw_chance(&pipe_of.rng, 10) &&
        !DO(aclnpudLaunchDelay(draw_below(&pipe_of.rng, 500), 0, stream)))
        return false;
    return DO(aclrtMemcpyAsync(to + lap->at, lap->size, from + lap->at, lap->size,
                               ACL_MEMCPY_DEFAULT, stream)) &&
           DO(aclrtRecordEvent(pipe_of.event[slot][k], stream));
}

static bool submit_lap(uint64_t number)
{
    unsigned slot = number % SLOTS;
    struct lap *lap = &pipe_of.lap[slot];

    lap->size = draw_size(&pipe_of.rng);
    if (lap->size > LARGEST)
        lap->size = LARGEST;
    lap->at = draw_below(&pipe_of.rng, 64);
    lap->seed = draw_random(&pipe_of.rng);
    lap->from = (draw_chance(&pipe_of.rng, 70) ? pipe_of.pinned : pipe_of.pageable)[slot][0];
    lap->to = (draw_chance(&pipe_of.rng, 70) ? pipe_of.pinned : pipe_of.pageable)[slot][1];
    atomic_store(&lap->aborted, false);
    content_fill(lap->from + lap->at, lap->size, lap->seed);
    memset(lap->to + lap->at, 0x55, lap->size);
    /* The data of the lap before in this slot were copied by the last stream. */
    if (number >= SLOTS + pipe_of.idle_at &&
        !DO(aclrtStreamWaitEvent(pipe_of.stream[0], pipe_of.event[slot][pipe_of.stages - 1])))
        return false;
    for (unsigned k = 0; k < pipe_of.stages; k++)
        if (!copy_stage(lap, slot, k))
            return false;
    atomic_store(&pipe_of.submitted, number + 1);
    return true;
}

/* --- aborts --- */

/* What is seen of the laps around an abort. */
struct view {
    bool complete[SLOTS][STAGES];
};

static void look_at_events(struct view *v)
{
    for (unsigned j = 0; j < SLOTS; j++)
        for (unsigned k = 0; k < pipe_of.stages; k++) {
            aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

            DO(aclrtQueryEventStatus(pipe_of.event[j][k], &status));
            v->complete[j][k] = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
        }
}

/* Was the copy of this stage executed? What came there before had another content. */
static bool is_copied(const struct lap *lap, unsigned slot, unsigned k)
{
    static uint8_t copy[LARGEST];

    if (k == pipe_of.stages - 1)
        return content_wrong(lap->to + lap->at, lap->size, lap->size, lap->seed) < 0;
    return DO(aclrtMemcpy(copy, lap->size, pipe_of.device[slot][k] + lap->at, lap->size,
                          ACL_MEMCPY_DEVICE_TO_HOST)) &&
           content_wrong(copy, lap->size, lap->size, lap->seed) < 0;
}

/*
 * A record is behind the copy of its stage, and before that of the next lap. Short contents can be
 * equal by chance.
 */
static void check_stage(uint64_t n, unsigned k, const struct view *before, const struct view *after,
                        bool whole_device)
{
    unsigned slot = n % SLOTS, next = (n + 1) % SLOTS;
    const struct lap *lap = &pipe_of.lap[slot];
    bool complete = after->complete[slot][k];
    bool last = n + 1 == atomic_load(&pipe_of.submitted);

    HOLDS(complete || !before->complete[slot][k] || life_ends(),
          "lap %llu, stage %u: complete before the abort, but not after it", (unsigned long long)n,
          k);
    if (!complete && !last && pipe_of.lap[next].size >= 16)
        HOLDS(!is_copied(&pipe_of.lap[next], next, k) || life_ends(),
              "lap %llu, stage %u: executed, and forgotten", (unsigned long long)n, k);
    if (complete && whole_device)
        HOLDS(is_copied(lap, slot, k) || life_ends(), "lap %llu, stage %u: discarded, but complete",
              (unsigned long long)n, k);
}

static void abort_tasks(bool whole_device)
{
    if (whole_device) {
        atomic_fetch_add(&device_aborts, 1);
        DO(aclrtDeviceTaskAbort((int32_t)(pipe_of.player->first / 2 % 2), 0));
        aborts_seen = atomic_fetch_add(&device_aborts, 1) + 1;
        return;
    }
    for (unsigned k = 0; k < pipe_of.stages; k++)
        DO(aclrtStreamAbort(pipe_of.stream[k]));
}

static void abort_laps(void)
{
    uint64_t to = atomic_load(&pipe_of.submitted);
    uint64_t from = to > SLOTS + pipe_of.idle_at ? to - SLOTS : pipe_of.idle_at;
    bool whole_device = draw_chance(&pipe_of.rng, 50);
    struct view before, after;

    for (uint64_t n = atomic_load(&pipe_of.looked_at); n < to; n++)
        atomic_store(&pipe_of.lap[n % SLOTS].aborted, true);
    atomic_fetch_add(&totals->aborted, 1);
    look_at_events(&before);
    abort_tasks(whole_device);
    look_at_events(&after);
    for (unsigned k = 0; k < pipe_of.stages; k++)
        check_result(CALL(k, WITHOUT_END, aclrtSynchronizeStream(pipe_of.stream[k])), true,
                     "synchronize");
    for (unsigned k = 0; k < pipe_of.stages; k++)
        DO(aclrtSynchronizeStream(pipe_of.stream[k]));
    while (atomic_load(&pipe_of.looked_at) < to && !is_over())
        wait_a_moment();
    for (uint64_t n = from; n < to; n++)
        for (unsigned k = 0; k < pipe_of.stages && !life_ends(); k++)
            check_stage(n, k, &before, &after, whole_device);
    for (uint64_t n = from; n < to; n++)
        DO(aclrtSynchronizeEvent(pipe_of.event[n % SLOTS][pipe_of.stages - 1]));
    pipe_of.idle_at = to;
}

static void submit_laps(void)
{
    while (!is_over()) {
        uint64_t n = atomic_load(&pipe_of.submitted);

        if (atomic_load(&stage->hold) || n - atomic_load(&pipe_of.looked_at) >= SLOTS) {
            stage_rest(draw_chance(&pipe_of.rng, 50) ? 0 : 1);
            continue;
        }
        if (!submit_lap(n))
            continue; /* the session has ended */
        if (draw_chance(&pipe_of.rng, 2))
            abort_laps();
    }
}

/* --- the second thread --- */

/* The data once more, through a buffer, a queue, and another process. */
static void pass_on(const struct lap *lap)
{
    struct note note = {lap->seed, lap->size};
    acltdtBuf buf;
    size_t room;
    void *data;

    if (!DO(acltdtAllocBuf(lap->size, ACL_TDT_NORMAL_MEM, &buf)) ||
        !DO(acltdtGetBufData(buf, &data, &room)))
        return;
    if (!DO(aclrtMemcpyAsync(second.device, lap->size, lap->to + lap->at, lap->size,
                             ACL_MEMCPY_DEFAULT, second.stream)) ||
        !DO(aclrtMemcpyAsync(data, room, second.device, lap->size, ACL_MEMCPY_DEFAULT,
                             second.stream)) ||
        !DO(aclrtSynchronizeStream(second.stream)) || !DO(acltdtSetBufDataLen(buf, lap->size)) ||
        !DO(acltdtSetBufUserData(buf, &note, sizeof(note), 0)) || is_device_aborted()) {
        DO(acltdtFreeBuf(buf));
        return;
    }
    if (CALL(-1, 0, acltdtEnqueue(queue_id(0), buf, 0)) != 0)
        DO(acltdtFreeBuf(buf));
}

static void take_over(void)
{
    struct note note;
    acltdtBuf buf;
    size_t room;
    void *data;

    if (CALL(-1, 0, acltdtDequeue(queue_id(0), &buf, 0)) != 0)
        return;
    if (DO(acltdtGetBufData(buf, &data, &room)) &&
        DO(acltdtGetBufUserData(buf, &note, sizeof(note), 0)) &&
        DO(aclrtMemcpyAsync(second.device, room, data, room, ACL_MEMCPY_DEFAULT, second.stream)) &&
        DO(aclrtMemcpyAsync(second.pinned, room, second.device, room, ACL_MEMCPY_DEFAULT,
                            second.stream)) &&
        DO(aclrtSynchronizeStream(second.stream)) && !is_device_aborted()) {
        HOLDS(life_ends() || content_wrong(second.pinned, note.size, note.size, note.seed) < 0,
              "%zu bytes from another process have changed", (size_t)note.size);
        atomic_fetch_add(&totals->passed_on, 1);
    }
    DO(acltdtFreeBuf(buf));
}

static void look_at_lap(uint64_t number)
{
    unsigned slot = number % SLOTS;
    struct lap *lap = &pipe_of.lap[slot];
    aclError r =
        CALL(number, WITHOUT_END, aclrtSynchronizeEvent(pipe_of.event[slot][pipe_of.stages - 1]));
    int64_t at = content_wrong(lap->to + lap->at, lap->size, lap->size, lap->seed);

    if (check_result(r, atomic_load(&lap->aborted), "aclrtSynchronizeEvent") &&
        !atomic_load(&lap->aborted)) {
        HOLDS(at < 0 || life_ends() || atomic_load(&lap->aborted),
              "lap %llu: byte %lld of %zu is not what was copied (%s to %s, %u stages)",
              (unsigned long long)number, (long long)at, lap->size,
              lap->from == pipe_of.pinned[slot][0] ? "pinned" : "pageable",
              lap->to == pipe_of.pinned[slot][1] ? "pinned" : "pageable", pipe_of.stages);
        if (draw_chance(&second.rng, 30) && !life_ends())
            pass_on(lap);
    }
    atomic_fetch_add(&totals->laps, 1);
    atomic_fetch_add(&self->moves, 1);
    atomic_store(&pipe_of.looked_at, number + 1);
}

static void *look_at_laps(void *arg)
{
    (void)arg;
    life_begin(pipe_of.player->first + 1);
    DO(aclrtSetDevice((int32_t)(pipe_of.player->first / 2 % 2)));
    while (!is_over()) {
        uint64_t n = atomic_load(&pipe_of.looked_at);

        aborts_seen = atomic_load(&device_aborts);
        if (draw_chance(&second.rng, 20))
            take_over();
        if (n < atomic_load(&pipe_of.submitted))
            look_at_lap(n);
        else
            stage_rest(draw_chance(&second.rng, 90) ? 0 : 1);
    }
    life_over();
    return NULL;
}

/* --- a process --- */

static bool open_slot(unsigned j)
{
    size_t room = LARGEST + 64;
    bool ok = true;

    for (unsigned k = 0; k < pipe_of.stages && ok; k++)
        ok = DO(aclrtCreateEvent(&pipe_of.event[j][k])) &&
             DO(aclrtMalloc((void **)&pipe_of.device[j][k], room, ACL_MEM_MALLOC_NORMAL_ONLY));
    for (unsigned i = 0; i < 2 && ok; i++) {
        ok = DO(aclrtMallocHost((void **)&pipe_of.pinned[j][i], room));
        pipe_of.pageable[j][i] = malloc(room);
    }
    return ok;
}

static bool open_all(struct player *p)
{
    uint32_t rights;
    aclError r;
    bool ok = DO(aclInit(NULL)) && DO(aclrtSetDevice((int32_t)(p->first / 2 % 2)));

    for (unsigned k = 0; k < pipe_of.stages && ok; k++)
        ok = DO(aclrtCreateStream(&pipe_of.stream[k]));
    for (unsigned j = 0; j < SLOTS && ok; j++)
        ok = open_slot(j);
    ok = ok && DO(aclrtCreateStream(&second.stream)) &&
         DO(aclrtMalloc((void **)&second.device, LARGEST + 64, ACL_MEM_MALLOC_NORMAL_ONLY)) &&
         DO(aclrtMallocHost((void **)&second.pinned, LARGEST + 64));
    while (ok && !is_over()) {
        r = CALL(-1, 1000, acltdtAttachQueue(queue_id(0), 1000, &rights));
        if (r != ACL_ERROR_RT_NO_PERMISSION)
            return check_result(r, false, "acltdtAttachQueue");
    }
    return false;
}

static int copies_main(struct player *p)
{
    pthread_t thread;

    pipe_of.player = p;
    pipe_of.rng = p->seed;
    second.rng = p->seed + 1;
    pipe_of.stages = 2 + draw_below(&pipe_of.rng, STAGES - 1);
    life_begin(p->first);
    if (!open_all(p))
        return 0;
    HOLDS(pthread_create(&thread, NULL, look_at_laps, NULL) == 0, "no thread");
    submit_laps();
    pthread_join(thread, NULL);
    life_over();
    if (draw_chance(&pipe_of.rng, 50))
        aclFinalize();
    return 0;
}

/* --- the director --- */

static struct {
    uint64_t rng, killed, stopped, ended;
    struct player player[PLAYERS];
} round_of;

static void start_player(unsigned i)
{
    player_start(&round_of.player[i], "copies", 2, draw_random(&round_of.rng), copies_main);
    member_do(0, (struct order){order_grant, 0, round_of.player[i].actor.pid, 6});
}

static void look_after_players(bool replace)
{
    players_look_after(round_of.player, PLAYERS, NULL, replace ? start_player : NULL);
}

static void disturb_player(void)
{
    unsigned i = draw_below(&round_of.rng, PLAYERS), what = draw_below(&round_of.rng, 100);
    struct player *p = &round_of.player[i];

    if (what < 15) {
        player_kill(p);
        start_player(i);
        round_of.killed++;
    } else if (what < 30 && !p->stopped) {
        player_stop(p, now_ns() + draw_below(&round_of.rng, 50) * MS);
        round_of.stopped++;
    } else if (what < 40 && !p->stopped && !p->ended) {
        round_of.ended += player_end_session(p);
    }
}

static bool is_quiet(void *arg)
{
    uint32_t n = atomic_load(&stage->lives);

    (void)arg;
    look_after_players(false);
    for (uint32_t i = 0; i < n; i++)
        if (!atomic_load(&stage->life[i].over) && atomic_load(&stage->life[i].call) &&
            atomic_load(&stage->life[i].limit_ms) == WITHOUT_END)
            return false;
    return true;
}

static bool are_all_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    return players_are_over(round_of.player, PLAYERS);
}

static void run_round(void)
{
    uint64_t end = now_ns() + (200 + draw_below(&round_of.rng, 600)) * MS;

    stage_clear();
    cast_begin();
    member_start(0, true);
    member_does(0, (struct order){order_create, 0, 8, 0});
    for (unsigned i = 0; i < PLAYERS; i++)
        start_player(i);
    while (now_ns() < end) {
        look_after_players(true);
        disturb_player();
        stage_rest(draw_below(&round_of.rng, 40));
    }
    players_continue(round_of.player, PLAYERS);
    atomic_store(&stage->hold, 1);
    stage_await(is_quiet, NULL, "all copies have come to their end");
    atomic_store(&stage->stop, 1);
    stage_await(are_all_over, NULL, "all have left");
    member_end(0);
    cast_finish();
    npud_expect_empty();
    shared_expect_empty();
}

START_TEST(copies_arrive_whole)
{
    round_of.rng = stage_seed();
    stage_open();
    totals = stage_share(sizeof(*totals));
    stage_run(1, run_round);
    fprintf(stderr,
            "%llu laps, %llu aborts, %llu passed on, %llu kills, %llu stops, %llu "
            "sessions ended\n",
            (unsigned long long)totals->laps, (unsigned long long)totals->aborted,
            (unsigned long long)totals->passed_on, (unsigned long long)round_of.killed,
            (unsigned long long)round_of.stopped, (unsigned long long)round_of.ended);
    ck_assert_uint_gt(totals->laps, 0);
}
END_TEST

int main(void)
{
    return stage_main("hand-over of copies", copies_arrive_whole, 2, 90);
}
