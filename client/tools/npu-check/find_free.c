/* Memory is used that is gone, or bytes behind its end. */
#include "client/tools/npu-check/model.h"

void find_use_after_free(struct model *m, uint32_t freed, uint32_t act,
                         const struct byte_range *bytes, bool beyond)
{
    struct finding f = {.kind = FINDING_USE_AFTER_FREE};

    f.first = acts_get(&m->acts, freed);
    f.second = acts_get(&m->acts, act);
    if (f.second.what == ACT_SUBMIT)
        f.second.what = bytes->use->how & CHECK_WRITE ? ACT_WRITE : ACT_READ;
    find_set_memory(m, &f, bytes);
    f.memory.beyond = beyond;
    find_add(m, &f);
}

/* The newest that had this address and is gone. */
static const struct name *find_dead(const struct process *p, uint64_t address)
{
    for (uint64_t i = p->n_dead; i > 0 && i + PROCESS_DEAD_NAMES > p->n_dead; i--) {
        const struct name *n = p->dead[(i - 1) % PROCESS_DEAD_NAMES];

        if (n->address && address - n->address < n->memory->size)
            return n;
    }
    return NULL;
}

static const struct name *find_living(const struct process *p, uint64_t address)
{
    for (const struct name *n = p->names; n; n = n->hh.next)
        if (!n->gone && n->address && address - n->address < n->memory->size)
            return n;
    return NULL;
}

static bool was_mapped_at(const struct name *n, uint64_t address)
{
    return n->closed.address != 0 && address - n->closed.address < n->closed.size;
}

/* What was mapped there last, of what is known still. */
static const struct name *find_unmapped(const struct process *p, uint64_t address)
{
    for (const struct name *n = p->names; n; n = n->hh.next)
        if (was_mapped_at(n, address))
            return n;
    return NULL;
}

static void set_refused_memory(struct model *m, struct finding *f, const struct name *n,
                               const struct check_refused *r)
{
    struct byte_use u = {.name = (struct name *)n, .memory = n->memory};
    bool is_unmapped = r->why == CHECK_UNMAPPED;
    uint64_t offset =
        is_unmapped ? r->address - n->closed.address + n->closed.offset : r->address - n->address;
    /* It was freed a second time: then all of it is meant. */
    uint64_t size = r->size != 0 ? r->size : n->memory->size;

    find_set_memory(m, f, &(struct byte_range){.use = &u, .start = offset, .end = offset + size});
    if (r->why == CHECK_FREED)
        f->first = acts_get(&m->acts, n->freed);
    else if (is_unmapped)
        f->first = acts_get(&m->acts, n->closed.act);
}

void find_refused(struct model *m, struct process *p, const struct check_refused *r)
{
    struct finding f = {.kind = FINDING_USE_AFTER_FREE};
    uint32_t act = model_act(m, ACT_SUBMIT, NULL);
    const struct name *n = NULL;

    f.second = acts_get(&m->acts, act);
    acts_unref(&m->acts, act);
    if (r->why == CHECK_UNMAPPED)
        n = find_unmapped(p, r->address);
    if (r->why == CHECK_FREED)
        n = find_dead(p, r->address);
    if (!n && r->why == CHECK_FREED)
        n = find_living(p, r->address); /* a pool has it */
    if (r->why == CHECK_BEYOND)
        n = find_living(p, r->start ? r->start : r->address);
    if (n)
        set_refused_memory(m, &f, n, r);
    f.memory.address = r->address;
    f.memory.size = r->size != 0 ? r->size : f.memory.size;
    f.memory.whole = r->whole ? r->whole : f.memory.whole;
    f.memory.offset = r->start ? r->address - r->start : f.memory.offset;
    f.memory.beyond = r->why == CHECK_BEYOND;
    find_add(m, &f);
}
