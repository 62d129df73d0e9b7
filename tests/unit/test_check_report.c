/* What npu-check shows of findings that were made by hand, and places of this very program. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "client/tools/npu-check/reports.h"
#include "client/tools/npu-check/suppress.h"
#include "client/tools/npu-check/words.h"
#include "proto/shm/check_file.h"
#include "tests/common/suite.h"

/* --- a world of two processes --- */

enum { PRODUCER, CONSUMER };
enum {
    PLACE_ALLOC,
    PLACE_RECORD,
    PLACE_SET,
    PLACE_IMPORT,
    PLACE_WAIT,
    PLACE_COPY,
    PLACE_UNKNOWN, /* its frame is in no file */
    PLACE_SELF,    /* of this program */
    PLACES
};
enum { STREAM_SET, STREAM_COPY, STREAMS };

/* Of this program, by the linker. */
extern const char __executable_start, etext;

#define LIBRARY_BIAS UINT64_C(0x7f0000000000)

static struct world world;
static struct findings findings;
static struct finding list[4];
static uint64_t frames[PLACES][8];

/* A return address in a public function, in a process that has the library at LIBRARY_BIAS. */
static uint64_t return_into(const char *function)
{
    static void *library;
    char path[PATH_MAX];
    Dl_info info;
    void *at;

    snprintf(path, sizeof(path), "%s/libaclclient.so.1", getenv("NPUD_BINDIR"));
    library = library ? library : dlopen(path, RTLD_NOW);
    ck_assert_msg(library, "%s", dlerror());
    at = dlsym(library, function);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_ne(dladdr(at, &info), 0);
    return (uint64_t)((char *)at - (char *)info.dli_fbase) + LIBRARY_BIAS + 2;
}

static void place_set(unsigned i, uint32_t process, const char *call, const char *file,
                      uint32_t line)
{
    struct world_place *p = &world.places[i];

    *p = (struct world_place){.process = process,
                              .n = 1,
                              .frames = frames[i],
                              .source_file = (char *)file,
                              .source_function = (char *)"step",
                              .source_line = line};
    frames[i][0] = return_into(call);
}

static void process_set(unsigned i, int pid, const char *program)
{
    static struct world_module modules[2][2];
    static char library[PATH_MAX], self[PATH_MAX];
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    ck_assert_int_gt(n, 0);
    snprintf(path, sizeof(path), "%s/libaclclient.so.1", getenv("NPUD_BINDIR"));
    ck_assert_ptr_nonnull(realpath(path, library));
    modules[i][0] = (struct world_module){.start = LIBRARY_BIAS,
                                          .end = LIBRARY_BIAS + (1 << 26),
                                          .bias = LIBRARY_BIAS,
                                          .path = library};
    modules[i][1] = (struct world_module){.bias = _r_debug.r_map->l_addr, .path = self};
    modules[i][1].start = (uint64_t)&__executable_start;
    modules[i][1].end = (uint64_t)&etext;
    world.processes[i] =
        (struct world_process){.pid = pid, .ended = true, .modules = modules[i], .n_modules = 2};
    snprintf(world.processes[i].program, sizeof(world.processes[i].program), "%s", program);
}

