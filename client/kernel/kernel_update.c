/*
 * aclrtTaskUpdateAsync: a task of a model that replaces a kernel of one. Which kernel, and how many
 * blocks, it reads from device memory whenever a stream comes to it.
 */
#include <stdlib.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/graph_calls.h"
#include "client/callback/stream_work.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/kernel/kernel.h"
#include "client/memory/direct.h"
#include "client/memory/place.h"
#include "client/runtime/stream.h"

static const char api[] = "aclrtTaskUpdateAsync";

struct update {
    struct stream_work work;
    struct session *session;
    void *model;   /* handle: the model may be the one that this is a task of */
    uint32_t call; /* of its calls */
    aclrtBinHandle binary;
    struct place entry, blocks; /* words */
};

/* --- running --- */

static int read_word(const struct update *u, const struct place *at, void *word, size_t size)
{
    struct place to = direct_own(word);

    return direct_copy_in_turn(u->session, api, &to, at, size);
}

/*
 * All exchanges of the session are done by this thread: what stands there stays until this one, and
 * nothing is recorded any more.
 */
static int exchange_kernel(const struct update *u, struct graph_calls *calls)
{
    struct kernel_launch launch = {.blocks = 0};
    struct stream_work *kernel, *over;
    uint64_t entry;
    int error;

    RETURN_IF_ERROR(read_word(u, &u->entry, &entry, sizeof(entry)));
    RETURN_IF_ERROR(read_word(u, &u->blocks, &launch.blocks, sizeof(launch.blocks)));
    RETURN_IF_ERROR(kernel_binary_find_entry(api, u->binary, entry, &launch));
    kernel = kernel_task_replace(calls->call[u->call].work, api, &launch, &error);
    if (!kernel)
        return error;
    callback_lock();
    over = graph_calls_replace(calls, &u->call, &kernel, 1);
    callback_unlock();
    graph_works_drop(over);
    return 0;
}

static int run_update(struct stream_work *w)
{
    const struct update *u = (const struct update *)(const void *)w;
    struct graph *g = graph_get(u->session, u->model);
    int error = ACL_ERROR_RT_INVALID_HANDLE;
    bool ready;

    if (!g)
        return error;
    captures_lock(u->session);
    ready = g->phase == GRAPH_READY;
    captures_unlock(u->session);
    error = ready ? exchange_kernel(u, g->calls) : ACL_ERROR_RT_MODEL_EXECUTE;
    graph_put(g);
    return error;
}

static struct stream_work *copy_update(const struct stream_work *w, const struct stream *s,
                                       uint32_t task);

static const struct stream_work update_work = {
    .kind = STREAM_WORK_MEMORY, .run = run_update, .copy = copy_update};

static struct stream_work *copy_update(const struct stream_work *w, const struct stream *s,
                                       uint32_t task)
{
    struct update *u = malloc(sizeof(*u));

    (void)s;
    (void)task;
    if (!u)
        return NULL;
    *u = *(const struct update *)(const void *)w;
    u->work = update_work;
    return &u->work;
}

/* --- recording --- */

static int error_not_bound(void)
{
    return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: both streams must be bound to a model", api);
}

/* Under the lock of captures: is it a kernel that was recorded on the stream? */
static bool is_kernel(const struct graph *g, const struct stream *s, uint32_t task)
{
    const struct graph_node *node = task < g->n_nodes ? &g->nodes[task] : NULL;
    const struct stream_work *w;

    if (!node || node->branch != s->capture_branch || !node->has_task ||
        node->task.op != TASK_CALLBACK)
        return false;
    w = g->calls->call[node->task.callback.ordinal].work;
    return w && w->kind == STREAM_WORK_KERNEL;
}

/* Model and call become those of the update. */
static int find_task(struct update *u, aclrtStream stream, uint32_t task)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, api, stream);
    const struct graph *g = s->model;
    bool found = false;

    captures_lock(s->session);
    if (g)
        found = is_kernel(g, s, task);
    if (found) {
        u->session = s->session;
        u->model = g->handle;
        u->call = (uint32_t)g->nodes[task].task.callback.ordinal;
    }
    captures_unlock(s->session);
    stream_unlock(s);
    if (!g)
        return error_not_bound();
    return found ? 0
                 : error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: task %u of the stream is no kernel of its model", api, task);
}

static int record_locked(struct stream *s, struct update *u, const aclrtAicAivTaskUpdateAttr *p)
{
    if (!s->model)
        return error_not_bound();
    RETURN_IF_ERROR(place_find_device(s->session, api, s->device, "funcEntryAddr", p->funcEntryAddr,
                                      sizeof(uint64_t), &u->entry));
    RETURN_IF_ERROR(place_find_device(s->session, api, s->device, "blockDimAddr", p->blockDimAddr,
                                      sizeof(uint32_t), &u->blocks));
    return stream_work_launch(s, api, &u->work);
}

static int record_update(struct update *u, const aclrtAicAivTaskUpdateAttr *p, aclrtStream stream)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, api, stream);
    int error = record_locked(s, u, p);

    stream_unlock(s);
    return error;
}

static int update_kernel(aclrtStream task_stream, uint32_t task, const aclrtAicAivTaskUpdateAttr *p,
                         aclrtStream stream)
{
    struct update *u;
    int error;

    if (!task_stream || !stream || !p->binHandle || !p->funcEntryAddr || !p->blockDimAddr)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: a stream, binHandle, funcEntryAddr or blockDimAddr is NULL", api);
    u = calloc(1, sizeof(*u));
    if (!u)
        return error_no_memory(api);
    u->work = update_work;
    u->binary = p->binHandle;
    error = find_task(u, task_stream, task);
    if (error == 0)
        error = record_update(u, p, stream);
    if (error != 0)
        free(u);
    return error;
}

/* There is none to update: aclrtRandomNumAsync makes its numbers at the call. */
static int update_random(aclrtStream task_stream, const aclrtRandomTaskUpdateAttr *p)
{
    if (!task_stream || p->size != sizeof(aclrtRandomNumTaskInfo))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: taskStream is NULL, or size not that of aclrtRandomNumTaskInfo", api);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: tasks of random numbers cannot be part of a model", api);
}

aclError aclrtTaskUpdateAsync(aclrtStream taskStream, uint32_t taskId, aclrtTaskUpdateInfo *info,
                              aclrtStream execStream)
{
    CALL_SCOPE;

    REQUIRE(info);
    switch (info->id) {
    case ACL_RT_UPDATE_RANDOM_TASK:
        return update_random(taskStream, &info->val.randomTaskAttr);
    case ACL_RT_UPDATE_AIC_AIV_TASK:
        return update_kernel(taskStream, taskId, &info->val.aicAivTaskAttr, execStream);
    default:
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no update %d", api,
                         (int)info->id);
    }
}
