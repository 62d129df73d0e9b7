/*
 * Event descriptors, the library's side: eventfds of the program that npud writes when a record is
 * complete. A copy of each is kept until npud has written it, so that the library can write it when
 * npud ends.
 */
#pragma once

#include "client/core/lifecycle.h"

extern const struct part event_fd_part;
