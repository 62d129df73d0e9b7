/* daemon/engine/engine.c and idle.c without threads and without sleep. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>

int step_no_thread(pthread_t *thread);
/** Looks once, and notes whether the engine would have slept. */
int step_poll(int epoll, struct epoll_event *events, int max);

#define pthread_create(thread, attr, main, arg) ((void)(main), step_no_thread(thread))
#define sem_wait(sem)                           ((void)(sem), 0) /* for that thread */
#define epoll_pwait2(epoll, events, max, timeout, sigmask)                                         \
    ((void)(timeout), step_poll(epoll, events, max))

struct engine;
/** One turn of an engine in the calling thread. */
void engine_turn(struct engine *e);
#define NPUD_ENGINE_TURN /* engine.c defines it */
