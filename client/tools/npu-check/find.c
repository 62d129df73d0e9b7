/* What findings have in common: their memory, and that their texts are kept. */
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"

static void keep_act(struct model *m, struct act *a)
{
    if (a->what == ACT_NONE)
        *a = acts_get(&m->acts, WORLD_NONE);
    else
        text_ref(&m->acts, a->range);
}

void find_add(struct model *m, struct finding *f)
{
    if (!(m->kinds & 1u << f->kind))
        return;
    f->count = 1;
    keep_act(m, &f->first);
    keep_act(m, &f->second);
    keep_act(m, &f->memory.made);
    keep_act(m, &f->memory.imported);
    keep_act(m, &f->missing.wait);
    keep_act(m, &f->missing.record);
    if (!findings_add(m->findings, f))
        err(NEED_EXIT, "memory");
}

/* Of the first byte in the process that the name is of. */
static uint64_t find_address(const struct name *n, uint64_t offset)
{
    if (n->address)
        return n->address + offset;
    for (uint32_t i = 0; i < n->n_maps; i++)
        if (offset - n->maps[i].offset < n->maps[i].size)
            return n->maps[i].address + (offset - n->maps[i].offset);
    return 0;
}

void find_set_memory(struct model *m, struct finding *f, const struct byte_range *bytes)
{
    const struct byte_use *u = bytes->use;

    f->memory.size = bytes->end - bytes->start;
    f->memory.offset = bytes->start;
    f->memory.whole = u->memory->size == UINT64_MAX ? 0 : u->memory->size;
    f->memory.kind = u->memory->kind;
    f->memory.registered = u->memory->host;
    f->memory.made = acts_get(&m->acts, u->memory->made);
    f->memory.imported = acts_get(&m->acts, WORLD_NONE);
    if (u->memory->host)
        f->memory.address = bytes->start;
    if (!u->name)
        return;
    f->memory.address = find_address(u->name, bytes->start);
    if (u->name->imported)
        f->memory.imported = acts_get(&m->acts, u->name->act);
}
