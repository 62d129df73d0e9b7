#include "tests/soak/plan_inside.h"

#include <string.h>

/* --- operations --- */

uint16_t op_index(const struct plan *plan, const struct op *op)
{
    return (uint16_t)(op - plan->round->op);
}

struct op *op_begin(struct plan *plan, unsigned what, unsigned p)
{
    struct op *op = &plan->round->op[plan->round->n++];

    memset(op, 0, sizeof(*op));
    op->what = (uint8_t)what;
    op->process = (uint8_t)p;
    op->var = NO_VAR;
    op->variant = (uint8_t)(plan->tag++ % 4);
    op->codes = 1;
    op->number = plan->process[p].ops++;
    return op;
}

uint16_t op_end(struct plan *plan, const struct op *op)
{
    uint16_t i = op_index(plan, op);

    memcpy(plan->seen[i], plan->process[op->process].clock, sizeof(plan->seen[i]));
    return i;
}

void follow(struct op *op, uint16_t cause)
{
    if (cause == 0)
        return;
    for (unsigned i = 0; i < op->causes; i++)
        if (op->cause[i] == cause)
            return;
    if (op->causes < sizeof(op->cause) / sizeof(op->cause[0]))
        op->cause[op->causes++] = cause;
}

void allow(struct op *op, int code)
{
    for (unsigned i = 0; i < op->codes; i++)
        if (op->code[i] == code)
            return;
    if (op->codes < SURE_CODES)
        op->code[op->codes++] = code;
}

void expect(struct op *op, int code)
{
    op->code[0] = code;
    op->codes = 1;
}

void join(uint16_t *into, const uint16_t *clock)
{
    for (unsigned i = 0; i < STREAMS; i++)
        if (into[i] < clock[i])
            into[i] = clock[i];
}

/* The operation begins when the other one has returned. */
void need(struct plan *plan, struct op *op, uint16_t other)
{
    const struct op *o = &plan->round->op[other];

    if (other == 0)
        return;
    follow(op, other);
    if (o->process == op->process)
        return;
    if (op->need[o->process] <= o->number)
        op->need[o->process] = (uint16_t)(o->number + 1);
    join(plan->process[op->process].clock, plan->seen[other]);
}

/* --- streams --- */

struct stream_plan *stream_of(struct plan *plan, unsigned p, unsigned stream)
{
    return &plan->stream[p * OWN + stream];
}

/* The operation gives the stream something to do. Returns where. */
uint16_t task(struct plan *plan, struct op *op, unsigned stream)
{
    unsigned s = op->process * OWN + stream;
    struct stream_plan *to = &plan->stream[s];

    op->stream = (uint8_t)stream;
    join(to->clock, plan->process[op->process].clock);
    follow(op, to->last);
    to->last = op_index(plan, op);
    return ++to->clock[s];
}

bool waits_on(const struct plan *plan, uint64_t mask)
{
    return (mask & plan->closed) != 0;
}

bool plan_blocked(const struct plan *plan, unsigned p, unsigned stream)
{
    return waits_on(plan, plan->stream[p * OWN + stream].mask);
}

/* What was found depends on a closed gate: the process that opens it comes later. */
void look(struct plan *plan, struct op *op, uint64_t mask)
{
    unsigned g = (unsigned)__builtin_ctzll(mask & plan->closed);
    struct gate_plan *gate = &plan->process[g / GATES].gate[g % GATES];

    gate->observer[op->process] = op_index(plan, op);
    plan->process[op->process].last_look = op_index(plan, op);
    follow(op, gate->op);
}

bool room_for_error(const struct plan *plan, unsigned p, unsigned stream)
{
    return plan->stream[p * OWN + stream].errors < ERRORS_MAX;
}

void fail(struct stream_plan *s, int code, uint16_t record)
{
    s->error[s->errors].code = code;
    s->error[s->errors++].record = record;
}

/* --- rounds --- */

static void new_process(struct process_plan *p)
{
    memset(p, 0, sizeof(*p));
    p->alive = true;
    p->sleeping = NO_VAR;
    for (unsigned c = 0; c < CELLS; c++)
        p->cell[c].writer = -1;
}

void plan_init(struct plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    plan->doomed = -1;
    for (unsigned p = 0; p < PROCESSES; p++)
        new_process(&plan->process[p]);
}

static void retire_latest(struct plan *plan, struct latest *l)
{
    if (l->record == 0)
        return;
    l->old = plan->record[l->record].state;
    if (l->old == RECORD_LIVE)
        l->old = RECORD_DONE;
    l->record = 0;
}

static void end_process(struct plan *plan, struct process_plan *p)
{
    for (unsigned v = 0; v < VAR_SHARED; v++)
        retire_latest(plan, &p->var[v].latest);
    for (unsigned c = 0; c < CELLS; c++)
        p->cell[c] =
            (struct cell_plan){.base = p->cell[c].base, .step = p->cell[c].step, .writer = -1};
    memset(p->clock, 0, sizeof(p->clock));
    memset(p->gate, 0, sizeof(p->gate));
    memset(p->timed, 0, sizeof(p->timed));
    memset(p->latch, 0, sizeof(p->latch));
    p->exported = 0;
    p->ops = p->last_look = p->sleep_op = 0;
    p->stamps = 0;
}

