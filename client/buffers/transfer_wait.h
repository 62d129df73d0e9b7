/* A transfer that has to wait for room, or for a message. */
#pragma once

#include "client/buffers/transfer.h"

/**
 * Wake one that sleeps on the other side of a put, or of a take. One is enough: each message, and
 * each place that becomes free, wakes one. A transfer that leaves without taking it wakes the next
 * one.
 */
void transfer_wait_wake(const struct ring *ring, bool putting);

/** Sleep until there may be something to do: 0, or what the call returns. */
int transfer_wait_sleep(struct transfer *t);

/** The wake-up of what the transfer leaves there may have been its alone: wake the next one. */
void transfer_wait_pass_on(const struct transfer *t);

/** 507014 or 507013: the queue is still full, or empty. */
int transfer_wait_error_time_up(const struct transfer *t);
