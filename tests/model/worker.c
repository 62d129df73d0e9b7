#include "tests/model/worker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "tests/common/sleeper.h"

#define MARKS (QUEUE + 8)
#define NEVER SLEEPER_NEVER

static_assert(MARKS > QUEUE + 1,
              "the mark of the last task that ran and those of all others are there");

struct stream {
    aclrtStream handle;
    aclrtEvent mark[MARKS]; /* recorded after each task: how far the stream has come */
    aclrtEvent gate[GATES];
    unsigned marked; /* tasks of this program that have their mark */
    unsigned gates, gates_open;
};

static struct {
    unsigned process;
    aclrtContext context[DEVICES];
    aclrtStream service[DEVICES]; /* for what programs do not see */
    int device;                   /* current */
    struct stream stream[STREAMS];
    aclrtEvent var[VARS];
    bool live[VARS];
    int32_t guard_ms;
    struct sleeper_thread sleeper;
} me = {.device = -1, .sleeper = SLEEPER_INIT};

/* What the harness itself needs must succeed. */
static void must_(int code, const char *call)
{
    if (code == 0)
        return;
    fprintf(stderr, "model: p%u: %s: %d: %s\n", me.process, call, code, aclGetRecentErrMsg());
    _exit(1);
}
#define MUST(call) must_((call), #call)

static void enter_device(unsigned device)
{
    if (me.device == (int)device)
        return;
    MUST(aclrtSetCurrentContext(me.context[device]));
    me.device = (int)device;
}

/* --- the second thread --- */

static void sleeper_check(uint8_t expected, struct report *r)
{
    struct sleeper_thread *z = &me.sleeper;
    bool returned;

    pthread_mutex_lock(&z->lock);
    if (z->event && expected != SLEEPER_ANY) {
        returned = sleeper_returned(z, expected == SLEEPER_RETURNS ? me.guard_ms : 0);
        r->code = z->code;
        if (returned && expected == SLEEPER_BLOCKED)
            r->trouble = TROUBLE_AWAKE;
        else if (!returned && expected == SLEEPER_RETURNS)
            r->trouble = TROUBLE_ASLEEP;
        else if (returned && z->code != 0)
            r->trouble = TROUBLE_SLEEP_CODE;
        if (expected == SLEEPER_RETURNS)
            z->event = NULL;
    }
    pthread_mutex_unlock(&z->lock);
}

/* --- looking --- */

/* Marks for the tasks that the step gave its stream. They take no place in it. */
static void mark_tasks(const struct view *v)
{
    for (unsigned i = 0; i < STREAMS; i++)
        for (struct stream *s = &me.stream[i]; s->marked < v->submitted[i]; s->marked++) {
            enter_device(device_of(i));
            MUST(aclrtRecordEvent(s->mark[s->marked % MARKS], s->handle));
        }
}

static void check_stream(unsigned i, const struct view *v, struct report *r)
{
    struct stream *s = &me.stream[i];
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclrtStreamStatus running = ACL_STREAM_STATUS_RESERVED;
    bool rest = v->executed[i] < v->submitted[i];

    r->where = (uint8_t)i;
    if (v->executed[i] > 0)
        r->code =
            aclrtSynchronizeEventWithTimeout(s->mark[(v->executed[i] - 1u) % MARKS], me.guard_ms);
    if (r->code != 0) {
        r->trouble = TROUBLE_STUCK;
        return;
    }
    if (rest)
        MUST(aclrtQueryEventStatus(s->mark[v->executed[i] % MARKS], &status));
    if (status != ACL_EVENT_RECORDED_STATUS_NOT_READY) {
        r->trouble = TROUBLE_AHEAD;
        return;
    }
    enter_device(device_of(i));
    r->code = aclrtStreamQuery(s->handle, &running);
    if (r->code != 0 || (running == ACL_STREAM_STATUS_COMPLETE) == rest)
        r->trouble = TROUBLE_STATUS;
}

static void look_at_events(struct report *r)
{
    for (unsigned i = 0; i < VARS; i++) {
        aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;

        if (!me.live[i])
            continue;
        r->status[i].code = aclrtQueryEventStatus(me.var[i], &status);
        r->status[i].value = (int32_t)status;
    }
}

static void settle_streams(const struct view *v, struct report *r)
{
    for (unsigned d = 0; d < DEVICES; d++) {
        enter_device(d);
        MUST(aclrtSynchronizeStreamWithTimeout(me.service[d], me.guard_ms));
    }
    for (unsigned i = 0; i < STREAMS && r->trouble == TROUBLE_NONE; i++)
        check_stream(i, v, r);
    if (r->trouble == TROUBLE_NONE)
        sleeper_check(v->sleeper, r);
}

/* --- steps --- */

static void add_answer(struct report *r, int code)
{
    r->answer[r->n++].code = code;
}

static void say_value(struct report *r, int code, int value)
{
    r->answer[r->n].value = value;
    add_answer(r, code);
}

