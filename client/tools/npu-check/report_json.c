/* The report for programs: tests/run/check.schema.json has its form. */
#include <cjson/cJSON.h>
#include <string.h>

#include "client/tools/npu-check/json.h"
#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/reports.h"
#include "client/tools/npu-check/words.h"
#include "proto/wire/error_name.h"

static const char *const act_names[] = {
    [ACT_NONE] = "none",     [ACT_READ] = "read",
    [ACT_WRITE] = "write",   [ACT_FREE] = "free",
    [ACT_UNMAP] = "unmap",   [ACT_CLOSE] = "close",
    [ACT_ALLOC] = "create",  [ACT_IMPORT] = "import",
    [ACT_MAP] = "map",       [ACT_RECORD] = "record",
    [ACT_RESET] = "reset",   [ACT_WAIT] = "wait",
    [ACT_SUBMIT] = "submit", [ACT_SYNCHRONISE] = "synchronise",
};

static const char *const missing_names[] = {
    [MISSING_WAIT] = "wait",
    [MISSING_WAIT_EARLIER] = "wait-earlier",
    [MISSING_SYNCHRONISE] = "synchronise",
    [MISSING_HOST_EDGE] = "host-edge",
};

static void add_frames(cJSON *to, const struct place_frames *place)
{
    cJSON *list = json_add(to, "frames", cJSON_CreateArray());

    for (size_t i = 0; i < place->n; i++) {
        const struct frame *f = &place->frames[i];
        cJSON *o = json_append(list, cJSON_CreateObject());

        json_add_text(o, "function", f->function);
        json_add_text(o, "file", f->file);
        if (f->line)
            json_add_number(o, "line", f->line);
        json_add_text(o, "object", f->object);
        if (f->object)
            json_add_hex(o, "offset", f->offset);
    }
}

static void add_stream(const struct report *r, cJSON *to, const struct act *a)
{
    const struct world_stream *s;
    cJSON *o;

    if (a->stream >= r->world->n_streams)
        return;
    s = &r->world->streams[a->stream];
    o = json_add(to, "stream", cJSON_CreateObject());
    json_add_number(o, "id", s->id);
    json_add_number(o, "device", s->device);
    json_add(o, "default", cJSON_CreateBool(s->is_default));
    if (a->ordinal)
        json_add_number(o, "task", a->ordinal);
}

static void add_act(const struct report *r, cJSON *to, const char *name, const struct act *a)
{
    const struct place_frames *place;
    cJSON *o;

    if (a->what == ACT_NONE || a->what >= sizeof(act_names) / sizeof(act_names[0]))
        return;
    place = symbols_find(r->symbols, a->place);
    o = json_add(to, name, cJSON_CreateObject());
    json_add_text(o, "what", act_names[a->what]);
    json_add_text(o, "call", place->call);
    if (a->process < r->world->n_processes)
        json_add_number(o, "pid", r->world->processes[a->process].pid);
    json_add_number(o, "thread", a->thread);
    add_stream(r, o, a);
    if (a->range < r->world->n_texts)
        json_add_text(o, "range", r->world->texts[a->range]);
    if (a->slot_position)
        json_add_hex(o, "slot_position", a->slot_position);
    add_frames(o, place);
}

static void add_memory(const struct report *r, cJSON *to, const struct finding *x)
{
    cJSON *o;

    if (!x->memory.size)
        return;
    o = json_add(to, "memory", cJSON_CreateObject());
    json_add_text(o, "kind", report_memory_name(x));
    if (x->memory.address)
        json_add_hex(o, "address", x->memory.address);
    json_add_number(o, "size", (double)x->memory.size);
    json_add_number(o, "offset", (double)x->memory.offset);
    json_add_number(o, "whole", (double)x->memory.whole);
    json_add(o, "beyond", cJSON_CreateBool(x->memory.beyond));
    add_act(r, o, "made", &x->memory.made);
    add_act(r, o, "imported", &x->memory.imported);
}

