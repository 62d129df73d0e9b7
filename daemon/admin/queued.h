/*
 * The records that are queued in a session's rings, and the tasks that change memory: they tell
 * which stream will complete a wait. Read from shared memory for a report, so all of it is only
 * what the client says; the number of entries looked at is bounded.
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
};

struct queued {
    struct queued_record *record; /* by op, object, number */
    size_t n;
    size_t size;
    bool complete; /* false: not everything was looked at */
};

/**
 * Scan the session's rings; *budget entries at most, which are taken off it. Without memory:
 * incomplete.
 */
void queued_init(struct queued *queued, struct session *session, size_t *budget);
void queued_deinit(struct queued *queued);

/** The records of an object with that number (QUEUED_ANY: all), *n of them; NULL for none. */
const struct queued_record *queued_find(const struct queued *queued, unsigned op, uint32_t object,
                                        uint64_t number, size_t *n);
