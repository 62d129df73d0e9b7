/*
 * Waits for words of shared memory (aclrtValueWait) when nobody is left who could write them: all
 * ways of sharing, numbers of sharers, ways to leave, and orders of the wait and the leaving.
 *
 * The test itself is no client: it directs. Sharer 0 has made the memory, the others import it.
 *
 * Runs long: 40 s.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate.h"
#include "tests/common/actor.h"
#include "tests/common/need.h"

#define SHARERS   4
#define KEY       65
#define UNIT      (2u << 20)
#define ANY       ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define EQ        ACL_STREAM_WAIT_VALUE_EQ
#define DESERTED  ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define ANSWER_MS 300000

enum way { BY_KEY, BY_DESCRIPTOR, BY_NUMBER, WAYS };
/* IDLES: it finalizes with its device set, and its session stays. */
enum leave { KILLED, EXITS, FINALIZES, GIVES_UP, IDLES, LEAVES };
enum order { WAIT_FIRST, WAIT_QUEUED, WAIT_LATER, ORDERS };

/* Between all. */
static struct shared {
    char key[KEY];
    int fd, pid; /* BY_DESCRIPTOR: the exporter's */
    uint64_t number;
} * shared;

static struct actor sharer[SHARERS];

/* Each sharer's own. */
static int me;
static aclrtStream stream, gated, probe;
static aclrtEvent gate;
static uint64_t *words;
static aclrtDrvMemHandle handle;

struct task {
    aclError (*fn)(int arg);
    int arg;
};

/* --- directing --- */

static int obey(int fd, void *arg)
{
    struct task task;
    aclError answer;

    me = (int)(intptr_t)arg;
    while (recv(fd, &task, sizeof(task), 0) == sizeof(task)) {
        answer = task.fn(task.arg);
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            return 1;
    }
    return 0;
}

static void in(int who, aclError (*fn)(int), int arg)
{
    struct task task = {fn, arg};
    aclError answer = -1;

    ck_assert(actor_tell(&sharer[who], &task, sizeof(task)));
    ck_assert_msg(actor_answer(&sharer[who], &answer, sizeof(answer), ANSWER_MS) == sizeof(answer),
                  "sharer %d does not answer", who);
    ck_assert_int_eq(answer, 0);
}

static void start_sharers(void)
{
    shared = child_share(sizeof(*shared));
    for (int i = 0; i < SHARERS; i++)
        actor_start(&sharer[i], obey, (void *)(intptr_t)i);
}

static void set_up_test(void)
{
    npud_setup();
    start_sharers();
}

static void set_up_restartable(void)
{
    npud_start_restartable(NULL);
    start_sharers();
}

static void tear_down_test(void)
{
    for (int i = 0; i < SHARERS; i++)
        if (sharer[i].pid)
            actor_end(&sharer[i]);
    npud_teardown();
}

/* --- sharing --- */

static aclError open_device(int arg)
{
    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&gated));
    OK(aclrtCreateStream(&probe));
    return 0;
}

static const aclrtPhysicalMemProp on_device = {
    .handleType = ACL_MEM_HANDLE_TYPE_NONE,
    .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
};

static void map_handle(void)
{
    OK(aclrtReserveMemAddress((void **)&words, UNIT, 0, NULL, 0));
    OK(aclrtMapMem(words, UNIT, 0, handle, 0));
}

