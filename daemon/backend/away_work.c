/* Work of devices that executors do. */
#include "daemon/backend/away.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "proto/util/clock.h"

/* None of the lanes is free: so much later there may be one. */
#define LANES_AGAIN_NS (50 * NSEC_PER_USEC)

/* --- work --- */

static bool is_near(struct work_place at)
{
    return !at.memory || at.memory->pages;
}

static struct executor *executor_of(const struct work *w)
{
    return is_near(w->dst) ? w->src.memory->executor : w->dst.memory->executor;
}

static struct executor_place place_of(struct work_place at)
{
    return at.memory ? (struct executor_place){at.memory->handle, at.offset}
                     : (struct executor_place){0};
}

/* The message that has brought the memory. Device memory was there when it was told. */
static uint64_t after_of(struct work_place at)
{
    return at.memory ? at.memory->after : 0;
}

static struct executor_task task_of(const struct work *w, uint32_t device)
{
    static const uint8_t ops[] = {
        [WORK_COPY] = EXECUTOR_COPY,
        [WORK_SET] = EXECUTOR_SET,
        [WORK_REDUCE] = EXECUTOR_REDUCE,
        [WORK_WORD_READ] = EXECUTOR_WORD_READ,
        [WORK_WORD_WRITE] = EXECUTOR_WORD_WRITE,
        [WORK_LAUNCH] = EXECUTOR_LAUNCH,
    };
    return (struct executor_task){
        .op = ops[w->kind],
        .device = (uint8_t)device,
        .value = w->kind == WORK_REDUCE ? (uint32_t)w->reduce << 8 | w->type : w->value,
        .after = after_of(w->dst) > after_of(w->src) ? after_of(w->dst) : after_of(w->src),
        .dst = place_of(w->dst),
        .src = place_of(w->src),
        .size = w->kind == WORK_WORD_WRITE || w->kind == WORK_LAUNCH ? w->word : w->size,
    };
}

static void put(struct executor *x, const struct work *w, uint64_t ticket, uint32_t device)
{
    struct executor_task task = task_of(w, device);

    lane_put(x, ticket, &task);
}

/* Of the same executor, or of pages that it has. */
static bool fits(const struct executor *x, struct work_place at)
{
    return !at.memory || (at.memory->executor == x && at.memory->handle != 0);
}

/* How it ends that is over; result: 0 or an ACL error. */
static enum work_state end_away(struct executor *x, struct work *w, bool long_over, int32_t *result)
{
    *result = long_over ? 0 : lane_result(x, w->ticket, &w->word);
    if (*result == 0)
        w->progress = w->size;
    return WORK_DONE;
}

static enum work_state step_away(uint32_t device, struct work *w, uint64_t now, uint64_t *deadline,
                                 int32_t *result)
{
    struct executor *x = executor_of(w);
    enum lane_state at;

    w->slice = NULL; /* it is put where it belongs there */
    *result = atomic_load_explicit(&x->code, memory_order_acquire);
    if (*result == 0 &&
        (!fits(x, w->dst) || !fits(x, w->src) || (w->ticket != 0 && !lane_is_of(x, w->ticket))))
        *result = ACL_ERROR_RT_SYS_DMA;
    if (*result != 0)
        return WORK_DONE;
    if (w->ticket == 0) {
        w->ticket = lane_lease(x);
        if (w->ticket != 0)
            return WORK_NOTE;
        *deadline = now + LANES_AGAIN_NS;
        return WORK_PENDING;
    }
    at = lane_look(x, w->ticket);
    if (at == LANE_NOT_GIVEN) { /* a word that is read: nobody has noted its ticket */
        put(x, w, w->ticket, device);
        lane_give(x, w->ticket);
    }
    if (at == LANE_OVER || at == LANE_LONG_OVER)
        return end_away(x, w, at == LANE_LONG_OVER, result);
    lane_await(x, w->ticket, device, w);
    return WORK_AWAY;
}

enum work_state away_step(void *state, uint32_t device, struct work *w, uint64_t now,
                          uint64_t *deadline, int32_t *result)
{
    (void)state;
    if (w->kind == WORK_DELAY)
        return delay_step(w, now, deadline, result);
    *result = 0;
    if (w->progress == w->size)
        return WORK_DONE;
    if (is_near(w->dst) && is_near(w->src))
        return mapped_step(w, w->dst.memory->pages, w->src.memory ? w->src.memory->pages : NULL);
    return step_away(device, w, now, deadline, result);
}

void away_poll(void *state, uint32_t device, void (*over)(struct work *work))
{
    lanes_poll(state, device, over);
}

bool away_sleep(void *state, uint32_t device, bool asleep)
{
    return lanes_sleep(state, device, asleep);
}

static bool is_for(const struct executor *x, const struct work *w)
{
    return (!is_near(w->dst) || !is_near(w->src)) && fits(x, w->dst) && fits(x, w->src);
}

