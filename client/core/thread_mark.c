#include "client/core/thread_mark.h"

#include <stdlib.h>
#include <string.h>

static bool take_mark(struct thread_mark *mark)
{
    bool taken = false;

    return atomic_compare_exchange_strong(&mark->taken, &taken, true);
}

void *thread_mark_new(_Atomic(void *) *list, size_t size)
{
    struct thread_mark *mark;

    for (mark = atomic_load(list); mark; mark = mark->next)
        if (take_mark(mark))
            return mark;
    mark = aligned_alloc(alignof(struct thread_mark), size);
    if (!mark)
        return NULL;
    memset(mark, 0, size);
    atomic_store(&mark->taken, true);
    mark->next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &mark->next, mark))
        ;
    return mark;
}
