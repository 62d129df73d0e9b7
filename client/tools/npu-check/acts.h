/*
 * Acts that something refers to: the history of memory, tasks that were not looked at yet, objects.
 * Each is a number here, and goes when nothing refers to it: there are as many as there are things,
 * and not as many as were done. The same holds for texts (ranges and marks), which an act names.
 */
#pragma once

#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/world.h"

struct act_entry {
    struct act act; /* free: act.process is the next free one */
    uint32_t refs;
};

struct text_entry {
    uint32_t refs;
    uint32_t next; /* of the free ones, or with the same hash */
    uint32_t hash;
};

struct acts {
    struct act_entry *list;
    size_t n, size;
    uint32_t free;
    struct world *world; /* has the texts */
    struct text_entry *texts;
    size_t texts_size;
    uint32_t free_text;
    uint32_t buckets[1024];
};

void acts_init(struct acts *all, struct world *w);
/** Texts remain in the world. */
void acts_deinit(struct acts *all);

/** A new one with one reference. */
uint32_t acts_add(struct acts *all, const struct act *act);
/** WORLD_NONE is allowed, for both. */
uint32_t acts_ref(struct acts *all, uint32_t act);
void acts_unref(struct acts *all, uint32_t act);
/** A copy; of WORLD_NONE: ACT_NONE. */
struct act acts_get(const struct acts *all, uint32_t act);

/** The number of a text of n bytes in world->texts, with one more reference. */
uint32_t text_take(struct acts *all, const char *s, size_t n);
void text_ref(struct acts *all, uint32_t text);
void text_unref(struct acts *all, uint32_t text);
