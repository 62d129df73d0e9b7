#include "daemon/engine/work.h"

#include <assert.h>
#include <stddef.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/filled.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/value.h"
#include "daemon/memory/allocation.h"
#include "proto/shm/executor_shm.h"
#include "proto/shm/task.h"
#include "proto/util/clock.h"
#include "proto/util/reduce.h"

#define DELAY_MAX_NS (3600 * NSEC_PER_SEC)
#define WORD         sizeof(uint64_t)

/* --- memory that work uses --- */

static_assert(offsetof(struct task, copy.src) == offsetof(struct task, reduce.src) &&
                  offsetof(struct task, copy.src_generation) ==
                      offsetof(struct task, reduce.src_generation),
              "a source is in the same place");
static_assert(offsetof(struct task, copy.src) == offsetof(struct task, launch.src) &&
                  offsetof(struct task, copy.src_generation) ==
                      offsetof(struct task, launch.src_generation),
              "arguments, too");

/* What a task that has not begun names first: a binary, or memory. */
static struct mem *find_target(const struct stream *s, const struct task *t)
{
    return t->op == TASK_LAUNCH ? allocation_get_binary(s->session, t->object, t->generation)
                                : allocation_get(s->session, t->object, t->generation);
}

/* Work that has begun keeps what it has; what is to begin does not find what was freed. */
static struct mem *target_of(struct stream *s)
{
    const struct task *t = &s->live->task;

    return s->uses[0] ? s->uses[0] : find_target(s, t);
}

static struct mem *source_of(struct stream *s)
{
    const struct task *t = &s->live->task;

    return s->uses[1] ? s->uses[1]
                      : allocation_get(s->session, t->copy.src, t->copy.src_generation);
}

static void use_memory(struct stream *s, struct mem *target, struct mem *source)
{
    s->uses[0] = target;
    s->uses[1] = source;
    for (unsigned i = 0; i < 2; i++)
        if (s->uses[i])
            allocation_begin_work(s->uses[i]);
}

/*
 * Work of several tasks may be given to a device at once: what is noted with the first of them is
 * its ticket, and how many there are.
 */
static uint64_t kept_ticket(const struct stream *s)
{
    const struct stream_kept *k = s->live;
    uint64_t behind = head_mark(k) - k->effect_at;

    /* First what mostly decides: work that is done here has none. */
    if (k->ticket == 0 || (k->ticket & TICKET_DROPPED) || k->effect_at == 0 ||
        behind >= k->effect || !s->attach->device->backend->give)
        return 0;
    return k->ticket + behind;
}

/* No task has a place any more. The last ticket that was given stays, for await_dropped(). */
static void note_dropped(struct stream *s, uint64_t ticket)
{
    struct stream_kept *k = s->live;

    if (k->ticket & TICKET_DROPPED)
        return; /* the other one reads a word, which waits for nothing: work_read_word() */
    k->ticket = (kept_ticket(s) != 0 ? k->ticket + k->effect - 1 : ticket) | TICKET_DROPPED;
    kept_order();
}

/*
 * What its copier has filled before is charged, too; and of what it has changed those are told that
 * wait for it, by the caller: value_tell() or value_drop().
 */
static void recall_lent(struct stream *s)
{
    struct device *d = s->attach->device;
    struct work *w = &s->work;
    uint64_t before = w->progress;

    s->away = false;
    d->backend->recall(d->backend_state, d->index, w, true);
    if (s->uses[0])
        allocation_filled(s->uses[0]);
    value_note(s, w->dst.offset + before, w->progress - before);
}

/* all: also of the work that was given together with it, behind it. */
static void leave_ticket(struct stream *s, bool all)
{
    struct device *d = s->attach->device;
    uint64_t ticket;

    if (s->away && d->backend->recall) {
        recall_lent(s);
        return;
    }
    ticket = s->away ? s->work.ticket : kept_ticket(s);
    s->away = false;
    if (ticket == 0)
        return;
    if (all)
        note_dropped(s, ticket); /* first: the place may be another one's when it is left */
    d->backend->forget(d->backend_state, s->session->space, d->index, ticket, all);
}

