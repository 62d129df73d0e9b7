/*
 * Unmapping what has ended without a call of the program: rings of queues that were destroyed, or
 * that this process has lost all rights to, and segments of shared buffers that npud has taken
 * back.
 *
 * npud frees the memory of such a mapping at once; what is left are a page or two, the mapping, and
 * descriptors of bells. A program that attaches queues, and then only works on others, would
 * collect them. Only the process itself can unmap them, and a process that is idle runs no
 * code of the library: so there is a thread. The session's watcher cannot do it, because it sleeps
 * in poll() on the socket, where a second source takes a descriptor on each side for each session.
 * This thread sleeps on a word of the session page instead (`retired`), which npud changes; it
 * takes no CPU and no descriptor. It is started by the first queue of a session, and ends with it.
 */
#pragma once

struct session;

/**
 * The session has a ring, and may map segments of others from here on: the thread is started,
 * unless it was. Without one (no memory), rings go at later calls on their queue, and segments when
 * further ones are mapped.
 */
void retire_begin(struct session *s);
