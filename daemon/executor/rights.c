#include "daemon/executor/rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Threads count, too: a library has some for each core and each lane. */
#define PROCESSES_MAX 4096u

bool rights_read(struct rights *rights, const char *text)
{
    unsigned long long locked;
    int end = 0;

    if (sscanf(text, "%u:%u:%llu%n", &rights->uid, &rights->group, &locked, &end) != 3)
        return false;
    rights->locked = locked;
    return text[end] == '\0';
}

/* To as much, or as much of it as npud has. It is no boundary where the uid is npud's. */
static void limit(__rlimit_resource_t what, rlim_t most)
{
    struct rlimit r = {most, most};

    if (setrlimit(what, &r) == 0 || getrlimit(what, &r) < 0)
        return;
    if (r.rlim_max > most)
        r.rlim_max = most;
    r.rlim_cur = r.rlim_max;
    setrlimit(what, &r);
}

/* npud's unit protects npud: what works for one user is to be ended before it. */
static void lose_protection(void)
{
    FILE *f = fopen("/proc/self/oom_score_adj", "r+e");
    int adjust = 0;

    if (!f)
        return;
    if (fscanf(f, "%d", &adjust) == 1 && adjust < 0) {
        rewind(f);
        fputs("0\n", f);
    }
    fclose(f);
}

static bool drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    return syscall(SYS_capset, &head, none) == 0;
}

/* The kernel has done as it was told. */
static bool has_uids(uid_t of_others, uid_t uid)
{
    uid_t real, effective, saved;

    errno = EPERM;
    return uid != 0 && of_others != 0 && getresuid(&real, &effective, &saved) == 0 &&
           real == of_others && effective == uid && saved == of_others;
}

/*
 * A process may kill those that have its real or its effective uid, and be killed by those that
 * have its real or its saved one. Nothing else ever runs with the uid above the executor's: so with
 * that for its real and saved one, it kills what is left, and nothing that is left kills it. No
 * capability may be there by then: with it, all processes of the machine would be meant.
 */
static bool change_uid(const struct rights *rights)
{
    uid_t uid = rights->uid, above = uid + 1;
    gid_t group = rights->group;

    if (setgroups(group != 0, &group) < 0 || setresgid(uid, uid, uid) < 0 ||
        setresuid(above, uid, above) < 0 || !drop_capabilities() || !has_uids(above, uid))
        return false;
    kill(-1, SIGKILL); /* all at once, so that none can fork meanwhile; but the caller */
    return setresuid(uid, uid, uid) == 0 && has_uids(uid, uid);
}

bool rights_take(const struct rights *rights, char *why, size_t why_size)
{
    limit(RLIMIT_CORE, 0); /* a program that the library starts could have memory of others */
    limit(RLIMIT_MEMLOCK, rights->locked);
    lose_protection();
    if (rights->uid == 0)
        return true;
    if (!change_uid(rights)) {
        snprintf(why, why_size, "it cannot have uid and gid %u for its own: %s", rights->uid,
                 strerror(errno));
        return false;
    }
    limit(RLIMIT_NPROC, PROCESSES_MAX);
    return true;
}
