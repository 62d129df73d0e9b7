/*
 * What a checked process writes down (client/check), and npu-check reads when it is over
 * (client/tools/npu-check): one file per process, which only grows.
 *
 * The file begins with a struct check_head. Behind it are chunks of CHECK_CHUNK bytes each. A chunk
 * belongs to one thread, which writes one record behind the other, mapped and shared: what is
 * written is in the page cache, and a process that is killed loses nothing but the record that it
 * is at. The rest of a chunk is zero. Threads take chunks from the end of the file, so a thread's
 * chunks lie in the order of its records, between those of other threads.
 *
 * A record is a struct check_record and what belongs to its kind, in words of 8 bytes. Its first
 * word is stored last, with release: a reader takes a record if that word is not zero, and finds
 * it whole.
 *
 * `ns` is npud's clock (CLOCK_MONOTONIC), the same for all processes, and never goes back within a
 * thread. It orders the records of all threads and processes; this rule makes it an order in which
 * things can have happened:
 *
 *     A record of what lets others go on (a task is submitted, an event is recorded, a callback has
 *     returned, a buffer is put) is written before it takes effect. A record of what a thread has
 *     learned (a stream has been synchronised, a callback begins, a buffer was taken) is written
 *     after it was learned, and before the call returns.
 *
 * Records of one stream are written under the stream's lock: they are in the order of the stream.
 *
 * Readers believe nothing: a program may have written anything into its file.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "proto/shm/task.h"

#define CHECK_MAGIC   UINT64_C(0x31306b6368757064) /* "dpuhck01" */
#define CHECK_VERSION 1u

#define CHECK_CHUNK ((uint64_t)64 << 10) /* bytes of a chunk, and of the head with its padding */

/** Written by the process when it makes the file; `ended` when it exits. */
struct check_head {
    uint64_t magic;
    uint32_t version;
    int32_t pid; /* as the process sees it */
    uint64_t start_ns;
    char program[64];        /* what it was called then: client/core/program_name.h */
    _Atomic uint32_t ended;  /* 1: it has left by exit(3) */
    _Atomic uint32_t failed; /* 1: the file could not grow; what came later is not written */
    char reserved[32];
};
static_assert(sizeof(struct check_head) == 128, "as it is in the file");

/** Begins each chunk. `thread` is stored last: 0: the chunk was taken, and nothing is in it. */
struct check_chunk {
    uint64_t number;         /* of the chunks of this thread, from 0 */
    _Atomic uint32_t thread; /* as the process sees it */
    uint32_t writer;         /* of the threads that have written in this process, from 1 */
};
static_assert(sizeof(struct check_chunk) == 16, "as it is in the file");

enum check_kind {
    CHECK_NONE,
    /* where */
    CHECK_MODULE, /* check_module: a file that is mapped */
    CHECK_PLACE,  /* check_place: a call stack of this thread, which gets the next number */
    CHECK_SOURCE, /* check_source: a place of a program in another language, for the next PLACE */
    /* objects */
    CHECK_SESSION_BEGIN,
    CHECK_SESSION_END, /* what is left of the process's objects is taken back by npud */
    CHECK_STREAM,      /* check_stream */
    CHECK_STREAM_GONE, /* check_stream_gone: all its tasks are over */
    CHECK_EVENT,       /* check_event */
    CHECK_EVENT_GONE,  /* check_object */
    CHECK_NOTIFY,      /* check_notify */
    CHECK_NOTIFY_GONE, /* check_notify */
    CHECK_MEMORY,      /* check_memory: an allocation of npud, new or imported */
    CHECK_MEMORY_GONE, /* check_memory: freed, or an import was closed */
    CHECK_EXPORT,      /* check_memory: others may import it as `identity` */
    CHECK_MAP,         /* check_map: part of an allocation is at an address */
    CHECK_UNMAP,       /* check_map */
    CHECK_REGISTER,    /* check_range: host memory of the program */
    CHECK_UNREGISTER,  /* check_range */
    CHECK_OBJECT,      /* check_object: another kind, which only can leak */
    CHECK_OBJECT_GONE, /* check_object */
    /* in the order of a stream */
    CHECK_TASK,       /* check_task: a task comes into the ring */
    CHECK_ACCESS,     /* check_access: a task that a thread of the library executes; or a call */
    CHECK_RECORD,     /* check_event_use: of an event */
    CHECK_RESET,      /* check_event_use: of an event with a level, or of a default event */
    CHECK_WAIT,       /* check_event_use */
    CHECK_POOL_ALLOC, /* check_pool: memory for what comes later in the stream */
    CHECK_POOL_FREE,  /* check_pool */
    /* what a thread has learned or done */
    CHECK_SYNC_STREAM,    /* check_sync */
    CHECK_SYNC_EVENT,     /* check_event_use, stream 0: the record is complete */
    CHECK_EMPTY_SYNC,     /* check_event_use, stream 0: of an event that has no record */
    CHECK_CALLBACK_BEGIN, /* check_callback */
    CHECK_CALLBACK_END,   /* check_callback */
    CHECK_NOTIFY_RESET,   /* check_notify: by the host */
    CHECK_PUT,            /* check_handover: a shared buffer is put into a queue */
    CHECK_TAKE,           /* check_handover */
    CHECK_REFUSED,        /* check_refused: the library has refused an address */
    CHECK_FAILED,         /* check_failed: a failure of a stream was reported by a call */
    CHECK_RANGE_BEGIN,    /* check_text: of the program's own, in this thread */
    CHECK_RANGE_END,
    CHECK_MARK, /* check_text */
    /* and once more */
    CHECK_THREAD,  /* check_object: from here on another thread writes here: its id */
    CHECK_IGNORED, /* check_failed: a failure that no call has reported, as its process ends */
    CHECK_KINDS
};

