/*
 * Devices that are away: with NPUD_TEST_BACKEND in the environment, each npud that a test starts
 * owns devices through a library of theirs. No assertion is another one; what cannot hold is in
 * tests/nested-cannot.
 *
 *   acl     npud in npud: the library is npud's own, and its devices are those of a second npud,
 *           strict, which is started before it
 *   cuda    the library is that which NPUD_TEST_CUDA names by its path: the fake of tests/gpu,
 *           whose devices are as many and as large as the simulated ones would be. Without it, the
 *           driver's, with the devices that are there
 *
 * NPUD_TEST_INNER: options of the inner npud, with spaces between them.
 * NPUD_TEST_EXECUTOR: session or user, who has an executor of their own. NPUD_TEST_DEVICES: so many
 * devices at most, of the fake.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

bool nested_is_on(void);

/**
 * Start the inner npud, if there is one, with what of `args` is about the simulated devices. dir:
 * of the outer one.
 */
void nested_begin(const char *dir, const char *const *args);
/**
 * What npud is told: adds options to argv, of which there are *n so far. In its process, before its
 * program. args: what the test tells it.
 */
void nested_options(const char **argv, int *n, const char *const *args);
/**
 * npud has begun: wait until the executor that it has asked for its devices is gone, of which it
 * has descriptors.
 */
void nested_settle(void);
/** End the inner one. Nothing happens if there is none. */
void nested_end(void);

/* --- for tests in which the inner one has a bad day --- */

/** Of the inner one; 0: there is none. */
pid_t nested_pid(void);
/** Where its sockets are: npud.sock, admin.sock. */
const char *nested_dir(void);
/** End it by SIGKILL, which leaves nothing behind. */
void nested_kill(void);
/** Start another one in its place, of two devices. */
void nested_restart(void);
/** What npuctl does and the harness asks is of the inner one, until nested_leave(). */
void nested_enter(void);
void nested_leave(void);
/** npuctl for the inner one, which goes well: shell words. */
void nested_says(const char *arguments);
/** Executors of the outer one that are ready: their number, up to `most`. */
unsigned nested_executors(pid_t *pids, unsigned most);
