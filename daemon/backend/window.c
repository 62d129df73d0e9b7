#include "daemon/backend/window.h"

#include <stdlib.h>

#define PAGE UINT64_C(4096)
/*
 * So many wait before the oldest of them may come again: the library keeps the addresses of what
 * was freed last apart, and not more of them (client/memory/alloc.c).
 */
#define WAITING 256u

struct window_range {
    RB_ENTRY(window_range) tree;
    uint64_t start, end; /* with the page behind it */
    /* Of all ranges from here down: the first start, the last end, the largest gap between two */
    uint64_t low, high, gap;
    uint32_t window;
    struct window_range *newer; /* while it waits */
};

/* With those that wait, which are in use by no allocation. */
size_t windows_bytes(uint32_t n)
{
    return sizeof(struct windows) + n * sizeof(struct window) +
           WAITING * sizeof(struct window_range);
}

size_t window_range_bytes(void)
{
    return sizeof(struct window_range);
}

struct windows *windows_new(uint32_t n, uint64_t from, uint64_t bytes)
{
    struct windows *w = calloc(1, sizeof(*w) + n * sizeof(w->window[0]));

    if (!w)
        return NULL;
    w->n = n;
    w->from = from;
    w->bytes = bytes;
    return w;
}

/* --- the tree --- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void refresh(struct window_range *r)
{
    const struct window_range *left = RB_LEFT(r, tree), *right = RB_RIGHT(r, tree);

    r->low = left ? left->low : r->start;
    r->high = right ? right->high : r->end;
    r->gap = larger(left ? larger(left->gap, r->start - left->high) : 0,
                    right ? larger(right->gap, right->low - r->end) : 0);
}

static int compare_starts(const struct window_range *a, const struct window_range *b)
{
    return a->start < b->start ? -1 : a->start > b->start;
}

/* What is turned is refreshed; what is above a range that comes or goes is ours to refresh. */
#undef RB_AUGMENT
#define RB_AUGMENT(r) refresh(r)
RB_GENERATE_INTERNAL(window_tree, window_range, tree, compare_starts,
                     __attribute__((unused)) static)

static void refresh_from(struct window_range *r)
{
    for (; r; r = RB_PARENT(r, tree))
        refresh(r);
}

static struct window_range *find(struct window *w, uint64_t start)
{
    struct window_range key = {.start = start};

    return RB_FIND(window_tree, &w->used, &key);
}

static void take_out(struct window *w, struct window_range *r)
{
    struct window_range *above = RB_PARENT(r, tree);

    RB_REMOVE(window_tree, &w->used, r);
    refresh_from(above);
}

void windows_free(struct windows *w)
{
    struct window_range *r;

    for (uint32_t i = 0; w && i < w->n; i++)
        while ((r = RB_ROOT(&w->window[i].used))) {
            RB_REMOVE(window_tree, &w->window[i].used, r);
            free(r);
        }
    free(w);
}

/* The lowest place between two ranges where so much is free: there is one. */
static uint64_t find_gap(const struct window_range *r, uint64_t size)
{
    for (;;) {
        const struct window_range *left = RB_LEFT(r, tree), *right = RB_RIGHT(r, tree);

        if (left && left->gap >= size)
            r = left;
        else if (left && r->start - left->high >= size)
            return left->high;
        else if (right->low - r->end >= size)
            return r->end;
        else
            r = right;
    }
}

/* 0: there is no place of that size. */
static uint64_t find_place(const struct windows *w, uint32_t i, uint64_t size)
{
    uint64_t from = w->from + i * w->bytes, to = from + w->bytes;
    const struct window_range *used = RB_ROOT(&w->window[i].used);

    if (!used)
        return w->bytes >= size ? from : 0;
    if (used->low - from >= size)
        return from;
    if (used->gap >= size)
        return find_gap(used, size);
    return to - used->high >= size ? used->high : 0;
}

/* --- those that wait --- */

static void free_oldest(struct windows *w)
{
    struct window_range *r = w->oldest;

    w->oldest = r->newer;
    w->waiting--;
    take_out(&w->window[r->window], r);
    free(r);
}

void window_put(struct windows *w, uint32_t i, uint64_t address)
{
    struct window_range *r = find(&w->window[i], address);

    if (!r)
        return;
    r->newer = NULL;
    if (w->waiting++ > 0)
        w->newest->newer = r;
    else
        w->oldest = r;
    w->newest = r;
    if (w->waiting > WAITING)
        free_oldest(w);
}

/* --- those in use --- */

static bool add(struct windows *w, uint32_t i, uint64_t start, uint64_t bytes)
{
    struct window_range *r = malloc(sizeof(*r));

    if (!r)
        return false;
    *r = (struct window_range){.start = start, .end = start + bytes, .window = i};
    if (RB_INSERT(window_tree, &w->window[i].used, r)) { /* never: the place is free */
        free(r);
        return false;
    }
    refresh_from(r);
    return true;
}

/* With the page behind it. 0: that is more than a window. */
static uint64_t bytes_of(const struct windows *w, uint64_t size)
{
    return size > w->bytes - 2 * PAGE ? 0 : ((size + PAGE - 1) & ~(PAGE - 1)) + PAGE;
}

uint64_t window_take(struct windows *w, uint32_t i, uint64_t size)
{
    uint64_t bytes = bytes_of(w, size), place;

    if (bytes == 0)
        return 0;
    while ((place = find_place(w, i, bytes)) == 0 && w->waiting > 0)
        free_oldest(w);
    return place != 0 && add(w, i, place, bytes) ? place : 0;
}

static bool overlaps(const struct window_range *r, uint64_t start, uint64_t end)
{
    while (r && (end <= r->start || start >= r->end))
        r = end <= r->start ? RB_LEFT(r, tree) : RB_RIGHT(r, tree);
    return r != NULL;
}

bool window_note(struct windows *w, uint32_t i, uint64_t address, uint64_t size)
{
    uint64_t from = w->from + i * w->bytes, bytes = bytes_of(w, size);

    if (address < from || bytes == 0 || address - from > w->bytes - bytes)
        return true; /* of an npud with other windows: none of ours overlaps it */
    return !overlaps(RB_ROOT(&w->window[i].used), address, address + bytes) &&
           add(w, i, address, bytes);
}
