#include "daemon/base/work_item.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "proto/util/clock.h"

#define WORK_ITEMS_SLICE (500 * NSEC_PER_USEC) /* before requests have their turn */

void work_item_send(struct work_items *posts, struct work_item *post)
{
    bool first;

    pthread_mutex_lock(&posts->lock);
    assert(!post->queued);
    first = !posts->first;
    post->queued = true;
    DL_APPEND(posts->first, post);
    pthread_mutex_unlock(&posts->lock);
    if (first)
        eventfd_write(posts->fd, 1);
}

static bool unlink_locked(struct work_items *posts, struct work_item *post)
{
    if (!post || !post->queued)
        return false;
    DL_DELETE(posts->first, post);
    post->queued = false;
    return true;
}

bool work_item_cancel(struct work_items *posts, struct work_item *post)
{
    bool queued;

    pthread_mutex_lock(&posts->lock);
    queued = unlink_locked(posts, post);
    pthread_mutex_unlock(&posts->lock);
    return queued;
}

static struct work_item *take_first(struct work_items *posts)
{
    struct work_item *post;

    pthread_mutex_lock(&posts->lock);
    post = posts->first;
    unlink_locked(posts, post);
    pthread_mutex_unlock(&posts->lock);
    return post;
}

static void on_posted(evutil_socket_t fd, short what, void *arg)
{
    struct work_items *posts = arg;
    uint64_t start = clock_ns();
    struct work_item *post;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    while ((post = take_first(posts))) {
        post->run(post);
        if (clock_ns() - start > WORK_ITEMS_SLICE) {
            /* Nobody else says so when the queue is not empty. */
            eventfd_write(fd, 1);
            break;
        }
    }
}

int work_items_init(struct work_items *posts, struct event_base *base)
{
    pthread_mutex_init(&posts->lock, NULL);
    posts->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (posts->fd < 0)
        return -errno;
    posts->on_posted = event_new(base, posts->fd, EV_READ | EV_PERSIST, on_posted, posts);
    if (!posts->on_posted || event_add(posts->on_posted, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void work_items_deinit(struct work_items *posts)
{
    if (posts->on_posted)
        event_free(posts->on_posted);
    if (posts->fd >= 0)
        close(posts->fd);
    pthread_mutex_destroy(&posts->lock);
}
