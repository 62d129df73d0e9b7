/* Notifies and count notifies. */
#include "tests/soak/plan_inside.h"

bool plan_is_latch_gate(unsigned gate)
{
    return gate == NOTIFY_GATE || gate == IPC_NOTIFY_GATE;
}

static unsigned latch_of_gate(unsigned gate)
{
    return gate == NOTIFY_GATE ? LATCH_GATE : LATCH_IPC_GATE;
}

/* --- sharing --- */

static void import_latch(struct plan *plan, unsigned p, unsigned q, bool refused)
{
    struct op *op;
    uint16_t before = plan->process[p].exported;

    if (refused) {
        op = op_begin(plan, DO_IMPORT_REFUSED, q);
        op->from = (uint8_t)p;
        need(plan, op, before);
        expect(op, ACL_ERROR_RT_NO_PERMISSION);
        before = op_end(plan, op);
    }
    op = op_begin(plan, DO_ADMIT, p);
    op->from = (uint8_t)q;
    need(plan, op, before);
    need(plan, op, plan->process[q].exported);
    before = op_end(plan, op);
    op = op_begin(plan, DO_IMPORT, q);
    op->from = (uint8_t)p;
    need(plan, op, before);
    op_end(plan, op);
    /* Before the creator dies. */
    plan->process[q].last_look = op_index(plan, op);
    plan->process[q].imported = (uint8_t)(plan->process[q].imported | 1u << p);
}

void plan_share_latches(struct plan *plan, unsigned refused_of)
{
    unsigned n = 0;

    for (unsigned p = 0; p < PROCESSES; p++)
        if (!plan->process[p].exports) {
            struct op *op = op_begin(plan, DO_EXPORT_KEYS, p);

            plan->process[p].exports = true;
            plan->process[p].exported = op_end(plan, op);
        }
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned q = 0; q < PROCESSES; q++)
            if (p != q && !(plan->process[q].imported >> p & 1))
                import_latch(plan, p, q, n++ % refused_of == 0);
}

/* --- gates --- */

uint16_t plan_latch_gate(struct plan *plan, unsigned p, unsigned gate, unsigned stream)
{
    struct gate_plan *g = &plan->process[p].gate[gate];
    unsigned latch = latch_of_gate(gate);
    struct op *op;

    if (g->state != GATE_UNUSED || stream == WILD_STREAM ||
        device_of(stream) != device_of_latch(latch))
        return 0;
    op = op_begin(plan, DO_LATCH_WAIT, p);
    op->var = (uint8_t)latch;
    op->from = (uint8_t)p;
    task(plan, op, stream);
    plan->closed |= GATE_BIT(p, gate);
    stream_of(plan, p, stream)->mask |= GATE_BIT(p, gate);
    g->state = GATE_CLOSED;
    return g->op = op_end(plan, op);
}

/* Another process opens it, from its default stream. */
struct op *plan_latch_opener(struct plan *plan, unsigned p, unsigned gate)
{
    unsigned q = p;
    struct op *op;

    for (unsigned i = 1; gate == IPC_NOTIFY_GATE && i < PROCESSES && q == p; i++) {
        unsigned other = (p + i * 3) % PROCESSES;

        if (plan->process[other].alive && (int)other != plan->victim &&
            (plan->process[other].imported >> p & 1))
            q = other;
    }
    op = op_begin(plan, DO_LATCH_RECORD, q);
    op->var = (uint8_t)latch_of_gate(gate);
    op->from = (uint8_t)p;
    op->service = true;
    return op;
}

/* --- edges --- */

/* Does the stream come after the latest wait for the latch? If not, let it. */
static bool after_wait(struct plan *plan, unsigned p, const struct latch_plan *l, unsigned q,
                       unsigned stream)
{
    unsigned i = p * OWN + (unsigned)l->waiter, var;

    if (l->wait_pos == 0 || stream_of(plan, q, stream)->clock[i] >= l->wait_pos ||
        plan->process[q].clock[i] >= l->wait_pos)
        return true;
    var = some_var(plan, p, (unsigned)l->waiter, q);
    return var != NO_VAR && plan_edge(plan, p, (unsigned)l->waiter, var, q, stream, var) &&
           stream_of(plan, q, stream)->clock[i] >= l->wait_pos;
}

static uint16_t latch_record(struct plan *plan, unsigned p, unsigned latch, unsigned q,
                             unsigned stream, int32_t value)
{
    struct op *op = op_begin(plan, DO_LATCH_RECORD, q);

    op->var = (uint8_t)latch;
    op->from = (uint8_t)p;
    op->arg = value;
    new_record(plan, op, task(plan, op, stream));
    return op_end(plan, op);
}

static uint16_t latch_wait(struct plan *plan, unsigned p, unsigned latch, unsigned stream,
                           int32_t value)
{
    struct latch_plan *l = &plan->process[p].latch[latch];
    struct op *op = op_begin(plan, DO_LATCH_WAIT, p);

    op->var = (uint8_t)latch;
    op->from = (uint8_t)p;
    op->arg = value;
    l->wait_pos = task(plan, op, stream);
    l->waiter = (int8_t)stream;
    return op_end(plan, op);
}

/*
 * May process q record a notify of p? If q is going to die, not when an earlier wait may still be
 * there: a record that is dropped is in no order with that.
 */
static bool may_record(const struct plan *plan, unsigned p, unsigned latch, unsigned q)
{
    const struct latch_plan *l = &plan->process[p].latch[latch];

    if (latch < LATCH_IPC || plan->victim == (int)p || !(plan->process[q].imported >> p & 1))
        return false;
    return plan->victim != (int)q || l->wait_pos == 0 ||
           plan->process[q].clock[p * OWN + (unsigned)l->waiter] >= l->wait_pos;
}

uint16_t plan_latch(struct plan *plan, unsigned p, unsigned latch, unsigned q, unsigned from,
                    unsigned to, bool early)
{
    struct latch_plan *l = &plan->process[p].latch[latch];
    int32_t value = 1 + (int32_t)(plan->tag % 1000);
    uint16_t wait = 0, record;

    if (device_of(to) != device_of_latch(latch) || to == WILD_STREAM ||
        (p != q && !may_record(plan, p, latch, q)) || (early && p == q && from == to) ||
        plan->records + 20 > OPS_MAX || !after_wait(plan, p, l, q, from) ||
        !after_wait(plan, p, l, p, to) || !room_for_error(plan, p, to))
        return 0;
    if (early)
        wait = latch_wait(plan, p, latch, to, value);
    record = latch_record(plan, p, latch, q, from, value);
    if (!early)
        wait = latch_wait(plan, p, latch, to, value);
    follow(&plan->round->op[early ? record : wait], early ? wait : record);
    comes_after(plan, &plan->round->op[wait], (uint16_t)plan->records, to);
    return record;
}
