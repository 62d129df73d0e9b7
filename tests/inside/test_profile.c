/*
 * What profiles and dumps have of kernels, and what becomes of them when processes end or submit
 * beside a start and a stop. Linked with the objects of the library, as its other rooms are.
 */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl_dump.h"
#include "acl/acl_npud_kernel.h"
#include "acl/acl_prof.h"
#include "client/dump/dump.h"
#include "client/profile/profile.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"

static char output[] = "/tmp/profile_XXXXXX";

static void setup(void)
{
    npud_setup();
    ck_assert_ptr_nonnull(mkdtemp(output));
}

static void teardown(void)
{
    char command[64];

    npud_teardown();
    snprintf(command, sizeof(command), "rm -rf %s", output);
    ck_assert_int_eq(system(command), 0);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "r");
    struct stat st;
    char *bytes;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fstat(fileno(f), &st), 0);
    bytes = malloc((size_t)st.st_size + 1);
    *size = fread(bytes, 1, (size_t)st.st_size, f);
    bytes[*size] = '\0';
    fclose(f);
    return bytes;
}

/* The one file that matches: read, freed by the caller. */
static char *read_match(const char *pattern, size_t *size)
{
    char path[512];
    glob_t found;
    char *bytes;

    snprintf(path, sizeof(path), "%s/%s", output, pattern);
    ck_assert_int_eq(glob(path, 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    bytes = read_file(found.gl_pathv[0], size);
    globfree(&found);
    return bytes;
}

/* What has matched is JSON, an array. */
static cJSON *read_events(const char *pattern)
{
    size_t size;
    char *text = read_match(pattern, &size);
    cJSON *events = cJSON_ParseWithOpts(text, NULL, true);

    ck_assert_msg(cJSON_IsArray(events), "no array in %s: %.1000s", pattern, text);
    free(text);
    return events;
}

/* The same of a process that was killed, maybe in the middle of a write: the lines are whole. */
static cJSON *read_events_left(const char *pattern)
{
    size_t size;
    char *text = read_match(pattern, &size);
    cJSON *events = cJSON_ParseWithOpts(text, NULL, true);
    char *end;

    if (!events) {
        end = strrchr(text, '\n');
        while (end > text && *end != '}')
            end--;
        strcpy(end + 1, "]");
        events = cJSON_ParseWithOpts(text, NULL, true);
    }
    ck_assert_msg(cJSON_IsArray(events), "no array in %s: %.1000s", pattern, text);
    free(text);
    return events;
}

static const char *text_of(const cJSON *event, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(event, key));

    return text ? text : "";
}

/* Tasks of that name; NULL: any. */
static unsigned count_tasks(const cJSON *events, const char *name)
{
    const cJSON *event;
    unsigned n = 0;

    cJSON_ArrayForEach (event, events)
        n += strcmp(text_of(event, "cat"), "task") == 0 &&
             (!name || strcmp(text_of(event, "name"), name) == 0);
    return n;
}

/* Tasks of a stream: one after the other, none without time. */
static void expect_in_order(const cJSON *events)
{
    const cJSON *event;
    double end[64] = {0};

    cJSON_ArrayForEach (event, events) {
        unsigned stream = (unsigned)cJSON_GetNumberValue(cJSON_GetObjectItem(event, "tid"));
        double begin = cJSON_GetNumberValue(cJSON_GetObjectItem(event, "ts"));
        double length = cJSON_GetNumberValue(cJSON_GetObjectItem(event, "dur"));

        if (strcmp(text_of(event, "cat"), "task") != 0)
            continue;
        ck_assert_uint_lt(stream, 64);
        ck_assert_double_ge(length, 0);
        ck_assert_msg(begin >= end[stream] - 0.002, "a task begins at %f, before %f", begin,
                      end[stream]);
        end[stream] = begin + length;
    }
}

static void start_all(void)
{
    OK(aclprofInit(output, strlen(output)));
    OK(aclprofStart(NULL));
}

/* --- kernels --- */

START_TEST(a_task_has_the_name_of_its_kernel)
{
    aclrtStream one, two;
    struct stream *s;
    cJSON *events;
    int error;

    streams_open(&one, &two);
    start_all();
    s = stream_lock(__func__, one, &error);
    ck_assert_ptr_nonnull(s);
    profile_name_next(s, "my \"kernel\"");
    stream_unlock(s);
    OK(aclnpudLaunchDelay(10, 0, one));
    OK(aclnpudLaunchDelay(10, 0, one));
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "my \"kernel\""), 1);
    ck_assert_uint_eq(count_tasks(events, "delay"), 1);
    cJSON_Delete(events);
    session_close();
}
END_TEST

