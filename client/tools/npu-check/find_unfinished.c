/* A stream whose last task nothing has waited for when its process ended. */
#include "client/tools/npu-check/model.h"

static bool is_known(const struct model *m, const struct user *last)
{
    for (size_t i = 0; i < m->n_actors; i++)
        if (!m->actors[i]->stream && m->actors[i]->process == ACTOR_NONE &&
            actor_knows(m->actors[i], last->actor, last->epoch))
            return true;
    return false;
}

void find_unfinished(struct model *m, const struct stream *s)
{
    struct finding f = {.kind = FINDING_UNFINISHED};

    if (s->last.act == WORLD_NONE || is_known(m, &s->last))
        return;
    f.first = acts_get(&m->acts, s->last.act);
    find_add(m, &f);
}
