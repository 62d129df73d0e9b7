#include "daemon/core/backlog.h"

#include <assert.h>
#include <stdlib.h>

#define SIZE_FIRST 16u

bool backlog_full(const struct backlog *b)
{
    return b->n >= BACKLOG_MESSAGES || b->kib >= BACKLOG_BYTES >> 10;
}

static uint32_t next_size(const struct backlog *b)
{
    return b->size ? 2 * b->size : SIZE_FIRST;
}

static uint64_t bytes_more(const struct backlog *b)
{
    return (next_size(b) - b->size) * (sizeof(struct message *) + sizeof(struct message));
}

/* It is charged for. */
static bool grow(struct backlog *b)
{
    uint32_t size = next_size(b);
    uint64_t bytes = bytes_more(b);
    struct message **item = reallocarray(b->item, size, sizeof(struct message *));

    if (!item) {
        user_uncharge_part(&b->charge, bytes);
        return false;
    }
    /* It is full: what has come round to the front of the old one goes behind its end. */
    for (uint32_t i = 0; i < b->first; i++)
        item[b->size + i] = item[i];
    b->item = item;
    b->size = size;
    return true;
}

bool backlog_reserve(struct backlog *b, struct user *user)
{
    if (b->n < b->size)
        return true;
    return user_charge_more(&b->charge, user, RESOURCE_TABLE_MEMORY, bytes_more(b)) == 0 && grow(b);
}

bool backlog_reserve_again(struct backlog *b, struct user *user)
{
    if (b->n < b->size)
        return true;
    user_charge_again(&b->charge, user, RESOURCE_TABLE_MEMORY, bytes_more(b), false);
    return grow(b);
}

void backlog_push(struct backlog *b, struct message *message)
{
    assert(b->n < b->size);
    b->item[(b->first + b->n) & (b->size - 1)] = message;
    b->n++;
    b->kib += message->kib;
}

struct message *backlog_first(const struct backlog *b)
{
    return b->n > 0 ? b->item[b->first] : NULL;
}

void backlog_pop(struct backlog *b)
{
    assert(b->n > 0);
    b->kib -= b->item[b->first]->kib;
    b->first = (b->first + 1) & (b->size - 1);
    if (--b->n == 0 && !b->reserved)
        backlog_deinit(b);
}

void backlog_deinit(struct backlog *b)
{
    assert(b->n == 0);
    free(b->item);
    user_uncharge(&b->charge);
    *b = (struct backlog){0};
}
