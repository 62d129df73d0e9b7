/* Segments that a transfer needs: mapped here, or allowed to be mapped by the other side. */
#pragma once

#include "client/buffers/transfer.h"

/**
 * Map the segment of t->needed. 0: also when npud refuses, as the segment was never allowed or is
 * gone: then what we have seen is no message that we can take, and is noted as refused.
 */
int transfer_map_needed(struct transfer *t);

/** Tell npud that readers of the queue may map the segment of t->needed. 0, or an ACL error. */
int transfer_allow_map_needed(struct transfer *t);

/** The buffer is not the caller's any more: 107000. */
int transfer_map_error_stale(const struct transfer *t);
