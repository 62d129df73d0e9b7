/*
 * An oracle for records of IPC events between processes that are killed, stopped, abort their
 * streams, and lose their sessions at random.
 *
 *   - a wait that succeeds means that the work before the record is visible: it is looked at
 *   - a wait fails with 507057 only if the record was of a thread that died, lost its session, or
 *     aborted its stream
 *   - no wait hangs: each comes back when nothing new is recorded, whatever became of the recorder
 *   - in the end npud holds nothing, and has not grown
 *
 * HANDOVER_SEED, HANDOVER_SECONDS: another run, or the same one as far as the scheduler lets it.
 *
 * Skipped under TSan: it kills processes for minutes; the same threads meet in the soak.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "records.h"
#include "tests/common/share_cast.h"

#define KEEPERS 2
#define PLAYERS 9u
#define MS      UINT64_C(1000000)

static struct {
    uint64_t rng;
    struct player player[PLAYERS];
    struct record_cast cast[PLAYERS];
    unsigned players, pause_ms;
    const uint8_t *theme;
    uint64_t killed, stopped, ended, records, verified, failed, aborts;
} round_of;

static aclError order_make(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    OK(aclrtSetDevice(0));
    records_make();
    return 0;
}

static aclError order_open(const struct order *o, int64_t *value)
{
    (void)o, (void)value;
    OK(aclrtSetDevice(0));
    records_open();
    return 0;
}

static bool is_alive(unsigned i)
{
    return round_of.player[i].actor.pid != 0;
}

static void start_player(unsigned i)
{
    struct record_cast c = round_of.cast[i];
    unsigned threads = c.part == RECORDS || draw_chance(&round_of.rng, 60)
                           ? 1
                           : 1 + draw_below(&round_of.rng, THREADS);

    record_cast_next = c;
    player_start(&round_of.player[i], record_part_name[c.part], threads, draw_random(&round_of.rng),
                 records_main);
}

static void doom_player(struct player *p)
{
    for (unsigned i = 0; i < p->n; i++)
        atomic_store(&records->doomed[p->first + i], 1);
}

static void look_after_players(bool replace)
{
    players_look_after(round_of.player, round_of.players, NULL, replace ? start_player : NULL);
}

/* --- disturbances --- */

enum disturbance { KILL, STOP, END_SESSION, REPLACE_KEEPER, DISTURBANCES };

static const uint8_t themes[][DISTURBANCES] = {
    {30, 20, 20, 5}, {80, 5, 5, 5}, {10, 5, 80, 5}, {10, 80, 10, 0}};

static enum disturbance draw_disturbance(void)
{
    unsigned what = draw_below(&round_of.rng, 100), d = 0;

    for (; d < DISTURBANCES && what >= round_of.theme[d]; d++)
        what -= round_of.theme[d];
    return d;
}

static void disturb_player(void)
{
    unsigned i = draw_below(&round_of.rng, round_of.players);
    struct player *p = &round_of.player[i];

    switch (draw_disturbance()) {
    case KILL:
        doom_player(p);
        player_kill(p);
        round_of.killed++;
        start_player(i);
        break;
    case STOP:
        if (!p->stopped)
            player_stop(p, now_ns() + draw_below(&round_of.rng, 60) * MS);
        round_of.stopped++;
        break;
    case END_SESSION:
        if (!p->stopped && !p->ended) {
            doom_player(p);
            round_of.ended += player_end_session(p);
        }
        break;
    case REPLACE_KEEPER:
        member_kill(1);
        member_start(1, true);
        member_does(1, (struct order){order_open, 0, 0, 0});
        break;
    default:
        break;
    }
}

/* --- the round --- */

static bool is_quiet(void *arg)
{
    uint32_t n = atomic_load(&stage->lives);

    (void)arg;
    look_after_players(false);
    for (uint32_t i = 0; i < n; i++) {
        struct life *l = &stage->life[i];

        if (!atomic_load(&l->over) && atomic_load(&l->call))
            return false;
    }
    return true;
}

