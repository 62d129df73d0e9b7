/*
 * Engines without threads, for tests of restarts: each turn is a call. mk/test.mk links such a
 * program (ENGINE_STEPS) with engines whose thread and epoll are these functions.
 */
#pragma once

#include "tests/unit/engine_steps.h"
#include "tests/unit/restart.h"

/** The first npud: two devices, the engines of which sleep when there is nothing to do. */
static inline void start_two_devices(void)
{
    restart_start((const char *const[]){"sim.devices=2", "engine.spin_us=0", "stream.depth=64",
                                        "ipc.scope=any", NULL});
}

static inline void turn_engines(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        for (uint32_t d = 0; d < server.devices->n; d++)
            engine_turn(devices_get(server.devices, d)->engine);
}
