/* Rounds from seeds: what is tried. What of it makes sense, and what comes of it, plan.c knows. */
#include "tests/common/chance.h"
#include "tests/soak/plan.h"

#define OPS_MARGIN 1400 /* left for the end of a round */

enum move {
    MOVE_RECORD,
    MOVE_WAIT,
    MOVE_EDGE,
    MOVE_QUERY,
    MOVE_SYNC_EVENT,
    MOVE_SLEEP,
    MOVE_LOOK,
    MOVE_DELAY,
    MOVE_LEVEL,
    MOVE_GATE,
    MOVE_OPEN_GATE,
    MOVE_COPY,
    MOVE_COPY_FREED,
    MOVE_SET,
    MOVE_FILL,
    MOVE_CHECK,
    MOVE_TIMED,
    MOVE_ELAPSED,
    MOVE_SYNC_STREAM,
    MOVE_SYNC_DEVICE,
    MOVE_QUERY_STREAM,
    MOVE_ABORT,
    MOVE_RENEW_STREAM,
    MOVE_RENEW_EVENT,
    MOVE_WILD,
    MOVE_LATCH,
    MOVE_BEFORE,
    MOVE_CALLBACK,
    MOVE_CALLBACK_ON,
    MOVE_BURST,
    MOVES
};

static const uint8_t usual_weight[MOVES] = {
    [MOVE_RECORD] = 20,     [MOVE_WAIT] = 20,        [MOVE_EDGE] = 25,
    [MOVE_QUERY] = 20,      [MOVE_SYNC_EVENT] = 5,   [MOVE_SLEEP] = 4,
    [MOVE_LOOK] = 6,        [MOVE_DELAY] = 16,       [MOVE_LEVEL] = 8,
    [MOVE_GATE] = 10,       [MOVE_OPEN_GATE] = 8,    [MOVE_COPY] = 30,
    [MOVE_SET] = 8,         [MOVE_FILL] = 5,         [MOVE_CHECK] = 5,
    [MOVE_TIMED] = 4,       [MOVE_ELAPSED] = 4,      [MOVE_SYNC_STREAM] = 5,
    [MOVE_SYNC_DEVICE] = 2, [MOVE_QUERY_STREAM] = 5, [MOVE_RENEW_STREAM] = 1,
    [MOVE_RENEW_EVENT] = 4, [MOVE_WILD] = 12,        [MOVE_ABORT] = 2,
    [MOVE_COPY_FREED] = 15, [MOVE_BEFORE] = 5,       [MOVE_LATCH] = 20,
    [MOVE_CALLBACK] = 12,   [MOVE_CALLBACK_ON] = 12, [MOVE_BURST] = 0,
};

struct taste {
    uint64_t random;
    unsigned ops;
    unsigned gates; /* closed at the same time, of one process */
    unsigned big;   /* percent of copies that are big */
    int32_t delay;  /* at most, usually */
    unsigned brief; /* percent of blocked calls that are made */
    unsigned weight[MOVES], total;
};

static void choose_taste(struct taste *t, uint64_t seed)
{
    uint64_t *random = &t->random;

    *random = seed * UINT64_C(0xd1342543de82ef95) + 1;
    t->ops = 300 + draw_below(random, 5) * draw_below(random, 300);
    t->gates = draw_below(random, GATES + 1);
    t->big = draw_below(random, 3) * 10;
    t->delay = draw_chance(random, 20) ? 400 : 40;
    t->brief = draw_below(random, 12);
    t->total = 0;
    for (unsigned i = 0; i < MOVES; i++) {
        t->weight[i] = usual_weight[i] * draw_below(random, 4);
        t->total += t->weight[i];
    }
    if (draw_chance(random, 10))
        t->weight[MOVE_BURST] = 1 + t->total / 400;
    t->total += t->weight[MOVE_BURST] + 1;
    t->weight[MOVE_RECORD]++;
}

static unsigned choose_move(struct taste *t)
{
    unsigned n = draw_below(&t->random, t->total), move = 0;

    while (n >= t->weight[move])
        n -= t->weight[move++];
    return move;
}

