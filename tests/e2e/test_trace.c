/*
 * The trace: what npud and its clients write down of what they do, and what hostile ones write.
 *
 * Skipped under chaos: the test itself kills npud, and counts how often it came back.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "proto/shm/trace_ring.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"
#include "tests/common/raw.h"

static aclrtStream stream, other;

static void set_up_test(void)
{
    npud_setup();
    npuctl_says("trace start", 0, "");
}

/* --- what is told --- */

static Npud__Report *read_trace(void)
{
    return npud_report(NPUD__ADMIN_REQUEST__TOPIC__TRACE);
}

static bool is_kind(const Npud__TraceRow *row, const char *kind, const char *task)
{
    return strcmp(row->kind, kind) == 0 && (!task || strcmp(row->task, task) == 0);
}

static size_t count_rows(const Npud__Report *r, const char *kind, const char *task)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_trace; i++)
        n += is_kind(r->trace[i], kind, task);
    return n;
}

static const Npud__TraceRow *find_row(const Npud__Report *r, const char *kind, const char *task)
{
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], kind, task))
            return r->trace[i];
    ck_abort_msg("no event of kind %s, task %s", kind, task ? task : "any");
}

/* All events of all rings are there, or counted as lost. */
static void expect_whole(const Npud__Report *r)
{
    uint64_t events = 0, lost = 0, rows = 0;

    for (size_t i = 0; i < r->n_trace; i++) {
        if (!is_kind(r->trace[i], "ring", NULL)) {
            rows++;
            continue;
        }
        events += r->trace[i]->events;
        lost += r->trace[i]->lost;
    }
    ck_assert_uint_ge(events, lost + rows);
}

START_TEST(starts_and_stops_once)
{
    Npud__Report *r;

    npuctl_says("trace start", 1, "trace: one runs already");
    npuctl_says("trace stop", 0, "");
    npuctl_says("trace stop", 1, "trace: none runs");
    npuctl_says("trace", 2, "trace wants start, stop, dump, stream or stats");
    npuctl_says("trace begin", 2, "trace wants start, stop, dump, stream or stats, not \"begin\"");
    npuctl_says("trace dump 3", 2, "unexpected argument");
    npuctl_says("status --html", 2, "--html goes with trace dump");
    streams_open(&stream, &other);
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "task", NULL), 0);
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

/* Records on idle streams are none of npud's business when no trace runs. */
START_TEST(what_would_be_complete_at_the_call_is_seen)
{
    Npud__Report *r;
    const Npud__TraceRow *row;
    aclrtEvent event;

    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(stream, event));
    OK(aclrtSynchronizeStream(stream));
    r = read_trace();
    row = find_row(r, "task", "record");
    ck_assert_uint_eq(row->session, npud_session_of(getpid()));
    ck_assert_uint_ge(row->end_ns, row->begin_ns);
    ck_assert_int_eq(row->code, 0);
    ck_assert_uint_eq(count_rows(r, "submitted", "record"), 1);
    ck_assert_uint_eq(find_row(r, "submitted", "record")->position, row->position);
    ck_assert_uint_eq(find_row(r, "submitted", "record")->slot, row->slot);
    ck_assert_uint_eq(count_rows(r, "task", "wait"), 1);
    ck_assert_uint_eq(count_rows(r, "connected", NULL), 1);
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

START_TEST(failures_have_their_code)
{
    Npud__Report *r;

    streams_open(&stream, &other);
    npuctl_says("inject fail --kind=delay --nth=2 --code=507011", 0, "");
    OK(aclnpudLaunchDelay(0, 507015, stream));
    OK(aclnpudLaunchDelay(0, 0, stream));
    FAILS(507011, aclrtSynchronizeStream(stream));
    r = read_trace();
    ck_assert_int_eq(find_row(r, "task", "delay")->code, 507015);
    ck_assert_int_eq(find_row(r, "fault", "delay")->code, 507011);
    ck_assert_uint_eq(find_row(r, "fault", "delay")->position,
                      find_row(r, "task", "delay")->position + 1);
    npud__report__free_unpacked(r, NULL);
    npuctl_says("inject clear", 0, "");
    session_close();
}
END_TEST

/* --- when --- */

#define INTERRUPTED 3000

/*
 * An engine that looks for work all the time. To stop it is what a busy machine does to it: between
 * any two instructions, and for as long as it likes.
 */
static void set_up_awake(void)
{
    static const char *const args[] = {"--set=engine.spin_us=1000000", NULL};

    npud_start(args);
    npuctl_says("trace start", 0, "");
}

