/*
 * What acl_npud.h adds to IPC events: what a handle tells, and opening it whatever is current. And
 * the UUIDs of devices.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"
#include "proto/wire/ipc_handle.h"

static struct turn go, ready;
static int link_fd[2];

static void set_up_test(void)
{
    npud_setup();
    turn_init(&go);
    turn_init(&ready);
    ck_assert_int_eq(pipe(link_fd), 0);
}

static aclrtEvent make_event(int device, aclrtIpcEventHandle *handle)
{
    aclrtEvent e;

    OK(aclrtSetDevice(device));
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, handle));
    return e;
}

/* Exports an event of device 1, and goes when it is told to. */
static int export_event(void *arg)
{
    aclrtIpcEventHandle handle;

    (void)arg;
    OK(aclInit(NULL));
    make_event(1, &handle);
    ck_assert_int_eq(write(link_fd[1], &handle, sizeof(handle)), sizeof(handle));
    turn_await(&go);
    return 0;
}

static aclrtIpcEventHandle receive_handle(void)
{
    aclrtIpcEventHandle handle;

    ck_assert_int_eq(read(link_fd[0], &handle, sizeof(handle)), sizeof(handle));
    return handle;
}

static void expect_info(aclrtIpcEventHandle handle, int device, pid_t pid, int alive)
{
    aclnpudIpcEventInfo info;
    aclrtUuid uuid;

    memset(&info, 0x55, sizeof(info));
    OK(aclnpudIpcEventGetInfo(handle, &info));
    ck_assert_int_eq(info.deviceId, device);
    ck_assert_int_eq(info.pid, pid);
    ck_assert_int_eq(info.alive, alive);
    ck_assert_uint_eq(info.reserved, 0);
    if (device < 0)
        return;
    OK(aclrtDeviceGetUuid(device, &uuid));
    ck_assert_mem_eq(info.deviceUuid.bytes, uuid.bytes, sizeof(uuid.bytes));
}

/* --- what a handle tells --- */

START_TEST(own_handle)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;

    OK(aclInit(NULL));
    e = make_event(1, &handle);
    expect_info(handle, 1, getpid(), 1);
    OK(aclrtDestroyEvent(e)); /* openable still */
    expect_info(handle, 1, getpid(), 1);
    OK(aclrtResetDevice(1));
    expect_info(handle, 1, getpid(), 1);
    OK(aclFinalize());
}
END_TEST

/*
 * The answer is right at once: a process that has been reaped is not alive, even if npud has not
 * handled its end yet.
 */
START_TEST(exporter_dies)
{
    aclrtIpcEventHandle handle;
    aclnpudIpcEventInfo info;
    aclrtEvent e;
    pid_t child = child_start(export_event, NULL);

    handle = receive_handle();
    OK(aclInit(NULL));
    expect_info(handle, 1, child, 1);
    OK(aclnpudIpcOpenEventOnDevice(&e, handle, 0));
    child_kill(child);
    expect_info(handle, 1, child, 0);
    npud_await_sessions(1);
    expect_info(handle, 1, child, 0);
    /* No process can open the event any more. */
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclnpudIpcOpenEventOnDevice(&e, handle, 0));
    OK(aclrtDestroyEvent(e));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclnpudIpcEventGetInfo(handle, &info));
    OK(aclFinalize());
}
END_TEST

START_TEST(exporter_dies_before_anybody_opens)
{
    aclrtIpcEventHandle handle;
    aclnpudIpcEventInfo info;
    pid_t child = child_start(export_event, NULL);

    handle = receive_handle();
    child_kill(child);
    npud_await_sessions(0);
    OK(aclInit(NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclnpudIpcEventGetInfo(handle, &info));
    OK(aclFinalize());
}
END_TEST

/* Of several exporters: the first that lives. */
START_TEST(exported_by_two)
{
    aclrtIpcEventHandle handle, again;
    aclrtEvent e;
    pid_t child = child_start(export_event, NULL);

    handle = receive_handle();
    OK(aclInit(NULL));
    OK(aclnpudIpcOpenEventOnDevice(&e, handle, 0));
    OK(aclrtIpcGetEventHandle(e, &again));
    ck_assert_mem_eq(&handle, &again, sizeof(handle));
    expect_info(handle, 1, child, 1);
    child_kill(child);
    expect_info(handle, 1, getpid(), 1);
    npud_await_sessions(1);
    expect_info(handle, 1, getpid(), 1);
    OK(aclrtDestroyEvent(e));
    OK(aclFinalize());
}
END_TEST

START_TEST(bad_handles)
{
    aclrtIpcEventHandle handle, bad;
    aclnpudIpcEventInfo info, untouched;
    struct ipc_handle forged;
    aclrtContext context;
    aclrtEvent e, none = NULL;

    OK(aclInit(NULL));
    e = make_event(0, &handle);
    OK(aclrtGetCurrentContext(&context));
    memset(&info, 0x55, sizeof(info));
    untouched = info;
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudIpcEventGetInfo(handle, NULL));
    for (unsigned bit = 0; bit < 8 * sizeof(handle); bit += 7) {
        bad = handle;
        bad.reserved[bit / 8] ^= (char)(1 << bit % 8);
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcEventGetInfo(bad, &info));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcOpenEventOnDevice(&none, bad, 0));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcOpenEventInContext(&none, bad, context));
    }
    memset(&bad, 0, sizeof(bad));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcEventGetInfo(bad, &info));
    memcpy(&forged, &handle, sizeof(forged));
    forged.secret[3] ^= 1;
    forged.check = ipc_handle_check(&forged);
    memcpy(&bad, &forged, sizeof(bad));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcEventGetInfo(bad, &info));
    ck_assert_mem_eq(&info, &untouched, sizeof(info));
    ck_assert_ptr_null(none);
    OK(aclrtDestroyEvent(e));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