static void make_world(void)
{
    static struct world_process processes[2];
    static struct world_stream streams[STREAMS];
    static struct world_place places[PLACES];
    static char *texts[] = {(char *)"epoch 3"};

    world = (struct world){.processes = processes,
                           .n_processes = 2,
                           .streams = streams,
                           .n_streams = STREAMS,
                           .places = places,
                           .n_places = PLACES,
                           .texts = texts,
                           .n_texts = 1};
    process_set(PRODUCER, 4711, "producer");
    process_set(CONSUMER, 4712, "consumer");
    streams[STREAM_SET] = (struct world_stream){.process = PRODUCER, .id = 2};
    streams[STREAM_COPY] = (struct world_stream){.process = CONSUMER, .id = 1};
    place_set(PLACE_ALLOC, PRODUCER, "aclrtMalloc", "/src/prod.c", 22);
    place_set(PLACE_RECORD, PRODUCER, "aclrtRecordEvent", "/src/prod.c", 40);
    place_set(PLACE_SET, PRODUCER, "aclrtMemsetAsync", "/src/prod.c", 41);
    place_set(PLACE_IMPORT, CONSUMER, "aclrtIpcMemImportByKey", "/src/cons.c", 60);
    place_set(PLACE_WAIT, CONSUMER, "aclrtStreamWaitEvent", "/src/cons.c", 75);
    place_set(PLACE_COPY, CONSUMER, "aclrtMemcpyAsync", "/src/cons.c", 77);
    place_set(PLACE_UNKNOWN, PRODUCER, "aclrtFree", NULL, 0);
    frames[PLACE_UNKNOWN][1] = 0x1234;
    places[PLACE_UNKNOWN].n = 2;
    findings = (struct findings){.list = list, .n = 1, .size = 4};
    memset(list, 0, sizeof(list));
}

static struct act task(enum act_what what, uint32_t stream, uint32_t ordinal, uint32_t place)
{
    return (struct act){.what = (uint8_t)what,
                        .process = stream == STREAM_COPY ? CONSUMER : PRODUCER,
                        .place = place,
                        .stream = stream,
                        .ordinal = ordinal,
                        .thread = 4711,
                        .range = WORLD_NONE};
}

static struct act call(enum act_what what, uint32_t process, uint32_t place)
{
    return (struct act){.what = (uint8_t)what,
                        .process = process,
                        .place = place,
                        .stream = WORLD_NONE,
                        .thread = 4713,
                        .range = WORLD_NONE};
}

static void make_race(struct finding *x)
{
    *x = (struct finding){.kind = FINDING_RACE, .count = 1};
    x->first = task(ACT_WRITE, STREAM_SET, 3, PLACE_SET);
    x->second = task(ACT_READ, STREAM_COPY, 1, PLACE_COPY);
    x->memory.address = 0xb000000000;
    x->memory.size = x->memory.whole = 65536;
    x->memory.made = call(ACT_ALLOC, PRODUCER, PLACE_ALLOC);
    x->memory.imported = call(ACT_IMPORT, CONSUMER, PLACE_IMPORT);
    x->missing.kind = MISSING_WAIT_EARLIER;
    x->missing.wait = task(ACT_WAIT, STREAM_COPY, 0, PLACE_WAIT);
    x->missing.record = task(ACT_RECORD, STREAM_SET, 0, PLACE_RECORD);
    x->missing.event = OBJECT_IPC_EVENT;
    x->missing.event_number = 1;
}

/* --- what is shown --- */

static char *shown(bool verbose, const bool *suppressed)
{
    struct report r = {.world = &world,
                       .findings = &findings,
                       .suppressed = suppressed,
                       .verbose = verbose,
                       .symbols = symbols_make(&world)};
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    ck_assert_ptr_nonnull(f);
    report_write_text(&r, f);
    ck_assert_int_eq(fclose(f), 0);
    symbols_free(r.symbols);
    return text;
}

static void expect_text(const char *wanted)
{
    char *text = shown(false, NULL);

    ck_assert_str_eq(text, wanted);
    free(text);
}

#define RACE_TEXT                                                                                  \
    "npud check: race: write and read of device memory without an order between them\n"            \
    "  written by  aclrtMemsetAsync, stream 2 of process 4711 (producer), 3rd task, prod.c:41\n"   \
    "  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, cons.c:77\n"   \
    "  memory      65,536 bytes at 0xb000000000 (allocated by process 4711 at prod.c:22, "         \
    "imported by 4712 at cons.c:60)\n"                                                             \
    "  missing     stream 1 of process 4712 must wait for an event that is recorded "              \
    "after the write.\n"                                                                           \
    "              It waits for IPC event 1 (cons.c:75), but that was recorded before the write "  \
    "(prod.c:40).\n"

