/*
 * Every stream that is parked on a wait and every client thread that sleeps in the library, what
 * blocks each of them, and the circles among them. Made for one report and thrown away; control
 * thread.
 *
 * A deadlock is certain when no member of the circle can go on without another: streams
 * that wait without a limit, and processes all of whose threads sleep in the library. It is
 * suspected, after a second, when a process in it has more threads than those, or npud cannot count
 * them: one of them may yet submit what is missing.
 */
#pragma once

#include "daemon/admin/deadlock.h"
#include "daemon/admin/wait_graph.h"

/** 0 or -ENOMEM. Freed by waits_deinit() in either case. */
int waits_init(struct wait_graph *g, struct server *server);
void waits_deinit(struct wait_graph *g);
