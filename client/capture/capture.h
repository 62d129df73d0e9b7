/*
 * Capture: streams that record what they are given, in place of executing it (docs/graphs.md). What
 * is recorded, and which streams and events belong to it, is the library's alone.
 *
 * All of it is guarded by session->captures.lock, which is taken inside a stream's and an event's
 * lock. A stream that records has STREAM_CAPTURES in `special`, under its own lock; the end of a
 * capture leaves the bit as it is, and the next submission clears it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/runtime/point.h"
#include "client/runtime/session.h"
#include "proto/shm/task.h"
#include "proto/util/slots.h"

struct check_access;
struct context;
struct graph_calls;
struct stream_work;
struct graph_list;
struct stream;

enum graph_phase {
    GRAPH_CAPTURES, /* its streams record */
    GRAPH_BUILDS,   /* by hand */
    GRAPH_READY,    /* it can be executed */
    GRAPH_BROKEN,   /* it was discarded, or an update has failed */
};

/** What stands in a graph, for reports: its type, as programs are told, and more. */
enum graph_node_kind {
    NODE_TASK, /* any other */
    NODE_KERNEL,
    NODE_RECORD,
    NODE_WAIT,
    NODE_RESET,
    NODE_VALUE_WRITE,
    NODE_VALUE_WAIT,
    NODE_COND,         /* a condition with nested graphs */
    NODE_START,        /* another stream of a model built by hand */
    NODE_LABEL,        /* a place */
    NODE_SWITCH_LABEL, /* to one of several of them */
};

#define NODE_NO_TASK UINT32_MAX

/** One call that was recorded. */
struct graph_node {
    struct task task; /* if has_task */
    bool has_task;    /* else it is an edge between streams of the graph: nothing is executed */
    bool disabled;
    bool changed;    /* since the list was written */
    uint8_t kind;    /* enum graph_node_kind */
    uint8_t flag;    /* of the record or wait */
    uint32_t branch; /* of graph->branches */
    uint32_t at;     /* in the list; NODE_NO_TASK: nowhere */
    uint32_t group;  /* task group, from 1; 0: none */
    uint32_t call;   /* of TASK_CALLBACK: which of the calls of the whole graph */
    void *event;     /* handle, of records, waits and resets */
    void *address;   /* of the word, of value writes and waits */
    const char *function;
    char *info; /* aclrtCacheLastTaskExtendInfo(); NULL: none */
    struct stream_work
        *changed_work;             /* kernels: what it is from the next update on; NULL: as it is */
    struct graph_check *checks;    /* what a checked process writes down of it, but for `task` */
    struct graph_cond *cond;       /* NODE_COND */
    struct label_list *label_list; /* NODE_LABEL, NODE_SWITCH_LABEL */
    uint32_t other; /* branch that starts; index of the label there; or how many there are */
};

/** What a checked process writes down at each execution: an access. */
struct graph_check {
    struct graph_check *next;
    size_t size;
    struct check_access *record; /* behind this */
};

/** A stream of a graph. */
struct graph_branch {
    struct stream *stream;
    void *handle;
    int32_t id;
    uint64_t last_record; /* the last that was recorded is this record; 0: something else */
    bool joined;          /* another stream of the graph has waited for it */
    bool waits;           /* by hand: until another stream starts it */
};

/** The latest record of an event in a capture. */
struct graph_event {
    void *handle;
    uint32_t branch;
    uint64_t record; /* which of the capture's, from 1 */
};

/** A stream that replaces the tasks of a group. */
struct group_update {
    struct graph_group *group;
    uint32_t n, size; /* launches so far, and in the group */
    struct stream_work *works[];
};

/** A model, as the API calls it. */
struct graph {
    uint32_t refs; /* the handle, and each call that uses it */
    struct session *session;
    struct context *context;
    uint32_t device;
    void *handle; /* NULL: it has none any more */
    uint64_t id;  /* of all graphs and captures of the session: none is given out twice */
    char *name;   /* NULL: none */

    enum graph_phase phase;
    bool captured;    /* not built by hand */
    bool invalidated; /* what is recorded from here on is refused */
    bool ended;       /* by hand: aclmdlRIEndTask() was called */
    uint8_t mode;     /* aclmdlRICaptureMode */
    pid_t owner;      /* thread that has begun the capture */
    struct stream *origin;
    struct graph *prev, *next; /* session->captures.list, while it captures */

    struct graph_node *nodes;
    uint32_t n_nodes, nodes_size;
    struct graph_check *checks; /* of the node that is recorded next */
    struct graph_branch *branches;
    uint32_t n_branches;
    struct graph_event *events;
    uint32_t n_events;
    uint64_t records;

    struct graph_calls *calls; /* what threads of the process run; NULL: nothing */
    struct graph_list *list;   /* what npud reads; NULL: there is no task in it */
    struct point last;         /* behind its latest execution */
    uint64_t executions;       /* of checked processes: each is an edge to the next */
    uint32_t last_remote;      /* npud's slot of that stream */
    void *last_stream;         /* its handle */
    uint32_t n_tasks;          /* in the list */
    bool notifies;             /* it records some */
    bool externals;            /* it records events that are not edges */

