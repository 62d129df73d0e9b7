/*
 * An oracle for messages through queues: real processes put and take at random, in five characters
 * (messages.h), and are killed, stopped, and lose their sessions at random, also those that made
 * the queues and bound the routes. Rights are taken away and given back.
 *
 *   - a message whose call returned 0 arrives exactly once (at each destination of a routed queue)
 *   - one whose call failed never arrives; one that was cut off by death, at most once
 *   - what a taker sees of one sender comes in the sender's order, and whole
 *   - what is missing was in the hands of dead takers: one message for each call cut off
 *   - while a taker sleeps on a queue nothing stays in it, and no sender sleeps beside room
 *   - in the end npud holds no buffer, pool, queue, grant or descriptor, and has not grown
 *
 * HANDOVER_SEED, HANDOVER_SECONDS: another run, or the same one as far as the scheduler lets it.
 * HANDOVER_DEPTH, HANDOVER_THEME: only this depth, only this kind of disturbances.
 *
 * Skipped under TSan: it kills processes for minutes; the same threads meet in the soak.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "messages.h"
#include "tests/common/need.h"
#include "tests/common/share_cast.h"

#define KEEPERS 2u /* members of the cast; at least one always lives and may manage all queues */
#define PLAYERS 7u
#define SINGLE  0u
#define SOURCE  3u
#define MS      UINT64_C(1000000)

static const uint32_t depths[] = {2,    3,    4,    7,    8,    15,   16,  31,  32,
                                  63,   64,   127,  128,  255,  256,  511, 512, 1023,
                                  1024, 2047, 2048, 4095, 4096, 8191, 8192};
#define DEPTHS (sizeof(depths) / sizeof(depths[0]))

enum disturbance { KILL, STOP, END_SESSION, REVOKE, REPLACE_KEEPER, UNBIND, DISTURBANCES };

static struct {
    uint64_t rng;
    const uint8_t *theme; /* how likely each disturbance is */
    unsigned pause_ms;    /* between two of them, at most */
    unsigned phase_ms;    /* how long it goes on before all must come to rest, at least */
    unsigned players;
    struct player player[PLAYERS];
    struct part part[PLAYERS];
    unsigned next_depth;
    uint64_t killed, stopped, ended, revoked, messages;
} round_of;

/* --- keepers --- */

static aclError order_drain_queue(const struct order *o, int64_t *value)
{
    *value = messages_drain((uint32_t)o->b, (uint32_t)o->a);
    return 0;
}

/* Bind (b 1) or unbind (b 0) queue a as destination of SOURCE. */
static aclError order_route(const struct order *o, int64_t *value)
{
    acltdtQueueRoute *route = acltdtCreateQueueRoute(queue_id(SOURCE), queue_id(o->a));
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    aclError r;

    (void)value;
    OK(acltdtAddQueueRoute(list, route));
    r = o->b ? acltdtBindQueueRoutes(list) : acltdtUnbindQueueRoutes(list);
    acltdtDestroyQueueRouteList(list);
    acltdtDestroyQueueRoute(route);
    return r;
}

/* To look for one fault: the number in the environment, or else this. */
static uint32_t asked_for(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 0) : otherwise;
}

static bool queue_exists(uint32_t q)
{
    return atomic_load(&board->queue[q].exists);
}

static void grant_queue(int keeper, uint32_t queue, pid_t pid, uint32_t rights)
{
    member_do(keeper, (struct order){order_grant, queue, pid, rights});
}

/* A keeper dies, and another takes its place. */
static void replace_keeper(void)
{
    int dies = (int)draw_below(&round_of.rng, KEEPERS), stays = 1 - dies;

    member_kill(dies);
    member_start(dies, true);
    for (uint32_t q = 0; q < QUEUES; q++) {
        if (!queue_exists(q))
            continue;
        member_does(stays, (struct order){order_grant, q, member_pid(dies), ALL});
        member_does(dies, (struct order){order_attach, q, -1, 0});
    }
    round_of.killed++;
}

/* --- players --- */

static bool is_taker_of_single(const struct part *p)
{
    return p->queue == SINGLE && (p->character == TAKES_FOREVER || p->character == TAKES_SMALL);
}

static uint32_t rights_of(const struct part *p, uint32_t queue)
{
    if (p->character == MIXES)
        return draw_chance(&round_of.rng, 60)   ? TAKE | PUT
               : draw_chance(&round_of.rng, 50) ? TAKE
                                                : PUT;
    if (queue != p->queue)
        return draw_chance(&round_of.rng, 50) ? TAKE : PUT;
    if (p->character == PUTS_FOREVER || p->character == PUTS_SMALL)
        return draw_chance(&round_of.rng, 80) ? PUT : TAKE | PUT;
    return draw_chance(&round_of.rng, 80) ? TAKE : TAKE | PUT;
}

