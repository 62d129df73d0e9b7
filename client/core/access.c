#include "client/core/access.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>

static void explain_group(gid_t gid, char *text, size_t size)
{
    char buffer[4096]; /* a group with more members than this holds goes by its number */
    struct group group, *found = NULL;

    if (getgrgid_r(gid, &group, buffer, sizeof(buffer), &found) == 0 && found)
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