static unsigned choose_process(struct plan *plan, struct taste *t)
{
    unsigned p = draw_below(&t->random, PROCESSES);

    return plan->process[p].alive ? p : (p + 1) % PROCESSES;
}

/* Of those that can be recorded as one likes. */
static unsigned choose_var(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned n = VAR_LEVEL + ORDERLY, first = draw_below(&t->random, n);

    for (unsigned i = 0; i < n; i++) {
        unsigned var = (first + i) % n;

        var = var < VAR_LEVEL ? var : var - VAR_LEVEL + VAR_SHARED;
        if (plan_has(plan, p, var))
            return var;
    }
    return VAR_ANY;
}

/* A stream of the variable's device. */
static unsigned choose_stream_of(struct taste *t, unsigned p, unsigned var)
{
    return device_of_var(p, var) * 2 + draw_below(&t->random, 2);
}

static unsigned choose_kind(struct taste *t, unsigned var)
{
    static const uint8_t any[] = {KIND_A,      KIND_A,         KIND_C,     KIND_C,
                                  KIND_C_TIME, KIND_SYNC_TIME, KIND_C_MARK};

    if (var < VAR_LEVEL)
        return any[draw_below(&t->random, sizeof(any))];
    if (var < VAR_ACK)
        return draw_chance(&t->random, 50) ? KIND_SYNC : KIND_SYNC_TIME;
    if (var < VAR_BEGIN)
        return KIND_C;
    return draw_chance(&t->random, 50) ? KIND_A : KIND_C_TIME;
}

/* --- moves --- */

static void move_record(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned var = choose_var(plan, t, p);

    plan_record(plan, p, var, choose_stream_of(t, p, var));
}

static void move_wait(struct plan *plan, struct taste *t, unsigned p)
{
    plan_wait(plan, p, choose_var(plan, t, p), draw_below(&t->random, OWN));
}

static void move_edge(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned var = choose_var(plan, t, p), q = p;

    if (var >= VAR_SHARED && draw_chance(&t->random, 85))
        q = choose_process(plan, t);
    plan_edge(plan, p, choose_stream_of(t, p, var), var, q, draw_below(&t->random, OWN), var);
}

static void move_query(struct plan *plan, struct taste *t, unsigned p)
{
    plan_query(plan, p, choose_var(plan, t, p), draw_chance(&t->random, 15));
}

static void move_sync_event(struct plan *plan, struct taste *t, unsigned p)
{
    plan_sync_event(plan, p, choose_var(plan, t, p), draw_chance(&t->random, t->brief));
}

static void move_sleep(struct plan *plan, struct taste *t, unsigned p)
{
    plan_sleep(plan, p, choose_var(plan, t, p));
}

static void move_look(struct plan *plan, struct taste *t, unsigned p)
{
    (void)t;
    plan_look(plan, p);
}

static int32_t choose_delay(struct taste *t)
{
    return (int32_t)draw_below(&t->random, draw_chance(&t->random, 3) ? 1500 : (unsigned)t->delay);
}

static void move_delay(struct plan *plan, struct taste *t, unsigned p)
{
    static const int results[] = {ACL_ERROR_RT_AICORE_EXCEPTION, ACL_ERROR_RT_AICPU_EXCEPTION,
                                  ACL_ERROR_RT_TASK_TIMEOUT};
    unsigned stream = draw_below(&t->random, OWN);
    int32_t us = choose_delay(t);

    plan_delay(plan, p, stream, us,
               draw_chance(&t->random, 85) ? 0 : results[draw_below(&t->random, 3)]);
}

static void move_level(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned device = draw_below(&t->random, DEVICES), from = draw_below(&t->random, 2);

    plan_level(plan, p, device, from, draw_chance(&t->random, 50));
}

