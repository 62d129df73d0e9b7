#include "client/runtime/context.h"

#include "acl/acl.h"
#include "client/check/checked.h"
#include "client/core/acl_config.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/handle.h"
#include "client/runtime/op_limit.h"
#include "client/runtime/stream.h"
#include "client/core/upcall.h"
#include "proto/util/clock.h"

/* --- binding --- */

static void bind_thread(struct context *c)
{
    struct thread *t = thread_self();

    t->session = c->session->serial;
    t->context = c;
    t->context_tag = atomic_load_explicit(&c->slot.tag, memory_order_relaxed);
}

int context_error_gone(const char *function)
{
    return error_set(ACL_ERROR_RT_CONTEXT_NULL,
                     "%s: another thread destroyed the current context or reset its device",
                     function);
}

/* --- life; all under session->lock --- */

static int context_new(struct session *s, const char *function, uint32_t device, bool primary,
                       struct context **cp)
{
    struct context *c;
    int error;

    if (s->closing)
        return ERROR_NOT_ZERO(session_error_lost(function));
    RETURN_IF_ERROR(session_open_device(s, function, device));
    c = slots_take(&s->contexts);
    if (!c)
        return error_set(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "%s: this process has as many contexts as it may have, or no memory: destroy some",
            function);
    c->session = s;
    c->device = device;
    c->primary = primary;
    c->hidden = cp == &s->devices[device].copier;
    c->host = NULL;
    c->kernel_ns = 0;
    c->number = ++s->contexts_made;
    for (unsigned i = 0; i < CONTEXT_OPTIONS; i++)
        atomic_store_explicit(&c->option[i], 0, memory_order_relaxed);
    atomic_store_explicit(&c->stop, false, memory_order_relaxed);
    error = stream_new(c, function, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC, true,
                       &c->default_stream);
    if (error != 0) {
        slots_put(&s->contexts, c);
        return error;
    }
    slots_publish(c);
    *cp = c;
    return 0;
}

/*
 * No call finds the context any more; its streams finish their work and go. Called without
 * session->lock: that may take a while. It ends in any case; an error says that its streams did not
 * finish.
 */
static int context_end(struct context *c, const char *function)
{
    struct session *s = c->session;
    int error;

    upcalls->callback_context_leave(c);
    upcalls->capture_end_context(c);
    error = stream_destroy_all_of(c, function);
    upcalls->callback_context_end(c);
    upcalls->graph_end_context(c);
    pthread_mutex_lock(&s->lock);
    slots_put(&s->contexts, c);
    pthread_mutex_unlock(&s->lock);
    return error;
}

/* --- devices --- */

static bool device_is_set(struct session *s, const struct device_state *d, uint32_t more_than)
{
    bool set;

    pthread_mutex_lock(&s->lock);
    set = d->set_count > more_than;
    pthread_mutex_unlock(&s->lock);
    return set;
}

static int set_device(const char *function, int32_t user_id)
{
    int error = 0;
    struct session *s;
    struct device_state *d;
    struct stream *made = NULL;
    uint32_t device;

    RETURN_IF_ERROR(context_refuse_kernel(function));
    RETURN_IF_ERROR(device_get(function, user_id, &s, &device));
    d = &s->devices[device];
    if (!device_is_set(s, d, 0))
        upcalls->state_callback_device(user_id, ACL_RT_DEVICE_STATE_SET_PRE);
    pthread_mutex_lock(&s->lock);
    if (d->set_count == 0) {
        error = context_new(s, function, device, true, &d->primary);
        made = error == 0 ? d->primary->default_stream : NULL;
    }
    if (error == 0) {
        d->set_count++;
        bind_thread(d->primary);
    }
    pthread_mutex_unlock(&s->lock);
    if (made)
        upcalls->state_callback_stream(made, ACL_RT_STREAM_STATE_CREATE_POST);
    if (error == 0)
        upcalls->state_callback_device(user_id, ACL_RT_DEVICE_STATE_SET_POST);
    return error;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    CALL_SCOPE;

    return set_device(__func__, deviceId);
}

struct context *context_get_slow(const char *function, int *error)
{
    struct session *s;
    int32_t device = acl_config_default_device();

