/*
 * The kill points by name, and what became of the process that was to die at one. For the tests
 * that try them all.
 */
#pragma once

#include "proto/util/kill_point.h"

static const struct {
    const char *name, *what;
} points[] = {
#define POINT_ROW(name, what) {#name, what},
    KILL_POINTS(POINT_ROW)
#undef POINT_ROW
};

/* How the victim came to its end. */
enum end {
    DIED,     /* at the point */
    FINISHED, /* did not come by it; killed afterwards */
};
