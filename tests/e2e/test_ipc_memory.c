/*
 * Device memory of several processes, by key and by descriptor: who may import, what each of them
 * sees, who is woken, and what closes, resets and deaths in any order leave behind.
 *
 * The test itself is no client: it directs. A member is a fork of it, and an order is a function of
 * the test with one number.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/actor.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"

#define MEMBERS   3
#define KEY       65
#define KEYS      4
#define BYTES     (1u << 20)
#define ANY       ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define LISTED    ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT
#define PEER      ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS
#define BAD       ACL_ERROR_RT_PARAM_INVALID
#define GONE      ACL_ERROR_RT_DRV_INTERNAL_ERROR
#define DENIED    ACL_ERROR_RT_NO_PERMISSION
#define DESERTED  ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define EXPORTS   256 /* of one allocation, at most */
#define ANSWER_MS 300000

/* Between all. */
static struct shared {
    char key[KEYS][KEY];
    int32_t pid[MEMBERS];
    _Atomic uint32_t rounds[MEMBERS];
    _Atomic bool somebody_died;
} * shared;

static struct actor member[MEMBERS];

/* Each member's own. */
static int me;
static aclrtStream stream, other, probe;
static char *mine;        /* what it has allocated */
static char *theirs[300]; /* what it has imported */
static unsigned n_theirs;

struct order {
    aclError (*fn)(int arg);
    int arg;
};

/* --- directing --- */

static int obey(int fd, void *arg)
{
    struct order order;
    aclError answer;

    me = (int)(intptr_t)arg;
    while (recv(fd, &order, sizeof(order), 0) == sizeof(order)) {
        answer = order.fn(order.arg);
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            return 1;
    }
    return 0;
}

static void begin(int who, aclError (*fn)(int), int arg)
{
    struct order order = {fn, arg};

    ck_assert(actor_tell(&member[who], &order, sizeof(order)));
}

static aclError finish(int who)
{
    aclError answer = -1;

    ck_assert_msg(actor_answer(&member[who], &answer, sizeof(answer), ANSWER_MS) == sizeof(answer),
                  "member %d does not answer", who);
    return answer;
}

static aclError in(int who, aclError (*fn)(int), int arg)
{
    begin(who, fn, arg);
    return finish(who);
}

#define IN(code, who, fn, arg) ck_assert_int_eq(in(who, fn, arg), code)

static void start_members(void)
{
    shared = child_share(sizeof(*shared));
    for (int i = 0; i < MEMBERS; i++)
        actor_start(&member[i], obey, (void *)(intptr_t)i);
}

static void set_up_test(void)
{
    npud_setup();
    start_members();
}

static void end_members(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (member[i].pid)
            actor_end(&member[i]);
}

/* The teardown of npud asserts that every count is zero. */
static void tear_down_test(void)
{
    end_members();
    npud_teardown();
}

static void kill_member(int who, uint32_t sessions_left)
{
    actor_kill(&member[who]);
    npud_await_sessions(sessions_left);
}

/* Of device memory on all devices: pages are counted once, however many processes have them. */
static uint64_t device_memory(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__DEVICES);
    uint64_t used = 0;

    for (size_t i = 0; i < r->n_devices; i++)
        used += r->devices[i]->memory_used;
    npud__report__free_unpacked(r, NULL);
    return used;
}

/* --- what members do --- */

static aclError open_device(int device)
{
    if (!stream) {
        OK(aclInit(NULL));
        OK(aclrtSetDevice(device));
        OK(aclrtDeviceGetBareTgid(&shared->pid[me]));
    } else {
        OK(aclrtSetDevice(device));
    }
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
    return 0;
}

static void fill_bytes(char *host, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        host[i] = (char)(i * 7 + (i >> 9) + (size_t)seed);
}

