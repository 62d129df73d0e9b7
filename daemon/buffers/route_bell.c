#include "daemon/buffers/route_bell.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "daemon/base/deferred_close.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"

struct route_bell {
    int fd;
    struct event *on_ring;
    struct charge charge;
};

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
    const struct queue_attach *attach = arg;

    (void)fd;
    (void)what;
    if (attach->queue->route)
        relay_rung(attach->queue->route);
}

static void free_bell(struct queue_attach *attach)
{
    struct route_bell *bell = attach->bell;

    attach->bell = NULL;
    if (bell->on_ring)
        event_free(bell->on_ring);
    if (bell->fd >= 0) {
        kept_fd_leave(bell->fd);
        deferred_close_watched(bell->charge.user, bell->fd);
    }
    user_uncharge(&bell->charge);
    free(bell);
}

/* False: no memory, or no descriptor. */
static bool make_bell(struct queue_attach *attach, int fd)
{
    struct route_bell *bell = calloc(1, sizeof(*bell));

    if (!bell)
        return false;
    bell->fd = fd;
    attach->bell = bell;
    if (fd >= 0)
        bell->on_ring = event_new(attach->queue->server->base, fd, EV_READ | EV_ET | EV_PERSIST,
                                  on_ring, attach);
    if (bell->on_ring && event_add(bell->on_ring, NULL) == 0)
        return true;
    free_bell(attach);
    return false;
}

enum cause route_bell_get(struct queue_attach *attach, int *fd)
{
    struct queue *queue = attach->queue;
    struct charge charge = {0};

    if (!queue->route)
        return CAUSE_QUEUE_NOT_ROUTED;
    relay_make_ready(queue->route);
    if (!attach->bell) {
        if (user_charge(&charge, attach->peer->session->user, RESOURCE_FDS, 1) < 0)
            return CAUSE_USER_DESCRIPTORS;
        if (!make_bell(attach, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
            user_uncharge(&charge);
            return CAUSE_DESCRIPTORS;
        }
        attach->bell->charge = charge;
        queue->n_bells++;
        kept_fd(attach->bell->fd);
        kept_touch(&attach->kept);
    }
    *fd = attach->bell->fd;
    return CAUSE_NONE;
}

void route_bell_close(struct queue_attach *attach)
{
    if (!attach->bell)
        return;
    free_bell(attach);
    attach->queue->n_bells--;
    if (attach->queue->route)
        relay_rung(attach->queue->route);
}

uint64_t route_bell_key(const struct queue_attach *attach)
{
    return attach->bell ? kept_key(attach->bell->fd) : 0;
}

bool route_bell_restore(struct queue_attach *attach, uint64_t key)
{
    int fd;

    if (key == 0)
        return true;
    fd = kept_fd_take(key);
    if (fd < 0) {
        attach->queue->bell_lost = true;
        kept_touch(&attach->kept);
        return true;
    }
    if (!make_bell(attach, fd))
        return false;
    user_charge_again(&attach->bell->charge, attach->peer->session->user, RESOURCE_FDS, 1, false);
    attach->queue->n_bells++;
    return true;
}
