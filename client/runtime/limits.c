/*
 * Limits on the number of cores that kernels may use, per device, per stream, and what is in force
 * for a thread. Nothing here runs on cores: the numbers are kept and given back.
 */
#include "acl/acl.h"
#include "client/runtime/chip.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"

/* Cores of a device. */
static uint32_t count_cores(const struct session *s, uint32_t device, aclrtDevResLimitType type)
{
    const struct chip *chip = chip_of_device(s, device);

    return (uint32_t)(type == ACL_RT_DEV_RES_CUBE_CORE ? chip->cube_cores : chip->vector_cores);
}

static int check_type(const char *function, aclrtDevResLimitType type)
{
    if ((unsigned)type < RES_LIMITS)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no resource %d", function,
                     (int)type);
}

static int check_value(const char *function, uint32_t cores, uint32_t value)
{
    if (value > 0 && value <= cores)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %u cores, must be 1 to %u", function, value,
                     cores);
}

/* --- devices; limits are under session->lock --- */

static uint32_t device_limit(struct session *s, uint32_t device, aclrtDevResLimitType type)
{
    uint32_t limit;

    pthread_mutex_lock(&s->lock);
    limit = s->devices[device].res_limit[type];
    pthread_mutex_unlock(&s->lock);
    return limit ? limit : count_cores(s, device, type);
}

/* The device of a call, which must be open. Returns it with session->lock held, or NULL. */
static struct device_state *lock_device(const char *function, int32_t user_id, struct session **sp,
                                        int *error)
{
    struct device_state *d;
    uint32_t device;

    *error = device_get(function, user_id, sp, &device);
    if (*error != 0)
        return NULL;
    d = &(*sp)->devices[device];
    pthread_mutex_lock(&(*sp)->lock);
    if (device_is_open(*sp, device))
        return d;
    pthread_mutex_unlock(&(*sp)->lock);
    *error = device_error_closed(function, user_id);
    return NULL;
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value)
{
    CALL_SCOPE;
    RETURN_IF_ERROR(check_type(__func__, type));
    struct session *s;
    struct device_state *d = FIND_OR_RETURN(lock_device, __func__, deviceId, &s);
    int error = check_value(__func__, count_cores(s, (uint32_t)(d - s->devices), type), value);

    if (error == 0)
        d->res_limit[type] = value;
    pthread_mutex_unlock(&s->lock);
    return error;
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    RETURN_IF_ERROR(check_type(__func__, type));
    struct session *s;
    struct device_state *d = FIND_OR_RETURN(lock_device, __func__, deviceId, &s);

    *value =
        d->res_limit[type] ? d->res_limit[type] : count_cores(s, (uint32_t)(d - s->devices), type);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

aclError aclrtResetDeviceResLimit(int32_t deviceId)
{
    CALL_SCOPE;
    struct session *s;
    struct device_state *d = FIND_OR_RETURN(lock_device, __func__, deviceId, &s);

    for (unsigned i = 0; i < RES_LIMITS; i++)
        d->res_limit[i] = 0;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* --- streams --- */

static uint32_t stream_limit(struct stream *s, aclrtDevResLimitType type)
{
    uint32_t limit = atomic_load_explicit(&s->res_limit[type], memory_order_relaxed);

    return limit ? limit : device_limit(s->session, s->device, type);
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value)
{
    CALL_SCOPE;
    RETURN_IF_ERROR(check_type(__func__, type));
    struct stream *s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);

    RETURN_IF_ERROR(check_value(__func__, count_cores(s->session, s->device, type), value));
    atomic_store_explicit(&s->res_limit[type], value, memory_order_relaxed);
    return 0;
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    RETURN_IF_ERROR(check_type(__func__, type));
    struct stream *s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);

    *value = stream_limit(s, type);
    return 0;
}

aclError aclrtResetStreamResLimit(aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);

    for (unsigned i = 0; i < RES_LIMITS; i++)
        atomic_store_explicit(&s->res_limit[i], 0, memory_order_relaxed);
    return 0;
}

/* --- threads --- */

/* The stream whose limits the thread uses; NULL: none, or it is gone. */
static struct stream *stream_in_use(struct thread *t)
{
    struct session *s = session_peek();

    if (!t->res_stream || !s || t->res_session != s->serial)
        return NULL;
    return atomic_load_explicit(&t->res_stream->slot.tag, memory_order_acquire) == t->res_tag
               ? t->res_stream
               : NULL;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream)
{
    CALL_SCOPE;
    struct thread *t = thread_self();
    struct stream *s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);

    t->res_session = s->session->serial;
    t->res_stream = s;
    t->res_tag = atomic_load_explicit(&s->slot.tag, memory_order_acquire);
    return 0;
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream)
{
    CALL_SCOPE;
    struct thread *t = thread_self();
    struct stream *s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);

    if (stream_in_use(t) == s)
        t->res_stream = NULL;
    return 0;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    CALL_SCOPE;
    struct stream *s;
    struct context *c;

    REQUIRE(value);
    RETURN_IF_ERROR(check_type(__func__, type));
    s = stream_in_use(thread_self());
    if (s) {
        *value = stream_limit(s, type);
        return 0;
    }
    c = FIND_OR_RETURN(context_get, __func__);
    *value = device_limit(c->session, c->device, type);
    return 0;
}
