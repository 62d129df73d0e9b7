/*
 * Uids that executors have of their own, of [vendor] uids. A place has two: the executor's, and the
 * one above it, by which what the executor leaves is killed (daemon/executor/rights.c). The first
 * place is that of npud's own executor, which asks what devices there are: an npud that begins does
 * not know yet which others are in use.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/backend/executors.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"

/* Has npud this capability, and has a program that it starts? */
static bool hands_on(unsigned capability)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct own[2] = {{0}};

    if (syscall(SYS_capget, &head, own) < 0 ||
        !(own[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)))
        return false;
    return geteuid() == 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 1;
}

static bool may_change_uids(void)
{
    return hands_on(CAP_SETUID) && hands_on(CAP_SETGID) && hands_on(CAP_KILL);
}

static uint32_t find_group(const char *name)
{
    const struct group *g = name[0] ? getgrnam(name) : NULL;

    return g ? g->gr_gid : 0;
}

static int make_places(struct executors *all, const struct uid_range *range)
{
    uint32_t n = (range->last - range->first + 1) / 2;

    all->uids = (struct executor_uids){.first = range->first,
                                       .n = n,
                                       .group = find_group(all->server->config->vendor_group),
                                       .next = 1,
                                       .taken = calloc(n, sizeof(bool))};
    if (!all->uids.taken)
        return -ENOMEM;
    all->uids.taken[0] = true;
    return 0;
}

/* What npud has by its unit, programs that it starts have, too: no executor needs it then. */
int executor_uids_begin(struct executors *all)
{
    const struct uid_range *range = &all->server->config->vendor_uids;

    if (range->first != 0 && may_change_uids())
        return make_places(all, range);
    if (range->first != 0)
        log_warning("[vendor] uids: npud may not change uids (CAP_SETUID, CAP_SETGID, CAP_KILL): "
                    "executors have its own");
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return 0;
}

void executor_uids_end(struct executors *all)
{
    free(all->uids.taken);
    all->uids = (struct executor_uids){0};
}

static uint32_t find_place(const struct executor_uids *uids)
{
    const bool *found = memchr(uids->taken + uids->next, false, uids->n - uids->next);

    if (!found)
        found = memchr(uids->taken, false, uids->next);
    return found ? (uint32_t)(found - uids->taken) : 0;
}

int executor_uid_take(struct executor *x, bool probe)
{
    struct executor_uids *uids = &x->all->uids;
    uint32_t place = uids->n == 0 || probe ? 0 : find_place(uids);

    if (uids->n == 0)
        return 0;
    if (place == 0 && !probe)
        return -EUSERS;
    uids->taken[place] = true;
    x->own_uid = uids->first + 2 * place;
    if (!probe)
        uids->next = (place + 1) % uids->n;
    return 0;
}

/* NULL: it is not of the range, which may be another one than it was. */
static bool *find_taken(struct executor_uids *uids, uint32_t uid)
{
    uint32_t place = (uid - uids->first) / 2;

    return uid >= uids->first && place > 0 && place < uids->n ? &uids->taken[place] : NULL;
}

void executor_uid_again(struct executors *all, uint32_t uid)
{
    bool *taken = find_taken(&all->uids, uid);

    if (taken)
        *taken = true;
}

void executor_uid_free(struct executors *all, uint32_t uid)
{
    bool *taken = find_taken(&all->uids, uid);

    if (taken)
        *taken = false;
}
