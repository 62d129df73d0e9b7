#include "daemon/core/ipc_failures.h"

#include <pthread.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/server.h"

#define FAILURES_FIRST 16
#define FAILURES_MAX   (4 * IPC_SLOTS)

/* Its place in the table, which there is. */
static struct ipc_failure *place_of(const struct ipc_event *ev, uint64_t number)
{
    return &ev->failures->failure[number % ev->failures->size];
}

/* In this order, so that a kill leaves a place that is free, or one that is right. */
static void store_failure(struct ipc_failure *f, uint64_t number, int32_t pid, uint32_t unsubmitted)
{
    f->number = 0;
    kept_order();
    f->pid = pid;
    f->unsubmitted = unsubmitted;
    kept_order();
    KILL_HERE(FAILURE_HALF);
    f->number = number;
}

static size_t bytes_of_table(uint64_t size)
{
    return sizeof(struct ipc_failures_record) + size * sizeof(struct ipc_failure);
}

static uint64_t next_size(const struct ipc_event *ev)
{
    return ev->failures ? 4 * ev->failures->size : FAILURES_FIRST;
}

/* A failure with a place of its own has one in a table that is a multiple of the old one. */
static void fill_table(void *arg, void *record)
{
    const struct ipc_event *ev = arg;
    struct ipc_failures_record *table = record;

    table->event = ev->id;
    table->size = next_size(ev);
    for (uint64_t i = 0; ev->failures && i < ev->failures->size; i++) {
        const struct ipc_failure *f = &ev->failures->failure[i];

        if (f->number != 0)
            store_failure(&table->failure[f->number % table->size], f->number, f->pid,
                          f->unsubmitted);
    }
}

static void use_table(struct ipc_event *ev)
{
    ev->failures = kept_record(&ev->failures_kept);
}

/*
 * Most events fail a few records or none: the table begins small. False: it is as big as it gets.
 */
static bool grow_failures(struct ipc_event *ev)
{
    uint64_t size = next_size(ev);

    if (size > FAILURES_MAX ||
        !kept_grow(&ev->failures_kept, KEPT_IPC_FAILURES, bytes_of_table(size), fill_table, ev))
        return false;
    use_table(ev);
    return true;
}

static void forget_failure(struct ipc_event *ev, uint64_t number)
{
    if (number > ev->live->forgotten)
        ev->live->forgotten = number;
    kept_order();
}

/*
 * By number, so that finding one is no work. Of two that fall on the same place in the biggest
 * table, the older is forgotten.
 */
bool ipc_failure_remember(struct ipc_event *ev, uint64_t number, int32_t pid, bool unsubmitted)
{
    struct ipc_failure *f = NULL;
    bool is_new = false;

    waitlist_lock(&ev->completed);
    while (!ev->failures || ((f = place_of(ev, number))->number != 0 && f->number != number))
        if (!grow_failures(ev))
            break;
    if (!ev->failures) {
        forget_failure(ev, number);
    } else if ((f = place_of(ev, number))->number != number) {
        /*
         * The first to remember it knew the process; since then the opener's number may be that of
         * another.
         */
        if (f->number != 0)
            forget_failure(ev, f->number);
        store_failure(f, number, pid, unsubmitted);
        is_new = true;
        KILL_HERE(FAILURE_REMEMBERED);
    }
    /* Under the lock: records may fail in several engines at once. */
    if (number > ev->newest_failed) {
        ev->newest_failed = number;
        atomic_store_explicit(&ev->page->failed, number, memory_order_release);
    }
    waitlist_unlock(&ev->completed);
    return is_new;
}

void ipc_failure_unremember(struct ipc_event *ev, uint64_t number)
{
    struct ipc_failure *f;

    waitlist_lock(&ev->completed);
    f = ev->failures ? place_of(ev, number) : NULL;
    if (f && f->number == number)
        store_failure(f, 0, 0, 0);
    waitlist_unlock(&ev->completed);
}

bool ipc_failure_find(struct ipc_event *ev, uint64_t number, bool only_unsubmitted, int32_t *pid)
{
    bool found = false;

    waitlist_lock(&ev->completed);
    if (ev->failures && number != 0) {
        const struct ipc_failure *f = place_of(ev, number);

        found = f->number == number && (f->unsubmitted || !only_unsubmitted);
        if (found)
            *pid = f->pid;
    }
    /* What is forgotten may have failed, and a failed record never reads as done. */
    if (!only_unsubmitted)
        found |= number != 0 && number <= ev->live->forgotten;
    waitlist_unlock(&ev->completed);
    return found;
}

/* --- again --- */

/* A table that was filled, before the smaller one was gone. False: this one is the smaller one. */
static bool is_larger(const struct ipc_event *ev, uint64_t size)
{
    return !ev->failures || size > ev->failures->size;
}

bool ipc_failures_restore(struct server *server, struct kept_cell *cell)
{
    const struct ipc_failures_record *r = (const struct ipc_failures_record *)cell->record;
    struct ipc_event *ev;

    HASH_FIND(hh, server->ipc->by_id, &r->event, sizeof(r->event), ev);
    /* An engine may have been faster than the commit of a step that made the event, or freed it. */
    if (!ev || !is_larger(ev, r->size)) {
        kept_discard(cell);
        return true;
    }
    if (r->size == 0 || r->size > FAILURES_MAX || cell_bytes(cell) < bytes_of_table(r->size))
        return false;
    kept_drop(&ev->failures_kept);
    if (!kept_bind(&ev->failures_kept, cell, bytes_of_table(r->size), NULL))
        return false;
    use_table(ev);
    return true;
}

/* The page decides about a record that npud was about to fail, or that was done first. */
static void finish_failure(struct ipc_event *ev, struct ipc_failure *f)
{
    uint64_t number = f->number, word = ipc_word_of(ev->page, number);
    bool waiters;

    if (ipc_slot_state(word) == IPC_PENDING)
        ipc_complete(ev->page, number, ipc_slot_opener(word), IPC_FAILED, &waiters);
    else if (ipc_slot_state(word) == IPC_DONE && f->unsubmitted)
        store_failure(f, 0, 0, 0);
    if (number > ev->newest_failed)
        ev->newest_failed = number;
}

void ipc_failures_finish_restoring(struct ipc_event *ev)
{
    ev->newest_failed = ev->live->forgotten;
    for (uint64_t i = 0; ev->failures && i < ev->failures->size; i++)
        if (ev->failures->failure[i].number != 0)
            finish_failure(ev, &ev->failures->failure[i]);
    atomic_store_explicit(&ev->page->failed, ev->newest_failed, memory_order_release);
}
