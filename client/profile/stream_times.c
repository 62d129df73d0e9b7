/* Times of the tasks of streams: stamps around them, and what is read of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/npud_clock.h"
#include "client/profile/profile.h"
#include "client/runtime/context.h"

#define NAME_MAX_BYTES 128

/** What stands at a position of the ring. */
struct pending {
    enum { PENDING_OTHER, PENDING_TASK, PENDING_STAMP, PENDING_POINT } kind;
    uint8_t op;
    enum profile_point point;
    uint32_t task_id;
    uint64_t ns;     /* when it was submitted */
    uint64_t number; /* of a task: its bytes */
    char *text;      /* as a string of JSON; NULL: none */
};

struct stream_profile {
    struct profile_file *file;
    uint64_t next;       /* position whose time is read next */
    uint64_t last_ns;    /* of the stamp before that; 0: not known */
    struct pending task; /* that waits for the stamp behind it */
    bool has_task;
    char *name; /* of the task that comes; NULL: that of its op */
    struct pending at[];
};

static const char *const op_names[TASK_OPS] = {
    [TASK_NOP] = "nop",
    [TASK_RECORD] = "event record",
    [TASK_RESET] = "event reset",
    [TASK_WAIT_LEVEL] = "event wait",
    [TASK_WAIT_POS] = "event wait",
    [TASK_IPC_RECORD] = "IPC event record",
    [TASK_IPC_WAIT] = "IPC event wait",
    [TASK_COPY] = "copy",
    [TASK_SET] = "set",
    [TASK_DELAY] = "delay",
    [TASK_CALLBACK] = "callback",
    [TASK_NOTIFY_RECORD] = "notify record",
    [TASK_NOTIFY_WAIT] = "notify wait",
    [TASK_COUNT_RECORD] = "count notify record",
    [TASK_COUNT_WAIT] = "count notify wait",
    [TASK_VALUE_WRITE] = "value write",
    [TASK_VALUE_WAIT] = "value wait",
    [TASK_REDUCE] = "reduce",
    [TASK_GRAPH] = "model",
    [TASK_LAUNCH] = "kernel",
};

static const char *op_name(uint8_t op)
{
    return op < TASK_OPS && op_names[op] ? op_names[op] : "task";
}

static uint64_t bytes_of(const struct task *task)
{
    switch (task->op) {
    case TASK_COPY:
        return task->copy.size;
    case TASK_SET:
        return task->set.size;
    case TASK_REDUCE:
        return task->reduce.size;
    default:
        return 0;
    }
}

/* --- what was done --- */

static void put_task_event(struct stream *s, const struct pending *task, uint64_t begin,
                           uint64_t end)
{
    char quoted[PROFILE_QUOTED(32)];
    const char *name = task->text ? task->text : profile_quote(quoted, op_name(task->op));

    profile_file_put(s->profile->file,
                     "\"tid\":%d,\"ph\":\"X\",\"cat\":\"task\",\"name\":%s,\"ts\":" PROFILE_TIME
                     ",\"dur\":" PROFILE_TIME ",\"args\":{\"task\":%u,\"bytes\":%llu}",
                     s->id, name, PROFILE_US(begin), PROFILE_US(end - begin), task->task_id,
                     (unsigned long long)task->number);
}

static void put_point_event(struct stream *s, const struct pending *point, uint64_t ns)
{
    if (point->point == POINT_MARK)
        profile_file_put(s->profile->file,
                         "\"tid\":%d,\"ph\":\"i\",\"s\":\"t\",\"cat\":\"mark\",\"name\":%s,"
                         "\"ts\":" PROFILE_TIME,
                         s->id, point->text ? point->text : "\"\"", PROFILE_US(ns));
    else
        profile_file_put(s->profile->file,
                         "\"tid\":%d,\"ph\":\"%s\",\"cat\":\"step\",\"id\":%llu,"
                         "\"name\":\"step %llu\",\"ts\":" PROFILE_TIME,
                         s->id, point->point == POINT_STEP_BEGIN ? "b" : "e",
                         (unsigned long long)point->number, (unsigned long long)point->number,
                         PROFILE_US(ns));
}

