#include "client/memory/kernel_access.h"

#include <sys/mman.h>

#include "client/memory/alloc.h"
#include "client/memory/memory_key.h"
#include "client/memory/memory_lock.h"
#include "client/runtime/session.h"

static void protect_all(const struct session *s, int protection)
{
    const struct memory *m;

    for (m = s->allocations; m; m = m->next)
        if (memory_is_closable(m))
            mprotect((void *)m->mapped.start, m->mapped.size, protection);
}

/* Does what is mapped change with the kernels that run? */
static bool opens_for_all(const struct session *s)
{
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (s->device_info[d].strict)
            return memory_key() < 0;
    return false;
}

void kernel_access_open(struct session *s)
{
    if (!opens_for_all(s))
        return;
    memory_lock_to_change(s);
    if (s->kernels_open++ == 0)
        protect_all(s, PROT_READ | PROT_WRITE);
    pthread_rwlock_unlock(&s->memory_lock);
}

void kernel_access_close(struct session *s)
{
    if (!opens_for_all(s))
        return;
    memory_lock_to_change(s);
    if (--s->kernels_open == 0)
        protect_all(s, PROT_NONE);
    pthread_rwlock_unlock(&s->memory_lock);
}
