/*
 * The tasks of notifies: how streams record them and wait for them. Which session has a notify is
 * in core/notify.h. Engine threads only, but for notify_give_back() and notify_count_drop().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct server;
struct stream;

enum run_result notify_run_record(struct stream *s, uint64_t now);
enum run_result notify_run_wait(struct stream *s, uint64_t now);
enum run_result notify_run_count_record(struct stream *s, uint64_t now);
enum run_result notify_run_count_wait(struct stream *s, uint64_t now);

/** stream->count_change: the task waits until the change before it is over. */
#define COUNT_TURN UINT64_MAX

/**
 * Go on with the look at waits, of what the current task has changed, or of the change before it.
 * True: that is over. Like value_tell().
 */
bool notify_count_tell(struct stream *stream);

/**
 * The task at the head does not go on: no stream is left waiting for what it has changed, or was to
 * change. False: to be called again.
 */
bool notify_count_give_up(struct stream *stream);

/** Control thread: the same of a task that is dropped. The look at waits goes on in steps. */
void notify_count_drop(struct stream *stream);

/**
 * A stream that no record can let go any more is dropped before its wait was retired: the record
 * goes to the next one.
 */
void notify_give_back(struct stream *stream);

/**
 * Recovery, before an engine runs: the stream's part in what a notify was at. True: it is parked in
 * its wait again, in the order in which waits came.
 */
bool notify_rejoin_wait(struct stream *stream);
bool notify_rejoin_count_wait(struct stream *stream);
bool notify_rejoin_count_record(struct stream *stream);
/** Recovery: looks that were under way go on, also those of streams that are gone. */
void notifies_look_again(struct server *server);
