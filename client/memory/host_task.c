#include "client/memory/host_task.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/checked_access.h"
#include "client/memory/direct.h"
#include "client/memory/place.h"
#include "client/memory/registration.h"
#include "client/runtime/stream.h"
#include "client/core/upcall.h"
#include "proto/util/reduce_apply.h"

struct host_task {
    struct stream_work work;
    size_t extra; /* bytes */
    struct session *session;
    const char *function;
    struct place to, from; /* pieces: neither crosses a border */
    uint64_t size;
    union {
        uint32_t word; /* of a fill */
        struct {
            uint32_t kind, type;
            uint64_t done; /* of `size`, by slices */
            bool computed; /* the slice that follows */
        } reduce;
        uint64_t value; /* of a write */
    } how;
    /* Of a copy, the source; of a reduction on memory that the thread does not reach, two slices */
    unsigned char bytes[];
};

static struct host_task *task_of(struct stream_work *w)
{
    return (struct host_task *)(void *)w;
}

/* For a graph. A source that was taken at the call is the copy's own. */
static struct stream_work *copy_task(const struct stream_work *w, const struct stream *s,
                                     uint32_t task)
{
    const struct host_task *t = (const struct host_task *)(const void *)w;
    struct host_task *copy = malloc(sizeof(*t) + t->extra);

    (void)s;
    (void)task;
    if (!copy)
        return NULL;
    memcpy(copy, t, sizeof(*t) + t->extra);
    if (t->extra != 0 && t->from.address == t->bytes)
        copy->from = direct_own(copy->bytes);
    return &copy->work;
}

/* All zero but for what all have. NULL with *error set: no memory. */
static struct host_task *new_task(struct stream *s, const char *function,
                                  int (*run)(struct stream_work *w), size_t bytes, int *error)
{
    struct host_task *t = bytes < SIZE_MAX - sizeof(*t) ? calloc(1, sizeof(*t) + bytes) : NULL;

    *error = t ? 0 : error_no_memory(function);
    if (!t)
        return NULL;
    t->work.run = run;
    t->work.copy = copy_task;
    t->extra = bytes;
    t->session = s->session;
    t->function = function;
    return t;
}

static int launch_task(struct stream *s, struct host_task *t)
{
    int error = upcalls->stream_work_launch(s, t->function, &t->work);

    if (error != 0)
        free(t);
    return error;
}

static struct place piece_of(const struct place *at)
{
    struct place piece = *at;

    piece.goes_on = false;
    return piece;
}

/* --- copies --- */

/* Up to here, a copy takes less time than to hand it to a thread. */
#define COPY_AT_ONCE ((size_t)64 << 10)

static int run_copy(struct stream_work *w)
{
    struct host_task *t = task_of(w);

    RETURN_IF_ERROR(direct_copy_in_turn(t->session, t->function, &t->to, &t->from, t->size));
    return place_tell_written(t->session, t->function, &t->to, t->size);
}

static int copy_at_once(struct stream *s, const char *function, const struct place *to,
                        const struct place *from, uint64_t count)
{
    RETURN_IF_ERROR(stream_check(s, function));
    RETURN_IF_ERROR(direct_copy_on(s, function, to, from, count));
    return place_tell_written(s->session, function, to, count);
}

struct launch {
    struct stream *stream;
    const char *function;
};

static int launch_piece(void *context, const struct place *to, const struct place *from,
                        uint64_t count)
{
    const struct launch *l = context;
    struct host_task *t = FIND_OR_RETURN(new_task, l->stream, l->function, run_copy, 0);

    t->to = piece_of(to);
    t->from = piece_of(from);
    t->size = count;
    return launch_task(l->stream, t);
}

int host_task_copy(struct stream *s, const char *function, const struct place *to,
                   const struct place *from, uint64_t count)
{
    struct launch l = {.stream = s, .function = function};

    if (checked_runs())
        checked_access(s->session, s, to, from, count);
    if (count <= COPY_AT_ONCE && stream_idle(s))
        return copy_at_once(s, function, to, from, count);
    return place_walk(s->session, function, to, from, count, launch_piece, &l);
}

int host_task_copy_taken(struct stream *s, const char *function, const struct place *to,
                         const struct place *from, uint64_t count)
{
    struct host_task *t;
    int error;

    if (checked_runs())
        checked_access(s->session, s, to, NULL, count);
    if (stream_idle(s))
        return copy_at_once(s, function, to, from, count);
    t = FIND_OR_RETURN(new_task, s, function, run_copy, count);
    error = direct_read(s->session, function, from, t->bytes, count);
    if (error != 0) {
        free(t);
        return error;
    }
    t->to = *to;
    t->from = direct_own(t->bytes);
    t->size = count;
    return launch_task(s, t);
}

/* --- fills --- */

static int fill(struct session *s, const char *function, const struct place *at, uint32_t word,
                uint64_t count)
{
    if (word == (uint8_t)word * UINT32_C(0x01010101))
        RETURN_IF_ERROR(direct_set(s, function, at, (uint8_t)word, count));
    else
        RETURN_IF_ERROR(direct_set_words(s, function, at, word, count / sizeof(word)));
    return place_tell_written(s, function, at, count);
}

static int run_set(struct stream_work *w)
{
    struct host_task *t = task_of(w);

    return fill(t->session, t->function, &t->to, t->how.word, t->size);
}

