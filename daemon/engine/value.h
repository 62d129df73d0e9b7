/*
 * Words of device memory that streams wait for (TASK_VALUE_WAIT) and write (TASK_VALUE_WRITE).
 *
 * A stream whose word is not yet as it wants it is parked on the allocation's list, in the order of
 * the words. Whatever changes memory in npud (value writes, copies, sets, reductions; kernels: all
 * of it) goes through that part of the list afterwards, and lets those go on whose condition holds
 * then; the library says MemoryWritten after it has written memory by itself. A word that a client
 * changes in any other way wakes no stream, as on hardware.
 *
 * Order: a waiter joins the list, then looks at the word; a writer changes the word, then looks at
 * the list (waitlist.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/run.h"

struct backend_space;
struct mem;
struct session;
struct stream;

enum run_result value_run_write(struct stream *s, uint64_t now);
enum run_result value_run_wait(struct stream *s, uint64_t now);

/**
 * Engine: the current task has changed these bytes of m, its destination. Goes through some of the
 * waiters. True: through with all of them, or there were none; else value_tell() goes on.
 */
bool value_changed(struct stream *s, struct mem *m, uint64_t offset, uint64_t size);
/**
 * The same, of bytes behind those that the task has changed so far, in an end of the task that has
 * value_tell() or value_drop() behind it.
 */
void value_note(struct stream *s, uint64_t offset, uint64_t size);
/** Engine: go through some more of the waiters. As value_changed(). */
bool value_tell(struct stream *s);

/**
 * Engine: a kernel of the current task is over, well or not: it may have changed any word of memory
 * of the session. As value_changed().
 */
bool value_launched(struct stream *s);

/**
 * Control thread: the client has changed these bytes. Of many waiters, which other sessions may
 * have, some are told in later steps.
 */
void value_written(struct mem *mem, uint64_t offset, uint64_t size);

/**
 * The stream has waited for a word when npud ended: it does so again before any engine runs, so
 * that the end of another session, which may come first, finds it waiting. False: its engine is to
 * look at its task.
 */
bool value_rejoin_wait(struct stream *s);

/* The stream does not count as waiting any more: task_row.h. */
bool value_give_up_wait(struct stream *s);
void value_drop_wait(struct stream *s);
/**
 * Control thread: the current task, which may have changed memory, is dropped. Of many waiters some
 * are told at once, and the others in steps of the session.
 */
void value_drop(struct stream *s);
/** Control thread: backend_landed() of sessions. Who waits for words of its memory looks again. */
void value_landed(struct backend_space **space);
/** Control thread: the session ends. */
void value_forget_rests(struct session *session);
