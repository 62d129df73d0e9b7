#include "daemon/base/heap_trim.h"

#include <errno.h>
#include <event2/event.h>
#include <malloc.h>

#include "daemon/base/schedule.h"

#define TRIM_OBJECTS 1024 /* freed since the pages were given back last */
#define TRIM_SECONDS 1    /* later, and so at most that often */

static struct event *timer; /* NULL: npud begins or ends */
static struct job job;
static unsigned freed;

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    job_list(&job);
}

static bool run_trim(struct job *trim)
{
    (void)trim;
    freed = 0;
    malloc_trim(0);
    return false;
}

int heap_trim_init(struct schedule *schedule, struct event_base *base)
{
    freed = 0;
    job = (struct job){run_trim, "give back memory", &schedule->own};
    timer = event_new(base, -1, 0, on_timer, NULL);
    return timer ? 0 : -ENOMEM;
}

void heap_trim_deinit(void)
{
    job_cancel(&job);
    if (timer)
        event_free(timer);
    timer = NULL;
}

void heap_trim_list(void)
{
    if (timer)
        job_list(&job);
}

void heap_trim_count(void)
{
    const struct timeval later = {.tv_sec = TRIM_SECONDS};

    if (timer && ++freed == TRIM_OBJECTS)
        event_add(timer, &later);
}