static void end_uses(struct stream *s)
{
    for (unsigned i = 0; i < 2; i++) {
        if (s->uses[i])
            allocation_end_work(s->uses[i]);
        s->uses[i] = NULL;
    }
}

void engine_leave_work(struct stream *s)
{
    leave_ticket(s, true);
}

void work_end(struct stream *s)
{
    leave_ticket(s, false);
    end_uses(s);
}

bool work_give_up(struct stream *s)
{
    work_end(s);
    return value_tell(s);
}

void work_drop(struct stream *s)
{
    leave_ticket(s, true);
    end_uses(s);
    value_drop(s);
}

bool work_stop(struct stream *s)
{
    const struct stream_kept *k = s->live;
    uint64_t ticket = kept_ticket(s);

    if (ticket == 0 || ticket == k->ticket + k->effect - 1)
        return false;
    work_end(s);
    value_drop(s);
    value_landed(&s->session->space); /* it may be over, and the engine has not seen that */
    return true;
}

void work_pass_over(struct stream *s)
{
    leave_ticket(s, false);
}

/* --- what a task does --- */

static bool valid_reduce(const struct task *t)
{
    size_t element = reduce_element(t->reduce.type);

    return element != 0 && reduce_offered(t->reduce.kind, t->reduce.type) &&
           t->reduce.size % element == 0 && t->reduce.dst_offset % element == 0 &&
           t->reduce.src_offset % element == 0;
}

/*
 * These write where the work is to be: a copy of what was just stored would wait for the stores,
 * which a small task takes longer for than for its bytes.
 */
static void make_copy(struct work *work, const struct task *t, struct mem *m, struct mem *source)
{
    struct work_place dst = allocation_place(m, t->copy.dst_offset, t->copy.size);
    struct work_place src = allocation_place(source, t->copy.src_offset, t->copy.size);

    *work = (struct work){.kind = WORK_COPY, .size = t->copy.size, .dst = dst, .src = src};
}

static void make_set(struct work *work, const struct task *t, struct mem *m)
{
    struct work_place dst = allocation_place(m, t->set.offset, t->set.size);

    *work = (struct work){
        .kind = WORK_SET, .size = t->set.size, .value = (uint8_t)t->set.value, .dst = dst};
}

static void make_reduction(struct work *work, const struct stream *s, const struct task *t,
                           struct mem *m, struct mem *source)
{
    struct work_place dst = allocation_place(m, t->reduce.dst_offset, t->reduce.size);
    struct work_place src = allocation_place(source, t->reduce.src_offset, t->reduce.size);

    *work = (struct work){.kind = WORK_REDUCE,
                          .size = t->reduce.size,
                          .dst = dst,
                          .src = src,
                          .slice = s->attach->device->live->slice,
                          .reduce = (uint8_t)t->reduce.kind,
                          .type = (uint8_t)t->reduce.type};
}

/* Arguments that are not in host memory, or are no arguments, the device finds out. */
static void make_launch(struct work *work, const struct task *t, struct mem *binary,
                        struct mem *source)
{
    struct work_place function = {binary ? binary->memory : NULL, t->launch.function};
    struct work_place src = allocation_place(source, t->launch.offset, t->launch.size);

    *work = (struct work){.kind = WORK_LAUNCH,
                          .size = t->launch.size,
                          .word = t->launch.sum,
                          .dst = function,
                          .src = src};
}

/*
 * Of TASK_COPY, TASK_SET, TASK_REDUCE and TASK_LAUNCH. False: the memory is gone, or too small.
 */
static bool make_work(const struct stream *s, const struct task *t, struct mem *m,
                      struct mem *source, struct work *work)
{
    switch (t->op) {
    case TASK_COPY:
        make_copy(work, t, m, source);
        break;
    case TASK_SET:
        make_set(work, t, m);
        return work->dst.memory;
    case TASK_LAUNCH:
        make_launch(work, t, m, source);
        break;
    default:
        make_reduction(work, s, t, m, source);
        break;
    }
    return work->dst.memory && work->src.memory;
}