struct check_record {
    uint8_t kind;    /* enum check_kind */
    uint8_t words;   /* of 8 bytes, of the whole record */
    uint16_t length; /* of a text, in bytes; else 0 */
    uint32_t place;  /* which CHECK_PLACE of this thread, from 1; 0: unknown */
    uint64_t ns;
};
static_assert(sizeof(struct check_record) == 16, "two words");

#define CHECK_FRAMES      24u   /* at most, of a place */
#define CHECK_TEXT        240u  /* bytes of a text, at most: longer ones are cut */
#define CHECK_ACCESSES    4u    /* of a CHECK_ACCESS, at most: more are several records */
#define CHECK_SOURCE_TEXT 1001u /* of a CHECK_SOURCE: two names of up to 500 */
#define CHECK_NO_STREAM   UINT64_C(0)

/** Addresses start .. end are of the file `text`, whose own addresses are `bias` lower. */
struct check_module {
    struct check_record r;
    uint64_t start, end, bias;
    char text[]; /* the path */
};

/**
 * Return addresses, the innermost first; those in libaclclient are of the library's own functions,
 * and the outermost of them is the public one. `source`: the SOURCE before belongs to it.
 */
struct check_place {
    struct check_record r;
    uint32_t n, source;
    uint64_t frame[];
};

/** "FILE\0FUNCTION": of an interpreted program, which called the public function there. */
struct check_source {
    struct check_record r;
    uint64_t line;
    char text[];
};

struct check_stream {
    struct check_record r;
    uint64_t stream; /* its handle, also of default streams: never used twice by a process */
    int32_t id;
    uint32_t device;
    uint32_t slot; /* npud's, for the trace */
    uint32_t is_default;
};

struct check_stream_gone {
    struct check_record r;
    uint64_t stream;
    int32_t code;       /* a failure that no call has reported; 0: none */
    uint32_t discarded; /* its tasks were discarded, not awaited */
};

enum check_event_kind {
    CHECK_EVENT_PLAIN, /* a wait is for the latest record at the call */
    CHECK_EVENT_LEVEL, /* a wait is for the level, which a record raises and a reset lowers */
    CHECK_EVENT_IPC,   /* as PLAIN; `identity` is the same in all processes */
};

struct check_event {
    struct check_record r;
    uint64_t event;    /* its handle */
    uint64_t identity; /* IPC: npud's number */
    uint32_t kind;     /* enum check_event_kind */
    uint32_t imported; /* opened by a handle of another process */
};

struct check_notify {
    struct check_record r;
    uint32_t slot, generation; /* the name in this session's tasks */
    uint64_t identity;         /* the same in all processes */
    uint32_t counts;           /* a count notify */
    uint32_t imported;
};

enum check_memory_kind {
    CHECK_MEMORY_DEVICE,
    CHECK_MEMORY_PINNED,
    CHECK_MEMORY_MANAGED,
    CHECK_MEMORY_PHYSICAL, /* device memory without an address, until it is mapped */
    CHECK_MEMORY_BUFFER,   /* of shared buffers: in no record, but in findings */
    CHECK_MEMORY_KINDS
};

