/* What an engine does when there is no task: it spins for a while, then sleeps. Engine thread. */
#pragma once

#include <stdint.h>

struct engine;

/** There was nothing to do in this turn. */
void idle_turn(struct engine *e, uint64_t now);

/** Give the place among the engines that spin to another. */
void idle_stop_spinning(struct engine *e);