static int any_keeper(void)
{
    return (int)draw_below(&round_of.rng, KEEPERS);
}

static void start_player(unsigned i)
{
    struct player *p = &round_of.player[i];
    unsigned threads = draw_chance(&round_of.rng, 70) ? 1 : 1 + draw_below(&round_of.rng, THREADS);

    if (is_taker_of_single(&round_of.part[i]))
        threads = 1;
    part_next = round_of.part[i];
    player_start(p, character_name[part_next.character], threads, draw_random(&round_of.rng),
                 messages_main);
    for (uint32_t q = 0; q < QUEUES; q++)
        if (queue_exists(q))
            grant_queue(any_keeper(), q, p->actor.pid, rights_of(&part_next, q));
}

static void bury_player(struct player *p)
{
    for (unsigned i = 0; i < p->n; i++)
        messages_bury(p->first + i);
}

static bool is_alive(unsigned i)
{
    return round_of.player[i].actor.pid != 0;
}

static void kill_player(unsigned i)
{
    player_kill(&round_of.player[i]);
    bury_player(&round_of.player[i]);
    round_of.killed++;
}

/* Those that were stopped for long enough go on; those that have left are replaced. */
static void look_after_players(bool replace)
{
    players_look_after(round_of.player, round_of.players, bury_player,
                       replace ? start_player : NULL);
}

static void revoke_and_grant(unsigned i)
{
    struct player *p = &round_of.player[i];

    for (uint32_t q = 0; q < QUEUES; q++) {
        if (!queue_exists(q) || draw_chance(&round_of.rng, 50))
            continue;
        grant_queue(any_keeper(), q, p->actor.pid, draw_below(&round_of.rng, 4) * 2);
        if (draw_chance(&round_of.rng, 50))
            stage_rest(draw_below(&round_of.rng, 4));
        grant_queue(any_keeper(), q, p->actor.pid, rights_of(&round_of.part[i], q));
        round_of.revoked++;
    }
}

static void unbind_and_bind(void)
{
    uint32_t q = SOURCE + board->queue[SOURCE].routes;

    if (!atomic_load(&board->queue[q].loose))
        return;
    member_does(any_keeper(), (struct order){order_route, q, 0, 0});
    member_does(any_keeper(), (struct order){order_route, q, 1, 0});
}

/* How likely each disturbance is, of 100; what is left is none. */
static const uint8_t themes[][DISTURBANCES] = {
    {30, 20, 10, 20, 7, 7}, {85, 5, 0, 5, 2, 2}, {10, 10, 70, 5, 2, 2},
    {10, 70, 10, 5, 2, 2},  {5, 5, 0, 85, 2, 2}, {20, 10, 10, 10, 20, 20},
};

#define THEMES (sizeof(themes) / sizeof(themes[0]))

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
        kill_player(i);
        start_player(i);
        break;
    case STOP:
        if (!p->stopped)
            player_stop(p, now_ns() + draw_below(&round_of.rng, 60) * MS);
        round_of.stopped++;
        break;
    case END_SESSION:
        if (!p->stopped && !p->ended)
            round_of.ended += player_end_session(p);
        break;
    case REVOKE:
        for (unsigned n = 1 + draw_below(&round_of.rng, 6); n > 0; n--)
            revoke_and_grant(i);
        break;
    case REPLACE_KEEPER:
        replace_keeper();
        break;
    case UNBIND:
        if (board->queue[SOURCE].routes)
            unbind_and_bind();
        break;
    default:
        break;
    }
}

/* --- accounts --- */

struct account {
    uint32_t missing[QUEUES];
};

/* Prints what is missing in each queue. */
static void tell_accounts(void)
{
    struct account a;

    messages_missing(a.missing);
    for (uint32_t q = 0; q < QUEUES; q++)
        if (queue_exists(q) && !board->queue[q].routes)
            fprintf(stderr, "queue %u, depth %u: %u messages missing, %u were in hand\n", q,
                    board->queue[q].depth, a.missing[q], board->queue[q].in_hand);
    messages_tell_missing(20);
}

/* Destinations whose route was unbound for a while may miss any number. */
static bool is_settled(const struct account *a, uint32_t q)
{
    return atomic_load(&board->queue[q].loose) ||
           a->missing[q] <= atomic_load(&board->queue[q].in_hand);
}

static bool some_life(_Atomic uint32_t *of_life, uint32_t queue)
{
    uint32_t n = atomic_load(&stage->lives);

    for (uint32_t i = 0; i < n; i++)
        if (atomic_load(&of_life[i]) == queue + 1 && !atomic_load(&stage->life[i].over) &&
            !atomic_load(&stage->life[i].ending))
            return true;
    return false;
}

