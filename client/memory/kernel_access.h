/*
 * Memory of strict devices is mapped without access: a program that uses a device address faults,
 * as on hardware. While a kernel of the session runs it is open, for all threads: protection is the
 * process's. Nothing here costs a session without strict devices anything.
 */
#pragma once

struct session;

/** A kernel begins, and is over. Any thread, without memory_lock. */
void kernel_access_open(struct session *s);
void kernel_access_close(struct session *s);