static bool make_word_write(struct work *work, const struct task *t, struct mem *m)
{
    struct work_place dst = allocation_place(m, t->value.offset, WORD);

    *work =
        (struct work){.kind = WORK_WORD_WRITE, .size = WORD, .word = t->value.value, .dst = dst};
    return dst.memory;
}

static bool is_work(const struct task *t)
{
    return t->op == TASK_COPY || t->op == TASK_SET || t->op == TASK_REDUCE ||
           t->op == TASK_VALUE_WRITE || t->op == TASK_LAUNCH;
}

/* Of a task that has not come to its turn. False: it is no work, or not as it is to be. */
static bool plan_work(struct stream *s, const struct task *t, struct work *work)
{
    struct mem *m, *source = NULL;

    if (!is_work(t))
        return false;
    if ((t->op == TASK_REDUCE && !valid_reduce(t)) ||
        (t->op == TASK_VALUE_WRITE && t->value.offset % WORD != 0))
        return false;
    m = find_target(s, t);
    if (t->op == TASK_VALUE_WRITE)
        return make_word_write(work, t, m);
    if (t->op != TASK_SET)
        source = allocation_get(s->session, t->copy.src, t->copy.src_generation);
    return make_work(s, t, m, source, work);
}

/* --- a slice of it --- */

/* s->work was made anew: it goes on from where it is. ready_ns: what it had before. */
static void go_on(struct stream *s, uint64_t ready_ns)
{
    if (stream_has_begun(s)) {
        s->work.progress = s->live->progress;
        s->work.ready_ns = ready_ns;
    }
    if (!s->attach->device->backend->give)
        return;
    s->work.ticket = kept_ticket(s);
    s->away = s->work.ticket != 0;
}

static void keep_progress(struct stream *s)
{
    kept_order();
    KILL_HERE(WORK_DONE);
    s->live->progress = s->work.progress;
    kept_order();
    KILL_HERE(WORK_KEPT);
}

/*
 * A reduction must not be done twice: the result of a slice is put in kept memory, then it is noted
 * where it goes, and then it goes there; if npud ends, put_slice_again() lets it go there again.
 */
static void put_slice(struct stream *s, uint64_t at)
{
    struct device_kept *d = s->attach->device->live;
    struct stream_kept *k = s->live;

    KILL_HERE(SLICE_MADE);
    d->slice_bytes = s->work.progress - at;
    head_note_no_ticket(k);
    k->effect = at;
    head_note(k, &k->effect_at);
    KILL_HERE(SLICE_NOTED);
    s->attach->device->backend->slice_put(
        (struct work_place){s->work.dst.memory, s->work.dst.offset + at}, d->slice, d->slice_bytes);
    KILL_HERE(SLICE_PUT);
}

/* --- work that is given to a device --- */

/* Of other streams, this may be what they wait for. */
#define AHEAD_BYTES (UINT64_C(16) << 20)
/* Until a device has done what the stream has dropped. */
#define DROPPED_AGAIN_NS (100 * NSEC_PER_USEC)

/* Tasks run straight on, and one that fails holds up none behind it. */
static bool may_look_ahead(const struct stream *s)
{
    return !s->attach->device->detour && !s->graph && !s->context->stop &&
           s->work.kind != WORK_WORD_READ;
}

/* The work of the next tasks, as far as they are work and have all that they need. */
static unsigned look_ahead(struct stream *s, struct work *works)
{
    struct device *d = s->attach->device;
    uint64_t position = s->live->position, end = stream_ring_end(s), bytes = works[0].size;
    unsigned n = 1;

    for (struct task t; n < WORK_AHEAD && position + n != end; n++, bytes += works[n - 1].size)
        if (bytes > AHEAD_BYTES || !stream_read_entry(s, position + n, &t) ||
            !plan_work(s, &t, &works[n]))
            break;
    return n == 1 ? 1 : d->backend->ahead(d->backend_state, works, n);
}

