/*
 * What a user may hold so much of: the keys of [limits], and what is charged (daemon/core/user.h).
 */
#pragma once

enum resource {
#define RESOURCE(NAME, name, def, help) RESOURCE_##NAME,
#include "daemon/base/resources.inc"
#undef RESOURCE
    RESOURCE_COUNT
};