static void work_for_a_while(uint64_t word)
{
    uint64_t end = now_ns() + 2000000;

    (void)word;
    while (now_ns() < end)
        ;
}

static double number_of(const cJSON *event, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(event, key));
}

/* The next event of that category, behind `event`; NULL: the first. */
static const cJSON *next_of(const cJSON *events, const cJSON *event, const char *category)
{
    event = event ? event->next : events->child;
    while (event && strcmp(text_of(event, "cat"), category) != 0)
        event = event->next;
    return event;
}

/* Each execution is a task, with its kernels in it. */
START_TEST(a_graph_has_its_kernels)
{
    const aclnpudKernel k = {.size = sizeof(k),
                             .kind = ACL_KERNEL_TYPE_AICORE,
                             .name = "a \"while\"",
                             .function = (const void *)(uintptr_t)work_for_a_while};
    const cJSON *task = NULL, *kernel = NULL;
    const uint64_t word = 0;
    aclrtStream one, two;
    double begin, end;
    aclmdlRI model;
    cJSON *events;

    streams_open(&one, &two);
    OK(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclnpudLaunchKernel(&k, 1, &word, sizeof(word), one));
    OK(aclnpudLaunchKernel(&k, 1, &word, sizeof(word), one));
    OK(aclmdlRICaptureEnd(one, &model));
    start_all();
    for (int i = 0; i < 3; i++)
        OK(aclmdlRIExecuteAsync(model, one));
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    OK(aclmdlRIExecuteAsync(model, one));
    OK(aclrtSynchronizeStream(one));
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "model"), 3);
    while ((task = next_of(events, task, "task"))) {
        begin = number_of(task, "ts");
        end = begin + number_of(task, "dur");
        for (int i = 0; i < 2; i++) {
            kernel = next_of(events, kernel, "operator");
            ck_assert_ptr_nonnull(kernel);
            ck_assert_str_eq(text_of(kernel, "name"), "a \"while\"");
            ck_assert_double_eq(number_of(kernel, "tid"), number_of(task, "tid"));
            ck_assert_double_ge(number_of(kernel, "ts"), begin);
            ck_assert_double_ge(number_of(kernel, "dur"), 2000);
            begin = number_of(kernel, "ts") + number_of(kernel, "dur");
            ck_assert_double_le(begin, end);
            ck_assert_double_eq(number_of(cJSON_GetObjectItem(kernel, "args"), "operator"), i);
        }
    }
    ck_assert_ptr_null(next_of(events, kernel, "operator"));
    cJSON_Delete(events);
    OK(aclmdlRIDestroy(model));
    session_close();
}
END_TEST

static unsigned found_args;

static void find_args(aclrtExceptionInfo *info)
{
    uint32_t size;
    void *args;

    OK(aclrtGetArgsFromExceptionInfo(info, &args, &size));
    found_args += size == sizeof(uint64_t) && *(const uint64_t *)args == 77;
}

static void trap(uint64_t word)
{
    (void)word;
    __builtin_trap();
}

/* Its failure is found by its id. _i: also with a trace, in which nothing is done at the call. */
START_TEST(a_failed_kernel_has_its_id_beside_stamps)
{
    const aclnpudKernel k = {.size = sizeof(k),
                             .kind = ACL_KERNEL_TYPE_AICORE,
                             .name = "trap",
                             .function = (const void *)(uintptr_t)trap};
    const uint64_t word = 77;
    aclrtStream one, two;

    streams_open(&one, &two);
    if (_i == 1)
        npuctl_says("trace start", 0, "");
    start_all();
    OK(aclnpudLaunchDelay(0, 0, one)); /* hears of the trace */
    OK(aclrtSynchronizeStream(one));
    OK(aclrtSetExceptionInfoCallback(find_args));
    OK(aclnpudLaunchKernel(&k, 1, &word, sizeof(word), one));
    ck_assert_int_ne(aclrtSynchronizeStream(one), 0);
    ck_assert_uint_eq(found_args, 1);
    OK(aclrtSetExceptionInfoCallback(NULL));
    OK(aclprofFinalize());
    session_close();
}
END_TEST

