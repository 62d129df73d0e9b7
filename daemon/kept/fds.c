#include "daemon/kept/fds.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/array.h"
#include "daemon/base/kill_here.h"
#include "daemon/kept/kept_room.h"

#define DROPS_AT_ONCE 128
#define NUMBERS       ((size_t)1 << 24) /* more than npud can have: each is 1 KiB of the kernel's */

struct fetched {
    uint64_t key;
    int fd; /* -1: taken */
};

static struct kept_head *head; /* NULL: nothing outlives npud */
/*
 * By number: for all that npud may ever have, of which the kernel gives only what is used. So a key
 * is never refused for lack of memory: a record that names none would be the end of all sessions
 * with the next npud.
 */
static uint64_t *key_of;
static size_t end_key_of; /* no number from here on has ever had one */
static uint64_t drops[DROPS_AT_ONCE];
static size_t n_drops;
static struct fetched *fetched;
static size_t n_fetched, size_fetched;
static bool short_of_memory;

/* All that a new keeper must have. */
static void enumerate(void *arg, keeper_take *take, void *to)
{
    (void)arg;
    for (size_t fd = 0; fd < end_key_of; fd++)
        if (key_of[fd] != 0)
            take(to, key_of[fd], (int)fd);
}

/* From the first descriptor on that is known. */
static bool have_table(void)
{
    void *map = key_of ? key_of
                       : mmap(NULL, NUMBERS * sizeof(*key_of), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return false;
    key_of = map;
    return true;
}

bool kept_fds_begin(struct kept_head *h)
{
    static bool is_source;

    if (!have_table())
        return false;
    head = h;
    if (!is_source)
        keeper_link_add_source(enumerate, NULL);
    is_source = true;
    return true;
}

/* All of them, as the kernel does at the end of a process. */
void kept_fds_end(void)
{
    for (size_t fd = 0; fd < end_key_of; fd++)
        if (key_of[fd] != 0)
            close((int)fd);
    head = NULL;
    if (key_of)
        munmap(key_of, NUMBERS * sizeof(*key_of));
    key_of = NULL;
    end_key_of = 0;
    n_drops = 0;
}

uint64_t kept_key(int fd)
{
    return fd >= 0 && (size_t)fd < end_key_of ? key_of[fd] : 0;
}

static void set_key(int fd, uint64_t key)
{
    assert((size_t)fd < NUMBERS);
    key_of[fd] = key;
    if ((size_t)fd >= end_key_of)
        end_key_of = (size_t)fd + 1;
}

void kept_fds_know(uint64_t key, int fd)
{
    set_key(fd, key);
}

void kept_fds_put(uint64_t key, int fd)
{
    set_key(fd, key);
    keeper_put(key, fd);
}

uint64_t kept_fd(int fd)
{
    uint64_t key = kept_key(fd);

    if (!head || key != 0)
        return key;
    key = ++head->last_key;
    set_key(fd, key);
    KILL_HERE(KEY_GIVEN);
    keeper_put(key, fd);
    KILL_HERE(KEY_KEPT);
    return key;
}

void kept_fd_leave(int fd)
{
    uint64_t key = kept_key(fd);

    if (key == 0)
        return;
    key_of[fd] = 0;
    kept_log_key(key);
}

void kept_fd_moved(int from, int to)
{
    uint64_t key = kept_key(from);

    if (key == 0)
        return;
    key_of[from] = 0;
    set_key(to, key);
}

int kept_fd_of(uint64_t key)
{
    for (size_t fd = 0; key != 0 && fd < end_key_of; fd++)
        if (key_of[fd] == key)
            return (int)fd;
    return -1;
}

void kept_close(int fd)
{
    if (fd < 0)
        return;
    kept_fd_leave(fd);
    close(fd);
}

uint64_t kept_fd_part(int fd)
{
    uint64_t key = kept_key(fd);

    if (key != 0)
        key_of[fd] = 0;
    close(fd);
    return key;
}

void kept_key_leave(uint64_t key)
{
    if (key != 0)
        kept_log_key(key);
}

void kept_fds_flush(void)
{
    if (n_drops > 0)
        keeper_drop(drops, n_drops);
    n_drops = 0;
}

void kept_fds_drop(uint64_t key)
{
    if (n_drops == DROPS_AT_ONCE)
        kept_fds_flush();
    drops[n_drops++] = key;
}

/* --- restoring --- */

static void note_fetched(void *arg, uint64_t key, int fd)
{
    struct fetched *grown;

    (void)arg;
    /* Sockets and locks are the entrance's, which asks the keeper itself. */
    if (key < KEEPER_KEY_FIRST && key != KEEPER_KEY_TABLES) {
        close(fd);
        return;
    }
    grown = array_grow(fetched, &size_fetched, n_fetched + 1, sizeof(*fetched));
    if (!grown) {
        short_of_memory = true;
        close(fd);
        return;
    }
    fetched = grown;
    fetched[n_fetched++] = (struct fetched){key, fd};
}

static int compare_fetched(const void *a, const void *b)
{
    uint64_t x = ((const struct fetched *)a)->key, y = ((const struct fetched *)b)->key;

    return x < y ? -1 : x > y;
}

int kept_fds_fetch(void)
{
    int r;

    if (!have_table())
        return -ENOMEM;
    short_of_memory = false;
    r = keeper_fetch(note_fetched, NULL);
    if (r >= 0 && short_of_memory)
        r = -ENOMEM;
    if (r >= 0 && n_fetched > 0)
        qsort(fetched, n_fetched, sizeof(*fetched), compare_fetched);
    return r < 0 ? r : (int)n_fetched;
}

static int compare_key(const void *item, const void *key)
{
    return compare_fetched(item, key);
}

int kept_fd_take(uint64_t key)
{
    struct fetched wanted = {key, -1};
    size_t i = array_lower_bound(fetched, n_fetched, sizeof(*fetched), &wanted, compare_key);
    int fd;

    if (key == 0 || i == n_fetched || fetched[i].key != key)
        return -1;
    fd = fetched[i].fd;
    fetched[i].fd = -1;
    if (fd >= 0)
        kept_fds_know(key, fd);
    return fd;
}

unsigned kept_fds_forget_rest(void)
{
    unsigned n = 0;

    for (size_t i = 0; i < n_fetched; i++)
        if (fetched[i].fd >= 0) {
            close(fetched[i].fd);
            if (fetched[i].key == KEEPER_KEY_TABLES)
                continue;
            kept_fds_drop(fetched[i].key);
            n++;
        }
    kept_fds_flush();
    free(fetched);
    fetched = NULL;
    n_fetched = size_fetched = 0;
    return n;
}
