/* Failures of tasks, seen from the host: abort, and the ids of tasks. */
#pragma once

#include "client/core/lifecycle.h"

extern const struct part failure_part;
