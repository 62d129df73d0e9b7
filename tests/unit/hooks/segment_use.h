/* daemon/buffers/segment_use.c for test_mbuf_steps. */
#pragma once

#include "tests/unit/hooks/sweep.h"
