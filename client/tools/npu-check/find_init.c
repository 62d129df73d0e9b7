/* Bytes are read that nothing has written. */
#include "client/tools/npu-check/model.h"

void find_uninitialised(struct model *m, uint32_t act, const struct byte_range *bytes)
{
    struct finding f = {.kind = FINDING_UNINITIALISED};

    f.second = acts_get(&m->acts, act);
    if (f.second.what == ACT_SUBMIT)
        f.second.what = ACT_READ;
    find_set_memory(m, &f, bytes);
    find_add(m, &f);
}