/* The note comes first: a later npud finds out whether it was given. */
static void give_work(struct stream *s)
{
    struct device *d = s->attach->device;
    struct stream_kept *k = s->live;
    struct work works[WORK_AHEAD];
    unsigned n = 1;

    works[0] = s->work;
    if (may_look_ahead(s))
        n = look_ahead(s, works);
    KILL_HERE(TICKET_TAKEN);
    k->effect_at = 0;
    kept_order();
    k->ticket = s->work.ticket;
    k->effect = n;
    head_note(k, &k->effect_at);
    s->ahead = n > 1;
    KILL_HERE(TICKET_NOTED);
    d->backend->give(d->backend_state, d->index, works, n);
}

/* What is no work is not as it was; what is not as it is to be lacks its memory: that is freed. */
void work_check_given(struct stream *s)
{
    struct device *d = s->attach->device;
    const struct task *t = &s->live->task;
    uint64_t ticket = kept_ticket(s);
    struct work work;
    bool planned;

    s->ahead = ticket != 0;
    if (ticket == 0)
        return;
    planned = plan_work(s, t, &work);
    if (planned && d->backend->gave(d->backend_state, s->session->space, d->index, ticket, &work))
        return;
    leave_ticket(s, false);
    if (!planned && is_work(t))
        run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
    else
        run_bad_entry(s, "it has changed since its work was given to the device");
}

/*
 * A device may still do what the stream has dropped, when it was aborted: what comes later comes
 * after that.
 */
static bool await_dropped(struct stream *s)
{
    struct device *d = s->attach->device;
    struct stream_kept *k = s->live;

    if (!(k->ticket & TICKET_DROPPED) || s->work.ticket != 0)
        return true;
    if (!d->backend->is_over(d->backend_state, s->session->space, k->ticket & ~TICKET_DROPPED))
        return false;
    k->ticket = 0;
    return true;
}

int work_await_dropped(struct stream *s)
{
    struct device *d = s->attach->device;
    struct stream_kept *k = s->live;
    int r;

    if (!(k->ticket & TICKET_DROPPED))
        return 0;
    r = d->backend->await_over(d->backend_state, s->session->space, d->index,
                               k->ticket & ~TICKET_DROPPED);
    if (r == 0)
        k->ticket = 0;
    return r;
}

/*
 * Is it lent, from now on or still? What is large is, as long as there is more for the engine to do
 * than this: alone, the engine is as fast. Pages that its copier had to fill are charged before it
 * is lent again.
 */
static bool is_lent(struct stream *s, uint64_t now)
{
    struct device *d = s->attach->device;
    const struct work *w = &s->work;

    if (s->away)
        s->away = !d->backend->recall(d->backend_state, d->index, &s->work, false);
    if (!s->away && w->kind <= WORK_SET && w->size - w->progress >= WORK_LENT && !filled_any() &&
        engine_has_others(s))
        s->away = d->backend->lend(d->backend_state, d->index, &s->work, now);
    return s->away;
}

static enum work_state step(struct stream *s, uint64_t now, uint64_t *deadline, int32_t *result)
{
    struct device *d = s->attach->device;
    enum work_state state;

    if (__builtin_expect(s->work.size >= WORK_LENT, 0) && d->backend->lend && is_lent(s, now))
        return WORK_AWAY;
    if (!await_dropped(s)) {
        *deadline = now + DROPPED_AGAIN_NS;
        return WORK_PENDING;
    }
    while ((state = d->backend->step(d->backend_state, d->index, &s->work, now, deadline,
                                     result)) == WORK_NOTE) {
        s->away = true;
        give_work(s);
    }
    s->away |= state == WORK_AWAY;
    return state;
}

/* Goes on with s->work, which changes memory of m, the task's destination, from offset on. */
static enum run_result do_slice(struct stream *s, uint64_t now, struct mem *m, uint64_t offset)
{
    struct device *d = s->attach->device;
    uint64_t before = s->work.progress, deadline;
    enum work_state state;
    int32_t result;

    if (m && !s->away && !allocation_filled(m))
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    state = step(s, now, &deadline, &result);
    if (m && !s->away)
        engine_count_work(d->engine);
    if (s->work.slice && s->work.progress != before)
        put_slice(s, before);
    keep_progress(s);
    if (s->work.kind == WORK_LAUNCH && state == WORK_DONE) {
        if (!s->launched && !value_launched(s))
            return RUN_AGAIN;
    } else if (m) {
        allocation_filled(m);
        if (!value_changed(s, m, offset + before, s->work.progress - before))
            /* and, at the end, once more into the backend, which has no more to do */
            return RUN_AGAIN;
    }

