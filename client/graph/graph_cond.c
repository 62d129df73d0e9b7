#include "client/graph/graph_cond.h"

#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/graph/graph.h"
#include "client/graph/graph_compile.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "proto/shm/graph_shm.h"

#define SIZE_MAX_NESTED 1024u

/** A condition: the handle, and the task that uses it. */
struct graph_cond {
    struct graph *graph;
    uint64_t *word; /* device memory */
    struct memory memory;
    uint64_t value;
    bool assigns; /* the word is set before each execution */
    bool used;    /* by a task */
    aclmdlRICondTaskType type;
    uint32_t size;
    struct graph **nested;
    struct graph_cond *next; /* graph->conds */
};

/* --- tasks --- */

static struct task jump_if(const struct graph_cond *c, enum jump_condition condition,
                           uint64_t value)
{
    return (struct task){.op = TASK_JUMP,
                         .flags = (uint8_t)condition,
                         .object = c->memory.remote,
                         .generation = c->memory.remote_generation,
                         .jump = {.offset = c->memory.remote_offset, .right = value, .wide = 1}};
}

static const struct task jump_always = {.op = TASK_JUMP, .flags = JUMP_ALWAYS};

static void emit_if(struct emit *e, const struct graph_cond *c)
{
    struct task zero = jump_if(c, JUMP_EQUAL, 0);
    uint32_t out = emit_jump(e, &zero, 0), end;

    emit_graph(e, c->nested[0]);
    if (c->size == 1) {
        emit_land(e, out);
        return;
    }
    end = emit_jump(e, &jump_always, 0);
    emit_land(e, out);
    emit_graph(e, c->nested[1]);
    emit_land(e, end);
}

static void emit_while(struct emit *e, const struct graph_cond *c)
{
    struct task zero = jump_if(c, JUMP_EQUAL, 0);
    uint32_t out = emit_jump(e, &zero, 0);

    e->loops = true;
    emit_graph(e, c->nested[0]);
    emit_jump(e, &jump_always, out);
    emit_land(e, out);
}

/* For each value: not this one, on to the next. */
static void emit_switch(struct emit *e, const struct graph_cond *c)
{
    uint32_t *ends = calloc(c->size, sizeof(*ends));

    if (!ends) {
        e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < c->size; i++) {
        struct task other = jump_if(c, JUMP_NOT_EQUAL, i);
        uint32_t next = emit_jump(e, &other, 0);

        emit_graph(e, c->nested[i]);
        ends[i] = emit_jump(e, &jump_always, 0);
        emit_land(e, next);
    }
    for (uint32_t i = 0; i < c->size; i++)
        emit_land(e, ends[i]);
    free(ends);
}

void cond_emit(struct emit *e, struct graph_cond *c)
{
    static void (*const emitters[])(struct emit * e, const struct graph_cond *c) = {
        [ACL_MODEL_RI_COND_TYPE_IF] = emit_if,
        [ACL_MODEL_RI_COND_TYPE_WHILE] = emit_while,
        [ACL_MODEL_RI_COND_TYPE_SWITCH] = emit_switch,
    };

    emitters[c->type](e, c);
}

void conds_emit_defaults(struct emit *e, struct graph *g)
{
    struct graph_cond *c;

    LL_FOREACH (g->conds, c) {
        struct task set = {.op = TASK_VALUE_WRITE,
                           .object = c->memory.remote,
                           .generation = c->memory.remote_generation,
                           .value = {.offset = c->memory.remote_offset, .value = c->value}};

        if (c->assigns)
            emit_task(e, &set);
        for (uint32_t i = 0; i < c->size; i++)
            conds_emit_defaults(e, c->nested[i]);
    }
}

struct task cond_test(const struct graph_cond *cond)
{
    struct task task = jump_if(cond, JUMP_EQUAL, 0);

    task.op = TASK_JUMP;
    return task;
}

const struct graph *cond_nested(const struct graph_cond *cond, uint32_t i)
{
    return i < cond->size ? cond->nested[i] : NULL;
}

