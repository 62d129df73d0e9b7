/*
 * Single tasks of a graph, which are looked at and changed (aclmdlRITask*). Handles of tasks are
 * the addresses of nodes, and those of a graph's streams the addresses of its branches: neither
 * moves any more once the graph can be executed. A change takes effect in aclmdlRIUpdate(), which
 * writes it into the list.
 */
#include <string.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/graph_calls.h"
#include "client/callback/stream_work.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/event/event.h"
#include "client/graph/graph.h"
#include "client/memory/checked_access.h"
#include "client/memory/place.h"
#include "client/runtime/context.h"
#include "client/runtime/stream_callbacks.h"

/* --- finding --- */

static int error_no_task(const char *function, const char *what)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: this is no %s of a model that is complete",
                     function, what);
}

/* Is it one of the elements of an array? */
static bool is_element(const void *p, const void *array, size_t n, size_t size)
{
    uintptr_t offset = (uintptr_t)p - (uintptr_t)array;

    return array && offset < n * size && offset % size == 0;
}

static bool has_node(const struct graph *g, const void *handle)
{
    return is_element(handle, g->nodes, g->n_nodes, sizeof(*g->nodes));
}

static bool has_branch(const struct graph *g, const void *handle)
{
    return is_element(handle, g->branches, g->n_branches, sizeof(*g->branches));
}

/* The graph of which that is one, with a reference, or NULL. */
static struct graph *owner_of(const void *handle,
                              bool (*has)(const struct graph *g, const void *handle))
{
    struct session *s = session_peek();
    struct graph *g, *found = NULL;

    if (!s)
        return NULL;
    captures_lock(s);
    for (uint32_t i = 0; !found && graph_at(s, i, &g); i++)
        if (g && g->phase == GRAPH_READY && has(g, handle))
            found = g;
    if (found)
        found->refs++;
    captures_unlock(s);
    return found;
}

/* The same, NULL with *error set. */
static struct graph *find_owner(const char *function, const void *handle,
                                bool (*has)(const struct graph *g, const void *handle),
                                const char *what, int *error)
{
    struct graph *found;

    *error = process_enter();
    if (*error != 0)
        return NULL;
    found = owner_of(handle, has);
    if (!found)
        *error = error_no_task(function, what);
    return found;
}

static struct graph *find_task(const char *function, aclmdlRITask task, struct graph_node **node,
                               int *error)
{
    struct graph *g;

    if (!task) {
        *error = error_null(function, "task");
        return NULL;
    }
    g = find_owner(function, task, has_node, "task", error);
    *node = task;
    return g;
}

/* --- lists: filled as far as they reach; 107039 if that is too short --- */

static int count_out(const char *function, uint32_t there, uint32_t had, bool only_count,
                     uint32_t *num)
{
    *num = there;
    if (only_count || had >= there)
        return 0;
    return error_set(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "%s: there are %u, and room for %u",
                     function, there, had);
}

aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    REQUIRE(numStreams);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    for (uint32_t i = 0; streams && i < *numStreams; i++)
        streams[i] = i < g->n_branches ? &g->branches[i] : NULL;
    error = count_out(__func__, g->n_branches, *numStreams, !streams, numStreams);
    graph_put(g);
    return error;
}

static uint32_t list_tasks(struct graph *g, uint32_t branch, aclmdlRITask *tasks, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].branch != branch)
            continue;
        if (tasks && n < max)
            tasks[n] = &g->nodes[i];
        n++;
    }
    for (uint32_t i = n; tasks && i < max; i++)
        tasks[i] = NULL;
    return n;
}

aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks)
{
    CALL_SCOPE;
    struct graph *g;
    uint32_t n;
    int error;

    REQUIRE(stream);
    REQUIRE(numTasks);
    g = FIND_OR_RETURN(find_owner, __func__, stream, has_branch, "stream");
    n = list_tasks(g, (uint32_t)((struct graph_branch *)stream - g->branches), tasks, *numTasks);
    error = count_out(__func__, n, *numTasks, !tasks, numTasks);
    graph_put(g);
    return error;
}