static aclError make(int way)
{
    if (way == BY_NUMBER) {
        OK(aclrtMallocPhysical(&handle, UNIT, &on_device, 0));
        map_handle();
    } else {
        OK(aclrtMalloc((void **)&words, UNIT, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    return aclrtMemset(words, UNIT, 0, 4096);
}

static aclError export(int way)
{
    shared->pid = getpid();
    if (way == BY_NUMBER)
        return aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, ANY,
                                               &shared->number);
    if (way == BY_KEY)
        return aclrtIpcMemGetExportKey(words, UNIT, shared->key, KEY, ANY);
    return aclnpudMemExportFd(words, UNIT, ANY, &shared->fd);
}

static int open_descriptor(void)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", shared->pid, shared->fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static int imported_fd;

static aclError import(int way)
{
    if (way == BY_NUMBER) {
        OK(aclrtMemImportFromShareableHandle(shared->number, 0, &handle));
        map_handle();
        return 0;
    }
    if (way == BY_KEY)
        return aclrtIpcMemImportByKey((void **)&words, shared->key, 0);
    imported_fd = open_descriptor();
    return aclnpudMemImportFd((void **)&words, imported_fd, 0);
}

static aclError give_up(int way)
{
    if (way == BY_NUMBER) {
        OK(aclrtUnmapMem(words));
        return aclrtFreePhysical(handle);
    }
    if (me == 0)
        return aclrtFree(words);
    return way == BY_KEY ? aclrtIpcMemClose(shared->key) : aclnpudMemCloseFd(imported_fd);
}

/* In order: the reset frees the memory, but for physical memory, which goes with the session. */
static aclError finalize(int arg)
{
    (void)arg;
    OK(aclrtResetDevice(0));
    return aclFinalize();
}

static aclError finalize_with_device(int arg)
{
    (void)arg;
    return aclFinalize();
}

static bool ends_session(enum leave how)
{
    return how != GIVES_UP && how != IDLES;
}

static void share_between(int n, enum way way)
{
    in(0, open_device, 0);
    in(0, make, way);
    in(0, export, way);
    for (int i = 1; i < n; i++) {
        in(i, open_device, 0);
        in(i, import, way);
    }
}

/* sessions: that are left if its own ends. */
static void leave(int who, enum leave how, enum way way, int sessions)
{
    if (!ends_session(how)) {
        in(who, how == IDLES ? finalize_with_device : give_up, way);
        return;
    }
    if (how == KILLED)
        actor_kill(&sharer[who]);
    else if (how == EXITS)
        actor_end(&sharer[who]);
    else
        in(who, finalize, 0);
    npud_await_sessions((uint32_t)sessions);
}

/* --- waiting --- */

static aclError wait_now(int value)
{
    return aclrtValueWait(words, (uint64_t)value, EQ, stream);
}

/* Its turn comes with open_gate(). */
static aclError queue_wait(int value)
{
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(stream, gate));
    return wait_now(value);
}

static aclError open_gate(int arg)
{
    (void)arg;
    return aclrtRecordEvent(gate, gated);
}

static aclError still_waits(int arg)
{
    (void)arg;
    engine_turn(probe);
    ck_assert(!idle(stream));
    return 0;
}

static aclError expect_told(int pid)
{
    char text[32];
    aclError error = aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);

    ck_assert_int_eq(error, DESERTED);
    snprintf(text, sizeof(text), "process %d,", pid);
    ck_assert_msg(strstr(aclGetRecentErrMsg(), text), "%s", aclGetRecentErrMsg());
    return 0;
}

static aclError expect_done(int arg)
{
    (void)arg;
    return aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS);
}

static aclError write_word(int value)
{
    OK(aclrtValueWrite(words, (uint64_t)value, 0, gated));
    return aclrtSynchronizeStream(gated);
}

static void begin_wait(int who, enum order order)
{
    if (order == WAIT_FIRST) {
        in(who, wait_now, 1);
        in(who, still_waits, 0);
    } else if (order == WAIT_QUEUED) {
        in(who, queue_wait, 1);
        in(who, still_waits, 0);
    }
}

static void go_on_to_wait(int who, enum order order)
{
    if (order == WAIT_QUEUED)
        in(who, open_gate, 0);
    else if (order == WAIT_LATER)
        in(who, wait_now, 1);
}

/* --- one waits, and all others leave, one after the other --- */

/* Each row by each way of sharing; where starts are slow, by one of them. */
#ifdef __SANITIZE_THREAD__
#define WAYS_OF_ROW 1
#define RESTARTS(n) ((n) < LEAVES * ORDERS ? (n) : LEAVES * ORDERS)
#else
#define WAYS_OF_ROW WAYS
#define RESTARTS(n) (n)
#endif

#define CASES_OF(n) ((n)*LEAVES * ORDERS * 2)

struct row {
    enum leave how;
    enum order order;
    bool exporter; /* waits; else the last importer */
};

