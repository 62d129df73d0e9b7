#include "tests/soak/plan_inside.h"

#include <string.h>

/* --- events --- */

static struct shared *shared_of(struct plan *plan, unsigned var)
{
    return &plan->shared[var - VAR_SHARED];
}

bool is_wild(unsigned var)
{
    return var >= VAR_SHARED + WILD_FIRST;
}

bool plan_has(const struct plan *plan, unsigned p, unsigned var)
{
    if (var < VAR_SHARED)
        return plan->process[p].var[var].live;
    return plan->shared[var - VAR_SHARED].holders >> p & 1;
}

unsigned kind_of(const struct plan *plan, unsigned p, unsigned var)
{
    return var < VAR_SHARED ? plan->process[p].var[var].kind : KIND_IPC;
}

struct latest *latest_of(struct plan *plan, unsigned p, unsigned var)
{
    return var < VAR_SHARED ? &plan->process[p].var[var].latest : &shared_of(plan, var)->latest;
}

bool asleep(const struct plan *plan, unsigned p, unsigned var)
{
    return var < VAR_SHARED ? plan->process[p].var[var].asleep
                            : plan->shared[var - VAR_SHARED].asleep != 0;
}

static void note_read(struct plan *plan, struct op *op, unsigned var)
{
    struct shared *e;

    op->var = (uint8_t)var;
    if (var < VAR_SHARED || is_wild(var))
        return;
    e = shared_of(plan, var);
    need(plan, op, e->writer);
    e->reader[op->process] = op_index(plan, op);
}

static void note_write(struct plan *plan, struct op *op, unsigned var)
{
    struct shared *e;

    op->var = (uint8_t)var;
    if (var < VAR_SHARED)
        return;
    e = shared_of(plan, var);
    if (is_wild(var) && op->what == DO_RECORD)
        return;
    need(plan, op, e->writer);
    for (unsigned p = 0; p < PROCESSES; p++)
        need(plan, op, e->reader[p]);
    e->writer = op_index(plan, op);
    memset(e->reader, 0, sizeof(e->reader));
}

static uint16_t export_shared(struct plan *plan, unsigned p, unsigned var)
{
    struct shared *e = shared_of(plan, var);
    struct op *op;

    e->exists = true;
    e->holders = e->exporters = (uint8_t)(1u << p);
    e->latest = (struct latest){0};
    op = op_begin(plan, DO_EXPORT, p);
    note_write(plan, op, var);
    return op_end(plan, op);
}

uint16_t plan_create(struct plan *plan, unsigned p, unsigned var, unsigned kind)
{
    struct op *op;

    if (var < VAR_SHARED ? plan->process[p].var[var].live : shared_of(plan, var)->exists)
        return 0;
    op = op_begin(plan, DO_CREATE, p);
    op->var = (uint8_t)var;
    op->kind = (uint8_t)(var < VAR_SHARED ? kind : KIND_IPC);
    op_end(plan, op);
    if (var >= VAR_SHARED)
        return export_shared(plan, p, var);
    plan->process[p].var[var] = (struct plain){.live = true, .kind = (uint8_t)kind};
    return op_index(plan, op);
}

uint16_t plan_destroy(struct plan *plan, unsigned p, unsigned var)
{
    struct op *op;

    if (!plan_has(plan, p, var) || plan->process[p].sleeping == var)
        return 0;
    op = op_begin(plan, DO_DESTROY, p);
    op->var = (uint8_t)var;
    if (var < VAR_SHARED) {
        plan->process[p].var[var].live = false;
    } else {
        struct shared *e = shared_of(plan, var);

        e->reader[p] = op_index(plan, op);
        e->holders = (uint8_t)(e->holders & ~(1u << p));
        e->exists = e->holders != 0;
    }
    return op_end(plan, op);
}

