/* Conditions of graphs: handles, conditional tasks and nested graphs (aclmdlRICond*). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct emit;
struct graph;
struct graph_cond;

/** The tasks of a condition, with its nested graphs. */
void cond_emit(struct emit *e, struct graph_cond *cond);
/** The words that begin with their default value. */
void conds_emit_defaults(struct emit *e, struct graph *g);

/** Nested graph i of it; NULL: it has so many. */
const struct graph *cond_nested(const struct graph_cond *cond, uint32_t i);

/** A jump that looks at its word. */
struct task cond_test(const struct graph_cond *cond);

/** Free the conditions of a graph, and their nested graphs. */
void conds_free(struct graph *g);
