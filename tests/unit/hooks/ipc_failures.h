/* daemon/core/ipc_failures.c, as ipc_event.c. */
#pragma once

#include "tests/unit/hooks/ipc_event.h"