uint16_t plan_open(struct plan *plan, unsigned p, unsigned shared)
{
    struct shared *e = &plan->shared[shared];
    struct op *op;

    if (!e->exists || e->exporters == 0 || e->holders >> p & 1)
        return 0;
    op = op_begin(plan, DO_OPEN, p);
    op->var = (uint8_t)(VAR_SHARED + shared);
    need(plan, op, e->writer);
    for (unsigned q = 0; q < PROCESSES; q++)
        need(plan, op, e->exported[q]);
    e->reader[p] = op_index(plan, op);
    plan->process[p].last_look = op_index(plan, op); /* before the creator dies */
    e->holders = (uint8_t)(e->holders | 1u << p);
    return op_end(plan, op);
}

uint16_t plan_export(struct plan *plan, unsigned p, unsigned shared)
{
    struct shared *e = &plan->shared[shared];
    struct op *op;

    if (!(e->holders >> p & 1) || e->exporters >> p & 1)
        return 0;
    op = op_begin(plan, DO_EXPORT_AGAIN, p);
    note_read(plan, op, VAR_SHARED + shared);
    e->exporters = (uint8_t)(e->exporters | 1u << p);
    e->exported[p] = op_index(plan, op);
    return op_end(plan, op);
}

/* --- records --- */

struct record *new_record(struct plan *plan, const struct op *op, uint16_t pos)
{
    unsigned s = op->process * OWN + op->stream;
    struct record *r = &plan->record[++plan->records];

    r->state = RECORD_LIVE;
    r->stream = (uint8_t)s;
    r->aborted = plan->doomed == (int)s;
    r->weak = op->process == plan->victim || r->aborted;
    r->tainted = plan->stream[s].tainted;
    r->pos = pos;
    r->op = op_index(plan, op);
    r->mask = plan->stream[s].mask;
    memcpy(r->clock, plan->stream[s].clock, sizeof(r->clock));
    return r;
}

uint16_t plan_record(struct plan *plan, unsigned p, unsigned var, unsigned stream)
{
    struct op *op;
    uint16_t pos;

    if (!plan_has(plan, p, var) || asleep(plan, p, var) || plan->records + 1 == OPS_MAX ||
        device_of_var(p, var) != device_of(stream) || (is_wild(var) && stream != WILD_STREAM))
        return 0;
    op = op_begin(plan, DO_RECORD, p);
    note_write(plan, op, var);
    pos = task(plan, op, stream);
    if (!is_wild(var)) {
        new_record(plan, op, pos);
        *latest_of(plan, p, var) = (struct latest){.record = (uint16_t)plan->records};
    }
    return op_end(plan, op);
}

/* Does p know that it is complete? */
bool complete(const struct plan *plan, unsigned p, const struct record *r)
{
    return !r->aborted && plan->process[p].clock[r->stream] >= r->pos;
}

/* May it be lost, as far as p can tell? */
static bool is_doubtful(const struct plan *plan, unsigned p, const struct record *r)
{
    return r->weak && (r->aborted || (int)p != plan->victim) && !complete(plan, p, r);
}

void comes_after(struct plan *plan, struct op *op, uint16_t record, unsigned stream)
{
    struct stream_plan *s = stream_of(plan, op->process, stream);
    const struct record *r = &plan->record[record];

    follow(op, r->op);
    s->mask |= r->mask;
    s->tainted |= r->tainted;
    if (is_doubtful(plan, op->process, r)) {
        s->tainted = true;
        fail(s, 0, record);
        op->fails = -lost_code(plan, r);
    } else {
        join(s->clock, r->clock);
    }
}

/* The stream waits for the latest record of an event. */
static void wait_latest(struct plan *plan, struct op *op, struct latest *latest, unsigned stream)
{
    struct stream_plan *s = stream_of(plan, op->process, stream);

    task(plan, op, stream);
    if (latest->record != 0) {
        comes_after(plan, op, latest->record, stream);
    } else if (latest->old == RECORD_LOST || latest->old == RECORD_MAYBE) {
        op->fails = latest->old == RECORD_LOST ? LOST : -LOST;
        fail(s, op->fails, 0);
    }
}

