/*
 * What is wrong with a program, as the modules that look for it (find_*.c) tell it and reports show
 * it. Names are numbers in the tables of struct world (world.h): a finding owns nothing but what is
 * in it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum finding_kind {
    FINDING_RACE,
    FINDING_UNINITIALISED,
    FINDING_USE_AFTER_FREE,
    FINDING_LEAK,
    FINDING_UNFINISHED,
    FINDING_EMPTY_WAIT,
    FINDING_IGNORED,
    FINDING_KINDS
};

/** As it is written in reports and suppressions: "race", "use-after-free". */
extern const char *const finding_names[FINDING_KINDS];

enum act_what {
    ACT_NONE, /* there is no such act in this finding */
    ACT_READ,
    ACT_WRITE,
    ACT_FREE,
    ACT_UNMAP,
    ACT_CLOSE, /* of an import */
    ACT_ALLOC, /* memory, or another object is made */
    ACT_IMPORT,
    ACT_MAP,
    ACT_RECORD,
    ACT_RESET,
    ACT_WAIT,        /* of a stream */
    ACT_SYNCHRONISE, /* of a thread */
    ACT_SUBMIT,      /* a task without memory: a callback, a delay */
};

#define WORLD_NONE UINT32_MAX

/** Something that was done, by a call of the program. */
struct act {
    uint8_t what;     /* enum act_what */
    uint32_t process; /* world->processes */
    uint32_t place;   /* world->places; WORLD_NONE: unknown */
    uint32_t stream;  /* world->streams; WORLD_NONE: the calling thread did it */
    uint32_t thread;  /* its id */
    uint32_t ordinal; /* of a stream: which of its tasks, from 1 */
    uint32_t range;   /* world->texts: of the program's ranges and marks around it; WORLD_NONE */
    uint64_t
        slot_position; /* of the task in the trace: npud's stream slot << 48 | position + 1, or 0 */
};

enum missing_kind {
    MISSING_NONE, /* the kind of finding has no such line */
    MISSING_WAIT, /* the second's stream must wait for an event that is recorded after the first */
    MISSING_WAIT_EARLIER, /* it waits for one of before the first: `wait`, `record` */
    MISSING_SYNCHRONISE,  /* the second's thread must synchronise the first's stream before */
    MISSING_HOST_EDGE,    /* --check-host=seen: no edge between the threads is seen */
};

enum object_what {
    OBJECT_MEMORY,
    OBJECT_STREAM,
    OBJECT_EVENT,
    OBJECT_IPC_EVENT,
    OBJECT_NOTIFY,
    OBJECT_COUNT_NOTIFY,
    OBJECT_CONTEXT,
    OBJECT_MEMORY_POOL,
    OBJECT_ADDRESSES,
    OBJECT_QUEUE,
    OBJECT_BUFFER,
    OBJECT_WHATS
};

struct finding {
    enum finding_kind kind;
    uint64_t count; /* how often it was seen, 1 at first */
    /*
     * RACE, USE_AFTER_FREE: the earlier and the later act, as the model has executed them.
     * UNINITIALISED: second reads. LEAK: first has made the object. UNFINISHED: first is the last
     * task. EMPTY_WAIT: second waits; first, if any, is the reset. IGNORED: first is the stream's
     * last task, if it is known.
     */
    struct act first, second;
    /* Bytes that both use, or that are read, or that leak; size 0: no memory. */
    struct {
        uint64_t address; /* in second's process, or in first's; 0: it has none there */
        uint64_t size;
        uint64_t offset;     /* in the allocation */
        uint64_t whole;      /* size of the allocation */
        uint8_t kind;        /* enum check_memory_kind (proto/shm/check_file.h); or: */
        bool registered;     /* host memory of the program */
        bool beyond;         /* USE_AFTER_FREE: the bytes are beyond its end */
        struct act made;     /* ACT_ALLOC, or ACT_NONE */
        struct act imported; /* into second's process: ACT_IMPORT, or ACT_NONE */
    } memory;
    struct {
        enum missing_kind kind;
        struct act wait, record;
        enum object_what event; /* OBJECT_EVENT, OBJECT_IPC_EVENT, OBJECT_NOTIFY ... */
        uint64_t event_number;  /* which, of its process: as it is printed */
    } missing;
    enum object_what object; /* LEAK, EMPTY_WAIT */
    uint64_t objects;        /* LEAK: how many of this place */
    int32_t code;            /* IGNORED */
};

/** Findings, each once for its kind, places and acts; in the order in which they were found. */
struct findings {
    struct finding *list;
    size_t n, size;
    void *index; /* by what makes them equal */
};

/** Copies *f, or counts it to one that is the same. False: no memory. */
bool findings_add(struct findings *all, const struct finding *f);
void findings_deinit(struct findings *all);
