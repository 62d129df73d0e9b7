/* Programs that are installed with npud: beside it, or in lib/npud. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Where this program was executed: the same path as a moment ago, if a package has renamed another
 * file over it since, and then *replaced (unless NULL). path: of size PATH_MAX. 0 or -errno.
 */
int own_program_path(char *path, bool *replaced);

/**
 * The path of the program of that name. environment: the variable that names another one, for
 * tests; it counts only if npud has no more rights than its caller. 0 or -errno.
 */
int own_program_find(char *path, size_t size, const char *name, const char *environment);
