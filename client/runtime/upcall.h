/*
 * What runtime calls in the rooms above it; see also client/runtime/stream_callbacks.h. The
 * contract between them: the modules that are named here implement it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

struct memory;
struct session;
struct stream;
struct stream_ctrl;

/* --- client/memory/alloc.c --- */

/** Allocations taken out of the table, not freed yet. */
struct memory_list {
    bool taken; /* there may have been none */
    struct memory *first;
};

/**
 * The last context on device is going: take everything that was allocated there out of the table,
 * at this moment, so that what another thread allocates after a new aclrtSetDevice is its own.
 */
struct memory_list memory_take_device(struct session *s, uint32_t device);
/** Is there memory of the device, whatever device it goes with? */
bool memory_has_of_device(struct session *s, uint32_t device);
/** Free what was taken, if it was, and what the library keeps for coming copies. */
void memory_release(struct session *s, const char *function, struct memory_list list);

/* --- client/callback/exception.c --- */

/**
 * An error is about to be returned: all callbacks for what npud has told so far have run when this
 * returns. Without locks.
 */
void exception_drain(struct session *s);

/* --- client/callback/stream_work.c --- */

/** Work of the library in the order of a stream. The first member of what it belongs to. */
struct stream_work {
    struct stream_work *next;
    int (*run)(struct stream_work *w); /* without locks; it waits for nothing that streams do */
    /* The word of 8 bytes that run() looks at, and may return STREAM_WORK_AGAIN; else NULL */
    const void *awaits;
    uint64_t ordinal;
    bool let_go; /* by the abort of a device: begins anew when no abort is on its way */
    /* After STREAM_WORK_AGAIN: */
    uint64_t again_ns; /* when it runs again */
    uint64_t pause_ns; /* the last one */
};

/** What run() returns if the word is not as it shall be: it is called again after a while. */
#define STREAM_WORK_AGAIN (-1)

/**
 * When the stream gets here, w->run(w) is called by a thread of the library, and the stream goes on
 * when that has returned: 0, or an ACL error with which the task fails. Then w is freed with
 * free(), also if its task is discarded. The stream is locked. Not 0: an ACL error, and w is still
 * the caller's.
 */
int stream_work_launch(struct stream *s, const char *function, struct stream_work *w);

/** These bytes were written: work that waits for one of their words runs at once. Any locks. */
void stream_work_written(struct session *s, const void *address, uint64_t size);

/** If any work of the session runs at this moment, wait until it has returned. */
void stream_work_await(struct session *s);

/* --- client/callback/state_callback.c; without locks --- */

/** After a stream was made, or before it goes. */
void state_callback_stream(struct stream *stream, aclrtStreamState state);

/** user_id: as the program numbers its devices. */
void state_callback_device(int32_t user_id, aclrtDeviceState state);

/* --- client/event/event.c --- */

/**
 * The positions after `from`, up to `to`, of the stream with this control block are discarded: an
 * event whose latest record is one of them looks as never recorded. Takes session->lock.
 */
void event_forget_records(struct session *s, const struct stream_ctrl *ctrl, uint64_t from,
                          uint64_t to);
