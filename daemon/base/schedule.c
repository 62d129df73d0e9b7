#include "daemon/base/schedule.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "proto/util/clock.h"

/*
 * A long job ends its step after this time and what it has just begun, so that the step stays well
 * below its limit.
 */
#define SLICE (100 * NSEC_PER_USEC)
/* Of a pass, before the loop looks at its descriptors again. */
#define PASS (100 * NSEC_PER_USEC)
/* What a turn is worth: the time of a few requests. A step that was longer is paid with turns. */
#define TURN (20 * NSEC_PER_USEC)
/* Jobs that are taken from the inbox in one go. */
#define INBOX_JOBS 1024

/* --- lists --- */

static void list_job(struct job *job)
{
    struct job_owner *owner = job->owner;
    struct schedule_user *user = owner->user;

    if (!user->owners)
        DL_APPEND(user->schedule->users, user);
    if (!owner->jobs)
        DL_APPEND(user->owners, owner);
    DL_APPEND(owner->jobs, job);
    job->listed = true;
}

static void unlist_job(struct job *job)
{
    struct job_owner *owner = job->owner;
    struct schedule_user *user = owner->user;

    DL_DELETE(owner->jobs, job);
    job->listed = false;
    if (!owner->jobs)
        DL_DELETE(user->owners, owner);
    if (!user->owners)
        DL_DELETE(user->schedule->users, user);
}

void job_list(struct job *job)
{
    if (!job->listed)
        list_job(job);
}

void job_send(struct job *job)
{
    struct schedule *schedule = job->owner->user->schedule;
    bool first;

    pthread_mutex_lock(&schedule->lock);
    assert(!job->sent);
    first = !schedule->inbox;
    job->sent = true;
    DL_APPEND(schedule->inbox, job);
    pthread_mutex_unlock(&schedule->lock);
    if (first)
        eventfd_write(schedule->fd, 1);
}

/* Under the lock. */
static void take_from_inbox(struct schedule *schedule, struct job *job)
{
    DL_DELETE(schedule->inbox, job);
    job->sent = false;
}

bool job_cancel(struct job *job)
{
    struct schedule *schedule;
    bool found;

    if (job->listed) {
        unlist_job(job);
        return true;
    }
    if (!job->owner)
        return false;
    schedule = job->owner->user->schedule;
    pthread_mutex_lock(&schedule->lock);
    found = job->sent;
    if (found)
        take_from_inbox(schedule, job);
    pthread_mutex_unlock(&schedule->lock);
    return found;
}

/*
 * A job may be sent again as soon as it runs, not before: so it can be listed without the lock of
 * the inbox.
 */
static void on_sent(evutil_socket_t fd, short what, void *arg)
{
    struct schedule *schedule = arg;
    struct job *job;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    pthread_mutex_lock(&schedule->lock);
    for (unsigned i = 0; i < INBOX_JOBS && (job = schedule->inbox); i++) {
        take_from_inbox(schedule, job);
        list_job(job);
    }
    /* An inbox that is not empty is told of only once. */
    if (schedule->inbox)
        eventfd_write(fd, 1);
    pthread_mutex_unlock(&schedule->lock);
}

/* --- turns --- */

static bool has_others(const struct schedule *schedule)
{
    return schedule->users->next != NULL;
}

/* The first user has its turn, and is the last from then on. */
static struct schedule_user *take_user(struct schedule *schedule)
{
    struct schedule_user *user;

    for (;;) {
        user = schedule->users;
        if (has_others(schedule)) {
            DL_DELETE(schedule->users, user);
            DL_APPEND(schedule->users, user);
        }
        if (user->debt_ns <= TURN || !has_others(schedule))
            break;
        user->debt_ns -= TURN;
    }
    user->debt_ns = 0;
    return user;
}

static struct job *take_job(struct schedule_user *user)
{
    struct job_owner *owner = user->owners;
    struct job *job = owner->jobs;

