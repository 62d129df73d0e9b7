/*
 * npud in npud: with NPUD_TEST_BACKEND=acl in the environment, each npud that a test starts owns
 * devices through a vendor's library: npud's own, whose devices are those of a second npud, strict,
 * which is started before it. No assertion is another one; what cannot hold is in
 * tests/nested-cannot.
 */
#pragma once

#include <stdbool.h>

bool nested_is_on(void);

/**
 * Start the inner npud, with what of `args` is about the simulated devices. dir: of the outer one.
 */
void nested_begin(const char *dir, const char *const *args);
/**
 * What the outer one is told: adds options to argv, of which there are *n so far. In its process,
 * before its program.
 */
void nested_options(const char **argv, int *n);
/** End the inner one. Nothing happens if there is none. */
void nested_end(void);
