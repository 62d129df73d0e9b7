/*
 * Threads inside calls. aclFinalize may run beside any call of another thread, so the memory of a
 * session stays until all threads have left the calls in which they can have found it.
 *
 * Each thread has a mark. A public function stores the current epoch there before it looks for the
 * session, and 0 when it returns. aclFinalize takes the session out of process->session, begins a
 * new epoch and then reads all marks: a mark of an older epoch belongs to a thread that may use the
 * session. Each side stores before it loads, which takes a barrier on both sides: aclFinalize makes
 * it for all threads (membarrier(2)), so that a call pays two plain stores and no locked
 * instruction.
 */
#pragma once

/*
 * Marks functions of the library that call one of the program. clang's control-flow integrity
 * (-fsanitize=cfi-icall) knows the functions of the library alone.
 */
#ifdef __clang__
#define CALLS_PROGRAM __attribute__((no_sanitize("cfi-icall")))
#else
#define CALLS_PROGRAM
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/core/thread_mark.h"

struct api_call_mark {
    struct thread_mark mark;
    _Atomic uint64_t epoch; /* in which its thread began its call; 0: it is in none */
    _Atomic bool resting;   /* its thread sleeps, and uses no view of a segment */
    _Atomic bool no_events; /* it sleeps, and uses no event that it has found before */
    _Atomic(struct api_call_mark *) *door; /* its thread's, under process->door_lock; or NULL */
};

/**
 * The mark of the calling thread. Before the first call of the thread, a common mark that always
 * says "inside a call".
 */
extern __thread struct api_call_mark *api_call_mine;
extern _Atomic uint64_t api_call_epoch;

/**
 * The mark that a call of the thread tries to enter. It is the thread's own, unless calls are told
 * of (api_call_watch()): then it is the common one, so that each call takes the slow way, which
 * looks at the time. So it costs a call nothing that it might be told of. api_call_watch() stores
 * here for other threads.
 */
extern __thread _Atomic(struct api_call_mark *) api_call_door;

static inline struct api_call_mark *api_call_mark_at_door(void)
{
    return atomic_load_explicit(&api_call_door, memory_order_relaxed);
}

/**
 * The rest of api_call_enter(): for a thread that has no mark yet, or that is inside a call
 * already, or whose calls are told of. Returns what api_call_enter() returns.
 */
struct api_call_mark *api_call_enter_slow(void) __attribute__((cold));

/**
 * The rest of leaving a call for which api_call_enter() has returned NULL. function: as it is told
 * of; NULL: not at all. It is named here, and not by api_call_enter_slow(), where the arguments of
 * the function are in the registers that it would take: each call would save them.
 */
void api_call_leave_slow(const char *function) __attribute__((cold));

/** Enter with the own mark. False: the thread has none yet, or is inside a call already. */
static inline __attribute__((always_inline)) bool api_call_try(struct api_call_mark *mark)
{
    if (__builtin_expect(atomic_load_explicit(&mark->epoch, memory_order_relaxed) != 0, 0))
        return false;
    /* acquire: a call of the new epoch does not find the session that was taken away before it. */
    atomic_store_explicit(&mark->epoch, atomic_load_explicit(&api_call_epoch, memory_order_acquire),
                          memory_order_relaxed);
    /*
     * The processor may load the session before this store is seen, the compiler must not: see
     * above.
     */
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

/**
 * The mark to leave with; NULL when an outer call of this thread does that, or when the call is
 * told of.
 */
static inline __attribute__((always_inline)) struct api_call_mark *api_call_enter(void)
{
    struct api_call_mark *mark = api_call_mark_at_door();

    return __builtin_expect(api_call_try(mark), 1) ? mark : api_call_enter_slow();
}

/** After api_call_try() that succeeded. */
static inline __attribute__((always_inline)) void api_call_end(struct api_call_mark *mark)
{
    /* release: what the call did to the session comes before its memory goes. */
    atomic_store_explicit(&mark->epoch, 0, memory_order_release);
}

struct api_call_scope {
    struct api_call_mark *mark; /* of api_call_enter() */
    const char *function;
};

static inline __attribute__((always_inline)) void api_call_leave(const struct api_call_scope *scope)
{
    if (__builtin_expect(scope->mark != NULL, 1))
        api_call_end(scope->mark);
    else
        api_call_leave_slow(scope->function);
}

/**
 * Is the calling thread inside a call? Yes for one that has called nothing so far, or that has no
 * memory for a mark. Also in signal handlers.
 */
static inline bool api_call_inside(void)
{
    return atomic_load_explicit(&api_call_mine->epoch, memory_order_relaxed) != 0;
}

/** First line of each public function that may look for the session. */
#define CALL_SCOPE CALL_SCOPE_OF(__FUNCTION__)

/** The same where the function has another name than what the program has called. NULL: nothing. */
#define CALL_SCOPE_OF(name_)                                                                       \
    const struct api_call_scope call_scope                                                         \
        __attribute__((cleanup(api_call_leave), unused)) = {api_call_enter(), name_}

/** Inside a function with CALL_SCOPE: whether this thread is inside another call as well. */
#define CALL_IS_NESTED (!call_scope.mark && api_call_is_nested())
bool api_call_is_nested(void) __attribute__((cold));

/* Who is told of calls: which function, from when to when. */
enum api_call_watcher {
    API_CALL_PROFILE = 1, /* upcalls->profile_call() */
    API_CALL_TRACE = 2,   /* upcalls->trace_tell_call() */
};

/**
 * Calls that begin from now on are told to this watcher when they end, or are no more. Any thread;
 * calls beside this are told or not.
 */
void api_call_watch(enum api_call_watcher watcher, bool on);

/** Begin a new epoch, after a session was taken away. 0: the kernel cannot make the barrier. */
uint64_t api_call_new_epoch(void);

/** Whether all threads but the calling one have left the calls that they began before `epoch`. */
bool api_call_all_left(uint64_t epoch);

/**
 * Whether all threads, the calling one too, have left the calls that they began before `epoch`, or
 * sleep in them between api_call_rest() and api_call_resume().
 */
bool api_call_all_left_views(uint64_t epoch);

/*
 * Around a sleep. The thread forgets the views of segments (client/buffers/segment.h) that it has
 * found: afterwards it looks them up again. Else a thread that waits for a message for hours would
 * keep all that was retired meanwhile mapped.
 */
static inline void api_call_rest(void)
{
    /* release: what the thread did in a view comes before its memory goes. */
    atomic_store_explicit(&api_call_mine->resting, true, memory_order_release);
}

static inline void api_call_resume(void)
{
    atomic_store_explicit(&api_call_mine->resting, false, memory_order_relaxed);
    /* As in api_call_enter(): api_call_new_epoch() makes the barrier for the processor. */
    atomic_signal_fence(memory_order_seq_cst);
}

/**
 * Whether no thread but the calling one uses an event that it found before `epoch`: it has left its
 * call, or said that it uses none. Memory of destroyed events goes then.
 */
bool api_call_events_unused(uint64_t epoch);

/**
 * The calling thread begins or ends a sleep in a call that uses no event afterwards which it has
 * found before. Such a sleep may last for hours, and memory of destroyed events does not wait for
 * it.
 */
static inline void api_call_use_no_events(bool none)
{
    /*
     * release: its uses come before the memory goes. The shared mark of threads without one counts
     * as in use anyway.
     */
    atomic_store_explicit(&api_call_mine->no_events, none, memory_order_release);
}
