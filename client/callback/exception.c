/*
 * Exception callbacks: npud writes each failure of a task into a ring of the session page
 * (proto/shm/exception_shm.h); here they are taken out, and the program's callbacks called, by a
 * thread of the library, or by the call that is about to return the failure's code.
 *
 * Callbacks are called one after the other, whichever thread calls them. The thread is made when
 * the first callback is set, or with the session if that comes later, and ends with the session.
 */
#include "client/callback/exception.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "acl/acl.h"
#include "client/callback/callback_table.h"
#include "client/runtime/device.h"
#include "client/core/interrupt.h"
#include "client/core/lock_order.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/runtime/session.h"
#include "proto/util/futex.h"

/* An exception that was taken from its ring while a callback waited, or when a copier ended. */
struct aside {
    aclrtExceptionInfo info;
    struct aside *next;
};

static struct {
    struct callback_table registered; /* its lock also guards set and session */
    aclrtExceptionInfoCallback set;
    bool others;             /* exception_want() */
    struct session *session; /* that they are for; NULL: none */

    pthread_mutex_t calling; /* held by the thread that calls callbacks; before `taking` */
    pthread_mutex_t taking;  /* the client's end of the rings, and what follows */
    struct aside *aside, **aside_end;
} exceptions = {.registered = CALLBACK_TABLE(CALLBACK_BY_FUNCTION),
                .calling = PTHREAD_MUTEX_INITIALIZER,
                .taking = PTHREAD_MUTEX_INITIALIZER};

/* --- taking --- */

static bool is_open(struct session *s, uint32_t device)
{
    return atomic_load_explicit(&s->exceptions.devices, memory_order_acquire) >> device & 1;
}

static bool take_from_ring(struct session *s, uint32_t device, aclrtExceptionInfo *info)
{
    bool ring;

    if (!exception_take(&s->page->exceptions[device], &info->failure, &ring))
        return false;
    if (ring && !atomic_load(&s->page->doorbell[device].watched))
        eventfd_write(s->devices[device].doorbell, 1);
    info->device = device;
    return true;
}

/* Of a copy that the library makes: the call that it is for returns the error. */
static bool is_hidden(struct session *s, const aclrtExceptionInfo *info)
{
    return info->failure.stream + 1 ==
               atomic_load_explicit(&s->devices[info->device].copier_id, memory_order_relaxed) &&
           info->failure.stream != EXCEPTION_NONE;
}

static bool take_from_rings(struct session *s, aclrtExceptionInfo *info)
{
    for (uint32_t d = 0; d < s->n_devices; d++)
        while (is_open(s, d) && take_from_ring(s, d, info))
            if (!is_hidden(s, info))
                return true;
    return false;
}

static bool take_aside(aclrtExceptionInfo *info)
{
    struct aside *a = exceptions.aside;

    if (!a)
        return false;
    *info = a->info;
    exceptions.aside = a->next;
    free(a);
    return true;
}

/* npud's end is a failure of each device, after all that it has told. */
static bool take_lost(struct session *s, aclrtExceptionInfo *info)
{
    while (session_lost(s) && s->exceptions.lost_device < s->n_devices) {
        uint32_t d = s->exceptions.lost_device++;

        if (!is_open(s, d))
            continue;
        *info = (aclrtExceptionInfo){.failure = {.task = EXCEPTION_NONE,
                                                 .stream = EXCEPTION_NONE,
                                                 .thread = EXCEPTION_NONE,
                                                 .code = ACL_ERROR_RT_SOCKET_CLOSE},
                                     .device = d};
        return true;
    }
    return false;
}

static bool take_exception(struct session *s, aclrtExceptionInfo *info)
{
    bool found;

    pthread_mutex_lock(&exceptions.taking);
    found = take_aside(info) || take_from_rings(s, info) || take_lost(s, info);
    pthread_mutex_unlock(&exceptions.taking);
    return found;
}

/* --- waiting inside of a callback --- */

/*
 * Inside a callback no other thread takes exceptions, and what the callback waits for may be behind
 * one that finds no room in its ring. So around each wait there a thread sets exceptions aside.
 */
struct aside_thread {
    struct session *session;
    pthread_t thread;
    _Atomic bool over;
};

