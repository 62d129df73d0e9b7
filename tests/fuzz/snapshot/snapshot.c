#include "tests/fuzz/snapshot/kept.h"

#include "tests/fuzz/snapshot/snapshot.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz.h"

#define PAGE       ((size_t)4096)
#define RANGES_MAX 8
#define PAGES_MAX  ((size_t)1 << 16) /* that an input can write */
#define PAGES_MORE 64 /* after so many new ones, it is looked which are written at all */
#define RUNS_IDLE  48 /* to put a page back so often costs what it costs to notice a write */
#define AHEAD      16 /* pages, when they are written one after the other */
#define EDGES_MAX  (2 * RANGES_MAX)

/* Of whole pages. */
static struct range {
    uint8_t *begin, *end;
    uint8_t *known; /* of each page: WRITTEN, ZERO */
} range[RANGES_MAX];
static unsigned n_ranges;

#define WRITTEN 1u /* it may have been, since the pages are watched */
#define ZERO    2u /* it is all zeros, and was not written */

/* Pages that may have been written, and what they were: most have bytes that are all the same. */
static struct page {
    uint8_t *at;
    bool same;
    uint8_t byte;
    bool used; /* since it is looked */
} page[PAGES_MAX];
static uint8_t (*saved)[PAGE];
static size_t n_pages, enough = PAGES_MORE;
static unsigned looks; /* runs that are left to look at; 0: it is not looked */

/* What shares a page with variables that are no state. */
static struct edge {
    uint8_t *at;
    size_t size;
    uint8_t saved[PAGE];
} edge[EDGES_MAX];
static unsigned n_edges;

static struct sigaction before;

/* Where the linker has put the variables: sections.h. */
extern uint8_t __start_state_bss[], __stop_state_bss[];
extern uint8_t __start_state_data[], __stop_state_data[];

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void __attribute__((weak)) __asan_get_shadow_mapping(size_t *scale, size_t *offset);

/* Not memcpy(), which ASan leads to itself: not all may be read, by its rules. */
static void copy_bytes(void *to, const void *from, size_t size)
{
#ifdef __x86_64__
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
    uint8_t *t = to;
    const volatile uint8_t *f = from;

    for (size_t i = 0; i < size; i++)
        t[i] = f[i];
#endif
}

static void fill_bytes(void *to, uint8_t byte, size_t size)
{
#ifdef __x86_64__
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
#else
    volatile uint8_t *t = to;

    for (size_t i = 0; i < size; i++)
        t[i] = byte;
#endif
}

static bool is_filled(const uint8_t *bytes, uint8_t byte)
{
    const uint64_t *word = (const uint64_t *)bytes; /* NOLINT */
    uint64_t differ = 0;

    for (size_t i = 0; i < PAGE / sizeof(*word); i++)
        differ |= word[i] ^ (byte * UINT64_C(0x0101010101010101));
    return differ == 0;
}

