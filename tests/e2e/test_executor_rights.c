/*
 * What executors may (daemon/executor/rights.h): uids of their own, which nobody else has while a
 * process has them; and what they write, which goes to npud's log.
 *
 * Skipped under chaos, and over nesting: the executors are the test's own.
 * Skipped under TSan: they are programs of their own, and what npud does there waits for clocks.
 * Tests of uids need root, or: setpriv --reuid=65534 --clear-groups \
 * --inh-caps=+setuid,+setgid,+kill --ambient-caps=+setuid,+setgid,+kill THIS. As root, that of an
 * npud without the right runs as another user.
 */
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/common/chaos.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"
#include "tests/e2e/liars.h"

#define FIRST 1900000000u
#define LAST  1900000099u
#define GROUP "daemon"

#define TOPIC(name) NPUD__ADMIN_REQUEST__TOPIC__##name

static const char *const many_uids[] = {"--set=vendor.uids=1900000000-1900000099",
                                        "--set=vendor.group=" GROUP, NULL};
/* npud's own place, and one. */
static const char *const few_uids[] = {"--set=vendor.uids=1900000000-1900000004", NULL};

static struct {
    _Atomic bool stop;
    _Atomic unsigned ready, rounds;
} * shared;

/* --- npud --- */

static void open_log(void)
{
    npud_stderr = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_ge(npud_stderr, 0);
    ck_assert_int_eq(fcntl(npud_stderr, F_SETFL, O_APPEND), 0);
    shared = child_share(sizeof(*shared));
}

static void start_many(void)
{
    open_log();
    start_with(false, many_uids);
}

static void start_many_restartable(void)
{
    open_log();
    start_with(true, many_uids);
}

static void start_few(void)
{
    open_log();
    start_with(false, few_uids);
}

static void start_few_restartable(void)
{
    open_log();
    start_with(true, few_uids);
}

static void start_verbose(void)
{
    open_log();
    start_with(false, (const char *const[]){"--verbose", NULL});
}

static void start_verbose_restartable(void)
{
    open_log();
    start_with(true, (const char *const[]){"--verbose", NULL});
}

