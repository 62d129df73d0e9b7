/*
 * Whose fault it is that npud has ended (docs/restart.md, "Whose fault"): each thread notes the
 * session whose request or tasks it has in hand (kept_in_hand()), and the next npud looks at that
 * before it does anything else.
 *
 * The signal handler of a thread that crashes notes the thread. Only what leaves no note is taken
 * from the supervisor: a hang, and a crash whose handler could not run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How the last npud that has served has ended, as the supervisor knows. */
enum blame_end {
    BLAME_KILLED, /* SIGKILL, from outside or by the kernel */
    BLAME_CRASHED,
    BLAME_HUNG,
};

/* --- the npud that serves --- */

/** This thread is the one with that number (kept_in_hand_of()). At its start. */
void blame_thread_is(unsigned who);
/**
 * This thread ends npud. outside: by a signal that another process has sent; else by a fault of its
 * own. The first call counts. Safe in a handler of signals.
 */
void blame_note_fault(bool outside);
/** So many of the engines answer, and the next one does not. UINT32_MAX: all do. Control thread. */
void blame_note_stuck(uint32_t engine);
/** The supervisor has been told that this npud serves: from now on it says how this one ends. */
void blame_note_serving(void);

/* --- the next npud --- */

/**
 * Decide whose fault the end was. Right after kept_begin() or kept_begin_from(): faults of this
 * npud are noted from here on.
 */
void blame_begin(enum blame_end end);
/** The number of the death that is looked at, never 0: the same until blame_end(). */
uint16_t blame_death(void);
/** Call fn for each session that a thread at fault had in hand: once for each such thread. */
void blame_each(void (*fn)(void *arg, uint64_t session, unsigned who, uint64_t what), void *arg);
/** What fn has changed is certain: nothing is in hand any more. */
void blame_end(void);
