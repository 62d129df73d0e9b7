/*
 * The model: it is told records in the order of their time, executes what streams were given, and
 * tells findings (docs/checking.md).
 *
 * First what it knows of processes: their streams, events, notifies and memory, by the names that
 * their records have for them; and what several processes share.
 */
#pragma once

#include <uthash.h>

#include "client/tools/npu-check/acts.h"
#include "client/tools/npu-check/clock.h"
#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/shadow.h"
#include "client/tools/npu-check/world.h"
#include "proto/shm/check_file.h"

/* ------------------------------------------------------------------------- what waits are for */

enum signal_kind {
    SIGNAL_RECORD, /* one record of an event: goes up once */
    SIGNAL_LEVEL,
    SIGNAL_NOTIFY,
    SIGNAL_COUNT,
    SIGNAL_WORD
};

/** What streams wait for. Each reference is an operation's, or that of a table. */
struct signal {
    uint32_t refs;
    enum signal_kind kind;
    enum object_what what; /* as a finding calls it */
    uint64_t number;       /* as it is printed */
    bool up;               /* RECORD, LEVEL, NOTIFY; WORD: `value` is known */
    uint64_t value;        /* COUNT, WORD */
    struct point pending;  /* what a wait that goes on now comes after */
    struct point all;      /* ... and one that goes on although it should not */
    struct history latest; /* of what has raised it; its act is a reference */
    struct stream *waiters;
    struct operation *causes; /* that were not looked at yet */
    UT_hash_handle hh;        /* WORD: of its memory */
    uint64_t offset;          /* WORD */
};

struct event {
    uint32_t refs;
    enum check_event_kind kind;
    uint64_t number;
    struct signal *level;      /* LEVEL */
    struct signal *record[64]; /* by their number modulo 64 */
    uint64_t record_number[64];
    uint64_t newest;
    bool unknown; /* it was there before checking began */
    uint32_t reset;
    uint64_t identity; /* IPC */
    UT_hash_handle hh; /* IPC: of the model */
};

/* -------------------------------------------------------------------------------------- memory */

/** The last task of a stream that has used something. */
struct user {
    uint32_t actor, act;
    uint64_t epoch;
    uint8_t how; /* enum check_how */
};

struct users {
    struct user *list;
    uint32_t n, size;
};

/** Bytes, whatever names they have. */
struct memory {
    uint32_t refs;
    uint64_t size; /* UINT64_MAX: unknown */
    uint8_t kind;  /* enum check_memory_kind */
    bool host;     /* of a program: offsets are addresses */
    uint32_t made;
    struct shadow shadow;
    struct signal *words; /* uthash, by offset */
    struct users word_users;
    uint64_t key;      /* identity, or the number of a segment */
    UT_hash_handle hh; /* of the model's table for it, if `listed` */
    bool listed, segment;
};

struct mapping {
    uint64_t offset, address, size;
    uint32_t act;
};

/** A process's name for memory. */
struct name {
    struct check_memory_name key;
    UT_hash_handle hh;
    uint32_t refs;
    struct memory *memory;
    uint64_t address;
    uint32_t act;   /* that has allocated or imported it */
    uint32_t freed; /* that has freed it last: of a pool, in the order of a stream */
    bool imported, pool, gone;
    struct users users; /* imported: all that have used it */
    struct mapping *maps;
    uint32_t n_maps;
    /* The latest unmap, or the close. */
    struct mapping closed;
    struct point closed_by;
};

/** Memory of a stream-ordered pool that was not freed. */
struct pool_piece {
    uint64_t address, size;
    uint32_t act;
    UT_hash_handle hh;
};

/* ------------------------------------------------------------------------------------- streams */

enum operation_kind {
    OPERATION_USE, /* of memory, or of nothing */
    OPERATION_RAISE,
    OPERATION_LOWER, /* of a level */
    OPERATION_WAIT,
    OPERATION_CALLBACK,
    OPERATION_POOL_ALLOC,
    OPERATION_POOL_FREE,
};

struct byte_use {
    struct name *name; /* or NULL: host memory, a shared buffer */
    struct memory *memory;
    uint64_t offset, size;
    uint8_t how; /* enum check_how */
};

/** Something that a stream was given, until it was looked at. */
struct operation {
    struct operation *next;
    struct operation *cause_prev, *cause_next; /* of signal->causes */
    struct stream *stream;
    uint64_t sequence, ns;
    uint8_t kind; /* enum operation_kind */
    bool is_task; /* unfinished if nothing waits for it */
    bool block;   /* CALLBACK */
    bool begun, ended;
    uint8_t mode; /* of a COUNT, a condition of a WORD */
    bool clear;
    bool is_cause;
    bool maybe; /* a graph may have passed it over */
    uint8_t n_uses;
    uint32_t act;
    uint64_t value; /* of a COUNT, of a WORD; ordinal of a CALLBACK ... */
    uint32_t calls; /* ... of a graph: or a multiple of this higher. 0: no other */
    struct point submit;
    struct point end; /* CALLBACK: what the thread knew when it had returned */
    struct signal *signal;
    struct byte_use use[CHECK_ACCESSES];
};