void plan_begin(struct plan *plan, struct round *round, int victim)
{
    plan->round = round;
    plan->victim = round->victim = victim;
    round->n = 1;
    round->n_edges = 0;
    round->death = 0;
}

void plan_end(struct plan *plan)
{
    for (unsigned i = 0; i < SHARED; i++) {
        retire_latest(plan, &plan->shared[i].latest);
        plan->shared[i].writer = 0;
        memset(plan->shared[i].reader, 0, sizeof(plan->shared[i].reader));
        memset(plan->shared[i].exported, 0, sizeof(plan->shared[i].exported));
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        plan->round->own[p] = plan->process[p].ops;
        end_process(plan, &plan->process[p]);
    }
    memset(plan->stream, 0, sizeof(plan->stream));
    plan->records = 0;
    plan->closed = 0;
    plan->wild_death |= plan->dead;
    for (unsigned p = 0; p < PROCESSES && plan->dead; p++)
        plan->process[p].imported = (uint8_t)(plan->process[p].imported & ~(1u << plan->victim));
    if (plan->dead)
        new_process(&plan->process[plan->victim]);
    plan->dead = plan->cut = false;
    plan->victim = -1;
}

static void finish_streams(struct plan *plan, unsigned p)
{
    while (plan_look(plan, p) != 0)
        ;
    for (unsigned s = 0; s < OWN; s++)
        plan_sync_stream(plan, p, (s + p) % OWN, false);
    op_end(plan, op_begin(plan, DO_AWAIT_CALLBACKS, p));
    for (unsigned k = 0; k < VAR_SHARED - VAR_STAMP; k++)
        if (plan->process[p].stamps >> k & 1) {
            struct op *op = op_begin(plan, DO_STAMP, p);

            op->var = (uint8_t)(VAR_STAMP + k);
            op_end(plan, op);
        }
}

/* Everybody has got here: what all know is known to each. */
static void meet_all(struct plan *plan, unsigned p, const uint16_t *last)
{
    struct op *op = op_begin(plan, DO_MEET, p);

    for (unsigned q = 0; q < PROCESSES; q++)
        need(plan, op, last[q]);
    op->causes = 0; /* nothing in particular */
    op_end(plan, op);
}

static void finish_events(struct plan *plan, unsigned p)
{
    for (unsigned c = 0; c < CELLS; c++)
        plan_check(plan, p, c);
    for (unsigned var = 0; var < VARS; var++)
        plan_query(plan, p, var, 0);
}

void plan_finish(struct plan *plan)
{
    uint16_t last[PROCESSES] = {0};

    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned g = 0; g < GATES && plan->process[p].alive; g++)
            plan_open_gate(plan, p, g);
    for (unsigned p = 0; p < PROCESSES; p++)
        if (plan->process[p].alive) {
            finish_streams(plan, p);
            last[p] = (uint16_t)(plan->round->n - 1);
        }
    for (unsigned p = 0; p < PROCESSES; p++)
        if (plan->process[p].alive) {
            meet_all(plan, p, last);
            finish_events(plan, p);
        }
}
/* --- death --- */

int lost_code(const struct plan *plan, const struct record *r)
{
    bool local = r->aborted && plan->round->op[r->op].var < VAR_SHARED;

    return local ? ACL_ERROR_RT_STREAM_ABORT : LOST;
}

/* What becomes of the records of the victim. */
static void decide_records(struct plan *plan)
{
    uint64_t own = ((UINT64_C(1) << GATES) - 1) << (plan->victim * GATES);

    for (unsigned i = 1; i <= plan->records; i++) {
        struct record *r = &plan->record[i];

        if (r->stream / OWN == (unsigned)plan->victim)
            r->state = r->mask & plan->closed & own ? RECORD_LOST : RECORD_MAYBE;
    }
    plan->closed &= ~own;
}

static void leave_events(struct plan *plan, unsigned victim)
{
    if (plan->process[victim].sleeping != NO_VAR)
        set_asleep(plan, victim, plan->process[victim].sleeping, false);
    for (unsigned i = 0; i < SHARED; i++) {
        struct shared *e = &plan->shared[i];

        e->holders = (uint8_t)(e->holders & ~(1u << victim));
        e->exporters = (uint8_t)(e->exporters & ~(1u << victim));
        e->exists = e->holders != 0;
    }
}

uint16_t plan_death(struct plan *plan, bool wild, int32_t after)
{
    unsigned victim = (unsigned)plan->victim;
    struct op *op = op_begin(plan, wild ? DO_RUN_WILD : DO_DIE, victim);

    op->arg = after;
    /* What was not ready has been seen. */
    for (unsigned q = 0; q < PROCESSES; q++)
        need(plan, op, plan->process[q].last_look);
    decide_records(plan);
    leave_events(plan, victim);
    plan->dead = plan->cut = true;
    plan->process[victim].alive = false;
    plan->round->death = op_index(plan, op);
    return op_end(plan, op);
}
