/* Task groups of graphs. */
#pragma once

struct graph;
struct stream;

void graph_groups_free(struct graph *g);

/** The stream ends: so does its update. Described in client/core/upcall.h. */
void graph_group_end_stream(struct stream *s);