static void set_aside(struct session *s)
{
    aclrtExceptionInfo info;
    struct aside *a;

    pthread_mutex_lock(&exceptions.taking);
    /* Without memory they stay where they are. */
    while ((a = malloc(sizeof(*a))) && take_from_rings(s, &info)) {
        *a = (struct aside){.info = info};
        if (!exceptions.aside)
            exceptions.aside_end = &exceptions.aside;
        *exceptions.aside_end = a;
        exceptions.aside_end = &a->next;
    }
    free(a);
    pthread_mutex_unlock(&exceptions.taking);
}

void exception_copier_ended(struct session *s)
{
    set_aside(s);
}

static void *set_aside_main(void *arg)
{
    struct aside_thread *w = arg;
    _Atomic uint32_t *seq = &w->session->page->exception_seq;

    for (;;) {
        uint32_t seen = atomic_load_explicit(seq, memory_order_acquire);

        if (atomic_load(&w->over))
            return NULL;
        set_aside(w->session);
        futex_wait_until(seq, seen, NULL);
    }
}

static void wake_threads(struct session *s)
{
    atomic_fetch_add(&s->page->exception_seq, 1);
    futex_wake_all(&s->page->exception_seq);
}

static void *aside_begin(struct session *s)
{
    struct aside_thread *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->session = s;
    if (thread_start(&w->thread, set_aside_main, w, "npud-aside", 0) == 0)
        return w;
    free(w);
    return NULL;
}

static void aside_end(struct session *s, void *begun)
{
    struct aside_thread *w = begun;

    if (!w)
        return;
    atomic_store(&w->over, true);
    wake_threads(s);
    pthread_join(w->thread, NULL);
    free(w);
}

static const struct wait_hook aside_hook = {.begin = aside_begin, .end = aside_end};

/* --- calling --- */

/* False: this is a child that was forked in a callback, and has nothing of all this. */
static CALLS_PROGRAM bool call_callbacks(struct session *s, aclrtExceptionInfo *info)
{
    pid_t me = process_id();
    aclrtExceptionInfoCallback set;
    struct callback_entry *list;
    size_t n;

    pthread_mutex_lock(&exceptions.registered.lock);
    set = exceptions.set;
    list = callback_table_copy(&exceptions.registered, &n);
    pthread_mutex_unlock(&exceptions.registered.lock);
    info->device = (uint32_t)device_user_id(s, info->device);
    wait_hook = &aside_hook;
    /* Without memory for the list, no callback of the two kinds is called. */
    if (list && set)
        set(info);
    for (size_t i = 0; list && i < n && process_id() == me; i++)
        ((aclrtExceptionInfoCallback)list[i].fn)(info);
    if (process_id() == me)
        upcalls->kernel_failure_tell(info);
    wait_hook = NULL;
    free(list);
    return process_id() == me;
}

/* False: as call_callbacks(), and no lock is held. */
static bool drain_exceptions(struct session *s)
{
    aclrtExceptionInfo info;

    if (wait_hook)
        return true;
    if (!interrupt_lock(&exceptions.calling))
        return true; /* the thread that calls one now goes on with the next */
    while (take_exception(s, &info))
        if (!call_callbacks(s, &info))
            return false;
    pthread_mutex_unlock(&exceptions.calling);
    return true;
}

/* What a callback does wrong is not what the call that fails has done. */
void exception_drain(struct session *s)
{
    struct thread *t = thread_self();
    int last = t->last_error;

    drain_exceptions(s);
    t->last_error = last;
}

/* --- the thread --- */

static void *exception_main(void *arg)
{
    struct session *s = arg;
    _Atomic uint32_t *seq = &s->page->exception_seq;

    for (;;) {
        uint32_t seen = atomic_load_explicit(seq, memory_order_acquire);
        bool lost = session_lost(s);
        bool end = side_thread_asked(&s->exceptions.thread);

        if (!drain_exceptions(s) || end)
            return NULL;
        if (lost)
            break;
        /* Only here it does nothing by itself: callbacks may do anything. */
        atomic_fetch_add(&s->page->library_threads, 1);
        futex_wait_until(seq, seen, NULL);
        atomic_fetch_sub(&s->page->library_threads, 1);
    }
    side_thread_leave(&s->exceptions.thread);
    return NULL;
}

/*
 * Under the lock of registered. Without a thread, callbacks run in the calls that synchronise. 0 or
 * an error number.
 */
