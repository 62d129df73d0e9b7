#include "client/tools/npuctl/trace_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/npuctl/text.h"

#define NS_PER_US 1000

static uint64_t begun_ns;
static bool separate; /* an event was printed, and the next one follows a comma */

void trace_json_since(uint64_t ns)
{
    begun_ns = ns;
}

void trace_json_string(const char *text)
{
    char *clean = text_clean(text);

    putchar('"');
    for (const char *c = clean ? clean : ""; *c; c++)
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if ((unsigned char)*c < ' ' || *c == '<' || *c == '>')
            printf("\\u%04x", (unsigned char)*c);
        else
            putchar(*c);
    putchar('"');
    free(clean);
}

double trace_json_us(uint64_t ns)
{
    return (double)(ns > begun_ns ? ns - begun_ns : 0) / NS_PER_US;
}

void trace_json_begin(char phase, uint64_t pid, uint64_t tid)
{
    printf("%s{\"ph\":\"%c\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64, separate ? ",\n" : "", phase,
           pid, tid);
    separate = true;
}

void trace_json_name(const char *name, const char *category)
{
    fputs(",\"name\":", stdout);
    trace_json_string(name);
    printf(",\"cat\":\"%s\"", category);
}

void trace_json_time(uint64_t ns)
{
    printf(",\"ts\":%.3f", trace_json_us(ns));
}

void trace_json_slice(uint64_t pid, uint64_t tid, const char *name, const char *category,
                      uint64_t begin, uint64_t end)
{
    trace_json_begin('X', pid, tid);
    trace_json_name(name, category);
    trace_json_time(begin);
    printf(",\"dur\":%.3f,\"args\":{", trace_json_us(end) - trace_json_us(begin));
}

void trace_json_instant(uint64_t pid, uint64_t tid, const char *name, const char *category,
                        uint64_t at)
{
    trace_json_begin('i', pid, tid);
    trace_json_name(name, category);
    trace_json_time(at);
    fputs(",\"s\":\"t\",\"args\":{", stdout);
}

void trace_json_end(void)
{
    fputs("}}", stdout);
}

void trace_json_arrow(char phase, uint64_t pid, uint64_t tid, const char *category, uint64_t id,
                      uint64_t at)
{
    trace_json_begin(phase, pid, tid);
    trace_json_name(category, category);
    trace_json_time(at);
    printf(",\"id\":%" PRIu64 "%s}", id, phase == 'f' ? ",\"bp\":\"e\"" : "");
}

void trace_json_counter(uint64_t pid, const char *name, const char *unit, uint64_t at,
                        uint64_t value)
{
    trace_json_begin('C', pid, 0);
    printf(",\"name\":\"%s\"", name);
    trace_json_time(at);
    printf(",\"args\":{\"%s\":%" PRIu64 "}}", unit, value);
}
