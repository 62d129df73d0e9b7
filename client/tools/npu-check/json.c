#include "client/tools/npu-check/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npuctl/text.h"

cJSON *json_need(cJSON *o)
{
    if (!o)
        errx(NEED_EXIT, "no memory for the report");
    return o;
}

cJSON *json_add(cJSON *to, const char *name, cJSON *o)
{
    if (!cJSON_AddItemToObject(to, name, json_need(o)))
        errx(NEED_EXIT, "no memory for the report");
    return o;
}

cJSON *json_append(cJSON *list, cJSON *o)
{
    if (!cJSON_AddItemToArray(list, json_need(o)))
        errx(NEED_EXIT, "no memory for the report");
    return o;
}

void json_add_text(cJSON *to, const char *name, const char *text)
{
    char *copy;

    if (!text)
        return;
    copy = text_clean(text);
    if (!copy)
        err(NEED_EXIT, "memory");
    json_add(to, name, cJSON_CreateString(copy));
    free(copy);
}

void json_add_number(cJSON *to, const char *name, double n)
{
    json_add(to, name, cJSON_CreateNumber(n));
}

void json_add_hex(cJSON *to, const char *name, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "0x%" PRIx64, n);
    json_add_text(to, name, text);
}

char *json_print(cJSON *o)
{
    char *text = cJSON_Print(o);

    if (!text)
        errx(NEED_EXIT, "no memory for the report");
    cJSON_Delete(o);
    return text;
}
