/*
 * Event descriptors, the library's side: eventfds of the program that npud writes when a record is
 * complete. A copy of each is kept until npud has written it, so that somebody can when npud ends.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "client/core/lifecycle.h"
#include "proto/shm/doorbell.h"

struct session;

struct event_fds {
    pthread_mutex_t lock; /* taken last, never held during a request */
    int *copy;            /* EVENT_FDS_MAX of them, by number: -1 free; NULL: never used */
    _Atomic bool announced;
};

extern const struct part event_fd_part;
