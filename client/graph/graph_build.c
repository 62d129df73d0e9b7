/*
 * Graphs that are built by hand: streams are bound to a model, and record what they are given
 * (aclmdlRIBuild*, aclrtActiveStream, aclrtSwitchStream).
 *
 * An execution is one list here, too (docs/graphs.md). If each stream begins once, the tasks stand
 * in it as graph_order.c says. Else the tasks of each stream are a section, and what starts another
 * stream is a jump to its section:
 *
 *   aclrtSwitchStream    goes there, and does not come back
 *   aclrtActiveStream    goes there, and comes back behind it, if it is the one place from which
 *                        that stream is started; as the last task of its stream it does not
 *   end of a section     to where it was started; else on to the next stream that starts by itself
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/graph/graph.h"
#include "client/graph/graph_compile.h"
#include "client/graph/graph_label.h"
#include "client/graph/graph_order.h"
#include "client/memory/place.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "proto/shm/graph_shm.h"

#define NO_BRANCH UINT32_MAX

/* --- binding --- */

static int error_bound(const char *function)
{
    return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is bound to a model", function);
}

static int error_not_bound(const char *function)
{
    return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is not bound to this model",
                     function);
}

aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag)
{
    CALL_SCOPE;
    struct context *c;
    struct graph *g;

    REQUIRE(modelRI);
    if (flag != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclmdlRIBuildBegin: flag is %u, must be 0",
                         flag);
    c = FIND_OR_RETURN(context_get, __func__);
    g = graph_new(c);
    if (!g)
        return error_set(
            ACL_ERROR_RT_NO_MODEL_RESOURCE,
            "aclmdlRIBuildBegin: this process has as many models as it may have, or no "
            "memory: destroy some");
    g->phase = GRAPH_BUILDS;
    *modelRI = g->handle;
    return 0;
}

static int check_bind(struct stream *s, const struct graph *g, const char *function, uint32_t flag)
{
    if (g->captured || g->parent || g->phase != GRAPH_BUILDS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the model is captured, or built already",
                         function);
    if (flag != ACL_MODEL_STREAM_FLAG_HEAD && flag != ACL_MODEL_STREAM_FLAG_DEFAULT)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: flag is 0x%x, must be ACL_MODEL_STREAM_FLAG_HEAD or _DEFAULT",
                         function, flag);
    if (s->is_default || !(s->flags & ACL_STREAM_PERSISTENT))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the stream must be created with ACL_STREAM_PERSISTENT", function);
    if (s->model)
        return error_bound(function);
    if (s->flags & ACL_STREAM_FAST_LAUNCH)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the stream was created with ACL_STREAM_FAST_LAUNCH", function);
    return capture_refuse_stream(s, function);
}

static int bind_stream(struct stream *s, struct graph *g, const char *function, uint32_t flag)
{
    bool bound;

    if (g->context != s->context)
        return error_set(ACL_ERROR_RT_MODEL_CONTEXT, "%s: the model is of another context",
                         function);
    RETURN_IF_ERROR(check_bind(s, g, function, flag));
    captures_lock(s->session);
    bound = capture_join(g, s);
    if (bound)
        /* The first one starts with the model, as the reference has it. */
        g->branches[s->capture_branch].waits =
            flag == ACL_MODEL_STREAM_FLAG_DEFAULT && s->capture_branch > 0;
    captures_unlock(s->session);
    if (!bound)
        return error_no_memory(function);
    s->model = g;
    return 0;
}

/* A call about a model and a stream, which is locked. */
static int with_both(const char *function, aclmdlRI model, aclrtStream stream, uint32_t flag,
                     int (*act)(struct stream *s, struct graph *g, const char *function,
                                uint32_t flag))
{
    struct graph *g;
    struct stream *s;
    int error;

    if (!model || !stream)
        return error_null(function, model ? "stream" : "modelRI");
    g = FIND_OR_RETURN(graph_find, function, model);
    s = stream_lock(function, stream, &error);
    if (s) {
        error = act(s, g, function, flag);
        stream_unlock(s);
    }
    graph_put(g);
    return error;
}

aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;

    return with_both(__func__, modelRI, stream, flag, bind_stream);
}

/* Locked. */
static void release_stream(struct stream *s)
{
    captures_lock(s->session);
    atomic_store_explicit(&s->capture, NULL, memory_order_relaxed);
    captures_unlock(s->session);
    s->model = NULL;
}