static void do_create(const struct order *o, struct report *r)
{
    const struct kind_info *k = &kind_info[o->step.kind];
    aclrtEvent *event = &me.var[o->step.var];

    if (k->maker == MAKE_DEFAULT)
        add_answer(r, aclrtCreateEvent(event));
    else
        add_answer(r, k->maker == MAKE_WITH_FLAG ? aclrtCreateEventWithFlag(event, k->flags)
                                                 : aclrtCreateEventExWithFlag(event, k->flags));
    me.live[o->step.var] = r->answer[0].code == 0;
}

static void do_export(const struct order *o, struct report *r)
{
    add_answer(r, aclrtIpcGetEventHandle(me.var[o->step.var], &r->handle));
}

static void do_open(const struct order *o, struct report *r)
{
    add_answer(r, aclrtIpcOpenEventHandle(o->handle, &me.var[o->step.var]));
    me.live[o->step.var] = r->answer[0].code == 0;
}

static void do_destroy(const struct order *o, struct report *r)
{
    add_answer(r, aclrtDestroyEvent(me.var[o->step.var]));
    me.live[o->step.var] = false;
}

static void do_record(const struct order *o, struct report *r)
{
    aclrtEvent event = me.var[o->step.var];
    aclrtStream stream = me.stream[o->step.stream].handle;

    add_answer(r, o->step.variant & 1
                      ? aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT)
                      : aclrtRecordEvent(event, stream));
}

static void do_wait(const struct order *o, struct report *r)
{
    aclrtEvent event = me.var[o->step.var];
    aclrtStream stream = me.stream[o->step.stream].handle;

    switch (o->step.variant & 3) {
    case 0:
        add_answer(r, aclrtStreamWaitEvent(stream, event));
        break;
    case 3:
        add_answer(r, aclrtStreamWaitEventWithFlag(stream, event, 500, ACL_EVENT_WAIT_DEFAULT));
        break;
    default:
        add_answer(r, aclrtStreamWaitEventWithTimeout(stream, event,
                                                      (o->step.variant & 3) == 1 ? 0 : 1000));
        break;
    }
}

static void do_wait_expire(const struct order *o, struct report *r)
{
    aclrtStream stream = me.stream[o->step.stream].handle;

    add_answer(r, aclrtStreamWaitEventWithTimeout(stream, me.var[o->step.var], 1));
    add_answer(r, aclrtSynchronizeStreamWithTimeout(stream, me.guard_ms));
}

static void do_reset(const struct order *o, struct report *r)
{
    add_answer(r, aclrtResetEvent(me.var[o->step.var], me.stream[o->step.stream].handle));
}

static void do_delay(const struct order *o, struct report *r)
{
    add_answer(r, aclnpudLaunchDelay((uint64_t)o->step.arg, o->step.result,
                                     me.stream[o->step.stream].handle));
}

/* A gate is a sync event that only the harness records. */
static void do_gate(const struct order *o, struct report *r)
{
    struct stream *s = &me.stream[o->step.stream];
    aclrtStream service = me.service[device_of(o->step.stream)];
    aclrtEvent gate = s->gate[s->gates++ % GATES];

    (void)r;
    MUST(aclrtResetEvent(gate, service));
    MUST(aclrtSynchronizeStreamWithTimeout(service, me.guard_ms));
    MUST(aclrtStreamWaitEvent(s->handle, gate));
}

static void do_ungate(const struct order *o, struct report *r)
{
    struct stream *s = &me.stream[o->step.stream];

    (void)r;
    MUST(aclrtRecordEvent(s->gate[s->gates_open++ % GATES], me.service[device_of(o->step.stream)]));
}

static void do_query(const struct order *o, struct report *r)
{
    aclrtEvent event = me.var[o->step.var];
    aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
    uint32_t id = 0;
    uint64_t us = 0;
    int code;

    code = aclrtQueryEvent(event, &old);
    say_value(r, code, (int)old);
    code = aclrtQueryEventStatus(event, &status);
    say_value(r, code, (int)status);
    code = aclrtQueryEventWaitStatus(event, &waits);
    say_value(r, code, (int)waits);
    add_answer(r, aclrtGetEventId(event, &id));
    add_answer(r, aclrtEventGetTimestamp(event, &us));
}

static void do_query_stream(const struct order *o, struct report *r)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    int code = aclrtStreamQuery(me.stream[o->step.stream].handle, &status);

    say_value(r, code, (int)status);
}

static void do_elapsed(const struct order *o, struct report *r)
{
    float ms = 0;

    add_answer(r, aclrtEventElapsedTime(&ms, me.var[o->step.var], me.var[o->step.other_var]));
    r->answer[0].ms = ms;
}

/* How long a synchronise may take: a moment when it cannot succeed, else either of the forms. */
static int32_t choose_limit(const struct order *o)
{
    if (o->blocks)
        return 1;
    return o->step.variant & 1 ? me.guard_ms : NEVER;
}

static void do_sync_event(const struct order *o, struct report *r)
{
    aclrtEvent event = me.var[o->step.var];

    add_answer(r, choose_limit(o) == NEVER
                      ? aclrtSynchronizeEvent(event)
                      : aclrtSynchronizeEventWithTimeout(event, choose_limit(o)));
}

