/* SARIF 2.1.0, which code hosts show beside the lines. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "client/tools/npu-check/json.h"
#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/reports.h"
#include "client/tools/npu-check/words.h"

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"

static const struct {
    const char *level, *text;
} rules[FINDING_KINDS] = {
    [FINDING_RACE] = {"error", "Two accesses of the same bytes have no order between them."},
    [FINDING_UNINITIALISED] = {"error", "Bytes are read that nothing has written."},
    [FINDING_USE_AFTER_FREE] = {"error", "Memory is used that is gone, or beyond its end."},
    [FINDING_LEAK] = {"warning", "An object was not given back when its process ended."},
    [FINDING_UNFINISHED] = {"warning", "A process ended with tasks that nothing waited for."},
    [FINDING_EMPTY_WAIT] = {"error", "A wait is for an event that has no record."},
    [FINDING_IGNORED] = {"error", "A task failed, and no call has reported it."},
};

static cJSON *add_message(cJSON *to, const char *name, const char *text)
{
    cJSON *message = json_add(to, name, cJSON_CreateObject());

    json_add_text(message, "text", text);
    return message;
}

static void add_rules(cJSON *driver)
{
    cJSON *list = json_add(driver, "rules", cJSON_CreateArray());

    for (int i = 0; i < FINDING_KINDS; i++) {
        cJSON *o = json_append(list, cJSON_CreateObject()), *level;

        json_add_text(o, "id", finding_names[i]);
        add_message(o, "shortDescription", rules[i].text);
        level = json_add(o, "defaultConfiguration", cJSON_CreateObject());
        json_add_text(level, "level", rules[i].level);
    }
}

/* Absolute paths are file:// URIs; others are relative to what the reader knows. */
static char *uri_make(const char *path)
{
    char *text = need_zeroed(strlen(path) * 3 + sizeof("file://"), 1), *p = text;

    if (path[0] == '/')
        p = stpcpy(p, "file://");
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (isalnum(c) || strchr("/._-~", c))
            *p++ = (char)c;
        else
            p += sprintf(p, "%%%02X", c);
    }
    return text;
}

static void add_frame(cJSON *location, const struct frame *f)
{
    cJSON *physical, *artifact, *region, *logical;
    char *uri;

    if (f->line) {
        physical = json_add(location, "physicalLocation", cJSON_CreateObject());
        artifact = json_add(physical, "artifactLocation", cJSON_CreateObject());
        uri = uri_make(f->file);
        json_add_text(artifact, "uri", uri);
        free(uri);
        region = json_add(physical, "region", cJSON_CreateObject());
        json_add_number(region, "startLine", f->line);
    }
    if (f->function) {
        logical = json_add(location, "logicalLocations", cJSON_CreateArray());
        json_add_text(json_append(logical, cJSON_CreateObject()), "name", f->function);
    }
}

static void put_act(const struct report *r, const struct act *a, const char *label, FILE *f)
{
    const struct place_frames *p = symbols_find(r->symbols, a->place);

    fprintf(f, "%s %s, ", label, p->call ? p->call : "a call");
    if (a->stream != WORLD_NONE) {
        words_put_stream(f, r->world, a->stream, true);
    } else {
        fprintf(f, "thread %" PRIu32 " of ", a->thread);
        words_put_process(f, r->world, a->process, true);
    }
}

/* `id`: of a related location, from 1; 0: it has none. */
static cJSON *location_make(const struct report *r, const struct act *a, const char *label,
                            unsigned id)
{
    const struct place_frames *p = symbols_find(r->symbols, a->place);
    cJSON *o = json_need(cJSON_CreateObject());
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        err(NEED_EXIT, "memory");
    put_act(r, a, label, f);
    if (fclose(f) != 0)
        err(NEED_EXIT, "memory");
    if (id)
        json_add_number(o, "id", id);
    if (p->n)
        add_frame(o, &p->frames[0]);
    add_message(o, "message", text);
    free(text);
    return o;
}

