#include "proto/wire/error_name.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    int32_t code;
} names[] = {
#include "proto/wire/error_names.inc"
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

const char *error_name(int32_t code)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (names[i].code == code)
            return names[i].name;
    return NULL;
}

/*
 * The longest form first: "ACL_ERROR_TIMEOUT" and "ACL_ERROR_RT_TIMEOUT" may both be there, and
 * then "timeout" is the runtime's.
 */
int32_t error_named(const char *name)
{
    static const char *const prefixes[] = {"", "ACL_ERROR_RT_", "ACL_ERROR_"};

    for (size_t p = 0; p < sizeof(prefixes) / sizeof(prefixes[0]); p++) {
        size_t n = strlen(prefixes[p]);

        for (size_t i = 0; i < N_NAMES; i++)
            if (strncmp(names[i].name, prefixes[p], n) == 0 &&
                strcasecmp(names[i].name + n, name) == 0)
                return names[i].code;
    }
    return 0;
}
