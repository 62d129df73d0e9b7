/* What a handle is that a function cannot use: for sentences. Any thread. */
#pragma once

#include "client/core/handle.h"

/** "an event", by the kind that the handle has; NULL: it is no handle of this library. */
const char *handle_kind_name(const void *handle);

/**
 * It names no live object of the kind that the function needs: records a sentence that says what it
 * is instead, and which function makes such objects. Returns the code.
 */
int handle_error(int code, const char *function, enum handle_kind needed, const void *handle)
    __attribute__((cold));