static struct row row_of(int i)
{
    return (struct row){.how = (enum leave)(i % LEAVES),
                        .order = (enum order)(i / LEAVES % ORDERS),
                        .exporter = i / LEAVES / ORDERS % 2};
}

static void leave_alone(int n, enum way way, struct row row, bool restarts)
{
    int waiter = row.exporter ? 0 : n - 1, sessions = n, pid = 0;

    share_between(n, way);
    begin_wait(waiter, row.order);
    for (int i = 0, left = n; i < n; i++) {
        if (i == waiter)
            continue;
        if (row.order == WAIT_FIRST)
            in(waiter, still_waits, 0);
        pid = sharer[i].pid;
        sessions -= ends_session(row.how);
        if (restarts && --left == 1 && row.order == WAIT_FIRST)
            npud_kill_server();
        leave(i, row.how, way, sessions);
    }
    if (restarts && row.order != WAIT_FIRST)
        npud_kill_server();
    go_on_to_wait(waiter, row.order);
    in(waiter, expect_told, pid);
    /* Until it is written, each wait says so. */
    in(waiter, wait_now, 2);
    in(waiter, expect_told, pid);
    in(waiter, write_word, 3);
    in(waiter, wait_now, 3);
    in(waiter, expect_done, 0);
}

START_TEST(the_last_one_is_told)
{
    for (int way = 0; way < WAYS_OF_ROW; way++) {
        if (way > 0) {
            tear_down_test();
            set_up_test();
        }
        leave_alone(2 + _i / CASES_OF(1), (enum way)((_i + way) % WAYS), row_of(_i), false);
    }
}
END_TEST

START_TEST(the_last_one_is_told_by_the_next_npud)
{
    leave_alone(2 + _i / CASES_OF(1), (enum way)(_i % WAYS), row_of(_i), true);
}
END_TEST

/*
 * --- several are left, and all of them wait ---
 *
 * If one has ended with the memory, no process is left that could write. If it has given the memory
 * up, the others may have been meant to go on without it, and have other streams that write.
 */

static void all_wait(int n, struct row row, bool restarts)
{
    bool told = row.how == KILLED || row.how == EXITS || row.how == IDLES;
    int pid = sharer[0].pid;

    share_between(n, BY_KEY);
    for (int i = 1; i < n; i++)
        begin_wait(i, row.order);
    if (restarts && row.order == WAIT_FIRST)
        npud_kill_server();
    leave(0, row.how, BY_KEY, n - ends_session(row.how));
    if (restarts && row.order != WAIT_FIRST)
        npud_kill_server();
    for (int i = 1; i < n; i++) {
        go_on_to_wait(i, row.order);
        if (row.order != WAIT_FIRST && i < n - 1)
            in(i, still_waits, 0);
    }
    for (int i = 1; i < n; i++)
        if (told)
            in(i, expect_told, pid);
        else
            in(i, still_waits, 0);
    if (!told)
        in(1, write_word, 1);
    for (int i = 1; i < n && !told; i++)
        in(i, expect_done, 0);
}

START_TEST(all_that_are_left_wait)
{
    all_wait(3 + _i / (LEAVES * ORDERS), row_of(_i), false);
}
END_TEST

START_TEST(all_that_are_left_wait_for_the_next_npud)
{
    all_wait(3 + _i / (LEAVES * ORDERS), row_of(_i), true);
}
END_TEST

/* One that does not wait may write, after a death, too. A wait that was let go does not count. */
START_TEST(one_that_does_not_wait_may_write)
{
    share_between(3, BY_KEY);
    leave(0, KILLED, BY_KEY, 2);
    for (int i = 0; i < 20; i++) {
        int waits = 1 + i % 2;

        in(waits, wait_now, i + 1);
        in(waits, still_waits, 0);
        in(3 - waits, write_word, i + 1);
        in(waits, expect_done, 0);
    }
    /* The last one to wait tells both. */
    in(1, wait_now, 100);
    in(1, still_waits, 0);
    in(2, wait_now, 200);
    in(2, expect_told, shared->pid);
    in(1, expect_told, shared->pid);
}
END_TEST

