#include "client/tools/npuctl/trace_stats.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/json.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/text.h"

/* So many calls in a row, and how long each has lasted. Of all else times is 1. */
struct duration {
    double us, times;
};

/* Slices of one kind and name. */
struct group {
    char *kind, *name;
    struct duration *durations;
    size_t n, room;
    double count, total_us, bytes;
};

struct stats {
    void *tree; /* of groups, by kind and name */
    struct group **group;
    size_t n;
    bool any, memory_short;
    double events, lost;
};

static int compare_names(const void *pa, const void *pb)
{
    const struct group *a = pa, *b = pb;
    int order = strcmp(a->kind, b->kind);

    return order != 0 ? order : strcmp(a->name, b->name);
}

static void free_group(struct group *g)
{
    free(g->kind);
    free(g->name);
    free(g->durations);
    free(g);
}

/* NULL: no memory. */
static struct group *make_group(struct stats *s, const struct group *key)
{
    struct group *g = calloc(1, sizeof(*g));
    struct group **grown = realloc(s->group, (s->n + 1) * sizeof(void *));

    if (grown)
        s->group = grown;
    if (g) {
        g->kind = strdup(key->kind);
        g->name = strdup(key->name);
    }
    if (g && grown && g->kind && g->name && tsearch(g, &s->tree, compare_names))
        return s->group[s->n++] = g;
    if (g)
        free_group(g);
    return NULL;
}

static struct group *find_group(struct stats *s, const char *kind, const char *name)
{
    struct group key = {.kind = (char *)kind, .name = (char *)name};
    void *found = tfind(&key, &s->tree, compare_names);

    return found ? *(struct group **)found : make_group(s, &key);
}

static bool add_time(struct group *g, double us, double times)
{
    size_t room = g->room ? 2 * g->room : 16;
    struct duration *grown = g->durations;

    if (g->n == g->room) {
        grown = realloc(g->durations, room * sizeof(*grown));
        if (!grown)
            return false;
        g->room = room;
    }
    g->durations = grown;
    g->durations[g->n++] = (struct duration){us / times, times};
    g->count += times;
    g->total_us += us;
    return true;
}

/* --- reading --- */

/* Of copies, each way by itself. What had no end when the trace ended is not counted. */
static void add_slice(struct stats *s, const cJSON *event)
{
    const cJSON *args = cJSON_GetObjectItem(event, "args");
    const char *way = json_text(args, "way");
    double times = json_number(args, "times");
    char name[256];
    struct group *g;

    if (strcmp(json_text(event, "ph"), "X") != 0 || cJSON_GetObjectItem(args, "unfinished") ||
        strcmp(json_text(event, "cat"), "engine") == 0)
        return;
    snprintf(name, sizeof(name), "%s%s%s", json_text(event, "name"), way[0] ? ", " : "", way);
    g = find_group(s, json_text(event, "cat"), name);
    if (!g || !add_time(g, json_number(event, "dur"), times >= 1 ? times : 1)) {
        s->memory_short = true;
        return;
    }
    g->bytes += json_number(args, "bytes");
}

/* How many there are, from the first line of a trace. */
static void read_totals(struct stats *s, const char *line)
{
    char *whole = NULL;
    cJSON *trace = asprintf(&whole, "%s]}", line) >= 0 ? cJSON_Parse(whole) : NULL;
    const cJSON *other = cJSON_GetObjectItem(trace, "otherData");

    s->any = s->any || trace;
    s->events = json_number(other, "events");
    s->lost = json_number(other, "lost");
    cJSON_Delete(trace);
    free(whole);
}

/* An event is a line: so a trace of any size takes no memory but for its times. */
static void read_line(struct stats *s, char *line)
{
    cJSON *event;

    if (strncmp(line, "{\"displayTimeUnit\"", 18) == 0)
        read_totals(s, line);
    if (strncmp(line, "{\"ph\":\"X\"", 9) != 0)
        return;
    /* What is behind the object is a comma. */
    event = cJSON_ParseWithOpts(line, NULL, 0);
    if (event)
        add_slice(s, event);
    cJSON_Delete(event);
}

static enum status read_file(struct stats *s, const char *path)
{
    FILE *f = fopen(path, "re");
    size_t room = 0;
    char *line = NULL;
    int error;

