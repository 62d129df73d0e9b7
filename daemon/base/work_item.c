#include "daemon/base/work_item.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "proto/util/clock.h"

#define WORK_ITEMS_SLICE (500 * NSEC_PER_USEC) /* before requests have their turn */

void work_item_send(struct work_items *items, struct work_item *item)
{
    bool first;

    pthread_mutex_lock(&items->lock);
    assert(!item->queued);
    first = !items->first;
    item->queued = true;
    DL_APPEND(items->first, item);
    pthread_mutex_unlock(&items->lock);
    if (first)
        eventfd_write(items->fd, 1);
}

static bool unlink_item(struct work_items *items, struct work_item *item)
{
    if (!item || !item->queued)
        return false;
    DL_DELETE(items->first, item);
    item->queued = false;
    return true;
}

bool work_item_cancel(struct work_items *items, struct work_item *item)
{
    bool queued;

    pthread_mutex_lock(&items->lock);
    queued = unlink_item(items, item);
    pthread_mutex_unlock(&items->lock);
    return queued;
}

static struct work_item *take_first_item(struct work_items *items)
{
    struct work_item *item;

    pthread_mutex_lock(&items->lock);
    item = items->first;
    unlink_item(items, item);
    pthread_mutex_unlock(&items->lock);
    return item;
}

static void on_sent(evutil_socket_t fd, short what, void *arg)
{
    struct work_items *items = arg;
    uint64_t start = clock_ns();
    struct work_item *item;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    while ((item = take_first_item(items))) {
        item->run(item);
        if (clock_ns() - start > WORK_ITEMS_SLICE) {
            /* A queue that is not empty wakes the control thread by itself only once. */
            eventfd_write(fd, 1);
            break;
        }
    }
}

int work_items_init(struct work_items *items, struct event_base *base)
{
    pthread_mutex_init(&items->lock, NULL);
    items->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (items->fd < 0)
        return -errno;
    items->on_sent = event_new(base, items->fd, EV_READ | EV_PERSIST, on_sent, items);
    if (!items->on_sent || event_add(items->on_sent, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void work_items_deinit(struct work_items *items)
{
    if (items->on_sent)
        event_free(items->on_sent);
    if (items->fd >= 0)
        close(items->fd);
    pthread_mutex_destroy(&items->lock);
}