static void put_bytes(char *device, int seed)
{
    char *host = malloc(BYTES);

    fill_bytes(host, BYTES, seed);
    OK(aclrtMemcpy(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    free(host);
}

static void expect_bytes(const char *device, int seed)
{
    char *host = malloc(BYTES), *wanted = malloc(BYTES);

    fill_bytes(wanted, BYTES, seed);
    OK(aclrtMemcpy(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(memcmp(host, wanted, BYTES) == 0);
    free(host);
    free(wanted);
}

/* What a member has of the memory that all have. */
static char *common(void)
{
    return mine ? mine : theirs[0];
}

static aclError make(int seed)
{
    OK(aclrtMalloc((void **)&mine, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    put_bytes(mine, seed);
    return 0;
}

static aclError export_as(int flags)
{
    return aclrtIpcMemGetExportKey(mine, BYTES, shared->key[me], KEY, (uint64_t)flags);
}

/* An order's number for import(): whose key, and the flags. */
#define FROM(who, flags) ((who) << 4 | (int)(flags))

static aclError import(int arg)
{
    void *p = NULL;
    aclError error = aclrtIpcMemImportByKey(&p, shared->key[arg >> 4], (uint64_t)(arg & 15));

    if (error == 0) {
        ck_assert_uint_lt(n_theirs, 300);
        theirs[n_theirs++] = p;
    } else {
        ck_assert_ptr_null(p);
        ck_assert_ptr_nonnull(aclGetRecentErrMsg());
    }
    return error;
}

static aclError close_key(int from)
{
    return aclrtIpcMemClose(shared->key[from]);
}

static aclError list_member(int who)
{
    return aclrtIpcMemSetImportPid(shared->key[me], &shared->pid[who], 1);
}

static aclError free_mine(int arg)
{
    (void)arg;
    return aclrtFree(mine);
}

static aclError reset_device(int device)
{
    return aclrtResetDevice(device);
}

static aclError read_mine(int seed)
{
    expect_bytes(mine, seed);
    return 0;
}

static aclError read_theirs(int seed)
{
    for (unsigned i = 0; i < n_theirs; i++)
        expect_bytes(theirs[i], seed);
    return 0;
}

static aclError write_theirs(int seed)
{
    put_bytes(theirs[0], seed);
    return 0;
}

/* Members 1 to n have imported what member 0 has made, for anybody. */
static void share_between(int n, int device)
{
    IN(0, 0, open_device, 0);
    IN(0, 0, make, 1);
    IN(0, 0, export_as, ANY);
    for (int i = 1; i < n; i++) {
        IN(0, i, open_device, device);
        IN(0, i, import, FROM(0, device ? PEER : 0));
    }
}

/* --- arguments --- */

static aclError check_exports(int arg)
{
    static const struct {
        size_t size, len;
        uint64_t flags;
        aclError code;
    } bad[] = {
        {0, KEY, 0, BAD},          {1, 0, 0, BAD},
        {1, KEY - 1, 0, BAD},      {1, KEY, 2, BAD},
        {1, KEY, UINT64_MAX, BAD}, {BYTES + 1, KEY, 0, BAD},
        {SIZE_MAX, KEY, 0, BAD},   {1, KEY, 0, 0},
        {BYTES, KEY, 1, 0},        {BYTES, SIZE_MAX, 0, 0},
    };
    char key[KEY + 1];

    (void)arg;
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemGetExportKey(NULL, BYTES, key, KEY, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemGetExportKey(mine, BYTES, NULL, KEY, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemGetExportKey(NULL, 0, NULL, 0, 7));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(key, 'x', sizeof(key));
        ck_assert_int_eq(aclrtIpcMemGetExportKey(mine, bad[i].size, key, bad[i].len, bad[i].flags),
                         bad[i].code);
        ck_assert_int_eq(key[0] == 'x', bad[i].code != 0);
        ck_assert_int_eq(key[KEY], 'x');
        if (bad[i].code == 0) {
            ck_assert_uint_eq(strlen(key), KEY - 1);
            OK(aclrtIpcMemClose(key));
        }
    }
    return 0;
}

static aclError check_what_is_exported(int arg)
{
    static char keys[EXPORTS][KEY];
    char key[KEY], imported_key[KEY];
    void *host, *imported;

    (void)arg;
    for (int i = 0; i < EXPORTS; i++)
        OK(aclrtIpcMemGetExportKey(mine, 1, keys[i], KEY, 0));
    FAILS_SAYING(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "close a key first",
                 aclrtIpcMemGetExportKey(mine, 1, key, KEY, 0));
    for (int i = 0; i < EXPORTS; i++)
        OK(aclrtIpcMemClose(keys[i]));
    OK(aclrtMallocHost(&host, BYTES));
    FAILS(BAD, aclrtIpcMemGetExportKey(mine + 4096, 1, key, KEY, 0));
    FAILS(BAD, aclrtIpcMemGetExportKey(host, 1, key, KEY, 0));
    FAILS(BAD, aclrtIpcMemGetExportKey(key, 1, key, KEY, 0));
    OK(aclrtIpcMemGetExportKey(mine, 1, imported_key, KEY, 0));
    OK(aclrtIpcMemImportByKey(&imported, imported_key, 0));
    FAILS_SAYING(BAD, "that this process has allocated",
                 aclrtIpcMemGetExportKey(imported, 1, key, KEY, 0));
    FAILS(BAD, aclrtFree(imported));
    OK(aclrtIpcMemClose(imported_key));
    OK(aclrtIpcMemClose(imported_key));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(mine));
    FAILS(BAD, aclrtIpcMemGetExportKey(mine, 1, key, KEY, 0));
    return 0;
}

static aclError check_imports(int arg)
{
    char *own = shared->key[0], key[2 * KEY] = "";
    void *p = NULL;

    (void)arg;
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemImportByKey(NULL, own, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemImportByKey(&p, NULL, 0));
    FAILS(BAD, aclrtIpcMemImportByKey(&p, own, 2));
    FAILS(BAD, aclrtIpcMemImportByKey(&p, own, UINT64_MAX));
    FAILS(BAD, aclrtIpcMemImportByKey(&p, "", 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemClose(NULL));
    FAILS(BAD, aclrtIpcMemClose(""));
    memcpy(key, own, KEY);
    for (int i = 0; i < KEY - 1; i++) {
        const char changes[] = {key[i] == 'A' ? 'B' : 'A', '\0', (char)0xc3};

        for (int n = 0; n < 3; n++) {
            key[i] = changes[n];
            FAILS(BAD, aclrtIpcMemImportByKey(&p, key, 0));
            FAILS(BAD, aclrtIpcMemClose(key));
            FAILS(BAD, aclrtIpcMemSetImportPid(key, (int32_t[]){1}, 1));
        }
        key[i] = own[i];
    }
    strcat(key, "A");
    FAILS(BAD, aclrtIpcMemImportByKey(&p, key, 0));
    ck_assert_ptr_null(p);
    return 0;
}

static aclError check_lists(int arg)
{
    char any[KEY];
    int32_t many[300];

    (void)arg;
    for (int i = 0; i < 300; i++)
        many[i] = 1000000 + i;
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemSetImportPid(NULL, many, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtIpcMemSetImportPid(shared->key[0], NULL, 1));
    FAILS(BAD, aclrtIpcMemSetImportPid(shared->key[0], many, 0));
    FAILS(BAD, aclrtIpcMemSetImportPid(shared->key[0], many, (size_t)INT32_MAX + 1));
    FAILS(BAD, aclrtIpcMemSetImportPid(shared->key[0], (int32_t[]){1, 0}, 2));
    FAILS(BAD, aclrtIpcMemSetImportPid(shared->key[0], (int32_t[]){-1}, 1));
    FAILS(BAD, aclrtIpcMemSetImportPid("no key", many, 1));
    FAILS_SAYING(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "at most 256",
                 aclrtIpcMemSetImportPid(shared->key[0], many, 300));
    OK(aclrtIpcMemSetImportPid(shared->key[0], many, 256));
    OK(aclrtIpcMemSetImportPid(shared->key[0], many + 255, 1)); /* it is there already */
    FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclrtIpcMemSetImportPid(shared->key[0], many + 256, 1));
    OK(aclrtIpcMemGetExportKey(mine, BYTES, any, KEY, ANY));
    FAILS(DENIED, aclrtIpcMemSetImportPid(any, many, 1));
    OK(aclrtIpcMemClose(any));
    FAILS(GONE, aclrtIpcMemSetImportPid(any, many, 1));
    return 0;
}

static aclError check_rare(int arg)
{
    int32_t pid = 1;
    aclrtServerPid server = {.pid = &pid, .num = 1}, none = {.num = 1};
    const char *key = shared->key[0];

    (void)arg;
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetBareTgid(NULL));
    FAILS(BAD, aclrtIpcMemSetAttr(NULL, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, 0));
    FAILS(BAD, aclrtIpcMemSetAttr(key, (aclrtIpcMemAttrType)1, 0));
    FAILS(BAD, aclrtIpcMemSetAttr(key, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, 4));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          aclrtIpcMemSetAttr(key, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, 3));
    FAILS(BAD, aclrtIpcMemImportPidInterServer(NULL, &server, 1));
    FAILS(BAD, aclrtIpcMemImportPidInterServer(key, NULL, 1));
    FAILS(BAD, aclrtIpcMemImportPidInterServer(key, &server, 0));
    FAILS(BAD, aclrtIpcMemImportPidInterServer(key, &none, 1));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtIpcMemImportPidInterServer(key, &server, 1));
    return 0;
}

static void *ask_without_context(void *arg)
{
    char key[KEY];
    void *p;

    (void)arg;
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtIpcMemGetExportKey(mine, 1, key, KEY, 0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtIpcMemImportByKey(&p, shared->key[0], 0));
    FAILS(BAD, aclrtIpcMemGetExportKey(mine, 0, key, KEY, 0));
    FAILS(BAD, aclrtIpcMemImportByKey(&p, shared->key[0], 2));
    OK(aclrtIpcMemSetImportPid(shared->key[0], (int32_t[]){1000000}, 1)); /* check_lists() */
    OK(aclrtIpcMemClose(shared->key[0]));
    return NULL;
}

static aclError check_without_context(int arg)
{
    (void)arg;
    thread_call(ask_without_context, NULL);
    return 0;
}

START_TEST(arguments)
{
    static aclError (*const checks[])(int) = {check_imports, check_lists,
                                              check_rare,    check_without_context,
                                              check_exports, check_what_is_exported};

    IN(0, 0, open_device, 0);
    IN(0, 0, make, 1);
    IN(0, 0, export_as, LISTED);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        IN(0, 0, checks[i], 0);
}
END_TEST

/* --- who may --- */

START_TEST(list_of_pids)
{
    for (int i = 0; i < MEMBERS; i++)
        IN(0, i, open_device, 0);
    ck_assert_int_eq(shared->pid[1], member[1].pid);
    IN(0, 0, make, 3);
    IN(0, 0, export_as, LISTED);
    IN(DENIED, 1, import, 0);
    IN(0, 0, list_member, 1);
    IN(0, 0, list_member, 1);
    IN(0, 1, import, 0);
    IN(DENIED, 2, import, 0);
    IN(0, 1, read_theirs, 3);
    IN(0, 0, list_member, 2);
    IN(0, 2, import, 0);
    IN(0, 2, read_theirs, 3);
}
END_TEST

static aclError list_as_stranger(int arg)
{
    (void)arg;
    FAILS(GONE, aclrtIpcMemSetImportPid(shared->key[0], &shared->pid[2], 1));
    return 0;
}

/* Only the exporter changes the list, or ends the export. */
START_TEST(an_importer_is_no_exporter)
{
    share_between(2, 0);
    IN(0, 2, open_device, 0);
    IN(0, 1, list_as_stranger, 0);
    IN(0, 1, close_key, 0);
    IN(GONE, 1, close_key, 0);
    IN(GONE, 2, close_key, 0);
    IN(0, 2, import, 0);
}
END_TEST

static aclError second_user_opens(int device)
{
    second_user_become();
    return open_device(device);
}

START_TEST(another_user_must_be_listed)
{
    if (!need_root(__func__))
        return;
    npud_start((const char *const[]){"--devices", "2", NULL});
    second_user_let_in();
    start_members();
    IN(0, 0, open_device, 0);
    IN(0, 1, second_user_opens, 0);
    IN(0, 0, make, 5);
    IN(0, 0, export_as, ANY);
    IN(DENIED, 1, import, 0);
    IN(0, 0, export_as, LISTED);
    IN(DENIED, 1, import, 0);
    IN(0, 0, list_member, 1);
    IN(0, 1, import, 0);
    IN(0, 1, read_theirs, 5);
    IN(0, 1, write_theirs, 6);
    IN(0, 0, read_mine, 6);
    IN(0, 0, free_mine, 0);
    IN(0, 1, read_theirs, 6);
    tear_down_test();
}
END_TEST

/* An importer in a container tells the exporter its pid on the host. */
static aclError import_in_container(int arg)
{
    int go[2], ready[2];
    char c = 0;
    pid_t pid;

    (void)arg;
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        return -1;
    if (pid == 0) {
        ck_assert_int_eq(getpid(), 1);
        open_device(0);
        ck_assert_int_eq(import(FROM(0, 0)), DENIED);
        ck_assert_int_eq(write(ready[1], &c, 1), 1);
        ck_assert_int_eq(read(go[0], &c, 1), 1);
        ck_assert_int_eq(import(FROM(0, 0)), 0);
        read_theirs(8);
        _exit(0);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    ck_assert_int_eq(shared->pid[me], pid);
    shared->pid[2] = go[1];
    return pid;
}

static aclError let_container_go(int pid)
{
    int status;

    ck_assert_int_eq(write(shared->pid[2], "", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(an_importer_in_a_container)
{
    int pid;

    if (!need_root(__func__))
        return;
    IN(0, 0, open_device, 0);
    IN(0, 0, make, 8);
    IN(0, 0, export_as, LISTED);
    pid = in(1, import_in_container, 0);
    if (pid < 0) {
        need_lacks(__func__, "a pid namespace");
        return;
    }
    IN(0, 0, list_member, 1);
    IN(0, 1, let_container_go, pid);
}
END_TEST

/* --- several imports --- */

static aclError close_each(int arg)
{
    aclError error;
    char c;

    /* The oldest goes first, and its address is none any more. */
    for (int i = 0; i < arg; i++) {
        OK(aclrtMemcpy(&c, 1, theirs[i], 1, ACL_MEMCPY_DEVICE_TO_HOST));
        OK(aclrtIpcMemClose(shared->key[0]));
        FAILS(BAD, aclrtMemcpy(&c, 1, theirs[i], 1, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int j = i + 1; j < arg; j++)
            OK(aclrtMemcpy(&c, 1, theirs[j], 1, ACL_MEMCPY_DEVICE_TO_HOST));
    }
    error = aclrtIpcMemClose(shared->key[0]);
    n_theirs = 0;
    return error;
}

START_TEST(closes_take_the_oldest_import)
{
    share_between(1, 0);
    IN(0, 1, open_device, 0);
    for (int i = 0; i < 5; i++)
        IN(0, 1, import, 0);
    IN(GONE, 1, close_each, 5);
    /* In the exporter they go before the export. */
    for (int i = 0; i < 3; i++)
        IN(0, 0, import, 0);
    IN(0, 0, close_each, 3);
    IN(GONE, 0, close_key, 0);
    IN(GONE, 1, import, 0);
}
END_TEST

static aclError get_used(int arg)
{
    size_t left, total;

    (void)arg;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return (aclError)((total - left) >> 12);
}

/* So the report says, and so does the call. */
static void expect_used(int who, uint64_t bytes)
{
    ck_assert_uint_eq(device_memory(), bytes);
    ck_assert_uint_eq((uint64_t)in(who, get_used, 0) << 12, bytes);
}

START_TEST(pages_are_counted_once)
{
    uint64_t used;

    for (int i = 0; i < MEMBERS; i++)
        IN(0, i, open_device, 0);
    expect_used(2, 0);
    IN(0, 0, make, 4);
    used = device_memory();
    ck_assert_uint_ge(used, BYTES);
    IN(0, 0, export_as, ANY);
    IN(0, 0, export_as, ANY);
    for (int i = 0; i < 3; i++)
        IN(0, 1, import, 0);
    IN(0, 2, import, 0);
    expect_used(2, used);
    IN(0, 0, free_mine, 0);
    expect_used(2, used);
    IN(GONE, 2, import, 0);
    for (int i = 0; i < 3; i++)
        IN(0, 1, close_key, 0);
    expect_used(1, used);
    IN(0, 2, read_theirs, 4);
    IN(0, 2, close_key, 0);
    expect_used(2, 0);
}
END_TEST

/* --- lifetimes --- */

static aclError go_on_without_exporter(int seed)
{
    expect_bytes(theirs[0], seed);
    put_bytes(theirs[0], seed + 1);
    OK(aclrtMemsetAsync(theirs[0], BYTES, 0x5a, BYTES / 2, stream));
    OK(aclrtSynchronizeStream(stream));
    put_bytes(theirs[0], seed);
    return 0;
}

enum leave {
    LEAVE_CLOSE,
    LEAVE_FREE, /* an exporter */
    LEAVE_RESET,
    LEAVE_EXIT, /* in good order */
    LEAVE_KILLED,
    LEAVES
};

/* sessions: that are left if its own ends. */
static void leave(int who, enum leave how, uint32_t sessions)
{
    static aclError (*const calls[LEAVES])(int) = {close_key, free_mine, reset_device};

    if (calls[how]) {
        IN(0, who, calls[how], 0);
        return;
    }
    if (how == LEAVE_EXIT)
        actor_end(&member[who]);
    else
        actor_kill(&member[who]);
    npud_await_sessions(sessions);
}

/* Before the import, nothing can be imported; after it, nothing changes for the importer. */
START_TEST(an_exporter_leaves)
{
    uint64_t used;

    share_between(2, 0);
    IN(0, 2, open_device, 0);
    used = device_memory();
    leave(0, (enum leave)_i, 2);
    IN(GONE, 2, import, 0);
    IN(0, 1, read_theirs, 1);
    IN(0, 1, go_on_without_exporter, 1);
    ck_assert_uint_eq(device_memory(), used);
    IN(0, 1, close_key, 0);
    if (_i == LEAVE_CLOSE)
        IN(0, 0, free_mine, 0);
    expect_used(2, 0);
}
END_TEST

START_TEST(an_importer_leaves)
{
    uint64_t used;

    if (_i == LEAVE_FREE)
        return;
    share_between(MEMBERS, 0);
    used = device_memory();
    leave(1, (enum leave)_i, 2);
    IN(0, 0, read_mine, 1);
    IN(0, 2, go_on_without_exporter, 1);
    ck_assert_uint_eq(device_memory(), used);
    IN(0, 2, close_key, 0);
    IN(0, 2, import, 0);
    ck_assert_uint_eq(device_memory(), used);
}
END_TEST

/* One after the other dies, and the last one still reads what the first has written. */
START_TEST(the_last_one_has_the_bytes)
{
    share_between(MEMBERS, 1);
    kill_member(0, 2);
    IN(0, 2, read_theirs, 1);
    kill_member(1, 1);
    IN(0, 2, go_on_without_exporter, 1);
    ck_assert_uint_ge(device_memory(), BYTES);
    IN(0, 2, close_key, 0);
    ck_assert_uint_eq(device_memory(), 0);
}
END_TEST

/* A child of a fork has no session: it cannot import or close, and its end means nothing. */
static aclError fork_importer(int arg)
{
    int status;
    void *p;
    pid_t pid = fork_when_quiet();

    (void)arg;
    if (pid == 0) {
        if (aclrtIpcMemClose(shared->key[0]) == 0 ||
            aclrtIpcMemImportByKey(&p, shared->key[0], 0) == 0)
            _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    expect_bytes(common(), 1);
    return 0;
}

START_TEST(forks)
{
    share_between(2, 0);
    IN(0, 1, fork_importer, 0);
    IN(0, 0, fork_importer, 0);
}
END_TEST

/* --- descriptors --- */

static aclError use_descriptors(int arg)
{
    char c = 0;
    int fd = -1, pipes[2];
    void *p, *q;

    (void)arg;
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudMemExportFd(mine, BYTES, ANY, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudMemExportFd(NULL, BYTES, ANY, &fd));
    FAILS(BAD, aclnpudMemExportFd(mine, 0, ANY, &fd));
    FAILS(BAD, aclnpudMemExportFd(mine, BYTES, 2, &fd));
    FAILS_SAYING(BAD, "aclnpudMemExportFd: ", aclnpudMemExportFd(mine, BYTES + 64, ANY, &fd));
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(pipe(pipes), 0);
    FAILS(BAD, aclnpudMemImportFd(&p, pipes[0], 0));
    FAILS(BAD, aclnpudMemImportFd(&p, -1, 0));
    FAILS(BAD, aclnpudMemCloseFd(pipes[0]));
    OK(aclnpudMemExportFd(mine, BYTES, ANY, &fd));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudMemImportFd(NULL, fd, 0));
    FAILS(BAD, aclnpudMemImportFd(&p, fd, 2));
    OK(aclnpudMemImportFd(&p, fd, 0));
    OK(aclnpudMemImportFd(&q, fd, 0));
    expect_bytes(p, 1);
    ck_assert_int_eq(write(fd, &c, 1), -1);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    for (int i = 0; i < 3; i++)
        OK(aclnpudMemCloseFd(fd));
    FAILS(GONE, aclnpudMemCloseFd(fd));
    FAILS(GONE, aclnpudMemImportFd(&p, fd, 0));
    close(fd);
    return 0;
}

START_TEST(by_descriptor)
{
    IN(0, 0, open_device, 0);
    IN(0, 0, make, 1);
    IN(0, 0, use_descriptors, 0);
}
END_TEST

/* --- work --- */

static aclError work_on_theirs(int arg)
{
    uint64_t words[64], sum[64];
    char *own, *p = theirs[0];

    (void)arg;
    for (int i = 0; i < 64; i++)
        words[i] = (uint64_t)i;
    OK(aclrtMalloc((void **)&own, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemsetAsync(p, BYTES, 0x11, BYTES, stream));
    OK(aclrtMemcpyAsync(own, BYTES, p, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(p + 64, 512, words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(own + 64, 512, words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtReduceAsync(p + 64, own + 64, 512, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream,
                        NULL));
    OK(aclrtValueWrite(p, 77, 0, stream));
    OK(aclrtValueWait(p, 77, ACL_STREAM_WAIT_VALUE_EQ, stream));
    OK(aclrtMemcpyAsync(sum, 512, p + 64, 512, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(sum[i], 2 * (uint64_t)i);
    OK(aclrtMemcpy(p + 8192, 4096, own, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE));
    FAILS(BAD, aclrtMemcpy(p, BYTES, own, BYTES + 64, ACL_MEMCPY_DEVICE_TO_DEVICE));
    FAILS(BAD, aclrtMemset(p + BYTES - 8, 64, 0, 64));
    OK(aclrtFree(own));
    return 0;
}

static aclError see_work(int arg)
{
    uint64_t word;

    (void)arg;
    OK(aclrtMemcpy(&word, 8, mine, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(word, 77);
    OK(aclrtMemcpy(&word, 8, mine + 64 + 8, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(word, 2);
    OK(aclrtMemcpy(&word, 8, mine + BYTES - 8, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(word, UINT64_C(0x1111111111111111));
    return 0;
}

START_TEST(all_kinds_of_work)
{
    share_between(2, _i);
    IN(0, 1, work_on_theirs, 0);
    IN(0, 0, see_work, 0);
}
END_TEST

static aclError need_peer(int arg)
{
    int32_t reaches = -1;
    char *p = theirs[0], *own;

    (void)arg;
    OK(aclrtDevicePeerAccessStatus(1, 0, &reaches));
    ck_assert_int_eq(reaches, 0);
    OK(aclrtMalloc((void **)&own, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    FAILS(GONE, aclrtMemcpyAsync(own, 64, p, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    FAILS(GONE, aclrtValueWrite(p, 1, 0, stream));
    FAILS(GONE, aclrtValueWait(p, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    FAILS(GONE,
          aclrtReduceAsync(p, own, 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream, NULL));
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtFree(own));
    return work_on_theirs(0);
}

START_TEST(another_device_must_reach_it)
{
    share_between(1, 0);
    IN(0, 1, open_device, 1);
    IN(0, 1, import, 0);
    IN(0, 1, need_peer, 0);
    IN(0, 0, see_work, 0);
}
END_TEST

/* --- waiting for words --- */

static aclError set_word(int value)
{
    uint64_t word = (uint64_t)value;

    return aclrtMemcpy(common(), 8, &word, 8, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError wait_for_word(int value)
{
    OK(aclrtValueWait(common(), (uint64_t)value, ACL_STREAM_WAIT_VALUE_EQ, stream));
    engine_turn(probe);
    ck_assert(!idle(stream));
    return 0;
}

static aclError still_waits(int arg)
{
    (void)arg;
    engine_turn(probe);
    ck_assert(!idle(stream));
    return 0;
}

static aclError drain(int arg)
{
    (void)arg;
    return aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
}

static aclError wake_by_task(int value)
{
    OK(aclrtValueWrite(common(), (uint64_t)value, 0, other));
    return aclrtSynchronizeStream(other);
}

static aclError wake_by_set(int value)
{
    (void)value;
    return aclrtMemset(common(), 8, 0x07, 8);
}

static aclError wake_by_async_copy(int value)
{
    static uint64_t word;

    word = (uint64_t)value;
    OK(aclrtMemcpyAsync(common(), 8, &word, 8, ACL_MEMCPY_HOST_TO_DEVICE, other));
    return aclrtSynchronizeStream(other);
}

static aclError wait_for_sevens(int arg)
{
    (void)arg;
    OK(aclrtValueWait(common(), UINT64_C(0x0707070707070707), ACL_STREAM_WAIT_VALUE_EQ, stream));
    return still_waits(0);
}

/* Either side wakes the other. */
START_TEST(a_write_wakes_the_other_process)
{
    static aclError (*const wakes[])(int) = {wake_by_task, set_word, wake_by_async_copy};
    int device = _i;

    share_between(2, device);
    IN(0, 0, set_word, 0);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 3; i++) {
            int value = 1 + i + 10 * side;

            IN(0, side, wait_for_word, value);
            IN(0, !side, wakes[i], value + 100);
            IN(0, side, still_waits, 0);
            IN(0, !side, wakes[i], value);
            IN(0, side, drain, 0);
        }
        IN(0, side, wait_for_sevens, 0);
        IN(0, !side, wake_by_set, 0);
        IN(0, side, drain, 0);
        IN(0, side, set_word, 0);
    }
}
END_TEST

/* It had used the memory before it exported it. */
START_TEST(the_first_write_after_the_export_wakes)
{
    share_between(2, 0);
    IN(0, 1, wait_for_sevens, 0);
    IN(0, 0, wake_by_set, 0);
    IN(0, 1, drain, 0);
}
END_TEST

#define TURNS choose_effort(500, 2000)

/* Each turn a stream parks, or does not, while the other process stores what it waits for. */
static aclError take_turns(int first)
{
    for (int i = 0; i < 2 * (int)TURNS; i++) {
        if (i % 2 == first)
            OK(set_word(i + 1));
        OK(aclrtValueWait(common(), (uint64_t)i + 1, ACL_STREAM_WAIT_VALUE_GEQ, stream));
        OK(drain(0));
    }
    return 0;
}

START_TEST(stores_and_waits_take_turns)
{
    share_between(2, 0);
    IN(0, 0, set_word, 0);
    begin(0, take_turns, 0);
    begin(1, take_turns, 1);
    ck_assert_int_eq(finish(0), 0);
    ck_assert_int_eq(finish(1), 0);
}
END_TEST

/* Both wait, and the third wakes both. */
START_TEST(one_wakes_two)
{
    share_between(MEMBERS, 0);
    IN(0, 0, set_word, 0);
    IN(0, 0, wait_for_word, 9);
    IN(0, 1, wait_for_word, 9);
    IN(0, 2, set_word, 9);
    IN(0, 0, drain, 0);
    IN(0, 1, drain, 0);
}
END_TEST

static aclError expect_blame(int pid)
{
    char text[32];

    ck_assert_int_eq(drain(0), DESERTED);
    snprintf(text, sizeof(text), "process %d,", pid);
    ck_assert_msg(strstr(aclGetRecentErrMsg(), text), "%s", aclGetRecentErrMsg());
    return 0;
}

static aclError wait_in_vain(int value)
{
    return aclrtValueWait(common(), (uint64_t)value, ACL_STREAM_WAIT_VALUE_EQ, stream);
}

/* Exiting with the memory is no better than being killed with it. */
START_TEST(the_last_other_one_ends)
{
    int victim = _i % 2;
    pid_t pid = member[victim].pid;

    share_between(2, 0);
    IN(0, 0, set_word, 0);
    IN(0, !victim, wait_for_word, 1);
    leave(victim, _i < 2 ? LEAVE_KILLED : LEAVE_EXIT, 1);
    IN(0, !victim, expect_blame, pid);
    /* It may go on with the memory, and is told again if it waits for the other one. */
    IN(0, !victim, wait_in_vain, 2);
    IN(0, !victim, expect_blame, pid);
    IN(0, !victim, set_word, 2);
    IN(0, !victim, wait_in_vain, 2);
    IN(0, !victim, drain, 0);
}
END_TEST

START_TEST(others_are_left)
{
    pid_t pid = member[1].pid;

    share_between(MEMBERS, 0);
    IN(0, 0, set_word, 0);
    IN(0, 2, wait_for_word, 1);
    kill_member(0, 2);
    IN(0, 2, still_waits, 0);
    IN(0, 1, set_word, 1);
    IN(0, 2, drain, 0);
    IN(0, 2, wait_for_word, 2);
    kill_member(1, 1);
    IN(0, 2, expect_blame, pid);
}
END_TEST

/* In order: no other process is left that could write, either. One that is left may. */
START_TEST(the_last_other_one_closes)
{
    pid_t pid = member[1].pid;

    if (_i == LEAVE_FREE)
        return;
    share_between(MEMBERS, 0);
    IN(0, 0, set_word, 0);
    IN(0, 0, wait_for_word, 1);
    leave(2, (enum leave)_i, 2);
    IN(0, 0, still_waits, 0);
    IN(0, 1, set_word, 1);
    IN(0, 0, drain, 0);
    IN(0, 0, wait_for_word, 2);
    leave(1, (enum leave)_i, 1);
    IN(0, 0, expect_blame, pid);
}
END_TEST

/* --- blocks handed round --- */

/*
 * A ring of three: each hands numbered, checksummed blocks to the next one, in memory that one of
 * them has made, with words of it as semaphores. Then some are killed.
 */
#define BLOCK  8192u
#define ROUNDS 100000

struct block {
    uint32_t round, from;
    uint64_t sum;
    uint64_t words[BLOCK / 8 - 2];
};

struct ring {
    uint64_t full[MEMBERS], empty[MEMBERS]; /* blocks that were put there, and taken */
    struct block blocks[MEMBERS];
};

static struct block *sent, *got; /* pinned */

static void write_block(struct block *b, uint32_t round, uint32_t from)
{
    uint64_t state = round * UINT64_C(31) + from;

    *b = (struct block){.round = round, .from = from};
    for (size_t i = 0; i < sizeof(b->words) / 8; i++)
        b->sum += b->words[i] = draw_random(&state);
}

static void judge_block(const struct block *b, uint32_t round, uint32_t from)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof(b->words) / 8; i++)
        sum += b->words[i];
    ck_assert_uint_eq(b->round, round);
    ck_assert_uint_eq(b->from, from);
    ck_assert_uint_eq(b->sum, sum);
}

/* Until the stream is done; false: somebody has died, and the waits were helped out. */
static bool pass_round(struct ring *r, uint32_t in, uint32_t out, uint64_t round)
{
    uint64_t done = round + 1;
    aclError error;

    while (!idle(stream)) {
        if (!shared->somebody_died)
            continue;
        OK(aclrtMemcpy(&r->empty[out], 8, &done, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemcpy(&r->full[in], 8, &done, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        break;
    }
    error = aclrtSynchronizeStream(stream);
    ck_assert_msg(error == 0 || error == DESERTED, "%d: %s", error, aclGetRecentErrMsg());
    return error == 0 && !shared->somebody_died;
}

static void queue_round(struct ring *r, uint32_t in, uint32_t out, uint64_t round)
{
    OK(aclrtValueWait(&r->empty[out], round, ACL_STREAM_WAIT_VALUE_GEQ, stream));
    OK(aclrtMemcpyAsync(&r->blocks[out], BLOCK, sent, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtValueWrite(&r->full[out], round + 1, 0, stream));
    OK(aclrtValueWait(&r->full[in], round + 1, ACL_STREAM_WAIT_VALUE_GEQ, stream));
    OK(aclrtMemcpyAsync(got, BLOCK, &r->blocks[in], BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtValueWrite(&r->empty[in], round + 1, 0, stream));
}

/* maker: whose memory it is. */
static aclError go_round(int maker)
{
    uint32_t before = (uint32_t)(me + MEMBERS - 1) % MEMBERS;
    struct ring *r = (struct ring *)(me == maker ? mine : theirs[0]);
    uint32_t round;

    OK(aclrtMallocHost((void **)&sent, BLOCK));
    OK(aclrtMallocHost((void **)&got, BLOCK));
    for (round = 0; round < ROUNDS; round++) {
        write_block(sent, round, (uint32_t)me);
        queue_round(r, before, (uint32_t)me, round);
        if (!pass_round(r, before, (uint32_t)me, round))
            break;
        judge_block(got, round, before);
        shared->rounds[me] = round + 1;
    }
    OK(aclrtFreeHost(sent));
    OK(aclrtFreeHost(got));
    return 0;
}

static aclError clear_mine(int arg)
{
    (void)arg;
    return aclrtMemset(mine, BYTES, 0, BYTES);
}

static aclError leave_ring(int maker)
{
    if (me == maker)
        return aclrtFree(mine);
    return aclrtIpcMemClose(shared->key[maker]);
}

static void kill_some(uint64_t *chance, bool dead[MEMBERS])
{
    int n = 1 + draw_chance(chance, 30);
    int first = (int)draw_below(chance, MEMBERS);
    uint32_t when = 1 + draw_below(chance, 60);

    EVENTUALLY(shared->rounds[first] >= when, "the ring stands still");
    for (int i = 0; i < n; i++) {
        int who = (first + i) % MEMBERS;

        dead[who] = true;
        actor_kill(&member[who]);
    }
    npud_await_sessions((uint32_t)(MEMBERS - n));
    shared->somebody_died = true;
}

START_TEST(blocks_handed_round)
{
    uint64_t chance = (uint64_t)_i * 77 + 5;
    int maker = (int)draw_below(&chance, MEMBERS);
    bool across = draw_chance(&chance, 50), dead[MEMBERS] = {false};

    for (int i = 0; i < MEMBERS; i++)
        IN(0, i, open_device, across ? i % 2 : 0);
    IN(0, maker, make, 0);
    IN(0, maker, clear_mine, 0);
    IN(0, maker, export_as, ANY);
    for (int i = 0; i < MEMBERS; i++)
        if (i != maker)
            IN(0, i, import, FROM(maker, PEER));
    for (int i = 0; i < MEMBERS; i++)
        begin(i, go_round, maker);
    kill_some(&chance, dead);
    for (int i = 0; i < MEMBERS; i++)
        if (!dead[i])
            ck_assert_int_eq(finish(i), 0);
    ck_assert_uint_ge(device_memory(), BYTES);
    for (int i = 0; i < MEMBERS; i++)
        if (!dead[i])
            IN(0, i, leave_ring, maker);
    ck_assert_uint_eq(device_memory(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc_memory");
    TCase *tc = suite_case(suite, "ipc_memory", 120, set_up_test, tear_down_test);

    tcase_add_test(tc, arguments);
    tcase_add_test(tc, list_of_pids);
    tcase_add_test(tc, an_importer_is_no_exporter);
    tcase_add_test(tc, an_importer_in_a_container);
    tcase_add_test(tc, closes_take_the_oldest_import);
    tcase_add_test(tc, pages_are_counted_once);
    tcase_add_loop_test(tc, an_exporter_leaves, 0, LEAVES);
    tcase_add_loop_test(tc, an_importer_leaves, 0, LEAVES);
    tcase_add_test(tc, the_last_one_has_the_bytes);
    tcase_add_test(tc, forks);
    tcase_add_test(tc, by_descriptor);
    tcase_add_loop_test(tc, all_kinds_of_work, 0, 2);
    tcase_add_test(tc, another_device_must_reach_it);
    tc = suite_case(suite, "waits", 120, set_up_test, tear_down_test);
    tcase_add_loop_test(tc, a_write_wakes_the_other_process, 0, 2);
    tcase_add_test(tc, the_first_write_after_the_export_wakes);
    tcase_add_test(tc, stores_and_waits_take_turns);
    tcase_add_test(tc, one_wakes_two);
    tcase_add_loop_test(tc, the_last_other_one_ends, 0, 4);
    tcase_add_test(tc, others_are_left);
    tcase_add_loop_test(tc, the_last_other_one_closes, LEAVE_CLOSE, LEAVE_EXIT);
    tc = suite_case(suite, "blocks", 120, set_up_test, tear_down_test);
    tcase_add_loop_test(tc, blocks_handed_round, 0, (int)choose_effort(8, 100));
    tc = suite_case(suite, "users", 60, NULL, NULL);
    tcase_add_test(tc, another_user_must_be_listed);
    return run_suite(suite);
}
