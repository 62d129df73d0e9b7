/* Writing the list of a graph: graph_compile.c, and what knows jumps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/task.h"

struct graph;
struct graph_calls;
struct graph_node;

/** What is written. */
struct emit {
    struct task *tasks;
    uint32_t n, size;
    struct graph_calls *calls; /* of the whole graph; NULL: none so far */
    uint32_t next_call;        /* behind the latest one that was written */
    bool loops, notifies, externals;
    bool failed; /* no memory: what follows is of no use */
};

/** Returns its index. */
uint32_t emit_task(struct emit *e, const struct task *task);
/** A jump with the condition of `jump`. Returns its index. */
uint32_t emit_jump(struct emit *e, const struct task *jump, uint32_t target);
/** The jump goes to what is written next. */
void emit_land(struct emit *e, uint32_t jump);

/** A node; first_call: index of the first call of its graph. */
void emit_node(struct emit *e, struct graph_node *node, uint32_t first_call);
/** All nodes of a graph, whose calls become those of the whole. */
void emit_graph(struct emit *e, struct graph *g);

/** What was written becomes the graph's list, and it can be executed. */
int graph_place(struct graph *g, const char *function, struct emit *e);
