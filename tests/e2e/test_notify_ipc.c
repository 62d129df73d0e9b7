/*
 * Notifies of several processes: keys, lists of pids, which processes may wait, and what a death at
 * any moment leaves behind.
 */
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"

#define ANY ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define KEY 65

static struct shared {
    char key[KEY], key1[KEY], key2[KEY];
    int32_t pid;
    uint32_t id;
} * shared;
static aclrtStream stream, other, probe;
static aclrtNotify notify;

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
}

static void open_device(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
}

static void make_notify(uint64_t flags)
{
    open_device();
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtNotifyGetExportKey(notify, shared->key, KEY, flags));
}

static void wait_parked(void)
{
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
}

/* --- children --- */

/* Imports and waits for the word; then records, and leaves with or without goodbye. */
static int record_in_child(void *arg)
{
    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
    OK(aclrtGetNotifyId(notify, &shared->id));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtSynchronizeStream(stream));
    if (arg)
        OK(aclrtDestroyNotify(notify));
    return 0;
}

/* Imports, and dies when told, with a record queued if arg says so. */
static int import_and_idle(void *arg)
{
    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    if (arg) {
        stream_hold(stream);
        OK(aclrtRecordNotify(notify, stream));
    }
    turn_tell(&to_parent);
    for (;;)
        pause();
}

static pid_t start_child(int (*fn)(void *), void *arg)
{
    return child_start(fn, arg);
}

static void meet_child(void)
{
    turn_tell(&to_child);
    turn_await(&to_parent);
}

/* --- sharing --- */

START_TEST(record_from_another_process)
{
    pid_t pid = start_child(record_in_child, shared);
    uint32_t id;

    make_notify(ANY);
    ck_assert_uint_eq(strlen(shared->key), KEY - 1);
    wait_parked();
    meet_child();
    OK(aclrtGetNotifyId(notify, &id));
    ck_assert_uint_eq(id, shared->id);
    engine_turn(probe);
    ck_assert(!idle(stream));
    turn_tell(&to_child);
    OK(aclrtSynchronizeStream(stream));
    child_expect_ok(pid);
    /* An orderly leave does not harm a process that goes on waiting. */
    wait_parked();
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* The record is there before the wait, and outlives the process that made it. */
START_TEST(record_before_wait)
{
    pid_t pid = start_child(record_in_child, NULL);

    make_notify(ANY);
    meet_child();
    turn_tell(&to_child);
    child_expect_ok(pid);
    npud_await_sessions(1);
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static int import_as_listed(void *arg)
{
    (void)arg;
    open_device();
    OK(aclrtDeviceGetBareTgid(&shared->pid));
    turn_tell(&to_parent);
    turn_await(&to_child);
    FAILS(ACL_ERROR_RT_NO_PERMISSION, aclrtNotifyImportByKey(&notify, shared->key, 0));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPid(notify, &shared->pid, 1));
    return 0;
}

static struct turn to_stranger;

static int not_listed(void *arg)
{
    (void)arg;
    open_device();
    turn_await(&to_stranger);
    FAILS(ACL_ERROR_RT_NO_PERMISSION, aclrtNotifyImportByKey(&notify, shared->key, 0));
    return 0;
}

START_TEST(list_of_pids)
{
    pid_t pid = start_child(import_as_listed, NULL), stranger;
    int32_t many[300];

    turn_init(&to_stranger);
    turn_await(&to_parent);
    ck_assert_int_eq(shared->pid, pid);
    stranger = start_child(not_listed, NULL);
    open_device();
    OK(aclrtCreateNotify(&notify, 0));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifyGetExportKey first",
                 aclrtNotifySetImportPid(notify, &shared->pid, 1));
    OK(aclrtNotifyGetExportKey(notify, shared->key, KEY, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
    turn_tell(&to_stranger);
    meet_child(); /* both are refused */
    child_expect_ok(stranger);
    OK(aclrtNotifySetImportPid(notify, &shared->pid, 1));
    OK(aclrtNotifySetImportPid(notify, &shared->pid, 1));
    turn_tell(&to_child);
    child_expect_ok(pid);
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifySetImportPid(NULL, &shared->pid, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifySetImportPid(notify, NULL, 1));
    FAILS_SAYING(ACL_ERROR_RT_PARAM_INVALID, "a pid is not positive",
                 aclrtNotifySetImportPid(notify, &(int32_t){0}, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPid(notify, &shared->pid, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtNotifySetImportPid(notify, &shared->pid, (size_t)INT32_MAX + 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPid(notify, &(int32_t){-1}, 1));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifySetImportPid(stream, &shared->pid, 1));
    for (int i = 0; i < 300; i++)
        many[i] = 1000000 + i;
    FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclrtNotifySetImportPid(notify, many, 300));
    OK(aclrtNotifySetImportPid(notify, many, 255));
    FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclrtNotifySetImportPid(notify, many + 255, 1));
}
END_TEST

/*
 * A list names processes and not numbers: a process that gets the pid of a dead one is not on it.
 */
START_TEST(a_pid_is_not_inherited)
{
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid_size = 1};
    int fd[2], status;
    pid_t pid, again;

    ck_assert_int_eq(pipe(fd), 0);
    pid = fork();
    if (pid == 0)
        _exit(read(fd[0], &status, 1) < 0);
    make_notify(0);
    OK(aclrtNotifySetImportPid(notify, (int32_t[]){pid}, 1));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    /* The kernel counts starts in hundredths of a second. */
    OK(aclnpudLaunchDelay(30000, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    args.set_tid = (uintptr_t)&pid;
    again = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (again == 0) {
        open_device();
        FAILS(ACL_ERROR_RT_NO_PERMISSION, aclrtNotifyImportByKey(&notify, shared->key, 0));
        _exit(0);
    }
    if (again < 0) {
        fprintf(stderr, "a_pid_is_not_inherited: not tried: pids may not be chosen here\n");
        return;
    }
    ck_assert_int_eq(waitpid(again, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(keys_that_are_none)
{
    char key[2 * KEY] = "";
    aclrtNotify n = NULL;

    make_notify(ANY);
    memcpy(key, shared->key, KEY);
    for (int i = 0; i < KEY - 1; i++) {
        key[i] = key[i] == 'A' ? 'B' : 'A';
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, key, 0));
        key[i] = '\0';
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, key, 0));
        key[i] = (char)0xc3;
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, key, 0));
        key[i] = shared->key[i];
    }
    strcat(key, "A");
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, key, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, "", 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifyImportByKey(&n, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifyImportByKey(NULL, key, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyImportByKey(&n, shared->key, 4));
    ck_assert_ptr_null(n);
    OK(aclrtDestroyNotify(notify));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifyImportByKey(&n, shared->key, 0));
}
END_TEST