static void submit_to_stopped(uint64_t *before)
{
    pid_t pid = npud_server_pid();

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    while (!proc_sleeps(pid))
        wait_a_moment();
    *before = now_ns();
    OK(aclnpudLaunchDelay(0, 0, stream));
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    OK(aclrtSynchronizeStream(stream));
}

START_TEST(no_task_begins_before_it_was_submitted)
{
    uint64_t before[INTERRUPTED], end = 0;
    Npud__Report *r;
    size_t n = 0;

    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclnpudTraceMark("npud gives the ring, which it could not while it is stopped"));
    for (unsigned i = 0; i < INTERRUPTED; i++)
        submit_to_stopped(&before[i]);
    r = read_trace();
    for (size_t i = 0; i < r->n_trace; i++) {
        const Npud__TraceRow *row = r->trace[i];

        if (!is_kind(row, "task", "delay"))
            continue;
        ck_assert_uint_lt(n, INTERRUPTED);
        ck_assert_uint_ge(row->begin_ns, before[n++]);
        ck_assert_uint_ge(row->begin_ns, end);
        end = row->end_ns;
        ck_assert_uint_ge(end, row->begin_ns);
    }
    ck_assert_uint_eq(n, INTERRUPTED);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

/* --- who lets whom go on --- */

static aclrtIpcEventHandle *handle;

/* Waits for the event of its parent, which records when it sees this one wait. */
static int wait_for_parent(void *arg)
{
    aclrtEvent event;

    (void)arg;
    turn_await(&to_child);
    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclrtIpcOpenEventHandle(*handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    turn_tell(&to_parent);
    OK(aclrtSynchronizeStream(stream));
    session_close();
    return 0;
}

/* The order of two streams is that of their processes: the record is held until the other waits. */
static Npud__Report *trace_release(pid_t *child)
{
    aclrtEvent event, gate;

    handle = child_share(sizeof(*handle));
    turns_init();
    *child = child_start(wait_for_parent, NULL);
    streams_open(&stream, &other);
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, handle));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(({
                   Npud__Report *r = read_trace();
                   size_t parked = count_rows(r, "parked", "IPC wait");

                   npud__report__free_unpacked(r, NULL);
                   parked > 0;
               }),
               "the child does not wait");
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    return read_trace();
}

START_TEST(a_release_names_both_ends)
{
    pid_t child;
    Npud__Report *r = trace_release(&child);
    const Npud__TraceRow *record = find_row(r, "task", "IPC record");
    const Npud__TraceRow *release = find_row(r, "release", "IPC wait");
    const Npud__TraceRow *parked = find_row(r, "parked", "IPC wait");

    ck_assert_uint_eq(release->from_session, npud_session_of(getpid()));
    ck_assert_uint_eq(release->from_slot, record->slot);
    ck_assert_uint_eq(release->from_position, record->position);
    ck_assert_uint_eq(release->session, parked->session);
    ck_assert_uint_ne(release->session, release->from_session);
    ck_assert_uint_eq(release->slot, parked->slot);
    ck_assert_uint_eq(release->position, parked->position);
    ck_assert_uint_ge(release->begin_ns, parked->begin_ns);
    npud__report__free_unpacked(r, NULL);
    child_expect_ok(child);
    session_close();
}
END_TEST

/* A wait for a plain event waits for a position, which is published some tasks later. */
START_TEST(a_release_by_position_names_the_record)
{
    Npud__Report *r;
    const Npud__TraceRow *release, *record;
    aclrtEvent event, gate;

    streams_open(&stream, &other);
    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    for (unsigned i = 0; i < 10; i++)
        OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtStreamWaitEvent(other, event));
    EVENTUALLY(({
                   Npud__Report *p = read_trace();
                   size_t parked = count_rows(p, "parked", "wait");

                   npud__report__free_unpacked(p, NULL);
                   parked > 1;
               }),
               "the other stream does not wait");
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream));
    r = read_trace();
    for (size_t i = 0; i < r->n_trace; i++) {
        release = r->trace[i];
        if (!is_kind(release, "release", NULL))
            continue;
        record = NULL;
        for (size_t k = 0; k < r->n_trace; k++)
            if (is_kind(r->trace[k], "task", "record") &&
                r->trace[k]->position == release->from_position &&
                r->trace[k]->slot == release->from_slot)
                record = r->trace[k];
        ck_assert_msg(record, "released by no record: slot %u, position %" PRIu64,
                      release->from_slot, release->from_position);
    }
    ck_assert_uint_ge(count_rows(r, "release", NULL), 2);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

/* --- queues --- */

static int take_buffers(void *arg)
{
    const uint32_t *qid = arg;
    acltdtBuf buffer;
    uint32_t rights;

    turn_await(&to_child);
    session_open();
    OK(acltdtAttachQueue(*qid, 10000, &rights));
    for (unsigned i = 0; i < 3; i++) {
        OK(acltdtDequeue(*qid, &buffer, 10000));
        OK(acltdtFreeBuf(buffer));
    }
    session_close();
    return 0;
}

