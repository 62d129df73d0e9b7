/*
 * Messages for a reader that may stall: the journal, a pipe behind stderr, systemd's notification
 * socket. A thread hands them over, so that only this thread waits for the reader. The backlog is
 * bounded; what does not fit is counted, and the count is handed over with the next message. The
 * thread sleeps while there is nothing to deliver.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct outbox;

/** Hands one message over, on the outbox's thread. It may wait. lost: messages dropped since the
 * last call. */
typedef void outbox_deliver(const void *message, size_t size, uint64_t lost);

/**
 * Starts the thread, with all signals blocked but those of a crash. NULL: no memory or no thread.
 * limit: messages that may wait.
 */
struct outbox *outbox_new(outbox_deliver *deliver, unsigned limit);

/** Waits until everything is delivered, but at most `patience_ms`; a thread that its reader still
 * stalls is left behind with its memory for the process's end. NULL is accepted. Returns NULL. */
struct outbox *outbox_free(struct outbox *box, unsigned patience_ms);

/**
 * The process has crashed: hands over what waits, the message on its way included, by `deliver`. In
 * a signal handler, of which the process does not return: no message is delivered or taken
 * afterwards. NULL is accepted.
 */
void outbox_crash(struct outbox *box, void (*deliver)(const void *message, size_t size));

/** Copies a message into the backlog, or counts it as lost. Any thread; never waits for the reader.
 * */
void outbox_put(struct outbox *box, const void *message, size_t size);