static void add_related(const struct report *r, cJSON *result, const struct finding *x,
                        const struct act *main_act)
{
    const struct {
        const struct act *act;
        const char *label;
    } others[] = {
        {main_act == &x->first ? &x->second : &x->first, report_label(x, main_act != &x->first)},
        {&x->memory.made, "made by"},
        {&x->memory.imported, "imported by"},
        {&x->missing.wait, "waits in"},
        {&x->missing.record, "recorded by"},
    };
    cJSON *list = json_add(result, "relatedLocations", cJSON_CreateArray());
    unsigned id = 0;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].act->what != ACT_NONE)
            json_append(list, location_make(r, others[i].act, others[i].label, ++id));
}

/* FNV-1a, of what remains when lines move and processes have other numbers. */
static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; s && *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    return (h ^ 0xff) * UINT64_C(0x100000001b3);
}

static uint64_t hash_act(const struct report *r, uint64_t h, const struct act *a)
{
    const struct place_frames *p = symbols_find(r->symbols, a->place);

    h = hash_text(h, a->what == ACT_NONE ? "" : p->call);
    for (size_t i = 0; a->what != ACT_NONE && i < p->n; i++)
        h = hash_text(h, p->frames[i].function);
    return h;
}

static void add_fingerprint(const struct report *r, cJSON *result, const struct finding *x)
{
    uint64_t h = hash_text(UINT64_C(0xcbf29ce484222325), finding_names[x->kind]);
    cJSON *o = json_add(result, "partialFingerprints", cJSON_CreateObject());
    char text[24];

    h = hash_act(r, hash_act(r, h, &x->first), &x->second);
    snprintf(text, sizeof(text), "%016" PRIx64, h);
    json_add_text(o, "npudCallStacks/v1", text);
}

static void add_result_message(const struct report *r, cJSON *result, const struct finding *x)
{
    char *title = report_make_line(r, x, report_write_title);
    char *missing = report_make_line(r, x, report_write_missing), *text;

    if (asprintf(&text, "%s.%s%s", title, missing[0] ? " " : "", missing) < 0)
        err(NEED_EXIT, "memory");
    add_message(result, "message", text);
    free(text);
    free(missing);
    free(title);
}

static void add_result(const struct report *r, cJSON *list, size_t i)
{
    const struct finding *x = &r->findings->list[i];
    const struct act *act = x->second.what != ACT_NONE ? &x->second : &x->first;
    cJSON *o = json_append(list, cJSON_CreateObject()), *locations, *suppressions;

    json_add_text(o, "ruleId", finding_names[x->kind]);
    json_add_number(o, "ruleIndex", x->kind);
    json_add_text(o, "level", rules[x->kind].level);
    add_result_message(r, o, x);
    locations = json_add(o, "locations", cJSON_CreateArray());
    if (act->what != ACT_NONE)
        json_append(locations, location_make(r, act, report_label(x, act == &x->first), 0));
    add_related(r, o, x, act);
    add_fingerprint(r, o, x);
    json_add_number(o, "occurrenceCount", (double)x->count);
    if (!report_is_suppressed(r, i))
        return;
    suppressions = json_add(o, "suppressions", cJSON_CreateArray());
    json_add_text(json_append(suppressions, cJSON_CreateObject()), "kind", "external");
}

char *report_make_sarif(const struct report *r)
{
    cJSON *root = json_need(cJSON_CreateObject()), *run, *tool, *driver, *results;

    json_add_text(root, "$schema", SCHEMA);
    json_add_text(root, "version", "2.1.0");
    run = json_append(json_add(root, "runs", cJSON_CreateArray()), cJSON_CreateObject());
    tool = json_add(run, "tool", cJSON_CreateObject());
    driver = json_add(tool, "driver", cJSON_CreateObject());
    json_add_text(driver, "name", "npu-check");
    json_add_text(driver, "version", NPUD_VERSION);
    add_rules(driver);
    results = json_add(run, "results", cJSON_CreateArray());
    for (size_t i = 0; i < r->findings->n; i++)
        add_result(r, results, i);
    return json_print(root);
}
