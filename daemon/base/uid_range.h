/* A range of uids that an administrator has set aside for npud. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Both are in it; 0 and 0: it is empty. */
struct uid_range {
    uint32_t first, last;
};

/**
 * Is the range nobody else's? False after a line in the log: an account that can be listed has one
 * of its uids, or npud itself. May wait for a name service.
 */
bool uid_range_is_free(const struct uid_range *range);
