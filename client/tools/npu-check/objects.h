/*
 * What the model knows of processes: their streams, events, notifies and memory, by the names that
 * their records have for them; and what several processes share.
 *
 * All of it belongs to one struct model, which one thread uses.
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
    uint8_t n_uses;
    uint32_t act;
    uint64_t value; /* of a COUNT, of a WORD; ordinal of a CALLBACK */
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
