#include "daemon/base/own_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int own_program_path(char *path, bool *replaced)
{
    static const char deleted[] = " (deleted)"; /* the kernel's word for that */
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1), end = sizeof(deleted) - 1;
    bool is;

    if (n < 0)
        return -errno;
    is = n >= end && memcmp(path + n - end, deleted, (size_t)end) == 0;
    path[is ? n - end : n] = '\0';
    if (replaced)
        *replaced = is;
    return 0;
}

int own_program_find(char *path, size_t size, const char *name, const char *environment)
{
    static const char *const places[] = {"", "../lib/npud/"};
    const char *named = secure_getenv(environment), *slash;
    char self[PATH_MAX];
    int r;

    if (named && named[0])
        return snprintf(path, size, "%s", named) < (int)size ? 0 : -ENAMETOOLONG;
    r = own_program_path(self, NULL);
    if (r < 0)
        return r;
    slash = strrchr(self, '/');
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const int folder = slash ? (int)(slash - self) + 1 : 0;

        if (snprintf(path, size, "%.*s%s%s", folder, self, places[i], name) < (int)size &&
            access(path, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}