void profile_put_operator(const struct profile_operator *o, uint64_t end_ns)
{
    char part[NAME_MAX_BYTES + 1], quoted[PROFILE_QUOTED(sizeof(part))];

    snprintf(part, sizeof(part), "%s", o->name);
    profile_file_put(&profile_files.device[o->device],
                     "\"tid\":%d,\"ph\":\"X\",\"cat\":\"operator\",\"name\":%s,"
                     "\"ts\":" PROFILE_TIME ",\"dur\":" PROFILE_TIME
                     ",\"args\":{\"model\":%llu,\"operator\":%u}",
                     o->stream, profile_quote(quoted, part), PROFILE_US(o->begin_ns),
                     PROFILE_US(end_ns - o->begin_ns), (unsigned long long)o->model, o->call);
}

/* The task is over, at ns; 0: it was discarded, and so was its stamp. */
static void end_task(struct stream *s, uint64_t ns)
{
    struct stream_profile *p = s->profile;
    /* A stream that had nothing to do had a stamp before it: that is later than its submission. */
    uint64_t begin = p->last_ns > p->task.ns ? p->last_ns : p->task.ns;

    if (p->has_task && ns != 0)
        put_task_event(s, &p->task, begin < ns ? begin : ns, ns);
    free(p->task.text);
    p->task.text = NULL;
    p->has_task = false;
}

static void read_one(struct stream *s, struct pending *what)
{
    struct stream_profile *p = s->profile;
    struct task *entry = &s->ring[p->next & (s->depth - 1)];
    uint64_t ns = 0;

    switch (what->kind) {
    case PENDING_TASK:
        end_task(s, 0); /* there is none: each has a stamp behind it */
        p->task = *what;
        p->has_task = true;
        what->text = NULL;
        break;
    case PENDING_STAMP:
    case PENDING_POINT:
        ns = atomic_load_explicit(&entry->stamp.ns, memory_order_relaxed);
        end_task(s, ns);
        if (ns != 0 && what->kind == PENDING_POINT)
            put_point_event(s, what, ns);
        p->last_ns = ns;
        break;
    case PENDING_OTHER:
        break;
    }
    free(what->text);
    *what = (struct pending){.kind = PENDING_OTHER};
}

/*
 * Locked. An entry is written again only when `done` has passed it, and before that this was
 * called: no time is missed.
 */
static void read_times(struct stream *s)
{
    struct stream_profile *p = s->profile;
    /* acquire: the times were stored before. */
    uint64_t done = atomic_load_explicit(&s->ctrl->done, memory_order_acquire);

    for (; p->next < done && p->next < s->tail; p->next++)
        read_one(s, &p->at[p->next & (s->depth - 1)]);
}

/* --- what is submitted --- */

static struct pending *pending_at_tail(struct stream *s)
{
    return &s->profile->at[s->tail & (s->depth - 1)];
}

static void put_stamp(struct stream *s)
{
    *pending_at_tail(s) = (struct pending){.kind = PENDING_STAMP};
    stream_put_stamp(s);
}

/*
 * No stamp may come before it: a callback that the library tells its thread of may begin before an
 * engine hears of it, and the id of a kernel's task, or the place of an execution with calls, is
 * noted before it is submitted.
 */
static bool is_noted(const struct task *task)
{
    return task->op == TASK_CALLBACK || (task->op == TASK_GRAPH && task->graph.calls > 0);
}

void profile_task_begins(struct stream *s, const struct task *task)
{
    struct stream_profile *p = s->profile;

    read_times(s);
    if (!is_noted(task) && atomic_load_explicit(&s->ctrl->done, memory_order_relaxed) == s->tail)
        put_stamp(s);
    *pending_at_tail(s) = (struct pending){
        .kind = PENDING_TASK,
        .op = task->op,
        .task_id = (uint32_t)s->tail + s->implicit,
        .ns = npud_clock_ns(),
        .number = bytes_of(task),
        .text = p->name,
    };
    p->name = NULL;
}

void profile_task_put(struct stream *s)
{
    put_stamp(s);
}