/* A stream of a model has the number under which the dump of the model has it. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    CALL_SCOPE;
    REQUIRE(streamId);
    int error = process_enter();
    struct graph *g = error == 0 && stream ? owner_of(stream, has_branch) : NULL;

    if (error != 0)
        return error;
    if (g) {
        *streamId = ((struct graph_branch *)stream)->id;
        graph_put(g);
        return 0;
    }
    *streamId = FIND_OR_RETURN(stream_find_anywhere, __func__, stream)->id;
    return 0;
}

/* --- looking --- */

/* Of a graph that can be executed; NULL: a call of the program, or none. */
static const struct stream_work *work_of(const struct graph *g, const struct graph_node *node)
{
    while (g->parent)
        g = g->parent;
    if (node->task.op != TASK_CALLBACK || !node->has_task || !g->calls)
        return NULL;
    if (node->changed_work)
        return node->changed_work;
    return g->calls->call[node->call].work;
}

static aclmdlRITaskType type_of(const struct graph *g, const struct graph_node *node)
{
    const struct stream_work *w = work_of(g, node);

    if (w && w->kind == STREAM_WORK_KERNEL)
        return ACL_MODEL_RI_TASK_KERNEL;
    switch (node->kind) {
    case NODE_RECORD:
        return ACL_MODEL_RI_TASK_EVENT_RECORD;
    case NODE_WAIT:
        return ACL_MODEL_RI_TASK_EVENT_WAIT;
    case NODE_RESET:
        return ACL_MODEL_RI_TASK_EVENT_RESET;
    case NODE_VALUE_WRITE:
        return ACL_MODEL_RI_TASK_VALUE_WRITE;
    case NODE_VALUE_WAIT:
        return ACL_MODEL_RI_TASK_VALUE_WAIT;
    default:
        return ACL_MODEL_RI_TASK_DEFAULT;
    }
}

aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;

    REQUIRE(type);
    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    callback_lock(); /* no exchange comes in between */
    *type = type_of(g, node);
    callback_unlock();
    graph_put(g);
    return 0;
}

aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;

    REQUIRE(id);
    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    *id = (uint32_t)(node - g->nodes);
    graph_put(g);
    return 0;
}

static uint32_t event_flags(const struct graph *g, const void *event)
{
    const struct event *e = handle_get(&g->session->events, HANDLE_EVENT, event);

    return e ? e->flags : 0;
}

static void get_kernel(const struct stream_work *w, aclmdlRIKernelTaskParams *kernel)
{
    struct work_description d;

    w->describe(w, &d);
    kernel->funcHandle = d.function;
    kernel->args = (void *)(uintptr_t)(d.device_args ? d.device_args : d.args);
    kernel->isHostArgs = 0;
    kernel->argsSize = d.size;
    kernel->numBlocks = d.blocks;
}

static int get_params(const struct graph *g, const struct graph_node *node, const char *function,
                      aclmdlRITaskParams *p)
{
    *p = (aclmdlRITaskParams){.type = type_of(g, node)};
    switch (p->type) {
    case ACL_MODEL_RI_TASK_KERNEL:
        get_kernel(work_of(g, node), &p->kernelTaskParams);
        return 0;
    case ACL_MODEL_RI_TASK_EVENT_RECORD:
        p->eventRecordTaskParams =
            (aclmdlRIEventRecordTaskParams){node->event, event_flags(g, node->event), node->flag};
        return 0;
    case ACL_MODEL_RI_TASK_EVENT_WAIT:
        p->eventWaitTaskParams =
            (aclmdlRIEventWaitTaskParams){node->event, event_flags(g, node->event), node->flag};
        return 0;
    case ACL_MODEL_RI_TASK_EVENT_RESET:
        p->eventResetTaskParams =
            (aclmdlRIEventResetTaskParams){node->event, event_flags(g, node->event), node->flag};
        return 0;
    case ACL_MODEL_RI_TASK_VALUE_WRITE:
        p->valueWriteTaskParams =
            (aclmdlRIValueWriteTaskParams){node->address, node->task.value.value};
        return 0;
    case ACL_MODEL_RI_TASK_VALUE_WAIT:
        p->valueWaitTaskParams =
            (aclmdlRIValueWaitTaskParams){node->address, node->task.value.value, node->task.flags};
        return 0;
    default:
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a task of this kind has no parameters",
                         function);
    }
}

aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;
    int error;

    REQUIRE(params);
    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    callback_lock();
    error = get_params(g, node, __func__, params);
    callback_unlock();
    graph_put(g);
    return error;
}

static int get_attribute(const struct graph *g, const struct graph_node *node, const char *function,
                         unsigned id, aclrtLaunchKernelAttrValue *value)
{
    const struct stream_work *w = work_of(g, node);

    if (w && w->attribute && w->attribute(w, id, value))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the task is no kernel, or attribute %u cannot be asked for", function,
                     id);
}

aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask task, aclrtLaunchKernelAttrId attrId,
                                        aclrtLaunchKernelAttrValue *attrValue)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;
    int error;

    REQUIRE(attrValue);
    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    callback_lock();
    error = get_attribute(g, node, __func__, attrId, attrValue);
    callback_unlock();
    graph_put(g);
    return error;
}

/* --- changing --- */

/* An exchange would take what a call looks at, or has changed. */
static bool is_exchanged(const struct graph *g)
{
    bool is;

    callback_lock();
    is = g->calls && g->calls->exchanges > 0;
    callback_unlock();
    return is;
}

static int check_changeable(struct graph *g, const char *function)
{
    bool runs;

    if (g->parent || !g->captured)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: tasks of nested models, and of those built by hand, stay", function);
    pthread_mutex_lock(&g->session->captures.run_lock);
    runs = !point_passed(&g->last);
    pthread_mutex_unlock(&g->session->captures.run_lock);
    if (is_exchanged(g))
        return error_set(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
                         "%s: a task group of the model is being updated: synchronise the stream "
                         "of its update window first",
                         function);
    return runs ? error_set(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
                            "%s: the model runs: synchronise its stream first", function)
                : 0;
}

/* What the task will be; it is there already in node->task, and in the list after an update. */
static int set_value(struct graph *g, struct graph_node *node, const char *function, void *address,
                     uint64_t value, uint8_t flag)
{
    struct place at;

    if ((uintptr_t)address % sizeof(value) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: devAddr (%p) is not aligned to 8 bytes",
                         function, address);
    RETURN_IF_ERROR(
        place_find_device(g->session, function, g->device, "devAddr", address, sizeof(value), &at));
    if (at.kind != PLACE_DEVICE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: devAddr (%p) must be device memory",
                         function, address);
    node->task.object = at.memory.remote;
    node->task.generation = at.memory.remote_generation;
    node->task.value.offset = place_remote_offset(&at);
    node->task.value.value = value;
    node->task.flags = flag;
    node->address = address;
    node->changed = true;
    return 0;
}

static bool is_args_of(const struct stream_work *w, const void *args)
{
    struct work_description d;

    w->describe(w, &d);
    return args == d.args;
}

/* What aclmdlRITaskGetParams() gave as device memory is the task's, and goes with it. */
static bool is_own_args(const struct graph *g, const struct graph_node *node, const void *args)
{
    return is_args_of(g->calls->call[node->call].work, args) ||
           (node->changed_work && is_args_of(node->changed_work, args));
}

static int set_kernel(const struct graph *g, struct graph_node *node, const char *function,
                      const aclmdlRITaskParams *p)
{
    const struct stream_work *w = work_of(g, node);
    aclmdlRIKernelTaskParams kernel = p->kernelTaskParams;
    struct stream_work *changed;
    int error;

    if (p->type != ACL_MODEL_RI_TASK_KERNEL || p->taskGrp)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: type must be that of the task, and taskGrp NULL", function);
    if (is_own_args(g, node, kernel.args))
        kernel.isHostArgs = 1;
    changed = w->change(w, function, &kernel, &error);
    if (!changed)
        return error;
    stream_work_free(node->changed_work); /* not before: the arguments may be those */
    node->changed_work = changed;
    return 0;
}