static int run_second_user(void *arg)
{
    aclrtIpcEventHandle handle = receive_handle();
    aclnpudIpcEventInfo info;
    aclrtEvent e;

    (void)arg;
    second_user_become();
    OK(aclInit(NULL));
    FAILS(ACL_ERROR_RT_NO_PERMISSION, aclnpudIpcEventGetInfo(handle, &info));
    FAILS(ACL_ERROR_RT_NO_PERMISSION, aclnpudIpcOpenEventOnDevice(&e, handle, 0));
    OK(aclFinalize());
    return 0;
}

/* Another user may not open it, and is told nothing. */
START_TEST(of_another_user)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;
    pid_t child;

    if (!need_root(__func__))
        return;
    second_user_let_in();
    child = child_start(run_second_user, NULL);
    OK(aclInit(NULL));
    e = make_event(0, &handle);
    ck_assert_int_eq(write(link_fd[1], &handle, sizeof(handle)), sizeof(handle));
    child_expect_ok(child);
    OK(aclrtDestroyEvent(e));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* Devices are numbered as this process sees them. */
START_TEST(other_numbers)
{
    aclrtIpcEventHandle handle;
    aclrtUuid uuid, seen;
    aclrtEvent e;
    aclnpudIpcEventInfo info;
    pid_t child = child_start(export_event, NULL);

    handle = receive_handle();
    setenv("ASCEND_RT_VISIBLE_DEVICES", _i == 0 ? "1" : "0", 1);
    OK(aclInit(NULL));
    if (_i == 0)
        expect_info(handle, 0, child, 1);
    else
        expect_info(handle, -1, child, 1);
    OK(aclnpudIpcEventGetInfo(handle, &info));
    OK(aclrtDeviceGetUuid(0, &uuid));
    ck_assert_int_eq(memcmp(info.deviceUuid.bytes, uuid.bytes, sizeof(uuid.bytes)) == 0, _i == 0);
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetUuid(1, &seen));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclnpudIpcOpenEventOnDevice(&e, handle, 1));
    OK(aclFinalize());
    turn_tell(&go);
    child_expect_ok(child);
}
END_TEST

/* --- opening --- */

static void *without_context(void *arg)
{
    aclrtIpcEventHandle handle = *(aclrtIpcEventHandle *)arg;
    aclrtContext context;
    aclrtEvent e;
    aclrtEventRecordedStatus status;

    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtIpcOpenEventHandle(handle, &e));
    for (int device = 0; device < 2; device++) {
        OK(aclnpudIpcOpenEventOnDevice(&e, handle, device));
        ck_assert_int_eq(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
        OK(aclrtQueryEventStatus(e, &status));
        ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
        OK(aclrtDestroyEvent(e));
    }
    return NULL;
}

START_TEST(on_a_device)
{
    aclrtIpcEventHandle handle;
    aclrtContext before, after;
    aclrtEvent mine, e;
    aclrtStream stream;
    int32_t device;

    OK(aclInit(NULL));
    mine = make_event(0, &handle);
    OK(aclrtCreateStream(&stream));
    OK(aclrtGetCurrentContext(&before));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudIpcOpenEventOnDevice(NULL, handle, 0));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclnpudIpcOpenEventOnDevice(&e, handle, -1));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclnpudIpcOpenEventOnDevice(&e, handle, 2));
    for (device = 0; device < 2; device++) { /* 1 was never set here */
        OK(aclnpudIpcOpenEventOnDevice(&e, handle, device));
        ck_assert_ptr_ne(e, mine);
        OK(aclnpudLaunchDelay(1000, 0, stream));
        OK(aclrtRecordEvent(mine, stream));
        OK(aclrtStreamWaitEvent(NULL, e));
        OK(aclrtSynchronizeEvent(e));
        OK(aclrtRecordEvent(e, stream));
        OK(aclrtSynchronizeEvent(mine));
        OK(aclrtDestroyEvent(e));
    }
    OK(aclrtGetCurrentContext(&after));
    ck_assert_ptr_eq(before, after);
    OK(aclrtGetDevice(&device));
    ck_assert_int_eq(device, 0);
    thread_call(without_context, &handle);
    OK(aclrtDestroyEvent(mine));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

