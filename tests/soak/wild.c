#include "tests/soak/wild.h"

#include "acl/acl_npud.h"
#include "proto/util/futex.h"
#include "tests/common/chance.h"

static aclrtEvent choose_event(struct wild *w)
{
    return w->event[draw_below(&w->random, w->events)];
}

static void wild_record(struct wild *w)
{
    if (draw_chance(&w->random, 50))
        aclnpudLaunchDelay(draw_below(&w->random, 50), 0, w->stream);
    aclrtRecordEvent(choose_event(w), w->stream);
}

static void wild_wait(struct wild *w)
{
    aclrtStreamWaitEvent(w->stream, choose_event(w));
}

static void wild_sync(struct wild *w)
{
    aclrtSynchronizeEventWithTimeout(choose_event(w), 1);
    aclrtSynchronizeStreamWithTimeout(w->stream, 1);
}

static void wild_events(struct wild *w)
{
    aclrtEvent event;

    aclrtIpcOpenEventHandle(w->handle[draw_below(&w->random, w->events)], &event);
    aclrtRecordEvent(event, w->stream);
    aclrtStreamWaitEvent(w->stream, event);
    aclrtDestroyEvent(event);
    if (aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC) == 0) {
        aclrtRecordEvent(event, w->stream);
        aclrtResetEvent(event, w->stream);
        aclrtDestroyEvent(event);
    }
}

static void wild_stream(struct wild *w)
{
    aclrtStream stream;

    if (aclrtCreateStream(&stream) != 0)
        return;
    aclnpudLaunchDelay(draw_below(&w->random, 100), 0, stream);
    aclrtRecordEvent(choose_event(w), stream);
    if (draw_chance(&w->random, 50))
        aclrtDestroyStreamForce(stream);
}

static void do_nothing(void *data)
{
    (void)data;
}

static void wild_callback(struct wild *w)
{
    aclrtStream stream;

    if (aclrtCreateStream(&stream) != 0)
        return;
    aclrtLaunchHostFunc(stream, do_nothing, NULL);
    aclrtRecordEvent(choose_event(w), stream);
    aclrtLaunchHostFunc(stream, do_nothing, NULL);
}

static void wild_abort(struct wild *w)
{
    aclrtStream stream;

    if (aclrtCreateStream(&stream) != 0)
        return;
    aclrtStreamWaitEvent(stream, choose_event(w));
    aclnpudLaunchDelay(1000000, 0, stream);
    aclrtRecordEvent(choose_event(w), stream);
    aclrtStreamAbort(stream);
    aclrtDestroyStream(stream);
}

static void wild_memory(struct wild *w)
{
    size_t size = 4096u << draw_below(&w->random, 6);
    void *memory;

    if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0)
        return;
    aclrtMemsetAsync(memory, size, 7, size, w->stream);
    if (draw_chance(&w->random, 50))
        aclrtFree(memory);
}

void wild_run(struct wild *w)
{
    static void (*const steps[])(struct wild * w) = {
        wild_record, wild_record, wild_wait,   wild_wait,     wild_sync,
        wild_events, wild_stream, wild_memory, wild_callback, wild_abort,
    };

    for (;;) {
        steps[draw_below(&w->random, sizeof(steps) / sizeof(steps[0]))](w);
        atomic_fetch_add(w->steps, 1);
        futex_wake_all(w->steps);
    }
}
