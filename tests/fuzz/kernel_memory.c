#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cost.h"
#include "fuzz.h"
#include "kernel.h"
#include "tests/fuzz/snapshot/snapshot.h"

/*
 * Regions of 2^k pages each lie side by side, in a reserve of addresses per k, and are used again.
 * What is not mapped is poisoned for ASan, and so is what lies behind the end of a file.
 */
#define PAGE         ((size_t)4096)
#define KINDS        19 /* up to 1 GiB */
#define RESERVE      ((size_t)16 << 30)
#define REGIONS_MAX  2048
#define POISON_KINDS 10 /* the shadow of larger ones is expensive */

struct region {
    unsigned kind;
    unsigned mapped; /* pages, each as often as it is mapped */
    bool used;       /* before: not all zeros */
    uint8_t *at;
    struct file *file;
    struct region *next; /* free */
};

static uint8_t *reserve; /* KINDS times RESERVE */
static struct region region[KINDS][REGIONS_MAX];
static struct region *free_region[KINDS];
static unsigned n_regions[KINDS], n_mapped;

void *__real_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
int __real_mincore(void *addr, size_t size, unsigned char *resident);
int __wrap_mincore(void *addr, size_t size, unsigned char *resident);
void __attribute__((weak)) __asan_poison_memory_region(void const volatile *at, size_t size);
void __attribute__((weak)) __asan_unpoison_memory_region(void const volatile *at, size_t size);

static size_t room_of(const struct region *r)
{
    return PAGE << r->kind;
}

static void poison_region(const struct region *r)
{
    if (__asan_poison_memory_region && r->kind < POISON_KINDS)
        __asan_poison_memory_region(r->at, room_of(r) + PAGE);
}

static void unpoison_region(const struct region *r, size_t size)
{
    if (__asan_unpoison_memory_region && r->kind < POISON_KINDS)
        __asan_unpoison_memory_region(r->at, size);
}

/* A page behind each is never used. */
static size_t region_stride(unsigned kind)
{
    return (PAGE << kind) + PAGE;
}

