/* The report on waits and deadlocks. */
#include "daemon/admin/report_topics.h"

#include <stdio.h>

#include "daemon/admin/wait_graph.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

static void describe_state(const struct wait_graph *waits, const struct blocked *b, char *buf,
                           size_t size)
{
    bool certain = b->deadlock && waits->deadlock[b->deadlock - 1].certain;

    if (b->deadlock == 0)
        snprintf(buf, size, "%s", b->timed ? "waiting (timed)" : "waiting");
    else
        snprintf(buf, size, "%s%sdeadlock %u", b->member ? "" : "behind ",
                 certain ? "" : "suspected ", b->deadlock);
}

static void report_blocked(struct rows *rows, const struct wait_graph *waits,
                           const struct blocked *b)
{
    uint64_t now = clock_ns();
    char text[128], advice[192];
    ADD_ROW(rows, Npud__WaitRow, NPUD__WAIT_ROW__INIT, r);

    r->session = b->process->id;
    r->pid = b->process->pid;
    r->program = b->process->program;
    blocked_name(b, text, sizeof(text));
    r->waiter = report_rows_copy_text(rows, text);
    blocked_describe(b, text, sizeof(text));
    r->waits_for = report_rows_copy_text(rows, text);
    blocked_describe_blocker(b, text, sizeof(text));
    r->blocker = report_rows_copy_text(rows, text);
    blocked_advise(b, advice, sizeof(advice));
    r->advice = report_rows_copy_text(rows, advice);
    describe_state(waits, b, text, sizeof(text));
    r->state = report_rows_copy_text(rows, text);
    r->for_ms = now > b->since_ns ? (now - b->since_ns) / NSEC_PER_MSEC : 0;
    r->stream = b->stream;
    r->device = b->device;
    r->kind = (char *)blocked_kind(b);
    r->object = blocked_object(b);
    r->thread = b->thread;
    r->call = report_rows_copy_text(rows, b->call);
    r->blocker_session = b->blocker ? b->blocker->id : 0;
    r->blocker_pid = b->blocker ? b->blocker->pid : 0;
    r->blocker_stream = b->blocker_stream.id;
    r->blocker_device = b->blocker_stream.device;
    r->blockers = b->blockers;
    r->blocker_thread = b->blocker_thread;
    r->timed = b->timed;
    r->deadlock = b->deadlock;
}

static void report_deadlock(struct rows *rows, const struct wait_graph *waits, size_t i)
{
    const struct deadlock *d = &waits->deadlock[i];
    char text[8192];
    ADD_ROW(rows, Npud__DeadlockRow, NPUD__DEADLOCK_ROW__INIT, r);

    deadlock_describe(d, text, sizeof(text));
    r->deadlock = (uint32_t)i + 1;
    r->certainty = d->certain ? "certain" : "suspected";
    r->processes = d->processes;
    r->members = report_rows_copy_text(rows, text);
}

/* And the deadlock that it is in or behind. */
static void tell_blocked(struct rows *rows, struct wait_graph *waits, const struct blocked *b)
{
    if (b->deadlock != 0)
        waits->deadlock[b->deadlock - 1].told = true;
    report_blocked(&rows[0], waits, b);
}

/* False: the slice is over. */
static bool report_all_blocked(struct rows *rows, struct wait_graph *waits)
{
    while (waits->row < waits->n_blocked) {
        const struct blocked *b = &waits->blocked[waits->row++];

        if (report_rows_tell(rows, b->process->uid))
            tell_blocked(rows, waits, b);
        if (waits_slice_over(waits))
            return false;
    }
    return true;
}

static bool report_deadlocks(struct rows *rows, struct wait_graph *waits)
{
    while (waits->deadlock_row < waits->n_deadlocks) {
        size_t i = waits->deadlock_row++;

        if (waits->deadlock[i].told)
            report_deadlock(&rows[1], waits, i);
        if (clock_ns() >= waits->until)
            return false;
    }
    return true;
}

/* Without memory for the graph, the report has no rows. */
void report_waits(struct server *server, struct rows *rows)
{
    struct progress *p = rows->progress;
    int r;

    if (!p->waits)
        p->waits = waits_new(server);
    if (!p->waits)
        return;
    r = waits_step(p->waits, rows->until);
    rows->more =
        r > 0 ||
        (r == 0 && !(report_all_blocked(rows, p->waits) && report_deadlocks(rows, p->waits)));
}