static void add_missing(const struct report *r, cJSON *to, const struct finding *x)
{
    char *text;
    cJSON *o;

    if (x->missing.kind == MISSING_NONE ||
        x->missing.kind >= sizeof(missing_names) / sizeof(missing_names[0]))
        return;
    o = json_add(to, "missing", cJSON_CreateObject());
    json_add_text(o, "kind", missing_names[x->missing.kind]);
    text = report_make_line(r, x, report_write_missing);
    json_add_text(o, "text", text);
    free(text);
    if (x->missing.kind == MISSING_WAIT_EARLIER) {
        json_add_text(o, "event", words_object(x->missing.event));
        json_add_number(o, "event_number", (double)x->missing.event_number);
    }
    add_act(r, o, "wait", &x->missing.wait);
    add_act(r, o, "record", &x->missing.record);
}

static void add_finding(const struct report *r, cJSON *list, size_t i)
{
    const struct finding *x = &r->findings->list[i];
    cJSON *o = json_append(list, cJSON_CreateObject());
    char *title = report_make_line(r, x, report_write_title);

    json_add_text(o, "kind", finding_names[x->kind]);
    json_add_text(o, "title", title);
    free(title);
    json_add_number(o, "count", (double)x->count);
    json_add(o, "suppressed", cJSON_CreateBool(report_is_suppressed(r, i)));
    add_act(r, o, "first", &x->first);
    add_act(r, o, "second", &x->second);
    add_memory(r, o, x);
    add_missing(r, o, x);
    if (x->kind == FINDING_LEAK || x->kind == FINDING_EMPTY_WAIT)
        json_add_text(o, "object", words_object(x->object));
    if (x->kind == FINDING_LEAK)
        json_add_number(o, "objects", (double)x->objects);
    if (x->kind == FINDING_IGNORED) {
        json_add_number(o, "code", x->code);
        json_add_text(o, "code_name", error_name(x->code));
    }
}

static void add_process(cJSON *list, const struct world_process *p)
{
    cJSON *o = json_append(list, cJSON_CreateObject());

    json_add_number(o, "pid", p->pid);
    json_add_text(o, "program", p->program);
    json_add(o, "ended_by_exit", cJSON_CreateBool(p->ended));
    if (p->left > 0)
        json_add(o, "taken_back", cJSON_CreateNumber((double)p->left));
    json_add(o, "complete", cJSON_CreateBool(!p->failed));
}

static void add_summary(const struct report *r, cJSON *to)
{
    cJSON *o = json_add(to, "summary", cJSON_CreateObject()), *kinds;

    json_add_number(o, "findings", (double)report_count(r, false));
    json_add_number(o, "suppressed", (double)report_count(r, true));
    kinds = json_add(o, "kinds", cJSON_CreateObject());
    for (enum finding_kind k = 0; k < FINDING_KINDS; k++)
        json_add_number(kinds, finding_names[k], (double)report_count_kind(r, k));
}

char *report_make_json(const struct report *r)
{
    cJSON *root = json_need(cJSON_CreateObject()), *list;

    json_add_text(root, "format", "npu-check");
    json_add_number(root, "version", 1);
    json_add_text(root, "npud", NPUD_VERSION);
    list = json_add(root, "processes", cJSON_CreateArray());
    for (size_t i = 0; i < r->world->n_processes; i++)
        add_process(list, &r->world->processes[i]);
    list = json_add(root, "findings", cJSON_CreateArray());
    for (size_t i = 0; i < r->findings->n; i++)
        add_finding(r, list, i);
    add_summary(r, root);
    return json_print(root);
}

bool report_write_file(const struct report *r, const char *path)
{
    const char *end = strrchr(path, '.');
    bool sarif = end && strcmp(end, ".sarif") == 0;
    FILE *f = fopen(path, "we");
    char *text;
    bool ok;

    if (!f)
        return false;
    text = sarif ? report_make_sarif(r) : report_make_json(r);
    ok = fprintf(f, "%s\n", text) > 0;
    free(text);
    return (fclose(f) == 0) && ok;
}
