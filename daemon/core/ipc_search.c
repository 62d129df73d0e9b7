#include "daemon/core/ipc_search.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

/* Between two looks at the clock: entries of a ring. */
#define ENTRIES_PER_LOOK 32
/* Records that fail in one step. */
#define FAILED_AT_ONCE 64

#define SLOT_WORDS ((IPC_SLOTS + 63) / 64)

enum search_part {
    SEARCH_COLLECT, /* what is pending */
    SEARCH_RINGS,   /* takes out what it finds */
    SEARCH_JUDGE,   /* what is left */
};

struct ipc_search {
    struct job job;
    struct ipc_event *event;
    struct user *asker; /* pays for what is under way; NULL: nothing is */
    struct user *again; /* has asked meanwhile; NULL: none has */
    uint64_t number, again_number;
    uint64_t submit_ns;
    uint64_t began;
    enum search_part part;
    uint32_t opener, stream; /* where it goes on */
    uint64_t position;
    uint32_t slot;
    uint64_t openers[(IPC_OPENERS_MAX + 64) / 64]; /* that have pending records */
    uint64_t missing[SLOT_WORDS];                  /* records that were not found so far */
    uint64_t word[IPC_SLOTS];                      /* as it was collected */
    /*
     * Records that a search has missed, and when the first one that did began. That stays until one
     * finds the record, or the slot has another one: no honest record is pending again. Only the
     * number counts: the rest of a pending slot changes when somebody plays with it, and that is no
     * reason to wait for longer.
     */
    struct missed {
        uint32_t tag;   /* what a slot has of the number */
        uint64_t since; /* 0: none */
    } missed[IPC_SLOTS];
    uint32_t n_missed;
};

