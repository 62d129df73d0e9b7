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
#define PAGES_KEPT 256 /* more are dearer to copy back than to be noticed when they are written */
#define RUNS_KEPT  16  /* but not at once: an input may run again for its cost */
#define EDGES_MAX  (2 * RANGES_MAX)

/* Of whole pages. */
static struct range {
    uint8_t *begin, *end;
} range[RANGES_MAX];
static unsigned n_ranges;

/* Pages that may have been written, and what they were. */
static uint8_t *page[PAGES_MAX];
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

/* --- the first write to a page --- */

static bool is_state(const uint8_t *at)
{
    for (unsigned i = 0; i < n_ranges; i++)
        if (at >= range[i].begin && at < range[i].end)
            return true;
    return false;
}

/* Whoever had the signal before finds it again as soon as this returns. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    uint8_t *at = (uint8_t *)((uintptr_t)info->si_addr / PAGE * PAGE);

    (void)context;
    if (info->si_code != SEGV_ACCERR || !is_state(at) || n_pages == PAGES_MAX) {
        sigaction(signal, &before, NULL);
        return;
    }
    page[n_pages] = at;
    copy_bytes(saved[n_pages++], at, PAGE);
    if (mprotect(at, PAGE, PROT_READ | PROT_WRITE) < 0)
        abort();
}

static void watch_writes(void)
{
    n_pages = runs = 0;
    for (unsigned i = 0; i < n_ranges; i++)
        MUST(mprotect(range[i].begin, (size_t)(range[i].end - range[i].begin), PROT_READ) == 0);
}

/* --- ranges --- */

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
    range[n_ranges++] = (struct range){begin, begin + size};
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

    saved = __real_mmap(NULL, PAGES_MAX * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(saved != MAP_FAILED);
    add_variables(__start_state_bss, __stop_state_bss);
    add_variables(__start_state_data, __stop_state_data);
    MUST(sigaction(SIGSEGV, &action, &before) == 0);
    watch_writes();
}

void snapshot_restore(void)
{
    for (size_t i = 0; i < n_pages; i++)
        copy_bytes(page[i], saved[i], PAGE);
    for (unsigned i = 0; i < n_edges; i++)
        copy_bytes(edge[i].at, edge[i].saved, edge[i].size);
    if (n_pages > PAGES_KEPT && ++runs == RUNS_KEPT)
        watch_writes();
    heap_on = false;
}
