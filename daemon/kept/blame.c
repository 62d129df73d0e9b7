#include "daemon/kept/blame.h"

#include <stdatomic.h>
#include <stddef.h>

#include "daemon/kept/kept.h"
#include "daemon/kept/kept_room.h"
#include "daemon/kept/layout.h"

static _Thread_local unsigned this_thread = KEPT_WORD_LOGS; /* unknown */
static bool begun; /* what is in hand is not that of an npud before, whose end is to be looked at */

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* --- the npud that serves --- */

void blame_thread_is(unsigned who)
{
    this_thread = who;
}

void blame_note_fault(bool outside)
{
    struct kept_head *head = kept_head();
    uint64_t none = 0, by = this_thread + 1;

    if (outside || this_thread >= KEPT_WORD_LOGS)
        by = KEPT_FAULT_NOBODY;
    /* Of an npud that recovers, the fault of the one before is still there, if that had one. */
    if (head && begun)
        atomic_compare_exchange_strong_explicit(&head->faulty, &none, by, memory_order_relaxed,
                                                memory_order_relaxed);
}

void blame_note_stuck(uint32_t engine)
{
    if (kept_head())
        store(&kept_head()->stuck, engine == UINT32_MAX ? 0 : engine + 1);
}

void blame_note_serving(void)
{
    if (kept_head())
        store(&kept_head()->serves, 1);
}

/* --- the next npud --- */

static void forget_in_hand(void)
{
    for (unsigned i = 0; i < KEPT_WORD_LOGS; i++)
        kept_in_hand(kept_in_hand_of(i), 0, 0);
}

static uint64_t whose_hang(const struct kept_head *head)
{
    return load(&head->stuck) != 0 ? load(&head->stuck) : KEPT_CONTROL + 1;
}

void blame_begin(enum blame_end end)
{
    struct kept_head *head = kept_head();
    uint64_t by = load(&head->faulty);

    /*
     * One that has not come to serve has had nothing in hand but what its engines ran, and the
     * supervisor speaks of one before it: what it lacked (memory, descriptors) is no fault.
     */
    if (by == 0 && load(&head->serves) != 0 && end != BLAME_KILLED)
        by = end == BLAME_HUNG ? whose_hang(head) : KEPT_FAULT_ANY;
    if (by == 0 || by == KEPT_FAULT_NOBODY)
        forget_in_hand(); /* else a fault of this npud would be taken for one of theirs */
    kept_order();
    store(&head->faulty, by);
    begun = true;
}

uint16_t blame_death(void)
{
    return (uint16_t)(kept_head()->deaths % UINT16_MAX + 1);
}

void blame_each(void (*fn)(void *arg, uint64_t session, unsigned who, uint64_t what), void *arg)
{
    uint64_t by = load(&kept_head()->faulty);

    for (unsigned i = 0; i < KEPT_WORD_LOGS; i++) {
        const struct kept_in_hand *in_hand = kept_in_hand_of(i);
        uint64_t session = load(&in_hand->session);

        if (session != 0 && (by == KEPT_FAULT_ANY || by == i + 1))
            fn(arg, session, i, load(&in_hand->what));
    }
}

void blame_end(void)
{
    struct kept_head *head = kept_head();

    forget_in_hand();
    kept_order();
    store(&head->serves, 0);
    store(&head->stuck, 0);
    kept_order();
    store(&head->faulty, 0);
    kept_order();
    head->deaths++;
}