START_TEST(hand_overs_name_queue_and_buffer)
{
    uint32_t *qid = child_share(sizeof(*qid));
    pid_t child;
    Npud__Report *r;
    const Npud__TraceRow *put[3], *take[3];
    unsigned n_put = 0, n_take = 0;

    turns_init();
    child = child_start(take_buffers, qid);
    session_open();
    OK(acltdtCreateQueue(NULL, qid));
    OK(acltdtGrantQueue(*qid, child, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 10000));
    turn_tell(&to_child);
    for (unsigned i = 0; i < 3; i++) {
        acltdtBuf buffer;

        OK(acltdtAllocBuf(64, 0, &buffer));
        OK(acltdtEnqueue(*qid, buffer, 10000));
    }
    child_expect_ok(child);
    r = read_trace();
    for (size_t i = 0; i < r->n_trace; i++) {
        if (is_kind(r->trace[i], "enqueue", NULL) && n_put < 3)
            put[n_put++] = r->trace[i];
        if (is_kind(r->trace[i], "dequeue", NULL) && n_take < 3)
            take[n_take++] = r->trace[i];
    }
    ck_assert_uint_eq(n_put, 3);
    ck_assert_uint_eq(n_take, 3);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(put[i]->queue, take[i]->queue);
        ck_assert_uint_eq(put[i]->buffer, take[i]->buffer);
        ck_assert_uint_ne(put[i]->session, take[i]->session);
        ck_assert_uint_ge(take[i]->end_ns, put[i]->begin_ns);
    }
    npud__report__free_unpacked(r, NULL);
    OK(acltdtDestroyQueue(*qid));
    session_close();
}
END_TEST

static void bind_route(uint32_t source, uint32_t destination)
{
    acltdtQueueRoute *route = acltdtCreateQueueRoute(source, destination);
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();

    OK(acltdtAddQueueRoute(list, route));
    OK(acltdtBindQueueRoutes(list));
    OK(acltdtDestroyQueueRouteList(list));
    OK(acltdtDestroyQueueRoute(route));
}

/* A hand-over of npud's, or of a process, at this ring; 0: at any. */
static const Npud__TraceRow *find_handover(const Npud__Report *r, const char *kind, bool by_npud,
                                           uint64_t queue)
{
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], kind, NULL) && (r->trace[i]->session == 0) == by_npud &&
            (queue == 0 || r->trace[i]->queue == queue))
            return r->trace[i];
    ck_abort_msg("no %s by %s at queue %" PRIu64, kind, by_npud ? "npud" : "a process", queue);
}

/* A message with two destinations: npud has taken it once, and put it twice. */
START_TEST(routes_hand_over)
{
    uint32_t source, to[2];
    acltdtBuf buffer;
    Npud__Report *r;
    const Npud__TraceRow *put, *take, *carried;
    unsigned ends = 0;
    int status;
    char *out;

    session_open();
    OK(acltdtCreateQueue(NULL, &source));
    for (unsigned i = 0; i < 2; i++) {
        OK(acltdtCreateQueue(NULL, &to[i]));
        bind_route(source, to[i]);
    }
    OK(acltdtAllocBuf(64, 0, &buffer));
    OK(acltdtEnqueue(source, buffer, 10000));
    for (unsigned i = 0; i < 2; i++) {
        OK(acltdtDequeue(to[i], &buffer, 10000));
        OK(acltdtFreeBuf(buffer));
    }
    r = read_trace();
    put = find_handover(r, "enqueue", false, 0);
    carried = find_handover(r, "dequeue", true, put->queue);
    ck_assert_uint_eq(carried->buffer, put->buffer);
    ck_assert_uint_ge(carried->end_ns, put->begin_ns);
    ck_assert_uint_eq(count_rows(r, "enqueue", NULL), 3);
    ck_assert_uint_eq(count_rows(r, "dequeue", NULL), 3);
    for (size_t i = 0; i < r->n_trace; i++) {
        put = r->trace[i];
        if (!is_kind(put, "enqueue", NULL) || put->session != 0)
            continue;
        ck_assert_uint_eq(put->taken_buffer, carried->buffer);
        ck_assert_uint_ge(put->begin_ns, carried->end_ns);
        take = find_handover(r, "dequeue", false, put->queue);
        ck_assert_uint_eq(take->buffer, put->buffer);
        ck_assert_uint_ge(take->end_ns, put->begin_ns);
    }
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    out = npuctl("trace dump", &status);
    for (char *c = out; (c = strstr(c, "\"id\":")); c++)
        ends++;
    /* Of arrows: to npud, two in its hand, and one to each consumer. */
    ck_assert_uint_eq(ends, 2 * 5);
    ck_assert_ptr_nonnull(strstr(out, "\"in_hand_us\":"));
    free(out);
    session_close();
}
END_TEST