/* The keeper takes from those queues that no thread waits on. */
static void drain_idle_queue(uint32_t q)
{
    if (queue_exists(q) && !board->queue[q].routes && !some_life(board->forever, q))
        member_does(0, (struct order){order_drain_queue, q, 0, 0});
}

static void drain_idle_queues(void)
{
    for (uint32_t q = 0; q < QUEUES; q++)
        drain_idle_queue(q);
}

/*
 * Nothing stays in a queue that a thread waits on, and no sender waits beside it. A destination
 * that is full may hold up its source, and so the other destinations.
 */
static bool is_quiet(void *arg)
{
    struct account a;

    (void)arg;
    look_after_players(false);
    for (uint32_t q = SOURCE + 1; q < QUEUES; q++)
        drain_idle_queue(q);
    messages_missing(a.missing);
    for (uint32_t q = 0; q < QUEUES; q++) {
        if (!queue_exists(q) || board->queue[q].routes || !some_life(board->forever, q))
            continue;
        if (!is_settled(&a, q) || some_life(board->putting, q))
            return false;
    }
    return true;
}

static bool are_senders_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    drain_idle_queues();
    for (unsigned i = 0; i < round_of.players; i++)
        if (is_alive(i) && round_of.part[i].character != TAKES_FOREVER)
            return false;
    return true;
}

static bool is_all_there(void *arg)
{
    struct account *a = arg;

    look_after_players(false);
    drain_idle_queues();
    messages_missing(a->missing);
    for (uint32_t q = 0; q < QUEUES; q++)
        if (queue_exists(q) && !board->queue[q].routes && !is_settled(a, q))
            return false;
    return true;
}

static bool are_all_over(void *arg)
{
    (void)arg;
    look_after_players(false);
    return players_are_over(round_of.player, round_of.players);
}

/* --- the round --- */

static void make_queue(uint32_t q)
{
    uint32_t depth = asked_for("HANDOVER_DEPTH", depths[round_of.next_depth++ % DEPTHS]);

    member_does(0, (struct order){order_create, q, depth, 0});
    atomic_store(&board->queue[q].depth, depth);
    atomic_store(&board->queue[q].single, q == SINGLE);
    atomic_store(&board->queue[q].exists, 1);
    member_does(0, (struct order){order_grant, q, member_pid(1), ALL});
    member_does(1, (struct order){order_attach, q, -1, 0});
}

static void make_routes(unsigned n)
{
    for (uint32_t q = SOURCE; q <= SOURCE + n; q++)
        make_queue(q);
    for (uint32_t i = 0; i < n; i++) {
        struct queue_note *note = &board->queue[SOURCE + 1 + i];

        atomic_store(&note->source, SOURCE + 1);
        atomic_store(&note->place, i);
        atomic_store(&note->loose, i > 0 && i == n - 1 && draw_chance(&round_of.rng, 50));
        member_does(1, (struct order){order_route, SOURCE + 1 + i, 1, 0});
    }
    atomic_store(&board->queue[SOURCE].routes, n);
}

static enum character a_sender(void)
{
    return draw_chance(&round_of.rng, 40) ? PUTS_FOREVER : PUTS_SMALL;
}

static enum character a_taker(void)
{
    return draw_chance(&round_of.rng, 60) ? TAKES_FOREVER : TAKES_SMALL;
}

/* All at the same queue, which is mostly full or mostly empty: some go on while others die. */
static void cast_crowd(uint32_t queue)
{
    bool full = draw_chance(&round_of.rng, 70);

    for (unsigned i = 0; i < round_of.players; i++)
        round_of.part[i] = (struct part){full ? a_sender() : a_taker(), queue};
    round_of.part[0].character = a_sender();
    round_of.part[1].character = a_taker();
    /* Until it is full. */
    round_of.phase_ms += full ? board->queue[queue].depth / 8 : 0;
    round_of.pause_ms = full ? 8 : round_of.pause_ms;
}

/* Each queue gets a sender and a taker; the rest is chance. */
static void cast_company(uint32_t plain, unsigned routes)
{
    for (unsigned i = 0; i < round_of.players; i++) {
        enum character c = draw_below(&round_of.rng, CHARACTERS);
        uint32_t q = plain;

        if (routes && draw_chance(&round_of.rng, 30))
            q = c == PUTS_FOREVER || c == PUTS_SMALL
                    ? SOURCE
                    : SOURCE + 1 + draw_below(&round_of.rng, routes);
        round_of.part[i] = (struct part){c, q};
    }
    round_of.part[0] = (struct part){a_sender(), routes ? SOURCE : SINGLE};
    round_of.part[1] = (struct part){a_taker(), routes ? SOURCE + 1 : SINGLE};
    round_of.part[2] = (struct part){a_sender(), plain};
    round_of.part[3] = (struct part){a_taker(), plain};
}

