#include "daemon/kept/fds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/array.h"
#include "daemon/base/kill_here.h"
#include "daemon/kept/kept_room.h"

#define DROPS_AT_ONCE 128

struct fetched {
    uint64_t key;
    int fd; /* -1: taken */
};

static struct kept_head *head; /* NULL: nothing outlives npud */
static uint64_t *key_of;       /* by number */
static size_t size_key_of;
static uint64_t drops[DROPS_AT_ONCE];
static size_t n_drops;
static struct fetched *fetched;
static size_t n_fetched, size_fetched;
static bool short_of_memory;

/* All that a new keeper must have. */
static void enumerate(void *arg, keeper_take *take, void *to)
{
    (void)arg;
    for (size_t fd = 0; fd < size_key_of; fd++)
        if (key_of[fd] != 0)
            take(to, key_of[fd], (int)fd);
}

void kept_fds_begin(struct kept_head *h)
{
    static bool is_source;

    head = h;
    if (!is_source)
        keeper_link_add_source(enumerate, NULL);
    is_source = true;
}

/* All of them, as the kernel does at the end of a process. */
void kept_fds_end(void)
{
    for (size_t fd = 0; fd < size_key_of; fd++)
        if (key_of[fd] != 0)
            close((int)fd);
    head = NULL;
    free(key_of);
    key_of = NULL;
    size_key_of = 0;
    n_drops = 0;
}

uint64_t kept_key(int fd)
{
    return fd >= 0 && (size_t)fd < size_key_of ? key_of[fd] : 0;
}

static bool set_key(int fd, uint64_t key)
{
    size_t old = size_key_of;
    uint64_t *grown = array_grow(key_of, &size_key_of, (size_t)fd + 1, sizeof(*key_of));

    if (!grown)
        return false;
    key_of = grown;
    memset(key_of + old, 0, (size_key_of - old) * sizeof(*key_of));
    key_of[fd] = key;
    return true;
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
    /* Without memory for it the descriptor ends with npud, and so does what names it. */
    if (!set_key(fd, key))
        return 0;
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
    if (!set_key(to, key))
        kept_log_key(key);
}

int kept_fd_of(uint64_t key)
{
    for (size_t fd = 0; key != 0 && fd < size_key_of; fd++)
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
