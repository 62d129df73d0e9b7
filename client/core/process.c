#include "client/core/process.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"

/*
 * If there is no memory for a page of its own: then fork is not noticed, which is the smaller evil.
 */
static struct process none;
struct process *process = &none;

static pid_t owner; /* not wiped: tells a child from a process that never called anything */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * When the library is loaded, before there are threads that could find the pointer changed under
 * their hands.
 */
static __attribute__((constructor)) void make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0)
        process = page;
}

static void set_up(void)
{
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
