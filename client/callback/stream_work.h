/*
 * Work of the library in the order of a stream (struct stream_work): what a thread of the library
 * runs, in the process of the program. Rooms below call it through client/core/upcall.h, which
 * describes what is not described here.
 */
#pragma once

#include <stdint.h>

#include "client/runtime/stream_callbacks.h"

struct session;

int stream_work_launch(struct stream *s, const char *function, struct stream_work *w);
void stream_work_written(struct session *s, const void *address, uint64_t size);
void stream_work_await(struct session *s);
void stream_work_abort_begins(struct session *session);
void stream_work_abort_over(struct session *session);

/**
 * Tasks of the stream were discarded, or it ends: its work that has not begun never runs. Ends the
 * kernel that runs, and waits for what runs, so that the program may free the memory that it uses.
 */
void stream_work_discard(struct stream *s);

/* --- between stream_work.c and kernel_lane.c. Under process->callback_lock --- */

/** After work was asked to end: until it may have, or is to be asked again. */
void stream_work_await_end(void);

/** Put the stream at the end of this list of session->works; NULL: of none. */
void stream_work_list(struct stream *s, struct stream **list);

/**
 * The first work of the stream, which ran, has ended with this code: tell npud, and go on to the
 * next one. Returns it; it is the caller's to free, without the lock.
 */
struct stream_work *stream_work_retire(struct stream *s, int error);
