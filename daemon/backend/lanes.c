/* Work that executors do: proto/shm/executor_shm.h. */
#include <assert.h>
#include <string.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/backend/executors.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/kept/stream_record.h"
#include "proto/util/futex.h"

/*
 * A ticket: the low 7 bits of the executor's number, the lane, and the number of the task there. A
 * session's next executor has other bits (executor_new()). The first bit is the stream's
 * (TICKET_DROPPED).
 */
#define NUMBER_BITS 50
#define LANE_BITS   6
static_assert(1u << LANE_BITS == EXECUTOR_LANES, "each lane has a number");
static_assert((uint64_t)EXECUTOR_NUMBERS << (NUMBER_BITS + LANE_BITS) == TICKET_DROPPED,
              "a bit is left");

#define ACL_CODE_MIN 100000
#define ACL_CODE_MAX 599999

static unsigned lane_of(uint64_t ticket)
{
    return ticket >> NUMBER_BITS & (EXECUTOR_LANES - 1);
}

static uint64_t number_of(uint64_t ticket)
{
    return ticket & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

static uint64_t ticket_of(const struct executor *x, unsigned lane, uint64_t number)
{
    return (uint64_t)(x->number % EXECUTOR_NUMBERS) << (NUMBER_BITS + LANE_BITS) |
           (uint64_t)lane << NUMBER_BITS | number;
}

bool lane_is_of(const struct executor *x, uint64_t ticket)
{
    return x->ring && ticket >> (NUMBER_BITS + LANE_BITS) == x->number % EXECUTOR_NUMBERS;
}

static uint64_t issued(const struct executor *x, unsigned lane)
{
    return atomic_load_explicit(&x->ring->bell[lane].issued, memory_order_relaxed);
}

/*
 * Never more than was given to it, and never less than it has said before: what says so lies, and
 * is ended. Acquire: the outcome was stored before.
 */
static uint64_t done(struct executor *x, unsigned lane)
{
    uint64_t n = atomic_load_explicit(&x->page->lane[lane].done, memory_order_acquire);

    if (n > issued(x, lane))
        executor_accuse(x, "it says that work is done that it was never given");
    else if (n < x->told[lane])
        executor_accuse(x, "it takes back that work is done");
    else
        x->told[lane] = n;
    return x->told[lane];
}

static bool has_ended(const struct executor *x)
{
    return atomic_load_explicit(&x->code, memory_order_relaxed) != 0;
}

/*
 * A lane that nobody leases has no task that is not over. So the next number is free, and it is of
 * no earlier work: an npud that comes later takes it for given if `issued` has come so far.
 */
uint64_t lane_lease(struct executor *x)
{
    uint64_t taken = atomic_load_explicit(&x->leased, memory_order_relaxed);
    unsigned lane;

    do {
        if (taken == UINT64_MAX)
            return 0;
        lane = (unsigned)__builtin_ctzll(~taken);
        /* Acquire: what the last one has published there is seen. */
    } while (!atomic_compare_exchange_weak_explicit(&x->leased, &taken, taken | UINT64_C(1) << lane,
                                                    memory_order_acquire, memory_order_relaxed));
    atomic_store_explicit(&x->first[lane], issued(x, lane) + 1, memory_order_relaxed);
    return ticket_of(x, lane, issued(x, lane) + 1);
}

/*
 * A stream leaves its lane, and then notes that its task is over: in between npud may have ended
 * when another one had leased the lane, and even left it. Then there are numbers behind its own, or
 * a ticket that is restored as this one is. What came before it there may have been dropped.
 */
void lane_restore(struct executor *x, uint64_t ticket, uint64_t last)
{
    unsigned lane = lane_of(ticket);
    bool left = issued(x, lane) > number_of(last);
    uint64_t first = left ? number_of(last) + 1 : number_of(ticket);

    if (atomic_load(&x->first[lane]) > first)
        return;
    atomic_store(&x->first[lane], first);
    if (left)
        return;
    atomic_fetch_or(&x->leased, UINT64_C(1) << lane);
    x->lane[lane].dropped = number_of(ticket) - 1;
}

static void ring_bell(struct executor *x, unsigned lane, uint64_t number)
{
    struct executor_bell *bell = &x->ring->bell[lane];

    atomic_store_explicit(&bell->issued, number, memory_order_release);
    KILL_HERE(LANE_ISSUED);
    /*
     * Sequentially consistent, as the look behind it: the thread stores `asleep`, then looks here.
     */
    atomic_store(&bell->news, (uint32_t)number);
    KILL_HERE(LANE_RUNG);
    if (atomic_load(&x->page->lane[lane].asleep) != 0)
        futex_wake_all(&bell->news);
}

/*
 * The entry tells the device: npud alone writes there. It is looked at last: the entries of each
 * lane have pages of their own, and most lanes do nothing.
 */
void lanes_finish_restoring(struct executor *x)
{
    for (unsigned lane = 0; lane < EXECUTOR_LANES; lane++) {
        uint64_t n = issued(x, lane), bit = UINT64_C(1) << lane;
        uint32_t device;

        if (done(x, lane) >= n)
            continue;
        ring_bell(x, lane, n); /* the npud before may have ended before that */
        if (atomic_load(&x->leased) & bit)
            continue;
        device = x->ring->entry[lane][n % EXECUTOR_DEPTH].device;
        if (device >= DEVICES_MAX)
            continue;
        atomic_fetch_or(&x->leased, bit);
        lane_await(x, ticket_of(x, lane, n), device, NULL);
    }
}

static void free_lane(struct executor *x, unsigned lane)
{
    atomic_fetch_and_explicit(&x->leased, ~(UINT64_C(1) << lane), memory_order_release);
}

enum lane_state lane_look(struct executor *x, uint64_t ticket)
{
    unsigned lane = lane_of(ticket);
    uint64_t number = number_of(ticket), at;

    if (has_ended(x))
        return LANE_OVER;
    if (issued(x, lane) < number)
        return LANE_NOT_GIVEN;
    at = done(x, lane);
    if (at < number)
        return LANE_BUSY;
    return at - number < EXECUTOR_DEPTH ? LANE_OVER : LANE_LONG_OVER;
}

void lane_put(struct executor *x, uint64_t ticket, struct executor_task *task)
{
    unsigned lane = lane_of(ticket);
    struct executor_request begin = {.op = EXECUTOR_LANE_BEGIN, .value = lane};

    /* The first task of a lane: its thread is to be there. Twice is the same as once. */
    if (number_of(ticket) == 1)
        executor_tell(x, &begin, -1);
    task->number = number_of(ticket);
    x->ring->entry[lane][task->number % EXECUTOR_DEPTH] = *task;
    KILL_HERE(LANE_WRITTEN);
}

bool lane_has(const struct executor *x, uint64_t ticket, const struct executor_task *task)
{
    struct executor_task is = x->ring->entry[lane_of(ticket)][number_of(ticket) % EXECUTOR_DEPTH];

    if (has_ended(x) || is.number != number_of(ticket))
        return true;
    is.number = task->number;
    is.after = task->after;
    return memcmp(&is, task, sizeof(is)) == 0;
}

void lane_give(struct executor *x, uint64_t ticket)
{
    ring_bell(x, lane_of(ticket), number_of(ticket));
    executors_busy(x->all);
}

void lane_await(struct executor *x, uint64_t ticket, uint32_t device, struct work *work)
{
    struct lane *l = &x->lane[lane_of(ticket)];

    if (l->number == number_of(ticket)) {
        l->work = work;
        return;
    }
    assert(l->number == 0); /* it is on no list */
    *l = (struct lane){
        .executor = x, .work = work, .number = number_of(ticket), .dropped = l->dropped};
    DL_APPEND(x->all->flying[device], l);
}

/* Streams know codes of ACL alone: what is none counts as an error of the library. */
static int32_t acl_code(int32_t code)
{
    return code == 0 || (code >= ACL_CODE_MIN && code <= ACL_CODE_MAX)
               ? code
               : ACL_ERROR_RT_INTERNAL_ERROR;
}

/*
 * An executor that has lost its device is of no use to any session of it: it is ended, and all are
 * told. The task that met the error still has its code.
 */
int32_t lane_result(struct executor *x, uint64_t ticket, uint64_t *value)
{
    const struct executor_done *d = &x->page->lane[lane_of(ticket)];
    int32_t code = atomic_load_explicit(&x->code, memory_order_relaxed);

    if (code != 0)
        return code;
    if (atomic_load_explicit(&d->gone, memory_order_relaxed) != 0)
        executor_accuse(x, "its library has lost the device");
    *value = atomic_load_explicit(&d->value, memory_order_relaxed);
    return acl_code(atomic_load_explicit(
        &x->page->code[lane_of(ticket)][number_of(ticket) % EXECUTOR_DEPTH], memory_order_relaxed));
}

static void unlist(struct executor *x, uint64_t ticket, uint32_t device)
{
    struct lane *l = &x->lane[lane_of(ticket)];

    if (l->number != number_of(ticket))
        return;
    assert(engine_is_locked(x->all->server->devices->device[device].engine));
    DL_DELETE(x->all->flying[device], l);
    l->number = 0;
}

/* Work that its stream has dropped is over, and the control thread is to know. */
static void tell_landed(struct executor *x)
{
    atomic_store(&x->landed, true);
    if (!atomic_exchange(&x->all->landed_told, true))
        job_send(&x->all->landed);
}

/* If the last of them flies, and nobody waits, the poll that finds it over frees the lane. */
void lane_leave(struct executor *x, uint64_t ticket, uint32_t device, bool all)
{
    unsigned lane = lane_of(ticket);
    struct lane *l = &x->lane[lane];
    uint64_t last = issued(x, lane);

    if (number_of(ticket) < atomic_load_explicit(&x->first[lane], memory_order_relaxed))
        return; /* it has left it already */
    unlist(x, ticket, device);
    if (lane_look(x, ticket) == LANE_BUSY) {
        l->dropped = number_of(ticket);
    } else if (l->dropped != 0) {
        l->dropped = 0;
        tell_landed(x);
    }
    if (number_of(ticket) < last && !all)
        return; /* there are others behind it */
    ticket = ticket_of(x, lane, last > number_of(ticket) ? last : number_of(ticket));
    if (lane_look(x, ticket) == LANE_BUSY) {
        lane_await(x, ticket, device, NULL);
        return;
    }
    free_lane(x, lane);
    if (all)
        tell_landed(x);
}

int lane_begin_abort(struct executor *x, uint64_t ticket, uint64_t *to)
{
    unsigned lane = lane_of(ticket);
    struct lane *l = &x->lane[lane];

    if (l->number == 0 || l->work || l->aborts)
        return -1;
    l->aborts = true;
    *to = l->number;
    return (int)lane;
}

void lane_end_abort(struct executor *x, int lane)
{
    struct lane *l = &x->lane[lane];

    l->aborts = false;
    if (l->number == 0)
        free_lane(x, (unsigned)lane);
}

static bool is_over(const struct lane *l)
{
    return has_ended(l->executor) ||
           done(l->executor, (unsigned)(l - l->executor->lane)) >= l->number;
}

void lanes_poll(struct executors *all, uint32_t device, void (*over)(struct work *work))
{
    struct lane *l, *next;

    DL_FOREACH_SAFE (all->flying[device], l, next) {
        if (!is_over(l))
            continue;
        DL_DELETE(all->flying[device], l);
        l->number = 0;
        if (l->work) {
            over(l->work);
        } else {
            /* Else the abort could meet work of the next one. */
            if (!l->aborts)
                free_lane(l->executor, (unsigned)(l - l->executor->lane));
            tell_landed(l->executor);
        }
    }
}

bool lanes_sleep(struct executors *all, uint32_t device, bool asleep)
{
    struct lane *l;
    bool over = false;

    DL_FOREACH (all->flying[device], l)
        atomic_store_explicit(&l->executor->ring->bell[l - l->executor->lane].awaited, asleep,
                              memory_order_relaxed);
    /* A thread that ends a task stores `done`, has the same fence, and looks at `awaited`. */
    if (asleep)
        atomic_thread_fence(memory_order_seq_cst);
    DL_FOREACH (all->flying[device], l)
        over |= asleep && is_over(l);
    if (over)
        lanes_sleep(all, device, false);
    return !over;
}