    if (!f) {
        fprintf(stderr, "npuctl: %s: %s\n", path, strerror(errno));
        return STATUS_ERROR;
    }
    while (!s->memory_short && getline(&line, &room, f) >= 0)
        read_line(s, line);
    error = ferror(f) ? errno : 0;
    free(line);
    fclose(f);
    if (error != 0)
        fprintf(stderr, "npuctl: %s: %s\n", path, strerror(error));
    else if (s->memory_short)
        fputs("npuctl: no memory\n", stderr);
    else if (!s->any)
        fprintf(stderr, "npuctl: %s: npuctl trace dump has not written this\n", path);
    return s->any && !s->memory_short && error == 0 ? STATUS_OK : STATUS_ERROR;
}

/* --- printing --- */

static int compare_times(const void *pa, const void *pb)
{
    const struct duration *a = pa, *b = pb;

    return (a->us > b->us) - (a->us < b->us);
}

/* By kind, and what takes longest in all first. */
static int compare_groups(const void *pa, const void *pb)
{
    const struct group *a = *(struct group *const *)pa, *b = *(struct group *const *)pb;
    int order = strcmp(a->kind, b->kind);

    if (order != 0 || a->total_us == b->total_us)
        return order != 0 ? order : strcmp(a->name, b->name);
    return a->total_us < b->total_us ? 1 : -1;
}

/* The smallest that so many of a hundred do not exceed. */
static double percentile(const struct group *g, unsigned percent)
{
    double below = 0;
    size_t i = 0;

    while (i + 1 < g->n && (below += g->durations[i].times) * 100 < g->count * percent)
        i++;
    return g->durations[i].us;
}

static double rate_of(const struct group *g)
{
    return g->total_us > 0 ? g->bytes / g->total_us * 1e6 : 0;
}

static void print_group(const struct group *g)
{
    char *name = text_clean(g->name);

    printf("%-9s %9.0f %12.3f %12.3f %12.3f", g->kind, g->count, g->total_us / 1e3,
           percentile(g, 50), percentile(g, 99));
    if (g->bytes > 0)
        printf(" %15.0f %10.3f", g->bytes, rate_of(g) / 1e9);
    else
        printf(" %15s %10s", "-", "-");
    printf("  %s\n", name ? name : "");
    free(name);
}

static bool print_json(const struct stats *s)
{
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "stats");

    cJSON_AddNumberToObject(document, "events", s->events);
    cJSON_AddNumberToObject(document, "lost", s->lost);
    for (size_t i = 0; list && i < s->n; i++) {
        const struct group *g = s->group[i];
        cJSON *row = cJSON_CreateObject();

        cJSON_AddStringToObject(row, "kind", g->kind);
        cJSON_AddStringToObject(row, "name", g->name);
        cJSON_AddNumberToObject(row, "count", g->count);
        cJSON_AddNumberToObject(row, "total_us", g->total_us);
        cJSON_AddNumberToObject(row, "median_us", percentile(g, 50));
        cJSON_AddNumberToObject(row, "p99_us", percentile(g, 99));
        cJSON_AddNumberToObject(row, "bytes", g->bytes);
        cJSON_AddNumberToObject(row, "bytes_per_s", rate_of(g));
        cJSON_AddItemToArray(list, row);
    }
    return print_document(document);
}

static bool print_stats(const struct stats *s, bool json)
{
    for (size_t i = 0; i < s->n; i++)
        qsort(s->group[i]->durations, s->group[i]->n, sizeof(struct duration), compare_times);
    if (s->n > 0)
        qsort(s->group, s->n, sizeof(void *), compare_groups);
    if (json)
        return print_json(s);
    printf("%-9s %9s %12s %12s %12s %15s %10s  %s\n", "KIND", "COUNT", "TOTAL-MS", "MEDIAN-US",
           "P99-US", "BYTES", "GB/S", "NAME");
    for (size_t i = 0; i < s->n; i++)
        print_group(s->group[i]);
    if (s->lost > 0)
        fprintf(stderr, "npuctl: %.0f of %.0f events are lost, and not counted\n", s->lost,
                s->events);
    return true;
}

static void keep_group(void *group)
{
    (void)group;
}

enum status trace_stats_run(const struct task *task)
{
    struct stats s = {0};
    enum status status = read_file(&s, task->stats);

    if (status == STATUS_OK)
        status = print_end(print_stats(&s, task->json));
    tdestroy(s.tree, keep_group);
    for (size_t i = 0; i < s.n; i++)
        free_group(s.group[i]);
    free(s.group);
    return status;
}