int host_task_set(struct stream *s, const char *function, const struct place *at, uint32_t word,
                  uint64_t count)
{
    struct host_task *t;

    if (checked_runs())
        checked_access(s->session, s, at, NULL, count);
    if (stream_idle(s)) {
        RETURN_IF_ERROR(stream_check(s, function));
        return fill(s->session, function, at, word, count);
    }
    t = FIND_OR_RETURN(new_task, s, function, run_set, 0);
    t->to = *at;
    t->size = count;
    t->how.word = word;
    return launch_task(s, t);
}

/* --- reductions --- */

#define SLICE (UINT64_C(1) << 20)

static struct place place_behind(const struct place *at, uint64_t bytes)
{
    struct place behind = *at;

    behind.address = (char *)at->address + bytes;
    behind.offset += bytes;
    return behind;
}

/*
 * Memory of a strict device is read and written by copies. What an abort lets go begins anew with
 * the slice that it was at: a result that was computed is not computed again.
 */
static int reduce_slice(struct host_task *t, uint64_t n)
{
    struct place to = place_behind(&t->to, t->how.reduce.done);
    struct place from = place_behind(&t->from, t->how.reduce.done);
    struct place a = direct_own(t->bytes), b = direct_own(t->bytes + SLICE);

    if (!t->how.reduce.computed) {
        RETURN_IF_ERROR(direct_copy_in_turn(t->session, t->function, &a, &to, n));
        RETURN_IF_ERROR(direct_copy_in_turn(t->session, t->function, &b, &from, n));
        reduce_apply(t->bytes, t->bytes + SLICE, n, t->how.reduce.kind, t->how.reduce.type);
        t->how.reduce.computed = true;
    }
    RETURN_IF_ERROR(direct_copy_in_turn(t->session, t->function, &to, &a, n));
    t->how.reduce.computed = false;
    t->how.reduce.done += n;
    return 0;
}

static int run_reduce_sliced(struct stream_work *w)
{
    struct host_task *t = task_of(w);

    while (t->how.reduce.done < t->size) {
        uint64_t remaining = t->size - t->how.reduce.done;

        RETURN_IF_ERROR(reduce_slice(t, remaining < SLICE ? remaining : SLICE));
    }
    return place_tell_written(t->session, t->function, &t->to, t->size);
}

static int run_reduce(struct stream_work *w)
{
    struct host_task *t = task_of(w);
    int error = direct_reduce(t->session, t->function, &t->to, &t->from, t->size,
                              t->how.reduce.kind, t->how.reduce.type);

    if (error != 0)
        return error == ACL_ERROR_RT_PARAM_INVALID ? ACL_ERROR_RT_SYS_DMA : error;
    return place_tell_written(t->session, t->function, &t->to, t->size);
}

int host_task_reduce(struct stream *s, const char *function, const struct place *to,
                     const struct place *from, uint64_t count, uint32_t kind, uint32_t type)
{
    bool reaches = direct_reaches(to) && direct_reaches(from);
    struct host_task *t = FIND_OR_RETURN(
        new_task, s, function, reaches ? run_reduce : run_reduce_sliced, reaches ? 0 : 2 * SLICE);

    t->to = *to;
    t->from = *from;
    t->size = count;
    t->how.reduce.kind = kind;
    t->how.reduce.type = type;
    if (checked_runs())
        checked_reduce(s, to, from, count);
    return launch_task(s, t);
}

/* --- words --- */

static int run_write(struct stream_work *w)
{
    struct host_task *t = task_of(w);

    if (direct_word_write(t->session, t->function, &t->to, t->how.value) != 0)
        return ACL_ERROR_RT_SYS_DMA;
    return place_tell_written(t->session, t->function, &t->to, t->size);
}

int host_task_value_write(struct stream *s, const char *function, const struct place *at,
                          uint64_t value)
{
    struct host_task *t = FIND_OR_RETURN(new_task, s, function, run_write, 0);

    t->to = *at;
    t->size = sizeof(value);
    t->how.value = value;
    if (checked_runs())
        checked_word(s, TASK_VALUE_WRITE, at, value, 0);
    return launch_task(s, t);
}

static bool condition_holds(uint64_t word, uint32_t condition, uint64_t value)
{
    switch (condition) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(word - value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return word == value;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (word & value) != 0;
    default:
        return ~(word | value) != 0;
    }
}

static int run_wait(struct stream_work *w)
{
    struct host_task *t = task_of(w);
    uint64_t word;

    /* Else a program that has ended the registration, and then unmaps, would have it fault. */
    if (!registration_holds(t->session, t->to.address, t->size) ||
        direct_word_read(t->session, t->function, &t->to, &word) != 0)
        return ACL_ERROR_RT_SYS_DMA;
    return condition_holds(word, w->condition, w->value) ? 0 : STREAM_WORK_AGAIN;
}

int host_task_value_wait(struct stream *s, const char *function, const struct place *at,
                         uint64_t value, uint32_t condition)
{
    struct host_task *t = FIND_OR_RETURN(new_task, s, function, run_wait, 0);

    t->to = *at;
    t->size = sizeof(value);
    t->work.kind = STREAM_WORK_VALUE_WAIT;
    t->work.awaits = at->address;
    t->work.value = value;
    t->work.condition = condition;
    if (checked_runs())
        checked_word(s, TASK_VALUE_WAIT, at, value, condition);
    return launch_task(s, t);
}
