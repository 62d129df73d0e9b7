/* Tables of acts and texts with reference counts. */
#include <string.h>

#include "client/tools/npu-check/acts.h"
#include "client/tools/npu-check/need.h"

void acts_init(struct acts *all, struct world *w)
{
    memset(all, 0, sizeof(*all));
    all->world = w;
    all->free = all->free_text = WORLD_NONE;
    memset(all->buckets, 0xff, sizeof(all->buckets));
}

void acts_deinit(struct acts *all)
{
    free(all->list);
    free(all->texts);
    memset(all, 0, sizeof(*all));
}

uint32_t acts_add(struct acts *all, const struct act *act)
{
    uint32_t i = all->free;

    if (i != WORLD_NONE) {
        all->free = all->list[i].act.process;
    } else {
        all->list = need_room(all->list, all->n, &all->size, sizeof(*all->list));
        i = (uint32_t)all->n++;
    }
    all->list[i] = (struct act_entry){.act = *act, .refs = 1};
    text_ref(all, act->range);
    return i;
}

uint32_t acts_ref(struct acts *all, uint32_t act)
{
    if (act != WORLD_NONE)
        all->list[act].refs++;
    return act;
}

void acts_unref(struct acts *all, uint32_t act)
{
    if (act == WORLD_NONE || --all->list[act].refs > 0)
        return;
    text_unref(all, all->list[act].act.range);
    all->list[act].act.process = all->free;
    all->free = act;
}

struct act acts_get(const struct acts *all, uint32_t act)
{
    if (act == WORLD_NONE)
        return (struct act){.what = ACT_NONE,
                            .process = WORLD_NONE,
                            .place = WORLD_NONE,
                            .stream = WORLD_NONE,
                            .range = WORLD_NONE};
    return all->list[act].act;
}

static uint32_t hash_text(const char *s, size_t n)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static uint32_t *find_bucket(struct acts *all, uint32_t hash)
{
    return &all->buckets[hash % (sizeof(all->buckets) / sizeof(all->buckets[0]))];
}

static uint32_t find_text(struct acts *all, uint32_t hash, const char *s, size_t n)
{
    uint32_t i = *find_bucket(all, hash);

    for (; i != WORLD_NONE; i = all->texts[i].next)
        if (all->texts[i].hash == hash && strlen(all->world->texts[i]) == n &&
            memcmp(all->world->texts[i], s, n) == 0)
            return i;
    return WORLD_NONE;
}

static uint32_t make_text(struct acts *all)
{
    struct world *w = all->world;
    uint32_t i = all->free_text;

    if (i != WORLD_NONE) {
        all->free_text = all->texts[i].next;
        return i;
    }
    if (w->n_texts == all->texts_size) {
        all->texts = need_room(all->texts, w->n_texts, &all->texts_size, sizeof(*all->texts));
        w->texts = need_array(w->texts, all->texts_size, sizeof(*w->texts));
    }
    return (uint32_t)w->n_texts++;
}

uint32_t text_take(struct acts *all, const char *s, size_t n)
{
    uint32_t hash, i, *bucket;

    n = strnlen(s, n);
    hash = hash_text(s, n);
    i = find_text(all, hash, s, n);
    if (i != WORLD_NONE) {
        all->texts[i].refs++;
        return i;
    }
    i = make_text(all);
    bucket = find_bucket(all, hash);
    all->texts[i] = (struct text_entry){.refs = 1, .next = *bucket, .hash = hash};
    *bucket = i;
    all->world->texts[i] = need_zeroed(n + 1, 1);
    memcpy(all->world->texts[i], s, n);
    return i;
}

void text_ref(struct acts *all, uint32_t text)
{
    if (text != WORLD_NONE)
        all->texts[text].refs++;
}

void text_unref(struct acts *all, uint32_t text)
{
    uint32_t *link;

    if (text == WORLD_NONE || --all->texts[text].refs > 0)
        return;
    link = find_bucket(all, all->texts[text].hash);
    while (*link != text)
        link = &all->texts[*link].next;
    *link = all->texts[text].next;
    free(all->world->texts[text]);
    all->world->texts[text] = NULL;
    all->texts[text].next = all->free_text;
    all->free_text = text;
}
