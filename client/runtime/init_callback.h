/* Callbacks of the program at aclInit and aclFinalize. They may use the API: no lock is held. */
#pragma once

#include <stdbool.h>

/**
 * aclInit has succeeded so far: calls the callbacks, which get a copy of this text. 0, or what the
 * first one that failed has returned: then aclInit fails, and init_callback_end() follows.
 */
int init_callback_begin(const char *text);

/** aclFinalize has ended the use, or aclInit has failed: the next aclInit calls them again. */
void init_callback_end(void);

/** aclFinalize is about to end the use. 0, or what the first one that failed has returned. */
int init_callback_finalize(const char *function);

/** The calling thread is in a callback of init_callback_finalize(). */
extern __thread bool init_callback_finalizing;