static int export_notify(void *arg)
{
    (void)arg;
    make_notify(ANY);
    turn_tell(&to_parent);
    return 0;
}

/* Of an npud that is gone, and of a process that is. */
START_TEST(old_keys)
{
    pid_t pid = start_child(export_notify, NULL);
    aclrtNotify n;

    turn_await(&to_parent);
    child_expect_ok(pid);
    npud_await_sessions(0);
    open_device();
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifyImportByKey(&n, shared->key, 0));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_kill();
    npud_setup();
    open_device();
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifyImportByKey(&n, shared->key, 0));
}
END_TEST

START_TEST(exported_once)
{
    char key[KEY];
    aclrtNotify imported, unshared;
    aclrtServerPid server = {.pid = &shared->pid, .num = 1};

    make_notify(0);
    OK(aclrtCreateNotify(&unshared, 0));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtNotifyGetExportKey(notify, key, KEY, 0));
    /* The process that has made it may always import it. */
    OK(aclrtNotifyImportByKey(&imported, shared->key, 1));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtNotifyGetExportKey(imported, key, KEY, 0));
    FAILS(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtNotifyBatchReset(&notify, 1));
    FAILS(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtNotifyBatchReset(&imported, 1));
    OK(aclrtWaitAndResetNotify(imported, stream, 0));
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifyGetExportKey(NULL, key, KEY, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifyGetExportKey(unshared, NULL, KEY, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyGetExportKey(unshared, key, 0, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyGetExportKey(unshared, key, KEY - 1, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyGetExportKey(unshared, key, KEY, 1));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifyGetExportKey(stream, key, KEY, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPidInterServer(NULL, &server, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPidInterServer(notify, NULL, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPidInterServer(notify, &server, 0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifySetImportPidInterServer(stream, &server, 1));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtNotifySetImportPidInterServer(notify, &server, 1));
    server.num = 2;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPidInterServer(notify, &server, 1));
    server = (aclrtServerPid){.num = 1};
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifySetImportPidInterServer(notify, &server, 1));
}
END_TEST

static int on_other_device(void *arg)
{
    int32_t reaches = 0;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&stream));
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS));
    OK(aclrtDevicePeerAccessStatus(1, 0, &reaches));
    ck_assert_int_eq(reaches, 1);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtSynchronizeStream(stream));
    return 0;
}

