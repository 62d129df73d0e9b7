/*
 * Memory of strict devices is mapped without access: a program that uses a device address faults,
 * as on hardware. Where processors have keys for memory, it is open to threads that run blocks
 * (memory_key.h). Elsewhere it is open, to all threads, while a kernel of the session runs:
 * protection is the process's. Nothing here costs a session without strict devices anything.
 */
#pragma once

struct session;

/** A kernel begins, and is over. Any thread, without memory_lock. */
void kernel_access_open(struct session *s);
void kernel_access_close(struct session *s);
