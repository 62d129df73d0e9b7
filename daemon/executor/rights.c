#include "daemon/executor/rights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/pidfd.h"
#include "proto/wire/executor_message.h"

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

static bool has_real_uid(int32_t pid, uid_t uid)
{
    char path[32], text[1024] = "";
    const char *found;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (read(fd, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    close(fd);
    found = strstr(text, "\nUid:\t"); /* a name has no line end in there */
    return found && strtoul(found + strlen("\nUid:\t"), NULL, 10) == uid;
}

/* A driver may keep what was killed in the kernel. */
#define END_MS 60000

static bool await_end(int32_t pid, uid_t uid)
{
    struct pollfd p = {.fd = pidfd_open_process(pid), .events = POLLIN};
    /* If it has not, it has ended, and the number is another one's. */
    bool ended = !has_real_uid(pid, uid) || (p.fd >= 0 && poll(&p, 1, END_MS) == 1);

    if (p.fd >= 0)
        close(p.fd);
    return ended;
}

/*
 * What was killed goes back to no program, but ends the system call that it is in: one that stops
 * or kills all that it may would meet who has the uid next. No more come to have the uid meanwhile:
 * the kernel lets nothing fork that was killed. What has ended, and is not reaped, does no harm.
 */
static bool await_ends(uid_t uid)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;
    bool ended = all != NULL;

    while (ended && (entry = readdir(all))) {
        int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);

        ended = pid <= 0 || !has_real_uid(pid, uid) || await_end(pid, uid);
    }
    if (all)
        closedir(all);
    errno = EBUSY;
    return ended;
}

/*
 * It may be late. When npud has ended, and does not know it, the next one may have given the uid to
 * another executor by now.
 */
static bool is_awaited(const struct rights *rights)
{
    struct pollfd p = {.fd = EXECUTOR_SOCKET};

    errno = ESRCH;
    if (rights->parent != 0)
        return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == rights->parent;
    return poll(&p, 1, 0) == 0; /* else it hangs up */
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
        setresuid(above, uid, above) < 0 || !drop_capabilities() || !has_uids(above, uid) ||
        !is_awaited(rights))
        return false;
    kill(-1, SIGKILL); /* all at once, so that none can fork meanwhile; but the caller */
    return await_ends(uid) && setresuid(uid, uid, uid) == 0 && has_uids(uid, uid);
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
