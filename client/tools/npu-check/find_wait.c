/* A wait for an event that has no record: it waits for nothing. */
#include "client/tools/npu-check/model.h"

void find_empty_wait(struct model *m, const struct event *e, uint32_t act)
{
    struct finding f = {.kind = FINDING_EMPTY_WAIT};

    if (e->unknown)
        return;
    f.first = acts_get(&m->acts, e->reset);
    f.second = acts_get(&m->acts, act);
    f.object = e->kind == CHECK_EVENT_IPC ? OBJECT_IPC_EVENT : OBJECT_EVENT;
    f.missing.event = f.object;
    f.missing.event_number = e->number;
    find_add(m, &f);
}
