#include "tests/soak/plan_inside.h"

/* --- delays --- */

uint16_t plan_delay(struct plan *plan, unsigned p, unsigned stream, int32_t us, int32_t result)
{
    struct op *op;

    if (!room_for_error(plan, p, stream))
        return 0;
    op = op_begin(plan, DO_DELAY, p);
    task(plan, op, stream);
    op->arg = us;
    op->result = op->fails = result;
    if (result != 0)
        fail(stream_of(plan, p, stream), result, 0);
    return op_end(plan, op);
}

uint16_t plan_burst(struct plan *plan, unsigned p, unsigned stream)
{
    struct op *op;

    /* Submitting blocks while the ring is full. */
    if (plan_blocked(plan, p, stream))
        return 0;
    op = op_begin(plan, DO_BURST, p);
    task(plan, op, stream);
    op->arg = BURST;
    return op_end(plan, op);
}

/* --- gates --- */

static void close_gate(struct plan *plan, unsigned p, unsigned gate)
{
    struct gate_plan *g = &plan->process[p].gate[gate];
    struct op *op = op_begin(plan, DO_CLOSE_GATE, p);

    op->var = (uint8_t)gate;
    g->state = GATE_CLOSED;
    g->op = op_end(plan, op);
    plan->closed |= GATE_BIT(p, gate);
}

/* A callback of the last stream that does not return. It is the only one of its thread. */
static uint16_t callback_gate(struct plan *plan, unsigned p)
{
    struct gate_plan *g = &plan->process[p].gate[CALLBACK_GATE];
    struct op *op;

    if (g->state != GATE_UNUSED)
        return 0;
    op = op_begin(plan, DO_CALLBACK, p);
    task(plan, op, OWN - 1);
    op->action = CALL_STAND;
    op->block = true;
    plan->closed |= GATE_BIT(p, CALLBACK_GATE);
    stream_of(plan, p, OWN - 1)->mask |= GATE_BIT(p, CALLBACK_GATE);
    g->state = GATE_CLOSED;
    return g->op = op_end(plan, op);
}

uint16_t plan_gate(struct plan *plan, unsigned p, unsigned gate, unsigned stream)
{
    struct gate_plan *g = &plan->process[p].gate[gate];
    struct op *op;

    if (gate == CALLBACK_GATE)
        return callback_gate(plan, p);
    if (plan_is_latch_gate(gate))
        return plan_latch_gate(plan, p, gate, stream);
    if (stream == WILD_STREAM || g->state == GATE_OPENED)
        return 0;
    if (g->state == GATE_UNUSED)
        close_gate(plan, p, gate);
    op = op_begin(plan, DO_GATE, p);
    op->var = (uint8_t)gate;
    task(plan, op, stream);
    stream_of(plan, p, stream)->mask |= GATE_BIT(p, gate);
    follow(op, g->op);
    return op_end(plan, op);
}

uint16_t plan_open_gate(struct plan *plan, unsigned p, unsigned gate)
{
    struct gate_plan *g = &plan->process[p].gate[gate];
    struct op *op;

    if (g->state != GATE_CLOSED)
        return 0;
    if (plan_is_latch_gate(gate)) {
        op = plan_latch_opener(plan, p, gate);
    } else {
        op = op_begin(plan, DO_OPEN_GATE, p);
        op->var = (uint8_t)gate;
    }
    for (unsigned q = 0; q < PROCESSES; q++)
        need(plan, op, g->observer[q]);
    follow(op, g->op);
    g->state = GATE_OPENED;
    plan->closed &= ~GATE_BIT(p, gate);
    return op_end(plan, op);
}

/* --- memory --- */

static bool is_pinned(unsigned cell)
{
    return cell >= CELLS_PINNED;
}

/*
 * Which own streams have accesses to the cell that do not come before `clock` and forbid another
 * one.
 */
static unsigned find_conflicts(const struct plan *plan, unsigned p, unsigned cell, bool write,
                               const uint16_t *clock)
{
    const struct cell_plan *c = &plan->process[p].cell[cell];
    const uint16_t *host = plan->process[p].clock;
    unsigned mask = 0;

    for (unsigned s = 0; s < OWN; s++) {
        unsigned i = p * OWN + s;
        uint16_t known = clock[i] > host[i] ? clock[i] : host[i];

        if ((c->writer == (int)s && known < c->write_pos) || (write && known < c->read_pos[s]))
            mask |= 1u << s;
    }
    return mask;
}

