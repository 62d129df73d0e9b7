/*
 * Sessions: one connected client process each. The session is the ledger: everything that the
 * client ever got hangs in one of its tables, and session_free() empties them all.
 *
 * Control thread. What engines read (the tables, attach) changes only under the locks of the
 * engines that the session is attached to, or before it is published (proto/util/slots.h).
 */
#pragma once

#include <assert.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/log.h"
#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/base/wake_cost.h"
#include "daemon/core/backend.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/session_record.h"
#include "proto/shm/doorbell.h"
#include "proto/util/slots.h"

struct server;
struct engine;
struct device;
struct batch_job;
struct batch_job_lookup;
struct release;
struct resting;
struct ipc_export;
struct event_fd;
struct answer;
struct attach_ref;
struct engine_user;
struct peer;
struct survivor;
struct unread;
struct own_waits;
struct session_idle;
struct value_rest;

/** A session's use of a device. */
struct attach {
    struct session *session;
    struct device *device;
    int fd;                /* doorbell: eventfd, shared with the client */
    struct doorbell *bell; /* shared, hostile */
    struct charge charge_fd;
    struct kept kept;
    uint32_t streams;
    struct job fault; /* sent by the engine, once: the session is to end */
    /* engine */
    struct attach_ref *ref;
    struct engine_user *user; /* the session's; set with ref */
    bool watched;
    uint64_t words;        /* of the doorbell: taken from its summary, not yet looked at */
    uint32_t spurious;     /* doorbells since its streams last had a task */
    bool faulty;           /* there were too many, and `fault` was sent */
    struct stream *active; /* streams with tasks, or with some a moment ago */
    uint64_t idle_since;
    struct attach *prev, *next; /* user->watched */
    struct attach_live *live;   /* in the record: the head of the exception ring, ... */
    struct stream *stuck;       /* whose exceptions found no room there */

    struct context *contexts; /* newest first; control thread */
    int32_t lost; /* why its device is lost to the session alone; 0: it is not. Engine's lock */
};

/** A file of the arena. npud keeps the descriptor by which it can be mapped. */
struct arena_file {
    struct kept kept; /* kept/arena_record.h */
    struct session *session;
    uint32_t index;
    uint32_t slots; /* that its record has room for: the first ones */
    enum kept_kind kind;
    int fd;
    void *map;
    size_t size;
    bool to_send; /* the client has not got it: it goes along with the next object in it */
};

/** The arena files of one kind, by its number. */
struct arena_files {
    struct arena_file **file; /* NULL: it is not there */
    uint32_t n;
    uint32_t size; /* of each: bytes */
};

/*
 * The tables of a session, in the order of session_record.latest: X(name, type of its objects, how
 * many objects there may be).
 */
#define SESSION_TABLES(X)                                                                          \
    X(streams, struct stream, SESSION_STREAMS_MAX)                                                 \
    X(events, struct event_obj, SESSION_EVENTS_MAX)                                                \
    X(ipc, struct ipc_open, SESSION_IPC_EVENTS_MAX)                                                \
    X(mems, struct mem, SESSION_MEMS_MAX)                                                          \
    X(notifies, struct notify_open, SESSION_NOTIFIES_MAX)

/*
 * CONNECTED -> OPEN by Hello; either of them -> DYING -> ENDED, or at once -> ENDED, by
 * session_end(). In any state it may be freed.
 */
enum session_state {
    SESSION_CONNECTED, /* has not said Hello */
    SESSION_OPEN,      /* npud answers its requests */
    SESSION_DYING,     /* halted; npud waits for the end of its process, and hears no request */
    SESSION_ENDED,     /* npud hears no more of it, and frees it in its turn */
};

/* Of a session whose program has finalized: control/session_idle.h. Kept. */
enum session_idle_state {
    IDLE_NOT,
    IDLE_BEGUN,
    IDLE_NOTED, /* others know, but for what its streams still have to do */
    IDLE_DONE,  /* others know all; or it goes on, and they do not know all of that */
};

