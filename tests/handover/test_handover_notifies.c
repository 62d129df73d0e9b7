/*
 * An oracle for notifies between processes that are killed, stopped, abort their streams, and lose
 * their sessions at random.
 *
 * A waiter makes sure that its stream is parked before it offers a turn; a recorder takes one turn
 * for each record. So no two records can meet in the one bit of a notify, and each releases one
 * wait. What a death leaves open is counted: a wait of the dead may have had a record, a record of
 * the dead may have been executed.
 *
 *   - no record is doubled: there are never more waits over than records begun
 *   - no record is lost: each one that is known to be executed has ended a wait, but for those that
 *     waits of the dead may have had
 *   - a wait fails with 507057 only for a record that was dropped
 *   - in the end, each wait that is left comes back when one more record is made
 *   - in the end npud holds nothing
 *
 * HANDOVER_SEED, HANDOVER_SECONDS: another run, or the same one as far as the scheduler lets it.
 *
 * Skipped under TSan: it kills processes for minutes; the same threads meet in the soak.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "stage.h"
#include "tests/common/share_cast.h"

#define NOTIFIES 3u
#define PLAYERS  8u
#define KEEPERS  2 /* the one that exports, and one that imports: so a death leaves others */
#define KEY      65
#define GHOSTLY  10u
#define MS       UINT64_C(1000000)

/* What a life is in the middle of, and about which notify: what its death leaves open. */
enum doing { NOTHING, WAITS, RECORDS };

struct line {
    char key[KEY];
    _Atomic uint32_t turns;            /* parked waits for which no record was begun */
    _Atomic uint64_t tried, executed;  /* records: begun, and known to be executed */
    _Atomic uint64_t over, failed;     /* waits that came back: with success, with 507057 */
    _Atomic uint64_t may_have, may_be; /* waits of the dead; records that may have been dropped */
};

static struct shared {
    struct line line[NOTIFIES];
    _Atomic uint32_t orphaned;     /* the exporter is killed, or about to be */
    _Atomic uint32_t doing[LIVES]; /* enum doing << 8 | notify */
} * shared;

static _Thread_local struct {
    uint32_t life;
    uint64_t rng;
    aclrtStream stream, probe;
    aclrtNotify notify[NOTIFIES];
    unsigned ghostly;
} me;

static aclrtNotify kept[NOTIFIES]; /* in a keeper */

static bool waits_next; /* the part of the player that is started next */

/* --- a process --- */

static bool check_result(aclError r, const char *what)
{
    if (life_judges(r, what))
        return true;
    me.ghostly++;
    return false;
}
#define DO(about, call) check_result(CALL(about, 0, call), #call)

static void begin_doing(enum doing doing, unsigned i)
{
    atomic_store(&shared->doing[me.life], (uint32_t)doing << 8 | i);
}

static void end_doing(void)
{
    atomic_store(&shared->doing[me.life], 0);
}

/* What this life was in the middle of stays open. */
static void leave_open(uint32_t life)
{
    uint32_t doing = atomic_load(&shared->doing[life]);
    struct line *l = &shared->line[doing & 0xff];

    if (doing >> 8 == WAITS)
        atomic_fetch_add(&l->may_have, 1);
    if (doing >> 8 == RECORDS)
        atomic_fetch_add(&l->may_be, 1);
    atomic_store(&shared->doing[life], 0);
}

/* As engine_turn(), where a session may end: the engine has seen what was submitted before. */
static bool is_seen_by_engine(unsigned i)
{
    for (unsigned n = 0; n < 3; n++)
        if (!DO(i, aclnpudLaunchDelay(0, 0, me.probe)) || !DO(i, aclrtSynchronizeStream(me.probe)))
            return false;
    return true;
}