    if (owner->next) {
        DL_DELETE(user->owners, owner);
        DL_APPEND(user->owners, owner);
    }
    unlist_job(job);
    return job;
}

static void run_step(struct schedule *schedule)
{
    struct schedule_user *user = take_user(schedule);
    struct job *job = take_job(user);
    struct step step = {.what = job->what, .uid = user->uid};
    uint64_t begun = schedule->meter.begun, took;

    schedule->running = user;
    schedule->detail = 0;
    schedule->session = 0;
    schedule->until = begun + SLICE;
    if (job->run(job))
        list_job(job);
    if (schedule->after_step)
        schedule->after_step();
    step.detail = schedule->detail;
    step.session = schedule->session;
    step_meter_end(&schedule->meter, clock_ns(), &step);
    took = schedule->meter.begun - begun;
    /* What other processes have run meanwhile counts as well: so there is a limit. */
    if (schedule->running && took > TURN)
        schedule->running->debt_ns = took < STEP_MAX_NS ? took : STEP_MAX_NS;
    schedule->running = NULL;
    schedule->until = 0;
}

void schedule_pass(struct schedule *schedule)
{
    uint64_t end;

    if (!schedule_busy(schedule))
        return;
    step_meter_begin(&schedule->meter, clock_ns());
    end = schedule->meter.begun + PASS;
    do
        run_step(schedule);
    while (schedule_busy(schedule) && schedule->meter.begun < end);
}

bool schedule_round(struct schedule *schedule, struct event_base *base, bool may_wait)
{
    /* Once in any case: else libevent goes on as long as a socket waits for its turn. */
    int how = EVLOOP_ONCE | (may_wait && !schedule_busy(schedule) ? 0 : EVLOOP_NONBLOCK);

    if (event_base_loop(base, how) < 0)
        return false;
    schedule_pass(schedule);
    return !event_base_got_break(base);
}

bool schedule_step_over(const struct schedule *schedule)
{
    return clock_ns() >= schedule->until;
}

void schedule_begin(struct schedule *schedule)
{
    step_meter_begin(&schedule->meter, clock_ns());
    schedule->until = schedule->meter.begun + SLICE;
}

void schedule_end(struct schedule *schedule, const char *what, uid_t uid)
{
    if (schedule->after_step)
        schedule->after_step();
    step_meter_end(&schedule->meter, clock_ns(), &(struct step){.what = what, .uid = uid});
    schedule->until = 0;
}

/* --- life --- */

void schedule_user_init(struct schedule_user *user, struct schedule *schedule, uid_t uid)
{
    *user = (struct schedule_user){
        .schedule = schedule, .uid = uid, .leftovers.user = user, .carried.user = user};
}

void schedule_user_deinit(struct schedule_user *user)
{
    assert(!user->owners);
    if (user->schedule && user->schedule->running == user)
        user->schedule->running = NULL;
}

int schedule_init(struct schedule *schedule, struct event_base *base)
{
    *schedule = (struct schedule){.fd = -1, .after_step = schedule->after_step};
    pthread_mutex_init(&schedule->lock, NULL);
    step_meter_init(&schedule->meter);
    step_meter_attach(&schedule->meter);
    schedule_user_init(&schedule->own_user, schedule, geteuid());
    schedule->own.user = &schedule->own_user;
    schedule->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (schedule->fd < 0)
        return -errno;
    schedule->on_sent = event_new(base, schedule->fd, EV_READ | EV_PERSIST, on_sent, schedule);
    if (!schedule->on_sent || event_add(schedule->on_sent, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void schedule_deinit(struct schedule *schedule)
{
    if (!schedule->own.user)
        return; /* schedule_init() was not called */
    if (schedule->on_sent)
        event_free(schedule->on_sent);
    if (schedule->fd >= 0)
        close(schedule->fd);
    step_meter_deinit(&schedule->meter);
    pthread_mutex_destroy(&schedule->lock);
}