/* A process that has imported the memory twice waits by one name, and is one process. */
START_TEST(names_are_not_processes)
{
    int twice = 1 + _i;

    share_between(3, BY_KEY);
    in(twice, import, BY_KEY);
    in(1, wait_now, 1);
    leave(0, KILLED, BY_KEY, 2);
    in(1, still_waits, 0);
    in(2, wait_now, 2);
    in(1, expect_told, shared->pid);
    in(2, expect_told, shared->pid);
}
END_TEST

/* One that has come since may be there for the one that has died: until it has left again. */
static void expect_three_to_wait(void)
{
    for (int i = 0; i < 4; i += 1 + !i) /* 0, 2, 3 */
        in(i, still_waits, 0);
}

static void come_later(bool restarts)
{
    int pid = sharer[1].pid;

    share_between(3, BY_KEY);
    in(3, open_device, 0);
    leave(1, KILLED, BY_KEY, 3);
    in(3, import, BY_KEY);
    in(3, wait_now, 1);
    in(0, wait_now, 1);
    in(2, wait_now, 1);
    expect_three_to_wait();
    if (restarts) {
        npud_kill_server();
        expect_three_to_wait();
    }
    in(3, give_up, BY_KEY);
    in(0, expect_told, pid);
    in(2, expect_told, pid);
}

START_TEST(one_that_came_later_leaves)
{
    come_later(false);
}
END_TEST

START_TEST(one_that_came_later_leaves_the_next_npud)
{
    come_later(true);
}
END_TEST

/* --- a program that has finalized, and whose session stays --- */

static aclError queue_write(int value)
{
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(stream, gate));
    return aclrtValueWrite(words, (uint64_t)value, 0, stream);
}

static aclError init_again(int arg)
{
    (void)arg;
    return aclInit(NULL);
}

/* Every process's requests before are handled, and npud has done what they have left. */
static aclError await_npud(int arg)
{
    size_t left, total;

    (void)arg;
    for (int i = 0; i < 3; i++)
        OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return 0;
}

/* What its streams were given before is done: what they write comes, and then all are told. */
START_TEST(one_that_finalizes_has_work_left)
{
    share_between(3, BY_KEY);
    in(1, wait_now, 1);
    in(2, wait_now, _i ? 1 : 2);
    in(0, queue_write, 1);
    leave(0, IDLES, BY_KEY, 3);
    in(0, await_npud, 0);
    in(1, still_waits, 0);
    in(2, still_waits, 0);
    in(0, open_gate, 0);
    in(1, expect_done, 0);
    if (_i) {
        in(2, expect_done, 0);
        in(2, wait_now, 2);
    }
    in(2, still_waits, 0);
    in(1, wait_now, 3);
    in(1, expect_told, shared->pid);
    in(2, expect_told, shared->pid);
}
END_TEST

/* It initialises again, and may write; and a later end of it counts. */
START_TEST(one_that_finalizes_comes_back)
{
    bool restarts = _i % 2;
    int pid = sharer[1].pid;
    static const enum leave last[] = {KILLED, EXITS, FINALIZES, IDLES};

    share_between(2, BY_KEY);
    leave(1, IDLES, BY_KEY, 2);
    in(0, wait_now, 1);
    in(0, expect_told, pid);
    if (restarts)
        npud_kill_server();
    in(1, init_again, 0);
    in(0, wait_now, 2);
    in(0, still_waits, 0);
    in(1, write_word, 2);
    in(0, expect_done, 0);
    in(0, wait_now, 3);
    in(0, still_waits, 0);
    leave(1, last[_i / 2], BY_KEY, 2 - ends_session(last[_i / 2]));
    in(0, expect_told, pid);
}
END_TEST

/* Its memory can still be imported: the importer waits for what no process writes. */
START_TEST(the_maker_has_finalized_before)
{
    in(0, open_device, 0);
    in(0, make, BY_KEY);
    in(0, export, BY_KEY);
    in(1, open_device, 0);
    leave(0, IDLES, BY_KEY, 2);
    in(0, await_npud, 0);
    in(1, import, BY_KEY);
    in(1, wait_now, 1);
    in(1, expect_told, shared->pid);
}
END_TEST

