#include "daemon/base/cgroup.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of the process in the hierarchy of version 2: of the line "0::PATH". */
static int read_path(const char *root, pid_t pid, char *path)
{
    char name[2 * CGROUP_PATH_MAX], *line = NULL;
    size_t size = 0;
    FILE *f;
    int r;

    path[0] = '\0';
    snprintf(name, sizeof(name), "%s/proc/%d/cgroup", root, (int)pid);
    f = fopen(name, "re");
    if (!f)
        return -errno;
    while (getline(&line, &size, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < CGROUP_PATH_MAX) {
            memcpy(path, line + 3, strlen(line + 3) + 1);
            break;
        }
    }
    r = path[0] || feof(f) ? 0 : -errno;
    free(line);
    fclose(f);
    return r;
}

/*
 * Cut the path behind as many components as the pattern has. False: it has fewer. A path that leads
 * out of npud's namespace of control groups begins with "/..", and says nothing.
 */
static bool cut_path(char *path, const char *pattern)
{
    if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0'))
        return false;
    for (; *pattern; pattern++) {
        if (*pattern != '/')
            continue;
        if (path[0] != '/' || path[1] == '\0')
            return false;
        path += 1 + strcspn(path + 1, "/");
    }
    *path = '\0';
    return true;
}

int cgroup_find_batch_job(const char *root, const char *patterns, pid_t pid,
                          char path[CGROUP_PATH_MAX])
{
    char whole[CGROUP_PATH_MAX], pattern[CGROUP_PATH_MAX];
    size_t length;
    int r = read_path(root, pid, whole);

    for (; r == 0; patterns += length) {
        patterns += strspn(patterns, " \t");
        length = strcspn(patterns, " \t");
        if (length == 0 || length >= sizeof(pattern))
            break;
        memcpy(pattern, patterns, length);
        pattern[length] = '\0';
        memcpy(path, whole, sizeof(whole));
        if (cut_path(path, pattern) && fnmatch(pattern, path, FNM_PATHNAME) == 0)
            return 0;
    }
    path[0] = '\0';
    return r;
}

int cgroup_memory_max(const char *root, const char *path, uint64_t *most)
{
    char name[3 * CGROUP_PATH_MAX], text[32], *end;
    FILE *f;
    int r;

    *most = UINT64_MAX;
    snprintf(name, sizeof(name), "%s/sys/fs/cgroup%s/memory.max", root, path);
    f = fopen(name, "re");
    if (!f)
        return errno == ENOENT ? 0 : -errno; /* the controller is not enabled there */
    r = fgets(text, sizeof(text), f) ? 0 : feof(f) ? -ENODATA : -errno;
    fclose(f);
    if (r < 0)
        return r;
    *most = strtoull(text, &end, 10);
    if (end == text)
        *most = UINT64_MAX; /* "max" */
    return 0;
}
