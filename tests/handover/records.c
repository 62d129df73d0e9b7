#include "records.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "content.h"

#define MEMORY              ((size_t)EVENTS * REGIONS * REGION)
#define GHOSTLY             20u
#define SEED(event, number) ((number)*EVENTS + (event))

struct records *records;
struct record_cast record_cast_next;
const char *const record_part_name[RECORD_PARTS] = {"records", "waits in host", "waits in stream",
                                                    "waits"};

static struct {
    struct record_cast cast;
    _Atomic uint32_t in_start;
} process;

struct work {
    uint32_t event;
    uint64_t number;
    uint8_t copy[REGION];
};

static _Thread_local struct {
    uint32_t life;
    uint64_t rng;
    aclrtStream stream;
    aclrtEvent event[EVENTS];
    uint8_t *pinned, *device;
    struct work *work; /* what host functions are given, by number */
    uint64_t synced;   /* records up to this one have been executed */
    unsigned ghostly;
    bool over;
} me;

/* --- results --- */

/* True: go on. Whatever fails when the session has ended fails with the code for that. */
static bool check_result(aclError r, const char *what)
{
    if (life_judges(r, what))
        return true;
    me.ghostly++;
    return false;
}
#define DO(about, call) check_result(CALL(about, 0, call), #call)

static uint8_t *region_of(uint32_t event, uint64_t number)
{
    return records->region[event][number % REGIONS];
}

static bool is_doomed(uint32_t life)
{
    return atomic_load(&records->doomed[life]);
}

static uint32_t recorder_of(const struct event_log *log, uint64_t number)
{
    return atomic_load(&log->recorder[number % WINDOW]);
}

/* May a wait have failed that was begun when record `from` was complete? */
static bool may_fail(const struct event_log *log, uint64_t from)
{
    uint64_t to = atomic_load(&log->tried);

    if (atomic_load(&log->aborted) >= from || to - from >= WINDOW)
        return true;
    for (uint64_t n = from; n <= to; n++)
        if (is_doomed(recorder_of(log, n)))
            return true;
    return false;
}

/*
 * Was all that may have been the latest record since `from` recorded by one thread, in one stream?
 */
static bool is_one_recorders(const struct event_log *log, uint64_t from)
{
    uint64_t to = atomic_load(&log->tried);

    if (to - from >= REGIONS - 1 || atomic_load(&log->aborted) >= from)
        return false;
    for (uint64_t n = from; n <= to; n++)
        if (recorder_of(log, n) != recorder_of(log, from))
            return false;
    return true;
}

/* What the recorder did before the record is visible. data: its region, or a copy that was made. */
static void verify_data(uint32_t event, uint64_t number, const uint8_t *data)
{
    struct event_log *log = &records->event[event];
    int64_t at;

    if (number == 0)
        return;
    at = content_wrong(data, REGION, REGION, SEED(event, number));
    if (!is_one_recorders(log, number))
        return;
    HOLDS(at < 0 || life_ends(),
          "event %u: a wait is over, but byte %lld of what record %llu of life %u completes is not "
          "there (%llu tried)",
          event, (long long)at, (unsigned long long)number, recorder_of(log, number),
          (unsigned long long)atomic_load(&log->tried));
    atomic_fetch_add_explicit(&records->verified, 1, memory_order_relaxed);
}

/* A wait for the record that was latest when `number` was done has come back with r. */
static bool check_wait(uint32_t event, uint64_t number, aclError r, const char *what)
{
    struct event_log *log = &records->event[event];

    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
    if (r != ACL_ERROR_RT_SUSPECT_REMOTE_ERROR)
        return check_result(r, what);
    HOLDS(may_fail(log, number) || life_ends(), "event %u: %s: %d for record %llu of life %u: %s",
          event, what, r, (unsigned long long)number, recorder_of(log, number),
          aclGetRecentErrMsg());
    atomic_fetch_add_explicit(&records->failed_waits, 1, memory_order_relaxed);
    return false;
}

/* --- recording --- */

static void write_now(void *arg)
{
    struct work *w = arg;

    content_fill(region_of(w->event, w->number), REGION, SEED(w->event, w->number));
}

static void read_now(void *arg)
{
    struct work *w = arg;

    memcpy(w->copy, region_of(w->event, w->number), REGION);
}

static struct work *work_new(uint32_t event, uint64_t number)
{
    struct work *w = &me.work[number % REGIONS];

    w->event = event;
    w->number = number;
    return w;
}

