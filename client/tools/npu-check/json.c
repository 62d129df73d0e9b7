#include "client/tools/npu-check/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/tools/npu-check/need.h"

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

/* Bytes of the UTF-8 sequence at s. 0: none; overlong forms and surrogates are none. */
static size_t sequence_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (n == 0 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void text_mend(unsigned char *s)
{
    while (*s) {
        size_t n = sequence_length(s);

        if (n == 0)
            *s = '?';
        s += n ? n : 1;
    }
}

void json_add_text(cJSON *to, const char *name, const char *text)
{
    char *copy;

    if (!text)
        return;
    copy = strdup(text);
    if (!copy)
        err(NEED_EXIT, "memory");
    text_mend((unsigned char *)copy);
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