static bool are_all_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    return players_are_over(round_of.player, round_of.players);
}

static void tell_events(void)
{
    for (uint32_t e = 0; e < EVENTS; e++) {
        struct event_log *log = &records->event[e];
        uint32_t life = log->recorder[log->tried % WINDOW];

        fprintf(stderr, "event %u: %llu records tried, %llu done, the last by life %u (%s%s)\n", e,
                (unsigned long long)log->tried, (unsigned long long)log->done, life,
                records->doomed[life] ? "doomed" : "alive", stage->life[life].over ? ", over" : "");
    }
}

static void open_round(void)
{
    ck_assert_int_eq(madvise(records, sizeof(*records), MADV_REMOVE), 0);
    stage_clear();
    cast_begin();
    for (int k = 0; k < KEEPERS; k++)
        member_start(k, true);
    member_does(0, (struct order){order_make, 0, 0, 0});
    member_does(1, (struct order){order_open, 0, 0, 0});
    round_of.theme = themes[draw_below(&round_of.rng, sizeof(themes) / sizeof(themes[0]))];
    round_of.pause_ms = 2 << draw_below(&round_of.rng, 5);
    round_of.players = EVENTS + 2 + draw_below(&round_of.rng, PLAYERS - EVENTS - 1);
    for (unsigned i = 0; i < round_of.players; i++) {
        enum record_part part =
            i < EVENTS ? RECORDS : 1 + draw_below(&round_of.rng, RECORD_PARTS - 1);

        round_of.cast[i] = (struct record_cast){part, i};
        start_player(i);
    }
}

static void run_phase(void)
{
    uint64_t end = now_ns() + (50 + draw_below(&round_of.rng, 250)) * MS;

    atomic_store(&stage->hold, 0);
    atomic_fetch_add(&records->phase, 1);
    while (now_ns() < end && atomic_load(&stage->lives) < LIVES - 100) {
        look_after_players(true);
        disturb_player();
        stage_rest(draw_below(&round_of.rng, round_of.pause_ms));
    }
    players_continue(round_of.player, round_of.players);
    atomic_store(&stage->hold, 1);
    stage_await(is_quiet, NULL, "all waits for records have come back");
}

static void close_round(void)
{
    atomic_store(&stage->stop, 1);
    if (draw_chance(&round_of.rng, 70))
        stage_await(are_all_over, NULL, "all have left");
    for (unsigned i = 0; i < round_of.players; i++)
        if (is_alive(i))
            player_kill(&round_of.player[i]);
    for (int k = 0; k < KEEPERS; k++)
        if (draw_chance(&round_of.rng, 50))
            member_kill(k);
        else
            member_end(k);
    cast_finish();
    npud_expect_empty();
    for (uint32_t e = 0; e < EVENTS; e++)
        round_of.records += records->event[e].done;
    round_of.verified += records->verified;
    round_of.failed += records->failed_waits;
    round_of.aborts += records->aborts;
}

static void run_round(void)
{
    open_round();
    for (unsigned n = 1 + draw_below(&round_of.rng, 3); n > 0; n--)
        run_phase();
    close_round();
}

START_TEST(waits_see_what_was_recorded)
{
    round_of.rng = stage_seed();
    stage_open();
    stage_tell = tell_events;
    records = stage_share(sizeof(*records));
    stage_run(2, run_round);
    fprintf(stderr,
            "%llu records, %llu waits verified, %llu failed, %llu kills, %llu stops, "
            "%llu sessions ended, %llu aborts\n",
            (unsigned long long)round_of.records, (unsigned long long)round_of.verified,
            (unsigned long long)round_of.failed, (unsigned long long)round_of.killed,
            (unsigned long long)round_of.stopped, (unsigned long long)round_of.ended,
            (unsigned long long)round_of.aborts);
    ck_assert_uint_gt(round_of.records, 10);
}
END_TEST

int main(void)
{
    return stage_main("hand-over of records", waits_see_what_was_recorded, 2, 120);
}
