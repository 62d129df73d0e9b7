#include "client/memory/direct.h"

#include <string.h>

#include "client/core/error.h"
#include "client/memory/copy.h"
#include "client/memory/staging.h"
#include "client/memory/submit.h"
#include "client/runtime/context.h"
#include "proto/util/copy_large.h"

/* --- what the thread reaches --- */

static void move_here(const struct place *to, const struct place *from, uint64_t count)
{
    /* overlapping ranges are the program's mistake, but must not be undefined */
    if (count >= COPY_LARGE)
        copy_large(to->address, from->address, count);
    else
        memmove(to->address, from->address, count);
}

void direct_set_words(const struct place *at, uint32_t word, uint64_t count)
{
    uint32_t *words = at->address;

    for (uint64_t i = 0; i < count; i++)
        words[i] = word;
}

/* --- what engines reach --- */

#define SLICE       (UINT64_C(4) << 20)
#define SLICES_MOST 2 /* at once: one is filled, or emptied, while the engine has the other */

static int submit_and_drain(struct stream *s, const char *function, direct_submit_fn *submit,
                            void *context)
{
    RETURN_IF_ERROR(submit(s, context));
    return stream_drain(s, function);
}

int direct_run(struct session *session, const char *function, uint32_t device,
               direct_submit_fn *submit, void *context)
{
    struct stream *s;
    uint64_t failed;
    int error;

    s = FIND_OR_RETURN(context_lock_copier, session, function, device);
    error = submit_and_drain(s, function, submit, context);
    failed = stream_take_error(s->ctrl);
    stream_unlock(s);
    if (error == 0 && stream_error_code(failed) != 0)
        error = stream_error_failed(s->id, function, stream_error_code(failed),
                                    stream_error_pid(failed));
    return error;
}

static uint64_t slice_of(uint64_t done, uint64_t count)
{
    return count - done < SLICE ? count - done : SLICE;
}

/* From what no engine reaches. */
static int stage_in(struct stream *s, const char *function, const struct place *to,
                    const struct place *from, uint64_t count)
{
    struct place at = *to;
    uint64_t n;

    for (uint64_t done = 0, slices = 1; done < count; done += n, slices++) {
        n = slice_of(done, count);
        RETURN_IF_ERROR(copy_buffered(s, function, &at, (const char *)from->address + done, n));
        if (slices % SLICES_MOST == 0 || done + n == count)
            RETURN_IF_ERROR(stream_drain(s, function));
        if (done + n < count)
            RETURN_IF_ERROR(place_move(s->session, function, &at, n));
    }
    return 0;
}

/* A slice into a buffer of ours, from which it is copied when the stream has passed it. */
static int fetch_slice(struct stream *s, const char *function, const struct place *from, uint64_t n,
                       struct staging **buffer)
{
    struct staging *b = FIND_OR_RETURN(staging_take, s, function, SLICE);
    struct place at = {
        .kind = PLACE_PINNED, .memory = b->memory, .address = (void *)b->memory.mapped.start};
    int error = submit_copy(s, function, &at, from, n);

    b->ctrl = s->ctrl;
    b->position = s->tail;
    if (error == 0)
        *buffer = b;
    else
        staging_add(s->session, b);
    return error;
}

/* Up to SLICES_MOST of them. *n bytes there are in all. */
static int fetch_slices(struct stream *s, const char *function, struct place *from, uint64_t *n,
                        struct staging **buffers)
{
    uint64_t count = *n;
    int error = 0;

    *n = 0;
    for (unsigned i = 0; i < SLICES_MOST && *n < count && error == 0; i++) {
        uint64_t slice = slice_of(*n, count);

        error = fetch_slice(s, function, from, slice, &buffers[i]);
        *n += slice;
        if (error == 0 && *n < count)
            error = place_move(s->session, function, from, slice);
    }
    return error;
}

static int stage_out(struct stream *s, const char *function, const struct place *to,
                     const struct place *from, uint64_t count)
{
    struct place at = *from;
    uint64_t n;
    int error = 0;

    for (uint64_t done = 0; done < count && error == 0; done += n) {
        struct staging *buffers[SLICES_MOST] = {NULL};

        n = count - done;
        error = fetch_slices(s, function, &at, &n, buffers);
        if (error == 0)
            error = stream_drain(s, function);
        for (uint64_t i = 0; i < SLICES_MOST && buffers[i]; i++) {
            if (error == 0)
                memcpy((char *)to->address + done + i * SLICE,
                       (const void *)buffers[i]->memory.mapped.start, slice_of(i * SLICE, n));
            staging_add(s->session, buffers[i]);
        }
    }
    return error;
}

/* Locked. */
static int copy_through(struct stream *s, const char *function, const struct place *to,
                        const struct place *from, uint64_t count)
{
    if (!place_row(from)->engine)
        return stage_in(s, function, to, from, count);
    if (!place_row(to)->engine)
        return stage_out(s, function, to, from, count);
    RETURN_IF_ERROR(submit_copy(s, function, to, from, count));
    return stream_drain(s, function);
}

/* --- either --- */

struct copying {
    const char *function;
    const struct place *to, *from;
    uint64_t count;
};

static int run_copy(struct stream *s, void *context)
{
    const struct copying *c = context;

    return copy_through(s, c->function, c->to, c->from, c->count);
}

int direct_copy(struct session *s, const char *function, const struct place *to,
                const struct place *from, uint64_t count)
{
    struct copying c = {.function = function, .to = to, .from = from, .count = count};

    if (__builtin_expect(direct_reaches(to) && direct_reaches(from), 1)) {
        move_here(to, from, count);
        return 0;
    }
    return direct_run(s, function, direct_reaches(to) ? from->memory.device : to->memory.device,
                      run_copy, &c);
}

/* No place_find(): what it finds may be anything that the library has. */
static struct place own_place(const void *address)
{
    return (struct place){.kind = PLACE_PAGEABLE, .address = (void *)(uintptr_t)address};
}

int direct_read(struct session *s, const char *function, const struct place *from, void *to,
                uint64_t count)
{
    struct place at;

    if (direct_reaches(from)) {
        memcpy(to, from->address, count);
        return 0;
    }
    at = own_place(to);
    return direct_copy(s, function, &at, from, count);
}

int direct_write(struct session *s, const char *function, const struct place *to, const void *from,
                 uint64_t count)
{
    struct place at;

    if (direct_reaches(to)) {
        memcpy(to->address, from, count);
        return 0;
    }
    at = own_place(from);
    return direct_copy(s, function, to, &at, count);
}

int direct_copy_on(struct stream *s, const char *function, const struct place *to,
                   const struct place *from, uint64_t count)
{
    if (!direct_reaches(to) || !direct_reaches(from))
        return copy_through(s, function, to, from, count);
    move_here(to, from, count);
    return 0;
}

struct setting {
    const char *function;
    const struct place *at;
    uint8_t value;
    uint64_t count;
};

static int run_set(struct stream *s, void *context)
{
    const struct setting *set = context;

    return submit_set(s, set->function, set->at, set->value, set->count);
}

int direct_set(struct session *s, const char *function, const struct place *at, uint8_t value,
               uint64_t count)
{
    struct setting set = {.function = function, .at = at, .value = value, .count = count};

    if (!direct_reaches(at))
        return direct_run(s, function, at->memory.device, run_set, &set);
    memset(at->address, value, count);
    return 0;
}
