/* What others have to know of an execution: its events, and of a checked process, its accesses. */
#pragma once

struct graph;
struct stream;

/* All of these are for a stream that is locked. */

/** Before g is submitted: what a checked process writes down of the execution. */
void graph_write_checks(const struct graph *g, struct stream *s) __attribute__((cold));

/** Likewise: events that it records by a flag are not recorded any more. */
void graph_lower_events(const struct graph *g, struct stream *s);

/** Behind it: events have been recorded, reset and waited for. */
void graph_tell_events(const struct graph *g, struct stream *s);
