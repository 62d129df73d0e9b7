/*
 * usage: raw_death: a process records an event of CUDA's behind half a second of work and is
 * killed. Does the one that waits for the event ever hear of it? Looked at for five seconds. And
 * how long the dead one takes to be gone.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/gpu/raw/raw.h"

#define WORK_NS  (500 * NSEC_PER_MSEC)
#define PATIENCE (5 * NSEC_PER_SEC)

struct shared {
    _Atomic uint64_t recorded, waiting, woken;
    struct cuda_ipc_event handle;
    int result;
    bool was_pending;
};

struct waiter {
    struct shared *shared;
    struct raw raw;
    cuda_event event;
};

static int record(void *arg)
{
    struct shared *shared = arg;
    struct raw raw;
    cuda_event event;

    raw_begin(&raw);
    MUST(raw.more.cuEventCreate(&event, CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING |
                                            CUDA_EVENT_BLOCKING_SYNC));
    MUST(raw.more.cuIpcGetEventHandle(&shared->handle, event));
    atomic_store(&shared->recorded, 1);
    raw_await(&shared->waiting, 1); /* has opened it */
    raw_spin(&raw, WORK_NS);
    MUST(raw.more.cuEventRecord(event, raw.stream));
    atomic_store(&shared->recorded, 2);
    raw_await(&shared->recorded, 3);
    return 0;
}

static void *await(void *arg)
{
    struct waiter *w = arg;

    MUST(w->raw.cu.cuCtxSetCurrent(w->raw.context));
    atomic_store(&w->shared->waiting, 2);
    w->shared->result = w->raw.more.cuEventSynchronize(w->event);
    atomic_store(&w->shared->woken, 1);
    return NULL;
}

static int open_and_wait(void *arg)
{
    struct waiter *w = calloc(1, sizeof(*w));
    pthread_t thread;

    if (!w)
        return 1;
    w->shared = arg;
    raw_begin(&w->raw);
    raw_await(&w->shared->recorded, 1);
    MUST(w->raw.more.cuIpcOpenEventHandle(&w->event, w->shared->handle));
    atomic_store(&w->shared->waiting, 1);
    raw_await(&w->shared->recorded, 2);
    w->shared->was_pending = w->raw.more.cuEventQuery(w->event) == CUDA_NOT_READY;
    if (pthread_create(&thread, NULL, await, w) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}

/* Until the waiter is about to sleep: 0, or what to exit with if it has exited before. */
static int await_waiter(struct shared *shared, pid_t waiter)
{
    int status;

    while (atomic_load(&shared->waiting) < 2) {
        siginfo_t info = {.si_pid = 0};

        if (waitid(P_PID, (id_t)waiter, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0) {
            status = raw_reap(waiter);
            return status == RAW_NO_GPU ? RAW_NO_GPU : 1;
        }
        clock_sleep_until(clock_ns() + NSEC_PER_MSEC);
    }
    return 0;
}

int main(void)
{
    struct shared *shared = raw_share(sizeof(*shared));
    pid_t recorder = raw_fork(record, shared), waiter = raw_fork(open_and_wait, shared);
    int status = await_waiter(shared, waiter);
    uint64_t killed, gone;

    if (status != 0)
        return status;
    killed = clock_ns();
    kill(recorder, SIGKILL);
    raw_reap(recorder);
    gone = clock_ns();
    while (atomic_load(&shared->woken) == 0 && clock_ns() < gone + PATIENCE)
        clock_sleep_until(clock_ns() + 10 * NSEC_PER_MSEC);
    printf(
        "{\"row\": \"recorder killed\", \"was_pending\": %s, \"waiter\": \"%s\", \"result\": %d, "
        "\"gone_after_ms\": %.0f}\n",
        shared->was_pending ? "true" : "false",
        atomic_load(&shared->woken) ? "woken" : "asleep after 5 s", shared->result,
        (double)(gone - killed) / 1e6);
    kill(waiter, SIGKILL);
    raw_reap(waiter);
    return 0;
}