/* --- life --- */

bool graph_has_open_nested(const struct graph *g)
{
    const struct graph_cond *c;

    LL_FOREACH (g->conds, c)
        for (uint32_t i = 0; i < c->size; i++)
            if (c->nested[i]->phase == GRAPH_CAPTURES || graph_has_open_nested(c->nested[i]))
                return true;
    return false;
}

static void free_nested(struct graph *g)
{
    if (!g)
        return;
    captures_lock(g->session);
    if (g->phase == GRAPH_CAPTURES)
        capture_leave(g);
    g->phase = GRAPH_BROKEN;
    g->parent = NULL;
    graph_unpublish(g);
    captures_unlock(g->session);
    graph_put(g);
}

static void free_word(struct graph_cond *c)
{
    struct error_saved ignored;

    if (!c->word || session_lost(c->graph->session))
        return;
    error_save(&ignored); /* its device may have been reset */
    memory_free("aclmdlRIDestroy", c->word, false);
    error_save_end(&ignored);
}

void conds_free(struct graph *g)
{
    struct graph_cond *c, *next;

    LL_FOREACH_SAFE (g->conds, c, next) {
        for (uint32_t i = 0; i < c->size; i++)
            free_nested(c->nested[i]);
        free_word(c);
        free(c->nested);
        free(c);
    }
    g->conds = NULL;
}

/* --- handles --- */

static int check_capturing(struct graph *g, const char *function)
{
    if (!g->captured && !g->parent)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the model is built by hand, and has no conditions", function);
    if (g->phase == GRAPH_CAPTURES)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the model is not being captured: call aclmdlRICaptureBegin first",
                     function);
}

static int make_word(struct graph_cond *c, const char *function)
{
    struct context *current = FIND_OR_RETURN(context_get, function);
    void *address = NULL;
    int error;

    if (current != c->graph->context)
        return error_set(ACL_ERROR_RT_MODEL_CONTEXT, "%s: the model is of another context",
                         function);
    FIND_OR_RETURN(memory_make, current, function, sizeof(*c->word), false, &address);
    c->word = address;
    error = memory_look_up(current->session, address, &c->memory)
                ? 0
                : error_set(ACL_ERROR_RT_CONTEXT_NULL, "%s: the device was reset", function);
    if (error == 0)
        memory_populate(current->session, &c->memory, 0, sizeof(*c->word));
    return error;
}

static int create_handle(struct graph *g, const char *function, uint64_t value, bool assigns,
                         aclmdlRICondHandle *handle)
{
    struct graph_cond *c = calloc(1, sizeof(*c));
    int error;

    if (!c)
        return error_no_memory(function);
    *c = (struct graph_cond){.graph = g, .value = value, .assigns = assigns};
    error = make_word(c, function);
    if (error != 0) {
        free(c);
        return error;
    }
    captures_lock(g->session);
    LL_APPEND(g->conds, c);
    captures_unlock(g->session);
    *handle = c;
    return 0;
}

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultValue,
                                  aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    REQUIRE(handle);
    if ((unsigned)flag > ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclmdlRICondHandleCreate: flag is %u, must be 0 or 1", (unsigned)flag);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = check_capturing(g, __func__);
    if (error == 0)
        error = create_handle(g, __func__, defaultValue,
                              flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, handle);
    graph_put(g);
    return error;
}

/* The condition of that address, of any graph of the session. Under the lock. */
static struct graph_cond *find_cond(struct session *s, const void *handle)
{
    struct graph_cond *c = NULL;
    struct graph *g;

    for (uint32_t i = 0; !c && graph_at(s, i, &g); i++)
        if (g)
            LL_FOREACH (g->conds, c)
                if (c == handle)
                    break;
    return c;
}

