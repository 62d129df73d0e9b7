/* npuctl inspect and npuctl graph: two processes that share memory, a queue and a wait. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "proto/wire/npud.pb-c.h"

/* Names that would end a text, a node or a tag, if they were not escaped. */
#define PROGRAM "a\"b\\N&<c>"
#define QUEUE   "q\"]; evil \\l"

static struct {
    char key[65];
    aclrtIpcEventHandle handle;
} * shared;

/* Exports memory and an event that it never records, has a queue, and waits for itself. */
static int run_maker(void *arg)
{
    static const char *name = QUEUE;
    acltdtQueueAttr *attr;
    aclrtStream one, two;
    aclrtEvent gate, ipc;
    uint32_t queue;
    void *p;

    (void)arg;
    program_invocation_short_name = (char *)PROGRAM;
    streams_open(&one, &two);
    OK(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtIpcMemGetExportKey(p, 1 << 20, shared->key, sizeof(shared->key),
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    attr = acltdtCreateQueueAttr();
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(char *), &name));
    OK(acltdtCreateQueue(attr, &queue));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(one, gate));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(ipc, one));
    OK(aclrtIpcGetEventHandle(ipc, &shared->handle));
    turn_tell(&to_parent);
    pause();
    return 0;
}

static size_t count_waits(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    size_t n = report->n_waits;

    npud__report__free_unpacked(report, NULL);
    return n;
}

static pid_t maker;
static aclrtStream stream;

