#include "client/capture/capture.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/thread.h"
#include "client/core/upcall.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "client/runtime/stream_callbacks.h"
#include "proto/shm/graph_shm.h"

#define GRAPHS_MAX 65536u

/** What a handle names. */
struct graph_handle {
    struct slot slot; /* in session->captures.graphs */
    struct graph *graph;
};

void captures_lock(struct session *s)
{
    pthread_mutex_lock(&s->captures.lock);
}

void captures_unlock(struct session *s)
{
    pthread_mutex_unlock(&s->captures.lock);
}

/* --- life --- */

struct graph *graph_get(struct session *s, void *handle)
{
    struct graph_handle *h;
    struct graph *g;

    captures_lock(s);
    h = handle_get(&s->captures.graphs, HANDLE_GRAPH, handle);
    g = h ? h->graph : NULL;
    if (g)
        g->refs++;
    captures_unlock(s);
    return g;
}

static void free_graph(struct graph *g)
{
    upcalls->graph_free_rest(g);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        free(g->nodes[i].info);
        graph_checks_free(g->nodes[i].checks);
    }
    free(g->nodes);
    free(g->branches);
    free(g->events);
    graph_checks_free(g->checks);
    free(g->name);
    free(g);
}

void graph_put(struct graph *g)
{
    struct session *s;
    bool last;

    if (!g)
        return;
    s = g->session;
    captures_lock(s);
    last = --g->refs == 0;
    captures_unlock(s);
    if (last)
        free_graph(g);
}

struct graph *graph_new(struct context *c)
{
    struct session *s = c->session;
    struct graph *g = calloc(1, sizeof(*g));
    struct graph_handle *h;

    if (!g)
        return NULL;
    captures_lock(s);
    h = slots_take(&s->captures.graphs);
    if (h) {
        *g = (struct graph){
            .refs = 1, .session = s, .context = c, .device = c->device, .id = ++s->captures.ids};
        h->graph = g;
        slots_publish(h);
        g->handle = handle_of(HANDLE_GRAPH, h);
    }
    captures_unlock(s);
    if (h)
        return g;
    free(g);
    return NULL;
}

void graph_unpublish(struct graph *g)
{
    struct slots *graphs = &g->session->captures.graphs;
    struct graph_handle *h = handle_get(graphs, HANDLE_GRAPH, g->handle);

    slots_unpublish(h);
    h->graph = NULL;
    slots_put(graphs, h);
    g->handle = NULL;
}

/* --- nodes and branches; under the lock --- */

/* Room for one more element of an array that grows. */
static bool make_room(void **array, uint32_t n, uint32_t *size, size_t element)
{
    uint32_t larger = *size ? 2 * *size : 16;
    void *more;

    if (n < *size)
        return true;
    more = reallocarray(*array, larger, element);
    if (!more)
        return false;
    *array = more;
    *size = larger;
    return true;
}

struct graph_node *graph_add(struct graph *g, uint32_t branch)
{
    struct graph_node *node = NULL;

    if (g->n_nodes < GRAPH_TASKS_MAX / 2 &&
        make_room((void **)&g->nodes, g->n_nodes, &g->nodes_size, sizeof(*g->nodes))) {
        thread_self()->last_task = THREAD_TASK_RECORDED | g->n_nodes;
        thread_self()->last_model = g->handle;
        node = &g->nodes[g->n_nodes++];
        *node = (struct graph_node){.branch = branch, .at = NODE_NO_TASK, .checks = g->checks};
        g->checks = NULL;
        g->branches[branch].last_record = 0;
        g->branches[branch].joined = false;
    } else {
        g->invalidated = true;
    }
    return node;
}

uint32_t graph_branch_of(struct graph *g, struct stream *s)
{
    void *handle = handle_of(HANDLE_STREAM, s);
    struct graph_branch *more;

    for (uint32_t i = 0; i < g->n_branches; i++)
        if (g->branches[i].handle == handle)
            return i;
    more = reallocarray(g->branches, g->n_branches + 1, sizeof(*more));
    if (!more)
        return UINT32_MAX;
    g->branches = more;
    more[g->n_branches] = (struct graph_branch){.stream = s, .handle = handle, .id = s->id};
    return g->n_branches++;
}