static int unbind_stream(struct stream *s, struct graph *g, const char *function, uint32_t flag)
{
    (void)flag;
    if (!s->model)
        RETURN_IF_ERROR(capture_refuse_stream(s, function));
    if (s->model != g)
        return error_not_bound(function);
    release_stream(s);
    return 0;
}

aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream)
{
    CALL_SCOPE;

    return with_both(__func__, modelRI, stream, 0, unbind_stream);
}

static int end_task(struct stream *s, struct graph *g, const char *function, uint32_t flag)
{
    (void)flag;
    if (!s->model)
        RETURN_IF_ERROR(capture_refuse_stream(s, function));
    if (s->model != g)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR, "%s: the stream is not bound to this model",
                         function);
    if (g->ended)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR, "%s: the end of the model is marked already",
                         function);
    g->ended = true;
    return 0;
}

aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream)
{
    CALL_SCOPE;

    return with_both(__func__, modelRI, stream, 0, end_task);
}

void graph_release_streams(struct graph *g)
{
    for (uint32_t i = 0; !g->captured && i < g->n_branches; i++) {
        struct stream *s = handle_get(&g->session->streams, HANDLE_STREAM, g->branches[i].handle);

        if (!s)
            continue;
        biased_lock_take(&s->lock);
        if (s->model == g)
            release_stream(s);
        biased_lock_give(&s->lock);
    }
}

/* --- streams that start others --- */

/* Both are bound to the same model, whose nodes these are. Locked: s. */
static int add_start(struct stream *s, const char *function, aclrtStream other,
                     const struct task *jump)
{
    const struct stream *to = handle_get(&s->session->streams, HANDLE_STREAM, other);
    struct graph_node *node = NULL;

    if (!to)
        return stream_error_unknown(function, other);
    if (to->context != s->context)
        return stream_error_foreign(to, s->context, function);
    if (!s->model || to->model != s->model)
        return error_not_bound(function);
    RETURN_IF_ERROR(stream_check(s, function));
    captures_lock(s->session);
    node = graph_add(s->model, s->capture_branch);
    if (node) {
        node->kind = NODE_START;
        node->task = *jump;
        node->other = to->capture_branch;
    }
    captures_unlock(s->session);
    return node ? 0 : error_no_memory(function);
}

aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream)
{
    CALL_SCOPE;
    const struct task always = {.op = TASK_JUMP, .flags = JUMP_ALWAYS};
    struct stream *s;
    int error;

    REQUIRE(activeStream);
    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = add_start(s, __func__, activeStream, &always);
    stream_unlock(s);
    return error;
}

static int add_switch(struct stream *s, const char *function, void *left, void *right,
                      aclrtCondition cond, bool wide, aclrtStream other)
{
    static const uint8_t conditions[] = {JUMP_EQUAL,         JUMP_NOT_EQUAL, JUMP_GREATER,
                                         JUMP_GREATER_EQUAL, JUMP_LESS,      JUMP_LESS_EQUAL};
    struct task task = {.op = TASK_JUMP, .flags = conditions[cond]};
    struct place l, r;

    if (!s->model)
        return error_not_bound(function);
    RETURN_IF_ERROR(graph_find_word(s, function, "leftValue", left, wide ? 8 : 4, &l));
    RETURN_IF_ERROR(graph_find_word(s, function, "rightValue", right, wide ? 8 : 4, &r));
    task.object = l.memory.remote;
    task.generation = l.memory.remote_generation;
    task.jump.offset = place_remote_offset(&l);
    task.jump.right_object = r.memory.remote;
    task.jump.right_generation = r.memory.remote_generation;
    task.jump.right = place_remote_offset(&r);
    task.jump.wide = wide;
    task.jump.memory = 1;
    return add_start(s, function, other, &task);
}

aclError aclrtSwitchStream(void *leftValue, aclrtCondition cond, void *rightValue,
                           aclrtCompareDataType dataType, aclrtStream trueStream,
                           aclrtStream falseStream, aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(leftValue);
    REQUIRE(rightValue);
    REQUIRE(trueStream);
    REQUIRE(stream);
    if (falseStream)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtSwitchStream: falseStream must be NULL");
    if ((unsigned)cond > 5 || (unsigned)dataType > 1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSwitchStream: cond is %u, must be 0 to 5, dataType is %u, must be 0 "
                         "or 1",
                         (unsigned)cond, (unsigned)dataType);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = add_switch(s, __func__, leftValue, rightValue, cond, dataType == 1, trueStream);
    stream_unlock(s);
    return error;
}

