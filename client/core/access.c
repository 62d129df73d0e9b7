#include "client/core/access.h"

#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

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

static void explain_group(gid_t gid, char *text, size_t size)
{
    char buffer[4096]; /* a group with more members than this holds goes by its number */
    struct group group, *found = NULL;

    /* An image may have a group of that number, whose members may not connect. */
    if (gid == GROUP_UNMAPPED && in_user_namespace())
        snprintf(text, size,
                 "only root and members of its group on the host may connect, and a container "
                 "without root keeps the groups of its user only if told to (podman run "
                 "--group-add keep-groups)");
    else if (getgrgid_r(gid, &group, buffer, sizeof(buffer), &found) == 0 && found)
        snprintf(text, size,
                 "only root and members of group \"%s\" may connect (usermod -aG %s USER makes "
                 "USER one, from the next login on)",
                 group.gr_name, group.gr_name);
    else
        snprintf(text, size, "only root and members of group %u may connect", (unsigned)gid);
}

void access_explain(const char *path, char *text, size_t size)
{
    int saved = errno;
    struct stat st;

    /* A private npud sits in a directory that only its user may search. */
    if (stat(path, &st) < 0 || !(st.st_mode & S_IWGRP))
        snprintf(text, size, "only root and the user that runs that npud may connect");
    else
        explain_group(st.st_gid, text, size);
    errno = saved;
}