/* --- what programs say --- */

START_TEST(marks_and_ranges)
{
    static const char text[] = "a name that is longer than one entry of the ring has room for, and "
                               "than two: \"<script>\" \xff";
    char endless[1000];
    Npud__Report *r;
    const Npud__TraceRow *row;

    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudTraceMark(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudTraceRangeBegin(NULL));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "aclnpudTraceRangeBegin does", aclnpudTraceRangeEnd());
    session_open();
    OK(aclrtCreateStream(&stream));
    memset(endless, 'x', sizeof(endless));
    endless[sizeof(endless) - 1] = '\0';
    OK(aclnpudTraceRangeBegin(text));
    OK(aclnpudTraceRangeBegin("inner"));
    OK(aclnpudTraceMark(endless));
    OK(aclnpudTraceRangeEnd());
    OK(aclnpudTraceRangeEnd());
    OK(aclnpudTraceMark(""));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "range", NULL), 2);
    row = find_row(r, "range", NULL);
    ck_assert_str_eq(row->text, "inner");
    ck_assert_uint_eq(row->thread, (uint32_t)gettid());
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 2);
    ck_assert_uint_eq(strlen(find_row(r, "mark", NULL)->text), TRACE_TEXT_MAX);
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], "range", NULL) && r->trace[i] != row)
            ck_assert_str_eq(r->trace[i]->text, text);
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

START_TEST(ranges_have_a_depth)
{
    for (unsigned i = 0; i < 64; i++)
        OK(aclnpudTraceRangeBegin("one more"));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "64 ranges", aclnpudTraceRangeBegin("too much"));
    for (unsigned i = 0; i < 64; i++)
        OK(aclnpudTraceRangeEnd());
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudTraceRangeEnd());
}
END_TEST

static void *make_ranges(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 1000; i++) {
        OK(aclnpudTraceRangeBegin("a thread's, with a name that needs more than one entry"));
        OK(aclnpudTraceRangeEnd());
    }
    return NULL;
}

START_TEST(threads_write_side_by_side)
{
    pthread_t thread[4];
    Npud__Report *r;

    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, make_ranges, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "range", NULL), 4000);
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], "range", NULL))
            ck_assert_str_eq(r->trace[i]->text,
                             "a thread's, with a name that needs more than one entry");
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

/* --- rings that are full, ends, and the next trace --- */

START_TEST(what_is_overwritten_is_counted)
{
    const uint64_t marks = TRACE_CLIENT_ENTRIES + 1000;
    Npud__Report *r;
    char text[16];
    size_t n = 0;

    session_open();
    OK(aclrtCreateStream(&stream));
    for (uint64_t i = 0; i < marks; i++) {
        snprintf(text, sizeof(text), "%" PRIu64, i);
        OK(aclnpudTraceMark(text));
    }
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), TRACE_CLIENT_ENTRIES);
    for (size_t i = 0; i < r->n_trace; i++) {
        const Npud__TraceRow *row = r->trace[i];

        if (is_kind(row, "mark", NULL))
            ck_assert_uint_eq(strtoull(row->text, NULL, 10), 1000 + n++);
        if (is_kind(row, "ring", NULL) && row->session != 0) {
            ck_assert_uint_eq(row->events, marks);
            ck_assert_uint_eq(row->lost, 1000);
        }
    }
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

static int mark_and_die(void *arg)
{
    (void)arg;
    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclnpudTraceMark("the last words"));
    raise(SIGKILL);
    return 0;
}

START_TEST(events_outlive_their_process)
{
    pid_t child = child_start(mark_and_die, NULL);
    Npud__Report *r;

    child_reap(child);
    npud_await_sessions(0);
    r = read_trace();
    ck_assert_str_eq(find_row(r, "mark", NULL)->text, "the last words");
    ck_assert_int_eq(find_row(r, "disconnected", NULL)->pid, child);
    ck_assert_uint_eq(find_row(r, "disconnected", NULL)->session,
                      find_row(r, "mark", NULL)->session);
    npud__report__free_unpacked(r, NULL);
    npuctl_says("trace stop", 0, "");
    npuctl_says("trace start", 0, "");
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 0);
    npud__report__free_unpacked(r, NULL);
}
END_TEST

