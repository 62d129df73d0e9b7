#include "client/core/access.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/util/lift_fd.h"

/* Files have this group where theirs is not mapped (/proc/sys/kernel/overflowgid). */
#define GROUP_UNMAPPED 65534

/* Not the one that maps all groups to themselves, in which the host is. */
static bool in_user_namespace(void)
{
    FILE *f = lift_open("/proc/self/gid_map");
    unsigned count = UINT32_MAX;

    if (!f)
        return false;
    if (fscanf(f, "%*u %*u %u", &count) != 1)
        count = 0; /* maps none */
    fclose(f);
    return count != UINT32_MAX;
}

/* An entry that needs more than this has no name here. */
#define NAMES_MAX 4096

struct names {
    char user[128], group[128];
    bool is_member; /* by the files of the system: a login later than that has the group */
};

/* By their numbers, if they have no names. */
static void find_names(uid_t uid, gid_t gid, struct names *names)
{
    struct passwd user, *found = NULL;
    struct group group, *of = NULL;
    char buffer[NAMES_MAX];
    gid_t groups[256];
    int n = sizeof(groups) / sizeof(groups[0]);

    snprintf(names->user, sizeof(names->user), "%u", (unsigned)uid);
    snprintf(names->group, sizeof(names->group), "%u", (unsigned)gid);
    names->is_member = false;
    if (getgrgid_r(gid, &group, buffer, sizeof(buffer), &of) == 0 && of)
        snprintf(names->group, sizeof(names->group), "%s", group.gr_name);
    if (getpwuid_r(uid, &user, buffer, sizeof(buffer), &found) != 0 || !found)
        return;
    snprintf(names->user, sizeof(names->user), "%s", user.pw_name);
    if (getgrouplist(user.pw_name, user.pw_gid, groups, &n) < 0)
        return;
    for (int i = 0; i < n; i++)
        names->is_member |= groups[i] == gid;
}

static void explain_group(gid_t gid, char *text, size_t size)
{
    struct names names;

    /* An image may have a group of that number, whose members may not connect. */
    if (gid == GROUP_UNMAPPED && in_user_namespace()) {
        snprintf(text, size,
                 "only root and members of its group on the host may connect, and a container "
                 "without root keeps the groups of its user only if told to (podman run "
                 "--group-add keep-groups)");
        return;
    }
    find_names(geteuid(), gid, &names);
    if (names.is_member)
        snprintf(text, size,
                 "only root and members of group \"%s\" may connect; %s is one, but this process "
                 "has begun without: log in anew, or use sg %s -c COMMAND",
                 names.group, names.user, names.group);
    else
        snprintf(text, size,
                 "only root and members of group \"%s\" may connect; make %s one (usermod -aG %s "
                 "%s, as root), and log in anew",
                 names.group, names.user, names.group, names.user);
}

/* The first folder on the way to path that this user may not search; false: there is none. */
static bool find_closed_folder(const char *path, char *folder, size_t size)
{
    for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(folder, size, "%.*s", (int)(end - path), path);
        if (faccessat(AT_FDCWD, folder, X_OK, AT_EACCESS) < 0)
            return true;
    }
    return false;
}

static void explain_rights(const char *path, char *text, size_t size)
{
    char folder[256];
    bool closed = find_closed_folder(path, folder, sizeof(folder));
    const char *keeps = closed ? folder : path;
    struct names names;
    struct stat st;

    if (stat(keeps, &st) == 0 && !closed && st.st_mode & S_IWGRP) {
        explain_group(st.st_gid, text, size);
        return;
    }
    /* A private npud sits in a folder that only its user may search. */
    find_names(stat(keeps, &st) == 0 ? st.st_uid : 0, 0, &names);
    snprintf(text, size,
             "only root and the user that runs that npud may connect, by the rights of %s: run the "
             "program as user %s, or with an npud of its own (npu-run PROGRAM)",
             keeps, names.user);
}

bool access_in_container(void)
{
    static const char *const files[] = {"/run/.containerenv", "/.dockerenv",
                                        "/run/systemd/container"};
    static const char *const variables[] = {"container", "KUBERNETES_SERVICE_HOST"};

    /* With units of its own it is a host: the one of systemd-nspawn or LXC, for example. */
    if (access("/run/systemd/system", F_OK) == 0)
        return false;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], F_OK) == 0)
            return true;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (getenv(variables[i]))
            return true;
    return false;
}

static void explain_missing(const char *path, char *text, size_t size)
{
    if (access_in_container())
        snprintf(text, size,
                 "this container has no such socket: start it with the one of the host (podman run "
                 "--device npud/npu=all, after npuctl cdi on the host; or docker run -v %s:%s), or "
                 "run the program under npu-run",
                 path, path);
    else
        snprintf(text, size,
                 "npud is not running: start it (systemctl start npud.socket), or run the program "
                 "under npu-run");
}

static void explain_deaf(const char *path, char *text, size_t size)
{
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        snprintf(text, size, "what is there is no socket, and so not npud's");
    else if (access_in_container())
        snprintf(
            text, size,
            "the npud of this socket has ended: on the host, systemctl restart npud.socket, and "
            "then start the container again, which keeps the socket of its start");
    else
        snprintf(text, size,
                 "the npud of this socket has ended: start it (systemctl restart npud.socket), or "
                 "run the program under npu-run");
}

void access_explain(const char *path, int error, char *text, size_t size)
{
    int saved = errno;

    if (error == EACCES)
        explain_rights(path, text, size);
    else if (error == ENOENT)
        explain_missing(path, text, size);
    else if (error == ECONNREFUSED)
        explain_deaf(path, text, size);
    else if (error == EPROTOTYPE)
        snprintf(text, size, "the socket there is one of another program");
    else {
        errno = error;
        snprintf(text, size, "%m");
    }
    errno = saved;
}
