/* Fills with bytes or with words of 32 bits: aclrtMemset, aclrtMemsetD32, the asynchronous ones. */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/checked_access.h"
#include "client/memory/copy.h"
#include "client/memory/direct.h"
#include "client/memory/host_task.h"
#include "client/memory/place.h"
#include "client/memory/submit.h"
#include "client/capture/capture.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

struct fill {
    const char *function;
    const char *name; /* of the argument `p` */
    void *p;
    size_t count;  /* bytes */
    uint32_t word; /* of a fill with bytes, its low byte */
    bool words;
};

static int find_place(struct session *s, const struct fill *f, struct place *at)
{
    RETURN_IF_ERROR(place_find(s, f->function, f->p, f->count, f->name, at));
    if (f->words && (at->kind == PLACE_PAGEABLE || at->kind == PLACE_MANAGED))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: %s (%p) is %s: use aclrtMemset", f->function,
                         f->name, f->p, place_row(at)->name);
    return 0;
}

/* --- in the order of a stream --- */

static int copy_first(struct stream *s, const struct fill *f, const struct place *at, size_t *done)
{
    uint32_t words[1024];
    struct place first;

    *done = f->count < sizeof(words) ? f->count : sizeof(words);
    for (size_t i = 0; i < *done / sizeof(f->word); i++)
        words[i] = f->word;
    first = direct_own(words);
    return copy_buffered(s, f->function, at, &first, *done);
}

/* A graph has no copy that takes its source at the call, but fills with bytes. */
static int set_first(struct stream *s, const struct fill *f, const struct place *at, size_t *done)
{
    struct place next = *at;
    uint8_t bytes[sizeof(f->word)];

    memcpy(bytes, &f->word, sizeof(bytes));
    for (*done = 0; *done < sizeof(bytes); ++*done) {
        if (*done > 0)
            RETURN_IF_ERROR(place_move(s->session, f->function, &next, 1));
        RETURN_IF_ERROR(submit_set(s, f->function, &next, bytes[*done], 1));
    }
    return 0;
}

/*
 * Engines fill with bytes. Words are put at the beginning, and copied from there behind it, twice
 * as many each time: an op of engines would be for this rare call alone.
 */
static int submit_words(struct stream *s, const struct fill *f, const struct place *at)
{
    struct place next = *at;
    size_t done, n;

    RETURN_IF_ERROR(stream_captures(s) ? set_first(s, f, at, &done) : copy_first(s, f, at, &done));
    for (n = done; done < f->count; done += n) {
        RETURN_IF_ERROR(place_move(s->session, f->function, &next, n));
        n = done < f->count - done ? done : f->count - done;
        RETURN_IF_ERROR(submit_copy(s, f->function, &next, at, n));
    }
    return 0;
}

/* --- now --- */

struct call {
    const struct fill *fill;
    const struct place *at;
};

static int run_words(struct stream *s, void *context)
{
    const struct call *call = context;

    return submit_words(s, call->fill, call->at);
}

static int fill_now(struct session *s, const struct fill *f, const struct place *at)
{
    struct call call = {f, at};

    if (!f->words)
        return direct_set(s, f->function, at, (uint8_t)f->word, f->count);
    if (!direct_reaches(at))
        return direct_run(s, f->function, at->memory.device, run_words, &call);
    return direct_set_words(s, f->function, at, f->word, f->count / sizeof(f->word));
}

static uint32_t word_of(const struct fill *f)
{
    return f->words ? f->word : (uint8_t)f->word * UINT32_C(0x01010101);
}

/* Host memory that an engine reaches is a device's as well where it is registered. */
static bool is_filled_by_engine(struct session *s, const struct fill *f, const struct place *at)
{
    return place_row(at)->engine && (place_row(at)->device || place_is_registered(s, at, f->count));
}

static int fill_in_order(struct stream *s, const struct fill *f)
{
    struct place at;

    RETURN_IF_ERROR(find_place(s->session, f, &at));
    if (at.kind == PLACE_REGISTERED)
        return host_task_set(s, f->function, &at, word_of(f), f->count);
    if (is_filled_by_engine(s->session, f, &at)) {
        if (f->words && f->word != (uint8_t)f->word * UINT32_C(0x01010101))
            return submit_words(s, f, &at);
        return submit_set(s, f->function, &at, (uint8_t)f->word, f->count);
    }
    if (stream_captures(s))
        return capture_error_kind(f->function, "a fill of memory that no device reaches");
    /* A buffer in its turn, as on a device. Other host memory at once, as the reference has it. */
    RETURN_IF_ERROR(place_row(&at)->device ? stream_drain(s, f->function)
                                           : stream_check(s, f->function));
    RETURN_IF_ERROR(fill_now(s->session, f, &at));
    if (process_tells_accesses())
        checked_access(s->session, place_row(&at)->device ? s : NULL, &at, NULL, f->count);
    return 0;
}

static int fill_async(const struct fill *f, aclrtStream stream)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, f->function, stream);
    int error = fill_in_order(s, f);

    stream_unlock(s);
    return error;
}

/* --- the calls --- */

static int check_set(const char *function, const void *p, size_t max, size_t count)
{
    if (count == 0)
        return 0;
    if (!p)
        return error_null(function, "devPtr");
    if (count > max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than maxCount %zu",
                         function, count, max);
    return -1;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    CALL_SCOPE;
    int error = check_set(__func__, devPtr, maxCount, count);
    struct context *c;
    struct place at;

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(capture_check_blocking(c, __func__));
    RETURN_IF_ERROR(place_find(c->session, __func__, devPtr, count, "devPtr", &at));
    RETURN_IF_ERROR(direct_set(c->session, __func__, &at, (uint8_t)value, count));
    if (process_tells_accesses())
        checked_access(c->session, NULL, &at, NULL, count);
    return place_tell_written(c->session, __func__, &at, count);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream)
{
    CALL_SCOPE;
    struct fill f = {.function = __func__,
                     .name = "devPtr",
                     .p = devPtr,
                     .count = count,
                     .word = (uint8_t)value};
    int error = check_set(__func__, devPtr, maxCount, count);

    return error >= 0 ? error : fill_async(&f, stream);
}

static int check_words(const char *function, const void *p, size_t size, size_t n)
{
    if (n == 0)
        return 0;
    if (!p)
        return error_null(function, "ptr");
    if ((uintptr_t)p % sizeof(uint32_t) != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: ptr (%p) is not aligned to 4 bytes",
                         function, p);
    if (n > size / sizeof(uint32_t))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: %zu words of 4 bytes are more than memSize %zu", function, n, size);
    return -1;
}

aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    CALL_SCOPE;
    struct fill f = {.function = __func__,
                     .name = "ptr",
                     .p = ptr,
                     .count = N * sizeof(value),
                     .word = value,
                     .words = true};
    int error = check_words(__func__, ptr, memSize, N);
    struct context *c;
    struct place at;

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(capture_check_blocking(c, __func__));
    RETURN_IF_ERROR(find_place(c->session, &f, &at));
    RETURN_IF_ERROR(fill_now(c->session, &f, &at));
    if (process_tells_accesses())
        checked_access(c->session, NULL, &at, NULL, f.count);
    return place_tell_written(c->session, __func__, &at, f.count);
}

aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                             aclrtStream stream)
{
    CALL_SCOPE;
    struct fill f = {.function = __func__,
                     .name = "ptr",
                     .p = ptr,
                     .count = N * sizeof(value),
                     .word = value,
                     .words = true};
    int error = check_words(__func__, ptr, memSize, N);

    return error >= 0 ? error : fill_async(&f, stream);
}