static void do_sync_stream(const struct order *o, struct report *r)
{
    aclrtStream stream = me.stream[o->step.stream].handle;

    add_answer(r, choose_limit(o) == NEVER
                      ? aclrtSynchronizeStream(stream)
                      : aclrtSynchronizeStreamWithTimeout(stream, choose_limit(o)));
}

static void do_sync_device(const struct order *o, struct report *r)
{
    add_answer(r, choose_limit(o) == NEVER ? aclrtSynchronizeDevice()
                                           : aclrtSynchronizeDeviceWithTimeout(choose_limit(o)));
}

static void do_renew(const struct order *o, struct report *r)
{
    struct stream *s = &me.stream[o->step.stream];

    add_answer(r, aclrtDestroyStream(s->handle));
    add_answer(r, aclrtCreateStream(&s->handle));
}

static void do_sleep(const struct order *o, struct report *r)
{
    (void)r;
    sleeper_begin(&me.sleeper, me.var[o->step.var], choose_limit(o));
}

static void do_rescue(const struct order *o, struct report *r)
{
    add_answer(r, aclrtRecordEvent(me.var[o->step.var], me.service[device_of(o->step.stream)]));
}

static void (*const steps[OPS])(const struct order *o, struct report *r) = {
    [OP_CREATE] = do_create,
    [OP_EXPORT] = do_export,
    [OP_OPEN] = do_open,
    [OP_DESTROY] = do_destroy,
    [OP_RECORD] = do_record,
    [OP_WAIT] = do_wait,
    [OP_WAIT_EXPIRE] = do_wait_expire,
    [OP_RESET] = do_reset,
    [OP_DELAY] = do_delay,
    [OP_GATE] = do_gate,
    [OP_UNGATE] = do_ungate,
    [OP_QUERY] = do_query,
    [OP_QUERY_STREAM] = do_query_stream,
    [OP_ELAPSED] = do_elapsed,
    [OP_SYNC_EVENT] = do_sync_event,
    [OP_SYNC_STREAM] = do_sync_stream,
    [OP_SYNC_DEVICE] = do_sync_device,
    [OP_RENEW] = do_renew,
    [OP_SLEEP] = do_sleep,
    [OP_RESCUE] = do_rescue,
};

static void begin_program(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        me.stream[i].marked = me.stream[i].gates = me.stream[i].gates_open = 0;
}

static void follow_order(const struct order *o, struct report *r)
{
    me.guard_ms = o->guard_ms;
    if (o->kind == ORDER_BEGIN) {
        begin_program();
        return;
    }
    if (o->kind == ORDER_STEP) {
        enter_device(device_of(o->step.stream));
        steps[o->step.op](o, r);
        mark_tasks(&o->view);
    }
    if (o->settle)
        settle_streams(&o->view, r);
    if (o->look && r->trouble == TROUBLE_NONE)
        look_at_events(r);
}

/* --- life --- */

static void make_stream(unsigned i)
{
    struct stream *s = &me.stream[i];

    enter_device(device_of(i));
    if (i % 2 == 0)
        s->handle = NULL; /* the default stream */
    else
        MUST(aclrtCreateStream(&s->handle));
    for (unsigned k = 0; k < MARKS; k++)
        MUST(aclrtCreateEventExWithFlag(&s->mark[k], ACL_EVENT_CAPTURE_STREAM_PROGRESS));
    for (unsigned k = 0; k < GATES; k++)
        MUST(aclrtCreateEventWithFlag(&s->gate[k], ACL_EVENT_SYNC));
}

static void start_devices(void)
{
    MUST(aclInit(NULL));
    for (int d = 0; d < DEVICES; d++) {
        MUST(aclrtSetDevice(d));
        MUST(aclrtGetCurrentContext(&me.context[d]));
        MUST(aclrtCreateStream(&me.service[d]));
        me.device = d;
    }
    for (unsigned i = 0; i < STREAMS; i++)
        make_stream(i);
    if (!sleeper_start(&me.sleeper))
        _exit(1);
}

static void stop_devices(void)
{
    sleeper_stop(&me.sleeper);
    for (int d = 0; d < DEVICES; d++)
        MUST(aclrtResetDevice(d));
    MUST(aclFinalize());
}

int worker_run(unsigned process, int fd)
{
    static struct order orders[BATCH];
    static struct report reports[BATCH];
    ssize_t size;
    unsigned n;

    me.process = process;
    start_devices();
    for (;;) {
        size = recv(fd, orders, sizeof(orders), 0);
        if (size <= 0)
            break;
        memset(reports, 0, sizeof(reports));
        n = 0;
        do {
            /* A call that does not return ends this process, and the driver says in which step. */
            alarm((unsigned)orders[n].guard_ms / 1000 + 2);
            follow_order(&orders[n], &reports[n]);
        } while (reports[n++].trouble == TROUBLE_NONE && n < (size_t)size / sizeof(orders[0]));
        if (send(fd, reports, n * sizeof(reports[0]), MSG_NOSIGNAL) < 0)
            break;
        alarm(0);
    }
    if (size == 0)
        stop_devices();
    return size == 0 ? 0 : 1;
}
