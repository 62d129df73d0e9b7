#include "daemon/backend/window.h"

#include <stdlib.h>

#include "proto/util/random.h"

#define PAGE UINT64_C(4096)
/*
 * So many wait before the oldest of them may come again: the library keeps the addresses of what
 * was freed last apart, and not more of them (client/memory/alloc.c).
 */
#define WAITING 256u

/*
 * A treap: ordered by address, and a heap of random priorities, which makes it as high as a tree
 * that was built in random order.
 */
struct window_range {
    struct window_range *left, *right;
    uint64_t start, end; /* with the page behind it */
    /* Of all ranges from here down: the first start, the last end, the largest gap between two */
    uint64_t low, high, gap;
    uint32_t priority;
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
    if (!random_fill(&w->random, sizeof(w->random)))
        w->random = (uintptr_t)w;
    w->random |= 1;
    return w;
}

static void free_tree(struct window_range *r)
{
    if (!r)
        return;
    free_tree(r->left);
    free_tree(r->right);
    free(r);
}

void windows_free(struct windows *w)
{
    for (uint32_t i = 0; w && i < w->n; i++)
        free_tree(w->window[i].used);
    free(w);
}

/* --- the tree --- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void refresh(struct window_range *r)
{
    const struct window_range *left = r->left, *right = r->right;

    r->low = left ? left->low : r->start;
    r->high = right ? right->high : r->end;
    r->gap = larger(left ? larger(left->gap, r->start - left->high) : 0,
                    right ? larger(right->gap, right->low - r->end) : 0);
}

/* Those below the address to *below, the others to *above. */
static void split(struct window_range *r, uint64_t address, struct window_range **below,
                  struct window_range **above)
{
    if (!r) {
        *below = *above = NULL;
        return;
    }
    if (r->start < address) {
        split(r->right, address, &r->right, above);
        *below = r;
    } else {
        split(r->left, address, below, &r->left);
        *above = r;
    }
    refresh(r);
}

/* All of a are below all of b. */
static struct window_range *merge(struct window_range *a, struct window_range *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a->right = merge(a->right, b);
        refresh(a);
        return a;
    }
    b->left = merge(a, b->left);
    refresh(b);
    return b;
}

static void insert(struct window *w, struct window_range *r)
{
    struct window_range *below, *above;

    split(w->used, r->start, &below, &above);
    refresh(r);
    w->used = merge(merge(below, r), above);
}

/* The one that begins there is taken out. NULL: there is none. */
static struct window_range *take_out(struct window *w, uint64_t address)
{
    struct window_range *below, *it, *above;

    split(w->used, address, &below, &it);
    split(it, address + 1, &it, &above);
    w->used = merge(below, above);
    return it;
}

/* The lowest place between two ranges where so much is free: there is one. */
static uint64_t find_gap(const struct window_range *r, uint64_t size)
{
    for (;;) {
        if (r->left && r->left->gap >= size)
            r = r->left;
        else if (r->left && r->start - r->left->high >= size)
            return r->left->high;
        else if (r->right->low - r->end >= size)
            return r->end;
        else
            r = r->right;
    }
}

/* 0: there is no place of that size. */
static uint64_t find_place(const struct windows *w, uint32_t i, uint64_t size)
{
    uint64_t from = w->from + i * w->bytes, to = from + w->bytes;
    const struct window_range *used = w->window[i].used;

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
    take_out(&w->window[r->window], r->start);
    free(r);
}

void window_put(struct windows *w, uint32_t i, uint64_t address)
{
    struct window_range *r = take_out(&w->window[i], address);

    if (!r)
        return;
    insert(&w->window[i], r);
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

static uint32_t next_random(struct windows *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint32_t)(w->random >> 32);
}

static bool add(struct windows *w, uint32_t i, uint64_t start, uint64_t bytes)
{
    struct window_range *r = malloc(sizeof(*r));

    if (!r)
        return false;
    *r = (struct window_range){
        .start = start, .end = start + bytes, .priority = next_random(w), .window = i};
    insert(&w->window[i], r);
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
        r = end <= r->start ? r->left : r->right;
    return r != NULL;
}

bool window_note(struct windows *w, uint32_t i, uint64_t address, uint64_t size)
{
    uint64_t from = w->from + i * w->bytes, bytes = bytes_of(w, size);

    if (address < from || bytes == 0 || address - from > w->bytes - bytes)
        return true; /* of an npud with other windows: none of ours overlaps it */
    return !overlaps(w->window[i].used, address, address + bytes) && add(w, i, address, bytes);
}
