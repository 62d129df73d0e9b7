/*
 * The threads that run kernels, in the order of their streams (struct stream_work of the kind
 * STREAM_WORK_KERNEL). A kernel may take as long as it likes and wait for kernels of other streams,
 * so each one that runs has a thread; threads are made when they are needed, and few are kept.
 *
 * One thread, the watcher, sleeps until npud says that a stream has come to a kernel. It takes the
 * kernel and runs it by itself, which spares a launch the way over a second thread. If other
 * streams have kernels to come, another thread becomes the watcher first; else the next launch
 * makes one. So one stream that launches kernel after kernel uses one thread.
 *
 * All of it is guarded by process->callback_lock.
 */
#pragma once

struct session;

/** At least one thread is there. 0, or an error number. */
int kernel_lane_start(struct session *session);

/** A stream may have got a kernel to come: there is a watcher, unless no thread can be made. */
void kernel_lane_watch(struct session *session);

/** Wake the watcher. The lock is not needed. */
void kernel_lane_wake(struct session *session);
