/*
 * Event descriptors, the library's side: eventfds of the program that npud writes when a record is
 * complete. A copy of each is kept until npud has written it, so that somebody can when npud ends.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "proto/shm/doorbell.h"

struct session;

struct event_fds {
    pthread_mutex_t lock; /* taken last, never held during a request */
    int *copy;            /* EVENT_FDS_MAX of them, by number: -1 free; NULL: never used */
    _Atomic bool announced;
};

/** A new session. */
void event_fds_init(struct event_fds *fds);
/**
 * npud is gone: write what it has not. Who waits for a descriptor finds out that way. Any thread.
 */
void event_fds_abort(struct session *session);
/** The session goes, or, in a forked child, is not ours: close the copies. */
void event_fds_deinit(struct event_fds *fds);
