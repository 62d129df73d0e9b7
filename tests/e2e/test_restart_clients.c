/*
 * Programs that come and go, and npuctl, while the server of npud is killed again and again: none
 * of them notices, and a command happens once.
 *
 * Skipped under chaos: the test itself kills npud.
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define PROGRAMS 3
#define RULES    40 /* npud has room for 64 */

static struct shared {
    _Atomic int ended; /* children that have done all */
    int rule[RULES];
} * shared;

static int sessions; /* of each program */

static void begin(void)
{
    shared = child_share(sizeof(*shared));
    sessions = choose_effort(30, 1000);
    npud_start_restartable(NULL);
}

/* Until so many children have ended. Returns how often. */
static int kill_until(int children)
{
    int kills = 0;

    for (; atomic_load(&shared->ended) < children; kills++) {
        child_expect_none_failed();
        npud_kill_server();
    }
    return kills;
}

/* --- sessions --- */

static void use_npud(void)
{
    uint8_t bytes[256];
    aclrtStream stream;
    void *memory;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&memory, sizeof(bytes), ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemsetAsync(memory, sizeof(bytes), 7, sizeof(bytes), stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(bytes, sizeof(bytes), memory, sizeof(bytes), ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(bytes[sizeof(bytes) - 1], 7);
    OK(aclrtFree(memory));
    OK(aclrtDestroyStream(stream));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static int come_and_go(void *arg)
{
    (void)arg;
    for (int i = 0; i < sessions; i++)
        use_npud();
    atomic_fetch_add(&shared->ended, 1);
    return 0;
}

START_TEST(programs_connect_while_npud_is_killed)
{
    pid_t pid[PROGRAMS];

    for (int i = 0; i < PROGRAMS; i++)
        pid[i] = child_start(come_and_go, NULL);
    ck_assert_int_gt(kill_until(PROGRAMS), 0);
    for (int i = 0; i < PROGRAMS; i++)
        child_expect_ok(pid[i]);
    npud_expect_empty();
}
END_TEST

/* --- names --- */

#define DEATHS 4

/* Work that waits names memory that is gone: what a later npud gives out has another name. */
START_TEST(memory_gets_no_name_that_was_given_before)
{
    static const uint8_t zeros[4096];
    uint8_t bytes[sizeof(zeros)];
    aclrtStream stream[DEATHS];
    aclrtEvent gate[DEATHS];
    void *memory;

    session_open();
    for (int i = 0; i < DEATHS; i++) {
        OK(aclrtCreateStream(&stream[i]));
        gate[i] = stream_hold(stream[i]);
    }
    for (int i = 0; i < DEATHS; i++) {
        OK(aclrtMalloc(&memory, sizeof(bytes), ACL_MEM_MALLOC_NORMAL_ONLY));
        OK(aclrtMemsetAsync(memory, sizeof(bytes), 7, sizeof(bytes), stream[i]));
        OK(aclrtFree(memory));
        npud_kill_server();
    }
    OK(aclrtMalloc(&memory, sizeof(bytes), ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(memory, sizeof(bytes), 0, sizeof(bytes)));
    for (int i = 0; i < DEATHS; i++) {
        stream_let_go(gate[i]);
        FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(stream[i]));
    }
    OK(aclrtMemcpy(bytes, sizeof(bytes), memory, sizeof(bytes), ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_mem_eq(bytes, zeros, sizeof(bytes));
    session_close();
    npud_expect_empty();
}
END_TEST

/* --- commands --- */

/* A number is passed over if npud dies between giving it out and committing the rule. */
static int set_rules(void *arg)
{
    (void)arg;
    for (int i = 0; i < RULES; i++) {
        int status, before = i > 0 ? shared->rule[i - 1] : 0;
        char *said = npuctl("inject stall --session=999999", &status);

        ck_assert_msg(status == 0, "%s", said);
        shared->rule[i] = atoi(said);
        ck_assert_msg(shared->rule[i] > before, "%d rules, and now: %s", i, said);
        free(said);
    }
    atomic_fetch_add(&shared->ended, 1);
    return 0;
}

static int clear_rules(void *arg)
{
    (void)arg;
    for (int i = 0; i < RULES; i++) {
        char command[32];

        snprintf(command, sizeof(command), "inject clear %d", shared->rule[i]);
        npuctl_says(command, 0, "");
    }
    atomic_fetch_add(&shared->ended, 1);
    return 0;
}

static size_t count_rules(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__RULES);
    size_t n = report->n_rules;

    npud__report__free_unpacked(report, NULL);
    return n;
}

START_TEST(commands_happen_once_while_npud_is_killed)
{
    pid_t pid = child_start(set_rules, NULL);

    ck_assert_int_gt(kill_until(1), 0);
    child_expect_ok(pid);
    ck_assert_uint_eq(count_rules(), RULES);
    atomic_store(&shared->ended, 0);
    pid = child_start(clear_rules, NULL);
    ck_assert_int_gt(kill_until(1), 0);
    child_expect_ok(pid);
    ck_assert_uint_eq(count_rules(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clients of an npud that comes back");
    TCase *tcase = suite_case(suite, "killed", choose_effort(120, 1200), begin, npud_teardown);

    tcase_add_test(tcase, programs_connect_while_npud_is_killed);
    tcase_add_test(tcase, memory_gets_no_name_that_was_given_before);
    tcase_add_test(tcase, commands_happen_once_while_npud_is_killed);
    return run_suite(suite);
}
