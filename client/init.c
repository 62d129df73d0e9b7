/* aclInit and aclFinalize: counting, configuration, and what a forked child begins with. */
#include <pthread.h>

#include "acl/acl.h"
#include "client/acl_config.h"
#include "client/error.h"
#include "client/process.h"
#include "client/session.h"

aclError aclInit(const char *configPath)
{
    int error;

    process_begin();
    pthread_mutex_lock(&process->lock);
    if (process->init_count > 0) {
        process->init_count++;
        pthread_mutex_unlock(&process->lock);
        return ACL_ERROR_REPEAT_INITIALIZE;
    }
    error = acl_config_load(configPath);
    if (error == 0) {
        session_forget_lost();
        process->init_count = 1;
        process->finalized = false;
    }
    pthread_mutex_unlock(&process->lock);
    return error;
}

/* Caller holds process->lock. */
static void finalize(void)
{
    process->init_count = 0;
    process->finalized = true;
    acl_config_disable();
    session_close_if_unused();
}

aclError aclFinalize(void)
{
    int error = process_enter();

    if (error != 0)
        return error;
    pthread_mutex_lock(&process->lock);
    if (process->init_count == 0 && process->finalized)
        error = error_set(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: nothing is initialised");
    else
        finalize();
    pthread_mutex_unlock(&process->lock);
    return error;
}

aclError aclFinalizeReference(uint64_t *refCount)
{
    int error = process_enter();

    if (error != 0)
        return error;
    pthread_mutex_lock(&process->lock);
    if (process->init_count == 0)
        error =
            error_set(ACL_ERROR_REPEAT_FINALIZE, "aclFinalizeReference: nothing is initialised");
    else if (process->init_count == 1)
        finalize();
    else
        process->init_count--;
    if (refCount)
        *refCount = process->init_count;
    pthread_mutex_unlock(&process->lock);
    return error;
}
