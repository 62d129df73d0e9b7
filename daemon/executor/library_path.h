/* Which files may be loaded into an executor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * *real: what to load, which the caller frees: path without symbolic links, so that what was
 * looked at is what is loaded; or a name without a folder as it is. 0, or an ACL error and why: it
 * is no file, or others than root can change it or a folder above it. any_owner: they may.
 */
int32_t library_path_check(const char *path, bool any_owner, char **real, char *why,
                           size_t why_size);
