/*
 * Records of IPC events, and a log in which each of them is accounted for.
 *
 * One thread at a time records an event. Its records are numbered; before each it writes, in its
 * stream, a content that follows from the number into memory that all processes share. The log
 * tells what was tried and which records may fail: those of threads that were to die, to lose their
 * session, or that aborted their stream.
 */
#pragma once

#include "stage.h"

#define EVENTS  4u
#define REGIONS 64u   /* of content, for each event */
#define REGION  256u  /* bytes */
#define WINDOW  4096u /* records of which the recorder is known */

struct event_log {
    aclrtIpcEventHandle handle;
    _Atomic uint64_t tried;            /* number of the record that was begun last */
    _Atomic uint64_t done;             /* ... whose call succeeded last */
    _Atomic uint64_t aborted;          /* records up to this one may have been discarded */
    _Atomic uint32_t recorder[WINDOW]; /* life, by number */
};

struct records {
    _Atomic uint32_t phase;
    _Atomic uint64_t failed_waits, verified, aborts;
    struct event_log event[EVENTS];
    uint8_t region[EVENTS][REGIONS][REGION];
    _Atomic uint32_t doomed[LIVES]; /* its records may fail */
};
extern struct records *records;

enum record_part {
    RECORDS,
    WAITS_IN_HOST,
    WAITS_IN_STREAM,
    WAITS_IN_ANY_WAY,
    RECORD_PARTS,
};
extern const char *const record_part_name[RECORD_PARTS];

struct record_cast {
    enum record_part part;
    uint32_t event; /* of a recorder */
};
extern struct record_cast record_cast_next;

int records_main(struct player *p);

/** In the process that owns the events: make them, and tell all how to open them. */
void records_make(void);
/** In another one: open all events. */
void records_open(void);