#define STREAM_HISTORY 64u /* operations whose clocks are kept for a late synchronise */
#define STREAM_WAITS   8u  /* waits that are kept for the `missing` line of a race */

struct stream_past {
    uint64_t ns, epoch;
    struct clock *known;
};

struct stream_wait {
    enum object_what what;
    uint64_t number;
    uint32_t wait, record; /* acts */
    uint32_t actor;        /* of the record */
    uint64_t epoch;
};

struct callback_past {
    uint64_t ordinal;
    struct point point;
};

struct stream {
    uint64_t handle;
    UT_hash_handle hh; /* of its process */
    struct process *process;
    uint32_t world; /* world->streams */
    uint32_t made;  /* act */
    struct actor *actor;
    struct operation *head, *tail;
    uint64_t n_given; /* sequence of the last operation */
    bool forcing, queued;
    struct stream *ready_next;
    struct signal *blocked; /* it is among its waiters */
    struct stream *wait_prev, *wait_next;
    struct stream_past past[STREAM_HISTORY];
    uint64_t n_past;
    struct stream_wait wait[STREAM_WAITS];
    uint64_t n_waits;
    struct callback_past *callbacks; /* that were not begun yet, in order */
    uint32_t n_callbacks, size_callbacks;
    struct user last; /* task */
    uint32_t n_acts;  /* that it was given: their ordinals */
};

/* ----------------------------------------------------------------------------------- processes */

/** An object that has no part in the model but that it can leak. */
struct loose_object {
    struct {
        uint64_t object, type;
    } key;
    UT_hash_handle hh;
    uint32_t act;
};

/** A handle of an event, or a name of a notify. */
struct handle {
    uint64_t key;
    UT_hash_handle hh;
    struct event *event;
    struct signal *notify;
    uint32_t act;
};

#define PROCESS_DEAD_NAMES 1024u /* freed memory that is still known */

struct process {
    uint32_t index; /* world->processes */
    struct stream *streams;
    struct handle *events, *notifies;
    struct name *names;
    struct loose_object *objects;
    struct pool_piece *pieces;
    struct memory *host;
    struct name *dead[PROCESS_DEAD_NAMES];
    uint64_t n_dead;
    uint64_t n_events; /* that were made, for their numbers */
    bool in_session;
};

/** A record, and what its thread has said before. */
struct model_input {
    uint32_t process; /* world->processes */
    uint32_t writer;  /* of all threads of all processes */
    uint32_t thread;  /* its id */
    uint32_t place;   /* world->places, or WORLD_NONE */
    uint32_t range;   /* world->texts, or WORLD_NONE */
    const struct check_record *r;
};

struct model {
    struct world *world;
    struct findings *findings;
    unsigned kinds; /* bits 1 << enum finding_kind that are wanted */
    bool host_seen; /* each thread is an actor */
    struct acts acts;
    struct process *processes;
    size_t n_processes;
    struct actor **actors;
    size_t n_actors, size_actors;
    uint32_t *free_actors; /* of streams that have ended */
    size_t n_free, size_free;
    uint32_t *writers; /* actors of threads, + 1 */
    size_t n_writers;
    struct event *ipc_events;       /* by identity */
    struct handle *shared_notifies; /* likewise */
    struct memory *exports;         /* likewise */
    struct memory *segments;
    struct handover *handovers; /* --check-host=seen: of shared buffers */
    struct stream *ready;       /* that may go on */
    struct operation *spare;
    unsigned depth; /* of streams that are forced for each other */
    const struct model_input *input;
};

/** *w has all processes already, and no streams. */
void model_init(struct model *m, struct world *w, struct findings *f, bool host_seen);
/** The next record, which is well-formed. Its process's number is one of *w. */
void model_take(struct model *m, const struct model_input *in);
/** No more records of this process come. */
void model_end_process(struct model *m, uint32_t process);
/** No more records come: what was not looked at yet is looked at now. */
void model_end(struct model *m);
void model_deinit(struct model *m);

/* ------------------------------------------------------------------ between files of the model */

/** The actor that the thread of the record is. */
struct actor *model_host(struct model *m);
/** An act of the record. Its stream may be NULL. One reference. */
uint32_t model_act(struct model *m, enum act_what what, const struct stream *s);
struct actor *actor_make(struct model *m, const struct actor *maker);

