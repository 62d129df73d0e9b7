/* The log of the program (aclAppLog). */
#pragma once

#include <stdint.h>

#include "acl/acl.h"

/** The same, for what the library writes there. */
void base_log(aclLogLevel level, const char *function, const char *file, uint32_t line,
              const char *format, ...) __attribute__((format(printf, 5, 6)));
