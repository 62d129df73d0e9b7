/* Labels: places in streams that are bound to a model, and jumps to them. */
#pragma once

struct emit;
struct graph;
struct graph_node;

/** The jumps of an aclrtSwitchLabelByIndex(). */
void label_emit_switch(struct emit *e, struct graph_node *node);
/** All is written: jumps to labels get their targets. */
void graph_aim_labels(struct emit *e, struct graph *g);