START_TEST(race)
{
    make_world();
    make_race(&list[0]);
    expect_text(RACE_TEXT "npud check: 1 finding in 2 processes: race 1\n");
    list[0].missing.kind = MISSING_WAIT;
    list[0].count = 1234;
    list[0].first.range = 0;
    list[0].memory.size = 1;
    list[0].memory.offset = 65535;
    expect_text(
        "npud check: race: write and read of device memory without an order between them "
        "(seen 1,234 times)\n"
        "  written by  aclrtMemsetAsync, stream 2 of process 4711 (producer), 3rd task, prod.c:41, "
        "in range \"epoch 3\"\n"
        "  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, cons.c:77\n"
        "  memory      1 byte at 0xb000000000, from byte 65,535 of 65,536 (allocated by process "
        "4711 at prod.c:22, imported by 4712 at cons.c:60)\n"
        "  missing     stream 1 of process 4712 must wait for an event that is recorded "
        "after the write.\n"
        "npud check: 1 finding in 2 processes: race 1\n");
}
END_TEST

START_TEST(race_of_a_thread)
{
    make_world();
    make_race(&list[0]);
    list[0].first = task(ACT_READ, STREAM_COPY, 12, PLACE_COPY);
    list[0].second = call(ACT_FREE, PRODUCER, PLACE_UNKNOWN);
    list[0].memory.size = 0;
    list[0].missing.kind = MISSING_SYNCHRONISE;
    list[0].memory.kind = CHECK_MEMORY_PINNED;
    expect_text(
        "npud check: race: read and free of pinned host memory without an order between them\n"
        "  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 12th task, "
        "cons.c:77\n"
        "  freed by    aclrtFree, the calling thread 4713 of process 4711 (producer), 0x1234\n"
        "              in an unknown function (0x1234)\n"
        "  missing     thread 4713 of process 4711 must synchronise stream 1 of process 4712 after "
        "the read.\n"
        "npud check: 1 finding in 2 processes: race 1\n");
}
END_TEST

START_TEST(each_kind)
{
    make_world();
    findings.n = 4;
    list[0] = (struct finding){.kind = FINDING_LEAK, .count = 1, .objects = 3};
    list[0].first = call(ACT_ALLOC, PRODUCER, PLACE_ALLOC);
    list[0].memory.size = 12288;
    list[1] = (struct finding){.kind = FINDING_EMPTY_WAIT, .count = 1, .object = OBJECT_EVENT};
    list[1].second = task(ACT_WAIT, STREAM_COPY, 0, PLACE_WAIT);
    list[2] = (struct finding){.kind = FINDING_IGNORED, .count = 1, .code = 507015};
    list[2].first = task(ACT_SUBMIT, STREAM_SET, 22, PLACE_SET);
    list[3] = (struct finding){.kind = FINDING_UNFINISHED, .count = 1};
    list[3].first = task(ACT_SUBMIT, STREAM_SET, 113, PLACE_SET);
    world.streams[STREAM_SET].is_default = true;
    world.processes[0].lost = true;
    world.processes[1].failed = true;
    expect_text(
        "npud check: leak: 3 allocations, in all 12,288 bytes of device memory, not given back "
        "when process 4711 (producer) ended\n"
        "  made by     aclrtMalloc, the calling thread 4713 of process 4711 (producer), prod.c:22\n"
        "npud check: empty-wait: wait for an event that was never recorded\n"
        "  waits in    aclrtStreamWaitEvent, stream 1 of process 4712 (consumer), cons.c:75\n"
        "npud check: ignored: a task failed with 507015 (ACL_ERROR_RT_AICORE_EXCEPTION), and no "
        "call has reported it\n"
        "  last task   aclrtMemsetAsync, default stream 2 of process 4711 (producer), 22nd task, "
        "prod.c:41\n"
        "npud check: unfinished: process 4711 (producer) ended with tasks that nothing has waited "
        "for\n"
        "  last task   aclrtMemsetAsync, default stream 2 of process 4711 (producer), 113th task, "
        "prod.c:41\n"
        "npud check: process 4711 (producer) ended without exit and aclFinalize: its leaks and "
        "unfinished tasks were not looked for\n"
        "npud check: process 4712 (consumer) could not write all that it did: findings may be "
        "missing; is the disk full?\n"
        "npud check: 4 findings in 2 processes: leak 1, unfinished 1, empty-wait 1, ignored 1\n");
}
END_TEST

