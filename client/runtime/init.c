/* aclInit and aclFinalize: counting, configuration, and what a forked child begins with. */
#include <pthread.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/acl_config.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/runtime/init_callback.h"
#include "client/core/process.h"
#include "client/core/upcall.h"
#include "client/runtime/session.h"

/*
 * A default device that npud does not have is found out here, if npud can be asked; else by the
 * first call that needs it.
 */
static int check_default_device(void)
{
    int32_t device = acl_config_default_device();
    struct error_saved ignored;
    struct session *s;
    uint32_t number;
    int error;

    if (device < 0)
        return 0;
    /* No npud is no failure of aclInit: the first call that needs it says so. */
    error_save(&ignored);
    s = session_get("aclInit", &error);
    error_save_end(&ignored);
    return s ? device_of_user_id(s, "aclInit", device, &number) : 0;
}

/* *text: what the configuration says, freed by the caller. */
static int init(const char *configPath, char **text)
{
    int error;

    pthread_mutex_lock(&process->lock);
    if (process->init_count > 0) {
        process->init_count++;
        pthread_mutex_unlock(&process->lock);
        return error_set(
            ACL_ERROR_REPEAT_INITIALIZE,
            "aclInit: initialised already: this call was counted, and the program may go on");
    }
    error = acl_config_load(configPath, text);
    if (error == 0) {
        session_forget_lost();
        process->init_count = 1;
        process->finalized = false;
    }
    pthread_mutex_unlock(&process->lock);
    return error;
}

/* As if aclInit had not been called. */
static void take_init_back(void)
{
    init_callback_end();
    pthread_mutex_lock(&process->lock);
    process->init_count = 0;
    acl_config_undo();
    pthread_mutex_unlock(&process->lock);
}

/* The session of before, if there is one. */
static void use_again(void)
{
    struct session *s = session_peek();

    if (s && !session_lost(s))
        session_use_again(s);
}

/*
 * aclFinalize waits for the thread that runs exception callbacks: it must not wait for itself.
 * wait_hook is set in such a callback.
 */
static int check_thread(const char *function)
{
    if (wait_hook)
        return error_set(
            ACL_ERROR_INTERNAL_ERROR,
            "%s: an exception callback cannot call this, because this waits for such callbacks",
            function);
    if (init_callback_finalizing)
        return error_set(ACL_ERROR_INTERNAL_ERROR, "%s: a callback of aclFinalize cannot call this",
                         function);
    return 0;
}

/* What its configuration asks for of profiling and of dumps; and its end. */
static int begin_tools(const char *text)
{
    int error = upcalls->dump_configure(text);

    if (error == 0 && (error = upcalls->profile_configure(text)) != 0)
        upcalls->dump_unconfigure();
    return error;
}

static void end_tools(void)
{
    upcalls->profile_unconfigure();
    upcalls->dump_unconfigure();
}

aclError aclInit(const char *configPath)
{
    CALL_SCOPE;
    char *text = NULL;
    int error;

    process_begin();
    RETURN_IF_ERROR(check_thread(__func__));
    upcalls->callback_drop_lost();
    RETURN_IF_ERROR(init(configPath, &text));
    error = check_default_device();
    if (error == 0)
        error = begin_tools(text);
    if (error == 0 && (error = init_callback_begin(text)) != 0)
        end_tools();
    free(text);
    if (error != 0)
        take_init_back();
    else
        use_again();
    return error;
}

/* Does undoing one aclInit, or all, end the use? Under process->lock. */
static bool is_last_undo(bool all)
{
    return process->init_count == 1 || (all && (process->init_count > 0 || !process->finalized));
}

/* Undo one aclInit, or all. nested: another call of this thread is still using the session. */
static int undo_init(const char *function, bool nested, bool all, uint64_t *refs)
{
    int error = 0;
    bool closed = false, over;

    pthread_mutex_lock(&process->lock);
    if (process->init_count == 0 && !is_last_undo(all)) {
        error =
            error_set(ACL_ERROR_REPEAT_FINALIZE,
                      "%s: aclInit was not called, or all its calls were undone already", function);
    } else if (!is_last_undo(all)) {
        process->init_count--;
    } else {
        process->init_count = 0;
        process->finalized = true;
        acl_config_disable();
        init_callback_end();
        closed = !nested && session_close_if_unused();
    }
    if (refs)
        *refs = process->init_count;
    over = error == 0 && process->init_count == 0;
    pthread_mutex_unlock(&process->lock);
    if (closed)
        session_free_closed();
    else if (over)
        session_tell_idle();
    return error;
}

/*
 * The program's callbacks come first, without the lock, and may keep the library initialised. If
 * another thread ends the use meanwhile, they are called twice.
 */
static int finalize(const char *function, bool nested, bool all, uint64_t *refs)
{
    bool last;

    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(check_thread(function));
    RETURN_IF_ERROR(context_refuse_kernel(function));
    pthread_mutex_lock(&process->lock);
    last = is_last_undo(all);
    pthread_mutex_unlock(&process->lock);
    if (last) {
        RETURN_IF_ERROR(init_callback_finalize(function));
        end_tools();
    }
    return undo_init(function, nested, all, refs);
}

aclError aclFinalize(void)
{
    CALL_SCOPE;

    return finalize(__func__, CALL_IS_NESTED, true, NULL);
}

aclError aclFinalizeReference(uint64_t *refCount)
{
    CALL_SCOPE;

    return finalize(__func__, CALL_IS_NESTED, false, refCount);
}