/* --- beginning and ending; under the lock --- */

static struct graph *capture_of(const struct stream *s)
{
    return atomic_load_explicit(&s->capture, memory_order_relaxed);
}

bool capture_join(struct graph *g, struct stream *s)
{
    uint32_t branch = graph_branch_of(g, s);

    if (branch == UINT32_MAX)
        return false;
    s->capture_branch = branch;
    s->special |= STREAM_CAPTURES;
    atomic_store_explicit(&s->capture, g, memory_order_relaxed);
    return true;
}

bool capture_begin(struct graph *g, struct stream *s)
{
    struct captures *all = &g->session->captures;

    if (!capture_join(g, s))
        return false;
    g->phase = GRAPH_CAPTURES;
    g->origin = s;
    g->owner = (pid_t)thread_self()->tid;
    g->captured = true;
    g->refs++;
    DL_APPEND(all->list, g);
    atomic_fetch_add_explicit(&all->active, 1, memory_order_relaxed);
    return true;
}

void capture_leave(struct graph *g)
{
    struct captures *all = &g->session->captures;

    for (uint32_t i = 0; i < g->n_branches; i++)
        if (capture_of(g->branches[i].stream) == g)
            atomic_store_explicit(&g->branches[i].stream->capture, NULL, memory_order_relaxed);
    DL_DELETE(all->list, g);
    atomic_fetch_sub_explicit(&all->active, 1, memory_order_relaxed);
    g->refs--; /* the caller has one, too */
}

/* --- recording --- */

bool capture_has(struct stream *s)
{
    bool has;

    if (!(s->special & STREAM_CAPTURES))
        return false;
    captures_lock(s->session);
    has = capture_of(s) != NULL;
    captures_unlock(s->session);
    if (!has)
        s->special &= (uint8_t)~STREAM_CAPTURES;
    return has;
}

static int error_invalidated(const char *function)
{
    return error_set(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                     "%s: the capture is invalidated by what was refused before: end it and begin "
                     "anew",
                     function);
}

/*
 * Under the lock. A task group takes kernels of its stream alone; what is refused breaks it, as the
 * reference has it.
 */
static int check_group(struct graph *g, const struct stream *s, bool kernel)
{
    int error;

    if (g->open_group == 0 || (kernel && s == g->group_stream))
        return 0;
    error = s == g->group_stream ? ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT
                                 : ACL_ERROR_STREAM_TASK_GROUP_INTR;
    if (g->group_error == 0)
        g->group_error = error;
    return error;
}

static int check_recording(struct stream *s, const char *function, bool kernel)
{
    struct graph *g;
    int error = 0;

    captures_lock(s->session);
    g = capture_of(s);
    if (g)
        error =
            g->invalidated ? ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED : check_group(g, s, kernel);
    captures_unlock(s->session);
    if (error == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED)
        return error_invalidated(function);
    return error == 0 ? 0
                      : error_set(error,
                                  "%s: a task group is open, and takes launches of kernels on its "
                                  "stream alone",
                                  function);
}

int capture_check(struct stream *s, const char *function)
{
    if (s->model && s->model->phase != GRAPH_BUILDS)
        return error_set(ACL_ERROR_RT_STREAM_MODEL,
                         "%s: the stream is bound to a model that is built: unbind it first",
                         function);
    if (s->update)
        return error_set(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                         "%s: the stream updates a task group, and takes launches of kernels alone",
                         function);
    return check_recording(s, function, false);
}

int capture_check_kernel(struct stream *s, const char *function)
{
    return check_recording(s, function, true);
}

int capture_update(struct stream *s, const char *function, struct stream_work *w)
{
    struct group_update *u = s->update;

    if (u->n == u->size)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "%s: the task group has %u launches, and this is one more", function,
                         u->size);
    u->works[u->n++] = w;
    return 0;
}

static enum graph_node_kind kind_of(const struct task *task)
{
    switch (task->op) {
    case TASK_VALUE_WRITE:
        return NODE_VALUE_WRITE;
    case TASK_VALUE_WAIT:
        return NODE_VALUE_WAIT;
    case TASK_RECORD:
        return NODE_RECORD;
    case TASK_WAIT_LEVEL:
        return NODE_WAIT;
    case TASK_RESET:
        return NODE_RESET;
    default:
        return NODE_TASK;
    }
}