static int start_if_wanted(struct session *s)
{
    bool wanted = exceptions.set || exceptions.others || exceptions.registered.n > 0;
    int r = 0;

    if (wanted)
        r = side_thread_start(&s->exceptions.thread, exception_main, s, "npud-exception", 0);
    for (uint32_t d = 0; d < DEVICES_MAX; d++)
        atomic_store_explicit(&s->page->exceptions[d].wanted, wanted && r == 0,
                              memory_order_relaxed);
    return r;
}

static int session_begin(struct session *s, const char *function)
{
    int r;

    lock_order_know(&exceptions.calling, LOCK_CALLING);
    lock_order_know(&exceptions.registered.lock, LOCK_REGISTERED);
    lock_order_know(&exceptions.taking, LOCK_TAKING);
    pthread_mutex_lock(&exceptions.registered.lock);
    exceptions.session = s;
    r = start_if_wanted(s);
    if (r != 0)
        exceptions.session = NULL;
    pthread_mutex_unlock(&exceptions.registered.lock);
    return r == 0
               ? 0
               : error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot start a thread", function);
}

/* What is still to be called is called before the thread ends. */
static void session_end(struct session *s)
{
    pthread_mutex_lock(&exceptions.registered.lock);
    if (exceptions.session == s)
        exceptions.session = NULL;
    pthread_mutex_unlock(&exceptions.registered.lock);
    if (!side_thread_ask(&s->exceptions.thread))
        return;
    wake_threads(s);
    pthread_join(s->exceptions.thread.id, NULL);
}

static void wake_thread(struct session *s)
{
    if (s->page)
        wake_threads(s);
}

static void forget_inherited(void)
{
    struct aside *a;

    callback_table_forget(&exceptions.registered);
    pthread_mutex_init(&exceptions.calling, NULL);
    pthread_mutex_init(&exceptions.taking, NULL);
    exceptions.set = NULL;
    exceptions.others = false;
    exceptions.session = NULL;
    while ((a = exceptions.aside)) {
        exceptions.aside = a->next;
        free(a);
    }
    wait_hook = NULL;
}

const struct part exception_part = {
    .fork_child = forget_inherited,
    .session_begin = session_begin,
    .session_lost = wake_thread,
    .session_end = session_end,
};

/* --- callbacks --- */

/* Under the lock of registered: the caller has changed the table. */
static int table_changed(const char *function)
{
    if (!exceptions.session || start_if_wanted(exceptions.session) == 0)
        return 0;
    return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot start a thread", function);
}

int exception_want(const char *function)
{
    int error;

    pthread_mutex_lock(&exceptions.registered.lock);
    exceptions.others = true;
    error = table_changed(function);
    pthread_mutex_unlock(&exceptions.registered.lock);
    return error;
}

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    CALL_SCOPE;
    int error;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&exceptions.registered.lock);
    exceptions.set = callback;
    error = table_changed(__func__);
    if (error != 0)
        exceptions.set = NULL;
    pthread_mutex_unlock(&exceptions.registered.lock);
    return error;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback)
{
    CALL_SCOPE;
    callback_table_fn *fn = (callback_table_fn *)callback;
    int error = 0;

    RETURN_IF_ERROR(process_enter());
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, callback);
    pthread_mutex_lock(&exceptions.registered.lock);
    if (!callback_table_has(&exceptions.registered, "", fn)) {
        error = callback_table_add(&exceptions.registered, __func__, "", fn, NULL);
        if (error == 0) {
            error = table_changed(__func__);
            if (error != 0)
                callback_table_remove(&exceptions.registered, "", fn);
        }
    }
    pthread_mutex_unlock(&exceptions.registered.lock);
    return error;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback)
{
    CALL_SCOPE;
    int error = 0;

    RETURN_IF_ERROR(process_enter());
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, callback);
    pthread_mutex_lock(&exceptions.registered.lock);
    if (callback_table_remove(&exceptions.registered, "", (callback_table_fn *)callback))
        error = table_changed(__func__);
    pthread_mutex_unlock(&exceptions.registered.lock);
    return error;
}

/* --- getters --- */

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->failure.task : UINT32_MAX;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->failure.stream : UINT32_MAX;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->failure.thread : UINT32_MAX;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->device : UINT32_MAX;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? (uint32_t)info->failure.code : UINT32_MAX;
}