/* --- the list --- */

struct section {
    uint32_t begin;  /* in the list */
    uint32_t starts; /* places from which it is started, and comes back */
    uint32_t back;   /* behind the last of these */
    uint32_t out;    /* the jump at its end */
    uint32_t head;   /* the stream that starts by itself, from which it is reached */
};

struct build {
    struct graph *graph;
    struct emit emit;
    struct section *sections;
};

static bool is_last_of(const struct graph *g, uint32_t node)
{
    for (uint32_t i = node + 1; i < g->n_nodes; i++)
        if (g->nodes[i].branch == g->nodes[node].branch)
            return false;
    return true;
}

static bool comes_back(const struct graph *g, uint32_t node)
{
    return g->nodes[node].kind == NODE_START && g->nodes[node].task.flags == JUMP_ALWAYS &&
           !is_last_of(g, node);
}

/* Sections that a section starts belong to the same head. */
static void reach(const struct build *b, uint32_t branch, uint32_t head)
{
    const struct graph *g = b->graph;

    if (b->sections[branch].head != NO_BRANCH)
        return;
    b->sections[branch].head = head;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].branch == branch && g->nodes[i].kind == NODE_START)
            reach(b, g->nodes[i].other, head);
}

static void emit_section(struct build *b, uint32_t branch)
{
    struct graph *g = b->graph;
    const struct task out = {.op = TASK_JUMP, .flags = JUMP_ALWAYS};

    b->sections[branch].begin = b->emit.n;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct graph_node *node = &g->nodes[i];

        if (node->branch != branch)
            continue;
        if (node->kind != NODE_START) {
            emit_node(&b->emit, node, 0);
            continue;
        }
        node->at = emit_jump(&b->emit, &node->task, 0);
        if (comes_back(g, i))
            b->sections[node->other].back = b->emit.n;
    }
    b->sections[branch].out = emit_jump(&b->emit, &out, 0);
}

static void count_starts(const struct build *b)
{
    const struct graph *g = b->graph;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (comes_back(g, i))
            b->sections[g->nodes[i].other].starts++;
}

static uint32_t next_head(const struct build *b, uint32_t head)
{
    for (uint32_t i = head + 1; head != NO_BRANCH && i < b->graph->n_branches; i++)
        if (!b->graph->branches[i].waits)
            return b->sections[i].begin;
    return b->emit.n;
}

static void aim_jumps(struct build *b)
{
    struct graph *g = b->graph;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == NODE_START)
            b->emit.tasks[g->nodes[i].at].jump.target = b->sections[g->nodes[i].other].begin;
    for (uint32_t i = 0; i < g->n_branches; i++)
        b->emit.tasks[b->sections[i].out].jump.target =
            b->sections[i].starts == 1 ? b->sections[i].back : next_head(b, b->sections[i].head);
}

static void emit_sections(struct build *b)
{
    const struct graph *g = b->graph;

    for (uint32_t i = 0; i < g->n_branches; i++)
        b->sections[i].head = NO_BRANCH;
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (!g->branches[i].waits)
            reach(b, i, i);
    count_starts(b);
    for (uint32_t i = 0; i < g->n_branches; i++)
        emit_section(b, i);
    b->emit.loops = true;
    if (!b->emit.failed)
        aim_jumps(b);
}

static int build_list(struct graph *g, const char *function)
{
    struct build b = {.graph = g, .emit = {.calls = g->calls}};
    int error;

    if (graph_emit_ordered(&b.emit, g))
        return graph_place(g, function, &b.emit);
    b.sections = calloc(g->n_branches, sizeof(*b.sections));
    if (!b.sections)
        return error_no_memory(function);
    emit_sections(&b);
    graph_aim_labels(&b.emit, g);
    error = graph_place(g, function, &b.emit);
    free(b.sections);
    return error;
}

static int build_end(struct graph *g, const char *function)
{
    if (g->captured || g->parent || g->phase != GRAPH_BUILDS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: the model is not being built by hand",
                         function);
    if (g->n_branches == 0)
        return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: no stream is bound to the model",
                         function);
    if (!g->ended)
        return error_set(ACL_ERROR_RT_MODEL_EXECUTE, "%s: call aclmdlRIEndTask first", function);
    return build_list(g, function);
}

aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    if (reserve)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclmdlRIBuildEnd: reserve must be NULL");
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = build_end(g, __func__);
    graph_put(g);
    return error;
}
