#include "daemon/admin/blocked.h"

#include <stdio.h>
#include <string.h>

#include "daemon/admin/wait_graph.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/device.h"
#include "daemon/core/notify.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/core/ipc_event.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/inject.h"
#include "daemon/engine/task_row.h"

/*
 * The library's own thread is at it (client/callback/stream_work.c): no thread of the program is.
 */
static void blocked_on_work(const struct stream *s, struct blocked *b)
{
    const struct task *t = &s->live->task;

    b->on = ON_WORK;
    if (b->object == CALLBACK_WORD_KERNEL) {
        /* The word has the thread that waits for the next kernel, and any may run this one. */
        b->blocker_thread = 0;
        b->runs = false;
        return;
    }
    if (t->callback.work != STREAM_WORK_VALUE_WAIT)
        return;
    b->on = ON_HOST_VALUE;
    b->target = t->callback.address;
    b->value = t->callback.value;
    b->condition = (uint8_t)t->callback.condition;
    b->blocker_thread = 0;
}

static bool blocked_on_callback(const struct stream *s, struct blocked *b)
{
    struct callback_word *word = &s->session->page->callback_word[s->live->task.callback.word];

    b->on = ON_CALLBACK;
    b->object = s->live->task.callback.word;
    b->target = s->live->task.callback.ordinal;
    b->blocker_thread = atomic_load_explicit(&word->thread, memory_order_relaxed);
    b->runs = b->blocker_thread != 0 &&
              atomic_load_explicit(&word->runs, memory_order_relaxed) == b->blocker_thread;
    if (callback_word_is_work(b->object))
        blocked_on_work(s, b);
    return !execute_callback_done(s);
}

bool blocked_of_stream(const struct stream *s, struct blocked *b)
{
    static const enum wait_on on[] = {
        [WAITS_FOR_LEVEL] = ON_LEVEL,   [WAITS_FOR_POSITION] = ON_POSITION,
        [WAITS_FOR_RECORD] = ON_RECORD, [WAITS_FOR_NOTIFY] = ON_NOTIFY,
        [WAITS_FOR_VALUE] = ON_VALUE,
    };
    const struct inject_rule *rule = inject_holder(s->session->server->inject, s->waiting_on);
    const struct task *t = &s->live->task;
    const struct task_row *row = task_row(t->op);

    *b = (struct blocked){
        .stream = stream_id(s),
        .device = s->attach->device->index,
        .slot = s->slot.number,
        .since_ns = s->parked_since,
        .blocker_stream.id = -1,
    };
    if (stream_is_parked(s) && s->in_callback)
        return blocked_on_callback(s, b);
    if (s->run == RUN_STUCK) {
        b->on = ON_EXCEPTIONS;
        b->target = s->live->position;
        return true;
    }
    /* Without a list it waits for the clock; off the list it is about to go on. */
    if (!stream_is_parked(s) || !s->waiting_on || !waitlist_has(s->waiting_on, &s->waiter))
        return false;
    if (rule) {
        b->on = ON_RULE;
        b->target = rule->id;
        return true;
    }
    b->timed = task_word(t, row->timeout) != 0;
    b->on = on[row->waits_for];
    b->object = t->object;
    b->generation = t->generation;
    b->target = task_word(t, row->target);
    if (b->on == ON_VALUE) {
        b->value = t->value.value;
        b->condition = t->flags;
    }
    return true;
}

bool blocked_of_thread(struct session *session, uint32_t slot, struct blocked *b)
{
    static const enum wait_on on[] = {
        [WAIT_POSITION] = ON_POSITION,
        [WAIT_RECORD] = ON_RECORD,
        [WAIT_CALLBACK] = ON_CALLBACK_WORD,
        [WAIT_MESSAGE] = ON_MESSAGE,
        [WAIT_ROOM] = ON_ROOM,
        [WAIT_GRANT] = ON_GRANT,
    };
    struct wait_info info;
    uint32_t kind;

    if (!wait_slot_read(&session->page->waits[slot], &info))
        return false;
    kind = info.what & WAIT_KIND_MASK;
    if (kind == 0 || kind >= sizeof(on) / sizeof(on[0]))
        return false;
    *b = (struct blocked){
        .stream = -1,
        .slot = slot,
        .thread = info.thread,
        .since_ns = info.since_ns,
        .timed = info.what & WAIT_TIMED,
        .on = on[kind],
        .object = info.object,
        .target = info.target,
        .blocker_stream.id = -1,
    };
    memcpy(b->call, info.call, sizeof(b->call));
    return true;
}

