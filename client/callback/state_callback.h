/*
 * Callbacks of the program at the coming and going of streams and devices. They run on the thread
 * that brings it about, and may use the API: call these with no lock held.
 */
#pragma once

#include "acl/acl.h"
#include "client/core/lifecycle.h"

struct stream;

/** After a stream was made, or before it goes. */
void stream_state_tell(struct stream *stream, aclrtStreamState state);

/** user_id: as the program numbers its devices. */
void device_state_tell(int32_t user_id, aclrtDeviceState state);

extern const struct part state_callback_part;