bool capture_task(struct stream *s, const struct task *task)
{
    struct graph_node *node;
    struct graph *g;

    if (!capture_has(s))
        return false;
    captures_lock(s->session);
    g = capture_of(s);
    node = g && !g->invalidated ? graph_add(g, s->capture_branch) : NULL;
    if (node) {
        node->task = *task;
        node->has_task = true;
        node->kind = kind_of(task);
        node->group = g->open_group;
    }
    captures_unlock(s->session);
    return g != NULL;
}

int capture_call(struct stream *s, const char *function, const struct graph_call *call,
                 const struct task *task)
{
    struct graph_calls *calls;
    struct task numbered = *task;
    struct graph *g;
    int error = 0;

    captures_lock(s->session);
    g = capture_of(s);
    if (g && !g->calls)
        g->calls = calloc(1, sizeof(*g->calls));
    calls = g ? g->calls : NULL;
    if (!calls || !make_room((void **)&calls->call, calls->n, &calls->size, sizeof(*calls->call))) {
        error = error_no_memory(function);
    } else {
        calls->refs = 1;
        calls->n_works += call->work != NULL;
        calls->n_kernels += call->work && call->work->kind == STREAM_WORK_KERNEL;
        calls->n_host += call->fn && call->host;
        calls->n_functions += call->fn && !call->host;
        calls->call[calls->n] = *call;
        numbered.callback.ordinal = calls->n++;
    }
    captures_unlock(s->session);
    if (error == 0)
        capture_task(s, &numbered);
    return error;
}

void graph_check_add(struct graph_check **list, const struct check_access *record, size_t size)
{
    struct graph_check *check = malloc(sizeof(*check) + size);

    if (!check)
        return;
    *check = (struct graph_check){.size = size, .record = (struct check_access *)(check + 1)};
    memcpy(check->record, record, size);
    LL_APPEND(*list, check);
}

void graph_checks_free(struct graph_check *list)
{
    struct graph_check *check, *next;

    LL_FOREACH_SAFE (list, check, next)
        free(check);
}

bool capture_keep_record(const struct stream *s, const struct check_access *record, size_t size)
{
    struct graph *g;

    if (!atomic_load_explicit(&s->capture, memory_order_relaxed))
        return false;
    captures_lock(s->session);
    g = capture_of(s);
    if (g)
        graph_check_add(&g->checks, record, size);
    captures_unlock(s->session);
    return g != NULL;
}

void capture_name_node(struct stream *s, enum graph_node_kind kind, void *event, uint32_t flag)
{
    struct graph *g;

    captures_lock(s->session);
    g = capture_of(s);
    if (g && g->n_nodes > 0) {
        struct graph_node *node = &g->nodes[g->n_nodes - 1];

        node->kind = (uint8_t)kind;
        node->event = event;
        node->flag = (uint8_t)flag;
    }
    captures_unlock(s->session);
}

void capture_note_word(struct stream *s, void *address)
{
    struct graph *g;

    captures_lock(s->session);
    g = capture_of(s);
    if (g && g->n_nodes > 0)
        g->nodes[g->n_nodes - 1].address = address;
    captures_unlock(s->session);
}

bool capture_uses(struct stream *s, const void *event)
{
    const struct graph *g;
    bool uses = false;

    captures_lock(s->session);
    g = capture_of(s);
    for (uint32_t i = 0; g && i < g->n_nodes; i++)
        uses |= g->nodes[i].event == event && g->nodes[i].flag != 0;
    captures_unlock(s->session);
    return uses;
}

/* --- events; an event of a capture is an edge --- */

static struct graph *active_capture(struct session *s, uint64_t id)
{
    struct graph *g;

    DL_SEARCH_SCALAR(s->captures.list, g, id, id);
    return g;
}

static struct graph_event *event_of(struct graph *g, const void *event)
{
    for (uint32_t i = 0; i < g->n_events; i++)
        if (g->events[i].handle == event)
            return &g->events[i];
    return NULL;
}

static struct graph_event *make_event(struct graph *g, void *event)
{
    struct graph_event *e = event_of(g, event);