/* Part `n` of a dump: its line of JSON, and where its bytes are. */
static cJSON *part_of(const char *dump, unsigned n, const char **bytes, size_t *size)
{
    for (;; n--) {
        const char *end = strchr(dump, '\n');
        cJSON *line;

        ck_assert_ptr_nonnull(end);
        line = cJSON_ParseWithLength(dump, (size_t)(end - dump));
        ck_assert_ptr_nonnull(line);
        *size = (size_t)cJSON_GetNumberValue(cJSON_GetObjectItem(line, "bytes"));
        *bytes = end + 1;
        if (n == 0)
            return line;
        cJSON_Delete(line);
        dump = *bytes + *size + 1;
    }
}

static void write_failure(void *device, const char *binary)
{
    uint64_t args[] = {1, (uint64_t)(uintptr_t)device + 16, 3};
    struct dump_failure failure = {.kernel = "add",
                                   .binary = binary,
                                   .stream = 3,
                                   .task = 4,
                                   .code = ACL_ERROR_RT_AICORE_EXCEPTION,
                                   .block = 5,
                                   .blocks = 6,
                                   .args = args,
                                   .args_size = sizeof(args)};

    dump_kernel_failure(&failure);
}

/* _i: brief, and not. */
START_TEST(a_failed_kernel_leaves_its_arguments)
{
    static const char *const scenes[] = {"aic_err_brief_dump", "aic_err_norm_dump"};
    unsigned char filled[64];
    const char *bytes;
    char *dump, binary[64];
    uint64_t args[3];
    void *device;
    size_t size, n;
    cJSON *line;

    setenv("NPU_COLLECT_PATH", output, 1);
    setenv("ASCEND_DUMP_SCENE", scenes[_i], 1);
    snprintf(binary, sizeof(binary), "%s/kernel.o", output);
    write_text_file(binary, "code");
    session_open();
    OK(aclrtMalloc(&device, sizeof(filled), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(device, sizeof(filled), 9, sizeof(filled)));
    memset(filled, 9, sizeof(filled));
    write_failure(device, binary);
    dump = read_match("extra-info/data-dump/0/exception_info.3.4.*", &size);
    line = part_of(dump, 0, &bytes, &n);
    ck_assert_str_eq(text_of(line, "kernel"), "add");
    ck_assert_double_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(line, "block")), 5);
    cJSON_Delete(line);
    cJSON_Delete(part_of(dump, 1, &bytes, &n));
    ck_assert_uint_eq(n, sizeof(args));
    memcpy(args, bytes, sizeof(args));
    ck_assert_uint_eq(args[2], 3);
    if (_i == 0) {
        ck_assert_ptr_eq(bytes + n + 1, dump + size);
    } else {
        cJSON_Delete(part_of(dump, 2, &bytes, &n));
        ck_assert_uint_ge(n, sizeof(filled) - 16);
        ck_assert_mem_eq(bytes, filled, sizeof(filled) - 16);
        ck_assert_ptr_eq(bytes + n + 1, dump + size);
    }
    free(dump);
    dump = read_match("extra-info/data-dump/0/kernel.o", &size);
    ck_assert_str_eq(dump, "code");
    free(dump);
    OK(aclrtFree(device));
    session_close();
}
END_TEST

START_TEST(nothing_is_dumped_when_nothing_is_on)
{
    uint64_t word = 1;
    glob_t found;
    char pattern[64];

    setenv("NPU_COLLECT_PATH", output, 1);
    session_open();
    write_failure(NULL, NULL);
    dump_kernel_args("add", &word, sizeof(word), NULL, 0);
    snprintf(pattern, sizeof(pattern), "%s/*", output);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), GLOB_NOMATCH);
    session_close();
}
END_TEST

static int pieces;

static int32_t count_piece(const acldumpChunk *piece, int32_t size)
{
    (void)size;
    pieces += piece->isLastChunk;
    return 0;
}