unsigned away_ahead(void *state, const struct work *works, unsigned n)
{
    struct executor *x = executor_of(&works[0]);
    unsigned i = 1;

    (void)state;
    while (i < n && works[i].size > 0 && is_for(x, &works[i]))
        i++;
    return i;
}

void away_give(void *state, uint32_t device, const struct work *works, unsigned n)
{
    struct executor *x = executor_of(&works[0]);
    uint64_t ticket = works[0].ticket;

    (void)state;
    for (unsigned i = 0; i < n; i++)
        put(x, &works[i], ticket + i, device);
    lane_give(x, ticket + n - 1);
}

/* The session's executor, or the one before, of which the ticket is. NULL: that is gone. */
static struct executor *issuer(const struct backend_space *space, uint64_t ticket)
{
    if (space && space->executor && lane_is_of(space->executor, ticket))
        return space->executor;
    return space && space->before && lane_is_of(space->before, ticket) ? space->before : NULL;
}

bool away_resume(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                 uint64_t last)
{
    struct executor *x = issuer(space, ticket);

    (void)state;
    (void)device;
    if (!x)
        return true;
    if (lane_look(x, ticket) == LANE_NOT_GIVEN)
        return false; /* the lane is free: its next lease has this very ticket */
    lane_restore(x, ticket, last);
    return true;
}

bool away_gave(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
               const struct work *work)
{
    struct executor *x = issuer(space, ticket);
    struct executor_task task = task_of(work, device);

    (void)state;
    return !x || lane_has(x, ticket, &task);
}

void away_forget(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                 bool all)
{
    struct executor *x = issuer(space, ticket);

    (void)state;
    if (x)
        lane_leave(x, ticket, device, all);
}

bool away_is_over(void *state, struct backend_space *space, uint64_t ticket)
{
    struct executor *x = issuer(space, ticket);

    (void)state;
    return !x || lane_look(x, ticket) != LANE_BUSY;
}

struct lane_abort {
    struct asked asked; /* first */
    uint32_t device;
    int lane;
};

/* There may be more behind what was ended. A library that refuses does so again. */
static void abort_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    const struct lane_abort *abort = (struct lane_abort *)asked;
    struct executor *x = asked->executor;
    struct engine *e = x->all->server->devices->device[abort->device].engine;

    if (fd >= 0)
        close(fd);
    engine_lock(e);
    lane_end_abort(x, abort->lane);
    engine_unlock(e);
    free(asked);
    if (answer && answer->code == 0)
        x->all->told(x);
}

/* to: the number of the last task that is to end. 0 or -errno. */
static int abort_lane(struct executor *x, uint32_t device, int lane, uint64_t to)
{
    struct executor_request request = {
        .op = EXECUTOR_LANE_ABORT, .size = to, .value = (uint64_t)lane};
    struct lane_abort *abort = calloc(1, sizeof(*abort));
    int r;

    if (!abort)
        return -ENOMEM;
    abort->device = device;
    abort->lane = lane;
    r = executor_ask(x, &abort->asked, abort_over, &request, NULL, 0);
    if (r < 0)
        free(abort);
    return r;
}

/* Its lane flies until then, and the engine that sees it land tells of that. */
int away_await_over(void *state, struct backend_space *space, uint32_t device, uint64_t ticket)
{
    struct executors *all = state;
    struct engine *e = all->server->devices->device[device].engine;
    struct executor *x = issuer(space, ticket);
    uint64_t to = 0;
    int lane = -1;
    bool over;

    engine_lock(e);
    over = !x || lane_look(x, ticket) != LANE_BUSY;
    if (!over && (all->info[device].capabilities & EXECUTOR_CAN_ABORT))
        lane = lane_begin_abort(x, ticket, &to);
    engine_unlock(e);
    if (over)
        return 0;
    space->waits = true;
    if (lane >= 0 && abort_lane(x, device, lane, to) < 0) { /* it ends by itself */
        engine_lock(e);
        lane_end_abort(x, lane);
        engine_unlock(e);
    }
    return -EINPROGRESS;
}

/* --- words --- */

bool away_word_read(struct work_place at, uint64_t *value)
{
    if (at.memory->pages)
        *value = mapped_word_read(at.memory->pages, at.offset);
    return at.memory->pages;
}

bool away_word_write(struct work_place at, uint64_t value)
{
    if (at.memory->pages)
        mapped_word_write(at.memory->pages, at.offset, value);
    return at.memory->pages;
}

bool away_words_read(struct work_place at, uint64_t *to, unsigned words)
{
    if (at.memory->pages)
        mapped_words_read(at.memory->pages, at.offset, to, words);
    return at.memory->pages;
}

/* Of memory of the host: reductions of the device have no slices. */
void away_slice_put(struct work_place at, const void *slice, uint64_t size)
{
    memcpy(mapped_at(at.memory->pages, at.offset), slice, size);
}
