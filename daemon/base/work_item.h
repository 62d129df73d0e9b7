/*
 * Posts: what engines have for the control thread. A post is a member of the object that it is
 * about, and is in the queue once at most. The control thread runs a bounded time of them between
 * two looks at its clients.
 */
#pragma once

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>

struct work_item {
    void (*run)(struct work_item *post); /* control thread; may free the object */
    bool queued;                         /* under posts.lock */
    struct work_item *prev, *next;       /* posts.first */
};

struct work_items {
    pthread_mutex_t lock;
    struct work_item *first;
    /* eventfd: the queue has been empty, and is not any more; -1 before work_items_init() */
    int fd;
    struct event *on_posted;
};

/** Set up the queue. 0 or -errno. */
int work_items_init(struct work_items *posts, struct event_base *base);
/** Safe after work_items_init() has failed. Nothing is run any more. */
void work_items_deinit(struct work_items *posts);

/** Have the control thread call post->run. Any thread. Not while it is queued already. */
void work_item_send(struct work_items *posts, struct work_item *post);
/**
 * Control thread: take it back. False: it was not queued. Who could send it must not be able to any
 * more.
 */
bool work_item_cancel(struct work_items *posts, struct work_item *post);