START_TEST(arguments_are_dumped_once_for_each_size)
{
    const uint64_t words[] = {1, 2};
    acldumpTensorInfo t = {.tensorSize = 8, .shapeNum = 1, .shape = {8}};
    const char *bytes;
    char *dump;
    size_t size, n;
    cJSON *line;

    session_open();
    OK(aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, output));
    for (int i = 0; i < 3; i++) {
        dump_kernel_args("a/b", words, 8, &t, 1);
        dump_kernel_args("a/b", words, 16, NULL, 0);
    }
    OK(acldumpRegCallback(count_piece, 0));
    for (int i = 0; i < 3; i++)
        dump_kernel_args("in pieces", words, 8, NULL, 0);
    ck_assert_int_eq(pieces, 1);
    acldumpUnregCallback();
    OK(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
    dump_kernel_args("late", words, 8, NULL, 0);
    dump = read_match("a_b.8.args", &size);
    line = part_of(dump, 1, &bytes, &n);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(line, "shape")), 1);
    cJSON_Delete(line);
    cJSON_Delete(part_of(dump, 2, &bytes, &n));
    ck_assert_uint_eq(n, 8);
    free(dump);
    free(read_match("a_b.16.args", &size));
    free(read_match("*.8.args", &size)); /* not of what came late */
    session_close();
}
END_TEST

/* Which kernels a configuration dumps the data of. */
START_TEST(a_dump_of_data_is_chosen)
{
    static const struct {
        const char *object;
        bool input, single, fill_1, fill_11,
            execution_5; /* else output, of fill_1 in execution 0 */
    } rows[] = {
        {"{\"dump_op_switch\":\"on\"}", false, true, false, false, false},
        {"{\"dump_op_switch\":\"on\",\"dump_mode\":\"input\"}", false, false, false, false, false},
        {"{\"dump_op_switch\":\"off\",\"dump_list\":[]}", false, false, false, false, false},
        {"{\"dump_list\":[{}]}", false, false, true, true, true},
        {"{\"dump_list\":[{}],\"dump_mode\":\"all\"}", true, false, true, true, true},
        {"{\"dump_list\":[{}],\"dump_step\":\"0\"}", false, false, true, true, false},
        {"{\"dump_list\":[{}],\"dump_step\":\"1|4-5|7\"}", false, false, false, false, true},
        {"{\"dump_list\":[{}],\"dump_step\":\"0-4|6-7\"}", false, false, true, true, false},
        {"{\"dump_list\":[{\"model_name\":\"n\"}]}", false, false, false, false, false},
        {"{\"dump_list\":[{\"model_name\":\"n\"},{\"model_name\":\"m\"}]}", false, false, true,
         true, true},
        {"{\"dump_list\":[{\"layer\":[\"fil\",\"fill_\",\"fill_1\"]}]}", false, false, true, false,
         true},
        {"{\"dump_list\":[{\"layer\":[\"fill\"]}]}", false, false, true, true, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dump_kernel single = {.name = "fill"}, k = {.name = "fill", .model = 3, .call = 1};
        cJSON *object = cJSON_Parse(rows[i].object);

        ck_assert_ptr_nonnull(object);
        ck_assert_int_eq(dump_data_has(object, &single, "", DUMP_OUTPUT), rows[i].single);
        ck_assert_int_eq(dump_data_has(object, &k, "m", DUMP_OUTPUT), rows[i].fill_1);
        ck_assert_int_eq(dump_data_has(object, &k, "m", DUMP_INPUT), rows[i].input);
        k.execution = 5;
        ck_assert_int_eq(dump_data_has(object, &k, "m", DUMP_OUTPUT), rows[i].execution_5);
        k.execution = 0;
        k.call = 11;
        ck_assert_int_eq(dump_data_has(object, &k, "m", DUMP_OUTPUT), rows[i].fill_11);
        cJSON_Delete(object);
    }
}
END_TEST

/* Not when it was submitted: npud does not run meanwhile. */
START_TEST(a_task_begins_when_its_engine_does)
{
    aclrtStream one, two;
    const cJSON *event;
    cJSON *events;
    uint64_t later;
    double begin = 0;

    if (npud_is_restartable() || !need_one_server(__func__, "it is stopped"))
        return;
    streams_open(&one, &two);
    start_all();
    child_stop(npud_server_pid());
    OK(aclnpudLaunchDelay(0, 0, one));
    later = now_ns();
    ck_assert_int_eq(kill(npud_server_pid(), SIGCONT), 0);
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "delay"), 1);
    cJSON_ArrayForEach (event, events)
        if (strcmp(text_of(event, "cat"), "task") == 0)
            begin = cJSON_GetNumberValue(cJSON_GetObjectItem(event, "ts"));
    ck_assert_double_ge(begin, (double)later / 1e3);
    cJSON_Delete(events);
    session_close();
}
END_TEST