struct session {
    uint64_t id;
    struct server *server;
    struct kept kept;
    pid_t pid;
    uid_t uid;
    struct user *user;
    struct batch_job *batch_job;     /* NULL: of no scheduler, or it is not known yet, ... */
    struct batch_job_lookup *lookup; /* ... and is looked up: control/batch_job_lookup.h */
    struct log_client log;           /* id, pid and uid once more: what a line about it takes */
    int socket;
    int pidfd;
    struct event *on_socket;
    struct event *on_death;
    struct job_owner owner;
    struct job serve; /* take a request and answer it */
    struct job end;   /* end the session, or go on with that */
    enum session_state state;
    uint32_t end_slot; /* how far it is with ... */
    uint8_t end_part;  /* ... what is being freed: control/session_end.c */
    struct wake_cost wake_cost;
    uint8_t reported;       /* how often on_socket has told of what is listed already */
    bool halted;            /* by session_halt(): no engine executes anything of it */
    bool forgotten;         /* halted, and no engine knows a stream of it any more */
    bool tells_waited;      /* its page has `waited`: an older npud may have made it; engines ask */
    bool polled : 1;        /* on_socket is added */
    bool takes_fds : 1;     /* its socket: base/client_socket.h */
    bool died : 1;          /* counted in server->deaths */
    bool left : 1;          /* LeaveSession: its process writes nothing any more */
    uint8_t idle_state : 2; /* enum session_idle_state */
    bool again : 1; /* restored, and not heard since: its first packet may be answered already */
    /*
     * Ends of npud that were its fault, and are not forgiven; of the last one: 1 + the thread that
     * had it in hand; the number of that end (blame_death()), in fault_death; fault_s.
     */
    uint8_t faults : 2, fault_by : 6;
    uint64_t since_ns;
    uint64_t memory;             /* bytes of its allocations */
    struct backend_space *space; /* the backend's: its place there; NULL: none so far */
    char program[64];
    struct charge charge;
    struct charge charge_fds;     /* RESOURCE_FDS: socket, pidfd, page and arena */
    struct charge charge_tables;  /* RESOURCE_TABLE_MEMORY: of its tables, and of the arena */
    struct charge charge_maps;    /* RESOURCE_MAPPINGS: of the same */
    struct charge charge_streams; /* RESOURCE_STREAMS: of all its streams */
    struct charge charge_events;  /* RESOURCE_EVENTS: of all its plain events */
    struct held_request *held;    /* control/held_request.h; NULL: no request waits */
    struct unread *unread;        /* control/answer.c; NULL: no descriptor was sent so far */
    struct answer *answer;        /* there, that could not be sent yet; NULL: none */
    struct own_waits *own_waits;  /* admin/own_waits.c; NULL: it has not asked */
    struct resting *resting;      /* control/rest.h; NULL: it does not wait there */
    struct session_idle *idle;    /* control/session_idle.h; NULL: its program goes on */

    struct trace_client *trace; /* core/trace.h; NULL: the session has no ring */
    struct session_page *page;  /* shared, hostile */
    int page_fd;                /* its descriptor, if there is a page */
    uint32_t trace_told;        /* the trace that it has heard of; 0: that none runs */
    struct arena_files stream_files;
    struct arena_files event_files;

    uint32_t protocol;   /* that its library speaks; from Hello on */
    uint32_t ring_depth; /* of its streams, as Hello has told the client; constant from then on */
    uint64_t streams_made;

    struct peer *peer;    /* what it shares with others; NULL: nothing so far */
    uint32_t peer_id;     /* number in shared buffers (proto/shm/mbuf_shm.h) */
    uint16_t n_event_fds; /* EVENT_FDS_MAX at most */
    uint16_t fault_death; /* see `faults` */

    union {
        struct slots table[SESSION_TABLE_COUNT];
        struct {
#define SESSION_TABLE(name, Type, max) struct slots name;
            SESSION_TABLES(SESSION_TABLE)
#undef SESSION_TABLE
        };
    };
    struct attach *attach[DEVICES_MAX];
    struct release *releases; /* destroyed objects that streams have not passed yet */
    uint32_t n_fences;        /* that these wait for */
    uint32_t fault_s;         /* when `faults` changed: seconds of CLOCK_MONOTONIC */
    struct ipc_export *exports;
    struct event_fd *event_fds;     /* not written yet */
    struct value_rest *value_rests; /* engine/value.c: waiters that are still to be told */

    struct session *prev, *next; /* server->sessions */
    struct survivor *survivor; /* while the session is being freed: of its process that lives on */
};

/** Who pays for the session, or NULL: it is not known yet. */
static inline const struct user *session_payer(const struct session *session)
{
    return session->user ? session->user->payer : NULL;
}

/* A size of which jemalloc has places: of a byte more, each session takes 256 bytes more. */
static_assert(sizeof(struct session) <= 1792, "holes between members cost memory, too");

/**
 * Is the session's process still there? As the kernel knows it now, by its pidfd, also when the
 * news has not come to its turn yet. No other process that gets the same pid is taken for it.
 */
bool session_alive(const struct session *session);

/** The client could not take the descriptor of file `index`. */
void session_arena_file_resend(struct arena_files *files, uint32_t index);

/**
 * Something that the client has mapped has ended, and the client is to unmap it: a queue, its last
 * right to one, or a segment of shared buffers. Its process needs no call of the program for that
 * (client/buffers/retire.h). Before the call, the caller has changed what the client looks at.
 * NULL: there is no session to tell.
 */
void session_tell_retired(struct session *session);

/**
 * Make the record of a session, which has all that was known when it connected. False: no memory.
 */