/* By a user that may not change uids. */
static void start_without_right(void)
{
    if (geteuid() == 0) {
        ck_assert_int_eq(setgroups(0, NULL), 0);
        ck_assert_int_eq(setresgid(SECOND_USER, SECOND_USER, SECOND_USER), 0);
        ck_assert_int_eq(setresuid(SECOND_USER, SECOND_USER, SECOND_USER), 0);
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    start_many();
}

/* All that npud has said so far. */
static const char *read_log(void)
{
    static char text[1 << 20];
    ssize_t n = pread(npud_stderr, text, sizeof(text) - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

static unsigned count_in_log(const char *words)
{
    unsigned n = 0;

    for (const char *at = read_log(); (at = strstr(at, words)); at += strlen(words))
        n++;
    return n;
}

/* --- processes --- */

/* A line of a file of the process. "": there is none, or no such process. */
static const char *line_of(pid_t pid, const char *file, const char *name)
{
    static char line[256];
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0) {
            fclose(f);
            return line + strlen(name);
        }
    if (f)
        fclose(f);
    return "";
}

static uid_t uid_of(pid_t pid)
{
    return (uid_t)strtoul(line_of(pid, "status", "Uid:"), NULL, 10);
}

/* That could still run. uid: 0: any of the range. */
static unsigned count_processes(uid_t uid)
{
    DIR *dir = opendir("/proc");
    unsigned n = 0;

    for (struct dirent *e; (e = readdir(dir));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        uid_t has = pid > 0 ? uid_of(pid) : 0;

        if (has >= FIRST && has <= LAST && (uid == 0 || has == uid))
            n += strchr("ZX", *(line_of(pid, "status", "State:\t"))) == NULL;
    }
    closedir(dir);
    return n;
}

static void expect_no_process_left(void)
{
    expect_nothing_left();
    EVENTUALLY(count_processes(0) == 0, "%u processes are left", count_processes(0));
}

/* The test's own, and npud's: root's, or what setpriv(1) hands on. */
static bool need_right(const char *test)
{
    const uint64_t wanted = 1 << CAP_SETUID | 1 << CAP_SETGID | 1 << CAP_KILL;
    uint64_t has = strtoull(line_of(getpid(), "status", "CapEff:"), NULL, 16);

    return (has & wanted) == wanted || need_lacks(test, "CAP_SETUID, CAP_SETGID and CAP_KILL");
}

/* --- sessions --- */

static int stay(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    ck_assert_msg(kit_open(&k) && kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    shared->ready++;
    for (unsigned i = 0; !shared->stop; i++, shared->rounds++)
        ck_assert_msg(kit_round(&k, i), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

static pid_t start_to_stay(void)
{
    unsigned before = shared->ready;
    pid_t pid = child_start(stay, NULL);

    EVENTUALLY(shared->ready > before, "the session does not begin");
    return pid;
}

static int lose(void *arg)
{
    struct kit k = {0};
    bool well;

    (void)arg;
    OK(aclInit(NULL));
    well = kit_open(&k);
    for (unsigned i = 0; well && i < 100000; i++)
        well = kit_round(&k, i);
    ck_assert_msg(failed.code == LOSS, "%s: %s\n%s", failed.call, failed.text, read_log());
    OK(aclFinalize());
    return 0;
}

static int find_no_uid(void *arg)
{
    (void)arg;
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "[vendor] uids", aclrtSetDevice(0));
    OK(aclFinalize());
    return 0;
}

/* As soon as there is a uid again. */
static int use_when_there_is_one(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    EVENTUALLY(aclrtSetDevice(0) == 0, "aclrtSetDevice: %s", aclGetRecentErrMsg());
    ck_assert_msg(kit_open(&k) && kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    /* One that was killed never runs again; it may take a while to go. */
    EVENTUALLY(count_processes(FIRST + 2) == 1, "another process has its uid");
    ck_assert_msg(kit_round(&k, 2), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

/* --- uids --- */

static void expect_limits(pid_t pid)
{
    unsigned long long soft, hard;
    struct rlimit own;

    ck_assert_int_eq(
        sscanf(line_of(pid, "limits", "Max core file size"), "%llu %llu", &soft, &hard), 2);
    ck_assert_uint_eq(hard, 0);
    ck_assert_int_eq(sscanf(line_of(pid, "limits", "Max processes"), "%llu %llu", &soft, &hard), 2);
    ck_assert_uint_eq(hard, 4096);
    ck_assert_int_eq(sscanf(line_of(pid, "limits", "Max locked memory"), "%llu %llu", &soft, &hard),
                     2);
    getrlimit(RLIMIT_MEMLOCK, &own);
    ck_assert(hard == UINT64_C(64) << 30 || hard == own.rlim_max);
}

static void expect_rights(pid_t pid, uid_t uid)
{
    char text[64];

    ck_assert_msg(uid >= FIRST + 2 && uid < LAST && uid % 2 == 0, "uid %u", (unsigned)uid);
    snprintf(text, sizeof(text), "\t%u\t%u\t%u\t%u\n", uid, uid, uid, uid);
    ck_assert_str_eq(line_of(pid, "status", "Uid:"), text);
    ck_assert_str_eq(line_of(pid, "status", "Gid:"), text);
    ck_assert_uint_eq(strtoul(line_of(pid, "status", "Groups:"), NULL, 10),
                      getgrnam(GROUP)->gr_gid);
    ck_assert_uint_eq(strtoull(line_of(pid, "status", "CapPrm:"), NULL, 16), 0);
    ck_assert_uint_eq(strtoull(line_of(pid, "status", "CapInh:"), NULL, 16), 0);
    expect_limits(pid);
}

START_TEST(each_executor_has_a_uid_of_its_own)
{
    pid_t one, two;
    Npud__Report *report;
    Npud__ExecutorRow *a, *b;

    if (!need_right(__func__))
        return;
    one = start_to_stay();
    two = start_to_stay();
    report = npud_report(TOPIC(EXECUTORS));
    ck_assert_uint_eq(report->n_executors, 2);
    a = report->executors[0];
    b = report->executors[1];
    expect_rights(a->pid, a->runs_as);
    expect_rights(b->pid, b->runs_as);
    ck_assert_uint_ne(a->runs_as, b->runs_as);
    ck_assert_uint_eq(a->uid, getuid());
    npuctl_says("executors", 0, "RUNS-AS");
    npud__report__free_unpacked(report, NULL);
    shared->stop = true;
    child_expect_ok(one);
    child_expect_ok(two);
    ck_assert_uint_eq(count_in_log("is given to no other"), 0);
    expect_no_process_left();
}
END_TEST

static uid_t runs_as(void)
{
    Npud__Report *report = npud_report(TOPIC(EXECUTORS));
    uid_t uid = report->n_executors > 0 ? report->executors[0]->runs_as : 0;

    npud__report__free_unpacked(report, NULL);
    return uid;
}

START_TEST(without_the_right_executors_have_npuds_uid)
{
    pid_t child = start_to_stay();

    ck_assert_uint_eq(runs_as(), geteuid());
    ck_assert_uint_eq(count_in_log("npud may not change uids"), 1);
    shared->stop = true;
    child_expect_ok(child);
    expect_no_process_left();
}
END_TEST

/* Also what fights for its life, and out of its group. */
START_TEST(what_executors_have_forked_ends_with_them)
{
    static const char *const names[] = {"fork", "fork-away", "fork-fight"};
    pid_t honest;

    if (!need_right(__func__))
        return;
    honest = start_to_stay();
    tell_lie(names[_i]);
    child_expect_ok(child_start(lose, NULL));
    EVENTUALLY(count_processes(0) == 1, "%u processes are left", count_processes(0));
    shared->stop = true;
    child_expect_ok(honest);
    ck_assert_uint_eq(count_in_log("is given to no other"), 0);
    expect_no_process_left();
}
END_TEST

/* npud and the executor die at once: the next npud ends what that has forked. */
START_TEST(so_it_does_when_npud_dies)
{
    pid_t child, executor = 0;

    if (!need_right(__func__))
        return;
    tell_lie("fork-stay");
    child = start_to_stay();
    EVENTUALLY(count_processes(0) == 2, "it does not fork");
    ck_assert_uint_eq(executors(&executor, 1), 1);
    child_kill(child);
    kill(executor, SIGKILL);
    npud_kill_server();
    EVENTUALLY(count_processes(0) == 0, "%u processes are left", count_processes(0));
    child = start_to_stay();
    shared->stop = true;
    child_expect_ok(child);
    expect_no_process_left();
}
END_TEST

/* Also for an npud that finds it in use. */
START_TEST(a_uid_is_one_executors_at_a_time)
{
    pid_t child;

    if (!need_right(__func__))
        return;
    child = start_to_stay();
    ck_assert_uint_eq(runs_as(), FIRST + 2);
    if (_i == 1)
        npud_kill_server();
    child_expect_ok(child_start(find_no_uid, NULL));
    if (_i == 1)
        EVENTUALLY(runs_as() == FIRST + 2, "it has another uid than it had");
    ck_assert_uint_eq(count_processes(FIRST + 2), 1);
    shared->stop = true;
    child_expect_ok(child);
    child_expect_ok(child_start(use_when_there_is_one, NULL));
    expect_no_process_left();
}
END_TEST

/* The next npud goes on with that, and the uid is in use until it is over. */
START_TEST(npud_dies_before_a_uid_is_free)
{
    pid_t child;

    if (!need_right(__func__))
        return;
    tell_lie("fork-stay");
    child = start_to_stay();
    EVENTUALLY(count_processes(0) == 2, "it does not fork");
    tell_lie("slow-sweep");
    child_kill(child);
    EVENTUALLY(access(lies_path, F_OK) < 0, "the executor does not end");
    child_expect_ok(child_start(find_no_uid, NULL));
    ck_assert_uint_eq(count_processes(FIRST + 2), 1);
    npud_kill_server();
    EVENTUALLY(count_processes(0) == 0, "%u processes are left", count_processes(0));
    child_expect_ok(child_start(use_when_there_is_one, NULL));
    expect_no_process_left();
}
END_TEST

/* By one of the npud before, for example. */
START_TEST(a_sweep_that_is_killed_is_begun_again)
{
    pid_t child;

    if (!need_right(__func__))
        return;
    child = start_to_stay();
    tell_lie("killed-sweep");
    child_kill(child);
    EVENTUALLY(access(lies_path, F_OK) < 0, "the executor does not end");
    child_expect_ok(child_start(use_when_there_is_one, NULL));
    expect_no_process_left();
}
END_TEST

START_TEST(a_uid_is_given_again_when_no_process_has_it)
{
    static const char *const names[] = {"fork-away", "fork-fight"};

    if (!need_right(__func__))
        return;
    tell_lie(names[_i]);
    child_expect_ok(child_start(lose, NULL));
    child_expect_ok(child_start(use_when_there_is_one, NULL));
    expect_no_process_left();
}
END_TEST

/* --- what they write --- */

/* Control characters, and bytes above 127, are escaped; a long line is cut. */
START_TEST(what_an_executor_writes_is_in_the_log)
{
    pid_t child;

    tell_lie("speak");
    child = start_to_stay();
    EVENTUALLY(count_in_log("executor: \\x1b[31mred\\x5c \\xc3\\xa4\n") > 0, "%s", read_log());
    EVENTUALLY(count_in_log("executor: yyyy") > 0, "%s", read_log());
    EVENTUALLY(count_in_log("executor: a\\x7fb\n") > 0, "%s", read_log());
    ck_assert_ptr_null(memmem(read_log(), strlen(read_log()), "\033", 1));
    for (const char *at = read_log(); *at; at += strcspn(at, "\n") + 1)
        ck_assert_uint_lt(strcspn(at, "\n"), 400);
    shared->stop = true;
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

START_TEST(a_flood_fills_no_log)
{
    uint64_t begin = now_ns();
    unsigned lines, most;
    pid_t child;

    tell_lie(_i == 0 ? "flood" : "talk");
    child = start_to_stay();
    EVENTUALLY(count_in_log("left out") + count_in_log("more of this user") > 0,
               "nothing is left out");
    EVENTUALLY(shared->rounds > 3, "the session does not go on");
    shared->stop = true;
    child_expect_ok(child);
    lines = count_in_log("executor: ");
    most = 22 * (unsigned)(2 + (now_ns() - begin) / NSEC_PER_SEC);
    ck_assert_msg(lines <= most, "%u lines, at most %u", lines, most);
    expect_nothing_left();
}
END_TEST

/* The last words are in the log before npud says that it has ended. */
START_TEST(the_last_words_are_heard)
{
    const char *log, *words;

    tell_lie("last-words");
    child_expect_ok(child_start(lose, NULL));
    EVENTUALLY(count_in_log("exited with status 3") > 0, "%s", read_log());
    log = read_log();
    words = strstr(log, "executor: the last words\n");
    ck_assert_msg(words && strstr(words, "exited with status 3"), "%s", log);
    expect_nothing_left();
}
END_TEST

/* Nothing that it writes meanwhile ends it, and the next npud hears it. */
START_TEST(an_executor_may_write_while_npud_is_away)
{
    unsigned lines;
    pid_t child;

    tell_lie("talk");
    child = start_to_stay();
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(count_in_log("executor: it talks") > 0, "%s", read_log());
        lines = count_in_log("executor: it talks");
        npud_kill_server();
        EVENTUALLY(count_in_log("executor: it talks") > lines, "it is not heard any more");
    }
    shared->stop = true;
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executor_rights");
    TCase *t = suite_case(suite, "uids", 120, start_many, npud_teardown);

    if (chaos_is_on())
        return 0;
    tcase_add_test(t, each_executor_has_a_uid_of_its_own);
    tcase_add_loop_test(t, what_executors_have_forked_ends_with_them, 0, 3);
    t = suite_case(suite, "uids after a restart", 120, start_many_restartable, npud_teardown);
    tcase_add_test(t, so_it_does_when_npud_dies);
    t = suite_case(suite, "few uids", 120, start_few, npud_teardown);
    tcase_add_loop_test(t, a_uid_is_one_executors_at_a_time, 0, 1);
    tcase_add_test(t, a_sweep_that_is_killed_is_begun_again);
    tcase_add_loop_test(t, a_uid_is_given_again_when_no_process_has_it, 0, 2);
    t = suite_case(suite, "few uids after a restart", 120, start_few_restartable, npud_teardown);
    tcase_add_loop_test(t, a_uid_is_one_executors_at_a_time, 1, 2);
    tcase_add_test(t, npud_dies_before_a_uid_is_free);
    t = suite_case(suite, "no right", 120, start_without_right, npud_teardown);
    tcase_add_test(t, without_the_right_executors_have_npuds_uid);
    t = suite_case(suite, "log", 120, start_verbose, npud_teardown);
    tcase_add_test(t, what_an_executor_writes_is_in_the_log);
    tcase_add_loop_test(t, a_flood_fills_no_log, 0, 2);
    tcase_add_test(t, the_last_words_are_heard);
    t = suite_case(suite, "log after a restart", 120, start_verbose_restartable, npud_teardown);
    tcase_add_test(t, an_executor_may_write_while_npud_is_away);
    return run_suite(suite);
}
