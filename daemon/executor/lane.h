/*
 * The lanes: a thread for each, which takes the tasks that npud puts into the lane's ring
 * (proto/shm/executor_shm.h), in their order, and says of each how it has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/executor_shm.h"

/** The files that npud has made. Before all else here; they are never unmapped. */
void lanes_set_up(const struct executor_ring *ring, struct executor_page *page);

/**
 * The lane has a thread from now on. Twice is the same as once. Ends the process if there can be
 * none, because npud would wait for ever. Control thread.
 */
void lane_begin(uint64_t lane);

/** As lane_work_abort(), and tasks up to number `to` are not begun any more. Control thread. */
int32_t lane_abort(uint64_t lane, uint64_t to, uint64_t asker, bool *later);

/** The device is about to end: no lane has a queue there. 0, or an ACL error. Control thread. */
int32_t lanes_leave_device(uint32_t device);