START_TEST(across_devices)
{
    pid_t pid = start_child(on_other_device, NULL);

    make_notify(ANY);
    wait_parked();
    turn_tell(&to_child);
    OK(aclrtSynchronizeStream(stream));
    child_expect_ok(pid);
}
END_TEST

/* An importer on the same device may wait, too. The notify outlives its creator. */
START_TEST(outlives_its_creator)
{
    pid_t pid = start_child(export_notify, NULL);

    open_device();
    turn_await(&to_parent);
    /* The child is still there, or has left in good order: its key may be old by now. */
    if (aclrtNotifyImportByKey(&notify, shared->key, 0) == 0) {
        child_expect_ok(pid);
        npud_await_sessions(1);
        wait_parked();
        OK(aclrtRecordNotify(notify, other));
        OK(aclrtSynchronizeStream(stream));
    } else {
        child_expect_ok(pid);
    }
}
END_TEST

/* --- death --- */

static void expect_blame(pid_t pid)
{
    aclError error = aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
    const char *message = aclGetRecentErrMsg();
    char text[32];

    ck_assert_int_eq(error, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    snprintf(text, sizeof(text), "process %d,", (int)pid);
    ck_assert_msg(message && strstr(message, text), "%s", message);
}

START_TEST(recorder_dies_before_it_records)
{
    pid_t pid = start_child(import_and_idle, NULL);

    make_notify(ANY);
    wait_parked();
    meet_child();
    child_kill(pid);
    expect_blame(pid);
}
END_TEST

static int import_and_finalize(void *arg)
{
    bool has_work = arg != NULL;
    aclrtEvent held = NULL;

    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    if (has_work) {
        held = stream_hold(stream);
        OK(aclrtRecordNotify(notify, stream));
    }
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclFinalize()); /* a device is set: the session stays */
    turn_tell(&to_parent);
    turn_await(&to_child);
    if (has_work)
        OK(aclrtRecordEvent(held, other));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclInit(NULL));
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(other));
    return 0;
}

/*
 * Its stream has passed what let the caller go, and npud, which hears of that by a message of its
 * engine, has handled it. A wait that began before would be told, too.
 */
static void await_its_end(void)
{
    size_t left, total;

    engine_turn(probe);
    for (int i = 0; i < 3; i++)
        OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
}

/* Its session stays, and what its streams were given is done first. It may come back. */
START_TEST(recorder_finalizes)
{
    bool has_work = _i;
    pid_t pid = start_child(import_and_finalize, has_work ? shared : NULL);

    make_notify(ANY);
    wait_parked();
    meet_child();
    meet_child();
    if (has_work) {
        engine_turn(probe);
        ck_assert(!idle(stream));
    }
    meet_child();
    if (has_work)
        OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    else
        expect_blame(pid);
    await_its_end();
    wait_parked();
    turn_tell(&to_child);
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    child_expect_ok(pid);
}
END_TEST

static int import_and_destroy(void *arg)
{
    (void)arg;
    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtDestroyNotify(notify));
    turn_tell(&to_parent);
    turn_await(&to_child);
    return 0;
}

/* In order: no other process is left, either. A later wait is for one of its own, or to come. */
START_TEST(recorder_destroys_it)
{
    pid_t pid = start_child(import_and_destroy, NULL);

    make_notify(ANY);
    wait_parked();
    meet_child();
    meet_child();
    expect_blame(pid);
    wait_parked();
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
    turn_tell(&to_child);
    child_expect_ok(pid);
}
END_TEST

