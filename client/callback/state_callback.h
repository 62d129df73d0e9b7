/*
 * Callbacks for the coming and going of streams and devices. Described in client/core/upcall.h,
 * through which rooms below call them.
 */
#pragma once

#include <stdint.h>

#include "acl/acl.h"

struct stream;

void state_callback_stream(struct stream *stream, aclrtStreamState state);
void state_callback_device(int32_t user_id, aclrtDeviceState state);
