/*
 * IPC events of two users. Guards the check that a user may not open another user's event: a client
 * runs as a second user, so the test needs root.
 */
#include <grp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/harness.h"

#define SECOND_USER 65534

static aclrtIpcEventHandle *handle;
static struct turn go;
static bool allowed;

static int second_user(void *arg)
{
    aclnpudIpcEventInfo info;
    aclrtEvent e;

    (void)arg;
    turn_await(&go);
    if (setgroups(0, NULL) < 0 || setgid(SECOND_USER) < 0 || setuid(SECOND_USER) < 0)
        return 1;
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
    char path[128];
    aclrtEvent e;
    pid_t pid;

    if (geteuid() != 0) {
        printf("test_ipc_users: SKIPPED: needs root, to run a client as a second user\n");
        return;
    }
    handle = mmap(NULL, sizeof(*handle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    turn_init(&go);
    allowed = may;
    npud_start(settings);
    ck_assert_int_eq(chmod(npud.dir, 0755), 0);
    snprintf(path, sizeof(path), "%s/npud.sock", npud.dir);
    ck_assert_int_eq(chmod(path, 0666), 0);
    pid = child_start(second_user, NULL);
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
    open_by_second_user((const char *const[]){"--devices", "1", NULL}, false);
}
END_TEST

START_TEST(unless_the_configuration_opens_it)
{
    open_by_second_user((const char *const[]){"--devices", "1", "--set", "ipc.scope=any", NULL},
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
