/* The list of findings: what is found again is counted. */
#include <string.h>
#include <uthash.h>

#include "client/tools/npu-check/finding.h"

const char *const finding_names[FINDING_KINDS] = {
    [FINDING_RACE] = "race",
    [FINDING_UNINITIALISED] = "uninitialised",
    [FINDING_USE_AFTER_FREE] = "use-after-free",
    [FINDING_LEAK] = "leak",
    [FINDING_UNFINISHED] = "unfinished",
    [FINDING_EMPTY_WAIT] = "empty-wait",
    [FINDING_IGNORED] = "ignored",
};

/* What makes two acts the same, whichever stream or thread has done them. */
struct act_key {
    uint32_t what, process, place, stream;
};

struct finding_key {
    uint32_t kind, object, beyond;
    int32_t code;
    struct act_key first, second;
};

struct finding_entry {
    struct finding_key key;
    size_t index;
    UT_hash_handle hh;
};

/* Without a place, its stream is what tells an act from others. */
static struct act_key key_of_act(const struct act *a)
{
    if (a->what == ACT_NONE)
        return (struct act_key){0};
    return (struct act_key){.what = a->what,
                            .process = a->process,
                            .place = a->place,
                            .stream = a->place == WORLD_NONE ? a->stream : 0};
}

static struct finding_key key_of(const struct finding *f)
{
    struct finding_key key;

    memset(&key, 0, sizeof(key));
    key.kind = f->kind;
    key.object = f->kind == FINDING_LEAK || f->kind == FINDING_EMPTY_WAIT ? f->object : 0;
    key.beyond = f->memory.beyond;
    key.code = f->code;
    key.first = key_of_act(&f->first);
    key.second = key_of_act(&f->second);
    return key;
}

static void count_again(struct finding *known, const struct finding *f)
{
    if (f->kind == FINDING_LEAK) {
        known->objects += f->objects;
        known->memory.size += f->memory.size;
    } else {
        known->count += f->count ? f->count : 1;
    }
}

static bool append_finding(struct findings *all, const struct finding *f)
{
    if (all->n == all->size) {
        size_t size = all->size ? all->size * 2 : 16;
        struct finding *list = reallocarray(all->list, size, sizeof(*list));

        if (!list)
            return false;
        all->list = list;
        all->size = size;
    }
    all->list[all->n] = *f;
    if (all->list[all->n].count == 0)
        all->list[all->n].count = 1;
    all->n++;
    return true;
}

bool findings_add(struct findings *all, const struct finding *f)
{
    struct finding_entry *index = all->index, *e;
    struct finding_key key = key_of(f);

    HASH_FIND(hh, index, &key, sizeof(key), e);
    if (e) {
        count_again(&all->list[e->index], f);
        return true;
    }
    e = calloc(1, sizeof(*e));
    if (!e || !append_finding(all, f)) {
        free(e);
        return false;
    }
    e->key = key;
    e->index = all->n - 1;
    HASH_ADD(hh, index, key, sizeof(e->key), e);
    all->index = index;
    return true;
}

void findings_deinit(struct findings *all)
{
    struct finding_entry *index = all->index, *e = index, *next;

    HASH_CLEAR(hh, index);
    for (; e; e = next) {
        next = e->hh.next;
        free(e);
    }
    free(all->list);
    memset(all, 0, sizeof(*all));
}
