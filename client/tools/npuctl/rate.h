/* How fast things go: what npud has counted between two reports. */
#pragma once

#include <stdint.h>

#include "proto/wire/npud.pb-c.h"

/**
 * Fill in the rates per second of `after`, which was made ns after `before`. What is new in it has
 * none yet.
 */
void rate_fill(Npud__Report *after, const Npud__Report *before, uint64_t ns);
