#include "daemon/base/timers.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/core/stream.h"

void timers_deinit(struct timers *t)
{
    free(t->heap);
    *t = (struct timers){0};
}

static void place(struct timers *t, uint32_t i, struct stream *s)
{
    t->heap[i] = s;
    s->timer = i + 1;
}

static void sift(struct timers *t, uint32_t i, struct stream *s)
{
    while (i > 0 && t->heap[(i - 1) / 2]->deadline > s->deadline) {
        place(t, i, t->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (uint32_t c; (c = 2 * i + 1) < t->n; i = c) {
        if (c + 1 < t->n && t->heap[c + 1]->deadline < t->heap[c]->deadline)
            c++;
        if (s->deadline <= t->heap[c]->deadline)
            break;
        place(t, i, t->heap[c]);
    }
    place(t, i, s);
}

int timers_set(struct timers *t, struct stream *stream, uint64_t deadline)
{
    if (stream->timer == 0 && t->n == t->size) {
        uint32_t size = t->size ? 2 * t->size : 64;
        struct stream **heap = realloc(t->heap, size * sizeof(struct stream *));

        if (!heap)
            return -ENOMEM;
        t->heap = heap;
        t->size = size;
    }
    stream->deadline = deadline;
    sift(t, stream->timer ? stream->timer - 1 : t->n++, stream);
    return 0;
}

void timers_clear(struct timers *t, struct stream *stream)
{
    struct stream *last;
    uint32_t i;

    if (stream->timer == 0)
        return;
    i = stream->timer - 1;
    stream->timer = 0;
    last = t->heap[--t->n];
    if (last != stream)
        sift(t, i, last);
}

struct stream *timers_first(const struct timers *t)
{
    return t->n ? t->heap[0] : NULL;
}
