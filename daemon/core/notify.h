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
 * process dies with an exported notify open, and a single other process is left that has it, then
 * the streams that are parked on it there fail, too: what they wait for was not submitted, and no
 * process is left that could submit it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/core/notify_key.h"
#include "daemon/base/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "proto/util/slots.h"
#include "proto/shm/task.h"

#define NOTIFY_PIDS_MAX 256u /* on the list of one notify */

struct device;
struct device_id;
struct session;
struct stream;

/** A process that may import. */
struct notify_pid {
    int32_t pid;
    /*
     * No other process has it (notify.c). 0: there was none with that pid, and the first to import
     * is the one.
     */
    uint64_t process;
};

struct notify {
    uint64_t number; /* in all of npud */
    struct device *device;
    struct device_id *id;
    bool counts;
    struct notifies *all;
    struct notify_open *opens;
    uint32_t n_opens;
    struct notify_open *creator; /* NULL: it has left, and no session can import any more */
    uid_t uid;                   /* the creator's */

    bool exported;
    bool any_pid; /* no list of pids: any process with the key may import, within [ipc] scope */
    struct notify_key key;
    struct notify_pid *pids;
    uint32_t n_pids;
    uint64_t openings; /* and closings: how often `opens` has changed */

    struct waitlist waiting; /* streams; target: `arrivals` when they came */
    uint64_t arrivals;       /* this and the following: under waiting.lock */
    uint32_t value;          /* the bit, or the counter */
    int32_t failed_pid;      /* of a record that was dropped while no stream waited; 0: none */
    /*
     * Of a counter. A change is not over before all waits have been looked at, in slices; the next
     * change waits for that, and so does a wait that comes meanwhile: on the list, as the last one.
     */
    bool looking;
    uint64_t look_from; /* while looking: `target` of the next one */
    uint64_t changes;   /* so far */
    struct job look;    /* control thread: the stream that was looking has gone */
    /*
     * A record of a counter was dropped: the waits that came before this arrival fail, in slices.
     * `failing`: the job is sent, or runs.
     */
    uint64_t fail_before;
    bool failing;
    struct job fail;
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
    struct charge charge;
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

/** Once per notify, by its creator. The key is in open->notify->key then. */
enum cause notify_export(struct notify_open *open, bool any_pid);

/**
 * Put pids on the list of an exported notify: by its creator. At most NOTIFY_PIDS_REQUEST, because
 * each costs system calls.
 */
enum cause notify_allow(struct notify_open *open, const int32_t *pids, size_t n);

enum cause notify_import(struct session *session, const char *text, size_t length,
                         struct notify_open **openp);

/** Clear the bit, or the counter, now. Refused for a notify that has been exported. */
enum cause notify_reset(struct notify_open *open);

/**
 * The session drops this task, an entry of its ring, without executing it. Nothing to do but for
 * records of notifies.
 */
void notify_drop_task(struct session *session, const struct task *task);

/** The bit or the counter, at this moment. */
uint32_t notify_value(struct notify *notify);

/**
 * What a task names by slot and generation, if it is (counts) or is not a counter; or NULL. Under
 * the lock of an engine of the session.
 */
struct notify *notify_of_task(struct session *session, const struct task *task, bool counts);