/* A file that has reached its limit grows no more, and stays whole. */
START_TEST(a_file_has_a_limit)
{
    struct profile_file f;
    struct stat st;
    cJSON *events;
    char path[128];

    profile_file_init(&f);
    profile_file_put(&f, "\"dropped\":true"); /* not begun */
    ck_assert_int_eq(profile_file_begin(&f, output, "files", 200000), 0);
    ck_assert(profile_file_is_empty(&f));
    for (int i = 0; i < 20000; i++)
        profile_file_put(&f, "\"number\":%d", i);
    ck_assert_int_eq(profile_file_end(&f), 0);
    profile_file_put(&f, "\"dropped\":true");
    snprintf(path, sizeof(path), "%s/files/trace_%d.json", output, (int)getpid());
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_ge(st.st_size, 199000);
    ck_assert_int_le(st.st_size, 201000);
    events = read_events("files/trace_*.json");
    ck_assert_int_gt(cJSON_GetArraySize(events), 4000);
    ck_assert_int_eq(
        (int)cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetArrayItem(events, 77), "number")),
        77);
    cJSON_Delete(events);
}
END_TEST

START_TEST(text_becomes_json)
{
    static const struct {
        const char *text, *quoted;
    } rows[] = {
        {"", "\"\""},
        {"a\"\\\t\x7f", "\"a\\\"\\\\\\u0009\\u007f\""},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff \xc3 \xe2\x82", "\"? ? ??\""},
        {"\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80", "\"?? ??? ????\""},
        {"\xe0\x9f\xbf \xf0\x8f\xbf\xbf", "\"??? ????\""},
    };
    char out[PROFILE_QUOTED(64)];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_str_eq(profile_quote(out, rows[i].text), rows[i].quoted);
}
END_TEST

/* What npuctl dumps of a trace. */
static void expect_in_trace(const char *const *texts, size_t n)
{
    int status;
    char *dump = npuctl("trace dump", &status);

    ck_assert_int_eq(status, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strstr(dump, texts[i]), "%s is not in the trace", texts[i]);
    free(dump);
}

START_TEST(stamps_are_in_a_trace)
{
    static const char *const texts[] = {"a mark", "pushed", "ranged", "of a tool", "on a stream"};
    aclrtStream one, two;
    uint32_t range;
    uint64_t id;
    void *stamp;

    streams_open(&one, &two);
    npuctl_says("trace start", 0, "");
    OK(aclnpudTraceRangeStart("of a tool", &id)); /* without a profile */
    ck_assert_uint_ne(id, 0);
    OK(aclnpudTraceRangeStop(id));
    start_all();
    stamp = aclprofCreateStamp();
    OK(aclprofSetStampTraceMessage(stamp, "a mark", 6));
    OK(aclprofMark(stamp));
    OK(aclprofSetStampTraceMessage(stamp, "pushed", 6));
    OK(aclprofPush(stamp));
    OK(aclprofPop());
    OK(aclprofSetStampTraceMessage(stamp, "ranged", 6));
    OK(aclprofRangeStart(stamp, &range));
    OK(aclprofRangeStop(range));
    OK(aclnpudTraceMarkInStream("on a stream", one));
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    npuctl_says("trace stop", 0, "");
    expect_in_trace(texts, sizeof(texts) / sizeof(texts[0]));
    session_close();
}
END_TEST

/* --- ends --- */

static int submit_until_killed(void *arg)
{
    aclrtStream one, two;

    (void)arg;
    streams_open(&one, &two);
    start_all();
    /* More than what is kept in memory. */
    for (int i = 0; i < 4000; i++)
        OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtSynchronizeStream(one));
    turn_tell(&to_parent);
    for (;;)
        OK(aclnpudLaunchDelay(0, 0, one));
}

START_TEST(a_killed_process_leaves_whole_lines)
{
    cJSON *events;
    pid_t child;

    turns_init();
    child = child_start(submit_until_killed, NULL);
    turn_await(&to_parent);
    child_kill(child);
    events = read_events_left("PROF_*/device_0/trace_*.json");
    ck_assert_uint_ge(count_tasks(events, "delay"), 400);
    expect_in_order(events);
    cJSON_Delete(events);
}
END_TEST