/* Through device memory into that which processes share. */
static bool copy_content(uint32_t event, uint64_t number)
{
    size_t at = number % REGIONS * REGION;

    content_fill(me.pinned + at, REGION, SEED(event, number));
    return DO(event, aclrtMemcpyAsync(me.device + at, REGION, me.pinned + at, REGION,
                                      ACL_MEMCPY_HOST_TO_DEVICE, me.stream)) &&
           DO(event, aclrtMemcpyAsync(region_of(event, number), REGION, me.device + at, REGION,
                                      ACL_MEMCPY_DEVICE_TO_HOST, me.stream));
}

/*
 * Write the content of a record: later in the stream, or now when the stream has come to its end.
 */
static bool write_content(uint32_t event, uint64_t number)
{
    struct work *w = work_new(event, number);

    if (draw_chance(&me.rng, 20)) {
        if (!DO(event, aclrtSynchronizeStream(me.stream)))
            return false;
        write_now(w);
        return true;
    }
    if (draw_chance(&me.rng, 50) &&
        !DO(event, aclnpudLaunchDelay(draw_below(&me.rng, 2000), 0, me.stream)))
        return false;
    if (draw_chance(&me.rng, 30))
        return copy_content(event, number);
    return DO(event, aclrtLaunchHostFunc(me.stream, write_now, w));
}

