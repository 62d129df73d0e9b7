/* daemon/engine/idle.c, as engine.c. */
#pragma once

#include "tests/fuzz/hooks/engine.h"
