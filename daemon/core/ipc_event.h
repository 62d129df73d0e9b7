/*
 * IPC events: events that processes share, and the broker of their handles.
 *
 * An IPC event lives while it is open anywhere (struct ipc_open: one per handle that a session
 * holds), or while a session that exported it lives (struct ipc_export). When only exports are left
 * it lingers: openable, but among the first to go when its user has too many of those. Control
 * thread, but for what is in ipc_record.h.
 *
 * When a session dies, closes the event or drops a stream, its records that are still pending are
 * failed here (ipc_open_free, ipc_record_drop), remembered in `failures`, and every thread and
 * stream that waits for them is woken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "daemon/core/survivor.h"
#include "daemon/kept/ipc_event_record.h"
#include "daemon/kept/kept.h"
#include "proto/wire/ipc_handle.h"
#include "proto/shm/ipc_page.h"
#include "proto/util/slots.h"

struct fence;
struct ipc_search;
struct server;
struct session;

struct ipc_event {
    uint64_t id;
    uint32_t device;
    int fd;            /* of the page */
    struct user *user; /* its creator */
    struct ipc_events *all;
    struct ipc_page *page; /* shared, hostile */
    struct ipc_handle handle;
    struct slots openers; /* struct ipc_opener: numbers in the page */
    struct ipc_open *opens;
    struct ipc_left *left;      /* their process outlives its session, and may still record */
    struct ipc_export *exports; /* the first exporter first */
    pid_t last_exporter;        /* the one that left last */
    uint32_t n_left;            /* in `left` */
    struct charge linger_charge;
    struct charge linger_charge_fd;
    struct ipc_event *linger_prev, *linger_next; /* user->linger */
    struct ipc_event *to_wake_next;              /* all->to_wake */

    struct waitlist completed; /* streams parked on records */
    /*
     * Tens of thousands can wait for one record: those that are left when some have been let go
     * go on in steps of this job. See ipc_records_settle().
     */
    struct job settle;
    _Atomic uint64_t asked; /* how often that was asked for; 0: the job is not sent */
    uint64_t settled_for;   /* `asked` when the job began at the front; 0: it is to begin there */
    uint64_t settle_from;   /* the next record */
    bool damaged;           /* the streams that wait fail, whatever the page says */
    int32_t damaged_by;     /* pid */
    /* ipc_failures.h: NULL until a record fails; under its lock */
    struct ipc_failures_record *failures;
    struct kept failures_kept;
    uint64_t newest_failed; /* what page->failed says, unless a hostile opener has overwritten it */
    bool lingers;
    bool to_wake;
    uint64_t linger_order; /* of those of its user; a later one is larger */
    struct kept kept;
    struct ipc_event_live *live; /* there */
    struct ipc_search *search;   /* for records that were never submitted; NULL: none */
    void (*search_free)(struct ipc_event *event);
    UT_hash_handle hh;
};

/** All IPC events, by id. */
struct ipc_events {
    struct ipc_event *by_id;
    struct ipc_event *to_wake; /* empty between requests */
    uint32_t lingering;
    uint64_t lingered; /* so far */
};

struct ipc_opener {
    struct slot slot; /* in event->openers: its number is the opener number in the page */
    struct ipc_open *open;
    struct ipc_event *event; /* NULL: no process ever had the number */
    _Atomic int32_t pid;     /* of the last process that had the number; 0: none so far */
    bool set_aside;          /* in event->left */
    struct kept kept;        /* from the first process that has the number to the event's end */
};

/** A number that is set aside, because its session's process lives on. Apart from the opener: each
 * event has places for many of those. */
struct ipc_left {
    struct survivor_part part;
    struct kept kept;
    struct ipc_opener *opener;
    struct ipc_event *event;
    struct charge charge;         /* it was that of the open handle */
    struct ipc_left *prev, *next; /* event->left */
};

/**
 * What an open handle may leave behind (struct ipc_left), with the number that is set aside and
 * their records, is charged while it is open: it cannot be refused when the session ends.
 */
uint64_t ipc_left_bytes(void);

/* In this order, by release_ipc_event(). When its session ends it is freed in any state. */
enum ipc_open_state {
    IPC_OPEN_USED,
    IPC_OPEN_CLOSING, /* closed by the client, not yet passed by its streams */
    IPC_OPEN_PASSED,  /* by its streams, too: freed when nothing pins it */
};

/** One open handle of a session. */
struct ipc_open {
    struct slot slot; /* in session->ipc */
    enum ipc_open_state state;
    uint32_t pins; /* descriptors that wait for its records */
    struct session *session;
    struct ipc_event *event;
    struct ipc_opener *opener;
    struct kept kept;
    struct charge charge;
    struct charge charge_fd;
    struct charge charge_left;
    struct ipc_open *prev, *next; /* event->opens */
};

/** A session that has given out the handle. */
struct ipc_export {
    struct session *session;
    struct ipc_event *event;
    uint64_t id; /* of the event */
    struct kept kept;
    struct ipc_export *prev, *next; /* event->exports */
    UT_hash_handle hh;              /* session->exports, by id */
};

/** What a handle tells. */
struct ipc_event_info {
    uint32_t device;
    pid_t pid;
    bool alive;
};

/** *openp: set if nothing is refused. */
enum cause ipc_event_new(struct session *session, uint32_t device, struct ipc_open **openp);
enum cause ipc_event_open(struct session *session, const struct ipc_handle *handle,
                          struct ipc_open **openp);
enum cause ipc_event_export(struct ipc_open *open);
enum cause ipc_event_info(struct session *session, const struct ipc_handle *handle,
                          struct ipc_event_info *info);

/** Close one handle; the event goes with its last one, or lingers. */
void ipc_open_free(struct ipc_open *open);

/**
 * The same when nothing pins it (any more): what waits for a record waits on after the client has
 * closed the event.
 */
void ipc_open_release(struct ipc_open *open);
void ipc_open_pin(struct ipc_open *open);
void ipc_open_unpin(struct ipc_open *open);

/** The session is gone: one of its exports ends. True: there was none. */
bool ipc_export_drop(struct session *session);

/* --- for ipc_event_record.c, which has the records, and makes objects from them --- */

/** The event is as nothing has come of it: its user is set. */
void ipc_event_begin(struct ipc_event *event, struct ipc_events *all, uint64_t id);
/** The session's process has exited: its number is free again. */
bool ipc_left_exited(struct survivor_part *part);

/* Make the record. False: no memory. */
bool ipc_event_keep(struct ipc_event *event);
bool ipc_opener_keep(struct ipc_opener *opener);
bool ipc_open_keep(struct ipc_open *open);
bool ipc_export_keep(struct ipc_export *export);
bool ipc_left_keep(struct ipc_left *left);

/* --- restoring --- */

/**
 * All are there: openers have their numbers, and the pages say what they must, whatever a process
 * has written there meanwhile. Threads that sleep on records look again.
 */
void ipc_events_finish_restoring(struct server *server);
