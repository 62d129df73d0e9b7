/*
 * What a stream has of callbacks, and of work of the library in its order. The room above owns it
 * (client/callback/callback.h, stream_work.h): runtime does not look inside.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/callback_shm.h"

struct callback;
struct callback_run;
struct stream;
struct stream_work;
struct worker;
struct aclmdlRIKernelTaskParams;
union aclrtLaunchKernelAttrValue;

/** Of a stream. */
struct callbacks {
    _Atomic(struct worker *) worker; /* NULL: none. May be read without the lock */
    struct stream *prev, *next;      /* worker->streams */
    /* The list of the worker that it is in, while it has callbacks that have not begun; or NULL */
    struct stream **list;
    struct stream *list_prev, *list_next;
    struct callback *first, **last;
    uint64_t launched; /* ordinal of the latest one */
    uint64_t dropped;  /* ordinal of the latest one that was dropped */
    uint64_t told;     /* up to here the library has told the worker by itself */
    uint64_t batch;    /* up to here they run in this turn of the worker */
    struct callback_run *running;
    uint64_t runs;     /* counts those that have returned; never goes back */
    uint64_t returned; /* ordinal up to which npud may know them as done, but for `work` */
    /* Work of the library, with ordinals of the same sequence: client/callback/stream_work.c */
    struct stream_work *work, **work_last; /* oldest first; the first one may run */
    bool work_runs;
    uint64_t stopped;                     /* up to this ordinal none begins any more */
    uint64_t work_ns;                     /* a kernel: since then (CLOCK_MONOTONIC) */
    struct stream **work_list;            /* that it is in: of session->works; NULL: none */
    struct stream *work_prev, *work_next; /* there */
};

/** Of a kernel. What it points to is the work's. */
struct work_description {
    const char *name; /* NULL: it is none */
    uint32_t blocks;
    const void *args;
    const void *device_args; /* from which args are read when it begins, or NULL */
    size_t size;             /* of args */
    void *function;          /* handle */
};

/** What a thread of the process runs when a graph gets there: client/callback/graph_calls.h. */
struct graph_call {
    void (*fn)(void *data); /* of the program; NULL: `work` */
    void *data;
    bool host;                /* of aclrtLaunchHostFunc */
    struct stream_work *work; /* a template */
};

/** Those of a graph, in its order. */
struct graph_calls {
    uint32_t refs; /* under process->callback_lock: the graph's, and one of each execution */
    uint32_t n, size;
    uint32_t n_functions, n_host, n_works, n_kernels; /* of which kinds; kernels are works */
    bool loops;          /* an execution may take more ordinals than there are calls */
    uint64_t model;      /* id of the graph */
    uint64_t executions; /* so far; under process->callback_lock */
    struct graph_call *call;
    uint32_t instances;          /* copies of works that run, or run again */
    struct stream_work *retired; /* replaced while there were some */
    uint32_t exchanges;          /* that streams have not come to yet */
};

/**
 * Work of the library in the order of a stream. The first member of what it belongs to. A kernel
 * may run for as long as it likes, and wait for what streams do: it has a thread of its own
 * (client/callback/kernel_lane.h). Other work waits for nothing that streams do, and shares one.
 */
struct stream_work {
    struct stream_work *next;
    enum stream_work_kind kind;
    int (*run)(struct stream_work *w); /* without locks */
    /*
     * Kernels: it runs, and shall end soon, with this code. Called again every now and then until
     * it has. Under process->callback_lock.
     */
    void (*end)(struct stream_work *w, int code);
    int code; /* kernels: what run() returns, or would if the kernel had not ended its thread */
    void (*free)(struct stream_work *w); /* NULL: free(). Without locks of the library */
    /* The word of 8 bytes that run() looks at, and may return STREAM_WORK_AGAIN; else NULL */
    const void *awaits;
    uint64_t value; /* it is to be as this condition wants it: told to npud, for reports */
    uint32_t condition;
    uint64_t ordinal;
    uint64_t position; /* of its task: npud has passed it when the stream has done so many */
    bool let_go;       /* by the abort of a device: begins anew when no abort is on its way */
    /* After STREAM_WORK_AGAIN: */
    uint64_t again_ns; /* when it runs again */
    uint64_t pause_ns; /* the last one */
    /*
     * For graphs: a new one that does the same on a stream, in its task of this id, as if it had
     * not run. NULL without memory. It may use w, which outlives it, and does not run beside it.
     * copy NULL: it cannot be recorded.
     */
    struct stream_work *(*copy)(const struct stream_work *w, const struct stream *s, uint32_t task);
    /* What it is, for reports; NULL: no kernel, and the two below are, too */
    void (*describe)(const struct stream_work *w, struct work_description *d);
    /* A new one for the same task of a graph: aclmdlRITaskSetParams(). NULL with *error set. */
    struct stream_work *(*change)(const struct stream_work *w, const char *function,
                                  const struct aclmdlRIKernelTaskParams *p, int *error);
    /* What the launch gave for this aclrtLaunchKernelAttrId. False: that is kept of none. */
    bool (*attribute)(const struct stream_work *w, unsigned id,
                      union aclrtLaunchKernelAttrValue *value);
    struct graph_works *graph; /* it stands for the work of an execution: client/callback */
    /* Of an execution of a graph: the id of that, which one, and which of its calls. Else 0. */
    uint64_t model, execution;
    uint32_t call;
};

/** What run() returns if the word is not as it shall be: it is called again after a while. */
#define STREAM_WORK_AGAIN (-1)
