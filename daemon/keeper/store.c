#include "daemon/keeper/store.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/keeper/closer.h"

struct stored {
    uint64_t key;
    int fd;
    UT_hash_handle hh;
};

static struct stored *store;

static struct stored *find(uint64_t key)
{
    struct stored *s;

    HASH_FIND(hh, store, &key, sizeof(key), s);
    return s;
}

int store_put(uint64_t key, int fd)
{
    struct stored *s = find(key);

    if (s) {
        closer_close(s->fd, false);
        s->fd = fd;
        return 0;
    }
    s = malloc(sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->key = key;
    s->fd = fd;
    HASH_ADD(hh, store, key, sizeof(s->key), s);
    if (s->hh.tbl)
        return 0;
    free(s);
    return -ENOMEM;
}

void store_drop(uint64_t key)
{
    struct stored *s = find(key);

    if (!s)
        return;
    HASH_DEL(store, s);
    closer_close(s->fd, false);
    free(s);
}

int store_find(uint64_t key)
{
    struct stored *s = find(key);

    return s ? s->fd : -1;
}

void store_end(void)
{
    struct stored *s, *next;

    HASH_ITER (hh, store, s, next) {
        HASH_DEL(store, s);
        closer_close(s->fd, true);
        free(s);
    }
}

int store_each(int (*fn)(void *arg, uint64_t key, int fd), void *arg)
{
    struct stored *s, *next;
    int r = 0;

    HASH_ITER (hh, store, s, next) {
        r = fn(arg, s->key, s->fd);
        if (r < 0)
            break;
    }
    return r;
}
