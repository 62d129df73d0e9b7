/*
 * What a test and the killable npud share: a file that the test makes, and whose path is in
 * NPUD_KILL_HERE. All servers of an npud map it, and count in it together, so that the n-th pass of
 * a place comes once, whichever of them makes it: the server that does it dies, and the next ones
 * go on.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/base/kill_here.h"

struct kill_here_switch {
    _Atomic uint32_t on;    /* places count from here on */
    _Atomic uint32_t place; /* 1 + where to die; 0: nowhere */
    _Atomic uint32_t pass;  /* at which pass of it, from 1 */
    _Atomic uint32_t again; /* and so many passes later once more; 0: not */
    /*
     * 1 + where to die before that, at the first pass: passes of `place` count from then on. 0:
     * nowhere
     */
    _Atomic uint32_t after;
    _Atomic uint32_t signal;             /* of a fault of the thread; 0: SIGKILL */
    _Atomic uint32_t after_died, passes; /* of `place` */
    _Atomic uint32_t died;               /* so often, but for `after` */
    _Atomic uint32_t hits[KILL_PLACE_COUNT];
};