START_TEST(memory_that_is_gone)
{
    make_world();
    findings.n = 3;
    list[0] = (struct finding){.kind = FINDING_UNINITIALISED, .count = 1};
    list[0].second = task(ACT_READ, STREAM_COPY, 1, PLACE_COPY);
    list[0].memory.size = 28;
    list[0].memory.offset = 100;
    list[0].memory.whole = 128;
    list[0].memory.made = call(ACT_ALLOC, PRODUCER, PLACE_ALLOC);
    list[1] = list[0];
    list[1].kind = FINDING_USE_AFTER_FREE;
    list[1].first = call(ACT_FREE, PRODUCER, PLACE_ALLOC);
    list[2] = list[1];
    list[2].first.what = ACT_NONE;
    list[2].second.what = ACT_SUBMIT;
    list[2].memory.beyond = true;
    list[2].memory.made.what = ACT_NONE;
    expect_text(
        "npud check: uninitialised: read of device memory that nothing has written\n"
        "  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, cons.c:77\n"
        "  memory      28 bytes, from byte 100 of 128 (allocated by process 4711 at prod.c:22)\n"
        "npud check: use-after-free: use of device memory after it was freed\n"
        "  freed by    aclrtMalloc, the calling thread 4713 of process 4711 (producer), prod.c:22\n"
        "  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, cons.c:77\n"
        "  memory      28 bytes, from byte 100 of 128 (allocated by process 4711 at prod.c:22)\n"
        "npud check: use-after-free: use of device memory beyond its end\n"
        "  used by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, cons.c:77\n"
        "  memory      28 bytes, from byte 100 of 128\n"
        "npud check: 3 findings in 2 processes: uninitialised 1, use-after-free 2\n");
}
END_TEST

START_TEST(nothing)
{
    make_world();
    findings.n = 0;
    expect_text("npud check: no findings in 2 processes\n");
    world.n_processes = 1;
    expect_text("npud check: no findings in 1 process\n");
    world.n_processes = 0;
    expect_text("npud check: no findings: no process has used libaclclient\n");
}
END_TEST

/* Numbers of tables that are not there, as a mistake of the model would leave them. */
START_TEST(unknown_numbers)
{
    make_world();
    make_race(&list[0]);
    list[0].first.place = list[0].first.stream = list[0].first.process = 1000;
    list[0].first.ordinal = 0;
    list[0].second.place = WORLD_NONE;
    list[0].second.stream = WORLD_NONE;
    list[0].second.process = 1000;
    list[0].missing.kind = MISSING_NONE;
    list[0].memory.size = 0;
    expect_text("npud check: race: write and read of device memory without an order between them\n"
                "  written by  a call, an unknown stream\n"
                "  read by     a call, the calling thread 4711 of an unknown process\n"
                "npud check: 1 finding in 2 processes: race 1\n");
}
END_TEST

/* --- places of this program --- */

static uint64_t place_of_call;
static uint32_t line_of_call, line_of_inlined, line_in_outer;

static void __attribute__((noinline)) note_caller(void)
{
    place_of_call = (uint64_t)__builtin_return_address(0);
}

static inline void __attribute__((always_inline)) call_inlined(void)
{
    line_of_call = __LINE__ + 1;
    note_caller();
    line_of_inlined++; /* no tail call */
}

