/*
 * What npuctl prints for people, to which users it prints it, and what npud logs about the process
 * that asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define SECOND_USER 65534

static const char *bin_dir(void)
{
    const char *dir = getenv("NPUD_BINDIR");

    return dir ? dir : "build";
}

/* Asserts that the text has these words in this order. */
static void in_order(const char *text, const char *const *words)
{
    const char *p = text;

    for (; *words; words++) {
        p = strstr(p, *words);
        ck_assert_msg(p, "no \"%s\" where it should be in:\n%s", *words, text);
        p += strlen(*words);
    }
}

static void says_in_order(const char *arguments, const char *const *words)
{
    int status;
    char *text = npuctl(arguments, &status);

    ck_assert_int_eq(status, 0);
    in_order(text, words);
    free(text);
}

/* --- tables --- */

START_TEST(sizes_are_for_people_unless_exact_ones_are_asked_for)
{
    void *p;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&p, 5 << 19, ACL_MEM_MALLOC_NORMAL_ONLY));
    npuctl_says("memory", 0, " 2.5MiB ");
    npuctl_says("--bytes memory", 0, " 2621440 ");
    npuctl_says("-b sessions", 0, " 2621440 ");
    npuctl_says("--json memory", 0, "\"size\":2621440,");
    npuctl_says("status", 0, "memory-bytes: 2.5MiB\n");
    says_in_order("limits",
                  (const char *const[]){"device_memory", "2.5MiB", "sessions", " 1 ", NULL});
    OK(aclrtFree(p));
}
END_TEST

START_TEST(rows_are_sorted)
{
    aclrtStream stream;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 11; i++)
        OK(aclrtCreateStream(&stream));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&stream));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    says_in_order("--json limits",
                  (const char *const[]){"admins", "device_memory", "\"events\"", "\"fds\"",
                                        "host_memory", "ipc_events", "mappings", "mbuf_memory",
                                        "notifies", "\"queues\"", "routes", "sessions", "streams",
                                        "table_memory", "unread_fds", NULL});
    says_in_order("--json streams",
                  (const char *const[]){"\"device\":0,\"stream\":2,", "\"device\":0,\"stream\":9,",
                                        "\"device\":0,\"stream\":10,", "\"device\":1,", NULL});
}
END_TEST

static char *memory_key; /* shared */

static int export_memory(void *arg)
{
    void *p;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtIpcMemGetExportKey(p, 4096, memory_key, 65,
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtFree(p));
    turn_tell(&to_parent);
    pause();
    return 0;
}

/* What the row of our import says of the memory. */
static void expect_import(pid_t pid, unsigned holders, const char *maker)
{
    char wanted[160];

    snprintf(wanted, sizeof(wanted),
             "\"role\":\"imported\",\"pages\":1,\"holders\":%u,\"maker_pid\":%d,\"maker\":\"%s\"}",
             holders, (int)pid, maker);
    npuctl_says("--json memory", 0, wanted);
}

/* Of each device, for people, for programs, and as a metric; and not where npud has one user. */
START_TEST(limits_tell_the_share_of_a_device)
{
    static const char *const args[] = {"--set=sim.memory=1000M", "--set=sim.devices=2", NULL};
    void *p;

    npuctl_says("limits | grep -c device_share", 1, "0\n");
    npud_teardown();
    npud_start_shared(args);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtMalloc(&p, (size_t)100 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    says_in_order("limits", (const char *const[]){"device_share.0", " 0 ", "900MiB",
                                                  "device_share.1", "100MiB", "900MiB", NULL});
    npuctl_says("--json limits", 0,
                "\"resource\":\"device_share.1\",\"used\":104857600,\"limit\":943718400");
    npuctl_says("metrics | grep npud_user_memory_limit_bytes", 0,
                "resource=\"device_share.1\"} 943718400\n");
}
END_TEST

START_TEST(shared_memory_tells_of_its_maker)
{
    void *own, *imported;
    pid_t pid;

    memory_key = child_share(65);
    turns_init();
    pid = child_start(export_memory, NULL);
    turn_await(&to_parent);
    npuctl_says("--json memory", 0, "\"role\":\"exported\",\"pages\":1,\"holders\":1,");
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&own, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    npuctl_says("--json memory", 0, "\"role\":\"own\",\"pages\":0,\"holders\":1,");
    OK(aclrtIpcMemImportByKey(&imported, memory_key, 0));
    expect_import(pid, 2, "holds");
    says_in_order("memory", (const char *const[]){"ROLE", "PAGES", "HOLDERS", "MAKER-PID", "MAKER",
                                                  " imported ", " holds\n", NULL});
    turn_tell(&to_child);
    turn_await(&to_parent);
    expect_import(pid, 1, "left");
    child_kill(pid);
    npud_await_sessions(1);
    expect_import(pid, 1, "left");
    OK(aclrtIpcMemClose(memory_key));
    OK(aclrtFree(own));
}
END_TEST

/* What it was depends on the machine. */
START_TEST(status_tells_the_longest_steps)
{
    aclrtStream stream;
    char uid[64];
    void *p;

    if (!need_one_server(__func__, "the longest steps of its life"))
        return;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemsetAsync(p, 1 << 20, 1, 1 << 20, stream));
    OK(aclrtSynchronizeStream(stream));
    snprintf(uid, sizeof(uid), "longest-step-uid: %u\n", (unsigned)geteuid());
    says_in_order("status",
                  (const char *const[]){"longest-step-us: ", "longest-step: ", uid,
                                        "longest-engine-step-us: ", "longest-engine-step: ", NULL});
    says_in_order("--json status",
                  (const char *const[]){"\"longest_step\":\"", "\"longest_engine_step\":\"", NULL});
    for (int i = 0; i < 2; i++) {
        const char *empty = i == 0 ? "\"longest_step\":\"\"" : "\"longest_engine_step\":\"\"";
        int status;
        char *text = npuctl("--json status", &status);

        ck_assert_msg(!strstr(text, empty), "%s", text);
        free(text);
    }
    OK(aclrtFree(p));
}
END_TEST

