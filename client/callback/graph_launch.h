/* Executions of graphs come into their streams, with what threads of the process run in them. */
#pragma once

struct graph_calls;
struct stream;
struct task;

/**
 * Submit a TASK_GRAPH with these calls. The stream is locked, and has room for it. 0, or an ACL
 * error. calls NULL: it has none.
 */
int graph_calls_launch(struct stream *s, const char *function, struct graph_calls *calls,
                       struct task *task);

/** What may have to wait, before that: elements that are over go, and the thread is there. */
int graph_calls_prepare(struct stream *s, const char *function, const struct graph_calls *calls);