static void __attribute__((noinline)) call_outer(void)
{
    line_in_outer = __LINE__ + 1;
    call_inlined();
    line_of_inlined++;
}

START_TEST(lines_of_a_program)
{
    struct symbols *s;
    const struct place_frames *p;

    make_world();
    call_outer();
    frames[PLACE_SELF][0] = return_into("aclrtSynchronizeStream");
    frames[PLACE_SELF][1] = return_into("aclrtMemcpyAsync");
    frames[PLACE_SELF][2] = place_of_call;
    frames[PLACE_SELF][3] = return_into("aclrtMalloc"); /* a thread of the library's */
    world.places[PLACE_SELF] = (struct world_place){.n = 4, .frames = frames[PLACE_SELF]};
    s = symbols_make(&world);
    p = symbols_find(s, PLACE_SELF);
    ck_assert_str_eq(p->call, "aclrtMemcpyAsync");
    ck_assert_uint_eq(p->n, 2);
    ck_assert_str_eq(p->frames[0].function, "call_inlined");
    ck_assert_str_eq(path_name(p->frames[0].file), "test_check_report.c");
    ck_assert_uint_eq(p->frames[0].line, line_of_call);
    ck_assert_str_eq(p->frames[1].function, "call_outer");
    ck_assert_str_eq(path_name(p->frames[1].file), "test_check_report.c");
    ck_assert_int_eq(p->frames[1].file[0], '/');
    ck_assert_uint_eq(p->frames[1].line, line_in_outer);
    ck_assert_ptr_eq(symbols_find(s, PLACE_SELF), p);
    symbols_free(s);
}
END_TEST

/* No file, a FIFO in its place, and a file that is not ELF: the offset is what is known. */
START_TEST(files_that_do_not_tell)
{
    char directory[] = "/tmp/check_report_XXXXXX", fifo[64], text[64];
    const char *const paths[] = {"/nonexistent", "relative", "/dev/zero", fifo, text};

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
    snprintf(text, sizeof(text), "%s/text", directory);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    fclose(fopen(text, "w"));
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct symbols *s;
        const struct place_frames *p;

        make_world();
        world.processes[0].modules[1] = (struct world_module){
            .start = 0x1000, .end = 0x2000, .bias = 0x1000, .path = (char *)paths[i]};
        frames[PLACE_SELF][0] = 0x1234;
        frames[PLACE_SELF][1] = 0x2000; /* the call was the last instruction */
        world.places[PLACE_SELF] = (struct world_place){.n = 2, .frames = frames[PLACE_SELF]};
        s = symbols_make(&world);
        p = symbols_find(s, PLACE_SELF);
        ck_assert_ptr_null(p->call);
        ck_assert_uint_eq(p->n, 2);
        ck_assert_ptr_null(p->frames[0].function);
        ck_assert_str_eq(p->frames[0].object, paths[i]);
        ck_assert_uint_eq(p->frames[0].offset, 0x234);
        ck_assert_str_eq(p->frames[1].object, paths[i]);
        symbols_free(s);
    }
    unlink(fifo);
    unlink(text);
    rmdir(directory);
}
END_TEST

/* The module `acl` is neither the program nor the library, also where it is called back. */
START_TEST(frames_of_the_module_acl)
{
    struct symbols *s;
    const struct place_frames *p;

    make_world();
    world.processes[0].modules[1] =
        (struct world_module){.start = 0x1000,
                              .end = 0x2000,
                              .path = (char *)"/nonexistent/acl.cpython-311-x86_64-linux-gnu.so"};
    frames[PLACE_SELF][0] = return_into("aclrtMemcpyAsync");
    frames[PLACE_SELF][1] = 0x1234;
    frames[PLACE_SELF][2] = 0x9000; /* of the interpreter */
    frames[PLACE_SELF][3] = 0x1234;
    frames[PLACE_SELF][4] = return_into("aclrtMalloc");
    world.places[PLACE_SELF] = (struct world_place){.n = 5, .frames = frames[PLACE_SELF]};
    s = symbols_make(&world);
    p = symbols_find(s, PLACE_SELF);
    ck_assert_str_eq(p->call, "aclrtMemcpyAsync");
    ck_assert_uint_eq(p->n, 1);
    ck_assert_uint_eq(p->frames[0].offset, 0x9000);
    symbols_free(s);
}
END_TEST

