/* What the kernel says of a process or thread in /proc/PID/stat and /proc/PID/task/TID/stat. */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/**
 * The fields behind the name, the state first, as text in buf: "S 1 ...", or what of them has room
 * there. NULL: there is no such process or thread, or it may not be looked at.
 */
static inline const char *proc_stat_read(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "re");
    const char *end;

    if (!f)
        return NULL;
    buf[fread(buf, 1, size - 1, f)] = '\0';
    fclose(f);
    /* The name, in parentheses, may hold any byte. */
    end = strrchr(buf, ')');
    return end && end[1] == ' ' ? end + 2 : NULL;
}
