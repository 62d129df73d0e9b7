#include "daemon/base/heap_trim.h"

#include <errno.h>
#include <event2/event.h>
#include <malloc.h>

#define TRIM_OBJECTS 1024 /* freed since the pages were given back last */
#define TRIM_SECONDS 1    /* later, and so at most that often */

static struct event *timer; /* NULL: npud begins or ends */
static unsigned freed;

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    freed = 0;
    malloc_trim(0);
}

int heap_trim_init(struct event_base *base)
{
    freed = 0;
    timer = event_new(base, -1, 0, on_timer, NULL);
    return timer ? 0 : -ENOMEM;
}

void heap_trim_deinit(void)
{
    if (timer)
        event_free(timer);
    timer = NULL;
}

void heap_trim_count(void)
{
    const struct timeval later = {.tv_sec = TRIM_SECONDS};

    if (timer && ++freed == TRIM_OBJECTS)
        event_add(timer, &later);
}
