/* What npud asks of an executor over its socket. */
#pragma once

#include <stdint.h>

/**
 * Serve npud until it is gone: the process ends then. code: 0, or the error with which the library
 * could not be loaded, and why, in words: npud is told when it says hello.
 */
_Noreturn void serve(int32_t code, const char *why);
