#include "client/graph/graph_label.h"

#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/graph/graph.h"
#include "client/graph/graph_compile.h"
#include "client/memory/place.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "proto/shm/graph_shm.h"

#define LABELS_MAX 65535u

/** A place in a stream. */
struct graph_label {
    struct context *context;
    struct label_list *list;         /* NULL: in none so far */
    uint32_t index;                  /* there */
    uint64_t graph;                  /* id of that in which it is set; 0: none */
    struct graph_label *prev, *next; /* session->captures.labels */
};

struct label_list {
    uint32_t n;
    struct label_list *prev, *next; /* session->captures.label_lists */
};

/* --- life; under captures.lock --- */

static struct graph_label *find_label(struct session *s, const void *handle)
{
    struct graph_label *l;

    DL_FOREACH (s->captures.labels, l)
        if (l == handle)
            return l;
    return NULL;
}

static struct label_list *find_list(struct session *s, const void *handle)
{
    struct label_list *l;

    DL_FOREACH (s->captures.label_lists, l)
        if (l == handle)
            return l;
    return NULL;
}

static int error_no_label(const char *function)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no such label, or no such list",
                     function);
}

aclError aclrtCreateLabel(aclrtLabel *label)
{
    CALL_SCOPE;
    struct context *c;
    struct graph_label *l;
    bool full;

    REQUIRE(label);
    c = FIND_OR_RETURN(context_get, __func__);
    l = calloc(1, sizeof(*l));
    if (!l)
        return error_no_memory(__func__);
    l->context = c;
    captures_lock(c->session);
    full = c->session->captures.n_labels == LABELS_MAX;
    if (!full) {
        c->session->captures.n_labels++;
        DL_APPEND(c->session->captures.labels, l);
    }
    captures_unlock(c->session);
    if (full) {
        free(l);
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR, "aclrtCreateLabel: a process can have %u",
                         LABELS_MAX);
    }
    *label = l;
    return 0;
}

aclError aclrtDestroyLabel(aclrtLabel label)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct graph_label *l = NULL;

    REQUIRE(label);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        captures_lock(s);
        l = find_label(s, label);
        if (l) {
            DL_DELETE(s->captures.labels, l);
            s->captures.n_labels--;
        }
        captures_unlock(s);
    }
    free(l);
    return l ? 0 : error_no_label(__func__);
}

/* 0, or why the labels make no list. */
static int check_labels(struct context *c, aclrtLabel *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct graph_label *l = find_label(c->session, labels[i]);

        if (!l)
            return ACL_ERROR_RT_PARAM_INVALID;
        if (l->list)
            return ACL_ERROR_RT_INTERNAL_ERROR;
        if (l->context != c)
            return ACL_ERROR_RT_LABEL_CONTEXT;
    }
    return 0;
}

static void fill_list(struct context *c, struct label_list *list, aclrtLabel *labels)
{
    for (uint32_t i = 0; i < list->n; i++) {
        struct graph_label *l = find_label(c->session, labels[i]);

        l->list = list;
        l->index = i;
    }
    DL_APPEND(c->session->captures.label_lists, list);
}

aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList)
{
    CALL_SCOPE;
    struct context *c;
    struct label_list *list;
    int error;

    REQUIRE(labels);
    REQUIRE(labelList);
    if (num == 0 || num > LABELS_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtCreateLabelList: num is %zu, must be 1 to %u", num, LABELS_MAX);
    c = FIND_OR_RETURN(context_get, __func__);
    list = calloc(1, sizeof(*list));
    if (!list)
        return error_no_memory(__func__);
    list->n = (uint32_t)num;
    captures_lock(c->session);
    error = check_labels(c, labels, num);
    if (error == 0)
        fill_list(c, list, labels);
    captures_unlock(c->session);
    if (error == 0) {
        *labelList = list;
        return 0;
    }
    free(list);
    return error_set(error, "aclrtCreateLabelList: a label %s",
                     error == ACL_ERROR_RT_PARAM_INVALID    ? "is none"
                     : error == ACL_ERROR_RT_INTERNAL_ERROR ? "is in a list already"
                                                            : "is of another context");
}

aclError aclrtDestroyLabelList(aclrtLabelList labelList)
{
    CALL_SCOPE;
    struct session *s = session_peek();
    struct label_list *list = NULL;
    struct graph_label *l;

    REQUIRE(labelList);
    RETURN_IF_ERROR(process_enter());
    if (s) {
        captures_lock(s);
        list = find_list(s, labelList);
        if (list) {
            DL_DELETE(s->captures.label_lists, list);
            DL_FOREACH (s->captures.labels, l)
                if (l->list == list)
                    l->list = NULL;
        }
        captures_unlock(s);
    }
    free(list);
    return list ? 0 : error_no_label(__func__);
}

static void free_all(struct session *s)
{
    struct graph_label *l, *next;
    struct label_list *list, *after;

    DL_FOREACH_SAFE (s->captures.labels, l, next)
        free(l);
    DL_FOREACH_SAFE (s->captures.label_lists, list, after)
        free(list);
    s->captures.labels = NULL;
    s->captures.label_lists = NULL;
}

const struct part graph_label_part = {.session_free = free_all};

/* --- in streams --- */

/* Under the lock. */
static int set_label(struct stream *s, const void *handle)
{
    struct graph_label *l = find_label(s->session, handle);
    struct graph_node *node;

    if (!l)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (!l->list || !s->model || l->graph != 0)
        return ACL_ERROR_RT_INTERNAL_ERROR;
    node = graph_add(s->model, s->capture_branch);
    if (!node)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    node->kind = NODE_LABEL;
    node->label_list = l->list;
    node->other = l->index;
    l->graph = s->model->id;
    return 0;
}

aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(label);
    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    captures_lock(s->session);
    error = set_label(s, label);
    captures_unlock(s->session);
    stream_unlock(s);
    return error == 0
               ? 0
               : error_set(error, "aclrtSetLabel: there is no such label, it is in no list yet, it "
                                  "was set before, or the stream is not bound to a model");
}

static int add_switch(struct stream *s, const char *function, const void *word, uint32_t max,
                      aclrtLabelList handle)
{
    struct graph_node *node = NULL;
    struct label_list *list;
    struct place at;

    if (!s->model)
        return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is not bound to a model",
                         function);
    RETURN_IF_ERROR(stream_check(s, function));
    RETURN_IF_ERROR(graph_find_word(s, function, "ptr", word, sizeof(uint32_t), &at));
    captures_lock(s->session);
    list = find_list(s->session, handle);
    if (list)
        node = graph_add(s->model, s->capture_branch);
    if (node) {
        node->kind = NODE_SWITCH_LABEL;
        node->label_list = list;
        node->other = max < list->n ? max : list->n;
        node->task = (struct task){.op = TASK_JUMP,
                                   .flags = JUMP_EQUAL,
                                   .object = at.memory.remote,
                                   .generation = at.memory.remote_generation,
                                   .jump.offset = place_remote_offset(&at)};
    }
    captures_unlock(s->session);
    if (!list)
        return error_no_label(function);
    return node ? 0 : error_no_memory(function);
}

aclError aclrtSwitchLabelByIndex(void *ptr, uint32_t maxValue, aclrtLabelList labelList,
                                 aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(ptr);
    REQUIRE(labelList);
    REQUIRE(stream);
    if (maxValue == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtSwitchLabelByIndex: maxValue is 0");
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = add_switch(s, __func__, ptr, maxValue, labelList);
    stream_unlock(s);
    return error;
}

/* --- the list --- */

void label_emit_switch(struct emit *e, struct graph_node *node)
{
    node->at = e->n;
    e->loops = true;
    for (uint32_t i = 0; i < node->other; i++) {
        struct task jump = node->task;

        jump.jump.right = i;
        if (i + 1 == node->other)
            jump.flags = JUMP_ALWAYS; /* what is too large goes to the last one */
        emit_jump(e, &jump, UINT32_MAX);
    }
}

/* Where the label is set in the graph; nowhere: behind the last task. */
static uint32_t place_of(const struct emit *e, const struct graph *g, const struct label_list *list,
                         uint32_t index)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == NODE_LABEL && g->nodes[i].label_list == list &&
            g->nodes[i].other == index)
            return g->nodes[i].at;
    return e->n;
}

void graph_aim_labels(struct emit *e, struct graph *g)
{
    for (uint32_t i = 0; !e->failed && i < g->n_nodes; i++) {
        const struct graph_node *node = &g->nodes[i];

        for (uint32_t k = 0; node->kind == NODE_SWITCH_LABEL && k < node->other; k++)
            e->tasks[node->at + k].jump.target = place_of(e, g, node->label_list, k);
    }
}
