#include "daemon/release.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/stream.h"

struct release_waiter {
    struct waiter waiter;
    struct waitlist *list;
    struct release *release;
};

struct release {
    struct server *server;
    struct session *session;
    void (*free_object)(void *object);
    void *object;
    _Atomic uint32_t pending;    /* fences not passed, plus one while they are being set up */
    bool posted;                 /* under server->passed_lock */
    struct release *prev, *next; /* session->releases */
    struct release *passed_next; /* server->passed */
    size_t n;
    struct release_waiter waiters[];
};

/* Any thread, under the lock of a stream's waitlist: only hand it on. */
static void passed(struct release *r)
{
    struct server *server = r->server;

    if (atomic_fetch_sub(&r->pending, 1) != 1)
        return;
    pthread_mutex_lock(&server->passed_lock);
    r->posted = true;
    LL_PREPEND2(server->passed, r, passed_next);
    pthread_mutex_unlock(&server->passed_lock);
    eventfd_write(server->passed_fd, 1);
}

static void fence_fired(struct waiter *w)
{
    passed(((struct release_waiter *)w)->release);
}

static void finish(struct release *r)
{
    DL_DELETE(r->session->releases, r);
    r->free_object(r->object);
    free(r);
}

static void on_passed(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    struct release *r, *next;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    pthread_mutex_lock(&server->passed_lock);
    r = server->passed;
    server->passed = NULL;
    pthread_mutex_unlock(&server->passed_lock);
    for (; r; r = next) {
        next = r->passed_next;
        finish(r);
    }
}

void release_when_passed(struct session *session, const struct fence *fences, size_t n,
                         void (*free_object)(void *object), void *object)
{
    struct release *r = NULL;

    if (n > 0)
        r = calloc(1, sizeof(*r) + n * sizeof(r->waiters[0]));
    if (!r) {
        free_object(object);
        return;
    }
    r->server = session->server;
    r->session = session;
    r->free_object = free_object;
    r->object = object;
    atomic_init(&r->pending, 1);
    DL_APPEND(session->releases, r);
    for (size_t i = 0; i < n; i++) {
        struct stream *s = slots_get(&session->streams, fences[i].stream);
        struct release_waiter *w = &r->waiters[r->n];

        if (!s || atomic_load(&s->done) >= fences[i].position)
            continue;
        *w = (struct release_waiter){.waiter.fire = fence_fired, .list = &s->passed, .release = r};
        r->n++;
        atomic_fetch_add(&r->pending, 1);
        waitlist_add(w->list, &w->waiter, fences[i].position);
        if (atomic_load(&s->done) >= fences[i].position && waitlist_remove(w->list, &w->waiter))
            atomic_fetch_sub(&r->pending, 1);
    }
    if (atomic_fetch_sub(&r->pending, 1) == 1)
        finish(r);
}

/* The session's streams are gone, and have fired everything: each release is posted, and none can
 * be fired any more. */
void releases_flush(struct session *session)
{
    struct server *server = session->server;
    struct release *r, *tmp;

    DL_FOREACH_SAFE (session->releases, r, tmp) {
        pthread_mutex_lock(&server->passed_lock);
        assert(r->posted);
        LL_DELETE2(server->passed, r, passed_next);
        pthread_mutex_unlock(&server->passed_lock);
        finish(r);
    }
}

int releases_init(struct server *server)
{
    pthread_mutex_init(&server->passed_lock, NULL);
    server->passed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->passed_fd < 0)
        return -errno;
    server->on_passed =
        event_new(server->base, server->passed_fd, EV_READ | EV_PERSIST, on_passed, server);
    if (!server->on_passed || event_add(server->on_passed, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void releases_deinit(struct server *server)
{
    if (server->on_passed)
        event_free(server->on_passed);
    if (server->passed_fd >= 0)
        close(server->passed_fd);
    pthread_mutex_destroy(&server->passed_lock);
}
