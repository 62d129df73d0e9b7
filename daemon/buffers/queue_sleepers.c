#include "daemon/buffers/queue_sleepers.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/schedule.h"
#include "daemon/base/waker.h"
#include "daemon/buffers/queue_ring.h"
#include "daemon/core/server.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "proto/util/futex.h"

/* A word of the ring, while the thread has sleepers of it to wake. */
struct word {
    int fd; /* of its file; -1: all are awake */
    struct job woken;
    struct queue_sleepers *of;
};

struct queue_sleepers {
    struct server *server;
    struct kept kept;
    struct word put, take;
    struct queue_sleepers **all; /* the list that it is in */
    struct queue_sleepers *prev, *next;
};

static size_t write_record(const struct kept *kept, void *record)
{
    const struct queue_sleepers *s =
        (const struct queue_sleepers *)((const char *)kept - offsetof(struct queue_sleepers, kept));

    *(struct queue_sleepers_record *)record = (struct queue_sleepers_record){
        .put_key = kept_key(s->put.fd), .take_key = kept_key(s->take.fd)};
    return sizeof(struct queue_sleepers_record);
}

static void free_sleepers(struct queue_sleepers *s)
{
    DL_DELETE(*s->all, s);
    kept_close(s->put.fd);
    kept_close(s->take.fd);
    kept_drop(&s->kept);
    free(s);
}

/* All sleepers of a word are awake. */
static bool run_woken(struct job *job)
{
    struct word *word = (struct word *)((char *)job - offsetof(struct word, woken));
    struct queue_sleepers *s = word->of;

    kept_close(word->fd);
    word->fd = -1;
    kept_touch(&s->kept);
    if (s->put.fd < 0 && s->take.fd < 0)
        free_sleepers(s);
    return false;
}

/* The ring closes its own descriptor. Without one for this, all are woken now. */
static void keep_word(struct queue_sleepers *s, struct word *word, int fd, _Atomic uint32_t *futex)
{
    *word = (struct word){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .of = s};
    word->woken = (struct job){run_woken, "sleepers of a ring", &s->server->schedule.own};
    if (word->fd < 0) {
        futex_wake_all(futex);
    } else if (waker_await(futex, &word->woken)) {
        kept_fd_moved(fd, word->fd);
    } else {
        close(word->fd);
        word->fd = -1;
    }
}

static struct queue_sleepers *make_sleepers(struct server *server, struct queue_sleepers **all)
{
    struct queue_sleepers *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->server = server;
    s->all = all;
    if (!kept_make(&s->kept, KEPT_QUEUE_SLEEPERS, sizeof(struct queue_sleepers_record),
                   write_record)) {
        free(s);
        return NULL;
    }
    DL_APPEND(*all, s);
    return s;
}

void queue_sleepers_keep(struct server *server, struct queue_sleepers **all,
                         const struct queue_ring *ring)
{
    const struct queue_view *v = &ring->view;
    struct queue_sleepers *s;

    if (!kept_outlives() || (!waker_wakes(&v->put->wake) && !waker_wakes(&v->take->wake)))
        return;
    s = make_sleepers(server, all);
    if (!s) {
        futex_wake_all(&v->put->wake);
        futex_wake_all(&v->take->wake);
        return;
    }
    keep_word(s, &s->put, ring->put_fd, &v->put->wake);
    keep_word(s, &s->take, ring->take_fd, &v->take->wake);
    if (s->put.fd < 0 && s->take.fd < 0)
        free_sleepers(s);
}

void queue_sleepers_deinit(struct queue_sleepers **all)
{
    struct queue_sleepers *s, *next;

    DL_FOREACH_SAFE (*all, s, next) {
        waker_forget(&s->put.woken);
        waker_forget(&s->take.woken);
        job_cancel(&s->put.woken);
        job_cancel(&s->take.woken);
        free_sleepers(s);
    }
}

/* --- over the end of npud --- */

/* key 0: the npud before has woken them. */
static bool wake_again(uint64_t key, size_t offset)
{
    int fd = kept_fd_take(key);
    char *map =
        fd < 0 ? MAP_FAILED : mmap(NULL, WAKER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map != MAP_FAILED) {
        futex_wake_all((_Atomic uint32_t *)(map + offset));
        munmap(map, WAKER_PAGE);
    }
    kept_close(fd);
    return key == 0 || map != MAP_FAILED;
}

/* There is no thread for it yet. */
bool queue_sleepers_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_sleepers_record r;

    (void)server;
    kept_read(cell, &r, sizeof(r));
    kept_discard(cell);
    return wake_again(r.put_key, offsetof(struct queue_put, wake)) &&
           wake_again(r.take_key, offsetof(struct queue_take, wake));
}
