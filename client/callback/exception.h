/*
 * Exception callbacks: npud writes each failure of a task into a ring of the session page
 * (proto/shm/exception_shm.h); here they are taken out, and the program's callbacks called, by a
 * thread of the library, or by the call that is about to return the failure's code.
 *
 * Callbacks are called one after the other, whichever thread calls them. The thread is made when
 * the first callback is set, or with the session if that comes later, and ends with the session.
 */
#pragma once

#include "client/core/lifecycle.h"
#include "client/runtime/upcall.h" /* exception_drain() */

extern const struct part exception_part;
