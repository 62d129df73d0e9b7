#include "tests/hostile/garbage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/chance.h"
#include "tests/common/harness.h"

#define PAGE      4096u
#define WORDS     (PAGE / sizeof(uint32_t))
#define ONE_IN    64  /* words, of those kinds that leave the others */
#define SOME_SIZE 64u /* bytes */

static const char *const names[GARBAGE_KINDS] = {
    [GARBAGE_ONES] = "ones",   [GARBAGE_ZEROS] = "zeros", [GARBAGE_RANDOM] = "random",
    [GARBAGE_SMALL] = "small", [GARBAGE_WORDS] = "words", [GARBAGE_BITS] = "bits",
    [GARBAGE_STEPS] = "steps",
};

const char *garbage_name(enum garbage_kind kind)
{
    return names[kind];
}

static void add_map(struct garbage *g, uint64_t from, uint64_t to)
{
    ck_assert_uint_lt(g->n, GARBAGE_MAPS);
    g->map[g->n++] = (struct garbage_map){from, to - from};
    g->bytes += to - from;
}

void garbage_open(struct garbage *g, pid_t pid)
{
    char path[64], line[512];
    uint64_t from, to;
    FILE *maps;

    *g = (struct garbage){.n = 0};
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    maps = fopen(path, "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, " rw-s ") && strstr(line, "/memfd:npud") &&
            sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2)
            add_map(g, from, to);
    fclose(maps);
    ck_assert_uint_gt(g->n, 0);
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    g->fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(g->fd, 0);
}

void garbage_close(struct garbage *g)
{
    close(g->fd);
    g->fd = -1;
}

static uint32_t spoil_word(enum garbage_kind kind, uint32_t was, uint64_t *rng)
{
    switch (kind) {
    case GARBAGE_ONES:
        return ~0u;
    case GARBAGE_ZEROS:
        return 0;
    case GARBAGE_RANDOM:
    case GARBAGE_WORDS:
        return (uint32_t)draw_random(rng);
    case GARBAGE_SMALL:
        return draw_below(rng, 5);
    case GARBAGE_BITS:
        return was ^ 1u << draw_below(rng, 32);
    case GARBAGE_STEPS:
        return draw_chance(rng, 50) ? was + 1 : was - 1;
    case GARBAGE_KINDS:
        break;
    }
    return was;
}

static void spoil(enum garbage_kind kind, uint32_t *word, size_t n, unsigned one_in, uint64_t *rng)
{
    for (size_t i = 0; i < n; i++)
        if (kind < GARBAGE_WORDS || draw_below(rng, one_in) == 0)
            word[i] = spoil_word(kind, word[i], rng);
}

/* False: the process has unmapped it, or its file is shorter. */
static bool spoil_at(const struct garbage *g, uint64_t at, size_t size, enum garbage_kind kind,
                     unsigned one_in, uint64_t *rng)
{
    static uint32_t words[WORDS];

    if (pread(g->fd, words, size, (off_t)at) != (ssize_t)size)
        return false;
    spoil(kind, words, size / sizeof(*words), one_in, rng);
    return pwrite(g->fd, words, size, (off_t)at) == (ssize_t)size;
}

void garbage_write(const struct garbage *g, enum garbage_kind kind, uint64_t seed)
{
    uint64_t rng = seed, written = 0;

    for (unsigned i = 0; i < g->n; i++)
        for (uint64_t at = 0; at < g->map[i].size; at += PAGE)
            written += spoil_at(g, g->map[i].at + at, PAGE, kind, ONE_IN, &rng);
    ck_assert_uint_eq(written * PAGE, g->bytes);
}

void garbage_write_some(const struct garbage *g, enum garbage_kind kind, uint64_t *rng)
{
    const struct garbage_map *map = &g->map[draw_below(rng, g->n)];
    uint64_t at = draw_random(rng) % map->size / SOME_SIZE * SOME_SIZE;

    spoil_at(g, map->at + at, SOME_SIZE, kind, 4, rng);
}
