/* Graphs as objects: names, ids, and what is called at their end. */
#include "client/graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/graph/farewell.h"
#include "client/memory/place.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

#define NAME_MAX_BYTES 512u

struct graph *graph_find(const char *function, aclmdlRI handle, int *error)
{
    struct session *s = session_peek();
    struct graph *g;

    *error = process_enter();
    if (*error != 0)
        return NULL;
    g = s ? graph_get(s, handle) : NULL;
    if (!g)
        *error = s && session_lost(s)
                     ? session_error_lost(function)
                     : handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, HANDLE_GRAPH, handle);
    return g;
}

int graph_find_word(struct stream *s, const char *function, const char *name, const void *address,
                    uint64_t size, struct place *at)
{
    RETURN_IF_ERROR(place_find_device(s->session, function, s->device, name, address, size, at));
    if (at->kind == PLACE_REGISTERED || (uintptr_t)address % size != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s (%p) must be aligned, and in device memory", function, name,
                         address);
    place_populate(s->session, at, size);
    return 0;
}

/* --- names and ids --- */

aclError aclmdlRISetName(aclmdlRI modelRI, const char *name)
{
    CALL_SCOPE;
    struct graph *g;
    char *copy, *before;

    REQUIRE(modelRI);
    REQUIRE(name);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    copy = strndup(name, NAME_MAX_BYTES);
    if (copy) {
        captures_lock(g->session);
        before = g->name;
        g->name = copy;
        captures_unlock(g->session);
        free(before);
    }
    graph_put(g);
    return copy ? 0 : error_no_memory(__func__);
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name)
{
    CALL_SCOPE;
    struct graph *g;
    size_t length;

    REQUIRE(modelRI);
    REQUIRE(name);
    if (maxLen == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclmdlRIGetName: maxLen is 0");
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    captures_lock(g->session);
    length = g->name ? strlen(g->name) : 0;
    if (length < maxLen)
        memcpy(name, g->name ? g->name : "", length + 1);
    captures_unlock(g->session);
    graph_put(g);
    if (length < maxLen)
        return 0;
    return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                     "aclmdlRIGetName: the name has %zu bytes and its end, maxLen is %u", length,
                     maxLen);
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId)
{
    CALL_SCOPE;
    struct graph *g;

    REQUIRE(modelRI);
    REQUIRE(modelRIId);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    *modelRIId = (uint32_t)g->id;
    graph_put(g);
    return 0;
}

/* --- the end --- */

struct farewell {
    aclrtCallback fn;
    void *data;
    struct farewell *next;
};

struct farewell *farewells_take(struct graph *g)
{
    struct farewell *list = g->farewells;

    g->farewells = NULL;
    return list;
}

CALLS_PROGRAM void farewells_call(struct farewell *list)
{
    struct farewell *f, *next;

    LL_FOREACH_SAFE (list, f, next) {
        f->fn(f->data);
        free(f);
    }
}

void farewells_free(struct graph *g)
{
    struct farewell *f, *next;

    LL_FOREACH_SAFE (g->farewells, f, next)
        free(f);
    g->farewells = NULL;
}

/* Under the lock. */
static struct farewell *find_farewell(const struct graph *g, aclrtCallback fn)
{
    struct farewell *f;

    LL_SEARCH_SCALAR(g->farewells, f, fn, fn);
    return f;
}

static int error_farewell(const char *function, const char *what)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s", function, what);
}

static int check_whole(const struct graph *g, const char *function)
{
    return g->parent
               ? error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                           "%s: the model is part of another one, and goes with that", function)
               : 0;
}

static int add_farewell(struct graph *g, const char *function, aclrtCallback fn, void *data)
{
    struct farewell *f;
    bool known;

    RETURN_IF_ERROR(check_whole(g, function));
    f = malloc(sizeof(*f));
    if (!f)
        return error_no_memory(function);
    *f = (struct farewell){.fn = fn, .data = data};
    captures_lock(g->session);
    known = find_farewell(g, fn) != NULL;
    if (!known)
        LL_APPEND(g->farewells, f);
    captures_unlock(g->session);
    if (!known)
        return 0;
    free(f);
    return error_farewell(function, "func is registered already");
}

static int remove_farewell(struct graph *g, const char *function, aclrtCallback fn)
{
    struct farewell *f;

    RETURN_IF_ERROR(check_whole(g, function));
    captures_lock(g->session);
    f = find_farewell(g, fn);
    if (f)
        LL_DELETE(g->farewells, f);
    captures_unlock(g->session);
    if (!f)
        return error_farewell(function, "func is not registered");
    free(f);
    return 0;
}

aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, modelRI);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, func);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = add_farewell(g, __func__, func, userData);
    graph_put(g);
    return error;
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, modelRI);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, func);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = remove_farewell(g, __func__, func);
    graph_put(g);
    return error;
}
