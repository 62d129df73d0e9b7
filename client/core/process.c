#include "client/core/process.h"

#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/upcall.h"

_Alignas(PROCESS_PAGE) union process_page process_page;
const struct upcalls *upcalls;

static pid_t owner; /* not wiped: tells a child from a process that never called anything */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * When the library is loaded. The page has no bytes in the file, so its memory is anonymous, which
 * the kernel asks for. If it refuses, fork is not noticed, which is the smaller evil.
 */
static __attribute__((constructor)) void guard_page(void)
{
    madvise(&process_page, sizeof(process_page), MADV_WIPEONFORK);
}

static void set_up(void)
{
    lock_order_know(&process->lock, LOCK_PROCESS);
    lock_order_know(&process->threads_lock, LOCK_THREADS);
    lock_order_know(&process->callback_lock, LOCK_CALLBACK);
    lock_order_know(&process->door_lock, LOCK_DOORS);
    lock_order_know(&process->store_lock, LOCK_SENTENCES);
    owner = getpid();
    atomic_store_explicit(&process->alive, true, memory_order_release);
}

pid_t process_id(void)
{
    return atomic_load_explicit(&process->alive, memory_order_acquire) ? owner : 0;
}

int process_enter_slow(void)
{
    pthread_once(&once, set_up);
    if (owner == getpid())
        return 0;
    return error_set(
        ACL_ERROR_UNINITIALIZE,
        "process %d was forked from %d, which had used ACL: call aclInit here before anything else",
        (int)getpid(), (int)owner);
}

void process_begin(void)
{
    pthread_once(&once, set_up);
    if (atomic_load(&process->alive))
        return;
    pthread_mutex_lock(&process->lock);
    if (!atomic_load(&process->alive)) {
        LIFECYCLE_WALK(fork_child);
        owner = getpid();
        atomic_store(&process->alive, true);
    }
    pthread_mutex_unlock(&process->lock);
}
