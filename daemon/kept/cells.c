#include "daemon/kept/cells.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/kill_here.h"

#define CLASS_MIN   6u /* log2 of CELL_MIN */
#define CLASS_MAX   SLAB_SHIFT
#define WORDS       (SLAB_BYTES / CELL_MIN / 64)
#define SLAB_NONE   UINT32_MAX
#define CLASS_COUNT (CLASS_MAX + 1)

/* What is known of a slab that has cells: which of them are in use, or about to be. */
struct slab {
    uint32_t live;
    uint32_t fresh; /* cells from this one on were never taken, and are zero */
    bool open;      /* in the list of those with room */
    uint32_t next_open;
    uint64_t used[WORDS];
};

static unsigned char *base;
static struct kept_head *head;
static struct slab *slabs[SLABS];
static uint32_t open_slab[CLASS_COUNT]; /* the first one with room */
static uint32_t lowest;                 /* all slabs below this one have cells */
static uint32_t end;                    /* and none from this one on */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned char *slab_at(uint32_t i)
{
    return base + KEPT_SLABS_AT + ((size_t)i << SLAB_SHIFT);
}

static uint32_t slab_of(const struct kept_cell *cell)
{
    return (uint32_t)(((const unsigned char *)cell - base - KEPT_SLABS_AT) >> SLAB_SHIFT);
}

static uint32_t cells_of_class(unsigned class)
{
    return SLAB_BYTES >> class;
}

static struct kept_cell *cell_at(uint32_t i, unsigned class, uint32_t n)
{
    return (struct kept_cell *)(slab_at(i) + ((size_t)n << class));
}

static unsigned class_of(size_t bytes)
{
    unsigned class = CLASS_MIN;

    while ((size_t)1 << class < bytes + CELL_HEAD)
        class ++;
    return class;
}

static size_t slabs_of(size_t bytes)
{
    return (bytes + CELL_HEAD + SLAB_BYTES - 1) >> SLAB_SHIFT;
}

/* --- slabs --- */

static void open_it(uint32_t i, unsigned class)
{
    slabs[i]->open = true;
    slabs[i]->next_open = open_slab[class];
    open_slab[class] = i;
}

static void close_it(uint32_t i, unsigned class)
{
    uint32_t *at = &open_slab[class];

    while (*at != i)
        at = &slabs[*at]->next_open;
    *at = slabs[i]->next_open;
    slabs[i]->open = false;
}

/* n that follow each other, without cells. SLAB_NONE: there are none. */
static uint32_t find_slabs(size_t n)
{
    uint32_t run = 0;

    while (lowest < SLABS && head->slab[lowest] != 0)
        lowest++;
    for (uint32_t i = lowest; i < SLABS; i++) {
        run = head->slab[i] == 0 ? run + 1 : 0;
        if (run == n)
            return i + 1 - run;
    }
    return SLAB_NONE;
}

static void note_end(uint32_t behind)
{
    if (behind > end)
        end = behind;
}

static bool add_slab(unsigned class)
{
    uint32_t i = find_slabs(1);

    if (i == SLAB_NONE)
        return false;
    slabs[i] = calloc(1, sizeof(*slabs[i]));
    if (!slabs[i])
        return false;
    head->slab[i] = (uint8_t) class;
    open_it(i, class);
    note_end(i + 1);
    return true;
}

/* Pages first: a slab that is cut short there has free cells only. */
static void give_slabs_back(uint32_t i, size_t n)
{
    if (madvise(slab_at(i), n << SLAB_SHIFT, MADV_REMOVE) < 0)
        memset(slab_at(i), 0, n << SLAB_SHIFT);
    KILL_HERE(SLABS_EMPTIED);
    for (size_t k = n; k-- > 0;)
        head->slab[i + k] = 0;
    if (i < lowest)
        lowest = i;
}

/* --- cells --- */

static struct kept_cell *take_small(unsigned class, bool *zero)
{
    struct slab *slab;
    uint32_t i, w = 0, n;

    if (open_slab[class] == SLAB_NONE && !add_slab(class))
        return NULL;
    i = open_slab[class];
    slab = slabs[i];
    while (slab->used[w] == UINT64_MAX)
        w++;
    n = w * 64 + (uint32_t)__builtin_ctzll(~slab->used[w]);
    assert(n < cells_of_class(class));
    slab->used[w] |= UINT64_C(1) << n % 64;
    *zero = n >= slab->fresh;
    if (*zero)
        slab->fresh = n + 1;
    if (++slab->live == cells_of_class(class))
        close_it(i, class);
    return cell_at(i, class, n);
}

