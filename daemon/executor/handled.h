/* How many of npud's messages have been handled: tasks may have to wait for one. */
#pragma once

#include <stdint.h>

/** The message of this number is handled, and so are all before it. Control thread. */
void handled_set(uint64_t number);
/** Sleeps until it is, if it is not. Any thread. */
void handled_await(uint64_t number);
