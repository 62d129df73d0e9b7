#include "tests/bench/ab.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/helper.h"

#define ROUNDS_MIN 5
#define ROUNDS_MAX 1024
#define AB_LESS    8 /* rounds in each of several pairs of processes */

struct ab_page {
    _Atomic uint32_t arrived; /* at contests, by both together */
    _Atomic uint32_t step;    /* turns taken, in all contests together */
    char row[AB_SIDES][16];
    double sample[AB_SIDES][ROUNDS_MAX];
};

static struct {
    struct ab_page *page;
    enum ab_side side;
    uint32_t contests, step; /* begun by this process; and where the present one began */
} ab;

/* --- the page --- */

void ab_create(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(struct ab_page)) < 0)
        die("%s: %m", path);
    close(fd);
}

void ab_share(const char *path, enum ab_side side, const char *libdir)
{
    setenv(AB_PAGE, path, 1);
    setenv(AB_SIDE, side == AB_NEW ? "new" : "old", 1);
    setenv("LD_LIBRARY_PATH", libdir,
           1); /* it comes before the place that the program was linked with */
}

void ab_join(void)
{
    const char *path = getenv(AB_PAGE), *side = getenv(AB_SIDE);
    int fd;

    if (!path || !side)
        return;
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        die("%s: %m", path);
    ab.page =
        mmap(NULL, sizeof(*ab.page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (ab.page == MAP_FAILED)
        die("mmap: %m");
    close(fd);
    ab.side = strcmp(side, "new") == 0 ? AB_NEW : AB_OLD;
    options.ab = true;
}

bool ab_is_new(void)
{
    return ab.side == AB_NEW;
}

/* --- turns --- */

static void sleep_while_below(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t seen;

    while ((seen = atomic_load_explicit(word, memory_order_acquire)) < value)
        futex_sleep(word, seen);
}

static void add_one(_Atomic uint32_t *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    futex_wake(word);
}

/* Both are there, with all that the contest needs. */
static void arrive_at_row(const char *row)
{
    snprintf(ab.page->row[ab.side], sizeof(ab.page->row[0]), "%s", row);
    add_one(&ab.page->arrived);
    sleep_while_below(&ab.page->arrived, AB_SIDES * ++ab.contests);
    if (strcmp(ab.page->row[AB_NEW], ab.page->row[AB_OLD]) != 0)
        die("one is at row %s, the other at %s", ab.page->row[AB_NEW], ab.page->row[AB_OLD]);
}

/* The sides take turns in beginning a round. */
static void take_turn(uint32_t round, const struct contest *c)
{
    uint32_t turn = ab.step + 2 * round + ((round + ab.side) % 2);

    sleep_while_below(&ab.page->step, turn);
    ab.page->sample[ab.side][round] = c->value(c->arg, c->n_value);
    add_one(&ab.page->step);
}

struct result ab_run(const struct row *row, const struct contest *c)
{
    struct row free_row = {.name = row->name, .what = row->what, .budget = BUDGET_NONE};
    struct result result = {.budget = BUDGET_NONE};
    uint32_t rounds = c->rounds / AB_LESS < ROUNDS_MIN ? ROUNDS_MIN : c->rounds / AB_LESS;

    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    arrive_at_row(row->name);
    for (uint32_t i = 0; i < rounds; i++)
        take_turn(i, c);
    ab.step += 2 * rounds;
    sleep_while_below(&ab.page->step, ab.step);
    if (ab_is_new())
        result = result_of_pairs(&free_row, ab.page->sample[AB_NEW], ab.page->sample[AB_OLD],
                                 rounds, 25);
    return result;
}