static void do_record(void)
{
    uint32_t event = process.cast.event;
    struct event_log *log = &records->event[event];
    uint64_t number = atomic_load(&log->tried) + 1;
    aclError r;

    atomic_store(&log->recorder[number % WINDOW], me.life);
    atomic_store(&log->tried, number);
    if (!write_content(event, number))
        return;
    r = CALL(event, WITHOUT_END, aclrtRecordEvent(me.event[event], me.stream));
    if (check_result(r, "aclrtRecordEvent"))
        atomic_store(&log->done, number);
    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

/* What has been executed does not fail: only records since the last synchronisation may. */
static void abort_stream(void)
{
    struct event_log *log = &records->event[process.cast.event];
    uint64_t tried = atomic_load(&log->tried);
    unsigned how = draw_below(&me.rng, 3);

    if (tried > me.synced)
        atomic_store(&log->aborted, tried);
    atomic_fetch_add_explicit(&records->aborts, 1, memory_order_relaxed);
    if (how == 0) {
        DO(process.cast.event, aclrtStreamAbort(me.stream));
    } else if (how == 1) {
        DO(process.cast.event, aclrtDeviceTaskAbort(0, 0));
    } else if (DO(process.cast.event, aclrtDestroyStreamForce(me.stream))) {
        me.stream = NULL;
        if (!DO(process.cast.event, aclrtCreateStream(&me.stream)))
            me.ghostly = GHOSTLY; /* it has no stream any more */
    }
}

static void synchronize_stream(void)
{
    uint64_t done = atomic_load(&records->event[process.cast.event].done);

    if (check_result(CALL(process.cast.event, WITHOUT_END, aclrtSynchronizeStream(me.stream)),
                     "aclrtSynchronizeStream"))
        me.synced = done;
}

static void do_records(void)
{
    unsigned n = draw_chance(&me.rng, 10) ? 1 + draw_below(&me.rng, REGIONS / 2)
                                          : 1 + draw_below(&me.rng, 4);

    while (n-- > 0 && !me.ghostly)
        do_record();
    if (me.ghostly)
        do_record();
    if (draw_chance(&me.rng, 30))
        synchronize_stream();
    if (draw_chance(&me.rng, 6))
        abort_stream();
    else
        synchronize_stream();
}

/* --- waiting --- */

static void wait_in_host(uint32_t event)
{
    uint64_t number = atomic_load(&records->event[event].done);
    aclError r = CALL(event, WITHOUT_END, aclrtSynchronizeEvent(me.event[event]));

    if (check_wait(event, number, r, "aclrtSynchronizeEvent"))
        verify_data(event, number, region_of(event, number));
}

static void wait_with_limit(uint32_t event)
{
    uint64_t number = atomic_load(&records->event[event].done);
    int32_t limit = 1 + (int32_t)draw_below(&me.rng, 20);
    aclError r = CALL(event, limit, aclrtSynchronizeEventWithTimeout(me.event[event], limit));

    if (r != ACL_ERROR_RT_EVENT_SYNC_TIMEOUT &&
        check_wait(event, number, r, "aclrtSynchronizeEventWithTimeout"))
        verify_data(event, number, region_of(event, number));
}

static void query_event(uint32_t event)
{
    uint64_t number = atomic_load(&records->event[event].done);
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclError r = CALL(event, 0, aclrtQueryEventStatus(me.event[event], &status));

    if (check_wait(event, number, r, "aclrtQueryEventStatus") &&
        status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
        verify_data(event, number, region_of(event, number));
}

static void wait_in_stream(uint32_t event)
{
    uint64_t number = atomic_load(&records->event[event].done);
    aclError r;

    if (!check_wait(event, number, CALL(event, 0, aclrtStreamWaitEvent(me.stream, me.event[event])),
                    "aclrtStreamWaitEvent"))
        return;
    if (!DO(event, aclrtLaunchHostFunc(me.stream, read_now, work_new(event, number))))
        return;
    r = CALL(event, WITHOUT_END, aclrtSynchronizeStream(me.stream));
    if (check_wait(event, number, r, "aclrtSynchronizeStream behind aclrtStreamWaitEvent"))
        verify_data(event, number, me.work[number % REGIONS].copy);
}

static void reopen_event(uint32_t event)
{
    if (!DO(event, aclrtDestroyEvent(me.event[event])) ||
        !DO(event, aclrtIpcOpenEventHandle(records->event[event].handle, &me.event[event])))
        me.ghostly = GHOSTLY; /* it has no event any more */
}

static void do_wait(void)
{
    uint32_t event = draw_below(&me.rng, EVENTS);
    enum record_part part = process.cast.part;

    if (part == WAITS_IN_ANY_WAY)
        part = draw_below(&me.rng, WAITS_IN_ANY_WAY);
    if (draw_chance(&me.rng, 1))
        reopen_event(event);
    else if (part == WAITS_IN_HOST)
        wait_in_host(event);
    else if (part == WAITS_IN_STREAM)
        wait_in_stream(event);
    else if (draw_chance(&me.rng, 50))
        wait_with_limit(event);
    else
        query_event(event);
}

/* --- lives --- */

static bool open_all(void)
{
    bool ok =
        DO(-1, aclrtSetDevice(0)) && DO(-1, aclrtCreateStream(&me.stream)) &&
        DO(-1, aclrtMallocHost((void **)&me.pinned, REGIONS * REGION)) &&
        DO(-1, aclrtMalloc((void **)&me.device, REGIONS * REGION, ACL_MEM_MALLOC_NORMAL_ONLY));

    me.work = calloc(REGIONS, sizeof(*me.work));

    for (uint32_t e = 0; e < EVENTS && ok; e++)
        ok = DO(e, aclrtIpcOpenEventHandle(records->event[e].handle, &me.event[e]));
    return ok;
}

/* What has lost its session lives on for a while, as a process does that has not noticed. */
static void outlive_session(void)
{
    uint32_t phase = atomic_load(&records->phase);

    while (life_ends() && atomic_load(&records->phase) == phase && !atomic_load(&stage->stop))
        stage_rest(1);
}

static void do_part(void)
{
    while (!atomic_load(&stage->stop) && me.ghostly < GHOSTLY)
        if (atomic_load(&stage->hold))
            stage_rest(1);
        else if (process.cast.part == RECORDS)
            do_records();
        else
            do_wait();
}

static void *thread_main(void *arg)
{
    struct player *p = arg;
    uint32_t i = atomic_fetch_add(&process.in_start, 1);

    me.life = p->first + i;
    me.rng = p->seed + i;
    life_begin(me.life);
    if (open_all())
        do_part();
    outlive_session();
    life_over();
    return NULL;
}

int records_main(struct player *p)
{
    pthread_t thread[THREADS];

    process.cast = record_cast_next;
    me.life = p->first;
    me.rng = p->seed;
    life_begin(me.life);
    if (!DO(-1, aclInit(NULL)))
        return 0;
    for (unsigned i = 0; i < p->n; i++)
        HOLDS(pthread_create(&thread[i], NULL, thread_main, p) == 0, "no thread");
    for (unsigned i = 0; i < p->n; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&self->over, 0);
    if (draw_chance(&me.rng, 70))
        CALL(-1, 0, aclFinalize());
    return 0;
}

void records_make(void)
{
    for (uint32_t e = 0; e < EVENTS; e++) {
        aclrtEvent event;

        OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(event, &records->event[e].handle));
    }
}

void records_open(void)
{
    for (uint32_t e = 0; e < EVENTS; e++) {
        aclrtEvent event;
        aclrtIpcEventHandle handle;

        OK(aclrtIpcOpenEventHandle(records->event[e].handle, &event));
        OK(aclrtIpcGetEventHandle(event, &handle));
    }
}
