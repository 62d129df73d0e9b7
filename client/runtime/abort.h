/*
 * Discarding what is queued in streams. A submitter holds the stream's lock, also while it
 * waits for room in a full ring. It is asked to leave first, so that no submission has begun when
 * npud discards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;
struct stream;

/**
 * Lock a stream that is ENDING, against an abort that has begun before: npud may forget it then. A
 * submitter that has its lock leaves.
 */
void abort_lock_ending(struct stream *s);
/** Let go. Submitting is still refused, while s->aborting says so. */
void abort_unlock(struct stream *s);

/** Discard what is queued in a stream whose handle is dead: threads that wait for it go on. */
void abort_discard(struct stream *s, const char *function);

/**
 * The same for a stream that another thread destroys, which had this tag then; that thread does not
 * wait for a callback either. Without locks. If it has ended meanwhile, nothing.
 */
void abort_discard_leaving(struct stream *s, uint32_t tag, const char *function);

/**
 * Discard what is queued: threads that wait for it, and that submit meanwhile, get the code.
 * Nothing in a stopped context. Without locks: tag is what the stream had when it was found. 0,
 * 107017, or the code of a lost npud.
 */
int abort_stream(struct stream *s, uint32_t tag, const char *function, int32_t code);

/**
 * The same for all streams of a device, in steps: from begin (NULL: no memory) to end, submitting
 * calls return 107022.
 */
struct device_abort;
struct device_abort *abort_device_begin(struct session *session, uint32_t device);
/** 0, 107019 at the deadline, or the error of a lost npud. */
int abort_device_run(struct device_abort *a, const char *function, uint64_t deadline);
void abort_device_end(struct device_abort *a);