START_TEST(recorder_dies_with_a_record_queued)
{
    pid_t pid = start_child(import_and_idle, shared);

    make_notify(ANY);
    meet_child();
    child_kill(pid);
    npud_await_sessions(1);
    /* No stream waited: the next one that waits learns of it, once. */
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    expect_blame(pid);
    wait_parked();
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static int wait_in_child(void *arg)
{
    (void)arg;
    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    turn_tell(&to_parent);
    for (;;)
        pause();
}

/* A waiter that dies takes no record with it, whether it is parked or has just been let go. */
START_TEST(waiter_dies)
{
    enum { ROUNDS = 20 };
    pid_t pid[ROUNDS];

    for (int i = 0; i < ROUNDS; i++)
        pid[i] = start_child(wait_in_child, NULL);
    make_notify(ANY);
    for (int i = 0; i < ROUNDS; i++) {
        meet_child();
    }
    /* All of them before our own; each record would release one of them, if it were not killed. */
    for (int i = 0; i < ROUNDS; i++)
        child_kill(pid[i]);
    npud_await_sessions(1);
    wait_parked();
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}
END_TEST

static int exchange_signals(void *arg)
{
    enum { ROUNDS = 300 };
    aclrtNotify second;

    (void)arg;
    open_device();
    turn_await(&to_child);
    OK(aclrtNotifyImportByKey(&notify, shared->key, 0));
    OK(aclrtNotifyImportByKey(&second, shared->key2, 0));
    for (int i = 0; i < ROUNDS; i++) {
        OK(aclrtWaitAndResetNotify(notify, stream, 0));
        OK(aclrtRecordNotify(second, stream));
    }
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    return 0;
}

/* Two processes take turns: no record is lost and none is doubled. */
START_TEST(ping_pong)
{
    enum { ROUNDS = 300 };
    pid_t pid = start_child(exchange_signals, NULL);
    aclrtNotify second;

    make_notify(ANY);
    OK(aclrtCreateNotify(&second, 0));
    OK(aclrtNotifyGetExportKey(second, shared->key2, KEY, ANY));
    turn_tell(&to_child);
    for (int i = 0; i < ROUNDS; i++) {
        OK(aclrtRecordNotify(notify, stream));
        OK(aclrtWaitAndResetNotify(second, stream, 0));
    }
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    child_expect_ok(pid);
    npud_await_sessions(1); /* its end fails earlier waits only, and not this one */
    OK(aclrtWaitAndResetNotify(second, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
}
END_TEST

/* --- reports --- */

static struct turn to_crossed[2];

/* One of two, each of which waits for the other's record, which is queued behind its wait. */
static int wait_crossed(void *arg)
{
    int i = *(int *)arg;
    aclrtNotify theirs;

    make_notify(ANY);
    memcpy(i ? shared->key2 : shared->key1, shared->key, KEY);
    turn_tell(&to_parent);
    turn_await(&to_crossed[i]);
    OK(aclrtNotifyImportByKey(&theirs, i ? shared->key1 : shared->key2, 0));
    turn_tell(&to_parent);
    turn_await(&to_crossed[i]);
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtRecordNotify(theirs, stream));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    return 0;
}

static bool shows_deadlock(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool found = r->n_deadlocks == 1;

    if (found) {
        ck_assert_uint_eq(r->deadlocks[0]->processes, 2);
        ck_assert_ptr_nonnull(strstr(r->deadlocks[0]->members, "waits for notify"));
        /* Another process could still import one of them. */
        ck_assert_str_eq(r->deadlocks[0]->certainty, "suspected");
    }
    npud__report__free_unpacked(r, NULL);
    return found;
}

START_TEST(deadlock)
{
    uint64_t give_up = now_ns() + UINT64_C(20000000000);
    int number[2] = {0, 1};
    pid_t pid[2];

    for (int i = 0; i < 2; i++)
        turn_init(&to_crossed[i]);
    for (int i = 0; i < 2; i++) {
        pid[i] = start_child(wait_crossed, &number[i]);
        turn_await(&to_parent);
    }
    for (int i = 0; i < 2; i++) {
        turn_tell(&to_crossed[i]);
        turn_await(&to_parent);
    }
    for (int i = 0; i < 2; i++)
        turn_tell(&to_crossed[i]);
    while (!shows_deadlock())
        ck_assert(now_ns() < give_up);
    child_kill(pid[0]);
    child_expect_ok(pid[1]);
}
END_TEST

static int wait_tied(void *arg)
{
    aclrtNotify second;

    (void)arg;
    open_device();
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCreateNotify(&second, 0));
    wait_parked();
    OK(aclrtRecordNotify(second, stream));
    OK(aclrtWaitAndResetNotify(second, other, 0));
    OK(aclrtRecordNotify(notify, other));
    aclrtSynchronizeStream(stream);
    return 0;
}

/* The runtime of TSan has a thread in every process, and npud cannot know what it will do. */
#ifdef __SANITIZE_THREAD__
#define CERTAINLY "suspected"
#else
#define CERTAINLY "certain"
#endif

/*
 * If all threads of a process sleep and no other process is involved, no thread can come to help:
 * this deadlock is certain.
 */
START_TEST(certain_deadlock)
{
    uint64_t give_up = now_ns() + UINT64_C(20000000000);
    pid_t pid = start_child(wait_tied, NULL);
    bool certain = false;

    while (!certain) {
        Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);

        certain = r->n_deadlocks == 1 && strcmp(r->deadlocks[0]->certainty, CERTAINLY) == 0;
        for (size_t i = 0; certain && i < r->n_waits; i++)
            ck_assert(r->waits[i]->thread != 0 || (r->waits[i]->blocker_stream >= 0 &&
                                                   strstr(r->waits[i]->waits_for, "notify")));
        npud__report__free_unpacked(r, NULL);
        ck_assert(now_ns() < give_up);
    }
    child_kill(pid);
}
END_TEST

