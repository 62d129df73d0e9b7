/*
 * Inside the engines: what the functions that run one op each share. execute.c has most of the ops; those of a subject with a file of
 * its own are there. Engine threads only, under the lock of the stream's engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/execute.h"

struct stream;

/** An entry that no honest client writes: the task fails, and the journal names the session once. */
enum run_result bad_entry(struct stream *s, const char *what);

/** npud has no memory for what the task needs: it fails. */
enum run_result no_memory(struct stream *s);

/** The task goes on after having been parked: the outcome is the waiter's. */
enum run_result finish_wait(struct stream *s);

/** Nanoseconds that can be added to a time without harm. */
bool valid_timeout(uint64_t ns);

/** Who sees a record, in this process or in another, must find everything before it done. */
void publish_before(struct stream *s);

/** What a parked stream's waiter does when it is fired: its engine goes on with it. */
struct waiter;
void stream_fired(struct waiter *w);