/* The test process waits for the maker's record, and has the maker's memory. */
static void begin(void)
{
    aclrtStream other;
    aclrtEvent event;
    void *p;

    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
    maker = child_start(run_maker, NULL);
    turn_await(&to_parent);
    streams_open(&stream, &other);
    OK(aclrtIpcMemImportByKey(&p, shared->key, 0));
    OK(aclrtIpcOpenEventHandle(shared->handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    EVENTUALLY(count_waits() == 2, "both wait");
}

static void end(void)
{
    child_kill(maker);
    npud_teardown();
}

/* What it prints has these words in this order; freed by the caller. */
static char *says_in_order(const char *arguments, const char *const *words)
{
    int status;
    char *text = npuctl(arguments, &status), *at = text;

    ck_assert_msg(status == 0, "npuctl %s: %d: %s", arguments, status, text);
    for (; *words; words++) {
        at = strstr(at, *words);
        ck_assert_msg(at, "no \"%s\" where it should be in:\n%s", *words, text);
    }
    return text;
}

START_TEST(a_session_is_told_with_all_it_has)
{
    char command[64], sharer[128], blocker[64];

    snprintf(command, sizeof(command), "inspect %llu",
             (unsigned long long)npud_session_of(getpid()));
    free(says_in_order(command,
                       (const char *const[]){"session\n", "program: test_inspect\n", "streams\n",
                                             "waiting", "record 1 of IPC event 1", "memory\n",
                                             "imported", "who shares its memory\n", "exported",
                                             "devices\n", "AscendSim1", "waits\n", "record 1",
                                             "events\n", "ipc", "limits of its user\n", NULL}));
    snprintf(command, sizeof(command), "--json inspect %llu",
             (unsigned long long)npud_session_of(getpid()));
    snprintf(sharer, sizeof(sharer), "\"shared_with\":[{\"session\":%llu,\"pid\":%d,",
             (unsigned long long)npud_session_of(maker), (int)maker);
    snprintf(blocker, sizeof(blocker), "\"blocker_pid\":%d,", (int)maker);
    free(says_in_order(command,
                       (const char *const[]){"{\"inspect\":{\"session\":{", sharer, "\"waits\":[{",
                                             blocker, "\"waited_for\":[]", "\"queues\":[]", NULL}));
}
END_TEST

START_TEST(what_waits_for_a_session_is_told_and_nothing_of_others)
{
    char command[64], waiter[64];
    char *text;

    snprintf(command, sizeof(command), "--json inspect %llu",
             (unsigned long long)npud_session_of(maker));
    snprintf(waiter, sizeof(waiter), "\"pid\":%d,\"program\":\"test_inspect\"", (int)getpid());
    text = says_in_order(command, (const char *const[]){"\"rights\":", "\"waited_for\":[{", waiter,
                                                        "\"queues\":[{", NULL});
    *strstr(text, "\"shared_with\"") = '\0';
    ck_assert_ptr_null(strstr(text, "test_inspect"));
    free(text);
}
END_TEST

START_TEST(a_session_that_is_not_there)
{
    npuctl_says("inspect 4711", 1, "there is no session 4711");
    npuctl_says("inspect", 2, "inspect needs the number of a session");
    npuctl_says("inspect me", 2, "no number of a session: \"me\"");
    npuctl_says("inspect 1 2", 2, "unexpected argument");
    npuctl_says("--socket=/none inspect 1", 3, "no npud at /none");
}
END_TEST

/* --- the graph --- */

START_TEST(a_graph_shows_who_waits_for_whom)
{
    char edge[64], opens[64];
    unsigned long long self = npud_session_of(getpid()), other = npud_session_of(maker);

    snprintf(edge, sizeof(edge), "s%llu -> s%llu [", self, other);
    snprintf(opens, sizeof(opens), "s%llu -> e1 [", self);
    free(says_in_order("graph", (const char *const[]){"digraph npud {\n",
                                                      "label=\"a\\\"b\\\\N&amp;<c>\\nprocess ",
                                                      "\\nq\\\"]; evil \\\\l\\n0 of 8\"",
                                                      "IPC event 1\\nrecord 1 pending", NULL}));
    free(says_in_order("graph",
                       (const char *const[]){"q1 -> s", opens, "dir=none", edge,
                                             "waits for record 1 of IPC event 1", "}\n", NULL}));
}
END_TEST

START_TEST(a_graph_is_drawn)
{
    char path[128], command[192], text[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/graph.svg", npud.dir);
    snprintf(command, sizeof(command), "graph --svg --output=%s", path);
    if (system("command -v dot >/dev/null") == 0) {
        /* As XML has them: nothing of the names has become a part of the drawing. */
        free(says_in_order("graph --svg",
                           (const char *const[]){"<svg", "a&quot;b\\N&amp;&lt;c&gt;",
                                                 "q&quot;]; evil \\l", "</svg>", NULL}));
        npuctl_says(command, 0, "");
        f = fopen(path, "re");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_gt(fread(text, 1, sizeof(text), f), 0);
        fclose(f);
        ck_assert_int_eq(unlink(path), 0);
    } else {
        need_lacks(__func__, "the package graphviz");
    }
    /* Without dot, which is said; and no file is left. */
    setenv("PATH", npud.dir, 1);
    npuctl_says(command, 1, "apt-get install graphviz");
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(wrong_uses_of_graph)
{
    npuctl_says("graph now", 2, "unexpected argument");
    npuctl_says("--json graph", 2, "does not go with");
    npuctl_says("--svg status", 2, "--svg goes with graph");
    npuctl_says("--output=/none/x graph", 1, "/none/x: No such file");
    npuctl_says("--output=/dev/full graph", 1, "/dev/full: No space left");
    npuctl_says("graph >/dev/full", 1, "");
    npuctl_says("--socket=/none graph", 3, "no npud at /none");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inspect and graph");
    TCase *tcase = suite_case(suite, "inspect", 60, begin, end);

    tcase_add_test(tcase, a_session_is_told_with_all_it_has);
    tcase_add_test(tcase, what_waits_for_a_session_is_told_and_nothing_of_others);
    tcase_add_test(tcase, a_session_that_is_not_there);
    tcase = suite_case(suite, "graph", 60, begin, end);
    tcase_add_test(tcase, a_graph_shows_who_waits_for_whom);
    tcase_add_test(tcase, a_graph_is_drawn);
    tcase_add_test(tcase, wrong_uses_of_graph);
    return run_suite(suite);
}
