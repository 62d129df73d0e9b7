/* daemon/base/waitlist.c with the atomics and the locks of the explorer. */
#pragma once

#include <pthread.h>

#include "tests/order/atomics.h"

#define pthread_mutex_lock(lock)   order_lock(lock)
#define pthread_mutex_unlock(lock) order_unlock(lock)
