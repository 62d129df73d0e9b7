/*
 * The scheduler of the control thread. What may take time there is a job, and a job is done in
 * steps. Users take turns, then the owners of jobs (a session, the pool of one that has ended),
 * then the jobs of an owner: a user, or a session, gets no more for having many.
 *
 * A step has a time limit. A job that is longer keeps its position, and goes on in its next turn.
 * A turn is one step. If the step was long, the user pays for it: its next turns pass while other
 * users have something to do.
 *
 * A few steps are a pass; between two passes the loop looks at descriptors and timers. What these
 * bring is listed here, and not done there.
 */
#pragma once

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/step_meter.h"

/** The time limit of a step: jobs that are longer than it look at the clock. */
#define STEP_MAX_NS UINT64_C(500000)

struct job_owner;
struct schedule;

/** Something to do: a member of the object that it is about. */
struct job {
    /* One step. True: not done, to be continued. May free the object, and is then done. */
    bool (*run)(struct job *job);
    const char *what; /* a constant, for npuctl */
    struct job_owner *owner;
    bool listed;
    bool sent;               /* by job_send(), and not listed yet. Under schedule.lock */
    struct job *prev, *next; /* owner->jobs or schedule.inbox */
};

/** Jobs that take turns with those of other owners of the same user. All zero but for `user`. */
struct job_owner {
    struct schedule_user *user;
    struct job *jobs;              /* listed; the first has its turn next */
    struct job_owner *prev, *next; /* user->owners */
};

/** A user's part in the schedule. */
struct schedule_user {
    struct schedule *schedule;
    uid_t uid;
    uint64_t debt_ns;           /* turns of it pass, until this is paid */
    struct job_owner *owners;   /* that have jobs; the first has its turn next */
    struct job_owner leftovers; /* of all that its sessions have left: one turn for all of it */
    struct job_owner carried;   /* of messages that npud carries between its queues */
    struct schedule_user *prev, *next; /* schedule.users */
};

struct schedule {
    struct schedule_user *users;   /* that have jobs; the first has its turn next */
    struct schedule_user *running; /* the user of the step that runs; NULL: none, or it has gone */
    uint64_t until;                /* the time limit of the step that runs */
    uint32_t detail;               /* of this step, for npuctl; set by the step */
    uint64_t session;              /* the same: for which session it is; 0: none */
    struct step_meter meter;
    void (*after_step)(void);      /* what is done at the end of each step; NULL: nothing */
    struct schedule_user own_user; /* npud itself */
    struct job_owner own;

    pthread_mutex_t lock;
    struct job *inbox; /* sent by other threads */
    int fd;            /* eventfd: the inbox is not empty; -1 before schedule_init() */
    struct event *on_sent;
};

/** 0 or -errno. */
int schedule_init(struct schedule *schedule, struct event_base *base);
/** Safe after schedule_init() has failed, or was not called. Nothing is run any more. */
void schedule_deinit(struct schedule *schedule);

void schedule_user_init(struct schedule_user *user, struct schedule *schedule, uid_t uid);
/** It has no job any more. */
void schedule_user_deinit(struct schedule_user *user);

/** Have the job run when it is its turn. Nothing happens if it is listed already. */
void job_list(struct job *job);
/** Another thread: the same. Not while the job is sent or listed already. */
void job_send(struct job *job);
/**
 * Take the job back. False: it was neither listed nor sent. No other thread may be able to send it
 * any more. Safe on a job that is all zero.
 */
bool job_cancel(struct job *job);

/** Is there something to do? */
static inline bool schedule_busy(const struct schedule *schedule)
{
    return schedule->users != NULL;
}

/** Some steps of what is listed: for at most a fraction of a millisecond, and one step. */
void schedule_pass(struct schedule *schedule);

/**
 * One round of the loop: what descriptors and timers bring, and a pass. If there is nothing to do,
 * it waits, if it may. False: the loop was told to break.
 */
bool schedule_round(struct schedule *schedule, struct event_base *base, bool may_wait);

/** For jobs with more to do: is the time limit of this step over? */
bool schedule_step_over(const struct schedule *schedule);

/** The same for what can also be left to a job: outside of steps, as in tests, it is never late. */
static inline bool schedule_late(const struct schedule *schedule)
{
    return schedule->until != 0 && schedule_step_over(schedule);
}

/**
 * For what is done in a callback of the loop, because it cannot wait for its turn: its time is
 * measured as that of a step.
 */
void schedule_begin(struct schedule *schedule);
void schedule_end(struct schedule *schedule, const char *what, uid_t uid);
