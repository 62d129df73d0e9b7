/*
 * Work items: what engines have for the control thread. An item is a member of the object that it
 * is about, and is in the queue once at most. The control thread runs items for a bounded time
 * between two looks at its clients.
 */
#pragma once

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>

struct work_item {
    void (*run)(struct work_item *item); /* control thread; may free the object */
    bool queued;                         /* under items.lock */
    struct work_item *prev, *next;       /* items.first */
};

struct work_items {
    pthread_mutex_t lock;
    struct work_item *first;
    /* eventfd: the queue has been empty, and is not any more; -1 before work_items_init() */
    int fd;
    struct event *on_sent;
};

/** Set up the queue. 0 or -errno. */
int work_items_init(struct work_items *items, struct event_base *base);
/** Safe after work_items_init() has failed. Nothing is run any more. */
void work_items_deinit(struct work_items *items);

/** Have the control thread call item->run. Any thread. Not while it is queued already. */
void work_item_send(struct work_items *items, struct work_item *item);
/**
 * Control thread: take it back. False: it was not queued. No other thread may be able to send it
 * any more.
 */
bool work_item_cancel(struct work_items *items, struct work_item *item);
