/*
 * Threads that run blocks beside the thread of a kernel's lane. They belong to the process: kernels
 * of all streams and sessions share them. Threads without work stay.
 */
#pragma once

#include <stdbool.h>

/** Have a thread call run(arg), which may end it. False: there is none, and none can be made. */
bool block_pool_start(void (*run)(void *arg), void *arg);