static int set_params(struct graph *g, struct graph_node *node, const char *function,
                      const aclmdlRITaskParams *p)
{
    aclmdlRITaskType type = type_of(g, node);

    RETURN_IF_ERROR(check_changeable(g, function));
    if (type == ACL_MODEL_RI_TASK_KERNEL)
        return set_kernel(g, node, function, p);
    if (p->type != type || p->taskGrp ||
        (type != ACL_MODEL_RI_TASK_VALUE_WRITE && type != ACL_MODEL_RI_TASK_VALUE_WAIT) ||
        (node->task.op != TASK_VALUE_WRITE && node->task.op != TASK_VALUE_WAIT))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: type must be that of the task, a value write or wait in device "
                         "memory, and taskGrp NULL",
                         function);
    if (type == ACL_MODEL_RI_TASK_VALUE_WRITE)
        return set_value(g, node, function, p->valueWriteTaskParams.devAddr,
                         p->valueWriteTaskParams.value, 0);
    if (p->valueWaitTaskParams.flag > ACL_STREAM_WAIT_VALUE_NOR)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: flag is %u, must be 0 to 3", function,
                         p->valueWaitTaskParams.flag);
    return set_value(g, node, function, p->valueWaitTaskParams.devAddr,
                     p->valueWaitTaskParams.value, (uint8_t)p->valueWaitTaskParams.flag);
}

aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;
    int error;

    REQUIRE(params);
    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    error = set_params(g, node, __func__, params);
    graph_put(g);
    return error;
}

static int disable(struct graph *g, struct graph_node *node, const char *function)
{
    RETURN_IF_ERROR(check_changeable(g, function));
    if (type_of(g, node) == ACL_MODEL_RI_TASK_DEFAULT)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a task of this kind cannot be disabled",
                         function);
    node->disabled = true;
    node->changed = true;
    return 0;
}

aclError aclmdlRITaskDisable(aclmdlRITask task)
{
    CALL_SCOPE;
    struct graph_node *node;
    struct graph *g;
    int error;

    g = FIND_OR_RETURN(find_task, __func__, task, &node);
    error = disable(g, node, __func__);
    graph_put(g);
    return error;
}

void graph_note_kernel(struct graph *g, struct graph_node *node, const struct stream_work *kernel)
{
    struct work_description d;

    kernel->describe(kernel, &d);
    graph_checks_free(node->checks);
    node->checks = checked_graph_kernel(g->session, d.args, d.size / sizeof(uint64_t));
}

static void change_kernel(struct graph *g, struct graph_node *node)
{
    struct stream_work *over;

    if (checked_runs())
        graph_note_kernel(g, node, node->changed_work);
    callback_lock();
    over = graph_calls_replace(g->calls, &node->call, &node->changed_work, 1);
    callback_unlock();
    node->changed_work = NULL;
    graph_works_drop(over);
}

static void write_changes(struct graph *g)
{
    struct task *tasks = g->list ? graph_list_tasks(g->list) : NULL;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct graph_node *node = &g->nodes[i];

        if (node->changed_work)
            change_kernel(g, node);
        if (node->changed && node->has_task && tasks)
            tasks[node->at] = node->disabled ? (struct task){.op = TASK_NOP} : node->task;
        node->changed = false;
    }
}

aclError aclmdlRIUpdate(aclmdlRI modelRI)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = g->phase == GRAPH_CAPTURES
                ? error_set(ACL_ERROR_RT_MODEL_CAPTURED, "aclmdlRIUpdate: the model is captured")
                : check_changeable(g, __func__);
    if (error == 0)
        write_changes(g);
    graph_put(g);
    return error;
}
