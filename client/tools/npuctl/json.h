/* Members of objects of JSON that another program has written: what is not there is 0, or "". */
#pragma once

#include <cjson/cJSON.h>

static inline double json_number(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/** It is the object's. */
static inline const char *json_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

    return text ? text : "";
}
