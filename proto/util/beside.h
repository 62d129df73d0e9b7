/* Programs of npud that start another one of its programs. */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BESIDE_PATH (PATH_MAX + 32) /* bytes of the path of a program */

/**
 * The program `name` that is installed, or built, together with the calling one: its path, in
 * `path`; or `name`, to be looked up in PATH.
 */
static inline const char *beside_find(const char *name, char path[BESIDE_PATH])
{
    static const char *const places[] = {"/", "/../sbin/"};
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;

    path[n < 0 ? 0 : n] = '\0';
    slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
        stpcpy(stpcpy(slash, places[i]), name);
        if (access(path, X_OK) == 0)
            return path;
    }
    return name;
}
