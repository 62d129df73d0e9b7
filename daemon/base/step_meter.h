/*
 * Times the steps of one thread, and remembers two: npud promises that no step is long, whatever
 * clients do, and `npuctl status` shows how long the longest was, what it was and whose. The
 * longest is by CPU time. The other one is that in which the thread waited longest in the kernel:
 * for a lock or a page that another process has, which should not happen.
 *
 * The monotonic clock is read between steps. It counts also what other processes have run
 * meanwhile, so before a step is taken for the longest, it counts no more than the CPU time of the
 * thread. That clock costs six times as much: beside the steps that seem long, it is read a few
 * thousand times a second at most, and a step may be charged what ran since the last reading. What
 * is neither CPU time, nor time in which the thread was ready and had no CPU, is a wait. The latter
 * is in a file of /proc, which is read once a second at most: a step may be let off with what the
 * thread was ready since the last reading, and in a virtual machine it may be charged what the host
 * did meanwhile.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** One step of a thread. */
struct step {
    uint64_t ns;
    const char *what; /* a constant; NULL: there was none yet */
    uint32_t detail;  /* which one of these: for `what` to say */
    uid_t uid;        /* for which user it was done; npud's own uid: for npud itself */
    uint64_t session; /* and for which session; 0: none */
};

struct step_meter {
    uint64_t begun;     /* when the step that runs began */
    uint64_t read, cpu; /* when the CPU time was read last, and what it was */
    /* when it was read last for how long the thread was ready and had no CPU, and what it was */
    uint64_t ready_read, ready;
    int ready_fd;         /* the file of /proc with that; -1: there is none */
    uint64_t look_ns;     /* a step that takes no longer is not noted */
    pthread_mutex_t lock; /* of what follows */
    struct step longest;
    struct step waited; /* ns: in the kernel */
};

void step_meter_init(struct step_meter *meter);
/**
 * Of the thread that is timed, before its first step. It opens a file here and none later: between
 * steps, the last free descriptor of npud is a client's.
 */
void step_meter_attach(struct step_meter *meter);
void step_meter_deinit(struct step_meter *meter);

/** For step_meter_begin(): read the CPU time. */
void step_meter_read(struct step_meter *meter, uint64_t now);

/** The step seems long. It is noted if it is the longest by the CPU time, or has waited longest. */
void step_meter_judge(struct step_meter *meter, uint64_t now, const struct step *step);

/** How old a reading of the CPU time may be when a step begins. */
#define STEP_READING_MAX UINT64_C(200000)
/** Shorter waits are not noted: an interrupt, or a page that is not there yet. */
#define STEP_WAIT_MIN UINT64_C(2000000)

/** A step begins. now: clock_ns() */
static inline void step_meter_begin(struct step_meter *meter, uint64_t now)
{
    meter->begun = now;
    if (__builtin_expect(now - meter->read > STEP_READING_MAX, 0))
        step_meter_read(meter, now);
}

/** Did the step take so long, by the monotonic clock, that it is to be judged? */
static inline bool step_meter_seems_long(const struct step_meter *meter, uint64_t now)
{
    return __builtin_expect(now - meter->begun > meter->look_ns, 0);
}

/** The step has ended, and the next one begins. step->ns: does not count */
static inline void step_meter_end(struct step_meter *meter, uint64_t now, const struct step *step)
{
    if (step_meter_seems_long(meter, now))
        step_meter_judge(meter, now, step);
    step_meter_begin(meter, now);
}

/** The longest step so far. Any thread. */
void step_meter_longest(struct step_meter *meter, struct step *step);
/** The one in which the thread has waited longest in the kernel; ns is for how long. Any thread. */
void step_meter_waited(struct step_meter *meter, struct step *step);
