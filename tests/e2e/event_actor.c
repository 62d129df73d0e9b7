#include "event_actor.h"
#include "tests/common/moment.h"
#include "tests/common/proc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct actor actors[ACTORS_MAX];

/* --- the actor's side --- */

static aclrtStream streams[DEVICES][LANES];
static aclrtEvent gates[DEVICES][LANES];

aclrtStream lane_stream(int device, int lane)
{
    OK(aclrtSetDevice(device));
    if (!streams[device][lane])
        OK(aclrtCreateStream(&streams[device][lane]));
    return streams[device][lane];
}

static int perform_acts(int fd, void *arg)
{
    struct act a;

    (void)arg;
    OK(aclInit(NULL));
    while (recv(fd, &a, sizeof(a), 0) == sizeof(a)) {
        const char *message;

        aclGetRecentErrMsg();
        a.fn(&a);
        message = a.error != 0 ? aclGetRecentErrMsg() : NULL;
        strncpy(a.message, message ? message : "", sizeof(a.message) - 1);
        ck_assert_int_eq(send(fd, &a, sizeof(a), MSG_NOSIGNAL), sizeof(a));
    }
    OK(aclFinalize());
    return 0;
}

/* --- the test's side --- */

void event_actors_start(unsigned n)
{
    ck_assert_uint_le(n, ACTORS_MAX);
    for (unsigned i = 0; i < n; i++) {
        actor_start(&actors[i], perform_acts, NULL);
        lane_idle(i, 0, PROBE, false); /* connected from now on */
    }
}

void event_actor_end(unsigned who)
{
    uint32_t before = npud_ledger().sessions;

    actor_end(&actors[who]);
    npud_await_sessions(before - 1);
}

void event_actors_end(void)
{
    for (unsigned i = 0; i < ACTORS_MAX; i++)
        if (actors[i].pid != 0)
            event_actor_end(i);
    npud_expect_empty();
}

pid_t event_actor_pid(unsigned who)
{
    return actors[who].pid;
}

struct act event_actor_ask(unsigned who, struct act a)
{
    ck_assert_int_ne(actors[who].pid, 0);
    ck_assert_msg(actor_tell(&actors[who], &a, sizeof(a)), "actor %u has died", who);
    ck_assert_msg(actor_answer(&actors[who], &a, sizeof(a), 2 * LIMIT_MS) == sizeof(a),
                  "actor %u does not come back, or has died", who);
    return a;
}

/* --- streams --- */

static void act_close(struct act *a)
{
    gates[a->device][a->lane] = stream_hold(lane_stream(a->device, a->lane));
}

static void act_open(struct act *a)
{
    OK(aclrtSetDevice(a->device));
    stream_let_go(gates[a->device][a->lane]);
    a->error = aclrtDestroyEvent(gates[a->device][a->lane]);
}

static void act_synchronize_lane(struct act *a)
{
    a->error = aclrtSynchronizeStreamWithTimeout(lane_stream(a->device, a->lane), LIMIT_MS);
}

static void act_idle(struct act *a)
{
    if (a->number)
        engine_turn(lane_stream(a->device, PROBE));
    a->value = idle(lane_stream(a->device, a->lane));
}

static void act_synchronize_device(struct act *a)
{
    OK(aclrtSetDevice(a->device));
    a->error = aclrtSynchronizeDeviceWithTimeout(a->number);
}

static struct act lane_act(unsigned who, void (*fn)(struct act *a), int device, int lane, int n)
{
    return event_actor_ask(who,
                           (struct act){.fn = fn, .device = device, .lane = lane, .number = n});
}

struct act lane_close(unsigned who, int device, int lane)
{
    return lane_act(who, act_close, device, lane, 0);
}

struct act lane_open(unsigned who, int device, int lane)
{
    return lane_act(who, act_open, device, lane, 0);
}

struct act lane_synchronize(unsigned who, int device, int lane)
{
    return lane_act(who, act_synchronize_lane, device, lane, 0);
}

struct act lane_idle(unsigned who, int device, int lane, bool settled)
{
    return lane_act(who, act_idle, device, lane, settled);
}

struct act device_synchronize(unsigned who, int device, int timeout_ms)
{
    return lane_act(who, act_synchronize_device, device, 0, timeout_ms);
}

/* --- IPC events --- */

static void act_create(struct act *a)
{
    OK(aclrtSetDevice(a->device));
    a->error = aclrtCreateEventExWithFlag(&a->event, ACL_EVENT_IPC);
}

static void act_export(struct act *a)
{
    a->error = aclrtIpcGetEventHandle(a->event, &a->handle);
}

