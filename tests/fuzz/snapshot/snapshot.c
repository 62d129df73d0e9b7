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
#define PAGES_KEPT 1024 /* more are dearer to copy back than to be noticed when they are written */
#define RUNS_KEPT  16  /* but not at once: an input may run again for its cost */
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
} page[PAGES_MAX];
static uint8_t (*saved)[PAGE];
static size_t n_pages;
static unsigned runs; /* with too many pages */

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

/* All as the first. */
static bool all_same(const uint8_t *bytes)
{
    const uint64_t *word = (const uint64_t *)bytes; /* NOLINT */
    uint64_t differ = word[0] ^ (bytes[0] * UINT64_C(0x0101010101010101));

    for (size_t i = 1; i < PAGE / sizeof(*word) && differ == 0; i++)
        differ = word[i] ^ word[0];
    return differ == 0;
}

/* --- the first write to a page --- */

/* What is known of this page, or NULL: it is no state. */
static uint8_t *find_known(const uint8_t *at)
{
    for (unsigned i = 0; i < n_ranges; i++)
        if (at >= range[i].begin && at < range[i].end)
            return range[i].known + (size_t)(at - range[i].begin) / PAGE;
    return NULL;
}

static void keep_page(uint8_t *at)
{
    struct page *p = &page[n_pages];

    *p = (struct page){.at = at, .same = all_same(at), .byte = at[0]};
    if (!p->same)
        copy_bytes(saved[n_pages], at, PAGE);
    n_pages++;
}

/* Whoever had the signal before finds it again as soon as this returns. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    uint8_t *at = (uint8_t *)((uintptr_t)info->si_addr / PAGE * PAGE);
    uint8_t *known = find_known(at);

    (void)context;
    if (info->si_code != SEGV_ACCERR || !known || n_pages == PAGES_MAX) {
        sigaction(signal, &before, NULL);
        return;
    }
    *known = WRITTEN;
    keep_page(at);
    if (mprotect(at, PAGE, PROT_READ | PROT_WRITE) < 0)
        abort();
}

static void watch_writes(void)
{
    for (size_t i = 0; i < n_pages; i++)
        *find_known(page[i].at) = 0;
    n_pages = runs = 0;
    for (unsigned i = 0; i < n_ranges; i++)
        MUST(mprotect(range[i].begin, (size_t)(range[i].end - range[i].begin), PROT_READ) == 0);
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
    watch_writes();
}

void snapshot_restore(void)
{
    for (size_t i = 0; i < n_pages; i++)
        if (page[i].same)
            fill_bytes(page[i].at, page[i].byte, PAGE);
        else
            copy_bytes(page[i].at, saved[i], PAGE);
    for (unsigned i = 0; i < n_edges; i++)
        copy_bytes(edge[i].at, edge[i].saved, edge[i].size);
    if (n_pages > PAGES_KEPT && ++runs == RUNS_KEPT)
        watch_writes();
    heap_on = false;
}

void snapshot_clear(void *at)
{
    uint8_t *known = find_known(at);

    if (*known & ZERO)
        return;
    if ((*known & WRITTEN) || *(const uint8_t *)at != 0 || !all_same(at))
        fill_bytes(at, 0, PAGE);
    else if (saved)
        *known |= ZERO;
}
