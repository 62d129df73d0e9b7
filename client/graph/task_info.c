/* What tools say of the task that the calling thread has recorded last. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/graph/graph.h"

/*
 * The graph, with a reference, and its node. NULL with *error set: what the thread has submitted
 * last went to no model, or the model has ended.
 */
static struct graph *find_last(const char *function, uint32_t *node, int *error)
{
    const struct thread *t = thread_self();
    struct session *s = session_peek();
    struct graph *g = NULL;

    *error = process_enter();
    if (*error != 0)
        return NULL;
    *node = (uint32_t)t->last_task;
    if (s && (t->last_task & THREAD_TASK_RECORDED))
        g = graph_get(s, t->last_model);
    if (!g)
        *error = error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                           "%s: the last task of this thread is none of a model", function);
    return g;
}

static int check(const char *function, size_t size)
{
    return size ? 0 : error_set(ACL_ERROR_INVALID_PARAM, "%s: infoSize is 0", function);
}

/* npud has no tool that would read it. */
aclError aclrtCacheLastTaskOpInfo(const void *const infoPtr, const size_t infoSize)
{
    CALL_SCOPE;
    uint32_t node;

    REQUIRE(infoPtr);
    RETURN_IF_ERROR(check(__func__, infoSize));
    graph_put(FIND_OR_RETURN(find_last, __func__, &node));
    return 0;
}

aclError aclrtCacheLastTaskExtendInfo(const char *const extendInfoPtr, const size_t infoSize)
{
    CALL_SCOPE;
    struct graph *g;
    char *text, *before;
    uint32_t node;

    REQUIRE(extendInfoPtr);
    RETURN_IF_ERROR(check(__func__, infoSize));
    g = FIND_OR_RETURN(find_last, __func__, &node);
    text = strndup(extendInfoPtr, infoSize);
    if (!text) {
        graph_put(g);
        return error_no_memory(__func__);
    }
    captures_lock(g->session);
    before = g->nodes[node].info;
    g->nodes[node].info = text;
    captures_unlock(g->session);
    free(before);
    graph_put(g);
    return 0;
}