    if (e)
        return e;
    e = reallocarray(g->events, g->n_events + 1, sizeof(*e));
    if (!e)
        return NULL;
    g->events = e;
    e = &e[g->n_events++];
    *e = (struct graph_event){.handle = event};
    return e;
}

static void record_locked(struct graph *g, struct stream *s, void *event)
{
    struct graph_event *e = make_event(g, event);
    struct graph_node *node = e ? graph_add(g, s->capture_branch) : NULL;

    if (!node) {
        g->invalidated = true;
        return;
    }
    node->kind = NODE_RECORD;
    node->event = event;
    e->branch = s->capture_branch;
    e->record = ++g->records;
    g->branches[e->branch].last_record = e->record;
}

int capture_record_event(struct stream *s, const char *function, void *event,
                         _Atomic uint64_t *capture)
{
    struct graph *g;
    int error = 0;

    captures_lock(s->session);
    g = capture_of(s);
    if (!g || g->invalidated) {
        error = error_invalidated(function);
    } else {
        record_locked(g, s, event);
        atomic_store_explicit(capture, g->id, memory_order_relaxed);
    }
    captures_unlock(s->session);
    return error;
}

int capture_check_default(struct stream *s, const char *function, const _Atomic uint64_t *capture)
{
    struct graph *g;

    if (!s->is_default)
        return 0;
    captures_lock(s->session);
    g = active_capture(s->session, atomic_load_explicit(capture, memory_order_relaxed));
    captures_unlock(s->session);
    if (!g)
        return 0;
    return error_set(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                     "%s: the event is part of a capture, and a default stream cannot be",
                     function);
}

/* The stream, which is of the graph, waits for the event's record there. */
static void add_wait(struct graph *g, struct stream *s, void *event)
{
    const struct graph_event *e = event_of(g, event);
    struct graph_node *node = graph_add(g, s->capture_branch);

    if (!e || !node) {
        g->invalidated = true;
        return;
    }
    node->kind = NODE_WAIT;
    node->event = event;
    if (e->branch != s->capture_branch && g->branches[e->branch].last_record == e->record)
        g->branches[e->branch].joined = true;
}

/* own: for which the stream records, or NULL; of: of which the event is, or NULL; not both. */
static int wait_locked(struct graph *own, struct graph *of, struct stream *s, const char *function,
                       void *event)
{
    if (own && own->invalidated)
        return error_invalidated(function);
    if (!of) {
        own->invalidated = true;
        return error_set(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                         "%s: the event was not recorded in this capture, which is invalidated",
                         function);
    }
    if (own && own != of) {
        own->invalidated = of->invalidated = true;
        return error_set(ACL_ERROR_STREAM_CAPTURE_CONFLICT,
                         "%s: the event is of another capture than the stream: both captures are "
                         "invalidated",
                         function);
    }
    if (of->invalidated)
        return error_invalidated(function);
    if (!own && s->is_default)
        return error_set(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                         "%s: the event is part of a capture, and a default stream cannot be",
                         function);
    if (!own && s->context != of->context)
        return error_set(ACL_ERROR_RT_STREAM_CONTEXT,
                         "%s: the event is part of a capture of another context", function);
    if (!own && !capture_join(of, s))
        return error_no_memory(function);
    add_wait(of, s, event);
    return 0;
}

int capture_wait_event(struct stream *s, const char *function, void *event,
                       const _Atomic uint64_t *capture)
{
    struct graph *own, *of;
    int error = -1;

    captures_lock(s->session);
    own = capture_of(s);
    of = active_capture(s->session, atomic_load_explicit(capture, memory_order_relaxed));
    if (of && !event_of(of, event))
        of = NULL; /* another event has its place */
    if (own || of)
        error = wait_locked(own, of, s, function, event);
    captures_unlock(s->session);
    return error;
}

int capture_refuse_event(struct session *s, uint64_t capture, const char *function)
{
    struct graph *g;

    if (capture == 0)
        return 0;
    captures_lock(s);
    g = active_capture(s, capture);
    captures_unlock(s);
    return g ? error_set(ACL_ERROR_RT_EVENT_CAPTURED,
                         "%s: the event is part of a capture: it can be used when that has ended",
                         function)
             : 0;
}