/** The name of an allocation in the session's tasks and accesses. */
struct check_memory_name {
    uint32_t slot, generation;
};

/* In place of a slot: host memory of the program, whose offset is its address ... */
#define CHECK_SLOT_HOST UINT32_MAX
/* ... and a shared buffer: `generation` is its segment, the offset is in that. */
#define CHECK_SLOT_BUFFER (UINT32_MAX - 1)

struct check_memory {
    struct check_record r;
    struct check_memory_name name;
    uint64_t address;  /* of its first byte; 0: it is not mapped */
    uint64_t size;     /* that the program has asked for */
    uint64_t identity; /* imported, EXPORT: of the export; else 0 */
    uint32_t kind;     /* enum check_memory_kind */
    uint32_t device;
    uint32_t imported;
    uint32_t unused; /* a POOL_ALLOC says that it is of a pool */
};

struct check_map {
    struct check_record r;
    struct check_memory_name name;
    uint64_t offset, address, size;
};

struct check_range {
    struct check_record r;
    uint64_t address, size;
};

enum check_object_type {
    CHECK_OBJECT_EVENT, /* EVENT_GONE */
    CHECK_OBJECT_CONTEXT,
    CHECK_OBJECT_MEMORY_POOL,
    CHECK_OBJECT_ADDRESSES, /* aclrtReserveMemAddress */
    CHECK_OBJECT_QUEUE,
    CHECK_OBJECT_BUFFER,
    CHECK_OBJECT_TYPES
};

struct check_object {
    struct check_record r;
    uint64_t object; /* its handle, or address */
    uint32_t type;   /* enum check_object_type */
    uint32_t unused;
};

/**
 * The entry as it is in the ring, or in the list of a graph: task.sequence - 1 is its position,
 * task.op says what it does. Copies, fills, reductions and words name their memory by struct
 * check_memory_name. `calls`: how many the graph has that the task is of; its CALLBACK may have any
 * ordinal that is a multiple of this higher. 0: it is of none. `maybe`: the graph may have passed
 * it over.
 */
struct check_task {
    struct check_record r;
    uint64_t stream;
    struct task task;
    uint32_t calls;
    uint32_t maybe;
};

enum check_how {
    CHECK_READ = 1,
    CHECK_WRITE = 2,
    CHECK_WORD = 4,  /* a word that tasks wait for, or write so that others do: no race by itself */
    CHECK_MAYBE = 8, /* a kernel may read and write there: with WORD and WRITE; else: a task that a
                        graph may have passed over */
};

struct check_range_use {
    struct check_memory_name name;
    uint64_t offset, size;
    uint32_t how; /* enum check_how, or-ed */
    uint32_t unused;
};

struct check_access {
    struct check_record r;
    uint64_t stream; /* CHECK_NO_STREAM: the calling thread has done it, and it is over */
    uint32_t n;
    uint32_t op;    /* enum task_op: what it is like */
    uint64_t value; /* of VALUE_WRITE and VALUE_WAIT */
    uint64_t condition;
    struct check_range_use use[];
};

struct check_event_use {
    struct check_record r;
    uint64_t stream;
    uint64_t event;  /* its handle in this process */
    uint64_t number; /* of the record, from 1; WAIT: 0: there is none */
};

struct check_pool {
    struct check_record r;
    uint64_t stream;
    struct check_memory_name name;
    uint64_t address, size;
};

/** What the stream was given until since_ns is over. */
struct check_sync {
    struct check_record r;
    uint64_t stream;
    uint64_t since_ns;
};

struct check_callback {
    struct check_record r;
    uint64_t stream;
    uint64_t ordinal; /* as in its task */
};

struct check_handover {
    struct check_record r;
    uint64_t queue;  /* number of the ring: the same in all processes */
    uint64_t buffer; /* the name of the buffer, likewise */
};

enum check_refusal {
    CHECK_FREED,    /* it was an allocation */
    CHECK_BEYOND,   /* the range leaves the allocation, or the mapping */
    CHECK_UNMAPPED, /* addresses are reserved there, and nothing is mapped */
};

struct check_refused {
    struct check_record r;
    uint64_t address, size;
    uint64_t start, whole; /* of the allocation, where it is known */
    uint64_t why;          /* enum check_refusal */
};

struct check_failed {
    struct check_record r;
    uint64_t stream;
    int64_t code;
};

struct check_text {
    struct check_record r;
    char text[];
};
