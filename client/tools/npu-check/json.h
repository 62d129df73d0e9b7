/*
 * cJSON for a command: without memory it ends with a message. What a value is added to owns it.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdint.h>

cJSON *json_need(cJSON *o);
cJSON *json_add(cJSON *to, const char *name, cJSON *o);
cJSON *json_append(cJSON *list, cJSON *o);
/** Nothing is added for NULL. As text_clean() has it. */
void json_add_text(cJSON *to, const char *name, const char *text);
void json_add_number(cJSON *to, const char *name, double n);
/** "0x1234": numbers of JSON do not hold all 64 bits. */
void json_add_hex(cJSON *to, const char *name, uint64_t n);
/** The text, which the caller frees with free(3). *o is freed. */
char *json_print(cJSON *o);