/* Says Hello under a name that looks like more columns than one, and waits until it is killed. */
static int client_with_blanks(void *arg)
{
    aclrtStream one, two;

    program_invocation_short_name = (char *)"idle 7  7\t0B";
    streams_open(&one, &two);
    turn_tell(arg);
    pause();
    return 0;
}

START_TEST(a_name_stays_one_column)
{
    struct turn up;
    pid_t pid;

    turn_init(&up);
    pid = child_start(client_with_blanks, &up);
    turn_await(&up);
    npuctl_says("sessions", 0, " idle:7\\x20\\x207\\x090B ");
    npuctl_says("--json sessions", 0, "\"idle 7  7\\t0B\"");
    child_kill(pid);
    npud_await_sessions(0);
}
END_TEST

START_TEST(an_unknown_command_has_a_nearest_one)
{
    static const char *const words[][2] = {
        {"sesions", "(did you mean sessions?)"}, {"stat", "(did you mean status?)"},
        {"qeues", "(did you mean queues?)"},     {"deivces", "(did you mean devices?)"},
        {"kil", "(did you mean kill?)"},         {"tpo", "(did you mean top?)"},
        {"Memory", "(did you mean memory?)"},    {"device", "(did you mean devices?)"},
    };
    static const char *const none[] = {"ps", "xyzzy", "s", "abcdefghijklmnopqrstuvwxyz", "''"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        npuctl_says(words[i][0], 2, words[i][1]);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        npuctl_says(none[i], 2, "no such command: ");
}
END_TEST

/* --- names that are no text --- */

static const char *const no_text[] = {"\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xed\xa0\x80",
                                      "\xc0\xaf\xe0\x80\xaf", "\xfd\xbf\xbf\xbf\xbf\xbf"};

/* Wherever a program gives a name: itself, a thread, a queue, a mark, a range. */
static int client_with_no_text(void *arg)
{
    acltdtQueueAttr *attr;
    aclrtStream one, two;
    uint32_t queue;
    aclrtEvent gate;

    program_invocation_short_name = (char *)no_text[*(int *)arg];
    prctl(PR_SET_NAME, no_text[*(int *)arg]);
    streams_open(&one, &two);
    attr = acltdtCreateQueueAttr();
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(char *), &no_text[*(int *)arg]));
    OK(acltdtCreateQueue(attr, &queue));
    OK(aclnpudTraceMark(no_text[*(int *)arg]));
    OK(aclnpudTraceRangeBegin(no_text[*(int *)arg]));
    OK(aclnpudTraceRangeEnd());
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(one, gate));
    turn_tell(&to_parent);
    OK(aclrtSynchronizeStream(one));
    return 0;
}