unsigned some_var(const struct plan *plan, unsigned p, unsigned from, unsigned q)
{
    unsigned first = (unsigned)(plan->tag * 7 % VARS);

    for (unsigned i = 0; i < VARS; i++) {
        unsigned var = (first + i) % VARS, kind = kind_of(plan, p, var);

        if ((var < VAR_LEVEL ? p == q : var >= VAR_SHARED) && !is_wild(var) &&
            plan_has(plan, p, var) && plan_has(plan, q, var) && !asleep(plan, p, var) &&
            device_of_var(p, var) == device_of(from) && kind != KIND_C_MARK && kind != KIND_SYNC &&
            kind != KIND_SYNC_TIME)
            return var;
    }
    return NO_VAR;
}

/* Let the stream come after whatever forbids it the access. */
static bool order_stream(struct plan *plan, unsigned p, unsigned stream, unsigned cell, bool write)
{
    unsigned mask = find_conflicts(plan, p, cell, write, stream_of(plan, p, stream)->clock);

    for (unsigned from = 0; from < OWN; from++)
        if (mask >> from & 1) {
            unsigned var = some_var(plan, p, from, p);

            if (stream == WILD_STREAM || var == NO_VAR ||
                !plan_edge(plan, p, from, var, p, stream, var))
                return false;
        }
    return !find_conflicts(plan, p, cell, write, stream_of(plan, p, stream)->clock);
}

static bool order_host(struct plan *plan, unsigned p, unsigned cell, bool write)
{
    unsigned mask = find_conflicts(plan, p, cell, write, plan->process[p].clock);

    for (unsigned s = 0; s < OWN; s++)
        if ((mask >> s & 1) && !plan_sync_stream(plan, p, s, false))
            return false;
    return true;
}

static void read_cell(struct plan *plan, struct op *op, unsigned cell, uint16_t pos)
{
    struct cell_plan *c = &plan->process[op->process].cell[cell];

    follow(op, c->write_op);
    c->read_pos[op->stream] = pos;
}

static void write_cell(struct plan *plan, struct op *op, unsigned cell, int writer, uint16_t pos)
{
    struct cell_plan *c = &plan->process[op->process].cell[cell];

    follow(op, c->write_op);
    op->cell = (uint8_t)cell;
    *c = (struct cell_plan){.base = op->base,
                            .step = op->step,
                            .writer = (int8_t)writer,
                            .write_pos = pos,
                            .write_op = op_index(plan, op)};
}

uint16_t plan_copy(struct plan *plan, unsigned p, unsigned stream, unsigned dst, unsigned src)
{
    const struct cell_plan *from = &plan->process[p].cell[src];
    struct op *op;
    uint16_t pos;

    if (dst == src || cell_size(dst) != cell_size(src) || (is_pinned(dst) && is_pinned(src)) ||
        !order_stream(plan, p, stream, src, false) || !order_stream(plan, p, stream, dst, true))
        return 0;
    op = op_begin(plan, DO_COPY, p);
    pos = task(plan, op, stream);
    op->from = (uint8_t)src;
    op->base = from->base;
    op->step = from->step;
    read_cell(plan, op, src, pos);
    write_cell(plan, op, dst, (int)stream, pos);
    return op_end(plan, op);
}

uint16_t plan_copy_freed(struct plan *plan, unsigned p, unsigned stream)
{
    struct stream_plan *s = stream_of(plan, p, stream);
    struct op *op;

    if (!waits_on(plan, s->mask) || (plan->cut && s->tainted) || !room_for_error(plan, p, stream))
        return 0;
    op = op_begin(plan, DO_COPY_FREED, p);
    look(plan, op, s->mask);
    task(plan, op, stream);
    op->fails = ACL_ERROR_RT_SYS_DMA;
    fail(s, op->fails, 0);
    return op_end(plan, op);
}

uint16_t plan_set(struct plan *plan, unsigned p, unsigned stream, unsigned cell, uint8_t value)
{
    struct op *op;
    uint16_t pos;

    /* Host memory is set at the call. */
    if (is_pinned(cell) || !order_stream(plan, p, stream, cell, true))
        return 0;
    op = op_begin(plan, DO_SET, p);
    pos = task(plan, op, stream);
    op->arg = value;
    op->base = UINT64_C(0x0101010101010101) * value;
    write_cell(plan, op, cell, (int)stream, pos);
    return op_end(plan, op);
}

uint16_t plan_fill(struct plan *plan, unsigned p, unsigned cell)
{
    struct op *op;

    if (!is_pinned(cell) || !order_host(plan, p, cell, true))
        return 0;
    op = op_begin(plan, DO_FILL, p);
    op->base = ++plan->tag << 20;
    op->step = plan->tag * 2 + 1;
    write_cell(plan, op, cell, -1, 0);
    return op_end(plan, op);
}