bool session_keep(struct session *session);
/**
 * The session has the record of the npud before, and all that is its own there: page, tables, and
 * how far its end was. False: something is missing.
 */
bool session_bind(struct session *session, struct kept_cell *cell, const struct session_record *r);

/**
 * npud's end, a death of that number, was the fault of a thread that had the session in hand: count
 * it, once for each death. True: it is the second one that is not forgiven, and the session is to
 * end.
 */
bool session_blame(struct session *session, uint16_t death, unsigned who);
/** What the control thread had in hand was handled after all: that fault is forgiven. */
void session_forgive(struct session *session);

/** How many requests it has made, in the record: the control thread counts them there. */
uint64_t *session_requests(const struct session *session);

/** The session with this id that was restored, or NULL. While npud restores. */
struct session *session_by_id(uint64_t id);
/** All objects of sessions are there: the other slots of their tables are free. */
void sessions_restored(void);

/** The descriptor gets a number apart from those that libevent polls. -1: stays -1. */
int session_own_fd(const struct server *server, int fd);
/** A file that npud has mapped for the session is charged again. bytes: with what npud notes. */
void session_charge_file_again(struct session *session, size_t bytes);

/** Answer to Hello: make the session page, session->page_fd. */
enum cause session_hello(struct session *session, const char *program);

/** Open device for the session. *fd is borrowed from the attachment. */
enum cause session_open_device(struct session *session, uint32_t device, int *fd);

/** backend_lost(): its devices are lost to it, until it opens them anew. */
void session_lose_devices(struct backend_space **space, int32_t code);

/** The session ends, and has no streams any more: close its devices. */
void session_close_devices(struct session *session);

/** The attachment to device, or NULL when the session has not opened it. */
struct attach *session_attach(struct session *session, uint32_t device);

/**
 * Make sure that the file of slot `slot` of a kind is there, and that its record has room for
 * the slot. *mapping is where it is mapped; *fd is its memfd, borrowed from it,
 * if the client has not got that, else -1.
 */
enum cause session_arena_file(struct session *session, struct arena_files *files, uint32_t slot,
                              size_t size, void **mapping, int *fd);

/**
 * The session has no object in file `index` of a kind: it gets other memory, which is sent with
 * the next one. Only what is read of streams that are gone stays, their control blocks.
 */
enum cause session_arena_file_renew(struct arena_files *files, uint32_t index);

/**
 * A file is there again, of the kind that the record is of: KEPT_STREAMS or KEPT_EVENTS. *file:
 * NULL if another record of it was found before. False: it cannot be restored.
 */
bool session_arena_file_restore(struct server *server, struct kept_cell *cell, enum kept_kind kind,
                                struct arena_file **file);

/*
 * The record of a file (kept/arena_record.h), in core/arena_kept.c. Most sessions have a few
 * objects of the slots of a file: the record begins with room for the first ones, and a larger
 * one takes its place when a later slot is used.
 */

/** Slots of a file of a kind: KEPT_STREAMS or KEPT_EVENTS. */
uint32_t arena_kept_slots(enum kept_kind kind);
/** Bytes of the record of all of them. */
size_t arena_kept_size(enum kept_kind kind);

/** Make the record of a file of a kind, for its first slots. False: no memory. */
bool arena_kept_make(struct arena_file *file, enum kept_kind kind);
/** A file that is there again has this record. */
void arena_kept_bind(struct arena_file *file, enum kept_kind kind, struct kept_cell *cell);

/**
 * The record gets room for slot `index` of the file. If it moves, all objects of the file
 * have their live parts elsewhere. False: no memory. Takes the locks of all engines.
 */
bool arena_kept_reach(struct arena_file *file, uint32_t index);

/** The live part of a slot (of its table) in the file: there is room for it in the record. */
void *arena_kept_at(const struct arena_file *file, uint32_t slot);

/** The session ends: unmap a file of a kind. True: there was none. */
bool session_free_arena_file(struct arena_files *files);

/**
 * Take a slot of a table of the session, as slots_take() does. The user is charged for the memory
 * by which the table grows: it stays until the session ends. NULL with *cause; full: of a table
 * that has no slot left.
 */
void *session_take_slot(struct session *session, struct slots *table, enum cause full,
                        enum cause *cause);

/**
 * Why a small object that is charged to the user's RESOURCE_TABLE_MEMORY could not be made: npud or
 * the user has no more memory.
 */
enum cause session_cause_of_object(const struct session *session);

/**
 * Put an object back into its table of the session: when many were, their memory goes back to the
 * system. For tables whose objects are filled anew by each owner. Control thread.
 */
void session_put_slot(struct session *session, struct slots *table, void *object);

/**
 * Keep the engines of all devices that the session uses out of its tables. Nothing to do when they
 * have forgotten it.
 */
void session_lock(struct session *session);
void session_unlock(struct session *session);
