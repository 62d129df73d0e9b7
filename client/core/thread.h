/* What the library knows of a thread. Freed when the thread ends. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_call_mark;
struct check_writer;
struct context;
struct error_saved;
struct hold;
struct mbuf_cache;
struct recent;
struct profile_pushes;
struct ring_guard;
struct stream;
struct timed_calls;
struct trace_ranges;

#define THREAD_TASK_RECORDED (1ull << 32)

struct thread {
    /* Current context: valid while that session is current and the object carries this tag. */
    uint64_t session; /* serial */
    struct context *context;
    uint32_t context_tag;
    int32_t last_error;
    uint32_t tid;
    uint64_t last_task; /* its id; or THREAD_TASK_RECORDED and its node in last_model */
    void *last_model;   /* handle of the graph that has recorded it */
    /* Whose limits on cores are in force here: valid like the context (limits.c). */
    uint64_t res_session;
    struct stream *res_stream;
    uint32_t res_tag;
    bool in_callback;
    uint8_t capture_mode; /* aclmdlRICaptureThreadExchangeMode() */
    bool in_kernel;       /* runs a block of a kernel: context_refuse_kernel() */
    /*
     * Sleeps, of calls that are inside of each other, after which an event is used
     * (api_call_use_no_events()).
     */
    uint32_t keep_events;
    /* While calls are traced: the bytes that the call has moved, and enum trace_way. */
    uint8_t moved_way;
    uint64_t moved;
    struct { /* calls in a row that the ring does not have yet: client/core/trace_writer.c */
        const char *function; /* NULL: the thread's last event was none of such a call */
        uint32_t trace;       /* which was told of it */
        uint64_t begin_ns, end_ns, times;
    } run;
    uint32_t worker; /* where it was found among the workers (callback.h): where to look first */
    struct ring_guard *guard;        /* NULL: it has used no queue */
    struct api_call_mark *mark;      /* NULL: it has called nothing */
    struct timed_calls *timed_calls; /* client/core/api_call.c; NULL: none was told of */
    uint32_t call_depth; /* calls that it is in for which api_call_enter() has returned NULL */
    struct profile_pushes *pushes; /* client/profile/stamp.c; NULL: it is in no range */
    struct trace_ranges *ranges;   /* client/runtime/trace_range.c; NULL: it has begun none */
    struct mbuf_cache *buffers;    /* slots that it keeps; NULL: none */
    struct recent *recent;         /* client/memory/recent.h; NULL: nothing */
    struct hold *hold;             /* client/memory/hold.h; NULL: it has copied nothing */
    struct check_writer *check;    /* client/check; NULL: it has written nothing */
    struct {
        /* an error_render_fn; NULL: none */
        void (*render)(char *text, size_t size, const char *function, uint32_t a, uint32_t b);
        int code;
        const char *function;
        uint32_t a, b;
    } deferred; /* a sentence that is not put into words yet: error_defer() */
    /* Sentences for aclGetRecentErrMsg(), newest first, on the heap. */
    char *errors;
    char *shown;               /* what the last call of this thread returned */
    struct error_saved *saved; /* where its errors go: error_save(); NULL: to the program */
};

extern __thread struct thread *thread_current;
struct thread *thread_new(void) __attribute__((cold));

/** The calling thread's state. Never NULL: without memory for it, a shared dummy that forgets
 * nothing important. */
static inline struct thread *thread_self(void)
{
    struct thread *t = thread_current;

    return __builtin_expect(t != NULL, 1) ? t : thread_new();
}

struct ring_guard *thread_new_guard(void) __attribute__((cold));

/** The calling thread's guard of rings. NULL: no memory. */
static inline struct ring_guard *thread_guard(void)
{
    struct ring_guard *guard = thread_self()->guard;

    return __builtin_expect(guard != NULL, 1) ? guard : thread_new_guard();
}

/**
 * Start a thread of the library, with the program's signals blocked: they are for its own threads.
 * stack: bytes, 0 is the default. 0, or an error number.
 */
int thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg, const char *name,
                 size_t stack);
