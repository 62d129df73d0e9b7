/* An observer: it waits for what the victim blocks, and goes on working when the victim is dead. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/effort.h"
#include "tests/kill/kill_case.h"

/* What an instrumented build takes longer is not npud's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROMISED_MS 10000
#else
#define PROMISED_MS 100
#endif

static aclrtStream idle, gated, notified;
static aclrtEvent gate;
static aclrtNotify notify;

struct waiter {
    aclError (*synchronize)(void *object);
    void *object;
    pthread_t thread;
    int result;
    uint64_t ns;
    char sentence[256];
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;

    OK(aclrtSetDevice(0));
    w->result = w->synchronize(w->object);
    w->ns = now_ns();
    snprintf(w->sentence, sizeof(w->sentence), "%s", aclGetRecentErrMsg());
    return NULL;
}

static void expect_remote_error(int result, const char *sentence)
{
    char pid[32];

    ck_assert_msg(result == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "result %d: %s", result, sentence);
    snprintf(pid, sizeof(pid), "process %d,", (int)shared->victim);
    ck_assert_msg(strstr(sentence, pid) != NULL, "the sentence does not name %s %s", pid, sentence);
}

/* A stream and a thread for each of BASE and EVENT, from before the death until they are woken. */
static void waiters_start(struct waiter *w)
{
    aclrtStream s;

    for (int i = 0; i < 2; i++) {
        OK(aclrtCreateStream(&s));
        OK(aclrtStreamWaitEvent(s, events[i]));
        w[2 * i] = (struct waiter){.synchronize = aclrtSynchronizeStream, .object = s};
        w[2 * i + 1] = (struct waiter){.synchronize = aclrtSynchronizeEvent, .object = events[i]};
    }
    for (int i = 0; i < WAITERS; i++)
        ck_assert_int_eq(pthread_create(&w[i].thread, NULL, wait_for_it, &w[i]), 0);
}

/* Time that npud or this process would have used, had it had a CPU. */
static uint64_t starved_ns(void)
{
    return cpu_wait_ns(npud.pid) + cpu_wait_ns(getpid());
}

static void check_in_time(const struct waiter *w, uint64_t starved)
{
    uint64_t death = atomic_load(&shared->death_ns);
    uint64_t took = w->ns > death + starved ? w->ns - death - starved : 0;

    ck_assert_msg(took <= promised_ns(PROMISED_MS), "woken %llu us after the death",
                  (unsigned long long)took / 1000);
    if (took > atomic_load(&shared->slowest_ns))
        atomic_store(&shared->slowest_ns, took);
}

static void waiters_check(struct waiter *w, uint64_t starved_before)
{
    uint64_t starved;

    for (int i = 0; i < WAITERS; i++)
        pthread_join(w[i].thread, NULL);
    starved = starved_ns() - starved_before;
    for (int i = 0; i < WAITERS; i++) {
        expect_remote_error(w[i].result, w[i].sentence);
        check_in_time(&w[i], starved);
    }
}

static aclrtEventRecordedStatus status_of(aclrtEvent event)
{
    aclrtEventRecordedStatus status;

    OK(aclrtQueryEventStatus(event, &status));
    return status;
}

/* Nothing of the victim's was executed, unless its role was to execute. */
static void check_statuses(const struct role *role)
{
    aclrtEventRecordedStatus status;
    int r = aclrtQueryEventStatus(events[BASE], &status);

    expect_remote_error(r, aclGetRecentErrMsg());
    r = aclrtQueryEventStatus(events[EVENT], &status);
    if (r != 0)
        expect_remote_error(r, aclGetRecentErrMsg());
    else
        ck_assert(role->completes && status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

/* The first observer owes FOREIGN to the victim. */
static void set_up_gate(const struct kill_case *c)
{
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtCreateStream(&gated));
    OK(aclrtStreamWaitEvent(gated, gate));
    event_make(FOREIGN);
    OK(aclrtRecordEvent(events[FOREIGN], gated));
    if (!c->victim_creates)
        event_make(EVENT);
    if (c->role->notifies) {
        OK(aclrtCreateNotify(&notify, 0));
        OK(aclrtNotifyGetExportKey(notify, shared->export_key, sizeof(shared->export_key),
                                   ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
        OK(aclrtCreateStream(&notified));
        OK(aclrtWaitAndResetNotify(notify, notified, 0));
    }
}

/*
 * The wait from before the death has got the victim's record, or failed with it, or it goes on with
 * this one, if the victim had not come to import the notify. After that the bit is as good as new:
 * whatever else the victim had queued does not come.
 */
static void go_on_notifying(void)
{
    aclError r;

    OK(aclrtRecordNotify(notify, idle));
    r = aclrtSynchronizeStreamWithTimeout(notified, 30000);
    if (r != 0)
        expect_remote_error(r, aclGetRecentErrMsg());
    for (int i = 0; i < 2; i++) {
        OK(aclrtRecordNotify(notify, idle));
        OK(aclrtWaitAndResetNotify(notify, notified, 0));
        OK(aclrtSynchronizeStreamWithTimeout(notified, 30000));
    }
}

/* The death of its waiter has not changed FOREIGN; and the event under test works as before. */
static void go_on(void)
{
    ck_assert_int_eq(status_of(events[FOREIGN]), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtRecordEvent(gate, idle));
    OK(aclrtSynchronizeEvent(events[FOREIGN]));
    ck_assert_int_eq(status_of(events[FOREIGN]), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    if (!events[EVENT])
        return;
    OK(aclnpudLaunchDelay(1, 0, idle));
    OK(aclrtRecordEvent(events[EVENT], idle));
    OK(aclrtSynchronizeEvent(events[EVENT]));
}

int observer_main(int fd, void *arg)
{
    const struct kill_case *c = arg;
    struct waiter w[WAITERS];
    uint64_t starved = 0;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&idle));
    if (c->observer == 0) {
        set_up_gate(c);
        step_done(fd);
    }
    step_await(fd);
    if (!c->role->alone) {
        event_open(BASE);
        if (!events[EVENT])
            event_open(EVENT);
        starved = starved_ns();
        waiters_start(w);
    }
    step_await(fd);
    if (!c->role->alone) {
        waiters_check(w, starved);
        check_statuses(c->role);
    }
    step_done(fd);
    step_await(fd);
    if (c->role->notifies && c->observer == 0)
        go_on_notifying();
    if (c->observer == 0)
        go_on();
    else if (events[EVENT])
        ck_assert_int_eq(status_of(events[EVENT]), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    step_done(fd);
    return 0;
}
