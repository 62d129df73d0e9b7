/* Reports that npud makes for each user, of the processes of this user alone (OwnWaits). */
#pragma once

#include <stdbool.h>

#include "proto/wire/npud.pb-c.h"

static inline bool topic_is_own(unsigned topic)
{
    return topic == NPUD__ADMIN_REQUEST__TOPIC__WAITS ||
           topic == NPUD__ADMIN_REQUEST__TOPIC__SESSIONS ||
           topic == NPUD__ADMIN_REQUEST__TOPIC__STREAMS ||
           topic == NPUD__ADMIN_REQUEST__TOPIC__MEMORY;
}