START_TEST(a_second_trace_has_its_own_events)
{
    Npud__Report *r;

    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclnpudTraceRangeBegin("of the first"));
    OK(aclnpudTraceMark("first"));
    npuctl_says("trace stop", 0, "");
    OK(aclnpudTraceMark("between"));
    npuctl_says("trace start", 0, "");
    OK(aclnpudTraceMark("second"));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 1);
    ck_assert_str_eq(find_row(r, "mark", NULL)->text, "second");
    ck_assert_uint_eq(count_rows(r, "connected", NULL), 1);
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

#define CROWD 200

/* They hear of it in several steps: each once, and npuctl is answered when all have. */
START_TEST(all_sessions_hear_of_it)
{
    static struct raw raw[CROWD];
    Npud__Report *r;

    npuctl_says("trace stop", 0, "");
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert(raw_open(&raw[i]));
    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned round = 0; round < 3; round++) {
        npuctl_says("trace start", 0, "");
        OK(aclnpudTraceMark("at once"));
        r = read_trace();
        ck_assert_uint_eq(count_rows(r, "mark", NULL), 1);
        ck_assert_uint_eq(count_rows(r, "connected", NULL), CROWD + 1);
        npud__report__free_unpacked(r, NULL);
        npuctl_says("trace stop", 0, "");
        OK(aclnpudTraceMark("too late"));
        r = read_trace();
        ck_assert_uint_eq(count_rows(r, "mark", NULL), 1);
        npud__report__free_unpacked(r, NULL);
    }
    session_close();
    for (unsigned i = 0; i < CROWD; i++)
        raw_close(&raw[i]);
}
END_TEST

/* --- processes that mean harm --- */

/* Its descriptor, or -1 with the error in raw. */
static int ask_for_ring(struct raw *raw)
{
    Npud__GetTraceRing in = NPUD__GET_TRACE_RING__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Reply *reply;
    int fd;

    request.body_case = NPUD__REQUEST__BODY_GET_TRACE_RING;
    request.get_trace_ring = &in;
    reply = raw_ask(raw, &request, &fd);
    ck_assert_ptr_nonnull(reply);
    npud__reply__free_unpacked(reply, NULL);
    return fd;
}

static struct trace_ring *take_ring(struct raw *raw)
{
    void *map;
    int fd;

    ck_assert(raw_open(raw));
    fd = ask_for_ring(raw);
    ck_assert_int_ge(fd, 0);
    map = mmap(NULL, trace_ring_bytes(TRACE_CLIENT_ENTRIES), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               0);
    ck_assert(map != MAP_FAILED);
    close(fd);
    return map;
}

/* Of whatever is in a ring nothing becomes an event of another process, or of npud. */
START_TEST(rings_full_of_garbage)
{
    static struct raw raw;
    struct trace_ring *ring = take_ring(&raw);
    unsigned seed = 1;

    for (unsigned round = 0; round < 20; round++) {
        Npud__Report *r;

        for (uint64_t i = 0; i < TRACE_CLIENT_ENTRIES; i++) {
            struct trace_event *entry = &ring->entry[i];

            for (unsigned k = 0; k < 7; k++)
                entry->words[k] = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed);
            if (round % 2)
                entry->kind = (uint8_t)(i % (TRACE_KINDS + 2));
            atomic_store(&entry->sequence, i + 1);
        }
        atomic_store(&ring->next, round % 3 == 0 ? UINT64_MAX : TRACE_CLIENT_ENTRIES);
        r = read_trace();
        for (size_t i = 0; i < r->n_trace; i++) {
            const Npud__TraceRow *row = r->trace[i];

            if (is_kind(row, "ring", NULL))
                continue;
            if (row->session != 0 && !is_kind(row, "connected", NULL))
                ck_assert_uint_eq(row->session, 1);
            ck_assert_uint_le(row->begin_ns, row->end_ns);
            ck_assert_uint_le(row->end_ns, clock_ns());
        }
        ck_assert_uint_eq(count_rows(r, "task", NULL) + count_rows(r, "release", NULL) +
                              count_rows(r, "sleep", NULL) + count_rows(r, "fault", NULL),
                          0);
        npud__report__free_unpacked(r, NULL);
    }
    npuctl_says("trace dump >/dev/null", 0, "");
    raw_close(&raw);
}
END_TEST

