/*
 * IPC events of two users. Guards the check that a user may not open another user's event: a client
 * runs as a second user, so the test needs root.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"

static aclrtIpcEventHandle *handle;
static struct turn go;
static bool allowed;

static int run_second_user(void *arg)
{
    aclnpudIpcEventInfo info;
    aclrtEvent e;

    (void)arg;
    turn_await(&go);
    second_user_become();
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    if (allowed) {
        OK(aclrtIpcOpenEventHandle(*handle, &e));
        OK(aclrtSynchronizeEvent(e));
        OK(aclrtDestroyEvent(e));
    } else {
        FAILS(ACL_ERROR_RT_NO_PERMISSION, aclrtIpcOpenEventHandle(*handle, &e));
        FAILS(ACL_ERROR_RT_NO_PERMISSION, aclnpudIpcEventGetInfo(*handle, &info));
    }
    return 0;
}

static void open_by_second_user(const char *const *settings, bool may)
{
    aclrtStream stream, other;
    aclrtEvent e;
    pid_t pid;

    handle = mmap(NULL, sizeof(*handle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    turn_init(&go);
    allowed = may;
    npud_start(settings);
    second_user_let_in();
    pid = child_start(run_second_user, NULL);
    streams_open(&stream, &other);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, handle));
    OK(aclrtRecordEvent(e, stream));
    turn_tell(&go);
    child_expect_ok(pid);
    OK(aclrtDestroyEvent(e));
    OK(aclFinalize());
    npud_teardown();
}

START_TEST(another_users_event_is_closed)
{
    if (need_root(__func__))
        open_by_second_user((const char *const[]){"--devices", "1", NULL}, false);
}
END_TEST

START_TEST(unless_the_configuration_opens_it)
{
    if (need_root(__func__))
        open_by_second_user((const char *const[]){"--devices", "1", "--set=ipc.scope=any", NULL},
                            true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc_users");
    TCase *tc = suite_case(suite, "ipc_users", 60, NULL, NULL);

    tcase_add_test(tc, another_users_event_is_closed);
    tcase_add_test(tc, unless_the_configuration_opens_it);
    return run_suite(suite);
}
