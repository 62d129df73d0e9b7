/*
 * Profiling (include/acl/acl_prof.h): what is collected between aclprofStart and aclprofStop, or by
 * the configuration of aclInit.
 *
 * Times of tasks come from the streams themselves. Behind each task of a stream that is profiled,
 * the library puts one that has npud's engine store the time in its own entry of the ring
 * (TASK_NOP_TIME), and another one before a task that finds the stream with nothing to do. The
 * library reads these times when the next task comes, and when collection stops, and writes them
 * into files. No thread, no request: a stream that is profiled is one whose `special` says so,
 * which submissions look at anyway.
 *
 * Kernels of graphs are host code, and tell their times by themselves: to the files, or to the pipe
 * of a program that has subscribed to the graph (subscribe.c). Calls of the interface are told by
 * client/core/api_call.c.
 *
 * Locks: profile_lock for starting and stopping; a stream's lock for what is pending of it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_prof.h"
#include "client/core/npud_clock.h"
#include "client/profile/profile_file.h"
#include "client/runtime/stream.h"
#include "proto/shm/doorbell.h"

struct stream;
struct task;

/** What is collected at this moment. Relaxed loads: a call beside a start or a stop sees either. */
struct collecting {
    _Atomic uint32_t devices; /* bit d: times of tasks of npud's device d */
    _Atomic uint32_t stamps;  /* not 0: the program's stamps; each start has another number */
    _Atomic uint32_t models;  /* how many are subscribed to */
};
extern struct collecting collecting;

/** The files: those that collecting names are begun as long as it does. */
struct profile_files {
    struct profile_file host;
    struct profile_file device[DEVICES_MAX];
};
extern struct profile_files profile_files;

/** The number of the start whose stamps are collected; 0: none are. */
static inline uint32_t profile_stamps(void)
{
    return atomic_load_explicit(&collecting.stamps, memory_order_acquire);
}

/** Times in events are microseconds: PROFILE_TIME with PROFILE_US(ns). */
#define PROFILE_TIME   "%llu.%03u"
#define PROFILE_US(ns) (unsigned long long)((ns) / 1000), (unsigned)((ns) % 1000)

/* --- stream_times.c --- */

/** Described in client/core/upcall.h, through which runtime calls them. */
void profile_stream_made(struct stream *s);
void profile_stream_ends(struct stream *s);
void profile_task_begins(struct stream *s, const struct task *task);
void profile_task_put(struct stream *s);

/** Its session is freed: what is pending of it is, too. No thread uses the stream any more. */
void profile_stream_forget(struct stream *s);

/**
 * The streams of all collected devices are profiled from now on; or none is any more. wait: for
 * threads that have a stream locked, until they are done; else such a stream is left as it is.
 */
void profile_streams_begin(void);
void profile_streams_end(bool wait);

/**
 * The next task that is put into the stream has this name in the profile, in place of that of its
 * op: for kernels. name NULL: that of its op after all. The stream is locked. Nothing if it is not
 * profiled.
 */
void profile_name_next_slow(struct stream *s, const char *name) __attribute__((cold));
static inline void profile_name_next(struct stream *s, const char *name)
{
    if (__builtin_expect(s->special & STREAM_PROFILED, 0))
        profile_name_next_slow(s, name);
}

/** A point in the order of a stream, that is told when the stream gets there. */
enum profile_point {
    POINT_MARK,       /* with text */
    POINT_STEP_BEGIN, /* of a step with a number */
    POINT_STEP_END,
};

/**
 * Put one into the stream that handle names. 0, also if the stream is not profiled, or as
 * stream_reserve(). text: as a string of JSON, or NULL.
 */
int profile_put_point(const char *function, aclrtStream handle, enum profile_point kind,
                      uint64_t number, const char *text);

/** A kernel of an execution of a graph, that has ended. */
struct profile_operator {
    uint64_t model; /* id of the graph */
    uint32_t call;  /* which of the graph's calls it is */
    uint32_t device;
    int32_t stream; /* id */
    const char *name;
    uint64_t begin_ns; /* npud's clock */
};

/** Its event, in the file of its device. Without locks. */
void profile_put_operator(const struct profile_operator *o, uint64_t end_ns);

/* --- profile_outside.c --- */

/** Described in client/core/upcall.h. */
int profile_configure(const char *text);
void profile_unconfigure(void);

/* --- subscribe.c --- */

/**
 * A kernel begins, of the graph with this id (0: of none): the time, or 0: nothing is told of it.
 * The loads are relaxed: its execution was submitted after the subscription, or the start.
 */
static inline uint64_t profile_operator_begins(uint64_t model, uint32_t device)
{
    if (__builtin_expect(model == 0, 1))
        return 0;
    if (atomic_load_explicit(&collecting.models, memory_order_relaxed) == 0 &&
        !(atomic_load_explicit(&collecting.devices, memory_order_relaxed) >> device & 1))
        return 0;
    return npud_clock_ns();
}

/** It ends now: a record for its subscription, or an event of the profile. Without locks. */
void profile_operator_ran(const struct profile_operator *o) __attribute__((cold));

/** Is any model subscribed to? With the lock of sessions held, none is from then on. */
bool profile_has_subscriptions(void);

/* --- profile.c --- */

/** Described in client/core/upcall.h. */
void profile_call(const char *function, uint64_t begin_ns, uint64_t end_ns);

/** 0: no session is there, and none begins until profile_unlock(). Or 148047 or 100042. */
int profile_lock_without_session(const char *function);
void profile_unlock(void);

/** The settings of aclprofSetConfig that have an effect here. */
struct profile_settings {
    uint64_t limit; /* bytes of a file; 0: none */
};

/** Of the files of the session. */
void profile_set_limit(uint64_t bytes);

/**
 * Begin what the configuration of aclInit asks for: all devices. 0, or an ACL error with its
 * sentence.
 */
int profile_begin_outside(const char *path, uint64_t data, const struct profile_settings *set);

/* --- stamp.c --- */

/** A forked child: no stamps, ranges or names. */
void profile_stamps_forget(void);
