#include "client/memory/direct.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/copy.h"
#include "client/memory/hold.h"
#include "client/memory/staging.h"
#include "client/memory/submit.h"
#include "client/runtime/context.h"
#include "proto/util/copy_large.h"
#include "proto/util/reduce_apply.h"

/* --- what the thread reaches --- */

static int keep_walking(void *context, const struct place *to, const struct place *from,
                        uint64_t count)
{
    (void)context;
    (void)to;
    (void)from;
    (void)count;
    return 0;
}

/* Something has changed since it was found. */
static bool __attribute__((noinline, cold))
is_still_there(struct session *s, const char *function, const struct place *at, uint64_t count)
{
    return memory_is_there(s, &at->memory) &&
           (!at->goes_on || place_walk(s, function, at, NULL, count, keep_walking, NULL) == 0);
}

static inline bool is_there(struct session *s, const char *function, const struct place *at,
                            uint64_t count)
{
    return !at || !place_row(at)->engine ||
           at->changes == atomic_load_explicit(&s->memory_changes, memory_order_relaxed) ||
           is_still_there(s, function, at, count);
}

/* hold_places() has said no. */
static int __attribute__((noinline, cold)) error_not_held(const char *function)
{
    if (!hold_mine())
        return error_no_memory(function);
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the memory was freed or unmapped during the call: do that afterwards",
                     function);
}

/*
 * Nothing that the places are in is unmapped until hold_clear(). Either may be NULL. NULL: one is
 * not there any more, or no memory. No variable has its address taken here, nor where a copy comes
 * by: the compiler would guard the frame, which takes as long as the hold.
 */
static inline struct hold *hold_places(struct session *s, const char *function,
                                       const struct place *to, const struct place *from,
                                       uint64_t count)
{
    struct hold *h = hold_mine();

    if (__builtin_expect(!h, 0))
        return NULL;
    hold_set(h, to ? to->address : NULL, from ? from->address : NULL, count);
    if (__builtin_expect(is_there(s, function, to, count) && is_there(s, function, from, count), 1))
        return h;
    hold_clear(h);
    return NULL;
}

static int move_here(struct session *s, const char *function, const struct place *to,
                     const struct place *from, uint64_t count)
{
    struct hold *h = hold_places(s, function, to, from, count);

    if (__builtin_expect(!h, 0))
        return error_not_held(function);
    /* overlapping ranges are the program's mistake, but must not be undefined */
    if (count >= COPY_LARGE)
        copy_large(to->address, from->address, count);
    else
        memmove(to->address, from->address, count);
    hold_clear(h);
    return 0;
}

int direct_set_words(struct session *s, const char *function, const struct place *at, uint32_t word,
                     uint64_t count)
{
    struct hold *h = hold_places(s, function, at, NULL, count * sizeof(word));
    uint32_t *words = at->address;

    if (!h)
        return error_not_held(function);
    for (uint64_t i = 0; i < count; i++)
        words[i] = word;
    hold_clear(h);
    return 0;
}

int direct_reduce(struct session *s, const char *function, const struct place *to,
                  const struct place *from, uint64_t count, uint32_t kind, uint32_t type)
{
    struct hold *h = hold_places(s, function, to, from, count);

    if (!h)
        return error_not_held(function);
    reduce_apply(to->address, from->address, count, kind, type);
    hold_clear(h);
    return 0;
}

int direct_word_read(struct session *s, const char *function, const struct place *at,
                     uint64_t *value)
{
    struct hold *h = hold_places(s, function, NULL, at, sizeof(*value));
    const _Atomic uint64_t *word = at->address;

    if (!h)
        return error_not_held(function);
    *value = atomic_load_explicit(word, memory_order_acquire);
    hold_clear(h);
    return 0;
}

int direct_word_write(struct session *s, const char *function, const struct place *at,
                      uint64_t value)
{
    struct hold *h = hold_places(s, function, at, NULL, sizeof(value));
    _Atomic uint64_t *word = at->address;

    if (!h)
        return error_not_held(function);
    atomic_store_explicit(word, value, memory_order_release);
    hold_clear(h);
    return 0;
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
        error = stream_error_failed(s->ctrl, s->id, function, failed);
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
    struct place at = *to, slice = *from;
    uint64_t n;

    for (uint64_t done = 0, slices = 1; done < count; done += n, slices++) {
        n = slice_of(done, count);
        slice.address = (char *)from->address + done;
        RETURN_IF_ERROR(copy_buffered(s, function, &at, &slice, n));
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
    struct place at = copy_staged(b);
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
                memcpy((char *)to->address + done + i * SLICE, copy_staged(buffers[i]).address,
                       slice_of(i * SLICE, n));
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

static int __attribute__((noinline))
copy_by_engine(struct session *s, const char *function, const struct place *to,
               const struct place *from, uint64_t count)
{
    struct copying c = {.function = function, .to = to, .from = from, .count = count};

    return direct_run(s, function, direct_reaches(to) ? from->memory.device : to->memory.device,
                      run_copy, &c);
}

int direct_copy(struct session *s, const char *function, const struct place *to,
                const struct place *from, uint64_t count)
{
    if (__builtin_expect(direct_reaches(to) && direct_reaches(from), 1))
        return move_here(s, function, to, from, count);
    return copy_by_engine(s, function, to, from, count);
}

int direct_copy_in_turn(struct session *s, const char *function, const struct place *to,
                        const struct place *from, uint64_t count)
{
    int error;

    if (!is_there(s, function, to, count) || !is_there(s, function, from, count))
        return ACL_ERROR_RT_SYS_DMA;
    error = direct_copy(s, function, to, from, count);
    /* 107002: its device was reset, so that no stream copies for it. */
    return error == ACL_ERROR_RT_PARAM_INVALID || error == ACL_ERROR_RT_CONTEXT_NULL
               ? ACL_ERROR_RT_SYS_DMA
               : error;
}

int direct_read(struct session *s, const char *function, const struct place *from, void *to,
                uint64_t count)
{
    struct place at = direct_own(to);

    return direct_copy(s, function, &at, from, count);
}

int direct_write(struct session *s, const char *function, const struct place *to, const void *from,
                 uint64_t count)
{
    struct place at = direct_own(from);

    return direct_copy(s, function, to, &at, count);
}

int direct_copy_on(struct stream *s, const char *function, const struct place *to,
                   const struct place *from, uint64_t count)
{
    uint8_t special = s->special;
    int error;

    if (direct_reaches(to) && direct_reaches(from))
        return move_here(s->session, function, to, from, count);
    /* The caller writes down what the copy is; these tasks are how it is done. */
    s->special &= (uint8_t)~STREAM_CHECKED;
    error = copy_through(s, function, to, from, count);
    s->special = special;
    return error;
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

static int __attribute__((noinline))
set_by_engine(struct session *s, const char *function, const struct place *at, uint8_t value,
              uint64_t count)
{
    struct setting set = {.function = function, .at = at, .value = value, .count = count};

    return direct_run(s, function, at->memory.device, run_set, &set);
}

int direct_set(struct session *s, const char *function, const struct place *at, uint8_t value,
               uint64_t count)
{
    struct hold *h;

    if (!direct_reaches(at))
        return set_by_engine(s, function, at, value, count);
    h = hold_places(s, function, at, NULL, count);
    if (!h)
        return error_not_held(function);
    memset(at->address, value, count);
    hold_clear(h);
    return 0;
}