static void wait_once(unsigned i)
{
    struct line *l = &shared->line[i];
    aclError r;

    begin_doing(WAITS, i);
    if (!DO(i, aclrtWaitAndResetNotify(me.notify[i], me.stream, 0)) || !is_seen_by_engine(i)) {
        leave_open(me.life);
        return;
    }
    atomic_fetch_add(&l->turns, 1);
    r = CALL(i, WITHOUT_END, aclrtSynchronizeStream(me.stream));
    if (r == 0) {
        atomic_fetch_add(&l->over, 1);
    } else if (r == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR) {
        atomic_fetch_add(&l->failed, 1);
    } else {
        check_result(r, "aclrtSynchronizeStream of a wait");
        leave_open(me.life);
        return;
    }
    end_doing();
    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

static bool take_turn(struct line *l)
{
    uint32_t turns = atomic_load(&l->turns);

    while (turns > 0)
        if (atomic_compare_exchange_weak(&l->turns, &turns, turns - 1))
            return true;
    return false;
}

/*
 * A record that is discarded fails the wait that it would have ended, unless it was executed
 * before.
 */
static void abort_record(unsigned i)
{
    if (draw_chance(&me.rng, 50))
        DO(i, aclrtStreamAbort(me.stream));
    else if (DO(i, aclrtDestroyStreamForce(me.stream)) && !DO(i, aclrtCreateStream(&me.stream)))
        me.ghostly = GHOSTLY; /* it has no stream any more */
}

static void record_once(unsigned i)
{
    struct line *l = &shared->line[i];

    if (!take_turn(l)) {
        stage_rest(draw_chance(&me.rng, 80) ? 0 : 1);
        return;
    }
    begin_doing(RECORDS, i);
    atomic_fetch_add(&l->tried, 1);
    if (draw_chance(&me.rng, 40))
        DO(i, aclnpudLaunchDelay(draw_below(&me.rng, 2000), 0, me.stream));
    if (DO(i, aclrtRecordNotify(me.notify[i], me.stream)) && draw_chance(&me.rng, 95)) {
        if (DO(i, aclrtSynchronizeStream(me.stream))) {
            atomic_fetch_add(&l->executed, 1);
            end_doing();
        }
    } else {
        abort_record(i);
    }
    leave_open(me.life);
    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

/* The key of an exporter that has died opens nothing. */
static bool import_notify(unsigned i)
{
    aclError r = CALL(i, 0, aclrtNotifyImportByKey(&me.notify[i], shared->line[i].key, 0));

    if (r == ACL_ERROR_RT_INVALID_HANDLE && atomic_load(&shared->orphaned))
        return false;
    return check_result(r, "aclrtNotifyImportByKey");
}

static bool import_all(void)
{
    bool ok = DO(-1, aclInit(NULL)) && DO(-1, aclrtSetDevice(0)) &&
              DO(-1, aclrtCreateStream(&me.stream)) && DO(-1, aclrtCreateStream(&me.probe));

    for (unsigned i = 0; i < NOTIFIES && ok; i++)
        ok = import_notify(i);
    return ok;
}

static int player_main(struct player *p)
{
    bool waits = waits_next;

    me.life = p->first;
    me.rng = p->seed;
    life_begin(me.life);
    if (!import_all())
        return 0;
    while (!atomic_load(&stage->stop) && me.ghostly < GHOSTLY)
        if (atomic_load(&stage->hold))
            stage_rest(1);
        else if (waits)
            wait_once(draw_below(&me.rng, NOTIFIES));
        else
            record_once(draw_below(&me.rng, NOTIFIES));
    life_over();
    if (draw_chance(&me.rng, 70))
        aclFinalize();
    return 0;
}

/* --- keepers --- */

static aclError order_export(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    OK(aclrtSetDevice(0));
    for (unsigned i = 0; i < NOTIFIES; i++) {
        OK(aclrtCreateNotify(&kept[i], 0));
        OK(aclrtNotifyGetExportKey(kept[i], shared->line[i].key, KEY,
                                   ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    }
    return 0;
}

static aclError order_import(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    OK(aclrtSetDevice(0));
    for (unsigned i = 0; i < NOTIFIES; i++)
        OK(aclrtNotifyImportByKey(&kept[i], shared->line[i].key, 0));
    return 0;
}

/* Record notify a, once. */
static aclError order_record(const struct order *o, int64_t *value)
{
    aclrtStream stream;

    (void)value;
    OK(aclrtCreateStream(&stream));
    OK(aclrtRecordNotify(kept[o->a], stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    return 0;
}

/* --- the director --- */

static struct {
    uint64_t rng, killed, stopped, ended, exporters;
    struct player player[PLAYERS];
    bool disturbed;
} round_of;

static void start_player(unsigned i)
{
    waits_next = i % 2 == 0;
    player_start(&round_of.player[i], waits_next ? "waits" : "records", 1,
                 draw_random(&round_of.rng), player_main);
}

static void look_after_players(bool replace)
{
    players_look_after(round_of.player, PLAYERS, NULL,
                       replace && !shared->orphaned ? start_player : NULL);
}

static void disturb_player(void)
{
    unsigned i = draw_below(&round_of.rng, PLAYERS), what = draw_below(&round_of.rng, 100);
    struct player *p = &round_of.player[i];

    if (!p->actor.pid)
        return;
    if (what < 25) {
        player_kill(p);
        leave_open(p->first);
        round_of.killed++;
    } else if (what < 45 && !p->stopped) {
        player_stop(p, now_ns() + draw_below(&round_of.rng, 40) * MS);
        round_of.stopped++;
    } else if (what < 60 && !p->stopped && !p->ended) {
        round_of.ended += player_end_session(p);
    } else if (what < 62 && !shared->orphaned) {
        atomic_store(&shared->orphaned, 1);
        member_kill(0); /* importers go on */
        round_of.exporters++;
    }
}

/*
 * Each record that is known to be executed has ended a wait, but for those that the dead may have
 * had.
 */
static bool is_nothing_lost(const struct line *l)
{
    return l->over + l->failed + l->may_have >= l->executed;
}

static void check_nothing_doubled(void)
{
    for (unsigned i = 0; i < NOTIFIES; i++) {
        const struct line *l = &shared->line[i];
        uint64_t failed = l->failed, over = l->over, may_be = l->may_be, tried = l->tried;

        ck_assert_msg(over + failed <= tried,
                      "notify %u: %llu waits are over and %llu have failed, of %llu records", i,
                      (unsigned long long)over, (unsigned long long)failed,
                      (unsigned long long)tried);
        if (atomic_load(&stage->hold))
            ck_assert_msg(failed <= may_be + round_of.ended + round_of.killed,
                          "notify %u: %llu waits have failed, %llu records may have been dropped",
                          i, (unsigned long long)failed, (unsigned long long)may_be);
    }
}

static bool is_waiting(unsigned k, unsigned *notify)
{
    const struct player *p = &round_of.player[k];
    uint32_t doing = atomic_load(&shared->doing[p->first]);

    *notify = doing & 0xff;
    return p->actor.pid && doing >> 8 == WAITS;
}

/* All recorders have ended their records, and all that is known to be executed has arrived. */
static bool is_quiet(void *arg)
{
    (void)arg;
    look_after_players(false);
    for (unsigned k = 0; k < PLAYERS; k++) {
        const struct player *p = &round_of.player[k];
        uint32_t doing = atomic_load(&shared->doing[p->first]);

        if (p->actor.pid && doing >> 8 == RECORDS)
            return false;
    }
    for (unsigned i = 0; i < NOTIFIES; i++)
        if (!is_nothing_lost(&shared->line[i]))
            return false;
    return true;
}

static bool has_come_back(void *arg)
{
    unsigned i, notify = *(unsigned *)arg;
    const struct line *l = &shared->line[notify];

    look_after_players(false);
    for (unsigned k = 0; k < PLAYERS; k++)
        if (is_waiting(k, &i) && i == notify)
            return l->over + l->failed + l->may_have >= l->executed;
    return true;
}

/* As long as a player waits, one more record; each must be seen to arrive. */
static void release_all(void)
{
    unsigned notify;

    for (unsigned k = 0; k < PLAYERS; k++)
        while (is_waiting(k, &notify)) {
            struct line *l = &shared->line[notify];

            atomic_fetch_add(&l->tried, 1);
            member_does(1, (struct order){order_record, notify, 0, 0});
            atomic_fetch_add(&l->executed, 1);
            stage_await(has_come_back, &notify, "a wait comes back for a record");
        }
}

static void tell_lines(void)
{
    for (unsigned i = 0; i < NOTIFIES; i++) {
        const struct line *l = &shared->line[i];

        fprintf(stderr,
                "notify %u: %llu records begun, %llu executed; %llu waits over, %llu failed; of "
                "the dead %llu waits, %llu records; %u turns\n",
                i, (unsigned long long)l->tried, (unsigned long long)l->executed,
                (unsigned long long)l->over, (unsigned long long)l->failed,
                (unsigned long long)l->may_have, (unsigned long long)l->may_be, l->turns);
    }
}

static bool are_all_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    return players_are_over(round_of.player, PLAYERS);
}

static void open_round(void)
{
    ck_assert_int_eq(madvise(shared, sizeof(*shared), MADV_REMOVE), 0);
    stage_clear();
    cast_begin();
    for (int k = 0; k < KEEPERS; k++)
        member_start(k, true);
    member_does(0, (struct order){order_export, 0, 0, 0});
    member_does(1, (struct order){order_import, 0, 0, 0});
    round_of.disturbed = draw_chance(&round_of.rng, 75);
    round_of.killed = round_of.ended = 0;
    for (unsigned i = 0; i < PLAYERS; i++)
        start_player(i);
}

static void close_round(void)
{
    atomic_store(&stage->hold, 1);
    players_continue(round_of.player, PLAYERS);
    stage_await(is_quiet, NULL, "each record has ended a wait");
    release_all();
    check_nothing_doubled();
    atomic_store(&stage->stop, 1);
    stage_await(are_all_over, NULL, "all have left");
    if (!shared->orphaned)
        member_end(0);
    member_end(1);
    cast_finish();
    npud_expect_empty();
}

static void run_round(void)
{
    uint64_t end = now_ns() + (100 + draw_below(&round_of.rng, 400)) * MS;

    open_round();
    while (now_ns() < end && atomic_load(&stage->lives) < LIVES - 100) {
        look_after_players(true);
        if (round_of.disturbed)
            disturb_player();
        check_nothing_doubled();
        stage_rest(draw_below(&round_of.rng, 15));
    }
    close_round();
}

/* Of all rounds. */
static struct {
    uint64_t records, failed, open, killed, ended;
} all;

static void run_counted_round(void)
{
    run_round();
    all.killed += round_of.killed;
    all.ended += round_of.ended;
    for (unsigned i = 0; i < NOTIFIES; i++) {
        all.records += shared->line[i].executed;
        all.failed += shared->line[i].failed;
        all.open += shared->line[i].may_have;
    }
}

START_TEST(each_record_ends_one_wait)
{
    round_of.rng = stage_seed();
    stage_open();
    stage_tell = tell_lines;
    shared = stage_share(sizeof(*shared));
    stage_run(2, run_counted_round);
    fprintf(stderr,
            "%llu records, %llu waits failed, %llu of the dead, %llu kills, %llu "
            "stops, %llu sessions ended, %llu exporters killed\n",
            (unsigned long long)all.records, (unsigned long long)all.failed,
            (unsigned long long)all.open, (unsigned long long)all.killed,
            (unsigned long long)round_of.stopped, (unsigned long long)all.ended,
            (unsigned long long)round_of.exporters);
    ck_assert_uint_gt(all.records, 10);
}
END_TEST

int main(void)
{
    return stage_main("hand-over of notifies", each_record_ends_one_wait, 2, 90);
}