static void draw_round(void)
{
    round_of.theme =
        themes[asked_for("HANDOVER_THEME", draw_below(&round_of.rng, THEMES)) % THEMES];
    round_of.pause_ms = 2 << draw_below(&round_of.rng, 5);
    round_of.phase_ms = 50;
    /*
     * npud is slow at times, so that others go on while it looks at what the dead have left. Not
     * 19: beside twenty busy processes it would get a five-hundredth of a CPU.
     */
    setpriority(PRIO_PROCESS, (id_t)npud.pid, draw_chance(&round_of.rng, 50) ? 10 : 0);
    round_of.players = 4 + draw_below(&round_of.rng, PLAYERS - 3);
}

static void open_round(void)
{
    bool crowd = draw_chance(&round_of.rng, 50);
    unsigned routes =
        crowd || draw_chance(&round_of.rng, 40) ? 0 : 1 + draw_below(&round_of.rng, PLACES);
    uint32_t plain = 1 + draw_below(&round_of.rng, 2);

    draw_round();
    ck_assert_int_eq(madvise(board, sizeof(*board), MADV_REMOVE), 0);
    stage_clear();
    cast_begin();
    atomic_store(&stage->lives, KEEPERS); /* the lives of the keepers */
    for (unsigned k = 0; k < KEEPERS; k++)
        member_start((int)k, true);
    make_queue(plain);
    if (crowd) {
        cast_crowd(plain);
    } else {
        make_queue(SINGLE);
        if (routes)
            make_routes(routes);
        cast_company(plain, routes);
    }
    for (unsigned i = 0; i < round_of.players; i++)
        start_player(i);
}

static void go_on_for(unsigned ms)
{
    uint64_t end = now_ns() + ms * MS;

    while (now_ns() < end && atomic_load(&stage->lives) < LIVES - 100) {
        stage_rest(draw_below(&round_of.rng, round_of.pause_ms));
        look_after_players(true);
        disturb_player();
    }
}

static void continue_all(void)
{
    players_continue(round_of.player, round_of.players);
}

static void run_phase(void)
{
    atomic_store(&stage->hold, 0);
    look_after_players(true);
    go_on_for(round_of.phase_ms + draw_below(&round_of.rng, 250));
    continue_all();
    atomic_store(&stage->hold, 1);
    stage_await(is_quiet, NULL, "queues with a thread that waits on them are empty");
}

static void close_round(void)
{
    struct account a;

    atomic_store(&stage->stop, 1);
    stage_await(are_senders_over, NULL, "all that put messages have left");
    stage_await(is_all_there, &a, "all messages have arrived");
    messages_check_kept();
    for (uint32_t q = SOURCE + 1; q < QUEUES; q++)
        if (queue_exists(q))
            member_does(0, (struct order){order_route, q, 0, 0});
    if (draw_chance(&round_of.rng, 50)) {
        for (uint32_t q = 0; q < QUEUES; q++)
            if (queue_exists(q))
                member_does(any_keeper(), (struct order){order_destroy, q, 0, 0});
        stage_await(are_all_over, NULL, "all have left, as their queues are destroyed");
    }
    for (unsigned i = 0; i < round_of.players; i++)
        if (is_alive(i))
            kill_player(i);
    for (unsigned k = 0; k < KEEPERS; k++)
        if (draw_chance(&round_of.rng, 50))
            member_kill((int)k);
        else
            member_end((int)k);
    cast_finish();
    npud_expect_empty();
    shared_expect_empty();
}

static void run_round(void)
{
    open_round();
    for (unsigned n = 1 + draw_below(&round_of.rng, 3); n > 0; n--)
        run_phase();
    close_round();
    round_of.messages += atomic_load(&board->next);
}

START_TEST(nothing_is_lost_or_doubled)
{
    messages_few_sizes = !need_fds("nothing_is_lost_or_doubled: messages of all sizes", 4096);
    round_of.rng = stage_seed();
    round_of.next_depth = draw_below(&round_of.rng, DEPTHS);
    stage_open();
    stage_tell = tell_accounts;
    board = stage_share(sizeof(*board));
    stage_run(2, run_round);
    fprintf(stderr,
            "%llu messages, %llu kills, %llu stops, %llu sessions ended, %llu "
            "revokes\n",
            (unsigned long long)round_of.messages, (unsigned long long)round_of.killed,
            (unsigned long long)round_of.stopped, (unsigned long long)round_of.ended,
            (unsigned long long)round_of.revoked);
    ck_assert_uint_gt(round_of.messages, 100);
}
END_TEST

int main(void)
{
    return stage_main("hand-over of messages", nothing_is_lost_or_doubled, 3, 120);
}
