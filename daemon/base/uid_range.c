#include "daemon/base/uid_range.h"

#include <pwd.h>
#include <stddef.h>
#include <unistd.h>

#include "daemon/base/log.h"

static bool has(const struct uid_range *range, uid_t uid)
{
    return uid >= range->first && uid <= range->last;
}

bool uid_range_is_free(const struct uid_range *range)
{
    const struct passwd *p;

    if (range->first == 0)
        return true;
    setpwent();
    do
        p = getpwent();
    while (p && !has(range, p->pw_uid));
    if (p)
        log_error("uids %u-%u: %s has uid %u, and npud ends what runs with these", range->first,
                  range->last, p->pw_name, (unsigned)p->pw_uid);
    else if (has(range, geteuid()))
        log_error("uids %u-%u: npud itself has uid %u", range->first, range->last,
                  (unsigned)geteuid());
    endpwent();
    return !p && !has(range, geteuid());
}
