/* daemon/engine/idle.c, as engine.c, and without pauses: there is no other thread to wait for. */
#pragma once

#include "tests/fuzz/hooks/engine.h"

#define __builtin_ia32_pause() ((void)0)