/* stream.c */
struct stream *stream_find(struct model *m, struct process *p, uint64_t handle);
struct stream *stream_make(struct model *m, struct process *p, const struct check_stream *r);
/** All its operations are looked at first. */
void stream_free(struct model *m, struct stream *s);
/** A new operation, not given yet. It takes the act's reference. */
struct operation *operation_make(struct model *m, uint8_t kind, uint32_t act);
void operation_set_signal(struct operation *o, struct signal *signal);
/** Gives an operation to a stream, and looks at what can be looked at. */
void stream_give(struct model *m, struct stream *s, struct operation *o);
/** What the stream was given up to `sequence` is looked at, come what may. */
void stream_force(struct model *m, struct stream *s, uint64_t sequence);
/** *a comes after what the stream was given until `ns`, which is forced. */
void stream_synchronise(struct model *m, struct stream *s, uint64_t ns, struct actor *a);
void stream_begin_callback(struct model *m, struct stream *s, uint64_t ordinal, struct actor *a);
void stream_end_callback(struct model *m, struct stream *s, uint64_t ordinal, struct actor *a);
void stream_look_at_ready(struct model *m);
/** What it knew at that epoch, or not much later, if that is long ago. */
struct clock *stream_clock_at(const struct stream *s, uint64_t epoch);
/** The head is a wait that may go on with what *after says. */
void stream_pass_wait(struct model *m, struct stream *s, const struct point *after);

/* signal.c */
struct signal *signal_make(enum signal_kind kind, enum object_what what, uint64_t number);
struct signal *signal_ref(struct signal *g);
void signal_unref(struct model *m, struct signal *g);
bool signal_lets_pass(const struct signal *g, const struct operation *o);
/** A wait that it lets pass has gone on: what it takes with it. */
struct point signal_take(struct signal *g, const struct operation *o);
/** The operation of a stream has happened. */
void signal_raise(struct model *m, struct signal *g, const struct operation *o,
                  const struct actor *a);
void signal_lower(struct signal *g);
/** A word got a value that is not known. */
void signal_spoil(struct signal *g, const struct actor *a);
void signal_let_waiters_go(struct model *m, struct signal *g);

/* event.c */
struct event *event_find(struct model *m, struct process *p, uint64_t handle);
struct signal *event_record(struct model *m, struct event *e, uint64_t number);
void event_unref(struct model *m, struct event *e);
void handle_free(struct model *m, struct handle **table, struct handle *h);
struct handle *handle_find(struct handle *table, uint64_t key);
struct signal *notify_find(struct model *m, struct process *p, uint32_t slot, uint32_t generation,
                           bool counts);
extern void (*const event_takers[CHECK_KINDS])(struct model *m, struct process *p);

/* memory.c */
struct memory *memory_ref(struct memory *y);
void memory_unref(struct model *m, struct memory *y);
struct name *name_find(struct model *m, struct process *p, const struct check_memory_name *key);
void name_unref(struct model *m, struct name *n);
/** Fills *u, with references. */
void byte_use_fill(struct model *m, struct process *p, struct byte_use *u,
                   const struct check_range_use *of);
void byte_use_free(struct model *m, struct byte_use *u);
/** The access is done by *a at its epoch; submitted by `submit` (NULL: it is a thread's). */
void byte_use_look_at(struct model *m, const struct byte_use *u, const struct actor *a,
                      uint32_t act);
struct signal *word_find(struct model *m, struct memory *y, uint64_t offset);
/** The process has given the piece at this address back. False: there is none. */
bool pool_piece_end(struct model *m, struct process *p, uint64_t address);
void pool_look_at(struct model *m, const struct byte_use *u, const struct actor *a, uint32_t act,
                  bool is_alloc);
void users_free(struct model *m, struct users *all);
extern void (*const memory_takers[CHECK_KINDS])(struct model *m, struct process *p);

/* task.c */
void handovers_free(struct model *m);
extern void (*const task_takers[CHECK_KINDS])(struct model *m, struct process *p);

/* session.c */
extern void (*const session_takers[CHECK_KINDS])(struct model *m, struct process *p);
void session_end(struct model *m, struct process *p);
void process_free(struct model *m, struct process *p);

/* find_*.c: what each finding says. Acts are numbers of m->acts. */
struct byte_range {
    const struct byte_use *use; /* of the later act, for its name */
    uint64_t start, end;        /* offsets */
};
/** Keeps the texts of its acts, and adds it, if its kind is wanted. */
void find_add(struct model *m, struct finding *f);
void find_set_memory(struct model *m, struct finding *f, const struct byte_range *bytes);
/** `what`: how the earlier one uses the bytes, where its act does not say. */
void find_race(struct model *m, const struct history *first, enum act_what what,
               const struct actor *a, uint32_t act, const struct byte_range *bytes);
void find_uninitialised(struct model *m, uint32_t act, const struct byte_range *bytes);
void find_use_after_free(struct model *m, uint32_t freed, uint32_t act,
                         const struct byte_range *bytes, bool beyond);
void find_refused(struct model *m, struct process *p, const struct check_refused *r);
void find_leaks(struct model *m, struct process *p);
void find_unfinished(struct model *m, const struct stream *s);
void find_empty_wait(struct model *m, const struct event *e, uint32_t act);
void find_ignored(struct model *m, const struct stream *s, int32_t code);
