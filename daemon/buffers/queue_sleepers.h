/*
 * Threads that sleep on a ring that has ended. npud wakes a few of them at once, and a thread of
 * its own the rest (base/waker.h). The record of the ring is gone by then: so that a later npud
 * wakes those that are left, the files of the ring have a record of their own until all are awake.
 * Control thread.
 */
#pragma once

#include <stdbool.h>

struct kept_cell;
struct queue_ring;
struct queue_sleepers;
struct server;

/**
 * The ring has ended, and its sleepers were woken, but for those that are left to the thread; it is
 * freed next. Without memory for what is kept, all are woken now. all: the list of what is kept.
 */
void queue_sleepers_keep(struct server *server, struct queue_sleepers **all,
                         const struct queue_ring *ring);

/** npud ends: the thread wakes all before it ends. */
void queue_sleepers_deinit(struct queue_sleepers **all);
