#include "client/memory/recent.h"

#include <stdlib.h>

/* The calling thread's; NULL: no memory. */
static struct recent *get_recent(void)
{
    struct thread *t = thread_self();

    /* The dummy is several threads', these are one's. */
    if (!t->recent && t == thread_current)
        t->recent = calloc(1, sizeof(*t->recent));
    return t->recent;
}

void recent_note(const struct session *s, const struct memory *m, uint64_t changes)
{
    struct recent *r = get_recent();

    if (!r)
        return;
    if (r->session != s->serial || r->changes != changes) {
        r->session = s->serial;
        r->changes = changes;
        r->noted = 0;
    }
    memory_copy(&r->memory[r->noted++ % RECENT_MAX], m);
}
