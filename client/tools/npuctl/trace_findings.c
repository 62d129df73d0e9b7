#include "client/tools/npuctl/trace_findings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/json.h"

/* "0x" and npud's slot << 48 | position + 1; one without a task has none. */
static struct trace_act read_act(const cJSON *act)
{
    uint64_t place = strtoull(json_text(act, "slot_position"), NULL, 16);
    const cJSON *pid = cJSON_GetObjectItem(act, "pid");

    return (struct trace_act){.known = place != 0 && cJSON_IsNumber(pid),
                              .pid = cJSON_IsNumber(pid) ? pid->valueint : 0,
                              .slot = (uint32_t)(place >> 48),
                              .position = (place & ((UINT64_C(1) << 48) - 1)) - 1};
}

static bool read_finding(struct trace_finding *f, const cJSON *finding)
{
    f->first = read_act(cJSON_GetObjectItem(finding, "first"));
    f->second = read_act(cJSON_GetObjectItem(finding, "second"));
    return asprintf(&f->title, "%s: %s", json_text(finding, "kind"), json_text(finding, "title")) >=
           0;
}

struct trace_finding *trace_findings_read(const char *path, size_t *n)
{
    cJSON *report = json_read(path);
    const cJSON *all = cJSON_GetObjectItem(report, "findings"), *finding;
    struct trace_finding *list = NULL;

    *n = 0;
    if (!report)
        fprintf(stderr, "npuctl: %s: %s\n", path,
                errno == EBADMSG ? "this is no JSON" : strerror(errno));
    else if (!cJSON_IsArray(all))
        fprintf(stderr, "npuctl: %s: this is no report of npu-check\n", path);
    else if (!(list = calloc((size_t)cJSON_GetArraySize(all) + 1, sizeof(*list))))
        fputs("npuctl: no memory\n", stderr);
    else
        cJSON_ArrayForEach (finding, all)
            *n += read_finding(&list[*n], finding);
    cJSON_Delete(report);
    return list;
}

void trace_findings_free(struct trace_finding *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].title);
    free(list);
}
