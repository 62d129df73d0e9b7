#include "daemon/supervisor/attempts.h"

#include <string.h>

bool attempts_failed(struct attempts *attempts, uint64_t now_ns)
{
    uint64_t *t = attempts->failed_ns;

    memmove(t + 1, t, (ATTEMPTS_MAX - 1) * sizeof(*t));
    t[0] = now_ns;
    if (t[ATTEMPTS_MAX - 1] == 0 || now_ns - t[ATTEMPTS_MAX - 1] > ATTEMPTS_WINDOW_NS)
        return false;
    memset(t, 0, sizeof(attempts->failed_ns));
    return true;
}
