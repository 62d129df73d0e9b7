/*
 * The records that are queued in a session's rings, and the tasks that change memory: they tell
 * which stream will complete a wait. Read from shared memory for a report, so all of it is only
 * what the client says; the number of entries looked at is bounded, and they are looked at in
 * slices.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

#define QUEUED_ENTRIES_MAX (1u << 20) /* per report: 64 MiB of rings */
#define QUEUED_ANY         UINT64_MAX

struct queued_record {
    /*
     * TASK_IPC_RECORD, TASK_NOTIFY_RECORD, TASK_COUNT_RECORD, TASK_RECORD that raises a level, or
     * TASK_VALUE_WRITE: whatever writes memory
     */
    uint8_t op;
    uint32_t object;
    uint32_t generation;
    uint64_t number; /* memory: offset of the first byte that is written */
    uint64_t size;   /* memory: bytes */
    uint32_t stream; /* slot */
    uint32_t next;   /* 1 + the one before it in the same bucket; 0: none */
};

/** All zero: not begun, and nothing is known. */
struct queued {
    struct queued_record *record;
    size_t n;
    size_t size;
    uint32_t *bucket; /* 1 + the latest record, by op and object, and number of an IPC record */
    uint32_t n_buckets;
    bool complete; /* false: not everything was looked at */
    /* how far it is */
    uint32_t slot;     /* of the stream that is looked at, ... */
    uint64_t position; /* ... from here on; 0: from what it has done */
};

/**
 * A slice of the scan of the session's rings; *budget entries at most, which are taken off it.
 * Without memory: incomplete. True: it is over; else it goes on with the next call.
 */
bool queued_scan(struct queued *queued, struct session *session, size_t *budget, uint64_t until);
void queued_deinit(struct queued *queued);

/**
 * The next record of an object with that number (QUEUED_ANY: any), after `last`, or the first one
 * (NULL). NULL: there is no other. Of records in one stream that say the same, at least one.
 */
const struct queued_record *queued_next(const struct queued *queued, unsigned op, uint32_t object,
                                        uint64_t number, const struct queued_record *last);