START_TEST(in_a_context)
{
    aclrtIpcEventHandle handle;
    aclrtContext primary, two, one, now;
    aclrtEvent mine, e;
    aclrtStream stream;

    OK(aclInit(NULL));
    mine = make_event(0, &handle);
    OK(aclrtCreateStream(&stream));
    OK(aclrtGetCurrentContext(&primary));
    OK(aclrtCreateContext(&one, 1));
    OK(aclrtCreateContext(&two, 0));
    OK(aclrtSetCurrentContext(primary));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudIpcOpenEventInContext(NULL, handle, one));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudIpcOpenEventInContext(&e, handle, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcOpenEventInContext(&e, handle, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcOpenEventInContext(&e, handle, mine));
    for (int i = 0; i < 3; i++) {
        OK(aclnpudIpcOpenEventInContext(&e, handle, i == 0 ? primary : i == 1 ? one : two));
        OK(aclnpudLaunchDelay(1000, 0, stream));
        OK(aclrtRecordEvent(e, stream));
        OK(aclrtSynchronizeEvent(mine));
        OK(aclrtDestroyEvent(e));
        OK(aclrtGetCurrentContext(&now));
        ck_assert_ptr_eq(now, primary);
    }
    OK(aclnpudIpcOpenEventInContext(&e, handle, one));
    OK(aclrtDestroyContext(one));
    /* The event outlives the context, as events do. */
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtSynchronizeEvent(mine));
    OK(aclrtDestroyEvent(e));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudIpcOpenEventInContext(&e, handle, one));
    OK(aclrtDestroyEvent(mine));
    OK(aclrtDestroyContext(two));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* --- UUIDs --- */

START_TEST(uuids)
{
    static const aclrtUuid zero;
    aclrtUuid first[2], second[2];

    OK(aclInit(NULL));
    for (int i = 0; i < 2; i++) {
        OK(aclrtDeviceGetUuid(i, &first[i]));
        ck_assert_mem_ne(&first[i], &zero, sizeof(zero));
        ck_assert_int_eq(first[i].bytes[6] & 0xf0, 0x40); /* RFC 9562, version 4 */
    }
    ck_assert_mem_ne(&first[0], &first[1], sizeof(zero));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetUuid(0, NULL));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetUuid(2, &first[0]));
    FAILS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetUuid(-1, &first[0]));
    OK(aclFinalize());
    npud_teardown();
    /* Another npud, the same devices. */
    npud_setup();
    OK(aclInit(NULL));
    for (int i = 0; i < 2; i++) {
        OK(aclrtDeviceGetUuid(i, &second[i]));
        ck_assert_mem_eq(&first[i], &second[i], sizeof(zero));
    }
    OK(aclFinalize());
}
END_TEST

static void tear_down_test(void)
{
    npud_expect_empty();
    npud_teardown();
}

START_TEST(without_npud)
{
    aclrtIpcEventHandle handle = {{0}};
    aclnpudIpcEventInfo info;
    aclrtUuid uuid;
    aclrtEvent e;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    make_event(0, &handle);
    npud_kill();
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclnpudIpcEventGetInfo(handle, &info));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclnpudIpcOpenEventOnDevice(&e, handle, 0));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtDeviceGetUuid(0, &uuid));
    OK(aclFinalize());
    OK(aclInit(NULL));
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclnpudIpcEventGetInfo(handle, &info));
    FAILS(ACL_ERROR_RT_NO_DEVICE, aclnpudIpcOpenEventOnDevice(&e, handle, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("IPC extras");
    TCase *t = suite_case(suite, "handles", 60, set_up_test, tear_down_test);

    tcase_add_test(t, own_handle);
    tcase_add_test(t, exporter_dies);
    tcase_add_test(t, exporter_dies_before_anybody_opens);
    tcase_add_test(t, exported_by_two);
    tcase_add_test(t, bad_handles);
    tcase_add_test(t, of_another_user);
    tcase_add_loop_test(t, other_numbers, 0, 2);
    tcase_add_test(t, on_a_device);
    tcase_add_test(t, in_a_context);
    tcase_add_test(t, uuids);
    t = suite_case(suite, "npud gone", 60, npud_setup, npud_teardown);
    tcase_add_test(t, without_npud);
    return run_suite(suite);
}