/* --- what captures refuse --- */

int capture_refuse_stream(const struct stream *s, const char *function)
{
    const struct graph *g;
    bool captures;

    if (!atomic_load_explicit(&s->capture, memory_order_relaxed))
        return 0;
    captures_lock(s->session);
    g = capture_of(s);
    captures = g && g->phase == GRAPH_CAPTURES; /* else the stream is bound to a model */
    captures_unlock(s->session);
    return captures ? error_set(ACL_ERROR_RT_STREAM_CAPTURED,
                                "%s: the stream is being captured: end the capture first", function)
                    : 0;
}

int capture_refuse_device(struct session *s, uint32_t device, const char *function)
{
    struct graph *g;

    captures_lock(s);
    DL_SEARCH_SCALAR(s->captures.list, g, context->device, device);
    captures_unlock(s);
    return g ? error_set(ACL_ERROR_RT_STREAM_CAPTURED,
                         "%s: a stream of the device is being captured: end the capture first",
                         function)
             : 0;
}

/* Does the capture forbid the calling thread, with this exchange mode, what may block? */
static bool forbids_blocking(const struct graph *g, const struct context *c, uint8_t exchange)
{
    bool own = g->owner == (pid_t)thread_self()->tid;

    if (g->context != c || g->mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return false;
    if (exchange == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
        return g->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || own;
    return exchange == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL && own;
}

int capture_refuse_blocking(const struct context *c, const char *function, int code)
{
    uint8_t exchange = thread_self()->capture_mode;
    struct graph *g;

    captures_lock(c->session);
    DL_FOREACH (c->session->captures.list, g)
        if (forbids_blocking(g, c, exchange))
            break;
    captures_unlock(c->session);
    return g ? error_set(code,
                         "%s: a capture of this context forbids calls that may block; "
                         "aclmdlRICaptureThreadExchangeMode() allows them to a thread",
                         function)
             : 0;
}

int capture_error_kind(const char *function, const char *what)
{
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %s cannot be part of a capture",
                     function, what);
}

/* --- contexts and sessions --- */

void capture_end_context(struct context *c)
{
    struct session *s = c->session;
    struct graph *g, *next, *ended = NULL;

    captures_lock(s);
    DL_FOREACH_SAFE (s->captures.list, g, next)
        if (g->context == c) {
            capture_leave(g);
            g->phase = GRAPH_BROKEN;
            if (g->parent)
                continue; /* goes with that */
            graph_unpublish(g);
            g->next = ended;
            ended = g;
        }
    captures_unlock(s);
    for (; ended; ended = next) {
        next = ended->next;
        ended->next = NULL;
        graph_put(ended);
    }
}

bool graph_at(struct session *s, uint32_t i, struct graph **g)
{
    const struct graph_handle *h;

    if (i >= s->captures.graphs.end)
        return false;
    h = slots_at(&s->captures.graphs, i);
    *g = h && slot_live(h) ? h->graph : NULL;
    return true;
}

struct graph *graph_take_of(struct context *c)
{
    struct session *s = c->session;
    struct graph *found = NULL;
    struct graph_handle *h;

    captures_lock(s);
    slots_foreach (&s->captures.graphs, i, h)
        if (!found && h->graph && h->graph->context == c && !h->graph->parent)
            found = h->graph;
    if (found)
        graph_unpublish(found);
    captures_unlock(s);
    return found;
}

static void init(struct session *s, uint32_t seed)
{
    lock_init(&s->captures.lock, LOCK_CAPTURES);
    lock_init(&s->captures.run_lock, LOCK_GRAPHS);
    slots_init(&s->captures.graphs, sizeof(struct graph_handle), GRAPHS_MAX, seed);
}

static void free_all(struct session *s)
{
    struct graph_handle *h;

    slots_foreach (&s->captures.graphs, i, h) {
        struct graph *g = h->graph;

        if (!g || g->parent)
            continue; /* a nested one goes with its parent */
        h->graph = NULL;
        free_graph(g);
    }
    slots_deinit(&s->captures.graphs);
}

const struct part capture_part = {.session_init = init, .session_free = free_all};