/* The sequences above, and nothing else that a test of this suite prints, begin with such bytes. */
static void expect_text(const char *arguments)
{
    int status;
    char *text = npuctl(arguments, &status);

    ck_assert_int_eq(status, 0);
    ck_assert(!strstr(arguments, "streams") == !!strstr(text, "\xef\xbf\xbd"));
    for (const char *c = text; *c; c++) {
        unsigned char u = (unsigned char)*c;

        ck_assert_msg(u < 0xf4 && u != 0xc0 && !(u == 0xed && (unsigned char)c[1] >= 0xa0) &&
                          !(u == 0xe0 && (unsigned char)c[1] < 0xa0),
                      "%s prints the byte %02x: %s", arguments, u, text);
    }
    free(text);
}

START_TEST(names_that_are_no_text_are_replaced)
{
    static const char *const outputs[] = {
        "--json sessions",    "--json streams",    "--json waits",
        "--json queues",      "--json top --once", "--json explain",
        "--json who queue 0", "trace dump",        "trace dump --html"};
    pid_t pid;

    turns_init();
    npuctl_says("trace start", 0, "");
    pid = child_start(client_with_no_text, &_i);
    turn_await(&to_parent);
    EVENTUALLY(npud_lists_sleeper(pid, "aclrtSynchronizeStream"), "the client does not wait");
    for (unsigned i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        expect_text(outputs[i]);
    child_kill(pid);
    npud_await_sessions(0);
}
END_TEST

START_TEST(records_of_every_event_are_counted)
{
    aclrtStream stream, other;
    aclrtEvent plain, timed;

    streams_open(&stream, &other);
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventWithFlag(&timed, ACL_EVENT_TIME_LINE));
    for (int i = 0; i < 3; i++)
        OK(aclrtRecordEvent(plain, stream));
    npuctl_says("--json events", 0, "\"records\":3,");
    for (int i = 0; i < 5; i++)
        OK(aclrtRecordEvent(timed, stream));
    npuctl_says("--json events", 0, "\"records\":5,");
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyEvent(timed));
    OK(aclrtCreateEvent(&plain));
    npuctl_says("--json events", 0, "\"records\":0,");
}
END_TEST

/* --- output --- */

static int status_of(const char *program, const char *arguments)
{
    char command[256];

    snprintf(command, sizeof(command), "exec %s/%s %s >/dev/full 2>&1", bin_dir(), program,
             arguments);
    return WEXITSTATUS(system(command));
}

START_TEST(what_could_not_be_printed_is_a_failure)
{
    const char *const options[] = {"--version", "--help"};

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(status_of("npuctl", options[i]), 1);
        ck_assert_int_eq(status_of("npud", options[i]), 1);
        ck_assert_int_ne(status_of("npu-run", options[i]), 0);
    }
    ck_assert_int_eq(status_of("npuctl", "sessions"), 1);
}
END_TEST

#define STEP_MS 20
#define MISSED  30 /* reports, while it is stopped */
#define LOOKED  15 /* at, afterwards */

START_TEST(a_watch_does_not_make_up_for_a_pause)
{
    const struct timespec pause_for = {.tv_nsec = MISSED * STEP_MS * 1000000L};
    char command[256], line[4096];
    uint64_t since;
    FILE *f;
    int pid;

    snprintf(command, sizeof(command), "echo $$; exec %s/npuctl --json --watch=0.0%d status",
             bin_dir(), STEP_MS);
    f = popen(command, "re");
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    pid = atoi(line);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    /* What is waited for here is nothing that happens: it is the pause itself. */
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    nanosleep(&pause_for, NULL);
    ck_assert_int_eq(fcntl(fileno(f), F_SETFL, O_NONBLOCK), 0);
    while (fgets(line, sizeof(line), f))
        ;
    clearerr(f);
    ck_assert_int_eq(fcntl(fileno(f), F_SETFL, 0), 0);
    since = now_ns();
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    for (int i = 0; i < LOOKED; i++)
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    /* The first two may come at once: one that was under way, and the next at its even distance. */
    ck_assert_uint_ge(now_ns() - since, (LOOKED - 3) * STEP_MS * UINT64_C(1000000));
    kill(pid, SIGKILL);
    pclose(f);
}
END_TEST

/* --- the process that asks --- */

static void log_open(void)
{
    npud_stderr = memfd_create("log of npud", MFD_CLOEXEC);
    ck_assert_int_ge(npud_stderr, 0);
    npud_start((const char *const[]){"--verbose", NULL});
}

