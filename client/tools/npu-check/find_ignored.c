/* A task has failed, and no call has reported it. */
#include "client/tools/npu-check/model.h"

void find_ignored(struct model *m, const struct stream *s, int32_t code)
{
    struct finding f = {.kind = FINDING_IGNORED, .code = code};

    f.first = acts_get(&m->acts, s->last.act);
    find_add(m, &f);
}
