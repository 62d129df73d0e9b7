/*
 * A redo log: changes of kept memory that happen all, or not at all. They are written down, then
 * committed by a single store, then carried out, then forgotten. What is committed when npud ends
 * is carried out once more by the next one, which is the same as once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kept/layout.h"

enum log_entry_kind {
    LOG_WRITE, /* bytes at a place */
    LOG_FREE,  /* the cell there is free */
    LOG_KEY,   /* the keeper lets go of the descriptor with this key */
};

struct log_entry {
    uint32_t kind;
    uint32_t bytes; /* that follow; a multiple of 8 */
    uint64_t where; /* offset in kept memory, or a key */
    unsigned char data[];
};

/** What is written down so far; nothing is committed. */
struct log {
    struct kept_log_head *head;
    unsigned char *at; /* of the entries */
    size_t used, room;
};

/**
 * Write an entry down. Returns room for `bytes`; log_trim() may make it less. A step that changes
 * more than the log has room for is a fault of npud's own.
 */
struct log_entry *log_add(struct log *log, enum log_entry_kind kind, uint64_t where, size_t bytes);
/** The last entry has only so many bytes. */
void log_trim(struct log *log, struct log_entry *last, size_t bytes);

/** Commit, and carry out. base: of kept memory. The entries stay readable until log_begin(). */
void log_commit(struct log *log, unsigned char *base);
void log_begin(struct log *log);

/** The next entry, from *at (0 first), or NULL. */
const struct log_entry *log_next(const struct log *log, size_t *at);

/** What the npud before had committed is carried out. False: the log is damaged. */
bool log_recover(struct log *log, unsigned char *base);
