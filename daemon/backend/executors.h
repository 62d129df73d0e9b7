/*
 * An executor, npud's side: a process that has loaded the library of a device and does the device
 * work of a session or of a user (docs/hardware.md). Started when a session first uses a device;
 * ended when no session and no memory of it is left. What it says is validated like what a client
 * says: an answer that cannot be ends it.
 *
 * executors.c has what is asked of it and its life, executor_*.c single subjects, lanes.c the
 * work. Control thread, unless said otherwise.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/schedule.h"
#include "daemon/core/backend.h"
#include "daemon/core/user.h"
#include "daemon/kept/kept.h"
#include "proto/shm/doorbell.h"
#include "proto/shm/executor_shm.h"
#include "proto/util/slots.h"
#include "proto/wire/executor_message.h"

struct event;
struct executor_live;
struct executors;
struct server;
struct told;

enum executor_state {
    EXECUTOR_STARTING, /* has not answered HELLO */
    EXECUTOR_READY,
    EXECUTOR_ENDED, /* it is gone, or not listened to: `code` is what its work ends with */
};

/* Work in flight on a lane, which is a stream's meanwhile. Of the engine of `device`. */
struct lane {
    struct executor *executor;
    struct work *work;        /* NULL: nobody waits for its end; the lane is not free before */
    uint64_t number;          /* of that work */
    uint64_t dropped;         /* work before others there that its stream has left; 0: none */
    bool aborts;              /* it is asked to end it, and is leased until the answer */
    struct lane *prev, *next; /* executors.flying[device] */
};

/** What an executor writes to its standard output and error: executor_log.c. */
struct executor_log {
    int fd;                          /* of the pipe, to read; -1: none */
    struct event *on_text, *on_over; /* on_over: of the second, if something was left out in it */
    uint64_t begun_ns;               /* of the second ... */
    unsigned lines, left_out;        /* ... in which these came */
    size_t bytes;                    /* the same */
    size_t used;                     /* of line */
    char line[256];                  /* its begin, so far */
};

struct executor {
    struct executors *all;
    uid_t uid;        /* whose it is ... */
    uint64_t session; /* ... and of which session; 0: of all of the user */
    uint32_t users;   /* places of sessions, and memory that is not given back */
    enum executor_state state;
    char why[192];        /* how it has ended, or why it has not started */
    struct user *user;    /* a reference, as long as it is charged; NULL: it is not */
    struct charge charge; /* RESOURCE_EXECUTORS */
    struct charge files;  /* its ring and its page, which npud has mapped */

    uint32_t own_uid; /* 0: its process has npud's */
    pid_t pid;
    pid_t had_pid;     /* when it has ended */
    uint64_t since_ns; /* when it was started. 0: nothing is known of it but its number */
    int pidfd, socket;
    struct event *on_socket, *on_end;
    struct executor_log log;

    pthread_mutex_t sending; /* engines send, too. For the next four */
    uint64_t sent;           /* requests, with those that wait */
    struct unsent *unsent;   /* its socket is full: they wait, in this order */
    uint32_t n_unsent;
    bool flushed; /* `flush` is sent, or on_writable added */
    struct job flush;
    struct event *on_writable;
    struct asked *asked;      /* those whose answer is to come */
    const struct told *heard; /* the answer that is being told */
    uint32_t begun;           /* devices that it was told to use ... */
    int wake[DEVICES_MAX];    /* ... by which it wakes their engines; -1: none */
    uint32_t usable;          /* ... and those that it has said it does */

    struct kept kept;
    struct executor_live *live; /* in its record */
    uint32_t number;            /* in records; its low bits in tickets */
    uint32_t life;              /* how many npuds it has outlived */
    bool resumes;    /* what it has is not compared yet with what npud knows: new memory waits */
    bool restored;   /* while npud restores, that is a user */
    unsigned looked; /* in which turn of executors_watch() */

    struct slots handles; /* struct name */
    struct freed *freed;  /* names that are given back, and it has not been told */
    struct job free;
    void *ranges;    /* of its memory, by address: tsearch() */
    uint64_t memory; /* bytes of these */

