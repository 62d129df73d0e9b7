/*
 * Notifies and count notifies, the library's side: names of what npud has. Their state is npud's
 * own; what the library does is to check, to ask and to submit tasks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/core/handle.h"
#include "client/runtime/session.h"
#include "proto/util/slots.h"
#include "proto/shm/task.h"

struct notify {
    /* in session->notifies: the handle. Not npud's slot. Constant while it lives */
    struct slot slot;
    struct session *session;
    enum handle_kind kind; /* HANDLE_NOTIFY, HANDLE_COUNT_NOTIFY */
    uint32_t device;
    uint32_t remote;
    uint32_t remote_generation;
    uint32_t id;
};

/**
 * A copy of the notify that handle names. Needs a context. 0, or 107017, 107002, or the error of a
 * forked child or a lost npud.
 */
int notify_get(const char *function, enum handle_kind kind, void *handle, struct notify *copy);

/** Make one on the current device. 0 with *handle set. */
int notify_create(const char *function, enum handle_kind kind, void **handle);
int notify_destroy(const char *function, enum handle_kind kind, void *handle);

/**
 * Submit a task on a notify to stream; op and parameters are set. same_device: refuse (107000) when
 * the current device is another than the notify's.
 */
int notify_submit(const char *function, enum handle_kind kind, void *handle, void *stream,
                  struct task *task, bool same_device);

/**
 * What a task carries for a limit in seconds as these functions take it: 0 and UINT32_MAX are none.
 */
uint64_t notify_timeout_ns(uint32_t seconds);
