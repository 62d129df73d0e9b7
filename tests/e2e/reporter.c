#include "reporter.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/moment.h"

#define GUARD_S 300 /* against hanging only */

static void *process_reports(void *arg)
{
    struct reporter *r = arg;
    int result;

    do {
        result = aclrtProcessReport(r->timeout_ms);
        if (result == 0)
            atomic_fetch_add(&r->callbacks, 1);
        else if (result == ACL_ERROR_RT_THREAD_SUBSCRIBE)
            wait_a_moment();
        else if (result != ACL_ERROR_RT_REPORT_TIMEOUT)
            break;
    } while (result == 0 || !atomic_load(&r->stop));
    atomic_store(&r->result, result);
    atomic_store(&r->ended, true);
    return NULL;
}

void reporter_start(struct reporter *r, int32_t timeout_ms)
{
    memset(r, 0, sizeof(*r));
    r->timeout_ms = timeout_ms;
    ck_assert_int_eq(pthread_create(&r->thread, NULL, process_reports, r), 0);
}

void reporter_join(struct reporter *r)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec += GUARD_S;
    ck_assert_msg(pthread_timedjoin_np(r->thread, NULL, &ts) == 0, "the reporter hangs");
}

void reporter_stop(struct reporter *r)
{
    atomic_store(&r->stop, true);
    reporter_join(r);
}

void reporter_leave(struct reporter *r, aclrtStream stream)
{
    atomic_store(&r->stop, true);
    OK(aclrtUnSubscribeReport(reporter_id(r), stream));
    reporter_join(r);
}

void latch_open(struct latch *l)
{
    pthread_mutex_lock(&l->lock);
    l->open = true;
    pthread_cond_broadcast(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

void latch_wait(struct latch *l)
{
    struct timespec ts;
    int r = 0;

    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec += GUARD_S;
    pthread_mutex_lock(&l->lock);
    while (!l->open && r == 0)
        r = pthread_cond_timedwait(&l->cond, &l->lock, &ts);
    pthread_mutex_unlock(&l->lock);
    ck_assert_msg(r == 0, "nobody opened the latch");
}

bool latch_is_open(struct latch *l)
{
    bool open;

    pthread_mutex_lock(&l->lock);
    open = l->open;
    pthread_mutex_unlock(&l->lock);
    return open;
}

typedef bool row_fn(const Npud__WaitRow *row, const void *key);

static void await_row(row_fn *met, const void *key)
{
    uint64_t give_up = now_ns() + GUARD_S * UINT64_C(1000000000);
    bool found = false;

    while (!found) {
        Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);

        for (size_t i = 0; i < r->n_waits && !found; i++)
            found = r->waits[i]->pid == getpid() && met(r->waits[i], key);
        npud__report__free_unpacked(r, NULL);
        ck_assert_msg(now_ns() < give_up, "nobody waits like that");
    }
}

static bool is_in_call(const Npud__WaitRow *row, const void *call)
{
    return row->thread != 0 && strcmp(row->call, call) == 0;
}

void await_sleeper(const char *call)
{
    await_row(is_in_call, call);
}

static bool waits_for_callback(const Npud__WaitRow *row, const void *id)
{
    return row->stream == *(const int32_t *)id && strncmp(row->waits_for, "callback", 8) == 0;
}

void await_callback(aclrtStream stream)
{
    int32_t id;

    OK(aclrtStreamGetId(stream, &id));
    await_row(waits_for_callback, &id);
}