uint16_t plan_check(struct plan *plan, unsigned p, unsigned cell)
{
    const struct cell_plan *c = &plan->process[p].cell[cell];
    struct op *op;

    if (!order_host(plan, p, cell, false))
        return 0;
    op = op_begin(plan, DO_CHECK, p);
    op->cell = (uint8_t)cell;
    op->base = c->base;
    op->step = c->step;
    follow(op, c->write_op);
    return op_end(plan, op);
}

/* --- callbacks --- */

static struct op *callback_begin(struct plan *plan, unsigned p, unsigned stream, bool block,
                                 unsigned action, uint16_t *pos)
{
    struct op *op = op_begin(plan, DO_CALLBACK, p);

    op->block = block || device_of(stream) == 2; /* host functions always do */
    op->action = (uint8_t)action;
    *pos = task(plan, op, stream);
    return op;
}

uint16_t plan_callback(struct plan *plan, unsigned p, unsigned stream, bool block)
{
    uint16_t pos;

    if (stream == WILD_STREAM)
        return 0;
    return op_end(plan, callback_begin(plan, p, stream, block, CALL_NOTHING, &pos));
}

uint16_t plan_callback_on(struct plan *plan, unsigned p, unsigned stream, unsigned cell, bool write)
{
    const struct cell_plan *c = &plan->process[p].cell[cell];
    struct op *op;
    uint16_t pos;

    if (stream == WILD_STREAM || (write && !is_pinned(cell)) ||
        !order_stream(plan, p, stream, cell, write))
        return 0;
    op = callback_begin(plan, p, stream, true, write ? CALL_FILL : CALL_CHECK, &pos);
    op->cell = (uint8_t)cell;
    if (write) {
        op->base = ++plan->tag << 20;
        op->step = plan->tag * 2 + 1;
        write_cell(plan, op, cell, (int)stream, pos);
    } else {
        op->base = c->base;
        op->step = c->step;
        read_cell(plan, op, cell, pos);
    }
    return op_end(plan, op);
}

uint16_t plan_refused_callback(struct plan *plan, unsigned p, unsigned stream)
{
    struct op *op;

    /* Until its first host function a stream belongs to no thread. */
    if (device_of(stream) == 2)
        return 0;
    op = op_begin(plan, DO_CALLBACK, p);
    op->stream = (uint8_t)stream;
    op->action = CALL_REFUSED;
    expect(op,
           stream == WILD_STREAM ? ACL_ERROR_RT_STREAM_NO_CB_REG : ACL_ERROR_RT_STREAM_SUBSCRIBE);
    return op_end(plan, op);
}

/* --- synchronising streams --- */

/* What the next synchronise may say of the stream. */
static void expect_errors(const struct plan *plan, const struct stream_plan *s, struct op *op)
{
    for (unsigned i = 0; i < s->errors; i++) {
        const struct record *r = &plan->record[s->error[i].record];
        int code = s->error[i].code;

        if (s->error[i].record == 0 && code > 0)
            expect(op, code);
        else if (s->error[i].record == 0)
            allow(op, LOST);
        else if (r->state != RECORD_LOST || lost_code(plan, r) != LOST)
            allow(op,
                  lost_code(plan, r)); /* a stream that comes to the wait after the abort goes on */
        else
            expect(op, LOST);
    }
}

static void stream_done(struct plan *plan, unsigned p, unsigned stream)
{
    struct stream_plan *s = stream_of(plan, p, stream);

    join(plan->process[p].clock, s->clock);
    s->done = s->clock[p * OWN + stream];
    s->errors = 0;
}

