#define HASH_NONFATAL_OOM 1 /* an element without memory has no hh.tbl */
#include "client/operators/object.h"

#include <pthread.h>
#include <stdlib.h>

#include "client/operators/failure.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *table;
static uint64_t last_handle;

void objects_lock(void)
{
    pthread_mutex_lock(&lock);
}

void objects_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Another thread may be inside when the process forks. */
static __attribute__((constructor)) void prepare_for_forks(void)
{
    pthread_atfork(objects_lock, objects_unlock, objects_unlock);
}

void *object_add(const char *api, struct object *o, enum object_kind kind)
{
    void *handle = NULL;

    if (o) {
        objects_lock();
        o->kind = kind;
        o->handle = last_handle += 16; /* no address, and looks like one */
        HASH_ADD(hh, table, handle, sizeof(o->handle), o);
        if (o->hh.tbl)
            handle = (void *)(uintptr_t)o->handle;
        objects_unlock();
    }
    if (!handle) {
        free(o);
        failure_tell(ACLNN_ERR_INNER_NULLPTR, "%s: out of memory", api);
    }
    return handle;
}

void *object_find(const char *api, const char *what, const void *handle, enum object_kind kind)
{
    static const char *const names[] = {"a tensor",      "a scalar",     "an int array",
                                        "a float array", "a bool array", "a tensor list",
                                        "a scalar list", "an executor"};
    uint64_t key = (uintptr_t)handle;
    struct object *o;

    HASH_FIND(hh, table, &key, sizeof(key), o);
    if (o && o->kind == kind)
        return o;
    if (o)
        failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %s is the handle of %s, and not of %s", api,
                     what, names[o->kind], names[kind]);
    else
        failure_tell(ACLNN_ERR_PARAM_INVALID,
                     "%s: %s is no handle of %s: it was destroyed, or never made%s", api, what,
                     names[kind],
                     kind == OBJECT_EXECUTOR ? "; an executor is gone when it has been launched, "
                                               "unless aclSetAclOpExecutorRepeatable keeps it"
                                             : "");
    return NULL;
}

void object_remove(void *object)
{
    struct object *o = object;

    HASH_DELETE(hh, table, o);
}

aclnnStatus object_destroy(const char *api, const void *handle, enum object_kind kind)
{
    struct object *o;

    if (!handle)
        return ACLNN_SUCCESS;
    objects_lock();
    o = object_find(api, "the argument", handle, kind);
    if (o)
        object_remove(o);
    objects_unlock();
    free(o);
    return o ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}