void kernel_reserve(void)
{
    if (reserve)
        return;
    reserve = __real_mmap(NULL, KINDS * RESERVE + SNAPSHOT_ALIGN, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(reserve != MAP_FAILED);
    reserve += -(uintptr_t)reserve & (SNAPSHOT_ALIGN - 1);
    if (snapshot_add)
        snapshot_add(reserve, KINDS * RESERVE);
}

static struct region *make_region(unsigned kind)
{
    struct region *r;

    if (n_regions[kind] == REGIONS_MAX || (n_regions[kind] + 1) * region_stride(kind) > RESERVE)
        return NULL;
    r = &region[kind][n_regions[kind]];
    r->kind = kind;
    r->at = reserve + kind * RESERVE + n_regions[kind]++ * region_stride(kind);
    return r;
}

/* Not memcmp(), which TSan leads to itself: there it would take seventy times as long. */
static bool is_zero(const uint8_t *page)
{
    const uint64_t *word = (const uint64_t *)page; /* NOLINT */
    uint64_t any = 0;

    for (size_t i = 0; i < PAGE / sizeof(*word) && any == 0; i += 8)
        any = word[i] | word[i + 1] | word[i + 2] | word[i + 3] | word[i + 4] | word[i + 5] |
              word[i + 6] | word[i + 7];
    return any == 0;
}

/* Most pages of a large one were never written: to look is cheaper than to write. */
static void clear_bytes(uint8_t *at, size_t size)
{
    for (size_t n; size > 0; at += n, size -= n) {
        n = size < PAGE ? size : PAGE;
        if (snapshot_clear && n == PAGE && (uintptr_t)at % PAGE == 0)
            snapshot_clear(at);
        else if (n < PAGE || !is_zero(at))
            memset(at, 0, n);
    }
}

void kernel_clear(struct file *file, uint64_t offset, uint64_t size)
{
    MUST(offset + size <= file->size);
    clear_bytes(file->region->at + offset, size);
}

/* A kernel clears a page when it is written for the first time, which most are not. */
static void clear_used(const struct region *r)
{
    uint64_t begun = cost_own_begin();

    clear_bytes(r->at, room_of(r));
    cost_own_end(begun);
}

static struct region *new_region(uint64_t size)
{
    unsigned kind = 0;
    struct region *r;

    while (kind < KINDS && PAGE << kind < size)
        kind++;
    if (kind == KINDS)
        return NULL;
    r = free_region[kind];
    if (r)
        free_region[kind] = r->next;
    else
        r = make_region(kind);
    if (!r)
        return NULL;
    unpoison_region(r, room_of(r));
    if (r->used)
        clear_used(r);
    r->used = true;
    r->file = NULL;
    poison_region(r);
    return r;
}

static void put_region(struct region *r)
{
    poison_region(r);
    r->next = free_region[r->kind];
    free_region[r->kind] = r;
}

bool kernel_is_mapped(const void *at)
{
    const uint8_t *p = at;

    return reserve && p >= reserve && p < reserve + KINDS * RESERVE;
}

static struct region *find_region(const void *at)
{
    size_t offset = (size_t)((const uint8_t *)at - reserve), kind = offset / RESERVE;

    return &region[kind][offset % RESERVE / region_stride((unsigned)kind)];
}

bool kernel_resize(struct file *file, uint64_t size)
{
    struct region *r = file->region, *larger;

    if (!r || size > room_of(r)) {
        larger = new_region(size);
        if (!larger)
            return false;
        larger->file = file;
        unpoison_region(larger, room_of(larger));
        if (r) {
            MUST(r->mapped == 0); /* what is mapped is sealed */
            memcpy(larger->at, r->at, file->size);
            put_region(r);
        }
        file->region = larger;
    }
    file->size = size;
    return true;
}

uint8_t *kernel_bytes(struct file *file)
{
    return file->region->at;
}

void kernel_forget_memory(struct file *file)
{
    if (file->region)
        put_region(file->region);
    file->region = NULL;
}

static unsigned count_pages(size_t size)
{
    return (unsigned)((size + PAGE - 1) / PAGE);
}

void *kernel_map(struct file *file, size_t size, uint64_t offset)
{
    struct region *r = file ? file->region : new_region(size);

    if (!r || size == 0 || (file && offset + size > (file->size + PAGE - 1) / PAGE * PAGE)) {
        errno = r ? EINVAL : ENOMEM;
        return MAP_FAILED;
    }
    unpoison_region(r, (size_t)offset + size);
    r->mapped += count_pages(size);
    n_mapped += count_pages(size);
    if (file)
        file->refs += count_pages(size);
    return r->at + offset;
}

/* Of a mapping, or a part of it: npud unmaps some in pieces. */
void kernel_unmap(void *at, size_t size)
{
    struct region *r = find_region(at);
    unsigned n = count_pages(size);

    MUST(n > 0 && r->mapped >= n);
    n_mapped -= n;
    r->mapped -= n;
    if (r->mapped == 0)
        poison_region(r);
    if (r->file) {
        r->file->refs -= n - 1;
        kernel_unref(r->file);
    } else if (r->mapped == 0) {
        put_region(r);
    }
}

unsigned kernel_mapped(void)
{
    return n_mapped;
}

/* A page that was cleared counts as one that was never written: both read the same. */
int __wrap_mincore(void *addr, size_t size, unsigned char *resident)
{
    uint64_t begun;

    if (!kernel_is_mapped(addr))
        return __real_mincore(addr, size, resident);
    if (__real_mincore(addr, size, resident) < 0)
        return -1;
    /* The kernel need not read the pages, and does not take as long. */
    begun = cost_own_begin();
    for (size_t i = 0; i < (size + PAGE - 1) / PAGE; i++)
        resident[i] = resident[i] & 1 && !is_zero((uint8_t *)addr + i * PAGE);
    cost_own_end(begun);
    return 0;
}