    int ring_fd, page_fd;
    struct executor_ring *ring;
    struct executor_page *page; /* hostile */
    _Atomic uint64_t leased;    /* lanes, a bit each. Engines */
    _Atomic int32_t code;       /* with which all its work ends; 0: it runs. Engines read it */
    _Atomic bool landed;        /* executors.landed is of it, too */
    struct lane lane[EXECUTOR_LANES];
    /*
     * The first number of who leases the lane: those before are left, whatever npud before noted.
     * Relaxed: who leases a lane stores it, and reads it back; restoring is before all engines.
     */
    _Atomic uint64_t first[EXECUTOR_LANES];
    uint64_t told[EXECUTOR_LANES]; /* the last number that it has said is done. The lane's engine */
    struct {
        uint64_t done;
        uint32_t looks; /* since that is so, and more was given. Of executors_watch() */
    } watched[EXECUTOR_LANES];
    _Atomic(const char *) accused; /* why it was killed; NULL: it was not */

    struct executor *prev, *next; /* executors.list */
};

/** Of executors, in tickets. */
#define EXECUTOR_NUMBERS 128u

/** What a device has said of itself: executors_health(). */
struct health {
    struct executor_health told;
    uint64_t told_ns;  /* 0: nothing so far */
    uint64_t asked_ns; /* the last question ... */
    bool asked;        /* ... to which the answer is to come */
};

/** Uids that executors have of their own: executor_uids.c. */
struct executor_uids {
    uint32_t first, n; /* places, of two uids each; 0: executors have npud's */
    uint32_t group;    /* that executors with such a uid are in; 0: none */
    uint32_t next;     /* place to look at first, so that a uid rests for long */
    bool *taken;       /* by place */
};

struct executors {
    struct server *server;
    const char *kind; /* the library's table: "acl" or "cuda" */
    char *library;
    char *environment[64]; /* of executors, in environment_text; NULL at the end */
    char *environment_text;
    bool nesting, of_user;
    bool ends;          /* there are no engines any more */
    char program[4096]; /* npud-executor */
    uint32_t devices;
    struct executor_device_info info[DEVICES_MAX];
    char *identity;            /* of the library, for the next npud: executors_know() ... */
    struct kept kept;          /* ... with what it has said */
    char can[DEVICES_MAX][96]; /* info.capabilities in words */
    struct health health[DEVICES_MAX];
    struct executor *list;
    struct ending *ending;            /* processes that were killed, and are not gone yet */
    struct lane *flying[DEVICES_MAX]; /* work that is away. Of the engine of the device */
    uint64_t started, failed;         /* so far */
    uint32_t last;                    /* number */
    struct executor_uids uids;
    struct event *on_watch; /* NULL: it was never needed */
    _Atomic bool watched;   /* executors_watch() looks for those that hang */
    struct job watch;
    struct job landed;                                     /* from engines ... */
    _Atomic bool landed_told;                              /* ... and is on its way */
    void (*lost)(struct executor *executor, int32_t code); /* first of all, when it ends */
    void (*told)(struct executor *executor);               /* it has ended, or resumes no more */
};

/** A handle that is in use. */
struct name {
    struct slot slot;
    struct backend_memory *memory; /* NULL: it is not there yet, or was not restored */
    bool restored;                 /* the executor is to have it, ... */
    bool listed;                   /* ... and has said so */
};

