/*
 * Inside the engines: what the functions that run one op each share. execute.c has most of the ops;
 * those of a subject with a file of its own are there. Engine threads only, under the lock of the
 * stream's engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/stream.h"

enum run_result {
    RUN_RETIRED, /* the task is finished, well or badly */
    RUN_WORKED,  /* the same, and it took a slice: let others have their turn */
    RUN_AGAIN,   /* unfinished: call again when others have had their turn */
    RUN_WAITS,   /* parked on a list, a timer or both; engine_unpark() or the timer continues it */
};

/**
 * An entry that no honest client writes: the task fails, and the journal names the session once.
 */
enum run_result run_bad_entry(struct stream *s, const char *what);

/** The task fails with code; pid: of the process to blame, or 0. */
enum run_result run_fail(struct stream *s, int32_t code, int32_t pid);

/**
 * Note what the current task waits for and until when, if it is not noted yet: if it is made to
 * look again, or npud has ended since, both stay. Returns the deadline; 0: none.
 */
uint64_t run_note_wait(struct stream *s, uint64_t target, uint64_t timeout_ns, uint64_t now);

/**
 * Join list, for whatever there is to wait for besides: a wait without a limit.
 */
void run_join(struct stream *s, struct waitlist *list, uint64_t target);
/** The same, but for the call of waitlist_add(). group: of the list's waiters, or NULL. */
void run_begin_join(struct stream *s, struct waitlist *list, struct waiter_group *group);

/**
 * Join list. The caller tests the condition after this and calls run_unpark() if it holds already;
 * then, or if that says false, the result is RUN_WAITS. timeout_ns 0: no limit. 0 or -1: no memory.
 */
int run_park(struct stream *s, struct waitlist *list, uint64_t target, uint64_t timeout_ns,
             uint64_t now);

/**
 * The condition came true while the stream was joining. False: another thread has fired it as well,
 * and the inbox brings that news.
 */
bool run_unpark(struct stream *s);

/** The stream goes on after a wait: fail with what the waker said, or retire. */
enum run_result run_finish_wait(struct stream *s);

/**
 * Recovery: the current task has waited when npud ended, and nothing has ended its wait since.
 */
bool run_waits_still(const struct stream *s);

/** Not so long that it would wrap around. */
bool run_valid_timeout(uint64_t ns);

/** What a parked stream's waiter does when it is fired: its engine goes on with it. */
void run_fire_stream(struct waiter *w);