uint16_t plan_sync_stream(struct plan *plan, unsigned p, unsigned stream, bool briefly)
{
    struct stream_plan *s = stream_of(plan, p, stream);
    struct op *op;

    if (briefly != waits_on(plan, s->mask) || (briefly && plan->cut && s->tainted))
        return 0;
    op = op_begin(plan, DO_SYNC_STREAM, p);
    op->stream = (uint8_t)stream;
    op->arg = briefly ? BLOCKED_MS : GUARD_MS;
    follow(op, s->last);
    if (briefly) {
        expect(op, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        look(plan, op, s->mask);
    } else {
        expect_errors(plan, s, op);
        stream_done(plan, p, stream);
    }
    return op_end(plan, op);
}

/* Which of the two streams is reported is open, as long as one is. */
static void merge_codes(struct op *op, const struct op *a, const struct op *b)
{
    bool zero = false;

    op->codes = 0;
    for (unsigned i = 0; i < a->codes; i++)
        for (unsigned j = 0; j < b->codes; j++)
            zero |= a->code[i] == 0 && b->code[j] == 0;
    if (zero)
        allow(op, 0);
    for (unsigned i = 0; i < a->codes; i++)
        if (a->code[i] != 0)
            allow(op, a->code[i]);
    for (unsigned i = 0; i < b->codes; i++)
        if (b->code[i] != 0)
            allow(op, b->code[i]);
}

uint16_t plan_sync_device(struct plan *plan, unsigned p, unsigned device)
{
    unsigned s = device * 2;
    struct op one = {.codes = 1}, other = {.codes = 1}, *op;

    if (plan_blocked(plan, p, s) || plan_blocked(plan, p, s + 1))
        return 0;
    op = op_begin(plan, DO_SYNC_DEVICE, p);
    op->stream = (uint8_t)s;
    follow(op, stream_of(plan, p, s)->last);
    follow(op, stream_of(plan, p, s + 1)->last);
    expect_errors(plan, stream_of(plan, p, s), &one);
    expect_errors(plan, stream_of(plan, p, s + 1), &other);
    merge_codes(op, &one, &other);
    stream_done(plan, p, s);
    stream_done(plan, p, s + 1);
    return op_end(plan, op);
}

uint16_t plan_query_stream(struct plan *plan, unsigned p, unsigned stream)
{
    unsigned i = p * OWN + stream;
    const struct stream_plan *s = &plan->stream[i];
    struct op *op = op_begin(plan, DO_QUERY_STREAM, p);

    op->stream = (uint8_t)stream;
    follow(op, s->last);
    /*
     * An IPC record at its end may be seen before it is counted: that all came before it is what
     * records promise.
     */
    if (s->done == s->clock[i]) {
        op->status = STATUS_COMPLETE;
    } else if (waits_on(plan, s->mask) && !(plan->cut && s->tainted)) {
        op->status = STATUS_NOT_READY;
        look(plan, op, s->mask);
    }
    return op_end(plan, op);
}

/* What the stream has been given since it came to the gate. */
static void doom_stream(struct plan *plan, unsigned p, unsigned stream, unsigned var,
                        unsigned shared)
{
    plan->doomed = (int)(p * OWN + stream);
    plan_record(plan, p, var, stream);
    for (unsigned s = 0; s < OWN; s++)
        if (s != stream && s != WILD_STREAM && (plan->tag + s) % 3 == 0)
            plan_wait(plan, p, var, s);
    if (shared != NO_VAR && plan_record(plan, p, shared, stream))
        for (unsigned q = 0; q < PROCESSES; q++)
            if (q != p && plan_wait(plan, q, shared, (p + q) % WILD_STREAM) && (p + q) % 2)
                plan_sleep(plan, q, shared);
    plan->doomed = -1;
}

static void lose_aborted(struct plan *plan)
{
    for (unsigned i = 1; i <= plan->records; i++)
        if (plan->record[i].aborted)
            plan->record[i].state = RECORD_LOST;
    plan->cut = true;
}

uint16_t plan_abort(struct plan *plan, unsigned p, unsigned stream, unsigned gate, unsigned var,
                    unsigned shared)
{
    struct stream_plan *s = stream_of(plan, p, stream);
    uint64_t mask = s->mask;
    struct op *op;

    /* The plan does not know which tasks of it have been done, except for those it gets here. */
    if (plan->victim >= 0 || stream == WILD_STREAM || s->stamped || asleep(plan, p, var) ||
        device_of_var(p, var) != device_of(stream) ||
        plan->process[p].gate[gate].state == GATE_OPENED ||
        !plan_sync_stream(plan, p, stream, false))
        return 0;
    plan_gate(plan, p, gate, stream);
    doom_stream(plan, p, stream, var, shared);
    op = op_begin(plan, DO_ABORT, p);
    op->stream = (uint8_t)stream;
    follow(op, s->last);
    s->last = op_index(plan, op);
    for (unsigned q = 0; q < PROCESSES; q++)
        need(plan, op, plan->process[q].last_look);
    lose_aborted(plan);
    s->mask = mask;
    op_end(plan, op);
    plan_sync_stream(plan, p, stream, false);
    return plan_record(plan, p, var, stream);
}

uint16_t plan_renew_stream(struct plan *plan, unsigned p, unsigned stream)
{
    struct stream_plan *s = stream_of(plan, p, stream);
    struct op *op;

    /* Destroying waits for the end, but drops callbacks that have not begun. */
    if (waits_on(plan, s->mask) || s->stamped || !plan_sync_stream(plan, p, stream, false))
        return 0;
    op = op_begin(plan, DO_RENEW_STREAM, p);
    op->stream = (uint8_t)stream;
    follow(op, s->last);
    s->last = op_index(plan, op);
    stream_done(plan, p, stream);
    plan->process[p].timed[device_of(stream)].valid = false;
    return op_end(plan, op);
}