    *error = process_enter();
    if (*error != 0)
        return NULL;
    s = session_peek();
    /* Why there is no context any more matters more than that there is none. */
    if (s && session_lost(s)) {
        *error = session_error_lost(function);
        return NULL;
    }
    if (device >= 0 && !thread_self()->in_kernel) {
        *error = set_device(function, device);
        return *error == 0 ? context_peek(thread_self()) : NULL;
    }
    *error = error_set(ACL_ERROR_RT_CONTEXT_NULL,
                       "%s: this thread has no current context: call aclrtSetDevice or "
                       "aclrtSetCurrentContext in it first",
                       function);
    return NULL;
}

int context_refuse_kernel(const char *function)
{
    if (__builtin_expect(!thread_self()->in_kernel, 1))
        return 0;
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: this was called inside of a kernel, which has no context and must not "
                     "wait for streams or end them: call it before the launch, or in a host "
                     "function behind it",
                     function);
}

static bool any_is_open(const struct session *s)
{
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (device_is_open(s, i))
            return true;
    return false;
}

/* Of the program, on this device, or on any. */
static bool has_streams(struct session *s, uint32_t device, bool any)
{
    struct stream *stream;

    for (uint32_t cursor = 0; (stream = stream_next(s, &cursor));)
        if (!stream->context->hidden && (any || stream->device == device))
            return true;
    return false;
}

/*
 * Under session->lock. Of a device that is not open, memory that was imported may be copied, and
 * what streams still do before end_copiers(). A copy that is late makes no copier: it would stay.
 */
static bool may_copy(struct session *s, uint32_t device)
{
    return device_is_open(s, device) || has_streams(s, device, !any_is_open(s)) ||
           upcalls->memory_has_of_device(s, device);
}

static int make_copier(struct session *s, const char *function, uint32_t device)
{
    struct device_state *d = &s->devices[device];

    if (d->copier)
        return 0;
    if (!may_copy(s, device))
        return context_error_gone(function);
    RETURN_IF_ERROR(context_new(s, function, device, true, &d->copier));
    lock_order_know(&d->copier->default_stream->lock, LOCK_COPIER);
    /* Relaxed: a failure of the stream comes by npud, after this. */
    atomic_store_explicit(&d->copier_id, d->copier->default_stream->id + 1, memory_order_relaxed);
    return 0;
}

