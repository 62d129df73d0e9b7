/*
 * Graphs under way: a stream executes TASK_GRAPH by taking its tasks from the list that this names,
 * in place of its ring (proto/shm/graph_shm.h, docs/graphs.md). Engine threads only, under the lock
 * of the stream's engine, but for what says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;
struct task;

/** The row of TASK_GRAPH: the graph begins when this task retires (graph_advance()). */
enum run_result graph_run(struct stream *s, uint64_t now);
/** It fails, or is passed over: so is all of its list. */
void graph_fail(struct stream *s);

/** The row of TASK_JUMP. */
enum run_result graph_run_jump(struct stream *s, uint64_t now);

/** In place of an entry of the ring: copy the next task of the list. The stream is in a graph. */
void graph_fetch(struct stream *s);

/**
 * The current task of a stream that has a graph retires: on to the next task of the list, or into
 * the list, or out of it. In place of position + 1.
 */
void graph_advance(struct stream *s);

/** Recovery: TASK_GRAPH is at the head; or a graph is under way. */
void graph_restore(struct stream *s);
void graph_restore_under_way(struct stream *s);
