/*
 * Engines without threads: the code of daemon/engine/engine.c, one turn at a time, so that what
 * happens depends on the input alone. Compiled with tests/fuzz/hooks/engine.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;

enum engine_does {
    STEP_WORKED,
    STEP_IDLED, /* looked for work in vain, and will look again */
    STEP_SLEPT, /* would have slept until another thread wakes it */
};

/** One turn. */
enum engine_does engine_step(struct engine *engine);

/** When the first timer of the engine ends; 0: there is none. */
uint64_t engine_deadline(const struct engine *engine);

/** True when the engine remembers nothing of any session. */
/** As if it had been made with this. */
void engine_set_spin(struct engine *e, uint64_t spin_ns);
bool engine_empty(const struct engine *engine);