static int exit_collecting(void *arg)
{
    aclrtStream one, two;

    (void)arg;
    streams_open(&one, &two);
    start_all();
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtSynchronizeStream(one));
    exit(0);
}

START_TEST(a_process_that_exits_writes_the_rest)
{
    cJSON *events;

    child_expect_ok(child_start(exit_collecting, NULL));
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, NULL), 1);
    cJSON_Delete(events);
}
END_TEST

static void *submit_for_ever(void *stream)
{
    OK(aclrtSetDevice(0));
    for (;;)
        OK(aclnpudLaunchDelay(0, 0, stream));
    return NULL;
}

static int exit_beside_a_full_stream(void *arg)
{
    aclrtStream one, two;
    pthread_t thread;

    (void)arg;
    streams_open(&one, &two);
    start_all();
    OK(aclnpudLaunchDelay(0, 0, two));
    OK(aclrtSynchronizeStream(two));
    stream_hold(one);
    ck_assert_int_eq(pthread_create(&thread, NULL, submit_for_ever, one), 0);
    turn_await(&to_child);
    exit(0);
}

/* A thread that waits for room has its stream locked: the end of the process does not wait. */
START_TEST(an_exit_waits_for_no_stream)
{
    cJSON *events;
    pid_t child;

    turns_init();
    child = child_start(exit_beside_a_full_stream, NULL);
    EVENTUALLY(npud_lists_sleeper(child, "aclnpudLaunchDelay"), "no thread waits for room");
    turn_tell(&to_child);
    child_expect_ok(child);
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "delay"), 1);
    cJSON_Delete(events);
}
END_TEST

/* A forked child writes nothing into its parent's files, and may have a session of its own. */
START_TEST(a_forked_child_begins_anew)
{
    aclrtStream one, two;
    uint32_t range;
    cJSON *events;
    pid_t child;

    streams_open(&one, &two);
    start_all();
    OK(aclprofRangeStart(aclprofCreateStamp(), &range));
#ifdef __SANITIZE_THREAD__
    return; /* gcc 12's gives the threads of a child ids that it has given already */
#endif
    child = fork_when_quiet();
    if (child == 0) {
        ck_assert_ptr_null(aclprofCreateStamp());
        OK(aclInit(NULL));
        ck_assert_ptr_null(aclprofCreateStamp());
        OK(aclrtSetDevice(0));
        start_all();
        FAILS(-1, aclprofRangeStop(range));
        OK(aclnpudLaunchDelay(0, 0, NULL));
        OK(aclrtSynchronizeDevice());
        OK(aclprofFinalize());
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        _exit(0);
    }
    child_expect_ok(child);
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    char own[64], childs[64];
    snprintf(own, sizeof(own), "PROF_*/device_0/trace_%d.json", (int)getpid());
    snprintf(childs, sizeof(childs), "PROF_*/device_0/trace_%d.json", (int)child);
    events = read_events(own);
    ck_assert_uint_eq(count_tasks(events, NULL), 1);
    cJSON_Delete(events);
    events = read_events(childs);
    ck_assert_uint_eq(count_tasks(events, NULL), 1);
    cJSON_Delete(events);
    session_close();
}
END_TEST

/* --- tasks that never run --- */

START_TEST(discarded_tasks_have_no_times)
{
    aclrtStream one, two;
    aclrtEvent gate;
    cJSON *events;

    streams_open(&one, &two);
    start_all();
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtSynchronizeStream(one));
    gate = stream_hold(one);
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtStreamAbort(one));
    OK(aclnpudLaunchDelay(0, 0, one));
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "delay"), 2);
    expect_in_order(events);
    cJSON_Delete(events);
    OK(aclrtDestroyEvent(gate));
    session_close();
}
END_TEST

#define MANY 3000 /* more than a ring has room for */

static void *submit_many(void *stream)
{
    OK(aclrtSetDevice(0));
    for (int i = 0; i < MANY; i++)
        OK(aclnpudLaunchDelay(0, 0, stream));
    return NULL;
}

