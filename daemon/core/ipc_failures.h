/*
 * The records of an IPC event that have failed, and of which process they were. Engines and the
 * control thread, under the lock of event->completed. It is all kept: a
 * record that has failed never reads as done, whichever npud is asked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipc_event;
struct kept_cell;
struct server;

/**
 * The record has failed. Before a client can see that in the page. False: it was remembered before.
 */
bool ipc_failure_remember(struct ipc_event *event, uint64_t number, int32_t pid, bool unsubmitted);

/** It was completed after all. */
void ipc_failure_unremember(struct ipc_event *event, uint64_t number);

/**
 * Has it failed, or may it have? *pid: its process; 0: unknown. only_unsubmitted: as a record that
 * was never submitted.
 */
bool ipc_failure_find(struct ipc_event *event, uint64_t number, bool only_unsubmitted,
                      int32_t *pid);
/**
 * npud was ended between remembering a failure and its change in the page, or the other way round.
 */
void ipc_failures_finish_restoring(struct ipc_event *event);
