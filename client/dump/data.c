/* Dumps of data: what kernels found in the memory that they work on, and what they left there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/capture/capture.h"
#include "client/dump/dump.h"
#include "client/dump/dump_file.h"
#include "client/dump/dump_part.h"
#include "client/runtime/session.h"

#define NAME_MAX_BYTES 512

/* --- what the configuration asks for --- */

static const char *text_of(const cJSON *object, const char *key, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    return text ? text : otherwise;
}

/* Is the number one of "0|2|5-9"? No text: yes. */
static bool is_step(const char *steps, uint64_t number)
{
    for (const char *at = steps; at; at = strchr(at, '|')) {
        unsigned long long first, last;
        char *end;

        at += *at == '|';
        first = last = strtoull(at, &end, 10);
        if (*end == '-')
            last = strtoull(end + 1, NULL, 10);
        if (number >= first && number <= last)
            return true;
    }
    return !steps;
}

/* A kernel is named, or one of its places in the model. */
static bool is_layer(const struct dump_kernel *k, const char *layer)
{
    char place[NAME_MAX_BYTES];

    snprintf(place, sizeof(place), "%s_%u", k->name, k->call);
    return strcmp(layer, k->name) == 0 || strcmp(layer, place) == 0;
}

/* A model of the list without a name is any, and without layers it is all kernels. */
static bool is_listed(const cJSON *model, const struct dump_kernel *k, const char *model_name)
{
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(model, "layer"), *layer;

    if (strcmp(text_of(model, "model_name", model_name), model_name) != 0)
        return false;
    cJSON_ArrayForEach (layer, layers)
        if (is_layer(k, layer->valuestring))
            return true;
    return cJSON_GetArraySize(layers) == 0;
}

bool dump_data_has(const cJSON *object, const struct dump_kernel *k, const char *model_name,
                   enum dump_when when)
{
    const char *mode = text_of(object, "dump_mode", "output");
    const cJSON *model;

    if (strcmp(mode, "all") != 0 && strcmp(mode, when == DUMP_INPUT ? "input" : "output") != 0)
        return false;
    if (k->model == 0)
        return strcmp(text_of(object, "dump_op_switch", "off"), "on") == 0;
    if (!is_step(text_of(object, "dump_step", NULL), k->execution))
        return false;
    cJSON_ArrayForEach (model, cJSON_GetObjectItemCaseSensitive(object, "dump_list"))
        if (is_listed(model, k, model_name))
            return true;
    return false;
}

/* --- files --- */

/* As aclmdlRISetName() has named it; "": not at all, or it is gone. */
static void name_model(uint64_t id, char *name, size_t size)
{
    struct session *s = session_peek();
    struct graph *g;

    name[0] = '\0';
    if (!s || id == 0)
        return;
    captures_lock(s);
    for (uint32_t i = 0; graph_at(s, i, &g); i++)
        if (g && g->id == id && g->name)
            snprintf(name, size, "%s", g->name);
    captures_unlock(s);
}

/* Names are one folder or file each. */
static void take_slashes(char *name)
{
    while ((name = strchr(name, '/')))
        *name = '_';
}

static const char *const endings[] = {[DUMP_INPUT] = "input", [DUMP_OUTPUT] = "output"};

/* <root>/<device>/[<model>.<id>/<execution>/]<kernel>[_<call>].<stream>.<task>.<us>.<when> */
static bool make_path(const char *root, const struct dump_kernel *k, const char *model_name,
                      enum dump_when when, char *path, size_t size)
{
    char kernel[NAME_MAX_BYTES], folder[NAME_MAX_BYTES + 64] = "", call[16] = "";
    struct timespec now;
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(kernel, sizeof(kernel), "%.200s", k->name);
    take_slashes(kernel);
    if (k->model != 0) {
        snprintf(folder, sizeof(folder), "%.200s.%llu", model_name[0] ? model_name : "model",
                 (unsigned long long)k->model);
        take_slashes(folder);
        n = (int)strlen(folder);
        snprintf(folder + n, sizeof(folder) - (size_t)n, "/%llu/",
                 (unsigned long long)k->execution);
        snprintf(call, sizeof(call), "_%u", k->call);
    }
    n = snprintf(path, size, "%s/%d/%s%s%s.%d.%u.%lld%06ld.%s", root, k->device, folder, kernel,
                 call, k->stream, k->task, (long long)now.tv_sec, now.tv_nsec / 1000,
                 endings[when]);
    return n > 0 && (size_t)n < size;
}

static cJSON *describe(const struct dump_kernel *k, const char *model_name, enum dump_when when)
{
    cJSON *head = cJSON_CreateObject();

    cJSON_AddStringToObject(head, "dump", "data");
    cJSON_AddStringToObject(head, "when", endings[when]);
    cJSON_AddStringToObject(head, "kernel", k->name);
    cJSON_AddNumberToObject(head, "device", k->device);
    cJSON_AddNumberToObject(head, "stream", k->stream);
    cJSON_AddNumberToObject(head, "task", k->task);
    if (k->model == 0)
        return head;
    cJSON_AddNumberToObject(head, "model", (double)k->model);
    cJSON_AddStringToObject(head, "modelName", model_name);
    cJSON_AddNumberToObject(head, "execution", (double)k->execution);
    cJSON_AddNumberToObject(head, "operator", k->call);
    return head;
}

void dump_kernel_data_slow(const struct dump_kernel *k, enum dump_when when)
{
    char model_name[NAME_MAX_BYTES + 1], root[ACL_DUMP_MAX_FILE_PATH_LENGTH],
        path[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    bool with_bytes;
    struct dump_file f;

    name_model(k->model, model_name, sizeof(model_name));
    if (!dump_take_data(k, model_name, when, root, &with_bytes) ||
        !make_path(root, k, model_name, when, path, sizeof(path)) || !dump_file_begin(&f, path))
        return;
    dump_put_part(&f, describe(k, model_name, when), NULL, 0);
    dump_put_args(&f, k->args, k->args_size);
    dump_put_memory(&f, k->args, k->args_size, with_bytes);
    dump_file_end(&f);
}