bool blocked_is_idle(const struct blocked *b)
{
    return b->on == ON_CALLBACK_WORD && b->object >= CALLBACK_WORD_THREADS;
}

/* --- in words --- */

const char *blocked_kind(const struct blocked *b)
{
    static const char *const kinds[] = {
        [ON_POSITION] = "position", [ON_RECORD] = "record",        [ON_LEVEL] = "event",
        [ON_CALLBACK] = "callback", [ON_CALLBACK_WORD] = "report", [ON_RULE] = "rule",
        [ON_NOTIFY] = "notify",     [ON_VALUE] = "value",          [ON_MESSAGE] = "message",
        [ON_ROOM] = "room",         [ON_GRANT] = "grant",          [ON_EXCEPTIONS] = "exceptions",
        [ON_WORK] = "work",         [ON_HOST_VALUE] = "value",
    };

    return kinds[b->on];
}

uint64_t blocked_object(const struct blocked *b)
{
    struct session *session = b->process->session; /* NULL: it has gone */
    const struct ipc_open *open;
    const struct queue *queue;

    if (b->on == ON_RULE)
        return b->target;
    if (b->on == ON_RECORD) {
        open = session ? slots_get(&session->ipc, b->object) : NULL;
        return open ? open->event->id : 0;
    }
    if (b->on == ON_MESSAGE || b->on == ON_ROOM) {
        queue = session ? queue_by_number(session->server, b->object) : NULL;
        return queue ? queue->serial : 0;
    }
    return 0;
}

void blocked_name(const struct blocked *b, char *buf, size_t size)
{
    if (b->stream >= 0)
        snprintf(buf, size, "stream %d", (int)b->stream);
    else
        snprintf(buf, size, "thread %u in %s", b->thread, b->call);
}

void blocked_describe(const struct blocked *b, char *buf, size_t size)
{
    static const char *const conditions[] = {">=", "==", "to have a bit of",
                                             "to lack a bit beside"};
    struct session *session = b->process->session; /* NULL: it has gone */
    struct stream *s;
    struct ipc_open *open;
    struct notify_open *notify;
    struct queue *queue;

    switch (b->on) {
    case ON_POSITION:
        s = session ? slots_get(&session->streams, b->object) : NULL;
        snprintf(buf, size, "position %llu of stream %d", (unsigned long long)b->target,
                 s ? (int)stream_id(s) : -1);
        break;
    case ON_RECORD:
        open = session ? slots_get(&session->ipc, b->object) : NULL;
        snprintf(buf, size, "record %llu of IPC event %llu", (unsigned long long)b->target,
                 open ? (unsigned long long)open->event->id : 0);
        break;
    case ON_LEVEL:
        snprintf(buf, size, "a record of event %u", b->object);
        break;
    case ON_CALLBACK:
        snprintf(buf, size, "callback %llu to return", (unsigned long long)b->target);
        break;
    case ON_CALLBACK_WORD:
        snprintf(buf, size, "a callback to run");
        break;
    case ON_EXCEPTIONS:
        snprintf(buf, size, "its process to take exceptions");
        break;
    case ON_RULE:
        snprintf(buf, size, "rule %llu of npuctl inject", (unsigned long long)b->target);
        break;
    case ON_NOTIFY:
        notify = session ? slots_get(&session->notifies, b->object) : NULL;
        snprintf(buf, size, "%s %u of device %u",
                 notify && notify->notify->counts ? "count notify" : "notify",
                 notify ? notify->notify->id->number : 0,
                 notify ? notify->notify->device->index : 0);
        break;
    case ON_VALUE:
        snprintf(buf, size, "word %llu of allocation %u %s %llu",
                 (unsigned long long)b->target / sizeof(b->value), b->object,
                 conditions[b->condition & 3], (unsigned long long)b->value);
        break;
    case ON_WORK:
        snprintf(buf, size, "%s",
                 b->object == CALLBACK_WORD_KERNEL ? "its kernel to end"
                                                   : "npud-copy to execute its task");
        break;
    case ON_HOST_VALUE:
        snprintf(buf, size, "the word at 0x%llx of registered memory %s %llu",
                 (unsigned long long)b->target, conditions[b->condition & 3],
                 (unsigned long long)b->value);
        break;
    case ON_MESSAGE:
    case ON_ROOM:
        queue = session ? queue_by_number(session->server, b->object) : NULL;
        snprintf(buf, size, "%s queue %d", b->on == ON_ROOM ? "room in" : "a message in",
                 queue ? (int)queue->id : -1);
        break;
    case ON_GRANT:
        if (b->target != 0)
            snprintf(buf, size, "rights to queue %u of user %llu", b->object,
                     (unsigned long long)b->target - 1);
        else
            snprintf(buf, size, "rights to queue %u", b->object);
        break;
    }
}

