/*
 * What a process of the soak test does while it waits to be killed: calls of all sorts, so that it
 * dies in any of them. What they return is not looked at. It concerns others through the wild
 * events alone.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "acl/acl.h"

struct wild {
    uint64_t random;
    aclrtStream stream;
    aclrtEvent *event;
    unsigned events;
    const aclrtIpcEventHandle *handle; /* of the events */
    _Atomic uint32_t *steps;           /* counts them; the killer sleeps on it */
};

__attribute__((noreturn)) void wild_run(struct wild *w);