static void act_import(struct act *a)
{
    OK(aclrtSetDevice(a->device));
    a->error = aclrtIpcOpenEventHandle(a->handle, &a->event);
}

static void act_destroy(struct act *a)
{
    a->error = aclrtDestroyEvent(a->event);
}

static void act_record(struct act *a)
{
    a->error = aclrtRecordEvent(a->event, lane_stream(a->device, a->lane));
}

static void act_wait(struct act *a)
{
    a->error =
        wait_by((enum wait_form)a->number, lane_stream(a->device, a->lane), a->event, a->seconds);
}

static void act_status(struct act *a)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;

    a->error = aclrtQueryEventStatus(a->event, &status);
    a->value = (int)status;
}

static void act_synchronize(struct act *a)
{
    a->error = a->number ? aclrtSynchronizeEventWithTimeout(a->event, a->number)
                         : aclrtSynchronizeEvent(a->event);
}

/* --- a thread that synchronises --- */

static struct {
    pthread_t thread;
    aclrtEvent event;
    aclError error;
    _Atomic pid_t tid;
    _Atomic bool back;
} side;

static void *side_run(void *arg)
{
    side.tid = gettid();
    side.error = aclrtSynchronizeEvent(side.event);
    side.back = true;
    return arg;
}

/* Does the kernel say that the thread sleeps? */
static bool side_sleeps(void)
{
    return side.tid != 0 && proc_thread_state(getpid(), side.tid) == 'S';
}

static void act_side_begin(struct act *a)
{
    uint64_t give_up = now_ns() + (uint64_t)LIMIT_MS * 1000000;

    side.event = a->event;
    side.tid = 0;
    side.back = false;
    ck_assert_int_eq(pthread_create(&side.thread, NULL, side_run, NULL), 0);
    while (!side.back && !side_sleeps() && now_ns() < give_up)
        wait_a_moment();
    a->value = !side.back;
}

static void act_side_end(struct act *a)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec += LIMIT_MS / 1000;
    a->value = pthread_timedjoin_np(side.thread, NULL, &ts) == 0;
    a->error = side.error;
}

static struct act ref_act(struct ref *ref, void (*fn)(struct act *a))
{
    return (struct act){.fn = fn, .event = ref->event};
}

struct act ref_create(unsigned who, int device, struct ref *ref)
{
    struct act a = lane_act(who, act_create, device, 0, 0);

    *ref = (struct ref){.who = who, .event = a.event};
    return a;
}

struct act ref_export(struct ref *ref, aclrtIpcEventHandle *handle)
{
    struct act a = event_actor_ask(ref->who, ref_act(ref, act_export));

    *handle = a.handle;
    return a;
}

struct act ref_open(unsigned who, int device, const aclrtIpcEventHandle *handle, struct ref *ref)
{
    struct act a = {.fn = act_import,
                    .device = device,
                    .handle = *handle,
                    .event = (aclrtEvent)(uintptr_t)0x5a5a};

    a = event_actor_ask(who, a);
    /* Written on success only. */
    ck_assert((a.error == 0) == (a.event != (aclrtEvent)(uintptr_t)0x5a5a));
    *ref = (struct ref){.who = who, .event = a.event};
    return a;
}

struct act ref_destroy(struct ref *ref)
{
    return event_actor_ask(ref->who, ref_act(ref, act_destroy));
}

struct act ref_record(struct ref *ref, int device, int lane)
{
    struct act a = ref_act(ref, act_record);

    a.device = device;
    a.lane = lane;
    return event_actor_ask(ref->who, a);
}

struct act ref_wait(struct ref *ref, int device, int lane, enum wait_form form, unsigned seconds)
{
    struct act a = ref_act(ref, act_wait);

    a.device = device;
    a.lane = lane;
    a.number = form;
    a.seconds = seconds;
    return event_actor_ask(ref->who, a);
}

struct act ref_status(struct ref *ref)
{
    return event_actor_ask(ref->who, ref_act(ref, act_status));
}

struct act ref_synchronize(struct ref *ref, int timeout_ms)
{
    struct act a = ref_act(ref, act_synchronize);

    a.number = timeout_ms;
    return event_actor_ask(ref->who, a);
}

struct act ref_synchronize_begin(struct ref *ref)
{
    return event_actor_ask(ref->who, ref_act(ref, act_side_begin));
}

struct act ref_synchronize_end(struct ref *ref)
{
    return event_actor_ask(ref->who, ref_act(ref, act_side_end));
}

bool ref_is(struct ref *ref, bool complete)
{
    struct act a = ref_status(ref);

    return a.error == 0 && a.value == (complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                : ACL_EVENT_RECORDED_STATUS_NOT_READY);
}