static void move_gate(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned gate = draw_below(&t->random, GATES), closed = 0;

    for (unsigned g = 0; g < GATES; g++)
        closed += plan->process[p].gate[g].state == GATE_CLOSED;
    if (closed < t->gates || plan->process[p].gate[gate].state == GATE_CLOSED)
        plan_gate(plan, p, gate, draw_below(&t->random, OWN));
}

static void move_open_gate(struct plan *plan, struct taste *t, unsigned p)
{
    plan_open_gate(plan, p, draw_below(&t->random, GATES));
}

static unsigned choose_cell(struct taste *t, bool big)
{
    unsigned cell;

    do
        cell = draw_below(&t->random, CELLS);
    while ((cell_size(cell) == CELL_BIG) != big);
    return cell;
}

static void move_copy(struct plan *plan, struct taste *t, unsigned p)
{
    bool big = draw_chance(&t->random, t->big);
    unsigned dst = choose_cell(t, big), src = choose_cell(t, big);

    plan_copy(plan, p, draw_below(&t->random, OWN), dst, src);
}

static void move_copy_freed(struct plan *plan, struct taste *t, unsigned p)
{
    plan_copy_freed(plan, p, draw_below(&t->random, OWN));
}

static void move_set(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned cell = choose_cell(t, draw_chance(&t->random, t->big));

    plan_set(plan, p, draw_below(&t->random, OWN), cell, (uint8_t)draw_below(&t->random, 256));
}

static void move_fill(struct plan *plan, struct taste *t, unsigned p)
{
    plan_fill(plan, p, CELLS_PINNED + draw_below(&t->random, CELLS - CELLS_PINNED));
}

static void move_check(struct plan *plan, struct taste *t, unsigned p)
{
    plan_check(plan, p, draw_below(&t->random, CELLS));
}

static void move_timed(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned stream = draw_below(&t->random, OWN);

    plan_timed(plan, p, stream, choose_delay(t));
}

static void move_elapsed(struct plan *plan, struct taste *t, unsigned p)
{
    plan_elapsed(plan, p, draw_below(&t->random, DEVICES));
}

static void move_sync_stream(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned stream = draw_below(&t->random, OWN);

    plan_sync_stream(plan, p, stream,
                     plan_blocked(plan, p, stream) && draw_chance(&t->random, t->brief));
}

static void move_sync_device(struct plan *plan, struct taste *t, unsigned p)
{
    plan_sync_device(plan, p, draw_below(&t->random, DEVICES));
}

static void move_query_stream(struct plan *plan, struct taste *t, unsigned p)
{
    plan_query_stream(plan, p, draw_below(&t->random, OWN));
}

static void move_abort(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned stream = draw_below(&t->random, OWN),
             shared = VAR_SHARED + draw_below(&t->random, ORDERLY);
    unsigned var = VAR_ANY + device_of(stream) + (draw_chance(&t->random, 50) ? DEVICES : 0);

    if (device_of_var(p, shared) != device_of(stream) || !plan_has(plan, p, shared))
        shared = NO_VAR;
    plan_abort(plan, p, stream, draw_below(&t->random, LEVEL_GATES), var, shared);
}

static void move_renew_stream(struct plan *plan, struct taste *t, unsigned p)
{
    plan_renew_stream(plan, p, draw_below(&t->random, OWN));
}

static void move_renew_event(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned var = choose_var(plan, t, p);

    if (plan_destroy(plan, p, var) && var < VAR_LEVEL)
        plan_create(plan, p, var, choose_kind(t, var));
}

static void move_wild(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned var = VAR_SHARED + WILD_FIRST + draw_below(&t->random, SHARED - WILD_FIRST);

    switch (draw_below(&t->random, 5)) {
    case 0:
        plan_wait(plan, p, var, draw_below(&t->random, OWN));
        break;
    case 1:
        plan_query(plan, p, var, 0);
        break;
    case 2:
        if (draw_chance(&t->random, 20))
            plan_sync_event(plan, p, var, false);
        break;
    case 3:
        plan_wait(plan, p, var, WILD_STREAM);
        break;
    default:
        plan_record(plan, p, var, WILD_STREAM);
        break;
    }
}

