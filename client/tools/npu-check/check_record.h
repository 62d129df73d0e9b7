/* Records as they are in files: whether they are what they say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/check_file.h"

/** Whether the record is of a known kind, within `room` bytes, and has all that its kind has. */
bool record_is_sound(const struct check_record *r, size_t room);
/** Whether it says what a thread has learned: at the same time, it comes after the others. */
bool record_learns(uint8_t kind);
