/*
 * A program that has closed its standard input, output or error: no descriptor of the library gets
 * one of their numbers, whatever the program uses, and npuctl does not either.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"

#define BYTES 4096
#define KEY   65
#define MIB   ((size_t)1 << 20)

static unsigned closed; /* a bit for each of 0 to 2 */

/* Descriptors of the test are made before, and above. */
static int event_fd;
static char config[128];

static void check_numbers(const char *what)
{
    for (int fd = 0; fd < 3; fd++)
        ck_assert_msg(!(closed >> fd & 1) || (fcntl(fd, F_GETFD) < 0 && errno == EBADF),
                      "%s: descriptor %d is open", what, fd);
}

#define LEAVES(call)                                                                               \
    do {                                                                                           \
        OK(call);                                                                                  \
        check_numbers(#call);                                                                      \
    } while (0)

static void use_events(aclrtStream stream)
{
    aclrtEvent event, ipc, opened;
    aclrtIpcEventHandle handle;

    LEAVES(aclrtCreateEvent(&event));
    LEAVES(aclrtRecordEvent(event, stream));
    LEAVES(aclnpudEventNotifyFd(event, event_fd));
    LEAVES(aclrtSynchronizeEvent(event));
    LEAVES(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    LEAVES(aclrtIpcGetEventHandle(ipc, &handle));
    LEAVES(aclrtIpcOpenEventHandle(handle, &opened));
    LEAVES(aclrtDestroyEvent(opened));
    LEAVES(aclrtDestroyEvent(ipc));
    LEAVES(aclrtDestroyEvent(event));
}

static void use_memory(void)
{
    void *memory, *pinned, *imported;
    char key[KEY];
    int fd;

    LEAVES(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    LEAVES(aclrtMallocHost(&pinned, BYTES));
    LEAVES(aclrtMemcpy(memory, BYTES, pinned, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    LEAVES(aclrtIpcMemGetExportKey(memory, BYTES, key, KEY, 0));
    LEAVES(aclrtIpcMemImportByKey(&imported, key, 0));
    LEAVES(aclrtIpcMemClose(key));
    LEAVES(aclnpudMemExportFd(memory, BYTES, 0, &fd));
    ck_assert_int_gt(fd, STDERR_FILENO);
    LEAVES(aclnpudMemImportFd(&imported, fd, 0));
    LEAVES(aclnpudMemCloseFd(fd));
    close(fd);
    LEAVES(aclrtFree(memory));
    LEAVES(aclrtFreeHost(pinned));
}

static void use_addresses(void)
{
    aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                 .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    void *reserved;

    LEAVES(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0));
    LEAVES(aclrtReserveMemAddress(&reserved, 2 * MIB, 0, NULL, 0));
    LEAVES(aclrtMapMem(reserved, 2 * MIB, 0, handle, 0));
    LEAVES(aclrtUnmapMem(reserved));
    LEAVES(aclrtReleaseMemAddress(reserved));
    LEAVES(aclrtFreePhysical(handle));
}

static void use_queues(void)
{
    acltdtQueueRouteList *routes = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route;
    uint32_t from, to, rights;
    acltdtBuf buffer;

    LEAVES(acltdtCreateQueue(NULL, &from));
    LEAVES(acltdtCreateQueue(NULL, &to));
    LEAVES(acltdtAttachQueue(from, 0, &rights));
    route = acltdtCreateQueueRoute(from, to);
    LEAVES(acltdtAddQueueRoute(routes, route));
    LEAVES(acltdtBindQueueRoutes(routes));
    LEAVES(acltdtAllocBuf(BYTES, 0, &buffer));
    LEAVES(acltdtEnqueue(from, buffer, 1000));
    LEAVES(acltdtDequeue(to, &buffer, 10000));
    LEAVES(acltdtFreeBuf(buffer));
    LEAVES(acltdtUnbindQueueRoutes(routes));
    LEAVES(acltdtDestroyQueue(from));
    LEAVES(acltdtDestroyQueue(to));
    OK(acltdtDestroyQueueRoute(route));
    OK(acltdtDestroyQueueRouteList(routes));
}

static int use_all(void *arg)
{
    aclrtStream stream;
    aclCANNPackageVersion version;

    (void)arg;
    for (int fd = 0; fd < 3; fd++)
        if (closed >> fd & 1)
            close(fd);
    LEAVES(aclInit(config));
    LEAVES(aclrtSetDevice(0));
    LEAVES(aclrtSetDevice(1));
    LEAVES(aclrtCreateStream(&stream));
    use_events(stream);
    use_memory();
    use_addresses();
    use_queues();
    aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version); /* reads a file, if there is one */
    check_numbers("aclsysGetCANNVersion");
    LEAVES(aclrtDestroyStream(stream));
    LEAVES(aclrtResetDevice(1));
    LEAVES(aclrtResetDevice(0));
    LEAVES(aclFinalize());
    return 0;
}

/* Each set of the three. */
START_TEST(the_library_leaves_them)
{
    closed = (unsigned)_i;
    event_fd = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_gt(event_fd, STDERR_FILENO);
    snprintf(config, sizeof(config), "%s/acl.json", npud.dir);
    write_text_file(config, "{}");
    child_expect_ok(child_start(use_all, NULL));
    npud_expect_empty();
}
END_TEST

/* It fails to write, and says so by its status. */
START_TEST(npuctl_leaves_them)
{
    int status;

    free(npuctl("status <&- >&- 2>&- #", &status));
    ck_assert_int_ne(status, 0);
    free(npuctl("status <&-", &status));
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("low descriptors");
    TCase *t = suite_case(suite, "closed", 60, npud_setup, npud_teardown);

    tcase_add_loop_test(t, the_library_leaves_them, 1, 8);
    tcase_add_test(t, npuctl_leaves_them);
    return run_suite(suite);
}
