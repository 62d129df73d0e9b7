#include "daemon/engine/work.h"

#include <assert.h>
#include <stddef.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/value.h"
#include "daemon/memory/allocation.h"
#include "proto/shm/task.h"
#include "proto/util/clock.h"
#include "proto/util/reduce.h"

#define DELAY_MAX_NS (3600 * NSEC_PER_SEC)

/* --- memory that work uses --- */

static_assert(offsetof(struct task, copy.src) == offsetof(struct task, reduce.src) &&
                  offsetof(struct task, copy.src_generation) ==
                      offsetof(struct task, reduce.src_generation),
              "a source is in the same place");

/* Work that has begun keeps what it has; what is to begin does not find what was freed. */
static struct mem *target_of(struct stream *s)
{
    const struct task *t = &s->live->task;

    return s->uses[0] ? s->uses[0] : allocation_get(s->session, t->object, t->generation);
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

/* It is over, or does not go on: memory that it has used can go. */
static void end_work(struct stream *s)
{
    for (unsigned i = 0; i < 2; i++) {
        if (s->uses[i])
            allocation_end_work(s->uses[i]);
        s->uses[i] = NULL;
    }
}

bool work_give_up(struct stream *s)
{
    end_work(s);
    return value_tell(s);
}

void work_drop(struct stream *s)
{
    end_work(s);
    value_drop(s);
}

/* --- a slice of it --- */

/* What s->work is to be: as it begins, or as far as it is. */
static void set_work(struct stream *s, struct work work)
{
    if (stream_has_begun(s)) {
        work.progress = s->live->progress;
        work.ready_ns = s->work.ready_ns;
    }
    s->work = work;
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
    kept_order();
    k->effect = at;
    head_note(k, &k->effect_at);
    KILL_HERE(SLICE_NOTED);
    s->attach->device->backend->slice_put(
        (struct work_place){s->work.dst.memory, s->work.dst.offset + at}, d->slice, d->slice_bytes);
    KILL_HERE(SLICE_PUT);
}

/* Goes on with s->work, which changes memory of m, the task's destination, from offset on. */
static enum run_result do_slice(struct stream *s, uint64_t now, struct mem *m, uint64_t offset)
{
    struct device *d = s->attach->device;
    uint64_t before = s->work.progress, deadline;
    enum work_state state;
    int32_t result;

    if (m && !allocation_filled(m))
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    state = d->backend->step(d->backend_state, d->index, &s->work, now, &deadline, &result);
    if (m)
        engine_count_work(d->engine);
    if (s->work.slice)
        put_slice(s, before);
    keep_progress(s);
    if (m) {
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
        end_work(s);
    else if (!s->uses[0])
        use_memory(s, m, source);
    return r;
}

/* --- the tasks --- */

/*
 * Also work that has begun comes here: an npud of the release before has freed what it uses, or a
 * later one cannot map it.
 */
static enum run_result fail_unplaced(struct stream *s)
{
    end_work(s);
    return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
}

enum run_result work_run_copy(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct mem *m = target_of(s), *source = source_of(s);
    struct work_place dst = allocation_place(m, t->copy.dst_offset, t->copy.size);
    struct work_place src = allocation_place(source, t->copy.src_offset, t->copy.size);

    if (!dst.memory || !src.memory)
        return fail_unplaced(s);
    set_work(s, (struct work){.kind = WORK_COPY, .size = t->copy.size, .dst = dst, .src = src});
    return do_work(s, now, m, source, t->copy.dst_offset);
}

enum run_result work_run_set(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct mem *m = target_of(s);
    struct work_place dst = allocation_place(m, t->set.offset, t->set.size);

    if (!dst.memory)
        return fail_unplaced(s);
    set_work(
        s, (struct work){
               .kind = WORK_SET, .size = t->set.size, .value = (uint8_t)t->set.value, .dst = dst});
    return do_work(s, now, m, NULL, t->set.offset);
}

enum run_result work_run_delay(struct stream *s, uint64_t now)
{
    if (s->live->task.delay.ns > DELAY_MAX_NS)
        return run_bad_entry(s, "too long");
    set_work(s, (struct work){.kind = WORK_DELAY,
                              .delay_ns = s->live->task.delay.ns,
                              .result = s->live->task.delay.result});
    /*
     * The turn began before the tasks that came first in it, and records have told the time since.
     */
    if (!stream_has_begun(s) && s->live->task.delay.ns != 0)
        now = clock_ns();
    return do_work(s, now, NULL, NULL, 0);
}

static bool valid_reduce(const struct task *t)
{
    size_t element = reduce_element(t->reduce.type);

    return element != 0 && reduce_offered(t->reduce.kind, t->reduce.type) &&
           t->reduce.size % element == 0 && t->reduce.dst_offset % element == 0 &&
           t->reduce.src_offset % element == 0;
}

enum run_result work_run_reduce(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct mem *m = target_of(s), *source = source_of(s);
    struct work_place dst = allocation_place(m, t->reduce.dst_offset, t->reduce.size);
    struct work_place src = allocation_place(source, t->reduce.src_offset, t->reduce.size);

    if (!valid_reduce(t))
        return run_bad_entry(s, "no such reduction");
    if (!dst.memory || !src.memory)
        return fail_unplaced(s);
    set_work(s, (struct work){.kind = WORK_REDUCE,
                              .size = t->reduce.size,
                              .dst = dst,
                              .src = src,
                              .slice = s->attach->device->live->slice,
                              .reduce = (uint8_t)t->reduce.kind,
                              .type = (uint8_t)t->reduce.type});
    return do_work(s, now, m, source, t->reduce.dst_offset);
}

/* --- again --- */

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

    if (was_at_work(s))
        use_memory(s, target_of_begun(s),
                   allocation_get_begun(s->session, t->copy.src, t->copy.src_generation));
}

void work_restore_set(struct stream *s)
{
    if (was_at_work(s))
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