static void put_small(struct kept_cell *cell, uint32_t i, unsigned class)
{
    struct slab *slab = slabs[i];
    uint32_t n = (uint32_t)(((unsigned char *)cell - slab_at(i)) >> class);

    assert(slab->used[n / 64] & UINT64_C(1) << n % 64);
    slab->used[n / 64] &= ~(UINT64_C(1) << n % 64);
    slab->live--;
    if (!slab->open)
        open_it(i, class);
    /* One stays, so that an object that comes and goes costs no pages. */
    if (slab->live > 0 || (open_slab[class] == i && slab->next_open == SLAB_NONE))
        return;
    close_it(i, class);
    free(slab);
    slabs[i] = NULL;
    give_slabs_back(i, 1);
}

static struct kept_cell *take_large(size_t n)
{
    uint32_t i = find_slabs(n);

    if (i == SLAB_NONE)
        return NULL;
    /* From behind: a cell that is cut short has no beginning. */
    for (size_t k = n; k-- > 1;)
        head->slab[i + k] = SLAB_MORE;
    KILL_HERE(SLABS_TAKEN);
    head->slab[i] = SLAB_LARGE;
    note_end(i + (uint32_t)n);
    return (struct kept_cell *)slab_at(i);
}

static size_t length_of_large(uint32_t i)
{
    size_t n = 1;

    while (i + n < SLABS && head->slab[i + n] == SLAB_MORE)
        n++;
    return n;
}

struct kept_cell *cells_take(size_t bytes)
{
    bool zero = true; /* as a slab is that has no cells */
    struct kept_cell *cell;

    assert(bytes <= CELL_BYTES_MAX);
    pthread_mutex_lock(&lock);
    cell = bytes + CELL_HEAD <= SLAB_BYTES ? take_small(class_of(bytes), &zero)
                                           : take_large(slabs_of(bytes));
    pthread_mutex_unlock(&lock);
    /* A large record is not to get pages before it is used. */
    if (cell && !zero)
        memset(cell->record, 0, bytes);
    return cell;
}

void cells_put(struct kept_cell *cell)
{
    uint32_t i = slab_of(cell);

    pthread_mutex_lock(&lock);
    if (head->slab[i] == SLAB_LARGE)
        give_slabs_back(i, length_of_large(i));
    else
        put_small(cell, i, head->slab[i]);
    pthread_mutex_unlock(&lock);
}

size_t cells_room(const struct kept_cell *cell)
{
    uint32_t i = slab_of(cell);
    size_t bytes =
        head->slab[i] == SLAB_LARGE ? length_of_large(i) << SLAB_SHIFT : (size_t)1 << head->slab[i];

    return bytes - CELL_HEAD;
}

/* --- life --- */

static bool is_used(const struct kept_cell *cell)
{
    return atomic_load_explicit(&cell->is, memory_order_relaxed) != 0;
}

/* A slab without records stays a slab of its size: the next record of this size finds it. */
static bool find_used(uint32_t i, unsigned class)
{
    struct slab *slab = slabs[i] = calloc(1, sizeof(*slab));

    if (!slab)
        return false;
    slab->fresh = cells_of_class(class); /* not known */
    for (uint32_t n = 0; n < cells_of_class(class); n++)
        if (is_used(cell_at(i, class, n))) {
            slab->used[n / 64] |= UINT64_C(1) << n % 64;
            slab->live++;
        }
    if (slab->live < cells_of_class(class))
        open_it(i, class);
    return true;
}

bool cells_begin(unsigned char *at)
{
    base = at;
    head = (struct kept_head *)at;
    lowest = end = 0;
    for (unsigned class = 0; class < CLASS_COUNT; class ++)
        open_slab[class] = SLAB_NONE;
    for (uint32_t i = 0; i < SLABS; i++) {
        unsigned class = head->slab[i];

        if (class == 0)
            continue;
        note_end(i + 1);
        if (class >= CLASS_MIN && class <= CLASS_MAX && !find_used(i, class))
            return false;
        if (class == SLAB_LARGE && !is_used((struct kept_cell *)slab_at(i)))
            give_slabs_back(i, length_of_large(i));
        /* Its beginning was not stored, or was given back. */
        if (class == SLAB_MORE && (i == 0 || head->slab[i - 1] < SLAB_LARGE))
            head->slab[i] = 0;
    }
    return true;
}

#ifdef NPUD_KILL_POINTS
void cells_forget_lock(void)
{
    pthread_mutex_init(&lock, NULL);
}
#endif

void cells_end(void)
{
    for (uint32_t i = 0; i < end; i++) {
        free(slabs[i]);
        slabs[i] = NULL;
    }
    base = NULL;
    head = NULL;
    end = 0;
}

void cells_each(void (*fn)(void *arg, struct kept_cell *cell), void *arg)
{
    for (uint32_t i = 0; i < end; i++) {
        unsigned class = head->slab[i];

        if (class == SLAB_LARGE)
            fn(arg, (struct kept_cell *)slab_at(i));
        if (class > CLASS_MAX || !slabs[i])
            continue;
        for (uint32_t n = 0; n < cells_of_class(class); n++)
            if (is_used(cell_at(i, class, n)))
                fn(arg, cell_at(i, class, n));
    }
}
