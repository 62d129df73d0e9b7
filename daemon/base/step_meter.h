/*
 * Times the steps of one thread, and remembers the longest: npud promises that no step is long,
 * whatever clients do, and `npuctl status` shows how long the longest was, what it was and whose.
 *
 * The monotonic clock is read between steps. It counts also what other processes have run
 * meanwhile, so before a step is taken for the longest, it counts no more than the CPU time of the
 * thread. That clock costs six times as much: beside the steps that seem long, it is read a few
 * thousand times a second at most, and a step may be charged what ran since the last reading.
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
};

struct step_meter {
    uint64_t begun;       /* when the step that runs began */
    uint64_t read, cpu;   /* when the CPU time was read last, and what it was */
    uint64_t longest_ns;  /* longest.ns, for the thread itself */
    pthread_mutex_t lock; /* of longest */
    struct step longest;
};

void step_meter_init(struct step_meter *meter);
void step_meter_deinit(struct step_meter *meter);

/** For step_meter_begin(): read the CPU time. */
void step_meter_read(struct step_meter *meter, uint64_t now);

/** The step seems the longest. If it is by the CPU time as well, it is noted. */
void step_meter_judge(struct step_meter *meter, uint64_t now, const char *what, uint32_t detail,
                      uid_t uid);

/** How old a reading of the CPU time may be when a step begins. */
#define STEP_READING_MAX UINT64_C(200000)

/** A step begins. now: clock_ns() */
static inline void step_meter_begin(struct step_meter *meter, uint64_t now)
{
    meter->begun = now;
    if (__builtin_expect(now - meter->read > STEP_READING_MAX, 0))
        step_meter_read(meter, now);
}

/** Did the step take longer than any before it, by the monotonic clock? */
static inline bool step_meter_seems_longest(const struct step_meter *meter, uint64_t now)
{
    return __builtin_expect(now - meter->begun > meter->longest_ns, 0);
}

/** The step has ended, and the next one begins. */
static inline void step_meter_end(struct step_meter *meter, uint64_t now, const char *what,
                                  uint32_t detail, uid_t uid)
{
    if (step_meter_seems_longest(meter, now))
        step_meter_judge(meter, now, what, detail, uid);
    step_meter_begin(meter, now);
}

/** The longest step so far. Any thread. */
void step_meter_longest(struct step_meter *meter, struct step *step);