START_TEST(the_log_says_who_ended_a_session)
{
    char command[64], wanted[128], text[8192];
    struct turn up;
    ssize_t n;
    pid_t pid;
    Npud__Report *r;

    if (!need_one_server(__func__, "a killed one writes no line that it has not written"))
        return;
    log_open();
    turn_init(&up);
    pid = child_start(client_with_blanks, &up);
    turn_await(&up);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);
    snprintf(command, sizeof(command), "kill %llu", (unsigned long long)r->sessions[0]->session);
    npud__report__free_unpacked(r, NULL);
    npuctl_says(command, 0, "");
    npud_await_sessions(0);
    child_kill(pid);
    npud_teardown(); /* its log is written when it has ended */
    n = pread(npud_stderr, text, sizeof(text) - 1, 0);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    snprintf(wanted, sizeof(wanted), "ended on an administrator's request: of uid %u, pid ",
             (unsigned)geteuid());
    ck_assert_msg(strstr(text, wanted), "%s", text);
}
END_TEST

static int clients_socket(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_SOCKET"));
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static void become_second_user(void)
{
    if (setgroups(0, NULL) < 0 || setgid(SECOND_USER) < 0 || setuid(SECOND_USER) < 0)
        _exit(99);
}

/* So many of two streams wait; it has memory, too. */
static void begin_waiting(unsigned n, void *up)
{
    aclrtStream stream[2];
    void *memory;

    streams_open(&stream[0], &stream[1]);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned i = 0; i < n; i++)
        stream_hold(stream[i]);
    turn_tell(up);
    pause();
}

static int second_user_waits(void *arg)
{
    become_second_user();
    begin_waiting(1, arg);
    return 0;
}

static int first_user_waits(void *arg)
{
    begin_waiting(2, arg);
    return 0;
}

static bool three_wait(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool all = r->n_waits == 3;

    npud__report__free_unpacked(r, NULL);
    return all;
}

/* Rows of that process, and of no other. */
static void expect_rows_of(pid_t pid, const char *report, int n)
{
    char words[32], wanted[32];
    int status, rows = 0;
    char *text;

    snprintf(words, sizeof(words), "--json %s", report);
    snprintf(wanted, sizeof(wanted), "\"pid\":%d,", pid);
    text = npuctl(words, &status);
    ck_assert_msg(status == 0, "%s", text);
    for (char *c = text; (c = strstr(c, "\"pid\":")); c++, rows++)
        ck_assert_msg(strncmp(c, wanted, strlen(wanted)) == 0, "%s", text);
    ck_assert_msg(rows == n, "%s", text);
    free(text);
}

/* In the table of processes of its NPU. */
static void expect_in_table_of(pid_t pid)
{
    const char *built = getenv("NPUD_BINDIR");
    char command[512], line[256], wanted[32];
    int rows = 0;
    FILE *f;

    snprintf(command, sizeof(command), "%s/toolkit/npu-smi info", built ? built : "build");
    snprintf(wanted, sizeof(wanted), "| %d ", pid);
    f = popen(command, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f)) {
        ck_assert_ptr_null(strstr(line, "does not tell"));
        rows += strstr(line, wanted) != NULL;
    }
    ck_assert_int_eq(pclose(f), 0);
    ck_assert_int_eq(rows, 1);
}

/* Asked in a row: npud lets it wait. */
static int second_user_asks(void *arg)
{
    pid_t *waiting = arg;

    become_second_user();
    for (int i = 0; i < 20; i++) {
        expect_rows_of(*waiting, "waits", 1);
        expect_rows_of(*waiting, "sessions", 1);
        expect_rows_of(*waiting, "streams", 3); /* the default one, too */
        expect_rows_of(*waiting, "memory", 1);
    }
    expect_in_table_of(*waiting);
    npuctl_says("--json waits", 0, "\"deadlocks\":[]");
    npuctl_says("waits", 0, "of your own processes alone");
    npuctl_says("devices", 3, "refuses this user");
    npuctl_says("kill 1", 3, "refuses this user");
    return 0;
}

START_TEST(a_user_sees_its_own_processes)
{
    pid_t waiting, others;
    struct turn up;
    char path[128];

    if (!need_root(__func__) ||
        !need_one_server(__func__, "the engines of the next one look again when it serves already"))
        return;
    npud_setup();
    ck_assert_int_eq(chmod(npud.dir, 0755), 0);
    snprintf(path, sizeof(path), "%s/npud.sock", npud.dir);
    ck_assert_int_eq(chmod(path, 0666), 0);
    turn_init(&up);
    others = child_start(first_user_waits, &up);
    turn_await(&up);
    waiting = child_start(second_user_waits, &up);
    turn_await(&up);
    while (!three_wait())
        ;
    child_expect_ok(child_start(second_user_asks, &waiting));
    child_kill(waiting);
    npud_await_sessions(1);
    child_kill(others);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* Is the answer a report, or the time to wait for one? */
static bool report_comes(int fd, uint64_t id)
{
    struct packet packet;
    Npud__Reply *reply;
    bool comes;

    ck_assert_int_gt(packet_recv(fd, &packet, 0), 0);
    reply = npud__reply__unpack(NULL, packet.size, packet.data);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->id, id);
    ck_assert_int_eq(reply->body_case, NPUD__REPLY__BODY_OWN_WAITS);
    comes = reply->own_waits->again_ms == 0;
    ck_assert_uint_eq(packet.n_fds, comes);
    npud__reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return comes;
}

