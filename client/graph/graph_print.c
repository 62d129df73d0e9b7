/*
 * Graphs in files and in the log: aclmdlRIDebugJsonPrint writes what Chrome's and Perfetto's
 * viewers read, an array of an object per recorded call. Times are positions.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/graph/graph.h"
#include "client/runtime/base.h"
#include "client/runtime/stream_callbacks.h"
#include "proto/util/lift_fd.h"

/* In the order of the ops of tasks. */
static const char *name_of_op(unsigned op)
{
    static const char *const names[TASK_OPS] = {
        [TASK_COPY] = "MEMCPY",
        [TASK_SET] = "MEMSET",
        [TASK_DELAY] = "DELAY",
        [TASK_CALLBACK] = "HOST_FUNC",
        [TASK_NOTIFY_RECORD] = "NOTIFY_RECORD",
        [TASK_NOTIFY_WAIT] = "NOTIFY_WAIT",
        [TASK_COUNT_RECORD] = "CNT_NOTIFY_RECORD",
        [TASK_COUNT_WAIT] = "CNT_NOTIFY_WAIT",
        [TASK_REDUCE] = "REDUCE",
    };

    return op < TASK_OPS && names[op] ? names[op] : "TASK";
}

static const char *type_of(const struct graph_node *node)
{
    static const char *const names[] = {
        [NODE_KERNEL] = "KERNEL",
        [NODE_RECORD] = "EVENT_RECORD",
        [NODE_WAIT] = "EVENT_WAIT",
        [NODE_RESET] = "EVENT_RESET",
        [NODE_VALUE_WRITE] = "VALUE_WRITE",
        [NODE_VALUE_WAIT] = "VALUE_WAIT",
        [NODE_COND] = "COND",
        [NODE_START] = "STREAM_ACTIVE",
        [NODE_LABEL] = "LABEL_SET",
        [NODE_SWITCH_LABEL] = "LABEL_SWITCH",
    };

    return node->kind != NODE_TASK ? names[node->kind] : name_of_op(node->task.op);
}

static void describe(const struct graph *g, const struct graph_node *node,
                     struct work_description *d)
{
    const struct graph *root = g;
    const struct stream_work *w;

    *d = (struct work_description){0};
    while (root->parent)
        root = root->parent;
    if (node->task.op != TASK_CALLBACK || !node->has_task || !root->calls ||
        node->call >= root->calls->n)
        return;
    w = root->calls->call[node->call].work;
    if (w && w->describe)
        w->describe(w, d);
}

/* --- one call --- */

/* Also edges have the number of their event, so that they can be read off. */
static void name_node(const struct graph_node *node, const struct work_description *d, char *name,
                      size_t size)
{
    const char *type = type_of(node);

    if (d->name)
        snprintf(name, size, "%s", d->name);
    else if (node->event)
        snprintf(name, size, "%s_%u", type,
                 (unsigned)slots_number((uint32_t)(uintptr_t)node->event & 0xffffff));
    else
        snprintf(name, size, "%s", type);
}

static void add_hex(cJSON *args, const struct work_description *d)
{
    const unsigned char *bytes = d->args;
    char *text = malloc(2 * d->size + 1);

    if (!text)
        return;
    for (size_t i = 0; i < d->size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    text[2 * d->size] = '\0';
    cJSON_AddStringToObject(args, "Args", text);
    free(text);
}

static cJSON *args_of(const struct graph *g, uint32_t i, const struct work_description *d,
                      bool verbose)
{
    const struct graph_node *node = &g->nodes[i];
    cJSON *args = cJSON_CreateObject();

    cJSON_AddNumberToObject(args, "Model Id", (double)g->id);
    cJSON_AddNumberToObject(args, "Stream Id", g->branches[node->branch].id);
    cJSON_AddNumberToObject(args, "Task Id", i);
    cJSON_AddStringToObject(args, "Task Type", d->name ? "KERNEL" : type_of(node));
    if (node->kind == NODE_START)
        cJSON_AddNumberToObject(args, "Active Stream Id", g->branches[node->other].id);
    if (node->info)
        cJSON_AddStringToObject(args, "ExtendInfo", node->info);
    else if (node->group != 0)
        cJSON_AddNumberToObject(args, "ExtendInfo", node->group);
    if (d->name)
        cJSON_AddNumberToObject(args, "Numblocks", d->blocks);
    if (d->name && verbose)
        add_hex(args, d);
    return args;
}

static void add_node(cJSON *array, const struct graph *g, uint32_t i, bool verbose)
{
    const struct graph_node *node = &g->nodes[i];
    cJSON *object = cJSON_CreateObject();
    struct work_description d;
    char text[256];

    describe(g, node, &d);
    name_node(node, &d, text, sizeof(text));
    cJSON_AddStringToObject(object, "name", text);
    snprintf(text, sizeof(text), "%llu aclGraph", (unsigned long long)g->id);
    cJSON_AddStringToObject(object, "pid", text);
    snprintf(text, sizeof(text), "stream%d", g->branches[node->branch].id);
    cJSON_AddStringToObject(object, "tid", text);
    cJSON_AddNumberToObject(object, "ts", i);
    cJSON_AddNumberToObject(object, "dur", 1);
    cJSON_AddStringToObject(object, "ph", "X");
    cJSON_AddItemToObject(object, "args", args_of(g, i, &d, verbose));
    cJSON_AddItemToArray(array, object);
}

/* --- files --- */

static int write_text(const char *function, const char *path, const char *text)
{
    int fd = lift_fd(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool written = file && fputs(text, file) >= 0;

    if (file && fclose(file) != 0)
        written = false;
    if (!file && fd >= 0)
        close(fd);
    return written ? 0
                   : error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s cannot be written: %m", function,
                               path);
}

static int print_json(const struct graph *g, const char *function, const char *path, bool verbose)
{
    cJSON *array = cJSON_CreateArray();
    char *text;
    int error;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        callback_lock(); /* what is printed of a kernel goes when a task group is exchanged */
        add_node(array, g, i, verbose);
        callback_unlock();
    }
    text = cJSON_Print(array);
    cJSON_Delete(array);
    error = text ? write_text(function, path, text) : error_no_memory(function);
    cJSON_free(text);
    return error;
}

/* The nodes do not change any more. */
static int check_complete(struct graph *g, const char *function)
{
    bool captures;

    captures_lock(g->session);
    captures = g->phase == GRAPH_CAPTURES;
    captures_unlock(g->session);
    return captures ? error_set(ACL_ERROR_RT_MODEL_CAPTURED,
                                "%s: the model is being captured: end the capture first", function)
                    : 0;
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    REQUIRE(path);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = check_complete(g, __func__);
    if (error == 0)
        error = print_json(g, __func__, path, flags == ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE);
    graph_put(g);
    return error;
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = check_complete(g, __func__);
    for (uint32_t i = 0; error == 0 && i < g->n_nodes; i++)
        base_log(ACL_INFO, __func__, __FILE__, __LINE__,
                 "model %llu, device %u, stream %d, task %u: %s", (unsigned long long)g->id,
                 g->device, g->branches[g->nodes[i].branch].id, i, type_of(&g->nodes[i]));
    graph_put(g);
    return error;
}
