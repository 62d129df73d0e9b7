#include "proto/wire/error_name.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "acl/acl_base.h"

static const char *const names[] = {
#define NAME(name) #name,
#include "proto/wire/error_codes.inc"
#undef NAME
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* Of names[i]. Not static: in C the codes that are constant objects cannot initialise one. */
static int32_t find_code(size_t i)
{
    const int32_t codes[] = {
#define NAME(name) (int32_t)(name),
#include "proto/wire/error_codes.inc"
#undef NAME
    };

    return codes[i];
}

const char *error_name(int32_t code)
{
    for (size_t i = 0; code != 0 && i < N_NAMES; i++)
        if (find_code(i) == code)
            return names[i];
    return NULL;
}

/*
 * The longest form first: "ACL_ERROR_TIMEOUT" and "ACL_ERROR_RT_TIMEOUT" may both be there, and
 * then "timeout" is the runtime's.
 */
int32_t error_name_find(const char *name)
{
    static const char *const prefixes[] = {"", "ACL_ERROR_RT_", "ACL_ERROR_"};

    for (size_t p = 0; p < sizeof(prefixes) / sizeof(prefixes[0]); p++) {
        size_t n = strlen(prefixes[p]);

        for (size_t i = 0; i < N_NAMES; i++)
            if (strncmp(names[i], prefixes[p], n) == 0 && strcasecmp(names[i] + n, name) == 0)
                return find_code(i);
    }
    return 0;
}