static void describe_peers(const struct blocked *b, char *buf, size_t size)
{
    const char *what = b->on == ON_MESSAGE ? "enqueue" : b->on == ON_ROOM ? "dequeue" : "grant";

    if (b->blockers == 1)
        snprintf(buf, size, "process %d may %s", (int)b->blocker->pid, what);
    else
        snprintf(buf, size, "process %d or %u more may %s", (int)b->blocker->pid, b->blockers - 1,
                 what);
}

void blocked_describe_blocker(const struct blocked *b, char *buf, size_t size)
{
    if (b->on == ON_RULE)
        snprintf(buf, size, "npuctl inject clear %llu", (unsigned long long)b->target);
    else if (!b->blocker)
        snprintf(buf, size, "no process any more");
    else if (b->on == ON_MESSAGE || b->on == ON_ROOM || b->on == ON_GRANT)
        describe_peers(b, buf, size);
    else if (b->runs)
        snprintf(buf, size, "process %d, thread %u: it runs a callback", (int)b->blocker->pid,
                 b->blocker_thread);
    else if (b->blocker_thread != 0)
        snprintf(buf, size, "process %d, thread %u", (int)b->blocker->pid, b->blocker_thread);
    else if (b->on == ON_CALLBACK)
        snprintf(buf, size, "process %d: no thread has come for it yet", (int)b->blocker->pid);
    else if (b->on == ON_EXCEPTIONS)
        snprintf(buf, size, "process %d: its exception callback", (int)b->blocker->pid);
    else if (b->on == ON_WORK)
        snprintf(buf, size,
                 b->object == CALLBACK_WORD_KERNEL ? "process %d: its kernel"
                                                   : "process %d: its library's thread",
                 (int)b->blocker->pid);
    else if (b->on == ON_HOST_VALUE)
        snprintf(buf, size, "process %d: not written yet", (int)b->blocker->pid);
    else if (b->blocker_stream.id >= 0)
        snprintf(buf, size, "stream %d of process %d", (int)b->blocker_stream.id,
                 (int)b->blocker->pid);
    else
        snprintf(buf, size, "process %d: not submitted yet", (int)b->blocker->pid);
}

void blocked_advise(const struct blocked *b, char *buf, size_t size)
{
    int pid = b->blocker ? (int)b->blocker->pid : 0;

    buf[0] = '\0';
    if (b->on == ON_EXCEPTIONS && pid != 0)
        snprintf(buf, size,
                 "let the exception callback of process %d return, or find where it is: gdb -batch "
                 "-p %d -ex 'thread apply all bt'",
                 pid, pid);
    else if (b->on == ON_HOST_VALUE && pid != 0)
        snprintf(
            buf, size,
            "let process %d write the word, by a store, a copy or aclrtValueWrite; npud-copy, a "
            "thread of the library, looks at it",
            pid);
    else if (b->on == ON_WORK && pid != 0 && b->object == CALLBACK_WORD_KERNEL)
        snprintf(
            buf, size,
            "find where the kernel is that process %d runs: gdb -batch -p %d -ex 'thread apply "
            "all bt'; aclrtSetOpExecuteTimeOut ends kernels that run for too long",
            pid, pid);
    else if (b->on == ON_WORK && pid != 0)
        snprintf(buf, size,
                 "find where npud-copy is, the thread of the library in process %d: gdb -batch -p "
                 "%d -ex 'thread apply all bt'",
                 pid, pid);
    else if (b->on != ON_CALLBACK || pid == 0)
        return;
    else if (b->object >= CALLBACK_WORD_THREADS)
        snprintf(buf, size,
                 "find where the function is that process %d has launched: gdb -batch -p %d -ex "
                 "'thread apply all bt'",
                 pid, pid);
    else if (b->runs && b->member)
        return; /* the circle says where it waits */
    else if (b->runs)
        snprintf(
            buf, size,
            "find where the callback is that runs in thread %u of process %d: gdb -batch -p %d "
            "-ex 'thread apply all bt'",
            b->blocker_thread, pid, pid);
    else if (b->blocker_thread != 0)
        snprintf(buf, size, "call aclrtProcessReport in thread %u of process %d", b->blocker_thread,
                 pid);
    else
        snprintf(buf, size,
                 "call aclrtProcessReport in the thread of process %d that aclrtSubscribeReport "
                 "names for the stream",
                 pid);
}