/** End those that hang, from now on. What is asked for and what is given out begin it. */
void executors_watch(struct executors *all);
bool executors_run_watch(struct job *job);
/** Work was given: as above, from an engine. */
static inline void executors_busy(struct executors *all)
{
    /* The bell was rung before: either the watch sees that, or this sees that there is none. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&all->watched, memory_order_relaxed) &&
        !atomic_exchange(&all->watched, true))
        job_send(&all->watch);
}

/** It is over: npud ends. */
void executors_watch_end(struct executors *all);

/** What devices there are: as the npud before knew it, or asked. 0 or -errno after logging. */
int executors_know(struct executors *all);
/** Ask the library what there is, in an executor of its own. 0 or -errno after logging. */
int executors_probe(struct executors *all);
/** As backend.device_health(). */
bool executors_health(void *state, uint32_t device, struct backend_health *health);

/** Its memory alone: for the next one, and for executor_record.c. NULL: no memory. */
struct executor *executor_make(struct executors *all, uid_t uid, uint64_t session);
/**
 * A new one, which is being started, in place of one that has ended, or of none. 0, -EDQUOT: the
 * user has as many as it may, -ENOSPC: as many mappings, -EMLINK: as many descriptors; -EUSERS: no
 * uid is free for it; or -ENOEXEC after logging: it cannot be.
 */
int executor_new(struct executors *all, uid_t uid, uint64_t session, const struct executor *before,
                 struct executor **made);
struct executor *executor_use(struct executor *executor);
/** The last user ends it. */
void executor_leave(struct executor *executor);
/**
 * It counts among those of its user, from now on until it ends. again: an npud before has counted
 * it. 0, -ENOMEM, or as of executor_new().
 */
int executor_charge(struct executor *executor, bool again);
/** Safe to repeat. */
void executor_uncharge(struct executor *executor);
/** It is not to be trusted, or is gone: all that it has is lost. why: in words, for the log. */
void executor_end(struct executor *executor, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/**
 * It lies, as an engine has found out: its process is killed, and the control thread ends it. Any
 * thread. why: a constant.
 */
void executor_accuse(struct executor *executor, const char *why);

/* --- executor_record.c: what outlives npud --- */

/** Make its record. False: no memory. */
bool executor_note(struct executor *executor);
/** It has ended. */
void executor_drop_note(struct executor *executor);
/** While npud restores: the one with this number, or one that has ended. NULL: no memory. */
struct executor *executor_find(struct executors *all, uint32_t number);
/** The process of an npud before: listen to it, and ask what it has. False: no memory. */
bool executor_go_on(struct executor *executor);
/** Ask for all handles from that slot on, and compare them with what npud knows. 0 or -errno. */
int executor_ask_for_list(struct executor *executor, uint64_t from);
/** All objects are there: what is in flight for nobody is watched, and who has no user goes. */
void executors_finish_restoring(struct executors *all);

/* --- executor_report.c: for administrators. As in struct backend --- */

bool executors_next(void *state, uint32_t after, struct backend_executor *row);
void executors_count(void *state, struct backend_executors *count);

/* --- asking --- */

struct asked;
/**
 * The answer is there, and fits the request; or the executor has ended: answer is NULL then, and fd
 * -1. fd is the callee's.
 */
typedef void asked_fn(struct asked *asked, const struct executor_answer *answer, int fd);

/** A request whose answer is to come. The asker's, at the begin of an object of its own. */
struct asked {
    struct executor *executor;
    asked_fn *over;
    uint64_t number;
    uint32_t op;
    uint32_t looks; /* since it was asked: executors_watch() */
    struct asked *prev, *next;
};

/** 0, or -errno: over() is not called. fds stay the caller's. */
int executor_ask(struct executor *executor, struct asked *asked, asked_fn *over,
                 struct executor_request *request, const int *fds, unsigned n_fds);
/** A request without an answer. Any thread. The executor ends if it does not take it. */
void executor_tell(struct executor *executor, struct executor_request *request, int fd);

/** A handle that it has for nothing else. 0: there is none left. */
uint64_t executor_name(struct executor *executor);
void executor_unname(struct executor *executor, uint64_t handle);
/**
 * What has this handle goes: memory or pages of an npud that knows them no more. Told when no
 * record names it any more, so that the next npud does not look for it. The name is free after
 * that; until then this is a user.
 */
void executor_free_named(struct executor *executor, uint64_t handle);
/** npud ends, and no session is left: what was asked for is not wanted any more. */
void executors_end(struct executors *all);
/** What has this handle; NULL: nothing. */
struct name *executor_named(struct executor *executor, uint64_t handle);
/** While npud restores: a handle of before. NULL: no memory, or it cannot be one. */
struct name *executor_name_again(struct executor *executor, uint64_t handle);

/** The range is memory that it has given out. False: it overlaps another one. */
bool executor_note_range(struct executor *executor, uint64_t address, uint64_t size);
void executor_forget_range(struct executor *executor, uint64_t address, uint64_t size);

/* --- between the files that make an executor --- */

/** An answer as it comes, with the most that can be behind it. */
struct told {
    struct executor_answer answer;
    union {
        struct executor_device_info info;
        struct executor_health health;
        uint64_t handles[EXECUTOR_LIST_MOST];
    };
};

/* executor_process.c */

/** Its process and its files. 0 or -errno: free it. */
int executor_start(struct executor *executor);
/** End the process, if there is one, with what it has forked; its uid is free when that is gone. */
void executor_kill(struct executor *executor);
/** A process that has used the device, was killed, and has not ended for long. 0: there is none. */
pid_t executors_unwell(const struct executors *all, uint32_t device);
/** npud ends: what those with a uid of their own have left is killed first. May wait, for 5 s. */
void executors_finish_ending(struct executors *all);

/* executor_uids.c */

/** Which uids are there, and may npud give them to executors? 0 or -errno. May wait. */
int executor_uids_begin(struct executors *all);
void executor_uids_end(struct executors *all);
/** A uid of its own. probe: of npud's own executor. 0, also if there are none, or -EUSERS. */
int executor_uid_take(struct executor *executor, bool probe);
/** It is in use: an npud before has given it. uid: 0: nothing. */
void executor_uid_again(struct executors *all, uint32_t uid);
/** No process has it any more. uid: 0: nothing. */
void executor_uid_free(struct executors *all, uint32_t uid);

/* executor_log.c */

/** Make its pipe. Returns the end that it writes to, which the caller closes, or -errno. */
int executor_log_open(struct executor *executor);
/** Read what comes. False: no memory. */
bool executor_log_listen(struct executor *executor);
/** Its last words, and no more. Safe to repeat. */
void executor_log_end(struct executor *executor);

/* executors.c, executor_record.c */

/** Send a request, or have it wait for room. Under executor->sending, or before it is known. */
int executor_send(struct executor *executor, struct executor_request *request, const int *fds,
                  unsigned n);
/** All that have work there look what has become of it. */
void executor_wake_engines(struct executor *executor);
/** Does the array hold a string? */
bool executor_is_text(const char *text, size_t size);
/** What a terminal would take for commands becomes question marks. */
void executor_clean_text(char *text);

/* --- lanes.c: work. Engine thread of the device, or another that holds its lock --- */

/**
 * While npud restores: these tickets, from the first one to the last one, are some stream's, unless
 * it has left them already.
 */
void lane_restore(struct executor *executor, uint64_t ticket, uint64_t last);
/** All tickets are restored: what else is in flight is for nobody. */
void lanes_finish_restoring(struct executor *executor);

/** Lease a lane: the ticket for work there. 0: all are leased. */
uint64_t lane_lease(struct executor *executor);
/** What has become of the work with this ticket? */
enum lane_state { LANE_NOT_GIVEN, LANE_BUSY, LANE_OVER, LANE_LONG_OVER };
enum lane_state lane_look(struct executor *executor, uint64_t ticket);
/**
 * Control thread, with the engine's lock: the lane of this ticket, whose work nobody waits for, is
 * about to be asked to end it, and all there up to number *to. -1: it is asked already, or is done
 * with it.
 */
int lane_begin_abort(struct executor *executor, uint64_t ticket, uint64_t *to);
/** Likewise: the executor has answered. */
void lane_end_abort(struct executor *executor, int lane);
/** Is it a ticket of this one? Else of an earlier one of the session. Any thread. */
bool lane_is_of(const struct executor *executor, uint64_t ticket);
/** Write down the work of a ticket, for lane_give(). task: but for its number. */
void lane_put(struct executor *executor, uint64_t ticket, struct executor_task *task);
/** Is this what was written down, but for its number and `after`; or is that gone? */
bool lane_has(const struct executor *executor, uint64_t ticket, const struct executor_task *task);
/** Give all up to this ticket to the executor. */
void lane_give(struct executor *executor, uint64_t ticket);
/** It is given, and this engine waits for its end. */
void lane_await(struct executor *executor, uint64_t ticket, uint32_t device, struct work *work);
/** The outcome of work that is over. value: of WORD_READ. */
int32_t lane_result(struct executor *executor, uint64_t ticket, uint64_t *value);
/**
 * Nobody asks for this ticket any more, nor, if all, for those that were given behind it. After the
 * last one the lane is free, or will be when the work is over.
 */
void lane_leave(struct executor *executor, uint64_t ticket, uint32_t device, bool all);

/** As backend.poll() and backend.sleep(). */
void lanes_poll(struct executors *all, uint32_t device, void (*over)(struct work *work));
bool lanes_sleep(struct executors *all, uint32_t device, bool asleep);