START_TEST(verbose_frames)
{
    char *text;

    make_world();
    make_race(&list[0]);
    text = shown(true, NULL);
    ck_assert_ptr_nonnull(strstr(text, "3rd task, /src/prod.c:41\n"
                                       "              in step (/src/prod.c:41)\n"));
    free(text);
}
END_TEST

/* --- suppressions --- */

static char file[] = "/tmp/check_supp_XXXXXX";

static void make_file(const char *text)
{
    FILE *f;
    int fd;

    strcpy(file, "/tmp/check_supp_XXXXXX");
    fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    f = fdopen(fd, "w");
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* Whether suppressions of this text leave out the first finding. */
static bool leaves_out(const char *text)
{
    struct suppression *all = NULL;
    struct symbols *s = symbols_make(&world);
    bool match;

    make_file(text);
    ck_assert(suppressions_read(&all, file));
    unlink(file);
    match = suppressions_match(all, s, &list[0]);
    suppressions_free(all);
    symbols_free(s);
    return match;
}

START_TEST(suppress)
{
    make_world();
    make_race(&list[0]);
    ck_assert(leaves_out("# a comment\n\n{\n a name\n race\n}\n"));
    ck_assert(leaves_out("{\n first\n *\n}\n"));
    ck_assert(!leaves_out(""));
    ck_assert(!leaves_out("{\nx\nleak\n}\n"));
    ck_assert(leaves_out("{\nx\nleak\n}\n{\ny\nrace\n}"));
    ck_assert(leaves_out("{\nx\nrace\nfun:aclrtMem*Async\nfun:step\n}\n"));
    ck_assert(!leaves_out("{\nx\nrace\nfun:aclrtMem*Async\nfun:step\nfun:main\n}\n"));
    ck_assert(leaves_out("{\nx\nrace\nfirst\nfun:aclrtMemset*\nsecond\nfun:aclrtMemcpy*\n}\n"));
    /* The other way round, as another run may tell it. */
    ck_assert(leaves_out("{\nx\nrace\nfirst\nfun:aclrtMemcpy*\nsecond\nfun:aclrtMemset*\n}\n"));
    ck_assert(!leaves_out("{\nx\nrace\nfirst\nfun:aclrtMemset*\nsecond\nfun:aclrtMemset*\n}\n"));
    ck_assert(leaves_out("{\nx\nrace\n...\nsrc:cons.c:*\n}\n"));
    ck_assert(leaves_out("{\nx\nrace\n...\nsrc:/src/cons.c:77\n}\n"));
    ck_assert(!leaves_out("{\nx\nrace\n...\nsrc:cons.c:78\n}\n"));
    ck_assert(!leaves_out("{\nx\nrace\n...\nfun:step\nfun:step\n}\n"));
    ck_assert(!leaves_out("{\nx\nrace\n...\nobj:*\n}\n"));
    list[0].kind = FINDING_LEAK;
    list[0].second.what = ACT_NONE;
    ck_assert(leaves_out("{\nx\nleak\nfun:aclrtMemset*\n}\n"));
    ck_assert(!leaves_out("{\nx\nleak\nsecond\n...\n}\n"));
}
END_TEST

START_TEST(suppressions_that_are_wrong)
{
    static const char *const wrong[] = {
        "x\n",
        "{\n",
        "{\nx\n}\n",
        "{\nx\nnonsense\n}\n",
        "{\nx\nrace\n",
        "}\n",
        "{\nx\nrace\nfoo:x\n}\n",
        "{\nx\nrace\nfun:\n}\n",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct suppression *all = NULL;

        make_file(wrong[i]);
        ck_assert_msg(!suppressions_read(&all, file), "%s", wrong[i]);
        unlink(file);
        ck_assert(!suppressions_read(&all, file));
        suppressions_free(all);
    }
}
END_TEST

/* What a run writes leaves out what it has found. */
/* A function without a name, one whose name has a blank at its end, and a file without a name. */
START_TEST(suppressions_of_odd_names)
{
    static char names[][8] = {"", "a ", "\n", "*[", "\\"};
    struct report r = {.world = &world, .findings = &findings};
    struct suppression *all = NULL;
    struct world_place *place;
    char *before;

    make_world();
    make_race(&list[0]);
    place = &world.places[list[0].second.place];
    before = place->source_function;
    place->source_file = place->source_function = names[_i];
    r.symbols = symbols_make(&world);
    make_file("");
    ck_assert(suppressions_write(&r, file));
    ck_assert(suppressions_read(&all, file));
    ck_assert(suppressions_match(all, r.symbols, &list[0]));
    suppressions_free(all);
    symbols_free(r.symbols);
    unlink(file);
    place->source_file = place->source_function = before;
}
END_TEST

/* A program says what its ranges are called, and a terminal obeys. */
START_TEST(text_has_no_control_characters)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    words_put_text(f, "a\x1b[2J\x7f\nb\xc2\x9b!");
    fclose(f);
    ck_assert_str_eq(text, "a\\x1b[2J\\x7f\\x0ab\\xc2\\x9b!");
    free(text);
}
END_TEST