void profile_name_next_slow(struct stream *s, const char *name)
{
    char part[NAME_MAX_BYTES + 1];
    char *quoted = name ? malloc(PROFILE_QUOTED(sizeof(part))) : NULL;

    free(s->profile->name);
    s->profile->name = quoted;
    if (!quoted)
        return;
    strncpy(part, name, NAME_MAX_BYTES);
    part[NAME_MAX_BYTES] = '\0';
    profile_quote(quoted, part);
}

static int put_point_locked(struct stream *s, const char *function, struct pending *what,
                            const char *text)
{
    RETURN_IF_ERROR(stream_reserve(s, function));
    if (text && !(what->text = strdup(text)))
        return error_no_memory(function);
    read_times(s);
    *pending_at_tail(s) = *what;
    stream_put_stamp(s);
    return 0;
}

int profile_put_point(const char *function, aclrtStream handle, enum profile_point kind,
                      uint64_t number, const char *text)
{
    struct pending what = {.kind = PENDING_POINT, .point = kind, .number = number};
    int error;
    struct stream *s = stream_lock(function, handle, &error);

    if (!s)
        return error;
    if (s->special & STREAM_PROFILED)
        error = put_point_locked(s, function, &what, text);
    stream_unlock(s);
    return error;
}

/* --- which streams --- */

/* Locked, or no thread has it yet. Without memory it is not profiled. */
static void begin_stream(struct stream *s)
{
    struct stream_profile *p;

    if (s->profile || s->context->hidden)
        return;
    p = calloc(1, sizeof(*p) + s->depth * sizeof(p->at[0]));
    if (!p)
        return;
    p->file = &profile_files.device[s->device];
    p->next = s->tail;
    s->profile = p;
    s->room = s->depth - STREAM_STAMPS;
    s->special |= STREAM_PROFILED;
    profile_file_put(p->file,
                     "\"tid\":%d,\"ph\":\"M\",\"name\":\"thread_name\","
                     "\"args\":{\"name\":\"%sstream %d\"}",
                     s->id, s->is_default ? "default " : "", s->id);
}

void profile_stream_forget(struct stream *s)
{
    struct stream_profile *p = s->profile;

    s->profile = NULL;
    if (!p)
        return;
    for (uint32_t i = 0; i < s->depth; i++)
        free(p->at[i].text);
    free(p->task.text);
    free(p->name);
    free(p);
}

/* Locked. */
static void end_stream(struct stream *s)
{
    if (!s->profile)
        return;
    read_times(s);
    s->special &= (uint8_t)~STREAM_PROFILED;
    s->room = s->depth;
    profile_stream_forget(s);
}

static bool is_collected(uint32_t device)
{
    return device < DEVICES_MAX &&
           (atomic_load_explicit(&collecting.devices, memory_order_acquire) >> device & 1);
}

void profile_stream_made(struct stream *s)
{
    if (__builtin_expect(is_collected(s->device), 0))
        begin_stream(s);
}

void profile_stream_ends(struct stream *s)
{
    biased_lock_take(&s->lock);
    end_stream(s);
    biased_lock_give(&s->lock);
}

/*
 * Each under its lock, which comes before session->lock: so one after the other. wait: see
 * profile_streams_end().
 */
static void for_each_stream(void (*change)(struct stream *s), bool wait)
{
    static const struct timespec past = {0};
    struct session *session = session_peek();
    uint32_t cursor = 0, tag = 0;
    struct stream *s;

    while (session) {
        pthread_mutex_lock(&session->lock);
        s = stream_next(session, &cursor);
        if (s)
            tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
        pthread_mutex_unlock(&session->lock);
        if (!s)
            return;
        if (wait)
            biased_lock_take(&s->lock);
        else if (!biased_lock_take_until(&s->lock, &past))
            continue;
        if (stream_is(s, tag))
            change(s);
        biased_lock_give(&s->lock);
    }
}

/* Not one that a thread destroys: profile_stream_ends() may have been called already. */
static void begin_if_collected(struct stream *s)
{
    if (is_collected(s->device) && slot_live(s))
        begin_stream(s);
}

void profile_streams_begin(void)
{
    for_each_stream(begin_if_collected, true);
}

void profile_streams_end(bool wait)
{
    for_each_stream(end_stream, wait);
}