/* --- nobody has left --- */

/* Memory that was never shared, exported or not, waits for its own process. */
START_TEST(one_that_never_shared_waits)
{
    in(0, open_device, 0);
    in(0, make, _i / 2);
    if (_i % 2)
        in(0, export, _i / 2);
    in(0, wait_now, 1);
    in(0, still_waits, 0);
    in(0, write_word, 1);
    in(0, expect_done, 0);
}
END_TEST

static aclError export_listed(int arg)
{
    (void)arg;
    return aclrtIpcMemGetExportKey(words, UNIT, shared->key, KEY, 0);
}

static aclError list_pid(int pid)
{
    return aclrtIpcMemSetImportPid(shared->key, &(int32_t){pid}, 1);
}

static aclError close_key(int arg)
{
    (void)arg;
    return aclrtIpcMemClose(shared->key);
}

/* Its maker says that it knows: it exports it anew, lists an importer, or closes the key. */
START_TEST(an_exporter_goes_on_alone)
{
    static aclError (*const says[])(int) = {export_listed, list_pid, close_key};
    int pid = sharer[1].pid;

    in(0, open_device, 0);
    in(0, make, BY_KEY);
    in(0, export_listed, 0);
    in(0, list_pid, pid);
    in(1, open_device, 0);
    in(1, import, BY_KEY);
    leave(1, KILLED, BY_KEY, 1);
    in(0, wait_now, 1);
    in(0, expect_told, pid);
    in(0, says[_i], getpid());
    in(0, wait_now, 1);
    in(0, still_waits, 0);
    in(0, write_word, 1);
    in(0, expect_done, 0);
}
END_TEST

/* A second import of the same process is nobody else. */
START_TEST(an_import_of_its_own_is_nobody_else)
{
    int pid = sharer[0].pid;

    share_between(2, BY_KEY);
    in(1, import, BY_KEY);
    in(1, wait_now, 1);
    leave(0, _i ? KILLED : GIVES_UP, BY_KEY, 1 + !_i);
    in(1, expect_told, pid);
}
END_TEST

START_TEST(the_next_importer_may_write)
{
    share_between(2, BY_KEY);
    leave(1, _i ? KILLED : GIVES_UP, BY_KEY, 1 + !_i);
    in(2, open_device, 0);
    in(2, import, BY_KEY);
    in(0, wait_now, 1);
    in(0, still_waits, 0);
    in(2, write_word, 1);
    in(0, expect_done, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("value_ends");
    TCase *tc = suite_case(suite, "value_ends", 120, set_up_test, tear_down_test);

    suite_add_cases(tc, the_last_one_is_told, CASES_OF(SHARERS - 1));
    suite_add_cases(tc, all_that_are_left_wait, 2 * LEAVES * ORDERS);
    tcase_add_test(tc, one_that_does_not_wait_may_write);
    tcase_add_loop_test(tc, names_are_not_processes, 0, 2);
    tcase_add_test(tc, one_that_came_later_leaves);
    tcase_add_loop_test(tc, one_that_finalizes_has_work_left, 0, 2);
    tcase_add_test(tc, the_maker_has_finalized_before);
    tcase_add_loop_test(tc, one_that_never_shared_waits, 0, 2 * WAYS);
    tcase_add_loop_test(tc, an_exporter_goes_on_alone, 0, 3);
    tcase_add_loop_test(tc, an_import_of_its_own_is_nobody_else, 0, 2);
    tcase_add_loop_test(tc, the_next_importer_may_write, 0, 2);
    tc = suite_case(suite, "restarts", 120, set_up_restartable, tear_down_test);
    suite_add_cases(tc, the_last_one_is_told_by_the_next_npud, RESTARTS(CASES_OF(SHARERS - 1)));
    suite_add_cases(tc, all_that_are_left_wait_for_the_next_npud, RESTARTS(2 * LEAVES * ORDERS));
    tcase_add_loop_test(tc, one_that_finalizes_comes_back, 0, 8);
    tcase_add_test(tc, one_that_came_later_leaves_the_next_npud);
    return run_suite(suite);
}
