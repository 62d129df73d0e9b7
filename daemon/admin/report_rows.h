/*
 * Rows of a report for npuctl, and how far it is: what report.c fills its lists with. A report is
 * made in slices, between which clients have their turn. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/buffers/pool.h"
#include "daemon/core/trace.h"

struct row_block;
struct server;
struct session;
struct wait_graph;

/**
 * How far a report is that is made in slices. Objects come and go between them: so it is numbers
 * that say where to go on, and sessions that came after the question are left out.
 */
struct progress {
    uint64_t last;     /* newest session to report */
    uint64_t session;  /* the next object is of this one, or of a later one ... */
    unsigned table;    /* ... in this table, if a report is of more than one kind of objects ... */
    uint32_t slot;     /* ... from this slot on */
    uint32_t executor; /* the last one that was reported */
    struct wait_graph *waits;    /* of a report on waits; NULL: not begun */
    struct pool_count count;     /* of a report on pools */
    struct trace_progress trace; /* of a report on the trace */
};

/**
 * Rows of one slice of a report. Everything is allocated from one list of blocks and freed at once,
 * so filling code reads like assignments. Out of memory: the row is left out.
 */
struct rows {
    struct progress *progress;
    uint64_t until; /* when this slice is over */
    unsigned looks; /* at what gave no row */
    bool more;      /* it ended before the report was complete */
    bool own;       /* only what concerns processes of uid is to be told */
    uid_t uid;
    void **row;
    size_t n;
    size_t size;
    struct row_block *blocks; /* the memory of all of these */
};

/** Free all rows, and what report_rows_copy_text() gave. */
void report_rows_deinit(struct rows *rows);

/** Append a row of that many bytes, zeroed. It belongs to rows. NULL: no memory. */
void *report_rows_add(struct rows *rows, size_t size);

/** Memory that lives as long as rows, zeroed. NULL: there is none. */
void *report_rows_take(struct rows *rows, size_t size);

/**
 * Declares var: a row of the protobuf type, initialised. If memory is out, returns from the
 * function.
 */
#define ADD_ROW(rows, type, init, var)                                                             \
    type *var = report_rows_add(rows, sizeof(type));                                               \
    if (!var)                                                                                      \
        return;                                                                                    \
    *var = (type)init

/** A copy that lives as long as rows; "" when memory is out. */
char *report_rows_copy_text(struct rows *rows, const char *text);

/**
 * Is the time of this slice over? Then rows->more is set. To be asked before each row: only few of
 * the calls look at the clock.
 */
bool report_rows_slice_over(struct rows *rows);

/** The same where a look may give no row. */
bool report_rows_look_over(struct rows *rows);

/** May a report tell of processes of this user? */
static inline bool report_rows_tell(const struct rows *rows, uid_t uid)
{
    return !rows->own || rows->uid == uid;
}

/** The session with this number, or else the next newer one, or NULL. */
struct session *report_rows_session_from(struct server *server, uint64_t id);

/**
 * The next object to report of *sessionp, or of a session after it, in tables[]: offsets in struct
 * session. Begin with *sessionp NULL. NULL when there is none, and when the slice is over.
 */
void *report_rows_next_object(struct server *server, struct rows *rows, const size_t *tables,
                              unsigned n_tables, struct session **sessionp);