static bool is_equal(const uint8_t *a, const uint8_t *b)
{
    const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b; /* NOLINT */
    uint64_t differ = 0;

    for (size_t i = 0; i < PAGE / sizeof(*x); i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}

/* --- the first write to a page --- */

/* NULL: it is no state. */
static struct range *find_range(const uint8_t *at)
{
    for (unsigned i = 0; i < n_ranges; i++)
        if (at >= range[i].begin && at < range[i].end)
            return &range[i];
    return NULL;
}

/* What is known of this page, which is state. */
static uint8_t *find_known(const uint8_t *at)
{
    const struct range *r = find_range(at);

    return r->known + (size_t)(at - r->begin) / PAGE;
}

static void keep_page(uint8_t *at)
{
    struct page *p = &page[n_pages];

    *p = (struct page){.at = at, .same = is_filled(at, at[0]), .byte = at[0], .used = true};
    *find_known(at) = WRITTEN;
    if (!p->same)
        copy_bytes(saved[n_pages], at, PAGE);
    n_pages++;
}

/* The page that is written, and those that follow if the one before was the last. False: full. */
static bool keep_pages(uint8_t *at, const struct range *r)
{
    static uint8_t *next;
    static size_t ahead;
    size_t n = 0;

    if (at != next)
        ahead = 1;
    else if (ahead < AHEAD)
        ahead *= 2;
    for (next = at; n < ahead && next < r->end && n_pages < PAGES_MAX; n++, next += PAGE) {
        if (*find_known(next) & WRITTEN)
            break;
        keep_page(next);
    }
    return n > 0 && mprotect(at, n * PAGE, PROT_READ | PROT_WRITE) == 0;
}

/* Whoever had the signal before finds it again as soon as this returns. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    uint8_t *at = (uint8_t *)((uintptr_t)info->si_addr / PAGE * PAGE);
    const struct range *r = find_range(at);

    (void)context;
    if (info->si_code != SEGV_ACCERR || !r || !keep_pages(at, r))
        sigaction(signal, &before, NULL);
}

static void watch_pages(uint8_t *begin, const uint8_t *end)
{
    MUST(begin == end || mprotect(begin, (size_t)(end - begin), PROT_READ) == 0);
}

/* Pages that were not written while it was looked are put back no more. */
static void watch_unused(void)
{
    uint8_t *begin = NULL, *end = NULL;
    size_t n = 0;

    for (size_t i = 0; i < n_pages; i++) {
        uint8_t *at = page[i].at;

        if (page[i].used) {
            if (n < i && !page[i].same)
                copy_bytes(saved[n], saved[i], PAGE);
            page[n++] = page[i];
            continue;
        }
        *find_known(at) = 0;
        if (at != end) {
            watch_pages(begin, end);
            begin = at;
        }
        end = at + PAGE;
    }
    watch_pages(begin, end);
    n_pages = n;
    enough = n + PAGES_MORE;
}

/* --- ranges --- */

static void *map_memory(size_t size)
{
    void *at = __real_mmap(NULL, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    MUST(at != MAP_FAILED);
    return at;
}

static void add_edge(uint8_t *at, size_t size)
{
    MUST(n_edges < EDGES_MAX);
    MUST(size <= PAGE);
    edge[n_edges].at = at;
    edge[n_edges++].size = size;
    copy_bytes(edge[n_edges - 1].saved, at, size);
}

static void add_range(uint8_t *begin, size_t size)
{
    MUST(n_ranges < RANGES_MAX);
    range[n_ranges++] = (struct range){begin, begin + size, map_memory(size / PAGE)};
}

void snapshot_add(void *begin, size_t size)
{
    size_t scale, offset;

    add_range(begin, size);
    if (!__asan_get_shadow_mapping)
        return;
    __asan_get_shadow_mapping(&scale, &offset);
    add_range((uint8_t *)((uintptr_t)begin >> scale) + offset, size >> scale); /* NOLINT */
}

static void add_variables(uint8_t *begin, uint8_t *end)
{
    uint8_t *first = begin + (-(uintptr_t)begin & (PAGE - 1));
    uint8_t *last = end - ((uintptr_t)end & (PAGE - 1));

    if (first >= last) {
        add_edge(begin, (size_t)(end - begin < (ptrdiff_t)PAGE ? end - begin : first - begin));
        if (end - begin >= (ptrdiff_t)PAGE)
            add_edge(first, (size_t)(end - first));
        return;
    }
    add_edge(begin, (size_t)(first - begin));
    add_range(first, (size_t)(last - first));
    add_edge(last, (size_t)(end - last));
}

/* --- the calls --- */

void snapshot_begin(void)
{
    heap_init();
    heap_on = true;
}

void snapshot_take(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

    saved = map_memory(PAGES_MAX * PAGE);
    add_variables(__start_state_bss, __stop_state_bss);
    add_variables(__start_state_data, __stop_state_data);
    MUST(sigaction(SIGSEGV, &action, &before) == 0);
    for (unsigned i = 0; i < n_ranges; i++)
        watch_pages(range[i].begin, range[i].end);
}

static void put_page_back(struct page *p, const uint8_t *bytes)
{
    if (looks > 0) {
        if (p->same ? is_filled(p->at, p->byte) : is_equal(p->at, bytes))
            return;
        p->used = true;
    }
    if (p->same)
        fill_bytes(p->at, p->byte, PAGE);
    else
        copy_bytes(p->at, bytes, PAGE);
}

/* Between two runs, of which the next may be the first to be looked at. */
static void look_for_unused(void)
{
    if (looks > 0) {
        if (--looks == 0)
            watch_unused();
    } else if (n_pages >= enough) {
        looks = RUNS_IDLE;
        for (size_t i = 0; i < n_pages; i++)
            page[i].used = false;
    }
}

void snapshot_restore(void)
{
    for (size_t i = 0; i < n_pages; i++)
        put_page_back(&page[i], saved[i]);
    for (unsigned i = 0; i < n_edges; i++)
        copy_bytes(edge[i].at, edge[i].saved, edge[i].size);
    look_for_unused();
    heap_on = false;
}

void snapshot_clear(void *at)
{
    uint8_t *known = find_known(at);

    if (*known & ZERO)
        return;
    if ((*known & WRITTEN) || *(const uint8_t *)at != 0 || !is_filled(at, 0))
        fill_bytes(at, 0, PAGE);
    else if (saved)
        *known |= ZERO;
}