struct stream *context_lock_copier(struct session *s, const char *function, uint32_t device,
                                   int *error)
{
    struct stream *copier = NULL;
    uint32_t tag = 0;

    pthread_mutex_lock(&s->lock);
    *error = make_copier(s, function, device);
    if (*error == 0) {
        copier = s->devices[device].copier->default_stream;
        tag = atomic_load_explicit(&copier->slot.tag, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
    if (!copier)
        return NULL;
    biased_lock_take(&copier->lock);
    if (atomic_load_explicit(&copier->slot.tag, memory_order_acquire) == tag)
        return copier;
    /* The device was reset meanwhile: the slot may have a stream of the program. */
    biased_lock_give(&copier->lock);
    *error = context_error_gone(function);
    return NULL;
}

bool context_will_copy(struct context *c)
{
    struct session *s = c->session;
    bool will;

    pthread_mutex_lock(&s->lock);
    will = s->device_info[c->device].strict && !s->devices[c->device].copier;
    pthread_mutex_unlock(&s->lock);
    return will;
}

/* Nothing of the process is left on the device. Under session->lock. What is to be freed then. */
static struct memory_list close_device(struct session *s, uint32_t device)
{
    for (unsigned i = 0; i < RES_LIMITS; i++)
        s->devices[device].res_limit[i] = 0;
    return upcalls->memory_take_device(s, device);
}

/*
 * Take the copier of the device, if that is not open; of any device if none is open, for a copier
 * may be of a device whose memory was imported. NULL: there is none.
 */
static struct context *take_copier(struct session *s, uint32_t device)
{
    struct context *copier = NULL;
    bool none;

    pthread_mutex_lock(&s->lock);
    none = !any_is_open(s);
    for (uint32_t i = 0; i < s->n_devices && !copier; i++)
        if (none || (i == device && !device_is_open(s, i))) {
            copier = s->devices[i].copier;
            s->devices[i].copier = NULL;
        }
    if (copier)
        slots_unpublish(copier);
    pthread_mutex_unlock(&s->lock);
    return copier;
}

/* After each context: what its streams have still done may have needed a copier. */
static void end_copiers(struct session *s, const char *function, uint32_t device)
{
    struct context *copier;

    while ((copier = take_copier(s, device))) {
        uint32_t of = copier->device, id = copier->default_stream->id + 1;

        context_end(copier, function);
        upcalls->exception_copier_ended(s);
        /* Another thread may have made another one. */
        atomic_compare_exchange_strong(&s->devices[of].copier_id, &id, 0);
    }
}

static int device_not_set(const char *function, int32_t user_id, bool force)
{
    /* With force not kept in the last-error record, as the API documentation has it. */
    return ERROR_NOT_ZERO((force ? error_store_soft : error_store)(
        ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
        "%s: device %d is not set: aclrtSetDevice was not called, or it was undone already",
        function, user_id));
}

/*
 * Work comes to its end, but a kernel may run for ever. This is enough for kernels of programs that
 * do not synchronise before, also where a debugger or valgrind makes them slow.
 */
static uint64_t kernel_time_ns(bool force)
{
    uint64_t limit = op_limit_or_longest_ns();

    return force && limit > NSEC_PER_SEC ? NSEC_PER_SEC : limit;
}

static void limit_kernels(struct context *c, uint64_t ns)
{
    c->kernel_ns = ns;
    c->ends_ns = clock_ns();
}

static int kernel_ended(const char *function, int32_t user_id, bool force)
{
    return ERROR_NOT_ZERO((force ? error_store_soft : error_store)(
        ACL_ERROR_RT_AICORE_TIMEOUT,
        "%s: device %d was reset, but a kernel did not come to its end in time: it was ended, and "
        "what was queued in the streams is discarded; synchronise before, or set "
        "aclrtSetOpExecuteTimeOut",
        function, user_id));
}

static int reset_device(const char *function, int32_t user_id, bool force)
{
    int error = 0;
    struct session *s;
    struct context *ended = NULL;
    struct memory_list leftovers = {0};
    struct device_state *d;
    uint32_t device;

    RETURN_IF_ERROR(context_refuse_kernel(function));
    RETURN_IF_ERROR(device_get(function, user_id, &s, &device));
    d = &s->devices[device];
    if (device_is_set(s, d, 0) && (force || !device_is_set(s, d, 1)))
        upcalls->state_callback_device(user_id, ACL_RT_DEVICE_STATE_RESET_PRE);
    pthread_mutex_lock(&s->lock);
    if (d->set_count == 0) {
        pthread_mutex_unlock(&s->lock);
        return device_not_set(function, user_id, force);
    }
    d->set_count = force ? 0 : d->set_count - 1;
    if (d->set_count == 0) {
        ended = d->primary;
        d->primary = NULL;
        limit_kernels(ended, kernel_time_ns(force));
        slots_unpublish(ended);
    }
    if (d->set_count == 0 && d->contexts == 0)
        leftovers = close_device(s, device);
    pthread_mutex_unlock(&s->lock);
    if (ended)
        error = context_end(ended, function);
    if (error == ACL_ERROR_RT_AICORE_TIMEOUT)
        error = kernel_ended(function, user_id, force);
    end_copiers(s, function, device);
    upcalls->memory_release(s, function, leftovers);
    if (ended)
        upcalls->state_callback_device(user_id, ACL_RT_DEVICE_STATE_RESET_POST);
    return error;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    CALL_SCOPE;

    return reset_device(__func__, deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId)
{
    CALL_SCOPE;

    return reset_device(__func__, deviceId, true);
}

aclError aclrtGetDevice(int32_t *deviceId)
{
    CALL_SCOPE;
    struct context *c;

    REQUIRE(deviceId);
    RETURN_IF_ERROR(process_enter());
    c = context_peek(thread_self());
    if (c)
        *deviceId = device_user_id(c->session, c->device);
    else if (acl_config_default_device() >= 0)
        *deviceId = acl_config_default_device();
    else
        return error_soft(ACL_ERROR_RT_CONTEXT_NULL,
                          "aclrtGetDevice: no device was set in this thread");
    return 0;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(active);
    if (flags)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtGetPrimaryCtxState: flags must be NULL");
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    pthread_mutex_lock(&s->lock);
    *active = s->devices[device].set_count > 0;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* --- contexts --- */

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    CALL_SCOPE;
    int error;
    struct session *s;
    struct context *c = NULL;
    struct stream *made = NULL;
    uint32_t device;

    REQUIRE(context);
    RETURN_IF_ERROR(context_refuse_kernel(__func__));
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    pthread_mutex_lock(&s->lock);
    error = context_new(s, __func__, device, false, &c);
    if (error == 0) {
        s->devices[device].contexts++;
        bind_thread(c);
        *context = handle_of(HANDLE_CONTEXT, c);
        made = c->default_stream;
        if (checked_runs())
            checked_object(CHECK_OBJECT, CHECK_OBJECT_CONTEXT, (uintptr_t)*context);
    }
    pthread_mutex_unlock(&s->lock);
    if (made)
        upcalls->state_callback_stream(made, ACL_RT_STREAM_STATE_CREATE_POST);
    return error;
}

static int not_destroyable(const char *function, const void *handle, bool primary)
{
    return primary ? error_set(ACL_ERROR_RT_CONTEXT_NULL,
                               "%s: this is the primary context of a device: use aclrtResetDevice",
                               function)
                   : handle_error(ACL_ERROR_RT_CONTEXT_NULL, function, HANDLE_CONTEXT, handle);
}

aclError aclrtDestroyContext(aclrtContext context)
{
    CALL_SCOPE;
    int error;
    struct memory_list leftovers = {0};
    struct session *s;
    struct context *c;
    uint32_t device;

    REQUIRE(context);
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(context_refuse_kernel(__func__));
    s = session_peek();
    if (!s)
        return not_destroyable(__func__, context, false);
    if (session_lost(s))
        return session_error_lost(__func__);
    pthread_mutex_lock(&s->lock);
    c = handle_get(&s->contexts, HANDLE_CONTEXT, context);
    if (!c || c->primary) {
        pthread_mutex_unlock(&s->lock);
        return not_destroyable(__func__, context, c != NULL);
    }
    slots_unpublish(c);
    if (--s->devices[c->device].contexts == 0 && s->devices[c->device].set_count == 0)
        leftovers = close_device(s, c->device);
    pthread_mutex_unlock(&s->lock);
    if (thread_self()->context == c)
        thread_self()->context = NULL;
    device = c->device;
    error = context_end(c, __func__);
    if (checked_runs())
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_CONTEXT, (uintptr_t)context);
    end_copiers(s, __func__, device);
    upcalls->memory_release(s, __func__, leftovers);
    return error;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    CALL_SCOPE;
    struct session *s;
    struct context *c = NULL;
    bool known = false;

    REQUIRE(context);
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(context_refuse_kernel(__func__));
    s = session_peek();
    if (s) {
        pthread_mutex_lock(&s->lock);
        c = handle_get(&s->contexts, HANDLE_CONTEXT, context);
        if (c)
            bind_thread(c);
        known = handle_is_known(&s->contexts, HANDLE_CONTEXT, context);
        pthread_mutex_unlock(&s->lock);
    }
    if (c)
        return 0;
    if (known)
        return error_set(ACL_ERROR_RT_CONTEXT_NULL,
                         "aclrtSetCurrentContext: the context was destroyed, or its device reset");
    return handle_error(ACL_ERROR_RT_PARAM_INVALID, __func__, HANDLE_CONTEXT, context);
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    CALL_SCOPE;
    struct context *c;

    REQUIRE(context);
    RETURN_IF_ERROR(process_enter());
    c = context_peek(thread_self());
    if (!c)
        return error_soft(ACL_ERROR_RT_CONTEXT_NULL,
                          "aclrtGetCurrentContext: this thread has no current context");
    *context = handle_of(HANDLE_CONTEXT, c);
    return 0;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    CALL_SCOPE;
    REQUIRE(stream);
    struct context *c = FIND_OR_RETURN(context_get, __func__);

    *stream = handle_of(HANDLE_STREAM, c->default_stream);
    return 0;
}

static void init(struct session *s, uint32_t seed)
{
    slots_init(&s->contexts, sizeof(struct context), 4096, seed);
}

void context_enable_peer_device(struct context *c, uint32_t peer)
{
    pthread_mutex_lock(&c->session->lock);
    if (context_is_current(c) && c->device != peer)
        c->session->devices[c->device].peer_devices |= 1u << peer;
    pthread_mutex_unlock(&c->session->lock);
}

const struct part context_part = {.session_init = init};
