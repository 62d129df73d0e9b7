/*
 * A trace that is read while it runs: each event is there once, or counted as lost. What is
 * numbered is far more than a ring has room for.
 *
 * Skipped under chaos: the test itself kills npud.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/shm/trace_ring.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/harness.h"
#include "tests/common/raw.h"

static char directory[64]; /* of the files that npuctl writes */
static pthread_t stream_thread;
static int stream_status;
static aclrtStream stream;

static void make_directory(void)
{
    snprintf(directory, sizeof(directory), "/tmp/npud-trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void set_up_test(void)
{
    npud_setup();
    make_directory();
}

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    make_directory();
}

static void tear_down_test(void)
{
    char command[96];

    npud_teardown();
    snprintf(command, sizeof(command), "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}

/* npuctl with these arguments, in the directory. */
static int ask(const char *arguments)
{
    char whole[256];
    int status;

    snprintf(whole, sizeof(whole), arguments, directory, directory);
    free(npuctl(whole, &status));
    return status;
}

static void *run_stream(void *arg)
{
    (void)arg;
    stream_status = ask("trace stream >%s/events");
    return NULL;
}

static void stream_begin(void)
{
    ck_assert_int_eq(pthread_create(&stream_thread, NULL, run_stream, NULL), 0);
}

static void stream_end(void)
{
    npuctl_says("trace stop", 0, "");
    pthread_join(stream_thread, NULL);
    ck_assert_int_eq(stream_status, 0);
}

/* --- what was told --- */

static uint64_t lost;

/* The trace as it is so far, as JSON: a line an event. NULL: nothing is there yet. */
static FILE *open_trace(void)
{
    char path[96], line[256];
    FILE *f;

    /* What npuctl says of lost events would else be in the file, too. */
    ask("trace dump --from=%s/events 2>/dev/null | cat >%s/json");
    snprintf(path, sizeof(path), "%s/json", directory);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    if (!fgets(line, sizeof(line), f)) {
        fclose(f);
        return NULL;
    }
    ck_assert_ptr_nonnull(strstr(line, "\"lost\":"));
    lost = strtoull(strstr(line, "\"lost\":") + 7, NULL, 10);
    return f;
}

/*
 * How many events of this kind, whose names begin with this text and go on with numbers, are there:
 * each once, in their order, which is that of their times.
 */
static unsigned count_numbered(const char *kind, const char *text)
{
    FILE *f = open_trace();
    char line[1024];
    unsigned n = 0;
    uint64_t next = 0;
    double last = 0;

    while (f && fgets(line, sizeof(line), f)) {
        const char *cat = strstr(line, kind), *name = strstr(line, text), *ts;
        uint64_t number;

        if (!cat || !name || !(ts = strstr(line, "\"ts\":")))
            continue;
        number = strtoull(name + strlen(text), NULL, 10);
        ck_assert_msg(number >= next, "%" PRIu64 " after %" PRIu64, number, next - 1);
        ck_assert(strtod(ts + 5, NULL) >= last);
        next = number + 1;
        last = strtod(ts + 5, NULL);
        n++;
    }
    if (f)
        fclose(f);
    return n;
}

static unsigned count_marks(void)
{
    return count_numbered("\"cat\":\"mark\"", "\"name\":\"mark ");
}

static void mark(unsigned from, unsigned to)
{
    char text[32];

    for (; from < to; from++) {
        snprintf(text, sizeof(text), "mark %u", from);
        OK(aclnpudTraceMark(text));
    }
}

static void await_marks(unsigned n)
{
    EVENTUALLY(count_marks() == n, "%u marks of %u", count_marks(), n);
}

/* --- rings that are full --- */

#define BURST 24000 /* less than a ring has */

START_TEST(what_is_read_in_time_is_not_lost)
{
    npuctl_says("trace start", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < 4; i++) {
        mark(i * BURST, (i + 1) * BURST);
        await_marks((i + 1) * BURST);
    }
    stream_end();
    ck_assert_uint_eq(count_marks(), 4 * BURST);
    ck_assert_uint_eq(lost, 0);
    session_close();
}
END_TEST

/* The reader comes late, and is as fast as it may be afterwards. */
START_TEST(what_is_lost_is_counted)
{
    const unsigned before = 2 * TRACE_CLIENT_ENTRIES, all = 10 * TRACE_CLIENT_ENTRIES;
    unsigned n;

    npuctl_says("trace start", 0, "");
    session_open();
    OK(aclrtCreateStream(&stream));
    mark(0, before);
    stream_begin();
    mark(before, all);
    stream_end();
    n = count_marks();
    ck_assert_uint_ge(lost, TRACE_CLIENT_ENTRIES);
    ck_assert_uint_eq(n + lost, all);
    session_close();
}
END_TEST

static int mark_and_die(void *arg)
{
    const unsigned *first = arg;

    session_open();
    OK(aclrtCreateStream(&stream));
    mark(*first, *first + BURST);
    raise(SIGKILL);
    return 0;
}

/* And their rings make room when they were read. */
START_TEST(killed_processes_are_told_to_their_end)
{
    unsigned *first = child_share(sizeof(*first));

    npuctl_says("trace start", 0, "");
    stream_begin();
    for (unsigned i = 0; i < 3; i++) {
        *first = i * BURST;
        child_reap(child_start(mark_and_die, first));
        await_marks((i + 1) * BURST);
    }
    EVENTUALLY(npud_used("table_memory") < trace_ring_bytes(TRACE_CLIENT_ENTRIES),
               "%" PRIu64 " bytes of rings", npud_used("table_memory"));
    stream_end();
    ck_assert_uint_eq(count_marks(), 3 * BURST);
    ck_assert_uint_eq(lost, 0);
}
END_TEST

START_TEST(an_npud_that_comes_back_tells_nothing_twice)
{
    npuctl_says("trace start", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < 4; i++) {
        mark(i * 1000, (i + 1) * 1000);
        npud_kill_server();
    }
    await_marks(4000);
    stream_end();
    ck_assert_uint_eq(count_marks(), 4000);
    ck_assert_uint_eq(lost, 0);
    session_close();
}
END_TEST

/* --- calls and tasks --- */

#define TASKS 40000

/* How many lines of the trace have this text. */
static unsigned count_lines(const char *text)
{
    FILE *f = open_trace();
    char line[1024];
    unsigned n = 0;

    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* Rings as large as asked have room for all of it: nothing may be lost. */
START_TEST(each_call_and_each_task_is_there_once)
{
    npuctl_says("trace start --calls --size=16M", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < TASKS; i++)
        OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    stream_end();
    ck_assert_uint_eq(count_numbered("\"cat\":\"task\"", "\"position\":"), TASKS);
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(count_lines("\"name\":\"aclnpudLaunchDelay\",\"cat\":\"call\""), TASKS);
    ck_assert_uint_eq(count_lines("\"name\":\"aclrtSynchronizeStream\",\"cat\":\"call\""), 1);
    ck_assert_uint_eq(count_lines("\"id\":"), 2 * TASKS);
    session_close();
}
END_TEST

#define POLLS 100000

/* How many calls of the function the lines stand for. */
static uint64_t count_calls(const char *name)
{
    FILE *f = open_trace();
    char line[1024];
    uint64_t n = 0;

    while (f && fgets(line, sizeof(line), f)) {
        const char *times = strstr(line, "\"times\":");

        if (strstr(line, name))
            n += times ? strtoull(times + strlen("\"times\":"), NULL, 10) : 1;
    }
    if (f)
        fclose(f);
    return n;
}

static void *poll_stream(void *arg)
{
    aclrtStreamStatus status;

    OK(aclrtSetDevice(0));
    for (unsigned i = 0; i < POLLS; i++)
        OK(aclrtStreamQuery(arg, &status));
    return NULL;
}

/* A program that polls is told in rows of calls, and none is missing: here the thread ends then. */
START_TEST(polls_are_told_in_rows)
{
    pthread_t poller;

    npuctl_says("trace start --calls", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    ck_assert_int_eq(pthread_create(&poller, NULL, poll_stream, stream), 0);
    pthread_join(poller, NULL);
    OK(aclrtSynchronizeStream(stream));
    stream_end();
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(count_calls("\"name\":\"aclrtStreamQuery\",\"cat\":\"call\""), POLLS);
    ck_assert_uint_lt(count_lines("\"name\":\"aclrtStreamQuery\",\"cat\":\"call\""), POLLS / 10);
    session_close();
}
END_TEST

#define COPIED 4096

/* Those of the calling thread have them at the call, tasks at the task. */
START_TEST(copies_have_bytes_and_direction)
{
    void *device, *pinned;
    char pageable[COPIED] = {0};

    npuctl_says("trace start --calls", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&device, COPIED, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&pinned, COPIED));
    OK(aclrtMemcpy(device, COPIED, pageable, 100, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(pageable, COPIED, device, 200, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtMemcpy(pageable, COPIED, device, 0, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtMemcpyAsync(device, COPIED, pinned, 300, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(pinned, COPIED, device, 400, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtMemsetAsync(device, COPIED, 0, 500, stream));
    OK(aclrtSynchronizeStream(stream));
    stream_end();
    ck_assert_uint_eq(count_lines("\"name\":\"aclrtMemcpy\",\"cat\":\"call\""), 3);
    ck_assert_uint_eq(count_lines("\"args\":{\"bytes\":100,\"way\":\"host to device\"}"), 1);
    ck_assert_uint_eq(count_lines("\"args\":{\"bytes\":200,\"way\":\"device to host\"}"), 1);
    ck_assert_uint_eq(count_lines("\"bytes\":300,\"way\":\"host to device\""), 1);
    ck_assert_uint_eq(count_lines("\"bytes\":400,\"way\":\"device to host\""), 1);
    ck_assert_uint_eq(count_lines("\"bytes\":500,\"way\":\"to device\""), 1);
    ck_assert_uint_eq(count_lines("\"way\":"), 5);
    ck_assert_uint_ge(count_lines("\"name\":\"bytes in flight\""), 4);
    session_close();
}
END_TEST

/* A process that was there before hears of it with its first event, and of the end with a call. */
START_TEST(calls_are_told_while_the_trace_wants_them)
{
    int status;
    char *out;

    session_open();
    OK(aclrtCreateStream(&stream));
    npuctl_says("trace start --calls", 0, "");
    OK(aclnpudTraceMark("first"));
    OK(aclrtSynchronizeStream(stream));
    npuctl_says("trace stop", 0, "");
    OK(aclrtSynchronizeStream(stream));
    out = npuctl("trace dump | grep -c aclrtSynchronizeStream", &status);
    ck_assert_str_eq(out, "1\n");
    free(out);
    npuctl_says("trace start", 0, "");
    OK(aclnpudTraceMark("second"));
    OK(aclrtSynchronizeStream(stream));
    out = npuctl("trace dump | grep -c '\"cat\":\"call\"'", &status);
    ck_assert_str_eq(out, "0\n");
    free(out);
    session_close();
}
END_TEST

/* --- sizes --- */

static uint64_t entries_of(uint64_t session, int32_t device)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__TRACE);
    uint64_t entries = 0;

    for (size_t i = 0; i < r->n_trace; i++)
        if (strcmp(r->trace[i]->kind, "ring") == 0 && r->trace[i]->session == session &&
            r->trace[i]->device == device)
            entries = r->trace[i]->entries;
    npud__report__free_unpacked(r, NULL);
    return entries;
}

/* From one trace to the next, also over the end of npud. */
START_TEST(rings_are_as_large_as_asked)
{
    static const struct {
        const char *ask;
        uint64_t client, own;
    } sizes[] = {
        {"trace start --size=32M", UINT64_C(1) << 19, UINT64_C(1) << 19},
        {"trace start", TRACE_CLIENT_ENTRIES, TRACE_OWN_ENTRIES},
        {"trace start --size=4194304", UINT64_C(1) << 16, TRACE_OWN_ENTRIES},
        {"trace start --size=1K", TRACE_CLIENT_ENTRIES, TRACE_OWN_ENTRIES},
    };
    uint64_t session;

    session_open();
    OK(aclrtCreateStream(&stream));
    session = npud_session_of(getpid());
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        npuctl_says(sizes[i].ask, 0, "");
        stream_begin();
        mark(0, 10);
        OK(aclnpudLaunchDelay(0, 0, stream));
        ck_assert_uint_eq(entries_of(session, -1), sizes[i].client);
        ck_assert_uint_eq(entries_of(0, 0), sizes[i].own);
        npud_kill_server();
        mark(10, 20);
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(entries_of(session, -1), sizes[i].client);
        ck_assert_uint_eq(entries_of(0, 0), sizes[i].own);
        stream_end();
        ck_assert_uint_eq(count_marks(), 20);
        ck_assert_uint_eq(count_lines("\"name\":\"delay\",\"cat\":\"task\""), 2);
    }
    session_close();
}
END_TEST

/* --- processes that mean harm --- */

static struct trace_ring *take_ring(struct raw *raw)
{
    Npud__GetTraceRing in = NPUD__GET_TRACE_RING__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Reply *reply;
    void *map;
    int fd;

    ck_assert(raw_open(raw));
    request.body_case = NPUD__REQUEST__BODY_GET_TRACE_RING;
    request.get_trace_ring = &in;
    reply = raw_ask(raw, &request, &fd);
    ck_assert_ptr_nonnull(reply);
    npud__reply__free_unpacked(reply, NULL);
    map = mmap(NULL, trace_ring_bytes(TRACE_CLIENT_ENTRIES), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               0);
    ck_assert(map != MAP_FAILED);
    close(fd);
    return map;
}

static void put_marks(struct trace_ring *ring, unsigned from, unsigned to)
{
    for (; from < to; from++) {
        struct trace_event event = {.kind = TRACE_MARK, .thread = 1, .begin_ns = clock_ns()};

        event.end_ns = event.begin_ns;
        event.size = (uint16_t)snprintf(event.text, sizeof(event.text), "mark %u", from);
        trace_put_shared(ring, TRACE_CLIENT_ENTRIES, &event, 1);
    }
}

/* As a process leaves it that is killed, or stopped, while it writes. */
static uint64_t claim_entry(struct trace_ring *ring)
{
    uint64_t number = atomic_fetch_add(&ring->next, 1);

    atomic_store(&ring->entry[number & (TRACE_CLIENT_ENTRIES - 1)].sequence, TRACE_BUSY);
    return number;
}

START_TEST(an_event_that_is_being_written_is_waited_for)
{
    static struct raw raw;
    struct trace_event event = {.kind = TRACE_MARK, .size = 6, .text = "mark 0"};
    struct trace_ring *ring;
    uint64_t number;

    npuctl_says("trace start", 0, "");
    stream_begin();
    ring = take_ring(&raw);
    number = claim_entry(ring);
    event.begin_ns = event.end_ns = clock_ns();
    put_marks(ring, 1, 10);
    EVENTUALLY(count_lines("\"program\":") > 0, "nothing is told");
    ck_assert_uint_eq(count_marks(), 0);
    trace_store(&ring->entry[number], number, &event);
    await_marks(10);
    stream_end();
    ck_assert_uint_eq(lost, 0);
    raw_close(&raw);
}
END_TEST

START_TEST(an_event_that_is_never_written_is_not_waited_for_for_ever)
{
    static struct raw raw;
    struct trace_ring *ring;

    npuctl_says("trace start", 0, "");
    stream_begin();
    ring = take_ring(&raw);
    claim_entry(ring);
    put_marks(ring, 0, TRACE_CLIENT_ENTRIES / 2 + 1);
    await_marks(TRACE_CLIENT_ENTRIES / 2 + 1);
    /* One of a process that has ended is not waited for at all. */
    claim_entry(ring);
    raw_close(&raw);
    npud_await_sessions(0);
    stream_end();
    ck_assert_uint_eq(count_marks(), TRACE_CLIENT_ENTRIES / 2 + 1);
    ck_assert_uint_eq(lost, 2);
}
END_TEST

static void fill_with_garbage(struct trace_ring *ring, unsigned round, unsigned *seed)
{
    for (uint64_t i = 0; i < TRACE_CLIENT_ENTRIES; i++) {
        struct trace_event *entry = &ring->entry[i];

        for (unsigned k = 0; k < 7; k++)
            entry->words[k] = (uint64_t)rand_r(seed) << 33 ^ (uint64_t)rand_r(seed);
        if (round % 2)
            entry->kind = (uint8_t)(i % (TRACE_KINDS + 2));
        if (entry->kind == TRACE_CALL)
            entry->size = UINT16_MAX;
        atomic_store(&entry->sequence, round * TRACE_CLIENT_ENTRIES + i + 1);
    }
    atomic_store(&ring->next,
                 round % 3 == 0 ? UINT64_MAX : (round + 1) * (uint64_t)TRACE_CLIENT_ENTRIES);
}

/* The reader reads on, and the honest process is told as if the other one were not there. */
START_TEST(garbage_in_a_ring_of_calls)
{
    static struct raw raw;
    struct trace_ring *ring;
    unsigned seed = 1;

    npuctl_says("trace start --calls", 0, "");
    stream_begin();
    ring = take_ring(&raw);
    session_open();
    OK(aclrtCreateStream(&stream));
    for (unsigned round = 0; round < 12; round++) {
        fill_with_garbage(ring, round, &seed);
        mark(round * 100, (round + 1) * 100);
    }
    await_marks(1200);
    stream_end();
    ck_assert_uint_eq(count_marks(), 1200);
    ck_assert_uint_eq(count_lines("\"name\":\"aclnpudTraceMark\",\"cat\":\"call\""), 1200);
    session_close();
    raw_close(&raw);
}
END_TEST

/* --- wrong use --- */

START_TEST(wrong_use_is_named)
{
    npuctl_says("trace stream 2>&1 >/dev/null | cat", 0, "there is no trace");
    npuctl_says("trace stream 3", 2, "unexpected argument");
    npuctl_says("trace start --size=0", 2, "--size wants bytes");
    npuctl_says("trace start --size=5G", 2, "--size wants bytes");
    npuctl_says("trace start --size=1T", 2, "--size wants bytes");
    npuctl_says("trace stop --size=1M", 2, "--size goes with trace start");
    npuctl_says("trace dump --calls", 2, "--calls goes with trace start");
    npuctl_says("status --from=x", 2, "--from goes with trace dump");
    npuctl_says("trace dump --from=/nowhere/x", 1, "/nowhere/x: No such file");
    npuctl_says("trace dump --from=/bin/sh", 1, "/bin/sh: npuctl trace stream has not written");
    npuctl_says("trace stats", 2, "trace stats needs a file");
    npuctl_says("trace stats a b", 2, "unexpected argument");
    npuctl_says("trace stats /nowhere/x", 1, "/nowhere/x: No such file");
    npuctl_says("trace stats /bin/sh", 1, "/bin/sh: npuctl trace dump has not written");
    npuctl_says("trace start", 0, "");
    npuctl_says("trace stream 2>&1 >/dev/full | cat", 0, "cannot write");
}
END_TEST

/* Whatever a file has for events: it is refused, or printed as far as it is whole. */
START_TEST(files_that_are_broken)
{
    char path[96], bytes[4096];
    struct stat st;
    unsigned seed = 1;
    FILE *f;
    int status;

    npuctl_says("trace start", 0, "");
    stream_begin();
    session_open();
    OK(aclrtCreateStream(&stream));
    mark(0, 50);
    await_marks(50);
    stream_end();
    snprintf(path, sizeof(path), "%s/events", directory);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size - 1), 0);
    ck_assert_int_eq(ask("trace dump --from=%s/events >/dev/null"), 0);
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (char)(round % 2 ? rand_r(&seed) : rand_r(&seed) % 4);
        memcpy(bytes, "npud trace 1\n", 13);
        f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(bytes, sizeof(bytes), 1, f), 1);
        fclose(f);
        status = ask("trace dump --from=%s/events >/dev/null");
        ck_assert_msg(status == 0 || status == 1, "status %d", status);
    }
    session_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace, streamed");
    TCase *tc = suite_case(suite, "stream", 120, set_up_test, tear_down_test);

    tcase_add_test(tc, what_is_read_in_time_is_not_lost);
    tcase_add_test(tc, what_is_lost_is_counted);
    tcase_add_test(tc, killed_processes_are_told_to_their_end);
    tc = suite_case(suite, "calls", 120, set_up_test, tear_down_test);
    tcase_add_test(tc, each_call_and_each_task_is_there_once);
    tcase_add_test(tc, polls_are_told_in_rows);
    tcase_add_test(tc, copies_have_bytes_and_direction);
    tcase_add_test(tc, calls_are_told_while_the_trace_wants_them);
    tc = suite_case(suite, "harm", 120, set_up_test, tear_down_test);
    tcase_add_test(tc, an_event_that_is_being_written_is_waited_for);
    tcase_add_test(tc, an_event_that_is_never_written_is_not_waited_for_for_ever);
    tcase_add_test(tc, garbage_in_a_ring_of_calls);
    tc = suite_case(suite, "wrong use", 120, set_up_test, tear_down_test);
    tcase_add_test(tc, wrong_use_is_named);
    tcase_add_test(tc, files_that_are_broken);
    tc = suite_case(suite, "restart", 120, set_up_restartable, tear_down_test);
    tcase_add_test(tc, an_npud_that_comes_back_tells_nothing_twice);
    tcase_add_test(tc, rings_are_as_large_as_asked);
    return run_suite(suite);
}
