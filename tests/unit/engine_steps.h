/*
 * Engines without threads: each turn is a call. mk/test.mk links such a program (ENGINE_STEPS) with
 * engines whose thread and epoll are these functions.
 */
#pragma once

#include <pthread.h>
#include <sys/epoll.h>

#include "daemon/engine/engine.h"

/* As tests/fuzz/hooks/engine.h has it for engine.c. */
void engine_turn(struct engine *e);
int step_no_thread(pthread_t *thread);
int step_poll(int epoll, struct epoll_event *events, int max);

int step_no_thread(pthread_t *thread)
{
    *thread = 0;
    return 0;
}

int step_poll(int epoll, struct epoll_event *events, int max)
{
    int n = epoll_wait(epoll, events, max, 0);

    return n < 0 ? 0 : n;
}
