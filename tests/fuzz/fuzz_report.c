/*
 * What npuctl prints of a report. The report is npud's, but names in it come from clients: whatever
 * they are, what is printed has no byte that a terminal would obey, and is JSON where it says so.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/npuctl/command.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/trace_rows.h"
#include "fuzz.h"

static FILE *capture;

static void check_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        MUST(c == '\n' || (c >= ' ' && c != 0x7f));
    }
}

static void check_printed(const Npud__Report *report, const struct command *command, bool json)
{
    static char *text;
    static size_t size;
    FILE *saved = stdout;
    size_t lines = 0;

    capture = open_memstream(&text, &size);
    MUST(capture);
    stdout = capture;
    MUST(print_report(report, command, json) == STATUS_OK);
    stdout = saved;
    fclose(capture);
    check_text(text, size);
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    if (json) {
        cJSON *parsed = cJSON_Parse(text);

        MUST(lines == 1 && parsed);
        cJSON_Delete(parsed);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Npud__Report *report = npud__report__unpack(NULL, size, data);

    if (!report)
        return 0;
    trace_rows_expand(report);
    for (size_t i = 0; i < commands_n; i++)
        for (int json = 0; json < 2 && !commands[i].parse; json++)
            check_printed(report, &commands[i], json);
    npud__report__free_unpacked(report, NULL);
    return 0;
}