/*
 * It is made in steps, and given to a later request. A client that asks on at once is told
 * to come again.
 */
/* Both answers have the same first fields, so that each side can be told what it asks. */
START_TEST(swapped_sockets_are_named)
{
    char admin[128], arguments[160];

    snprintf(admin, sizeof(admin), "%s", getenv("NPUD_ADMIN_SOCKET"));
    snprintf(arguments, sizeof(arguments), "-s %s status", getenv("NPUD_SOCKET"));
    npuctl_says(arguments, 1, "this is npud's socket for programs");
    snprintf(arguments, sizeof(arguments), "-s %s top --once", getenv("NPUD_SOCKET"));
    npuctl_says(arguments, 1, "this is npud's socket for programs");
    npud_await_sessions(0);
    setenv("NPUD_SOCKET", admin, 1);
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_NO_DEVICE, "this is npud's admin socket", aclrtSetDevice(0));
    OK(aclFinalize());
}
END_TEST

static int be_lost_user(void *arg)
{
    (void)arg;
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(SECOND_USER, SECOND_USER, SECOND_USER), 0);
    ck_assert_int_eq(setresuid(SECOND_USER, SECOND_USER, SECOND_USER), 0);
    setenv("NPUD_SOCKET", getenv("NPUD_ADMIN_SOCKET"), 1);
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_NO_PERMISSION, "this is npud's admin socket", aclrtSetDevice(0));
    return 0;
}

/* Also those who may not ask there: the mode of a socket that was passed may let them in. */
START_TEST(the_admin_socket_is_named_to_those_it_refuses)
{
    if (!need_root(__func__))
        return;
    ck_assert_int_eq(chmod(getenv("NPUD_ADMIN_SOCKET"), 0666), 0);
    ck_assert_int_eq(chmod(npud.dir, 0755), 0);
    child_expect_ok(child_start(be_lost_user, NULL));
}
END_TEST

START_TEST(reports_take_a_small_part_of_npuds_time)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OwnWaits own_waits = NPUD__OWN_WAITS__INIT;
    unsigned reports = 0, asked = 0;
    int fd;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    request.body_case = NPUD__REQUEST__BODY_OWN_WAITS;
    request.own_waits = &own_waits;
    fd = clients_socket();
    for (request.id = 1; reports < 3; asked++, request.id++) {
        ck_assert_uint_lt(asked, 1000000);
        ck_assert_int_ge(packet_send_message(fd, &request.base, NULL, 0, 0), 0);
        reports += report_comes(fd, request.id);
        ck_assert(asked > 0 || reports == 0);
    }
    ck_assert_uint_gt(asked, 2 * reports - 1);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npuctl");
    TCase *tc = suite_case(suite, "npuctl", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, sizes_are_for_people_unless_exact_ones_are_asked_for);
    tcase_add_test(tc, limits_tell_the_share_of_a_device);
    tcase_add_test(tc, shared_memory_tells_of_its_maker);
    tcase_add_test(tc, status_tells_the_longest_steps);
    tcase_add_test(tc, rows_are_sorted);
    tcase_add_test(tc, a_name_stays_one_column);
    tcase_add_test(tc, an_unknown_command_has_a_nearest_one);
    tcase_add_loop_test(tc, names_that_are_no_text_are_replaced, 0,
                        (int)(sizeof(no_text) / sizeof(no_text[0])));
    tcase_add_test(tc, records_of_every_event_are_counted);
    tcase_add_test(tc, what_could_not_be_printed_is_a_failure);
    tcase_add_test(tc, a_watch_does_not_make_up_for_a_pause);
    tcase_add_test(tc, reports_take_a_small_part_of_npuds_time);
    tcase_add_test(tc, swapped_sockets_are_named);
    tcase_add_test(tc, the_admin_socket_is_named_to_those_it_refuses);
    tc = suite_case(suite, "who", 60, NULL, NULL);
    tcase_add_test(tc, the_log_says_who_ended_a_session);
    tcase_add_test(tc, a_user_sees_its_own_processes);
    return run_suite(suite);
}
