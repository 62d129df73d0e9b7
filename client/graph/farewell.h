/* Functions of the program that are called when a graph has been destroyed. */
#pragma once

struct farewell;
struct graph;

/** They are the caller's from now on. Under captures.lock. */
struct farewell *farewells_take(struct graph *g);
/** Call them, and free them. Without locks. */
void farewells_call(struct farewell *list);
/** They will not be called. */
void farewells_free(struct graph *g);
