/*
 * Graphs, which the API calls models (aclmdlRI): what becomes of a capture, and how it is executed.
 * See docs/graphs.md; what records is below (client/capture/capture.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "client/capture/capture.h"

/** The graph that a handle names, with a reference. NULL with *error set: 107017. */
struct graph *graph_find(const char *function, aclmdlRI handle, int *error);

/**
 * What was recorded becomes the list that npud reads, and the graph can be executed. 0, or an ACL
 * error.
 */
int graph_finish(struct graph *g, const char *function);

/** Submit an execution. 0, or an ACL error. */
int graph_execute(struct graph *g, const char *function, aclrtStream stream);

/** Is a nested graph of it being captured? Under captures.lock. */
bool graph_has_open_nested(const struct graph *g);

/** Streams that are bound to it are free again. */
void graph_release_streams(struct graph *g);

/**
 * A checked process: executions write down what this kernel may do in place of what the node was.
 * The caller sees to it that none is being submitted.
 */
void graph_note_kernel(struct graph *g, struct graph_node *node, const struct stream_work *kernel)
    __attribute__((cold));

/** A word that an execution reads, of the stream's device. 0, or 107000. */
struct place;
int graph_find_word(struct stream *s, const char *function, const char *name, const void *address,
                    uint64_t size, struct place *at);

/* --- graph_list.c: memory for lists --- */

/** Room for so many tasks, of the context's device. NULL with *error set. */
struct graph_list *graph_list_new(struct context *c, const char *function, uint32_t tasks,
                                  int *error);
/** npud reads it no more. NULL: nothing to do. */
void graph_list_free(struct graph_list *list);
/** The tasks. */
struct task *graph_list_tasks(const struct graph_list *list);
/** TASK_GRAPH names it. */
void graph_list_name(const struct graph_list *list, struct task *task);

/* --- described in client/core/upcall.h --- */

void graph_end_context(struct context *c);
void graph_free_rest(struct graph *g);
