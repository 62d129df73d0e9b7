/*
 * JSON that another program has written, and members of its objects: what is not there is 0, or "".
 */
#pragma once

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/util/lift_fd.h"

/** The file, for cJSON_Delete(). NULL with errno: EBADMSG if it can be read, and is no JSON. */
static inline cJSON *json_read(const char *path)
{
    FILE *file = lift_open(path);
    cJSON *document = NULL;
    char *text = NULL;
    size_t size = 0;
    int error;

    if (!file)
        return NULL;
    if (getdelim(&text, &size, '\0', file) >= 0)
        document = cJSON_Parse(text);
    error = ferror(file) ? errno : EBADMSG;
    free(text);
    fclose(file);
    if (!document)
        errno = error;
    return document;
}

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