static int error_no_handle(const char *function)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no such condition handle", function);
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **condPtr)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct graph_cond *c = NULL;

    REQUIRE(handle);
    REQUIRE(condPtr);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        captures_lock(s);
        c = find_cond(s, handle);
        *condPtr = c ? c->word : NULL;
        captures_unlock(s);
    }
    return c ? 0 : error_no_handle(__func__);
}

/* --- tasks --- */

static int check_params(const aclmdlRICondTaskParams *p, const char *function, uint32_t flags)
{
    const char *wrong = NULL;

    if (flags != 0)
        wrong = "flag is not 0";
    else if (!p->handle || !p->modelRIArray)
        wrong = "handle or modelRIArray is NULL";
    else if ((unsigned)p->type > ACL_MODEL_RI_COND_TYPE_SWITCH)
        wrong = "type is unknown";
    else if (p->size == 0 || p->size > SIZE_MAX_NESTED ||
             (p->type == ACL_MODEL_RI_COND_TYPE_IF && p->size > 2) ||
             (p->type == ACL_MODEL_RI_COND_TYPE_WHILE && p->size != 1))
        wrong = "size does not fit the type";
    return wrong ? error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s", function, wrong) : 0;
}

static bool make_nested(struct graph_cond *c)
{
    c->nested = calloc(c->size, sizeof(struct graph *));
    if (!c->nested)
        return false;
    for (uint32_t i = 0; i < c->size; i++) {
        c->nested[i] = graph_new(c->graph->context);
        if (!c->nested[i])
            return false;
        c->nested[i]->parent = c->graph;
        c->nested[i]->phase = GRAPH_BUILDS;
    }
    return true;
}

static void drop_nested(struct graph_cond *c)
{
    for (uint32_t i = 0; c->nested && i < c->size; i++)
        free_nested(c->nested[i]);
    free(c->nested);
    c->nested = NULL;
    c->size = 0;
}

/* Under the lock: the task stands in the graph. False: no memory. */
static bool add_node(struct stream *s, struct graph_cond *c)
{
    struct graph_node *node = graph_add(c->graph, s->capture_branch);

    if (!node)
        return false;
    node->kind = NODE_COND;
    node->cond = c;
    return true;
}

/* Locked. *cond is claimed for the task. */
static int claim_cond(struct stream *s, const char *function, const aclmdlRICondTaskParams *p,
                      struct graph_cond **cond)
{
    struct graph *g;
    int error = 0;

    captures_lock(s->session);
    g = atomic_load_explicit(&s->capture, memory_order_relaxed);
    *cond = find_cond(s->session, p->handle);
    if (!g)
        error = ACL_ERROR_RT_STREAM_NOT_CAPTURED;
    else if (!*cond || (*cond)->graph != g || (*cond)->used)
        error = ACL_ERROR_RT_PARAM_INVALID;
    else
        (*cond)->used = true;
    captures_unlock(s->session);
    if (error == ACL_ERROR_RT_STREAM_NOT_CAPTURED)
        return error_set(error,
                         "%s: the stream is not being captured: call aclmdlRICaptureBegin first",
                         function);
    return error == 0 ? 0
                      : error_set(error,
                                  "%s: the handle is none, is of another model than the one that "
                                  "the stream captures, or has its task already",
                                  function);
}

static int add_task(struct stream *s, const char *function, const aclmdlRICondTaskParams *p)
{
    struct graph_cond *c;
    bool added;

    RETURN_IF_ERROR(claim_cond(s, function, p, &c));
    RETURN_IF_ERROR(stream_check(s, function));
    c->type = p->type;
    c->size = p->size;
    added = make_nested(c);
    if (added) {
        captures_lock(s->session);
        added = add_node(s, c);
        captures_unlock(s->session);
    }
    if (!added) {
        drop_nested(c);
        return error_no_memory(function);
    }
    for (uint32_t i = 0; i < c->size; i++)
        p->modelRIArray[i] = c->nested[i]->handle;
    return 0;
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(stream);
    RETURN_IF_ERROR(check_params(&params, __func__, flag));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = add_task(s, __func__, &params);
    stream_unlock(s);
    return error;
}