static uint16_t wait_wild(struct plan *plan, unsigned p, unsigned var, unsigned stream)
{
    struct op *op = op_begin(plan, DO_WAIT, p);

    op->var = (uint8_t)var;
    task(plan, op, stream);
    if (plan->victim >= 0 || plan->wild_death) {
        op->fails = -LOST;
        fail(stream_of(plan, p, stream), -LOST, 0);
    }
    return op_end(plan, op);
}

bool recorded(const struct latest *l)
{
    return l->record != 0 || l->old != RECORD_NONE;
}

uint16_t plan_wait(struct plan *plan, unsigned p, unsigned var, unsigned stream)
{
    unsigned kind = kind_of(plan, p, var);
    struct latest *latest = latest_of(plan, p, var);
    struct op *op;

    if (!plan_has(plan, p, var) || !room_for_error(plan, p, stream))
        return 0;
    if (is_wild(var))
        return wait_wild(plan, p, var, stream);
    if (stream == WILD_STREAM || kind == KIND_SYNC || kind == KIND_SYNC_TIME)
        return 0;
    op = op_begin(plan, DO_WAIT, p);
    op->stream = (uint8_t)stream;
    note_read(plan, op, var);
    if (kind == KIND_C_MARK)
        expect(op, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    else if (kind == KIND_A && !recorded(latest))
        expect(op, ACL_ERROR_RT_PARAM_INVALID);
    else
        wait_latest(plan, op, latest, stream);
    return op_end(plan, op);
}

/* --- asking --- */

static void expect_doubt(struct op *op, const struct record *r)
{
    if (r->state == RECORD_LOST)
        expect(op, LOST);
    else
        allow(op, LOST);
}

static void expect_old(struct op *op, uint8_t state)
{
    if (state == RECORD_LOST)
        expect(op, LOST);
    else if (state == RECORD_MAYBE)
        allow(op, LOST);
    else
        op->status = STATUS_COMPLETE;
}

static void expect_status(struct plan *plan, struct op *op, const struct record *r)
{
    bool sure = !plan->cut || !(r->tainted || r->weak);

    follow(op, r->op);
    if (complete(plan, op->process, r)) {
        op->status = STATUS_COMPLETE;
    } else if (sure && waits_on(plan, r->mask)) {
        op->status = STATUS_NOT_READY;
        look(plan, op, r->mask);
    } else if (is_doubtful(plan, op->process, r)) {
        allow(op, LOST);
    }
}

static uint8_t status_of_new(unsigned kind, bool old_call)
{
    return old_call || kind >= KIND_C ? STATUS_COMPLETE : STATUS_NOT_READY;
}

uint16_t plan_query(struct plan *plan, unsigned p, unsigned var, unsigned variant)
{
    const struct latest *latest = latest_of(plan, p, var);
    unsigned kind = kind_of(plan, p, var);
    struct op *op;

    if (!plan_has(plan, p, var))
        return 0;
    op = op_begin(plan, DO_QUERY, p);
    op->variant = (uint8_t)(variant & 1);
    op->kind = (uint8_t)kind;
    note_read(plan, op, var);
    if (op->variant == 1 && kind >= KIND_C) {
        expect(op, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    } else if (is_wild(var)) {
        if (plan->victim >= 0 || plan->wild_death)
            allow(op, LOST);
    } else if (latest->record != 0) {
        expect_status(plan, op, &plan->record[latest->record]);
    } else if (recorded(latest)) {
        expect_old(op, latest->old);
    } else {
        op->status = status_of_new(kind, op->variant == 1);
    }
    return op_end(plan, op);
}

/* Blocked, except for records whose state the plan cannot know. */
bool surely_blocked(const struct plan *plan, const struct record *r)
{
    return waits_on(plan, r->mask) && !(plan->cut && (r->tainted || r->weak));
}

static void sync_record(struct plan *plan, struct op *op, const struct record *r)
{
    unsigned p = op->process;

    follow(op, r->op);
    if (is_doubtful(plan, p, r))
        expect_doubt(op, r);
    else
        join(plan->process[p].clock, r->clock);
}

uint16_t plan_sync_event(struct plan *plan, unsigned p, unsigned var, bool briefly)
{
    struct latest *latest = latest_of(plan, p, var);
    const struct record *r = &plan->record[latest->record];
    struct op *op;

    if (!plan_has(plan, p, var))
        return 0;
    if (briefly != (latest->record != 0 && surely_blocked(plan, r)))
        return 0;
    if (!briefly && latest->record != 0 && waits_on(plan, r->mask))
        return 0;
    op = op_begin(plan, DO_SYNC_EVENT, p);
    note_read(plan, op, var);
    op->arg = briefly ? BLOCKED_MS : GUARD_MS;
    if (briefly) {
        expect(op, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
        follow(op, r->op);
        look(plan, op, r->mask);
    } else if (is_wild(var)) {
        if (plan->victim >= 0 || plan->wild_death)
            allow(op, LOST);
    } else if (latest->record != 0) {
        sync_record(plan, op, r);
    } else {
        expect_old(op, latest->old);
    }
    return op_end(plan, op);
}

void set_asleep(struct plan *plan, unsigned p, unsigned var, bool sleeps)
{
    struct shared *e = var < VAR_SHARED ? NULL : shared_of(plan, var);

    if (e)
        e->asleep = (uint8_t)(e->asleep + (sleeps ? 1 : -1));
    else
        plan->process[p].var[var].asleep = sleeps;
    plan->process[p].sleeping = sleeps ? (uint8_t)var : NO_VAR;
}

uint16_t plan_sleep(struct plan *plan, unsigned p, unsigned var)
{
    const struct latest *latest = latest_of(plan, p, var);
    struct op *op;

    if (!plan_has(plan, p, var) || plan->process[p].sleeping != NO_VAR || is_wild(var) ||
        latest->record == 0)
        return 0;
    op = op_begin(plan, DO_SLEEP, p);
    note_read(plan, op, var);
    follow(op, plan->record[latest->record].op);
    set_asleep(plan, p, var, true);
    plan->process[p].sleep_op = op_index(plan, op);
    return op_end(plan, op);
}

uint16_t plan_look(struct plan *plan, unsigned p)
{
    unsigned var = plan->process[p].sleeping;
    const struct record *r;
    struct op *op;

    if (var == NO_VAR)
        return 0;
    r = &plan->record[latest_of(plan, p, var)->record];
    if (waits_on(plan, r->mask) && !surely_blocked(plan, r))
        return 0;
    op = op_begin(plan, waits_on(plan, r->mask) ? DO_PEEK : DO_JOIN, p);
    follow(op, plan->process[p].sleep_op);
    if (op->what == DO_PEEK) {
        op->var = (uint8_t)var;
        look(plan, op, r->mask);
    } else {
        note_read(plan, op, var);
        set_asleep(plan, p, var, false);
        sync_record(plan, op, r);
    }
    return op_end(plan, op);
}

/* --- levels --- */

static uint16_t level_op(struct plan *plan, unsigned p, unsigned what, unsigned device,
                         unsigned stream)
{
    struct op *op = op_begin(plan, what, p);

    op->var = (uint8_t)(VAR_LEVEL + device);
    task(plan, op, stream);
    return op_end(plan, op);
}

static uint16_t level_record(struct plan *plan, unsigned p, unsigned device, unsigned stream)
{
    return plan_record(plan, p, VAR_LEVEL + device, stream);
}

uint16_t plan_level(struct plan *plan, unsigned p, unsigned device, unsigned from, bool early)
{
    unsigned a = device * 2 + from, b = device * 2 + (from ^ 1);
    struct plain *var = plan->process[p].var;
    struct stream_plan *to = stream_of(plan, p, b);
    uint16_t wait, record;

    if (device_of(WILD_STREAM) == device || !room_for_error(plan, p, a) ||
        !room_for_error(plan, p, b) || var[VAR_LEVEL + device].asleep ||
        var[VAR_ACK + device].asleep)
        return 0;
    if (recorded(&var[VAR_ACK + device].latest)) {
        plan_wait(plan, p, VAR_ACK + device, a);
        plan_wait(plan, p, VAR_ACK + device, b);
    }
    wait = early ? level_op(plan, p, DO_WAIT, device, b) : 0;
    record = level_record(plan, p, device, a);
    if (!early)
        wait = level_op(plan, p, DO_WAIT, device, b);
    to->mask |= plan->record[plan->records].mask;
    to->tainted |= plan->record[plan->records].tainted;
    join(to->clock, plan->record[plan->records].clock);
    follow(&plan->round->op[early ? record : wait], early ? wait : record);
    level_op(plan, p, DO_LOWER, device, b);
    follow(&plan->round->op[plan->round->n - 1], record);
    return plan_record(plan, p, VAR_ACK + device, b);
}

/* --- times --- */

uint16_t plan_timed(struct plan *plan, unsigned p, unsigned stream, int32_t us)
{
    unsigned d = device_of(stream);
    struct timed *t = &plan->process[p].timed[d];

    if (plan->process[p].var[VAR_BEGIN + d].asleep || plan->process[p].var[VAR_END + d].asleep ||
        !room_for_error(plan, p, stream))
        return 0;
    t->valid = plan_record(plan, p, VAR_BEGIN + d, stream) != 0;
    plan_delay(plan, p, stream, us, 0);
    t->us = us;
    return plan_record(plan, p, VAR_END + d, stream);
}

uint16_t plan_elapsed(struct plan *plan, unsigned p, unsigned device)
{
    const struct timed *t = &plan->process[p].timed[device];
    const struct record *r = &plan->record[plan->process[p].var[VAR_END + device].latest.record];
    struct op *op;

    if (!t->valid || (!complete(plan, p, r) && !surely_blocked(plan, r)))
        return 0;
    op = op_begin(plan, DO_ELAPSED, p);
    op->var = (uint8_t)device;
    follow(op, r->op);
    if (complete(plan, p, r)) {
        op->at_least = (float)t->us / 1000;
    } else {
        expect(op, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
        look(plan, op, r->mask);
    }
    return op_end(plan, op);
}

/* A time stamp variable of p that may be recorded on the stream. */
static unsigned stamp_var(struct plan *plan, unsigned p, unsigned stream)
{
    for (unsigned var = VAR_STAMP; var < VAR_SHARED; var++)
        if (device_of_var(p, var) == device_of(stream) &&
            !(plan->process[p].stamps >> (var - VAR_STAMP) & 1))
            return var;
    return NO_VAR;
}

static void record_stamp(struct plan *plan, unsigned p, unsigned var, unsigned stream)
{
    plan_record(plan, p, var, stream);
    plan->process[p].stamps |= 1u << (var - VAR_STAMP);
    stream_of(plan, p, stream)->stamped = true;
}

uint16_t plan_edge(struct plan *plan, unsigned p, unsigned from, unsigned pvar, unsigned q,
                   unsigned to, unsigned qvar)
{
    unsigned before = stamp_var(plan, p, from), after = stamp_var(plan, q, to);
    struct round *r = plan->round;
    bool stamped = p != q && before != NO_VAR && after != NO_VAR && plan->victim != (int)p &&
                   plan->victim != (int)q && r->n_edges < sizeof(r->edge) / sizeof(r->edge[0]);
    uint16_t op;

    if (!plan_has(plan, q, qvar) || to == WILD_STREAM || !room_for_error(plan, q, to))
        return 0;
    if (stamped)
        record_stamp(plan, p, before, from);
    if (!plan_record(plan, p, pvar, from))
        return 0;
    op = plan_wait(plan, q, qvar, to);
    if (op == 0 || !stamped)
        return op;
    record_stamp(plan, q, after, to);
    r->edge[r->n_edges++] = (struct edge){.from_process = (uint8_t)p,
                                          .from_var = (uint8_t)before,
                                          .to_process = (uint8_t)q,
                                          .to_var = (uint8_t)after,
                                          .op = op};
    return op;
}
