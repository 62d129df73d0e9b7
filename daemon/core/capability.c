#include "daemon/core/capability.h"

#include <stdint.h>

#include "daemon/core/server.h"
#include "daemon/core/session.h"

bool capability_equal(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    unsigned diff = 0;

    for (size_t i = 0; i < n; i++)
        diff |= x[i] ^ y[i];
    return diff == 0;
}

bool capability_in_scope(const struct session *session, uid_t maker)
{
    return session->server->any_uid || maker == session->uid;
}