START_TEST(suppressions_written)
{
    struct report r = {.world = &world, .findings = &findings};
    struct suppression *all = NULL;
    bool suppressed[1] = {true};
    char *text;

    make_world();
    make_race(&list[0]);
    r.symbols = symbols_make(&world);
    make_file("");
    ck_assert(suppressions_write(&r, file));
    ck_assert(suppressions_read(&all, file));
    ck_assert(suppressions_match(all, r.symbols, &list[0]));
    list[0].second.place = PLACE_WAIT;
    ck_assert(!suppressions_match(all, r.symbols, &list[0]));
    suppressions_free(all);
    symbols_free(r.symbols);
    unlink(file);
    text = shown(false, suppressed);
    ck_assert_str_eq(text, "npud check: no findings in 2 processes (1 suppressed)\n");
    free(text);
}
END_TEST

/* --- files for programs --- */

static cJSON *parsed(char *text)
{
    cJSON *o = cJSON_Parse(text);

    ck_assert_ptr_nonnull(o);
    free(text);
    return o;
}

/* "a.b.0.c" of *o. */
static const cJSON *at(const cJSON *o, const char *path)
{
    char copy[128], *rest = copy;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *name = strsep(&rest, "."); name && o; name = strsep(&rest, "."))
        o = cJSON_IsArray(o) ? cJSON_GetArrayItem(o, atoi(name))
                             : cJSON_GetObjectItemCaseSensitive(o, name);
    ck_assert_msg(o, "%s", path);
    return o;
}

static const char *text_at(const cJSON *o, const char *path)
{
    const char *text = cJSON_GetStringValue(at(o, path));

    ck_assert_msg(text, "%s", path);
    return text;
}