    struct graph *parent;          /* of a nested one; else NULL */
    struct graph_cond *conds;      /* its condition handles */
    struct graph_group *groups;    /* its task groups */
    uint32_t n_groups, open_group; /* the latter is being recorded, from 1; 0: none is */
    struct stream *group_stream;   /* on which */
    int group_error;               /* of what was refused meanwhile; 0: nothing was */
    struct farewell *farewells;    /* client/graph/farewell.h */
};

/* --- what runtime, callback, event and memory ask --- */

/** May this be submitted? Locked: the stream records, or did. 0: yes; or 507903. */
int capture_check(struct stream *s, const char *function) __attribute__((cold));

/** The same for the launch of a kernel, also in a task group. */
int capture_check_kernel(struct stream *s, const char *function) __attribute__((cold));

/** The stream is in an update window: w, a kernel, replaces the next task of its group. */
int capture_update(struct stream *s, const char *function, struct stream_work *w)
    __attribute__((cold));

/** Record the task. False: the stream records no more, and the task goes to its ring. Locked. */
bool capture_task(struct stream *s, const struct task *task) __attribute__((cold));

/** Does the stream record? Locked. */
bool capture_has(struct stream *s) __attribute__((cold));

/** 107027 if the stream records, with its sentence. Any thread. */
int capture_refuse_stream(const struct stream *s, const char *function) __attribute__((cold));
/** The same for any stream of the device. */
int capture_refuse_device(struct session *s, uint32_t device, const char *function)
    __attribute__((cold));

/** 107028 if `capture`, of an event, is one that is under way. */
int capture_refuse_event(struct session *s, uint64_t capture, const char *function)
    __attribute__((cold));

/** 107030, or `code`, if a capture forbids calls that may block. c: the current context. */
int capture_refuse_blocking(const struct context *c, const char *function, int code)
    __attribute__((cold));

/** 0, or 107030 with its sentence. c: the current context. */
static inline int capture_check_blocking(const struct context *c, const char *function)
{
    return capture_runs(c->session)
               ? capture_refuse_blocking(c, function, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)
               : 0;
}

/** A task of this kind has no recorded form: 207000. */
int capture_error_kind(const char *function, const char *what) __attribute__((cold));

/**
 * Record an event of aclrtCreateEventExWithFlag on a stream that records. *capture, of the event,
 * becomes that of the graph. The stream is locked. 0, or an ACL error.
 */
int capture_record_event(struct stream *s, const char *function, void *event,
                         _Atomic uint64_t *capture);

/**
 * A stream waits for such an event: an edge of the graph, and the stream joins it if it has not
 * yet. -1: neither the stream nor the event is of a capture.
 */
int capture_wait_event(struct stream *s, const char *function, void *event,
                       const _Atomic uint64_t *capture);

/** The default stream records an event of a capture: 107031; else 0. */
int capture_check_default(struct stream *s, const char *function, const _Atomic uint64_t *capture);

/** What the node just recorded by this thread on s is. */
void capture_name_node(struct stream *s, enum graph_node_kind kind, void *event, uint32_t flag);

/**
 * A checked process: the access of what is recorded next is written down at each execution. False:
 * the stream does not record.
 */
bool capture_keep_record(const struct stream *s, const struct check_access *record, size_t size)
    __attribute__((cold));

/** Append a copy to a list, or nothing without memory; and free such a list. */
void graph_check_add(struct graph_check **list, const struct check_access *record, size_t size)
    __attribute__((cold));
void graph_checks_free(struct graph_check *list);

/** The node just recorded by this thread on s is of the word at this address. */
void capture_note_word(struct stream *s, void *address);

/** Is the event used in the capture by a flag (node->flag)? */
bool capture_uses(struct stream *s, const void *event);

/** Record a call of a function of the program, or of the library (work, which it then owns). */
struct graph_call;
int capture_call(struct stream *s, const char *function, const struct graph_call *call,
                 const struct task *task);

/* --- for client/graph --- */

void captures_lock(struct session *s);
void captures_unlock(struct session *s);

/** The graph that handle names, with a reference, or NULL. */
struct graph *graph_get(struct session *s, void *handle);
void graph_put(struct graph *g);

/** A new graph, with a handle. NULL: no memory, or too many. */
struct graph *graph_new(struct context *c);
/** Its handle is dead from now on, and its reference the caller's. Under the lock. */
void graph_unpublish(struct graph *g);

/** A node at the end, or NULL: no memory, or too many; the graph is broken then. Under the lock. */
struct graph_node *graph_add(struct graph *g, uint32_t branch);

/** The branch of a stream; made if it has none. UINT32_MAX: no memory. Under the lock. */
uint32_t graph_branch_of(struct graph *g, struct stream *s);

/** Begin, under the lock: s is of the capture from now on. False: no memory. */
bool capture_begin(struct graph *g, struct stream *s);
/** s records for the graph from now on, which may be built by hand. False: no memory. */
bool capture_join(struct graph *g, struct stream *s);
/** No stream records for it any more. Under the lock. */
void capture_leave(struct graph *g);

/** Captures of the context are discarded. */
void capture_end_context(struct context *c);
/** Slot i of the graphs: false behind the last; *g: NULL if it has none. Under the lock. */
bool graph_at(struct session *s, uint32_t i, struct graph **g);

/** A graph of the context, whose handle is dead and whose reference the caller's; NULL: none. */
struct graph *graph_take_of(struct context *c);