static bool bit_get(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void bit_clear(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* --- what is pending --- */

static uint64_t read_slot(const struct ipc_event *ev, uint32_t i)
{
    return atomic_load_explicit(&ev->page->slot[i], memory_order_acquire) & ~(uint64_t)IPC_WAITERS;
}

static bool is_pending(uint64_t word, uint32_t tag)
{
    return ipc_slot_state(word) == IPC_PENDING && ipc_slot_tag(word) == tag;
}

static bool is_missed(const struct ipc_search *s, uint32_t i, uint32_t tag)
{
    return s->missed[i].since != 0 && s->missed[i].tag == tag;
}

/* since: 0 for found. */
static void missed_set(struct ipc_search *s, uint32_t i, uint32_t tag, uint64_t since)
{
    s->n_missed += (since != 0) - (s->missed[i].since != 0);
    s->missed[i] = (struct missed){.tag = tag, .since = since};
}

static void collect_pending(struct ipc_search *s)
{
    struct ipc_event *ev = s->event;

    ipc_help(ev->page, atomic_load_explicit(&ev->page->latest, memory_order_acquire));
    for (uint32_t i = 0; i < IPC_SLOTS; i++) {
        s->word[i] = read_slot(ev, i);
        if (ipc_slot_state(s->word[i]) != IPC_PENDING)
            continue;
        bit_set(s->missing, i);
        bit_set(s->openers, ipc_slot_opener(s->word[i]));
    }
}

/* --- what is in the rings --- */

static void note_found(struct ipc_search *s, uint64_t number)
{
    uint32_t i = number % IPC_SLOTS;

    if (!bit_get(s->missing, i) || ipc_slot_tag(s->word[i]) != (uint32_t)number ||
        ipc_slot_opener(s->word[i]) != s->opener)
        return;
    bit_clear(s->missing, i);
    missed_set(s, i, 0, 0);
}

/*
 * False: the step is over. Not further than the tail, because the first look at a page of a ring
 * makes the kernel give it memory. What is behind `done` is over in the page.
 */
static bool search_ring(struct ipc_search *s, const struct ipc_open *open, struct stream *stream)
{
    const struct schedule *schedule = s->job.owner->user->schedule;
    uint64_t done = atomic_load_explicit(&stream->live->done, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&stream->ctrl->tail, memory_order_acquire);
    uint64_t p = s->position > done ? s->position : done;

    for (unsigned n = 1; p != tail && p - done < stream->depth; p++, n++) {
        struct task task;

        if (n % ENTRIES_PER_LOOK == 0 && schedule_step_over(schedule)) {
            s->position = p;
            return false;
        }
        if (!stream_read_entry(stream, p, &task))
            break;
        if (task.op == TASK_IPC_RECORD && task.object == open->slot.number &&
            task.generation == slot_generation(open))
            note_found(s, task.ipc.number);
    }
    s->position = 0;
    return true;
}

/*
 * False: the step is over. Between two steps the opener may have left, and another one may have got
 * its number: then no record of the first is pending any more.
 */
static bool search_opener(struct ipc_search *s)
{
    const struct schedule *schedule = s->job.owner->user->schedule;
    struct ipc_opener *opener = slots_get(&s->event->openers, s->opener);
    struct slots *streams = opener ? &opener->open->session->streams : NULL;

    for (; streams && s->stream < streams->end; s->stream++) {
        struct stream *stream = slots_get(streams, s->stream);

        if (stream && !search_ring(s, opener->open, stream))
            return false;
        if (s->stream % ENTRIES_PER_LOOK == 0 && schedule_step_over(schedule)) {
            s->stream++;
            return false;
        }
    }
    s->stream = 0;
    return true;
}

static bool search_rings(struct ipc_search *s)
{
    for (; s->opener <= IPC_OPENERS_MAX; s->opener++)
        if (bit_get(s->openers, s->opener) && !search_opener(s))
            return false;
    return true;
}

/* --- what is left --- */

/* The number that the slot means: what the asker waits for, or else what is next to the newest. */
static uint64_t number_of(const struct ipc_search *s, uint64_t word)
{
    uint64_t newest =
        ipc_latest_number(atomic_load_explicit(&s->event->page->latest, memory_order_acquire));

    if ((uint32_t)s->number == ipc_slot_tag(word))
        return s->number;
    return newest + (uint64_t)(int64_t)(int32_t)(ipc_slot_tag(word) - (uint32_t)newest);
}

/* True: the record has failed now. */
static bool judge_slot(struct ipc_search *s, uint32_t i)
{
    uint64_t word = read_slot(s->event, i);
    uint32_t opener = ipc_slot_opener(word), tag = ipc_slot_tag(s->word[i]);

    if (!bit_get(s->missing, i) || !is_pending(word, tag))
        return false;
    /* An opener that has left, or was never there, submits nothing any more. */
    if (slots_get(&s->event->openers, opener)) {
        if (!is_missed(s, i, tag)) {
            missed_set(s, i, tag, s->began);
            return false;
        }
        if (s->began - s->missed[i].since < s->submit_ns)
            return false;
    }
    return ipc_record_abandon(s->event, number_of(s, word), opener);
}

/* False: there is more to do. */
static bool judge_some(struct ipc_search *s)
{
    unsigned n = 0;

    for (; s->slot < IPC_SLOTS && n < FAILED_AT_ONCE; s->slot++)
        n += judge_slot(s, s->slot);
    if (n > 0)
        ipc_records_abandoned(s->event);
    return s->slot == IPC_SLOTS;
}

/* --- the job --- */

static void free_search(struct ipc_event *ev)
{
    struct ipc_search *s = ev->search;

    if (s->asker) {
        job_cancel(&s->job);
        user_unref(s->asker);
    }
    if (s->again)
        user_unref(s->again);
    free(s);
    ev->search = NULL;
}

static void start_over(struct ipc_search *s)
{
    s->asker = s->again;
    s->number = s->again_number;
    s->again = NULL;
    s->job.owner = &s->asker->payer->schedule.leftovers;
    s->part = SEARCH_COLLECT;
    job_list(&s->job);
}

static void end_search(struct ipc_search *s)
{
    user_unref(s->asker);
    s->asker = NULL;
    if (s->again)
        start_over(s);
    else if (s->n_missed == 0)
        free_search(s->event);
}

static void begin_search(struct ipc_search *s)
{
    s->began = clock_ns();
    s->opener = s->stream = s->slot = 0;
    s->position = 0;
    for (unsigned i = 0; i < sizeof(s->openers) / sizeof(s->openers[0]); i++)
        s->openers[i] = 0;
    for (unsigned i = 0; i < SLOT_WORDS; i++)
        s->missing[i] = 0;
    collect_pending(s);
}

static bool run_search(struct job *job)
{
    struct ipc_search *s = (struct ipc_search *)((char *)job - offsetof(struct ipc_search, job));

    switch (s->part) {
    case SEARCH_COLLECT:
        begin_search(s);
        s->part = SEARCH_RINGS;
        return true;
    case SEARCH_RINGS:
        if (search_rings(s))
            s->part = SEARCH_JUDGE;
        return true;
    default:
        if (!judge_some(s))
            return true;
        end_search(s);
        return false;
    }
}

void ipc_search_begin(struct ipc_event *ev, struct session *asker, uint64_t number)
{
    struct ipc_search *s = ev->search;

    if (!s) {
        s = ev->search = calloc(1, sizeof(*s));
        if (!s)
            return;
        s->job = (struct job){.run = run_search, .what = "search for IPC records"};
        s->event = ev;
        ev->search_free = free_search;
    }
    if (s->again)
        return;
    s->submit_ns = asker->server->submit_ns;
    s->again = user_hold(asker->user);
    s->again_number = number;
    if (!s->asker)
        start_over(s);
}

bool ipc_search_misses(const struct ipc_event *ev, uint64_t number)
{
    const struct ipc_search *s = ev->search;
    uint32_t i = number % IPC_SLOTS;

    return s && is_missed(s, i, (uint32_t)number) && is_pending(read_slot(ev, i), (uint32_t)number);
}
