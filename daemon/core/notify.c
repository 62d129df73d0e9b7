#include "daemon/core/notify.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/capability.h"
#include "daemon/core/device.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/ipc_event.h"
#include "proto/util/random.h"

#define FAILS_AT_ONCE 64 /* waits for a counter, before others have their turn */

/* --- a counter whose record was dropped --- */

/*
 * Under the lock of `waiting`. True: there are none left of those that are to fail. Each keeps that
 * it has: if npud ends meanwhile, the others are still to fail. No other session has a counter; of
 * other notifies, sessions that claim to be over may have tens of thousands of streams that wait.
 */
static bool fail_some(struct notify *n)
{
    struct notify_live *live = n->live;
    uint64_t before = notify_word(n->counts ? &live->fail_before : &live->deserted_before);
    int32_t pid = n->counts ? n->opens->session->pid : (int32_t)notify_word(&live->deserted_by);

    for (unsigned i = 0; i < FAILS_AT_ONCE; i++) {
        struct waiter *w = waitlist_first_locked(&n->waiting, 0);

        if (!w || w->target >= before) {
            notify_set_word(n->counts ? &live->failing : &live->deserted_before, 0);
            return true;
        }
        waitlist_fire_locked(&n->waiting, w, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    }
    return false;
}

static bool run_fail(struct job *job)
{
    struct notify *n = (struct notify *)((char *)job - offsetof(struct notify, fail));
    bool over;

    do {
        waitlist_lock(&n->waiting);
        over = fail_some(n);
        waitlist_unlock(&n->waiting);
    } while (!over && !schedule_step_over(job->owner->user->schedule));
    if (over && !n->counts)
        n->fail = (struct job){0}; /* its owner may go before the notify */
    return !over;
}

/*
 * Which of the waits the record would have ended cannot be said: all that are there fail. They are
 * of the same process, which drops the stream. An engine may be the caller.
 */
static void fail_waits(struct notify *n, struct kept_words *words)
{
    bool send;

    waitlist_lock(&n->waiting);
    send = !notify_word(&n->live->failing);
    kept_words_set(words, &n->live->fail_before, notify_word(&n->live->arrivals));
    kept_words_set(words, &n->live->failing, 1);
    kept_words_commit(words);
    KILL_HERE(NOTIFY_DROPPED);
    send = send && !fail_some(n);
    waitlist_unlock(&n->waiting);
    if (send)
        job_send(&n->fail);
}

/* --- a notify that no other session records any more --- */

/* Also if it was the job of a session that has let go of the notify. */
static void go_on_deserting(struct notify *n)
{
    if (n->fail.listed)
        job_cancel(&n->fail);
    n->fail = (struct job){0};
    if (notify_word(&n->live->deserted_before) == 0)
        return;
    n->fail = (struct job){run_fail, "notify given up", &n->opens->session->owner};
    job_list(&n->fail);
}

/* All that wait now. A record that comes before all of them have failed is for none of them. */
static void desert_waits(struct notify *n, int32_t pid)
{
    struct kept_words words;

    waitlist_lock(&n->waiting);
    kept_words_begin(&words, KEPT_CONTROL);
    if (notify_word(&n->live->deserted_before) == 0)
        kept_words_set(&words, &n->live->deserted_by, (uint32_t)pid);
    kept_words_set(&words, &n->live->deserted_before, notify_word(&n->live->arrivals));
    kept_words_commit(&words);
    KILL_HERE(NOTIFY_DESERTED);
    fail_some(n);
    waitlist_unlock(&n->waiting);
    go_on_deserting(n);
}

struct waiter *notify_next_wait(const struct notify *n)
{
    return waitlist_first_locked(&n->waiting, notify_word(&n->live->deserted_before));
}

void notify_go_on(struct notify *n)
{
    if (notify_word(&n->live->failing))
        job_send(&n->fail);
    if (!n->counts)
        go_on_deserting(n);
}

/* --- life --- */

static void notify_free(struct notify *n)
{
    assert(!n->opens);
    job_cancel(&n->look);
    job_cancel(&n->fail);
    if (n->exported)
        HASH_DEL(n->all->by_number, n);
    if (n->id)
        slots_put(&n->device->notify_ids, n->id);
    waitlist_deinit(&n->waiting);
    kept_drop(&n->kept);
    importers_deinit(&n->importers);
    free(n);
}

void notify_begin(struct notify *n, struct notifies *all, struct device *device, bool counts)
{
    n->all = all;
    n->device = device;
    n->counts = counts;
    waitlist_init(&n->waiting);
}

static enum cause notify_make(struct session *session, struct device *device, bool counts,
                              struct notify **np)
{
    struct notify *n = calloc(1, sizeof(*n));

    if (!n)
        return CAUSE_MEMORY;
    notify_begin(n, session->server->notifies, device, counts);
    n->number = ++session->server->last->notify;
    n->importers.uid = session->uid;
    n->importers.object = n->number;
    n->id = slots_take(&device->notify_ids);
    if (!n->id) {
        notify_free(n);
        return slots_full(&device->notify_ids) ? CAUSE_NOTIFY_IDS : CAUSE_MEMORY;
    }
    if (!notify_keep(n)) {
        notify_free(n);
        return CAUSE_MEMORY;
    }
    *np = n;
    return CAUSE_NONE;
}

/* Give its charge back, and its slot. */
static void open_give_back(struct notify_open *open, struct session *session)
{
    user_uncharge(&open->charge);
    kept_drop(&open->kept);
    session_put_slot(session, &session->notifies, open);
}

static enum cause open_prepare(struct session *session, struct notify_open **openp)
{
    enum cause cause;
    struct notify_open *open =
        session_take_slot(session, &session->notifies, CAUSE_NOTIFIES_OF_SESSION, &cause);

    if (!open)
        return cause;
    *openp = open;
    if (user_charge(&open->charge, session->user, RESOURCE_NOTIFIES, 1) == 0)
        return CAUSE_NONE;
    open_give_back(open, session);
    return CAUSE_USER_NOTIFIES;
}

void notify_join(struct notify *n, struct notify_open *open, struct session *session)
{
    open->session = session;
    open->notify = n;
    DL_APPEND(n->opens, open);
    n->n_opens++;
    n->openings++;
    /* Only a counter ends with the session that has made it. */
    if (n->counts)
        n->fail = (struct job){run_fail, "dropped count record", &session->owner};
}

/* False: no memory. */
static bool open_publish(struct notify_open *open, struct session *session, struct notify *n)
{
    if (!notify_open_keep(open))
        return false;
    notify_join(n, open, session);
    slots_publish(open);
    return true;
}

enum cause notify_new(struct session *session, struct device *device, bool counts,
                      struct notify_open **openp)
{
    struct notify *n;
    enum cause cause = open_prepare(session, openp);

    if (cause != CAUSE_NONE)
        return cause;
    cause = notify_make(session, device, counts, &n);
    if (cause != CAUSE_NONE) {
        open_give_back(*openp, session);
        return cause;
    }
    if (!open_publish(*openp, session, n)) {
        open_give_back(*openp, session);
        notify_free(n);
        return CAUSE_MEMORY;
    }
    n->creator = *openp;
    return CAUSE_NONE;
}

/*
 * The session has let go of it, in order or not, or is over. If only one other is left that has it,
 * and its streams wait, no other process is going to record it. A wait that begins later waits: it
 * is for a record of its own process, or of one that has yet to import it.
 */
static void fail_deserted(struct notify *n, const struct session *session)
{
    const struct session *other = NULL;
    const struct notify_open *open;

    if (!n->exported)
        return;
    DL_FOREACH (n->opens, open) {
        if (open->over)
            continue;
        if (open->session == session || (other && open->session != other))
            return;
        other = open->session;
    }
    desert_waits(n, session->pid);
}

void notify_open_set_over(struct notify_open *open, bool over)
{
    if (open->over == over)
        return;
    open->over = over;
    kept_touch(&open->kept);
    if (over)
        fail_deserted(open->notify, open->session);
}

void notify_open_free(struct notify_open *open)
{
    struct notify *n = open->notify;
    struct session *session = open->session;

    session_lock(session);
    /*
     * Streams that a record has let go have had what they waited for. If one is dropped before it
     * goes on, the record is not for another one: notify_give_back() finds no notify.
     */
    slots_unpublish(open);
    /* Those that wait fail, since the notify can be gone before they go on. */
    stream_evict_waiters(session, &n->waiting, open->slot.number, ACL_ERROR_RT_INVALID_HANDLE);
    session_unlock(session);
    KILL_HERE(NOTIFY_CLOSED);
    assert(n->n_opens > 0);
    DL_DELETE(n->opens, open);
    n->n_opens--;
    n->openings++;
    if (n->creator == open)
        n->creator = NULL;
    open_give_back(open, session);
    if (!n->opens) {
        notify_free(n);
        return;
    }
    if (!n->counts)
        go_on_deserting(n);
    fail_deserted(n, session);
}

/* --- sharing --- */

enum cause notify_export(struct notify_open *open, bool any_pid)
{
    struct notify *n = open->notify;

    if (n->counts)
        return CAUSE_NOTIFY_COUNTS;
    if (n->creator != open)
        return CAUSE_NOTIFY_NOT_CREATED;
    if (n->exported)
        return CAUSE_NOTIFY_EXPORTED_BEFORE;
    n->key = (struct export_key){
        .magic = EXPORT_KEY_NOTIFY,
        .version = EXPORT_KEY_VERSION,
        .device = (uint8_t)n->device->index,
        .number = n->number,
        .instance = open->session->server->instance,
    };
    if (!random_fill(n->key.secret, sizeof(n->key.secret)))
        return CAUSE_RANDOM;
    export_key_seal(&n->key);
    HASH_ADD(hh, n->all->by_number, number, sizeof(n->number), n);
    if (!n->hh.tbl)
        return CAUSE_MEMORY;
    n->exported = true;
    n->importers.any_pid = any_pid;
    kept_touch(&n->kept);
    return CAUSE_NONE;
}

enum cause notify_allow(struct notify_open *open, const int32_t *pids, size_t n)
{
    if (!open->notify->exported || open->notify->creator != open)
        return CAUSE_NOTIFY_NOT_EXPORTED;
    return importers_allow(&open->notify->importers, KEPT_NOTIFY_PIDS, pids, n);
}

static enum cause may_import(struct notify *n, const struct session *session)
{
    static const enum cause causes[] = {
        [IMPORTERS_MAY] = CAUSE_NONE,
        [IMPORTERS_NOT_LISTED] = CAUSE_NOTIFY_NOT_LISTED,
        [IMPORTERS_OTHER_USER] = CAUSE_NOTIFY_OF_OTHER_USER,
    };

    if (n->creator->session == session)
        return CAUSE_NONE;
    return causes[importers_ask(&n->importers, session)];
}

static enum cause find_by_key(struct session *session, const char *text, size_t length,
                              struct notify **np)
{
    struct notifies *all = session->server->notifies;
    struct export_key key;
    struct notify *n;

    if (!export_key_decode(&key, EXPORT_KEY_NOTIFY, text, length))
        return CAUSE_NOTIFY_KEY;
    if (key.instance != session->server->instance)
        return CAUSE_NOTIFY_OF_OTHER_NPUD;
    if (key.number == 0 || key.number > session->server->last->notify)
        return CAUSE_NOTIFY_KEY;
    HASH_FIND(hh, all->by_number, &key.number, sizeof(key.number), n);
    if (!n)
        return CAUSE_NOTIFY_GONE;
    if (!capability_equal(&key, &n->key, sizeof(key)))
        return CAUSE_NOTIFY_KEY;
    if (!n->creator)
        return CAUSE_NOTIFY_GONE;
    *np = n;
    return may_import(n, session);
}

enum cause notify_import(struct session *session, const char *text, size_t length,
                         struct notify_open **openp)
{
    struct notify *n;
    enum cause cause = find_by_key(session, text, length, &n);

    if (cause == CAUSE_NONE)
        cause = open_prepare(session, openp);
    if (cause == CAUSE_NONE && !open_publish(*openp, session, n)) {
        open_give_back(*openp, session);
        cause = CAUSE_MEMORY;
    }
    return cause;
}

/* --- state --- */

enum cause notify_reset(struct notify_open *open, uint64_t request)
{
    struct notify *n = open->notify;
    struct kept_words words;

    if (n->exported)
        return CAUSE_NOTIFY_EXPORTED;
    waitlist_lock(&n->waiting);
    if (notify_word(&n->live->reset_by) != request + 1) {
        kept_words_begin(&words, KEPT_CONTROL);
        kept_words_set(&words, &n->live->value, 0);
        kept_words_set(&words, &n->live->failed_pid, 0);
        kept_words_set(&words, &n->live->reset_by, request + 1);
        kept_words_commit(&words);
    }
    waitlist_unlock(&n->waiting);
    KILL_HERE(NOTIFY_RESET);
    return CAUSE_NONE;
}

uint32_t notify_value(struct notify *n)
{
    return (uint32_t)notify_word(&n->live->value);
}

struct notify *notify_of_task(struct session *session, const struct task *t, bool counts)
{
    struct notify_open *open = slots_get_generation(&session->notifies, t->object, t->generation);

    return open && open->notify->counts == counts ? open->notify : NULL;
}

/* --- words of a stream: kept->notify[] --- */

enum {
    WORD_TOOK,    /* 1 + position of the wait on which a bit was spent */
    WORD_DROPPED, /* 1 + position of the latest task that was dropped */
};

static void set_stream_word(struct kept_words *words, uint64_t *word, uint64_t value)
{
    kept_words_set(words, (_Atomic uint64_t *)word, value);
}

bool notify_has_taken(const struct stream *s)
{
    return head_has(s->live, s->live->notify[WORD_TOOK]);
}

void notify_note_over(struct kept_words *words, struct stream *s, bool took, int32_t code,
                      int32_t pid)
{
    struct stream_kept *k = s->live;
    const struct failure outcome = {code, pid};
    uint64_t word;

    static_assert(sizeof(outcome) == sizeof(word), "it is one word");
    memcpy(&word, &outcome, sizeof(word));
    set_stream_word(words, (uint64_t *)(void *)&k->outcome, word);
    set_stream_word(words, &k->outcome_at, head_mark(k));
    if (took)
        set_stream_word(words, &k->notify[WORD_TOOK], head_mark(k));
}

void notify_note_given_back(struct kept_words *words, struct stream *s)
{
    set_stream_word(words, &s->live->notify[WORD_TOOK], 0);
}

void notify_note_effect(struct kept_words *words, struct stream *s, uint64_t effect)
{
    head_note_no_ticket(s->live);
    set_stream_word(words, &s->live->effect, effect);
    set_stream_word(words, &s->live->effect_at, head_mark(s->live));
}

bool notify_has_effect(const struct stream *s)
{
    return head_has(s->live, s->live->effect_at);
}

/* --- records that are dropped --- */

/* It was dropped, or executed, and then npud has ended. */
static bool is_dropped(const struct stream *s, uint64_t position)
{
    return s->live->notify[WORD_DROPPED] > position ||
           (position == s->live->position && notify_has_effect(s));
}

static void fail_next_wait(struct notify *n, int32_t pid, struct kept_words *words)
{
    struct waiter *w;

    waitlist_lock(&n->waiting);
    w = notify_next_wait(n);
    if (w)
        notify_note_over(words, stream_of_waiter(w), false, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    else if (notify_word(&n->live->value) == 0)
        kept_words_set(words, &n->live->failed_pid, notify_failed_by(pid));
    kept_words_commit(words);
    KILL_HERE(NOTIFY_DROPPED);
    if (w)
        waitlist_fire_locked(&n->waiting, w, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pid);
    waitlist_unlock(&n->waiting);
}

void notify_drop_task(struct stream *s, uint64_t position, const struct task *t, unsigned writer)
{
    struct kept_words words;
    struct notify *n;

    if ((t->op != TASK_NOTIFY_RECORD && t->op != TASK_COUNT_RECORD) || is_dropped(s, position))
        return;
    n = notify_of_task(s->session, t, t->op == TASK_COUNT_RECORD);
    if (!n)
        return;
    kept_words_begin(&words, writer);
    set_stream_word(&words, &s->live->notify[WORD_DROPPED], position + 1);
    if (n->counts)
        fail_waits(n, &words);
    else
        fail_next_wait(n, s->session->pid, &words);
}