static void move_latch(struct plan *plan, struct taste *t, unsigned p)
{
    static const uint8_t some[] = {0,
                                   1,
                                   2,
                                   3,
                                   LATCH_COUNT,
                                   LATCH_COUNT + 1,
                                   LATCH_IPC,
                                   LATCH_IPC,
                                   LATCH_IPC + 1,
                                   LATCH_IPC + 1};
    unsigned latch = some[draw_below(&t->random, sizeof(some))], q = p;

    if (latch >= LATCH_IPC)
        q = choose_process(plan, t);
    plan_latch(plan, p, latch, q, draw_below(&t->random, OWN),
               device_of_latch(latch) * 2 + draw_below(&t->random, 2), draw_chance(&t->random, 50));
}

/*
 * A process that has seen a record complete must find all earlier tasks of the stream done, at
 * once.
 */
static void move_before(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned later = choose_var(plan, t, p), stream = choose_stream_of(t, p, later);
    unsigned earlier = device_of(stream) + (draw_chance(&t->random, 50) ? DEVICES : 0);

    if (plan_blocked(plan, p, stream) || earlier == later)
        return;
    plan_delay(plan, p, stream, (int32_t)draw_below(&t->random, 30), 0);
    plan_record(plan, p, earlier, stream);
    if (plan_record(plan, p, later, stream) && plan_sync_event(plan, p, later, false))
        plan_query(plan, p, earlier, 0);
}

static void move_callback(struct plan *plan, struct taste *t, unsigned p)
{
    unsigned stream = draw_below(&t->random, OWN);

    if (draw_chance(&t->random, 5))
        plan_refused_callback(plan, p, stream);
    else
        plan_callback(plan, p, stream, draw_chance(&t->random, 50));
}

static void move_callback_on(struct plan *plan, struct taste *t, unsigned p)
{
    bool write = draw_chance(&t->random, 50);
    unsigned cell = write ? CELLS_PINNED + draw_below(&t->random, CELLS - CELLS_PINNED)
                          : choose_cell(t, draw_chance(&t->random, t->big));

    plan_callback_on(plan, p, draw_below(&t->random, OWN), cell, write);
}

static void move_burst(struct plan *plan, struct taste *t, unsigned p)
{
    plan_burst(plan, p, draw_below(&t->random, OWN));
}

static void (*const moves[MOVES])(struct plan *plan, struct taste *t, unsigned p) = {
    [MOVE_RECORD] = move_record,
    [MOVE_WAIT] = move_wait,
    [MOVE_EDGE] = move_edge,
    [MOVE_QUERY] = move_query,
    [MOVE_SYNC_EVENT] = move_sync_event,
    [MOVE_SLEEP] = move_sleep,
    [MOVE_LOOK] = move_look,
    [MOVE_DELAY] = move_delay,
    [MOVE_LEVEL] = move_level,
    [MOVE_GATE] = move_gate,
    [MOVE_OPEN_GATE] = move_open_gate,
    [MOVE_COPY] = move_copy,
    [MOVE_COPY_FREED] = move_copy_freed,
    [MOVE_SET] = move_set,
    [MOVE_FILL] = move_fill,
    [MOVE_CHECK] = move_check,
    [MOVE_TIMED] = move_timed,
    [MOVE_ELAPSED] = move_elapsed,
    [MOVE_SYNC_STREAM] = move_sync_stream,
    [MOVE_SYNC_DEVICE] = move_sync_device,
    [MOVE_QUERY_STREAM] = move_query_stream,
    [MOVE_ABORT] = move_abort,
    [MOVE_RENEW_STREAM] = move_renew_stream,
    [MOVE_RENEW_EVENT] = move_renew_event,
    [MOVE_WILD] = move_wild,
    [MOVE_LATCH] = move_latch,
    [MOVE_BEFORE] = move_before,
    [MOVE_CALLBACK] = move_callback,
    [MOVE_CALLBACK_ON] = move_callback_on,
    [MOVE_BURST] = move_burst,
};

