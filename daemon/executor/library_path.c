#include "daemon/executor/library_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"

/* Nobody but root can change what is there. Lists of rights count: their mask is the group's. */
static bool is_of_root_alone(const struct stat *st)
{
    return st->st_uid == 0 && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool is_safe(const char *path, char *why, size_t why_size)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    if (is_of_root_alone(&st))
        return true;
    snprintf(why, why_size, "%s can be changed by others than root: npud loads nothing from there",
             path);
    return false;
}

/* The file and each folder above it. path is real, and is cut and mended meanwhile. */
static bool all_safe(char *path, char *why, size_t why_size)
{
    bool safe = is_safe("/", why, why_size);

    for (char *slash = strchr(path + 1, '/'); safe && slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        safe = is_safe(path, why, why_size);
        *slash = '/';
    }
    return safe && is_safe(path, why, why_size);
}

static bool is_file(const char *path, char *why, size_t why_size)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return true;
    snprintf(why, why_size, "%s is no regular file", path);
    return false;
}

/* The dynamic loader finds it, where root has told it to look: unless the environment says more. */
static int32_t check_name(const char *name, char **real, char *why, size_t why_size)
{
    if (getenv("LD_LIBRARY_PATH")) {
        snprintf(why, why_size, "%s: give the whole path, where LD_LIBRARY_PATH is set", name);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    *real = strdup(name);
    return *real ? 0 : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

int32_t library_path_check(const char *path, bool any_owner, char **real, char *why,
                           size_t why_size)
{
    *real = NULL;
    if (!strchr(path, '/'))
        return check_name(path, real, why, why_size);
    if (path[0] != '/') {
        snprintf(why, why_size, "%s is no absolute path", path);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    *real = realpath(path, NULL);
    if (!*real) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (is_file(*real, why, why_size) && (any_owner || all_safe(*real, why, why_size)))
        return 0;
    return ACL_ERROR_RT_NO_PERMISSION;
}