START_TEST(json)
{
    struct report r = {.world = &world, .findings = &findings};
    cJSON *o;

    make_world();
    make_race(&list[0]);
    strcpy(world.processes[1].program, "a\xff\xc3\xa4");
    r.symbols = symbols_make(&world);
    o = parsed(report_make_json(&r));
    ck_assert_str_eq(text_at(o, "findings.0.kind"), "race");
    ck_assert_str_eq(text_at(o, "findings.0.first.what"), "write");
    ck_assert_str_eq(text_at(o, "findings.0.first.call"), "aclrtMemsetAsync");
    ck_assert_str_eq(text_at(o, "findings.0.first.frames.0.file"), "/src/prod.c");
    ck_assert_double_eq(at(o, "findings.0.first.frames.0.line")->valuedouble, 41);
    ck_assert_double_eq(at(o, "findings.0.first.stream.task")->valuedouble, 3);
    ck_assert_str_eq(text_at(o, "findings.0.memory.address"), "0xb000000000");
    ck_assert_str_eq(text_at(o, "findings.0.missing.kind"), "wait-earlier");
    ck_assert_str_eq(text_at(o, "processes.1.program"), "a\xef\xbf\xbd\xc3\xa4");
    ck_assert_double_eq(at(o, "summary.kinds.race")->valuedouble, 1);
    ck_assert_double_eq(at(o, "summary.kinds.leak")->valuedouble, 0);
    cJSON_Delete(o);
    symbols_free(r.symbols);
}
END_TEST

static char *fingerprint(const struct report *r)
{
    cJSON *o = parsed(report_make_sarif(r));
    char *text = strdup(text_at(o, "runs.0.results.0.partialFingerprints.npudCallStacks/v1"));

    cJSON_Delete(o);
    return text;
}

START_TEST(sarif)
{
    struct report r = {.world = &world, .findings = &findings};
    char *before, *after;
    cJSON *o;

    make_world();
    make_race(&list[0]);
    r.symbols = symbols_make(&world);
    o = parsed(report_make_sarif(&r));
    ck_assert_str_eq(text_at(o, "version"), "2.1.0");
    ck_assert_str_eq(text_at(o, "runs.0.tool.driver.rules.6.id"), "ignored");
    ck_assert_str_eq(text_at(o, "runs.0.results.0.ruleId"), "race");
#define LOCATION "runs.0.results.0.locations.0.physicalLocation."
    ck_assert_str_eq(text_at(o, LOCATION "artifactLocation.uri"), "file:///src/cons.c");
    ck_assert_double_eq(at(o, LOCATION "region.startLine")->valuedouble, 77);
    ck_assert_int_eq(cJSON_GetArraySize(at(o, "runs.0.results.0.relatedLocations")), 5);
    cJSON_Delete(o);
    before = fingerprint(&r);
    world.processes[0].pid = 9;
    after = fingerprint(&r);
    ck_assert_str_eq(before, after);
    free(after);
    list[0].first.place = PLACE_RECORD;
    after = fingerprint(&r);
    ck_assert_str_ne(before, after);
    free(after);
    free(before);
    symbols_free(r.symbols);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_report");
    TCase *tc = suite_case(suite, "text", 60, NULL, NULL);

    tcase_add_test(tc, race);
    tcase_add_test(tc, race_of_a_thread);
    tcase_add_test(tc, each_kind);
    tcase_add_test(tc, memory_that_is_gone);
    tcase_add_test(tc, nothing);
    tcase_add_test(tc, unknown_numbers);
    tcase_add_test(tc, verbose_frames);
    tc = suite_case(suite, "symbols", 60, NULL, NULL);
    tcase_add_test(tc, lines_of_a_program);
    tcase_add_test(tc, files_that_do_not_tell);
    tcase_add_test(tc, frames_of_the_module_acl);
    tc = suite_case(suite, "suppressions", 60, NULL, NULL);
    tcase_add_test(tc, suppress);
    tcase_add_test(tc, suppressions_that_are_wrong);
    tcase_add_test(tc, suppressions_written);
    tcase_add_loop_test(tc, suppressions_of_odd_names, 0, 5);
    tcase_add_test(tc, text_has_no_control_characters);
    tc = suite_case(suite, "files", 60, NULL, NULL);
    tcase_add_test(tc, json);
    tcase_add_test(tc, sarif);
    return run_suite(suite);
}
