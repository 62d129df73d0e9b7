/*
 * Posts: what engines have for the control thread. A post is a member of the object that it is about, and is in the queue once at
 * most. The control thread runs a bounded time of them between two looks at its clients.
 */
#pragma once

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>

struct post {
    void (*run)(struct post *post); /* control thread; may free the object */
    bool queued;                    /* under posts.lock */
    struct post *prev, *next;       /* posts.first */
};

struct posts {
    pthread_mutex_t lock;
    struct post *first;
    int fd; /* eventfd: the queue has been empty, and is not any more; -1 before posts_init() */
    struct event *on_posted;
};

/** Set up the queue. 0 or -errno. */
int posts_init(struct posts *posts, struct event_base *base);
/** Safe after posts_init() has failed. Nothing is run any more. */
void posts_deinit(struct posts *posts);

/** Have the control thread call post->run. Any thread. Not while it is queued already. */
void post_send(struct posts *posts, struct post *post);
/** Control thread: take it back. False: it was not queued. Who could send it must not be able to any more. */
bool post_cancel(struct posts *posts, struct post *post);
