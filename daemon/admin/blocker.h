/* Which stream, thread or process blocks each wait: the edges of the graph. Control thread. */
#pragma once

struct wait_graph;

/** Add the edges of all nodes, and note in each wait which process blocks it. 0 or -ENOMEM. */
int blockers_find(struct wait_graph *g);
