#include "client/callback/state_callback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/process.h"
#include "client/runtime/stream.h"
#include "client/runtime/upcall.h"

struct entry {
    uint64_t serial; /* ascending along the list */
    union {
        aclrtStreamStateCallback stream;
        aclrtDeviceStateCallback device;
    };
    void *args;
    struct entry *prev, *next;
    char name[];
};

struct table {
    pthread_mutex_t lock;
    struct entry *first;
    uint64_t last_serial;
    _Atomic uint32_t n;
};

static struct table streams = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct table devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- registering; under the table's lock --- */

static struct entry *find(const struct table *t, const char *name)
{
    struct entry *e;

    DL_FOREACH (t->first, e)
        if (strcmp(e->name, name) == 0)
            break;
    return e;
}

static void remove_entry(struct table *t, const char *name)
{
    struct entry *e = find(t, name);

    if (!e)
        return;
    DL_DELETE(t->first, e);
    atomic_fetch_sub_explicit(&t->n, 1, memory_order_relaxed);
    free(e);
}

static int add_entry(struct table *t, const char *function, const char *name,
                     const struct entry *what)
{
    size_t size = strlen(name) + 1;
    struct entry *e;

    if (find(t, name))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: \"%s\" is registered: remove it first",
                         function, name);
    e = calloc(1, sizeof(*e) + size);
    if (!e)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
    *e = *what;
    memcpy(e->name, name, size);
    e->serial = ++t->last_serial;
    DL_APPEND(t->first, e);
    atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
    return 0;
}

/* what NULL: remove. */
static int change(struct table *t, const char *function, const char *name, const struct entry *what)
{
    int error = process_enter();

    if (error != 0)
        return error;
    pthread_mutex_lock(&t->lock);
    if (what)
        error = add_entry(t, function, name, what);
    else
        remove_entry(t, name);
    pthread_mutex_unlock(&t->lock);
    return error;
}

aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback,
                                     void *args)
{
    CALL_SCOPE;
    struct entry what = {.stream = callback, .args = args};

    REQUIRE(regName);
    return change(&streams, __func__, regName, callback ? &what : NULL);
}

aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
                                     void *args)
{
    CALL_SCOPE;
    struct entry what = {.device = callback, .args = args};

    REQUIRE(regName);
    return change(&devices, __func__, regName, callback ? &what : NULL);
}

/* --- telling --- */

/*
 * The next one after `serial`, of those that were there when the telling began (last): in the order
 * of registration. A copy, as callbacks may remove themselves and others; who is removed is not
 * called any more.
 */
static bool next_entry(struct table *t, uint64_t *serial, uint64_t last, struct entry *copy)
{
    struct entry *e;

    pthread_mutex_lock(&t->lock);
    DL_FOREACH (t->first, e)
        if (e->serial > *serial)
            break;
    if (e && e->serial <= last) {
        *serial = e->serial;
        *copy = *e;
    } else {
        e = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return e != NULL;
}

/* 0: nothing is registered. */
static uint64_t begin(struct table *t)
{
    uint64_t last;

    if (atomic_load_explicit(&t->n, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&t->lock);
    last = t->last_serial;
    pthread_mutex_unlock(&t->lock);
    return last;
}

void state_callback_stream(struct stream *stream, aclrtStreamState state)
{
    uint64_t last = begin(&streams), serial = 0;
    struct entry e;

    while (last > 0 && next_entry(&streams, &serial, last, &e))
        e.stream(handle_of(HANDLE_STREAM, stream), state, e.args);
}

void state_callback_device(int32_t user_id, aclrtDeviceState state)
{
    uint64_t last = begin(&devices), serial = 0;
    struct entry e;

    while (last > 0 && next_entry(&devices, &serial, last, &e))
        e.device(user_id, state, e.args);
}

/* The entries are left to their fate: another thread of the parent may have been at them. */
static void forget(struct table *t)
{
    pthread_mutex_init(&t->lock, NULL);
    t->first = NULL;
    t->last_serial = 0;
    atomic_store_explicit(&t->n, 0, memory_order_relaxed);
}

static void forget_all(void)
{
    forget(&streams);
    forget(&devices);
}

const struct part state_callback_part = {.fork_child = forget_all};