/* --- rounds --- */

/* What every process has at the beginning of a round. */
static void furnish_processes(struct plan *plan, struct taste *t)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned var = 0; var < VAR_SHARED; var++)
            plan_create(plan, p, var, choose_kind(t, var));
    for (unsigned i = 0; i < SHARED; i++)
        plan_create(plan, draw_below(&t->random, PROCESSES), VAR_SHARED + i, KIND_IPC);
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < SHARED; i++)
            if (i >= WILD_FIRST || draw_chance(&t->random, 30))
                plan_open(plan, p, i);
    /* The wild ones are there for ever. */
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < SHARED; i++)
            if (i >= WILD_FIRST || draw_chance(&t->random, 10))
                plan_export(plan, p, i);
    plan_share_latches(plan, 4);
}

/* The victim leaves records behind a gate of its own, for which others wait. */
static void leave_records(struct plan *plan, struct taste *t)
{
    unsigned victim = (unsigned)plan->victim, gate = 0;

    while (gate + 1 < LEVEL_GATES && plan->process[victim].gate[gate].state == GATE_OPENED)
        gate++;
    for (unsigned n = draw_below(&t->random, 4); n > 0; n--) {
        unsigned var = VAR_SHARED + draw_below(&t->random, ORDERLY);
        unsigned stream = choose_stream_of(t, victim, var);

        if (!plan_gate(plan, victim, gate, stream) || !plan_record(plan, victim, var, stream))
            continue;
        for (unsigned p = 0; p < PROCESSES; p++) {
            if (p == victim || draw_chance(&t->random, 40))
                continue;
            plan_wait(plan, p, var, draw_below(&t->random, OWN));
            plan_sleep(plan, p, var);
        }
    }
}

/* And notifies. */
static void leave_notifies(struct plan *plan, struct taste *t)
{
    unsigned victim = (unsigned)plan->victim, stream = draw_below(&t->random, WILD_STREAM);

    for (unsigned gate = 0; gate < LEVEL_GATES; gate++)
        if (plan_gate(plan, victim, gate, stream))
            break;
    for (unsigned n = draw_below(&t->random, 4); n > 0; n--) {
        unsigned latch = LATCH_IPC + draw_below(&t->random, 2);

        plan_latch(plan, choose_process(plan, t), latch, victim, stream,
                   device_of_latch(latch) * 2 + draw_below(&t->random, 2),
                   draw_chance(&t->random, 50));
    }
}

/* And others find out. */
static void find_records(struct plan *plan, struct taste *t)
{
    for (unsigned n = 0; n < 4; n++) {
        unsigned p = choose_process(plan, t), var = VAR_SHARED + draw_below(&t->random, ORDERLY);

        plan_look(plan, p);
        plan_sync_event(plan, p, var, false);
    }
}

static void kill_victim(struct plan *plan, struct taste *t)
{
    leave_records(plan, t);
    leave_notifies(plan, t);
    plan_death(plan, draw_chance(&t->random, 60), (int32_t)draw_below(&t->random, 400));
    find_records(plan, t);
}

void generate(struct plan *plan, struct round *round, uint64_t seed, uint32_t number, bool kill)
{
    struct taste t;
    uint64_t mixed = seed + number * UINT64_C(0x9e3779b97f4a7c15);
    unsigned death = 0;

    choose_taste(&t, draw_random(&mixed));
    round->seed = seed;
    round->number = number;
    plan_begin(plan, round, kill ? (int)draw_below(&t.random, PROCESSES) : -1);
    furnish_processes(plan, &t);
    if (kill)
        death = round->n + draw_below(&t.random, t.ops);
    for (unsigned end = round->n + t.ops; round->n < end && round->n < OPS_MAX - OPS_MARGIN;) {
        moves[choose_move(&t)](plan, &t, choose_process(plan, &t));
        if (kill && !plan->dead && (round->n >= death || round->n >= end))
            kill_victim(plan, &t);
    }
    plan_finish(plan);
    plan_end(plan);
}