    switch (state) {
    case WORK_MORE:
        return RUN_AGAIN;
    case WORK_PENDING:
        if (engine_set_timer(s, deadline) < 0)
            return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
        engine_begin_work(s, now);
        return RUN_WAITS;
    case WORK_NOTE:
    case WORK_AWAY:
        engine_begin_work(s, now);
        return RUN_WAITS;
    case WORK_DONE:
        break;
    }
    if (result != 0)
        stream_fail(s, result, 0);
    return s->work.size > WORK_SMALL ? RUN_WORKED : RUN_RETIRED;
}

/* The same, from the source if it has one. Most work is done at once, and then uses nothing. */
static enum run_result do_work(struct stream *s, uint64_t now, struct mem *m, struct mem *source,
                               uint64_t offset)
{
    enum run_result r = do_slice(s, now, m, offset);

    if (r == RUN_RETIRED || r == RUN_WORKED)
        work_end(s);
    else if (!s->uses[0])
        use_memory(s, m, source);
    return r;
}

/* --- the tasks --- */

/*
 * Also work that has begun comes here: an npud of the release before has freed what it uses, or a
 * later one cannot map it. ticket: that s->work had.
 */
static enum run_result fail_unplaced(struct stream *s, uint64_t ticket)
{
    s->work.ticket = ticket;
    work_end(s);
    return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
}

/* What it changes is memory of the task's destination, from offset on. */
static enum run_result run_moving(struct stream *s, uint64_t now, bool has_source, uint64_t offset)
{
    const struct task *t = &s->live->task;
    struct mem *m = target_of(s), *source = has_source ? source_of(s) : NULL;
    uint64_t ready_ns = s->work.ready_ns;

    if (!make_work(s, t, m, source, &s->work))
        return fail_unplaced(s, ready_ns);
    go_on(s, ready_ns);
    return do_work(s, now, m, source, offset);
}

enum run_result work_run_copy(struct stream *s, uint64_t now)
{
    return run_moving(s, now, true, s->live->task.copy.dst_offset);
}

enum run_result work_run_set(struct stream *s, uint64_t now)
{
    return run_moving(s, now, false, s->live->task.set.offset);
}

enum run_result work_run_delay(struct stream *s, uint64_t now)
{
    uint64_t ready_ns = s->work.ready_ns;

    if (s->live->task.delay.ns > DELAY_MAX_NS)
        return run_bad_entry(s, "too long");
    s->work = (struct work){.kind = WORK_DELAY,
                            .delay_ns = s->live->task.delay.ns,
                            .result = s->live->task.delay.result};
    go_on(s, ready_ns);
    /*
     * The turn began before the tasks that came first in it, and records have told the time since.
     */
    if (!stream_has_begun(s) && s->live->task.delay.ns != 0)
        now = clock_ns();
    return do_work(s, now, NULL, NULL, 0);
}

enum run_result work_run_reduce(struct stream *s, uint64_t now)
{
    if (!valid_reduce(&s->live->task))
        return run_bad_entry(s, "no such reduction");
    return run_moving(s, now, true, s->live->task.reduce.dst_offset);
}

enum run_result work_run_launch(struct stream *s, uint64_t now)
{
    if (s->live->task.launch.size < sizeof(struct executor_launch))
        return run_bad_entry(s, "no launch");
    if (!stream_has_begun(s))
        s->launched = false;
    return run_moving(s, now, true, 0); /* its kernel knows where */
}

/* --- words that npud cannot reach --- */

enum run_result work_write_word(struct stream *s, uint64_t now, struct mem *m)
{
    const struct task *t = &s->live->task;
    uint64_t ready_ns = s->work.ready_ns;

    if (!m)
        m = s->uses[0];
    if (!make_word_write(&s->work, t, m))
        return fail_unplaced(s, ready_ns);
    go_on(s, ready_ns);
    return do_work(s, now, m, NULL, t->value.offset);
}

