/*
 * Chaos: with NPUD_CHAOS=MS in the environment, each npud that a test starts comes back
 * (npud_start_restartable()), and a process of its own, the killer, ends its server with SIGKILL,
 * on average every MS milliseconds, at random times. Tests assert what they always assert.
 *
 * A test that cannot hold under chaos says so, with its reason: need_one_server() (need.h) for
 * itself, or the line "Skipped under chaos: ..." in the head comment of its program.
 *
 * The killer waits on the server's pidfd, too: a server that ends by itself is a fault, which the
 * supervisor would hide, and the test fails at its end.
 *
 * NPUD_CHAOS_SEED repeats the times of a run, as far as the machine does.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

bool chaos_is_on(void);
/** The killer begins with the server of this supervisor. At most one at a time in a process. */
void chaos_begin(pid_t supervisor);
/**
 * The killer is gone when this returns: true, if there was one. Asserts that no server has ended by
 * itself.
 */
bool chaos_end(void);
