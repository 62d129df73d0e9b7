/* The object `profiler` in the configuration of aclInit. */
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/profile/profile.h"

static int error_value(const char *key, const char *what)
{
    return error_set(ACL_ERROR_INVALID_PROFILING_CONFIG, "aclInit: profiler.%s must be %s", key,
                     what);
}

/* A text, or absent (""). NULL, with the sentence: something else. */
static const char *text_of(const cJSON *profiler, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(profiler, key);

    if (!item)
        return "";
    if (cJSON_IsString(item))
        return item->valuestring;
    error_value(key, "a string");
    return NULL;
}

/* "on" or "off"; *on stays as it is if the key is absent. */
static int read_switch(const cJSON *profiler, const char *key, bool *on)
{
    const char *text = text_of(profiler, key);

    if (!text)
        return ACL_ERROR_INVALID_PROFILING_CONFIG;
    if (!text[0])
        return 0;
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return error_value(key, "\"on\" or \"off\"");
    *on = text[1] == 'n';
    return 0;
}

/* "on", "off", or a level: "l0" to "l3". */
static int read_task_time(const cJSON *profiler, bool *on)
{
    const char *text = text_of(profiler, "task_time");

    if (!text)
        return ACL_ERROR_INVALID_PROFILING_CONFIG;
    if (text[0] == 'l' && text[1] >= '0' && text[1] <= '3' && !text[2]) {
        *on = true;
        return 0;
    }
    return read_switch(profiler, "task_time", on);
}

/* "200MB", or less: a number of MB. */
static int read_limit(const cJSON *profiler, uint64_t *bytes)
{
    const char *text = text_of(profiler, "storage_limit");
    unsigned long long mb;
    char *end;

    if (!text)
        return ACL_ERROR_INVALID_PROFILING_CONFIG;
    if (!text[0])
        return 0;
    mb = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (mb < 200 || mb > UINT32_MAX || (*end && strcmp(end, "MB") != 0))
        return error_value("storage_limit", "200MB to 4294967295MB");
    *bytes = (uint64_t)mb << 20;
    return 0;
}

/* What is on or off, and what that collects: 0 has no effect, but is checked. */
static const struct {
    const char *key;
    bool otherwise; /* if the key is absent */
    uint64_t data;
} switches[] = {
    {"ascendcl", true, ACL_PROF_ACL_API},
    {"runtime_api", true, ACL_PROF_RUNTIME_API},
    {"msproftx", false, ACL_PROF_MSPROFTX},
    {"aicpu", false, 0},
    {"hccl", false, 0},
    {"task_memory", false, 0},
};

static int read_switches(const cJSON *profiler, uint64_t *data)
{
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        bool on = switches[i].otherwise;

        RETURN_IF_ERROR(read_switch(profiler, switches[i].key, &on));
        *data |= on ? switches[i].data : 0;
    }
    return 0;
}

/* data: what is collected; 0: nothing. */
static int read_profiler(const cJSON *profiler, uint64_t *data, struct profile_settings *set)
{
    bool on = false, times = true;

    if (!cJSON_IsObject(profiler))
        return error_set(ACL_ERROR_INVALID_PROFILING_CONFIG, "aclInit: profiler must be an object");
    RETURN_IF_ERROR(read_switch(profiler, "switch", &on));
    if (!on)
        return 0;
    RETURN_IF_ERROR(read_task_time(profiler, &times));
    *data = times ? ACL_PROF_TASK_TIME : 0;
    RETURN_IF_ERROR(read_switches(profiler, data));
    return read_limit(profiler, &set->limit);
}

static int begin_profiler(const cJSON *profiler)
{
    const char *base = secure_getenv("ASCEND_WORK_PATH"), *output;
    struct profile_settings set = {0};
    char below[PATH_MAX];
    uint64_t data = 0;

    RETURN_IF_ERROR(read_profiler(profiler, &data, &set));
    output = data != 0 ? text_of(profiler, "output") : NULL;
    if (data != 0 && !output)
        return ACL_ERROR_INVALID_PROFILING_CONFIG;
    if (data == 0)
        return 0;
    if (output[0])
        return profile_begin_outside(output, data, &set);
    if (!base || !base[0])
        return profile_begin_outside(NULL, data, &set);
    snprintf(below, sizeof(below), "%s/profiling_data", base);
    return profile_begin_outside(below, data, &set);
}

int profile_configure(const char *text)
{
    cJSON *root = text && text[0] ? cJSON_Parse(text) : NULL;
    const cJSON *profiler = cJSON_GetObjectItemCaseSensitive(root, "profiler");
    int error = profiler ? begin_profiler(profiler) : 0;

    cJSON_Delete(root);
    return error;
}
