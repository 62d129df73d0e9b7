/*
 * A pair of well-behaved processes, to be put beside hostile ones: IPC events to and fro, both
 * asleep in between, and copies whose results are checked. Also what they took for it, by phases,
 * so that one load on the machine can be compared with another.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl.h"

enum phase {
    PHASE_NONE,     /* works, but is not measured */
    PHASE_COMPARED, /* beside an honest load */
    PHASE_HOSTILE,
    PHASES,
};

enum measured {
    /* an event to the other process and one back, through an engine and two sleeps */
    MEASURED_ROUND,
    MEASURED_WORK,    /* copy to the device and back on a stream, and synchronise */
    MEASURED_REQUEST, /* create and destroy a stream */
    MEASURED_KINDS,
};

/**
 * Start both and wait until they have begun. *spoiled is the handle of an event that both have open
 * and do not use. Fork before the library is used.
 */
void victims_start(aclrtIpcEventHandle *spoiled);
void victims_phase(enum phase phase);
/** Let them work for so long; less when one of them, or npud, dies. Asserts that none has. */
void victims_work(uint32_t ms);
/** How many of a kind they have completed in this phase so far. */
uint32_t victims_count(enum phase phase, enum measured kind);
/** Nanoseconds: this per mille of the sorted times; 500 is the median. 0: nothing measured. */
uint64_t victims_time(enum phase phase, enum measured kind, unsigned per_mille);
/** Start measuring anew. Between phases (PHASE_NONE). */
void victims_forget_times(void);
/** Both leave; asserts that every result was right. */
void victims_end(void);

/**
 * Two more threads of the first of them wait for `spoiled` without limit, over and over: one in a
 * synchronise call, one through a stream. begin = false returns when both have got out of that,
 * whatever came of it, and asserts that they do.
 */
void victims_wait_for_spoiled(bool begin);
