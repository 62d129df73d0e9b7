#include "daemon/backlog.h"

#include <assert.h>
#include <stdlib.h>

#define SIZE_FIRST 16u

bool backlog_full(const struct backlog *b)
{
    return b->n >= BACKLOG_MESSAGES || b->kib >= BACKLOG_BYTES >> 10;
}

bool backlog_reserve(struct backlog *b)
{
    uint32_t size = b->size ? 2 * b->size : SIZE_FIRST;
    struct backlog_item *item;

    if (b->n < b->size)
        return true;
    item = reallocarray(b->item, size, sizeof(*item));
    if (!item)
        return false;
    /* It is full: what has come round to the front of the old one goes behind its end. */
    for (uint32_t i = 0; i < b->first; i++)
        item[b->size + i] = item[i];
    b->item = item;
    b->size = size;
    return true;
}

void backlog_push(struct backlog *b, uint32_t ref, uint64_t bytes)
{
    uint64_t kib = (bytes + 1023) >> 10;

    assert(b->n < b->size);
    if (kib > UINT32_MAX)
        kib = UINT32_MAX;
    b->item[(b->first + b->n) & (b->size - 1)] = (struct backlog_item){ref, (uint32_t)kib};
    b->n++;
    b->kib += kib;
}

uint32_t backlog_first(const struct backlog *b)
{
    return b->n > 0 ? b->item[b->first].ref : 0;
}

void backlog_pop(struct backlog *b)
{
    assert(b->n > 0);
    b->kib -= b->item[b->first].kib;
    b->first = (b->first + 1) & (b->size - 1);
    if (--b->n == 0)
        backlog_deinit(b);
}

void backlog_deinit(struct backlog *b)
{
    assert(b->n == 0);
    free(b->item);
    *b = (struct backlog){0};
}

const struct backlog_item *backlog_at(const struct backlog *b, uint32_t i)
{
    return &b->item[(b->first + i) & (b->size - 1)];
}
