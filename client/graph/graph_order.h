/* The order of the tasks of a model that is built by hand: graph_order.c. */
#pragma once

#include <stdbool.h>

struct emit;
struct graph;

/**
 * Write all nodes in the order of the calls, but a record before what waits for it. False, and
 * nothing is written: the model itself decides which of its streams begin, or begins them again.
 */
bool graph_emit_ordered(struct emit *e, struct graph *g);
