/*
 * Callbacks of the program at the coming and going of streams and devices. They run on the thread
 * that brings it about, and may use the API: call these with no lock held.
 */
#pragma once

#include "client/core/lifecycle.h"

extern const struct part state_callback_part;
