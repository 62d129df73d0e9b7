/* aclprofSetConfig: what its settings may be. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "client/core/error.h"
#include "client/core/process.h"
#include "client/profile/profile.h"

enum value_of { VALUE_NUMBER, VALUE_WORDS, VALUE_TEXT };

/* What a setting may be: a number between two, one or several of some words, or any text. */
static const struct setting {
    enum value_of of;
    uint64_t least, most;
    const char *words; /* with a comma behind each */
} settings[ACL_PROF_ARGS_MAX] = {
    [ACL_PROF_STORAGE_LIMIT] = {VALUE_NUMBER, 200, UINT32_MAX, NULL},
    [ACL_PROF_SYS_HARDWARE_MEM_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_LLC_MODE] = {VALUE_WORDS, 0, 0, "read,write,"},
    [ACL_PROF_SYS_IO_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_SYS_INTERCONNECTION_FREQ] = {VALUE_NUMBER, 1, 50, NULL},
    [ACL_PROF_DVPP_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_HOST_SYS] = {VALUE_WORDS, 0, 0, "cpu,mem,disk,network,osrt,"},
    [ACL_PROF_HOST_SYS_USAGE] = {VALUE_WORDS, 0, 0, "cpu,mem,"},
    [ACL_PROF_HOST_SYS_USAGE_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_LOW_POWER_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_SYS_MEM_SERVICEFLOW] = {VALUE_TEXT, 0, 0, NULL},
    [ACL_PROF_SYS_CPU_FREQ] = {VALUE_NUMBER, 1, 100, NULL},
    [ACL_PROF_OPTYPE] = {VALUE_TEXT, 0, 0, NULL},
    [ACL_PROF_NTS_METRICS] = {VALUE_TEXT, 0, 0, NULL},
    [ACL_PROF_PATH] = {VALUE_TEXT, 0, 0, NULL},
};

static bool is_number(const char *value, uint64_t least, uint64_t most)
{
    uint64_t n;

    if (strspn(value, "0123456789") != strlen(value) || strlen(value) > 10)
        return false;
    n = strtoull(value, NULL, 10);
    return value[0] && n >= least && n <= most;
}

static bool is_word(const char *words, const char *word, size_t size)
{
    for (const char *end; (end = strchr(words, ',')); words = end + 1)
        if ((size_t)(end - words) == size && memcmp(words, word, size) == 0)
            return true;
    return false;
}

/* One, or several with commas between. */
static bool are_words(const char *words, const char *value)
{
    const char *end;

    do {
        end = strchrnul(value, ',');
        if (!is_word(words, value, (size_t)(end - value)))
            return false;
        value = end + 1;
    } while (*end);
    return true;
}

static bool is_acceptable(const struct setting *s, const char *value)
{
    switch (s->of) {
    case VALUE_NUMBER:
        return is_number(value, s->least, s->most);
    case VALUE_WORDS:
        return s->words && are_words(s->words, value);
    default:
        return true;
    }
}

aclError aclprofSetConfig(aclprofConfigType configType, const char *config, size_t configLength)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    if (configType <= ACL_PROF_ARGS_MIN || configType >= ACL_PROF_ARGS_MAX)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: configType is %d, and must be 1 to %d",
                         __func__, (int)configType, ACL_PROF_ARGS_MAX - 1);
    REQUIRE(config);
    if (configLength > 256 || strnlen(config, 257) != configLength)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: configLength is %zu, and must be that of config, at most 256",
                         __func__, configLength);
    /* Type 2 is none that there is. */
    if (configType == 2 || !is_acceptable(&settings[configType], config))
        return error_set(ACL_ERROR_INVALID_PROFILING_CONFIG,
                         "%s: \"%s\" is no value of a setting of type %d", __func__, config,
                         (int)configType);
    if (configType == ACL_PROF_STORAGE_LIMIT)
        profile_set_limit(strtoull(config, NULL, 10) << 20);
    return 0;
}