static uint64_t shared_kib(pid_t pid)
{
    char path[64], line[128];
    uint64_t kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "RssShmem: %lu", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

#define EMPTY_RINGS 40

/* Rings in which a number stands and nothing else: npud reads no page of them, and step by step. */
START_TEST(positions_without_events_cost_nothing)
{
    static struct raw raw[EMPTY_RINGS];
    static const uint64_t positions[] = {UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1) << 40, 40000};
    uint64_t before, longest;
    Npud__Report *r;

    for (unsigned i = 0; i < EMPTY_RINGS; i++)
        atomic_store(&take_ring(&raw[i])->next, positions[i % 4]);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    longest = r->status[0]->longest_step_us;
    npud__report__free_unpacked(r, NULL);
    before = shared_kib(npud_server_pid());
    r = read_trace();
    for (size_t i = 0; i < r->n_trace; i++)
        ck_assert_uint_le(r->trace[i]->events, is_kind(r->trace[i], "ring", NULL) ? 1000000 : 0);
    npud__report__free_unpacked(r, NULL);
    /* Also its answer, which has some hundred rows. */
    ck_assert_uint_le(shared_kib(npud_server_pid()), before + 2048);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    ck_assert_msg(r->status[0]->longest_step_us <= 2000 || longest > 2000, "a step of %lu us",
                  r->status[0]->longest_step_us);
    npud__report__free_unpacked(r, NULL);
    for (unsigned i = 0; i < EMPTY_RINGS; i++)
        raw_close(&raw[i]);
}
END_TEST

static void forge_handover(struct trace_ring *ring, enum trace_kind kind, const Npud__TraceRow *row)
{
    struct trace_event event = {.kind = (uint8_t)kind,
                                .begin_ns = row->end_ns,
                                .end_ns = row->end_ns,
                                .handover = {.queue = row->queue, .buffer = row->buffer}};

    trace_put_shared(ring, TRACE_CLIENT_ENTRIES, &event, 1);
}

/*
 * Another process says that it has taken a message, or put it, at a queue in which it has no part:
 * right behind the honest enqueue, before the honest dequeue.
 */
START_TEST(nobody_takes_anothers_arrow)
{
    static struct raw raw;
    struct trace_ring *ring = take_ring(&raw);
    const Npud__TraceRow *put;
    acltdtBuf buffer;
    uint32_t queue;
    Npud__Report *r;
    unsigned ends = 0;
    int status;
    char *out;

    session_open();
    OK(acltdtCreateQueue(NULL, &queue));
    OK(acltdtAllocBuf(64, 0, &buffer));
    OK(acltdtEnqueue(queue, buffer, 10000));
    r = read_trace();
    put = find_handover(r, "enqueue", false, 0);
    forge_handover(ring, _i ? TRACE_ENQUEUE : TRACE_DEQUEUE, put);
    OK(acltdtDequeue(queue, &buffer, 10000));
    OK(acltdtFreeBuf(buffer));
    npud__report__free_unpacked(r, NULL);
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "enqueue", NULL), 1);
    ck_assert_uint_eq(count_rows(r, "dequeue", NULL), 1);
    npud__report__free_unpacked(r, NULL);
    out = npuctl("trace dump", &status);
    for (char *c = out; (c = strstr(c, "\"id\":")); c++)
        ends++;
    ck_assert_uint_eq(ends, 2);
    free(out);
    session_close();
    raw_close(&raw);
}
END_TEST

/* What a process had before the trace began, or has destroyed since, is its own all the same. */
START_TEST(queues_of_before_and_after)
{
    acltdtBuf buffer;
    uint32_t queue;
    Npud__Report *r;

    npuctl_says("trace stop", 0, "");
    session_open();
    OK(acltdtCreateQueue(NULL, &queue));
    npuctl_says("trace start", 0, "");
    OK(acltdtAllocBuf(64, 0, &buffer));
    OK(acltdtEnqueue(queue, buffer, 10000));
    OK(acltdtDequeue(queue, &buffer, 10000));
    OK(acltdtFreeBuf(buffer));
    OK(acltdtDestroyQueue(queue));
    session_close();
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "enqueue", NULL), 1);
    ck_assert_uint_eq(count_rows(r, "dequeue", NULL), 1);
    npud__report__free_unpacked(r, NULL);
}
END_TEST

START_TEST(no_ring_without_a_trace)
{
    static struct raw raw;

    npuctl_says("trace stop", 0, "");
    ck_assert(raw_open(&raw));
    ck_assert_int_eq(ask_for_ring(&raw), -1);
    ck_assert_int_eq(raw.error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    raw_close(&raw);
}
END_TEST

/* --- what rings cost their user --- */

#define RING_BYTES trace_ring_bytes(TRACE_CLIENT_ENTRIES)
#define ROOM       5 /* for rings, and for what the test has besides */

static void set_up_limited(void)
{
    static char limit[64];
    static const char *const args[] = {limit, NULL};

    snprintf(limit, sizeof(limit), "--set=limits.table_memory=%zu", ROOM * RING_BYTES);
    npud_start(args);
    npuctl_says("trace start", 0, "");
}

/* Rings that the user pays for at this moment. */
static uint64_t rings_paid(void)
{
    return npud_used("table_memory") / RING_BYTES;
}

static uint64_t lost_processes(void)
{
    Npud__Report *r = read_trace();
    uint64_t lost = 0;

    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], "ring", NULL) && r->trace[i]->device < 0 && r->trace[i]->pid == 0)
            lost += r->trace[i]->lost;
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    return lost;
}

