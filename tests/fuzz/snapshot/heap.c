/*
 * The heap that is put back. All of the program allocates through here, also libraries; outside of
 * an input, memory is that of glibc or ASan. ASan is told what is allocated, and finds who uses
 * what is not. A block that is freed twice, or that is none, ends the program.
 */
#include "tests/fuzz/snapshot/kept.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/snapshot/snapshot.h"

#define ALIGN   ((size_t)16)
#define ROOM    ((size_t)1 << 27)
#define CLASSES 128 /* four per power of two */
#define RESTING 16  /* freed blocks of a class that are not used again, so that uses are found */
#define IN_USE  0x5afe5afeu
#define FREE    0xf4eef4eeu

/* Before each block. */
struct head {
    uint32_t state;
    uint16_t class;
    uint16_t shift; /* in ALIGN, of a block whose alignment is larger */
    size_t size;    /* that was asked for */
};

struct block {
    struct block *next;
};

/* At the beginning of the heap: put back as well. */
struct heap {
    uint8_t *top;
    size_t blocks;
    struct class
    {
        struct block *first, *last; /* free, the first the longest ago */
        unsigned n;
    } class[CLASSES];
};

bool heap_on;
static struct heap *heap;

#ifdef FUZZ_ASAN /* this file itself is compiled without */
#define MACHINE(name) __interceptor_##name
#else
#define MACHINE(name) __libc_##name
#endif
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *MACHINE(malloc)(size_t size);
void *MACHINE(calloc)(size_t n, size_t size);
void *MACHINE(realloc)(void *p, size_t size);
void *MACHINE(memalign)(size_t align, size_t size);
void MACHINE(free)(void *p);

void __attribute__((weak)) __asan_poison_memory_region(void const volatile *at, size_t size);
void __attribute__((weak)) __asan_unpoison_memory_region(void const volatile *at, size_t size);

static void poison_bytes(const void *at, size_t size)
{
    if (__asan_poison_memory_region)
        __asan_poison_memory_region(at, size);
}

static void unpoison_bytes(const void *at, size_t size)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(at, size);
}

void heap_init(void)
{
    uint8_t *at;

    if (heap)
        return;
    at = __real_mmap(NULL, ROOM + SNAPSHOT_ALIGN, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(at != MAP_FAILED);
    heap = (struct heap *)(at + (-(uintptr_t)at & (SNAPSHOT_ALIGN - 1)));
    heap->top = (uint8_t *)heap + (sizeof(*heap) + ALIGN - 1) / ALIGN * ALIGN;
    poison_bytes(heap, ROOM);
    snapshot_add(heap, ROOM);
}

size_t heap_blocks(void)
{
    return heap->blocks;
}

static bool is_ours(const void *p)
{
    return heap && (const uint8_t *)p > (uint8_t *)heap && (const uint8_t *)p < heap->top;
}

static struct head *head_of(void *p)
{
    return (struct head *)((uint8_t *)p - sizeof(struct head));
}

/* With four classes per power of two: 16, 20, 24, 28, 32, 40, ... times four. */
static unsigned class_of(size_t size)
{
    size_t n = size > 0 ? (size + ALIGN - 1) / ALIGN + 3 : 4;
    unsigned log = 63 - (unsigned)__builtin_clzll(n);

    return log * 4 + (unsigned)(n >> (log - 2) & 3) + ((n & ((1ull << (log - 2)) - 1)) != 0);
}

static size_t size_of(unsigned class)
{
    size_t n = (4 + (size_t)(class & 3)) << (class / 4 - 2);

    return (n - 3) * ALIGN;
}

/* *fresh: it was never used, and is all zeros. */
static void *take_block(size_t size, bool *fresh)
{
    unsigned class = class_of(size);
    struct class *c = &heap->class[class];
    size_t room = size_of(class);
    struct head *h;

    *fresh = c->n <= RESTING;
    if (!*fresh) {
        h = head_of(c->first);
        MUST(h->state == FREE);
        c->first = c->first->next;
        c->n--;
    } else {
        if (room + sizeof(*h) > ROOM - (size_t)(heap->top - (uint8_t *)heap))
            return NULL;
        h = (struct head *)heap->top;
        heap->top += sizeof(*h) + room;
    }
    *h = (struct head){.state = IN_USE, .class = (uint16_t) class, .size = size};
    unpoison_bytes(h + 1, size);
    heap->blocks++;
    return h + 1;
}

static void *allocate_block(size_t size, bool zeros)
{
    bool fresh;
    void *p = size < ROOM ? take_block(size, &fresh) : NULL;

    if (!p)
        errno = ENOMEM;
    else if (zeros && !fresh)
        memset(p, 0, size);
    return p;
}

static void put_block(void *p)
{
    struct head *h = head_of(p);
    struct class *c = &heap->class[h->class];
    struct block *b = p;

    MUST(h->state == IN_USE);
    h->state = FREE;
    if (h->shift > 0) {
        put_block((uint8_t *)p - h->shift * ALIGN);
        return;
    }
    poison_bytes(p, size_of(h->class));
    b->next = NULL;
    if (c->n++ == 0)
        c->first = b;
    else
        c->last->next = b;
    c->last = b;
    heap->blocks--;
}

/* --- in place of glibc's --- */

void *malloc(size_t size)
{
    return heap_on ? allocate_block(size, false) : MACHINE(malloc)(size);
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (!heap_on)
        return MACHINE(calloc)(n, size);
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate_block(bytes, true);
}

void *realloc(void *p, size_t size)
{
    void *larger;

    if (p ? !is_ours(p) : !heap_on)
        return MACHINE(realloc)(p, size);
    larger = malloc(size);
    if (p && larger) {
        memcpy(larger, p, head_of(p)->size < size ? head_of(p)->size : size);
        free(p);
    }
    return larger;
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

void *aligned_alloc(size_t align, size_t size)
{
    uint8_t *p, *at;

    if (!heap_on)
        return MACHINE(memalign)(align, size);
    p = allocate_block(size + align, false);
    if (!p)
        return NULL;
    at = p + (-(uintptr_t)p & (align - 1));
    if (at > p)
        *head_of(at) = (struct head){
            .state = IN_USE, .shift = (uint16_t)((size_t)(at - p) / ALIGN), .size = size};
    poison_bytes(p, size + align);
    unpoison_bytes(at, size);
    return at;
}

void free(void *p)
{
    if (is_ours(p))
        put_block(p);
    else
        MACHINE(free)(p);
}

/* ASan's would allocate as ASan does. */
char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    return copy ? memcpy(copy, text, size) : NULL;
}