START_TEST(report)
{
    pid_t pid = start_child(import_and_idle, NULL);
    Npud__Report *r;

    make_notify(ANY);
    wait_parked();
    meet_child();
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__NOTIFIES);
    ck_assert_uint_eq(r->n_notifies, 2);
    for (size_t i = 0; i < 2; i++) {
        Npud__NotifyRow *n = r->notifies[i];

        ck_assert_str_eq(n->kind, n->pid == pid ? "imported" : "exported");
        ck_assert_uint_eq(n->value, 0);
        ck_assert_uint_eq(n->waiting, 1);
        ck_assert_uint_eq(n->openers, 2);
    }
    npud__report__free_unpacked(r, NULL);
    ck_assert_uint_eq(npud_ledger().notifies, 2);
    child_kill(pid);
    npud_await_sessions(1);
    ck_assert_uint_eq(npud_ledger().notifies, 1);
}
END_TEST

/* npud goes: every waiter is told. */
START_TEST(npud_goes)
{
    make_notify(ANY);
    wait_parked();
    npud_kill();
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtRecordNotify(notify, stream));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtDestroyNotify(notify));
    npud_setup();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify IPC");
    TCase *tc = suite_case(suite, "sharing", 60, set_up_test, npud_teardown);

    tcase_add_test(tc, record_from_another_process);
    tcase_add_test(tc, record_before_wait);
    tcase_add_test(tc, list_of_pids);
    tcase_add_test(tc, a_pid_is_not_inherited);
    tcase_add_test(tc, keys_that_are_none);
    tcase_add_test(tc, old_keys);
    tcase_add_test(tc, exported_once);
    tcase_add_test(tc, across_devices);
    tcase_add_test(tc, outlives_its_creator);
    tcase_add_test(tc, recorder_dies_before_it_records);
    tcase_add_test(tc, recorder_destroys_it);
    tcase_add_loop_test(tc, recorder_finalizes, 0, 2);
    tcase_add_test(tc, recorder_dies_with_a_record_queued);
    tcase_add_test(tc, waiter_dies);
    tcase_add_test(tc, ping_pong);
    tcase_add_test(tc, deadlock);
    tcase_add_test(tc, certain_deadlock);
    tcase_add_test(tc, report);
    tcase_add_test(tc, npud_goes);
    return run_suite(suite);
}