/* It changes nothing: a later npud reads once more, and needs no ticket. */
enum run_result work_read_word(struct stream *s, uint64_t now, struct mem *m, uint64_t offset,
                               uint64_t *word)
{
    struct device *d = s->attach->device;
    enum work_state state;
    uint64_t deadline;
    int32_t result;

    if (m) {
        s->work = (struct work){
            .kind = WORK_WORD_READ, .size = WORD, .src = allocation_place(m, offset, WORD)};
        if (!s->work.src.memory)
            return fail_unplaced(s, 0);
        use_memory(s, m, NULL);
        s->away = true;
    }
    do
        state = d->backend->step(d->backend_state, d->index, &s->work, now, &deadline, &result);
    while (state == WORK_NOTE);
    if (state == WORK_PENDING && engine_set_timer(s, deadline) < 0) {
        work_end(s);
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    }
    if (state != WORK_DONE)
        return RUN_WAITS;
    *word = s->work.word;
    work_end(s);
    return result != 0 ? run_fail(s, result, 0) : RUN_RETIRED;
}

/* --- again --- */

/*
 * Also of a task that was not read: its work may have been given with that of others before it. A
 * task that has failed is through with its own.
 */
void work_restore_ticket(struct stream *s)
{
    struct device *d = s->attach->device;
    struct stream_kept *k = s->live;
    uint64_t ticket = kept_ticket(s);

    if (ticket == 0)
        return;
    if (!d->backend->resume(d->backend_state, s->session->space, d->index, ticket,
                            k->ticket + k->effect - 1)) {
        k->effect_at = 0;
        return;
    }
    s->ahead = k->effect > 1;
    if (!stream_has_read(s))
        return;
    if (stream_has_failed(s))
        leave_ticket(s, false);
    else if (!head_has(k, k->effect_at) && !stream_has_begun(s))
        work_check_given(s);
}

/* A device may do it still, or have done it: step() finds out. */
static void restore_ticket(struct stream *s)
{
    s->work.ticket = kept_ticket(s);
    s->away = s->work.ticket != 0 && !stream_has_failed(s);
}

static bool was_at_work(const struct stream *s)
{
    return stream_has_begun(s) && !stream_has_failed(s);
}

static struct mem *target_of_begun(struct stream *s)
{
    return allocation_get_begun(s->session, s->live->task.object, s->live->task.generation);
}

void work_restore_copy(struct stream *s)
{
    const struct task *t = &s->live->task;

    restore_ticket(s);
    if (was_at_work(s) || s->away)
        use_memory(s, target_of_begun(s),
                   allocation_get_begun(s->session, t->copy.src, t->copy.src_generation));
}

void work_restore_set(struct stream *s)
{
    restore_ticket(s);
    if (was_at_work(s) || s->away)
        use_memory(s, target_of_begun(s), NULL);
}

void work_restore_value_write(struct stream *s)
{
    restore_ticket(s);
    if (s->away)
        use_memory(s, target_of_begun(s), NULL);
}

/* The slice of a reduction that was noted, and maybe not put in its destination. */
static void put_slice_again(struct stream *s)
{
    const struct device_kept *d = s->attach->device->live;
    struct stream_kept *k = s->live;
    uint64_t at = stream_has_begun(s) ? k->progress : 0;
    struct mem *m = target_of_begun(s);
    struct work_place dst;

    if (!head_has(k, k->effect_at) || k->effect != at || d->slice_bytes > sizeof(d->slice))
        return;
    dst = allocation_place(m, k->task.reduce.dst_offset + at, d->slice_bytes);
    if (!dst.memory || !allocation_filled(m))
        return;
    s->attach->device->backend->slice_put(dst, d->slice, d->slice_bytes);
    allocation_filled(m);
    KILL_HERE(SLICE_AGAIN);
    kept_order();
    k->progress = at + d->slice_bytes;
    kept_order();
    stream_begin_task(s);
}

void work_restore_reduce(struct stream *s)
{
    put_slice_again(s);
    work_restore_copy(s);
}
