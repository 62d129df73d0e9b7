#include "client/memory/hold.h"

#include <stdbool.h>
#include <time.h>

#include "client/core/lifecycle.h"
#include "client/core/ring_guard.h"

static _Atomic(void *) holds; /* of all threads so far */

struct hold *hold_new(void)
{
    struct thread *t = thread_self();

    /* The dummy is several threads', a hold is one's. */
    if (t == thread_current)
        t->hold = thread_mark_new(&holds, sizeof(struct hold));
    return t->hold;
}

static void give_hold_back(struct thread *t)
{
    if (!t->hold)
        return;
    hold_clear(t->hold);
    thread_mark_free(&t->hold->mark);
}

/* The threads of the parent are not there. */
static void forget_inherited(void)
{
    struct hold *mine = thread_self()->hold;

    for (struct hold *h = atomic_load(&holds); h; h = h->mark.next) {
        hold_clear(h);
        if (h != mine)
            thread_mark_free(&h->mark);
    }
}

const struct part hold_part = {.fork_child = forget_inherited, .thread_exit = give_hold_back};

/*
 * If the thread has the bytes all the time, all that is read is of that; if it lets go or takes
 * others meanwhile, it has let go, and any answer is right.
 */
static bool holds_any(const struct hold *h, uintptr_t start, size_t size)
{
    uint64_t held = atomic_load_explicit(&h->size, memory_order_acquire);

    for (unsigned i = 0; held != 0 && i < HOLD_RANGES; i++) {
        uintptr_t from = atomic_load_explicit(&h->start[i], memory_order_relaxed);

        if (from < start + size && from + held > start)
            return true;
    }
    return false;
}

static bool is_held(uintptr_t start, size_t size)
{
    for (const struct hold *h = atomic_load(&holds); h; h = h->mark.next)
        if (holds_any(h, start, size))
            return true;
    return false;
}

#define PAUSE_FIRST_NS 20000
#define PAUSE_MOST_NS  1000000

void hold_await(uintptr_t start, size_t size)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};

    /*
     * If the kernel refuses the barrier, as a filter of the program's may have it do: a store is
     * seen long before a millisecond is over.
     */
    if (!ring_guard_barrier())
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MOST_NS}, NULL);
    /*
     * Asked for again and again: to be woken, a copy would have to look whether a thread waits, and
     * a program that frees what it copies is wrong.
     */
    while (is_held(start, size)) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_MOST_NS)
            pause.tv_nsec *= 2;
    }
}
