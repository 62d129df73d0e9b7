/* client/core/ring_guard.c with the atomics and the membarrier of the explorer. */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/order/atomics.h"

#define syscall(number, command, ...) ((void)(command), order_membarrier(), 0)
