#include "daemon/backend/window.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE 4096u
/*
 * So many wait before the oldest of a class is used again: the library keeps the addresses of what
 * was freed last apart, and not more of them (client/memory/alloc.c).
 */
#define WAITING 256u

void window_init(struct window *w, uint64_t from, uint64_t to)
{
    *w = (struct window){.next = from, .end = to};
}

void window_deinit(struct window *w)
{
    for (unsigned i = 0; i < WINDOW_CLASSES; i++)
        free(w->free[i].address);
    *w = (struct window){0};
}

/* With the page behind it. */
static unsigned class_of(uint64_t size)
{
    return 64 - (unsigned)__builtin_clzll(size + PAGE - 1);
}

static uint64_t bytes_of(unsigned class)
{
    return UINT64_C(1) << class;
}

static uint64_t take_oldest(struct window_queue *q)
{
    uint64_t address = q->address[q->first];

    q->first = (q->first + 1) % q->room;
    q->n--;
    return address;
}

uint64_t window_take(struct window *w, uint64_t size)
{
    unsigned class = class_of(size);
    struct window_queue *q = class < WINDOW_CLASSES ? &w->free[class] : NULL;
    uint64_t address = w->next;

    if (!q)
        return 0;
    if (q->n > WAITING || (q->n > 0 && w->end - w->next < bytes_of(class)))
        return take_oldest(q);
    if (w->end - w->next < bytes_of(class))
        return 0;
    w->next += bytes_of(class);
    return address;
}

/* Room for one more. False: no memory. */
static bool grow(struct window_queue *q)
{
    uint32_t room = q->room ? 2 * q->room : 2 * WAITING;
    uint64_t *larger = calloc(room, sizeof(*larger));

    if (!larger)
        return false;
    for (uint32_t i = 0; i < q->n; i++)
        larger[i] = q->address[(q->first + i) % q->room];
    free(q->address);
    *q = (struct window_queue){.address = larger, .n = q->n, .room = room};
    return true;
}

void window_put(struct window *w, uint64_t address, uint64_t size)
{
    unsigned class = class_of(size);
    struct window_queue *q = &w->free[class];

    assert(class < WINDOW_CLASSES);
    if (q->n == q->room && !grow(q))
        return; /* the numbers are lost, and there are many */
    q->address[(q->first + q->n) % q->room] = address;
    q->n++;
}

void window_note(struct window *w, uint64_t address, uint64_t size)
{
    uint64_t end = address + bytes_of(class_of(size));

    if (end > w->next && end <= w->end)
        w->next = end;
}
