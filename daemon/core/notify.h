/*
 * Notifies: one-bit latches that streams set and take, also of several processes; and count
 * notifies, counters within one process.
 *
 * The state is npud's own and in no shared memory: records and waits are tasks. It is guarded by
 * the lock of `waiting`, so a record either finds a stream that waits and lets exactly that one go
 * on, or sets the bit; and a wait either takes the bit or is parked, in one step.
 *
 * A notify lives while it is open anywhere (struct notify_open: one per handle of a session). Made
 * and freed by the control thread; engines find it by slot and generation in session->notifies,
 * under their lock.
 *
 * Nothing is lost with a stream that is dropped. Had a bit been spent on its wait, which was not
 * retired yet, the record goes to the next one (notify_tasks.h). Had it records queued, each of
 * them fails the wait that it would have ended, with the pid of the process (notify_drop_task): one
 * that is parked, or, if there is none, the next that comes before a real record does. And when a
 * process dies, or its program finalizes, with an exported notify open, and a single other process
 * is left that has it, then
 * the streams that are parked on it there fail, too: what they wait for was not submitted, and no
 * process is left that could submit it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/core/export_key.h"
#include "daemon/core/importers.h"
#include "daemon/core/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/notify_record.h"
#include "proto/util/slots.h"
#include "proto/shm/task.h"

struct device;
struct server;
struct session;
struct stream;

struct notify {
    uint64_t number; /* in all of npud */
    struct device *device;
    struct slot *id; /* in device->notify_ids */
    bool counts;
    struct notifies *all;
    struct notify_open *opens;
    uint32_t n_opens;
    struct notify_open *creator; /* NULL: it has left, and no session can import any more */

    bool exported;
    struct export_key key;
    struct importers importers;
    uint64_t openings; /* and closings: how often `opens` has changed */

    struct waitlist waiting; /* streams; target: `arrivals` when they came */
    /*
     * In the record, under the lock of `waiting`: `value`, the bit or the counter; `failed_pid`,
     * whose record was dropped while no stream waited (notify_failed_by(); 0: nobody's).
     *
     * Of a counter: a change is not over before all waits have been looked at, in slices; the next
     * change waits for that, and so does a wait that comes meanwhile: on the list, as the last one.
     * `looking`; `look_from`, target of the next wait to look at; `changes`, so far.
     *
     * A record of a counter was dropped: the waits that came before the arrival `fail_before` fail,
     * in slices. `failing`: the job is sent, or runs.
     *
     * No other process is left that records it: the waits that came before the arrival
     * `deserted_before` fail, in slices, with the pid `deserted_by`. No record is for them.
     */
    struct notify_live *live;
    struct job look; /* control thread: the stream that was looking has gone */
    struct job fail; /* of a notify that is no counter: of the session that is first in `opens` */
    struct kept kept;
    UT_hash_handle hh;
};

/** All exported notifies, by number. */
struct notifies {
    struct notify *by_number;
};

/** One open handle of a session. */
struct notify_open {
    struct slot slot; /* in session->notifies */
    struct session *session;
    struct notify *notify;
    struct kept kept;
    struct charge charge;
    bool over; /* its program has finalized, and its streams are done: it records nothing */
    struct notify_open *prev, *next; /* notify->opens */
};

/* --- control thread --- */

enum cause notify_new(struct session *session, struct device *device, bool counts,
                      struct notify_open **openp);

/**
 * Close a handle. Its session's streams that are parked on it fail with 107017. The notify goes
 * with its last handle.
 */
void notify_open_free(struct notify_open *open);

/**
 * The program of its session has finalized, and its streams are done; or it goes on. Streams that
 * it alone could have let go are told, as when it dies.
 */
void notify_open_set_over(struct notify_open *open, bool over);

/** Once per notify, by its creator. The key is in open->notify->key then. */
enum cause notify_export(struct notify_open *open, bool any_pid);

/** Put pids on the list of an exported notify: by its creator. importers_allow() */
enum cause notify_allow(struct notify_open *open, const int32_t *pids, size_t n);

enum cause notify_import(struct session *session, const char *text, size_t length,
                         struct notify_open **openp);

/**
 * Clear the bit, or the counter, now. Refused for a notify that has been exported. request: the id
 * of the client's request, which clears it once, whichever npud handles it.
 */
enum cause notify_reset(struct notify_open *open, uint64_t request);

/** A position for notify_drop_task(): the task is of the list of a graph, and has none. */
#define NOTIFY_IN_GRAPH UINT64_MAX

/**
 * The stream drops this task, the entry of its ring at position, without executing it. Nothing to
 * do but for records of notifies, or if it was dropped before; what was dropped of a graph is not
 * noted, and told once more if npud ends before it has gone on. writer: as in kept.h; the engine of
 * the stream may be locked out, and its number taken.
 */
void notify_drop_task(struct stream *stream, uint64_t position, const struct task *task,
                      unsigned writer);

/**
 * The wait for which the next record of a notify is, which is no counter, or NULL: none has come
 * yet. Under the lock of `waiting`.
 */
struct waiter *notify_next_wait(const struct notify *notify);

/** The bit or the counter, at this moment. */
uint32_t notify_value(struct notify *notify);

/**
 * What a task names by slot and generation, if it is (counts) or is not a counter; or NULL. Under
 * the lock of an engine of the session.
 */
struct notify *notify_of_task(struct session *session, const struct task *task, bool counts);

/** A live word, at this moment. */
static inline uint64_t notify_word(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/** Not 0, also where npud does not see the process: in a namespace of its own it has the pid 0. */
static inline uint64_t notify_failed_by(int32_t pid)
{
    return UINT64_C(1) << 32 | (uint32_t)pid;
}

/** One that changes by itself, in the order of the program. */
static inline void notify_set_word(_Atomic uint64_t *word, uint64_t value)
{
    kept_order();
    atomic_store_explicit(word, value, memory_order_relaxed);
    kept_order();
}

/* --- words of a stream, in its record --- */

/** A bit was spent on the wait at its head, which has not been retired. */
bool notify_has_taken(const struct stream *stream);
/**
 * The wait at the head of the stream is over, when the words are committed. took: a bit was spent
 * on it.
 */
void notify_note_over(struct kept_words *words, struct stream *stream, bool took, int32_t code,
                      int32_t pid);
/** The bit is given back, when the words are committed. */
void notify_note_given_back(struct kept_words *words, struct stream *stream);
/** What the task at its head was to change is changed, when the words are committed. */
void notify_note_effect(struct kept_words *words, struct stream *stream, uint64_t effect);
bool notify_has_effect(const struct stream *stream);

/* --- for notify_record.c, which keeps notifies, and restores them --- */

/** Set up an empty notify, which no session has yet. */
void notify_begin(struct notify *notify, struct notifies *all, struct device *device, bool counts);
/** `open` is a handle of the session to the notify from now on. */
void notify_join(struct notify *notify, struct notify_open *open, struct session *session);
/** After a restore: jobs of the notify that npud had not finished are listed again. */
void notify_go_on(struct notify *notify);

/* Make the record. False: no memory. */
bool notify_keep(struct notify *notify);
bool notify_open_keep(struct notify_open *open);

/** All notifies are restored: their unfinished jobs are listed again. */
void notifies_finish_restoring(struct server *server);