/* A thread waits for room, which stamps take as well. */
START_TEST(a_full_ring_loses_no_task)
{
    aclrtStream one, two;
    pthread_t thread;
    aclrtEvent gate;
    cJSON *events;

    streams_open(&one, &two);
    start_all();
    gate = stream_hold(one);
    ck_assert_int_eq(pthread_create(&thread, NULL, submit_many, one), 0);
    EVENTUALLY(npud_lists_sleeper(getpid(), "aclnpudLaunchDelay"), "no thread waits for room");
    stream_let_go(gate);
    pthread_join(thread, NULL);
    OK(aclrtSynchronizeStream(one));
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "delay"), MANY);
    expect_in_order(events);
    cJSON_Delete(events);
    session_close();
}
END_TEST

/* --- beside other threads --- */

static _Atomic bool stop;

static void *submit_beside(void *arg)
{
    aclrtStream stream;

    OK(aclrtSetDevice(0));
    while (!atomic_load(&stop)) {
        OK(aclrtCreateStream(&stream));
        for (int i = 0; i < 50; i++)
            OK(aclnpudLaunchDelay(0, 0, stream));
        if (*(int *)arg & 1)
            OK(aclrtSynchronizeStream(stream));
        OK(aclrtDestroyStream(stream));
    }
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(starts_and_stops_beside_submissions)
{
    unsigned rounds = choose_effort(200, 2000);
    int numbers[3] = {0, 1, 2};
    pthread_t threads[3];
    cJSON *events;

    session_open();
    OK(aclprofInit(output, strlen(output)));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_beside, &numbers[i]), 0);
    for (unsigned i = 0; i < rounds; i++) {
        OK(aclprofStart(NULL));
        OK(aclnpudLaunchDelay(0, 0, NULL));
        OK(aclrtSynchronizeStream(NULL));
        OK(aclprofStop(NULL));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_ge(count_tasks(events, "delay"), rounds);
    cJSON_Delete(events);
    session_close();
}
END_TEST

/* Every task of every stream is there, once, whatever npud does meanwhile. */
static void collect_over_deaths(unsigned deaths)
{
    aclrtStream one, two;
    unsigned n = 0;
    cJSON *events;

    streams_open(&one, &two);
    start_all();
    for (unsigned i = 0; i <= deaths; i++) {
        for (unsigned k = 0; k < 300; k++, n++)
            OK(aclnpudLaunchDelay(k % 3, 0, one));
        if (i < deaths)
            npud_kill_server();
        OK(aclrtSynchronizeStream(one));
    }
    OK(aclprofFinalize());
    events = read_events("PROF_*/device_0/trace_*.json");
    ck_assert_uint_eq(count_tasks(events, "delay"), n);
    expect_in_order(events);
    cJSON_Delete(events);
    session_close();
}

static void setup_restartable(void)
{
    npud_start_restartable(NULL);
    ck_assert_ptr_nonnull(mkdtemp(output));
}

START_TEST(times_outlive_npud)
{
    collect_over_deaths(choose_effort(5, 50));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profiles and dumps");
    TCase *c = suite_case(suite, "kernels", 60, setup, teardown);

    tcase_add_test(c, a_task_has_the_name_of_its_kernel);
    tcase_add_test(c, a_graph_has_its_kernels);
    tcase_add_loop_test(c, a_failed_kernel_has_its_id_beside_stamps, 0, 2);
    tcase_add_loop_test(c, a_failed_kernel_leaves_its_arguments, 0, 2);
    tcase_add_test(c, nothing_is_dumped_when_nothing_is_on);
    tcase_add_test(c, arguments_are_dumped_once_for_each_size);
    tcase_add_test(c, a_dump_of_data_is_chosen);
    tcase_add_test(c, a_task_begins_when_its_engine_does);
    tcase_add_test(c, a_file_has_a_limit);
    tcase_add_test(c, text_becomes_json);
    tcase_add_test(c, stamps_are_in_a_trace);
    c = suite_case(suite, "ends", 60, setup, teardown);
    tcase_add_test(c, a_killed_process_leaves_whole_lines);
    tcase_add_test(c, a_process_that_exits_writes_the_rest);
    tcase_add_test(c, an_exit_waits_for_no_stream);
    tcase_add_test(c, a_forked_child_begins_anew);
    tcase_add_test(c, discarded_tasks_have_no_times);
    tcase_add_test(c, a_full_ring_loses_no_task);
    tcase_add_test(c, starts_and_stops_beside_submissions);
    c = suite_case(suite, "restarts", 120, setup_restartable, teardown);
    tcase_add_test(c, times_outlive_npud);
    return run_suite(suite);
}