/* As long as there is something to read in it. */
START_TEST(a_ring_is_paid_for_until_it_goes)
{
    static struct raw raw;
    uint64_t fds = npud_used("fds"), mappings = npud_used("mappings");

    take_ring(&raw);
    ck_assert_uint_eq(rings_paid(), 1);
    raw_close(&raw);
    npud_await_sessions(0);
    ck_assert_uint_eq(npud_used("table_memory"), RING_BYTES);
    ck_assert_uint_eq(npud_used("fds"), fds + 1);
    ck_assert_uint_eq(npud_used("mappings"), mappings + 1);
    npuctl_says("trace stop", 0, "");
    ck_assert_uint_eq(rings_paid(), 1);
    npuctl_says("trace start", 0, "");
    ck_assert_uint_eq(npud_used("table_memory"), 0);
    ck_assert_uint_eq(npud_used("fds"), fds);
    ck_assert_uint_eq(npud_used("mappings"), mappings);
}
END_TEST

/* A process without a ring works as others do; it has one when one of the user's has ended. */
START_TEST(a_user_has_as_many_rings_as_it_may)
{
    static struct raw raw[ROOM];
    uint64_t paid;
    unsigned n = 0;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    do
        ck_assert(raw_open(&raw[n]));
    while (ask_for_ring(&raw[n++]) >= 0);
    ck_assert_uint_gt(n, 2);
    ck_assert_int_eq(raw[n - 1].error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    ck_assert_uint_eq(lost_processes(), 1);
    OK(aclnpudTraceMark("of which nothing is seen"));
    ck_assert_uint_eq(lost_processes(), 2);
    npuctl_says("trace dump", 0, "npuctl: 2 of ");
    paid = npud_used("table_memory");
    raw_close(&raw[0]);
    npud_await_sessions(n);
    take_ring(&raw[0]);
    ck_assert_uint_eq(npud_used("table_memory"), paid);
    ck_assert_uint_eq(lost_processes(), 3);
    for (unsigned i = 0; i < n; i++)
        raw_close(&raw[i]);
    OK(aclFinalize());
}
END_TEST

/* --- npud ends --- */

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    npuctl_says("trace start", 0, "");
}

static uint64_t time_of_mark(const Npud__Report *r, const char *text)
{
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], "mark", NULL) && strcmp(r->trace[i]->text, text) == 0)
            return r->trace[i]->begin_ns;
    ck_abort_msg("no mark \"%s\"", text);
}

static void kill_server(void)
{
    npud_kill_server();
}

static void upgrade_server(void)
{
    npuctl_says("upgrade", 0, "");
}

/* An engine writes down what it has done a moment after: a report waits for it. */
static size_t count_now(const char *kind, const char *task)
{
    Npud__Report *r = read_trace();
    size_t n = count_rows(r, kind, task);

    npud__report__free_unpacked(r, NULL);
    return n;
}

/* What stands on both sides of it; also a task that waits meanwhile, and who died before. */
static void expect_both_sides(void (*replace)(void))
{
    pid_t child = child_start(mark_and_die, NULL);
    Npud__Report *r;
    const Npud__TraceRow *restarted;
    aclrtEvent gate, event;

    child_reap(child);
    npud_await_sessions(0);
    streams_open(&stream, &other);
    OK(aclrtCreateEvent(&event));
    OK(aclnpudLaunchDelay(0, 0, other));
    OK(aclrtSynchronizeStream(other));
    gate = stream_hold(stream);
    EVENTUALLY(count_now("parked", "wait") == 1, "the stream does not wait");
    OK(aclnpudTraceMark("before"));
    replace();
    OK(aclnpudTraceMark("after"));
    stream_let_go(gate);
    OK(aclrtRecordEvent(event, other));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "restarted", NULL), 1);
    restarted = find_row(r, "restarted", NULL);
    ck_assert_uint_lt(time_of_mark(r, "before"), restarted->begin_ns);
    ck_assert_uint_lt(restarted->begin_ns, time_of_mark(r, "after"));
    ck_assert_uint_lt(find_row(r, "task", "delay")->end_ns, restarted->begin_ns);
    ck_assert_uint_gt(find_row(r, "task", "record")->begin_ns, restarted->begin_ns);
    ck_assert_uint_eq(count_rows(r, "parked", "wait"), 2);
    ck_assert_uint_eq(count_rows(r, "task", "wait"), 1);
    time_of_mark(r, "the last words");
    ck_assert_uint_eq(count_rows(r, "connected", NULL), 2);
    ck_assert_uint_eq(count_rows(r, "disconnected", NULL), 1);
    expect_whole(r);
    npud__report__free_unpacked(r, NULL);
    session_close();
}

