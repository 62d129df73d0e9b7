/* Programs that are installed with npud: beside it, or in lib/npud. */
#pragma once

#include <stddef.h>

/**
 * The path of the program of that name. environment: the variable that names another one, for
 * tests; it counts only if npud has no more rights than its caller. 0 or -errno.
 */
int own_program_find(char *path, size_t size, const char *name, const char *environment);
