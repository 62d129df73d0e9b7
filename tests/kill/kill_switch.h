/*
 * What a test and the killable library share: a page that both the victim and its observer have
 * mapped.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "proto/util/kill_point.h"

struct kill_switch {
    _Atomic uint32_t on;    /* points count from here on */
    _Atomic uint32_t point; /* 1 + where to die; 0: nowhere */
    _Atomic uint32_t pass;  /* at which time of coming by, from 1 */
    _Atomic uint32_t stops; /* it does not die there, but stops until it is told to go on */
    _Atomic uint32_t hits[KILL_POINT_COUNT]; /* how often each was passed while on */
};

/** Exported by the test build of the library only. NULL: no point does anything. */
extern struct kill_switch *aclnpudKillSwitch;