START_TEST(a_trace_goes_on_when_npud_comes_back)
{
    expect_both_sides(kill_server);
    npuctl_says("trace start", 1, "trace: one runs already");
    npuctl_says("trace dump", 0, "npud restarted");
}
END_TEST

START_TEST(a_trace_goes_on_in_an_upgrade)
{
    expect_both_sides(upgrade_server);
}
END_TEST

START_TEST(a_trace_that_has_ended_stays)
{
    Npud__Report *r;

    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclnpudTraceMark("before"));
    npuctl_says("trace stop", 0, "");
    npud_kill_server();
    OK(aclnpudTraceMark("after"));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 1);
    ck_assert_uint_eq(count_rows(r, "restarted", NULL), 0);
    for (size_t i = 0; i < r->n_trace; i++)
        if (is_kind(r->trace[i], "ring", NULL))
            ck_assert_uint_ne(r->trace[i]->end_ns, 0);
    npud__report__free_unpacked(r, NULL);
    npuctl_says("trace stop", 1, "none runs");
    npuctl_says("trace start", 0, "");
    OK(aclnpudTraceMark("in the next one"));
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 1);
    ck_assert_str_eq(find_row(r, "mark", NULL)->text, "in the next one");
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

/*
 * Each npud takes over from the one before: what was recorded is recorded again, and rings are paid
 * for.
 */
START_TEST(a_trace_goes_on_time_and_again)
{
    uint64_t memory, fds;
    Npud__Report *r;
    char text[16];

    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < 4; i++) {
        snprintf(text, sizeof(text), "%u", i);
        OK(aclnpudTraceMark(text));
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(count_now("task", "delay"), i + 1);
        memory = npud_used("table_memory");
        fds = npud_used("fds");
        npud_kill_server();
        ck_assert_uint_eq(npud_used("table_memory"), memory);
        ck_assert_uint_eq(npud_used("fds"), fds);
    }
    r = read_trace();
    ck_assert_uint_eq(count_rows(r, "mark", NULL), 4);
    ck_assert_uint_eq(count_rows(r, "restarted", NULL), 4);
    ck_assert_uint_eq(count_rows(r, "task", "delay"), 4);
    npud__report__free_unpacked(r, NULL);
    session_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tc = suite_case(suite, "trace", 60, set_up_test, npud_teardown);

    tcase_add_test(tc, starts_and_stops_once);
    tcase_add_test(tc, what_would_be_complete_at_the_call_is_seen);
    tcase_add_test(tc, failures_have_their_code);
    tcase_add_test(tc, a_release_names_both_ends);
    tcase_add_test(tc, a_release_by_position_names_the_record);
    tcase_add_test(tc, hand_overs_name_queue_and_buffer);
    tcase_add_test(tc, routes_hand_over);
    tcase_add_test(tc, marks_and_ranges);
    tcase_add_test(tc, ranges_have_a_depth);
    tcase_add_test(tc, threads_write_side_by_side);
    tcase_add_test(tc, what_is_overwritten_is_counted);
    tcase_add_test(tc, events_outlive_their_process);
    tcase_add_test(tc, a_second_trace_has_its_own_events);
    tcase_add_test(tc, all_sessions_hear_of_it);
    tcase_add_test(tc, rings_full_of_garbage);
    tcase_add_test(tc, positions_without_events_cost_nothing);
    tcase_add_loop_test(tc, nobody_takes_anothers_arrow, 0, 2);
    tcase_add_test(tc, queues_of_before_and_after);
    tcase_add_test(tc, no_ring_without_a_trace);
    tc = suite_case(suite, "awake", 60, set_up_awake, npud_teardown);
    tcase_add_test(tc, no_task_begins_before_it_was_submitted);
    tc = suite_case(suite, "limits", 60, set_up_limited, npud_teardown);
    tcase_add_test(tc, a_ring_is_paid_for_until_it_goes);
    tcase_add_test(tc, a_user_has_as_many_rings_as_it_may);
    tc = suite_case(suite, "restart", 60, set_up_restartable, npud_teardown);
    tcase_add_test(tc, a_trace_goes_on_when_npud_comes_back);
    tcase_add_test(tc, a_trace_goes_on_in_an_upgrade);
    tcase_add_test(tc, a_trace_that_has_ended_stays);
    tcase_add_test(tc, a_trace_goes_on_time_and_again);
    return run_suite(suite);
}
