/*
 * A forked child has none of the memory that npud gave to its parent: its stores do not reach the
 * parent's, touching faults, and what the parent frees does not stay because a child lives. What a
 * child makes after aclInit is its own.
 * Skipped under ASan and TSan: a child that touches what is not there ends by a signal.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"

#define KEY   65
#define BYTES 8192
#define MIB   ((size_t)1 << 20)

/* --- what the parent has --- */

struct owned {
    const char *name;
    void *address;
    size_t size;
};
static struct owned owned[16];
static unsigned n_owned;

static void *note(const char *name, void *address, size_t size)
{
    owned[n_owned++] = (struct owned){name, address, size};
    return address;
}

static void *make_import(void)
{
    char key[KEY];
    void *exported, *imported;

    OK(aclrtMalloc(&exported, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtIpcMemGetExportKey(exported, BYTES, key, KEY, 0));
    OK(aclrtIpcMemImportByKey(&imported, key, 0));
    note("exported memory", exported, BYTES);
    return imported;
}

/* Half of the reservation is mapped. */
static void make_mapping(void)
{
    aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                 .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    char *reserved;

    OK(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0));
    OK(aclrtReserveMemAddress((void **)&reserved, 6 * MIB, 0, NULL, 0));
    OK(aclrtMapMem(reserved, 2 * MIB, 0, handle, 0));
    OK(aclrtMapMem(reserved + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(aclrtUnmapMem(reserved));
    note("a mapping", reserved + 2 * MIB, 2 * MIB);
    note("addresses without a mapping any more", reserved, 2 * MIB);
    note("addresses without a mapping", reserved + 4 * MIB, 2 * MIB);
}

static void make_block(void)
{
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtMemPool pool;
    aclrtStream stream;
    void *p;

    OK(aclrtMemPoolCreate(&pool, &props));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemPoolMallocAsync(&p, BYTES, pool, stream));
    note("memory of a pool", p, BYTES);
}

static void make_buffer(void)
{
    acltdtBuf buffer;
    size_t size;
    void *p;

    OK(acltdtAllocBuf(BYTES, 0, &buffer));
    OK(acltdtGetBufData(buffer, &p, &size));
    note("a shared buffer", p, size);
}

static void make_all(void)
{
    aclrtEvent event;
    uint32_t queue;
    void *p;

    session_open();
    OK(aclrtMalloc(&p, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    note("device memory", p, BYTES);
    OK(aclrtMallocHost(&p, BYTES));
    memset(note("pinned memory", p, BYTES), 1, BYTES);
    OK(aclrtMemAllocManaged(&p, 2 * MIB, ACL_RT_MEM_ATTACH_GLOBAL));
    memset(note("managed memory", p, 2 * MIB), 1, BYTES);
    note("imported memory", make_import(), BYTES);
    make_mapping();
    make_block();
    make_buffer();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(acltdtCreateQueue(NULL, &queue));
}

/* --- in a child --- */

/* Nothing of the kernel's: neither memory nor a reservation. */
static bool is_mapped(const struct owned *o)
{
    unsigned char present[1];
    uintptr_t page = (uintptr_t)o->address & ~(uintptr_t)4095;

    return mincore((void *)page, 4096, present) == 0 || errno != ENOMEM;
}

static int expect_nothing(void *arg)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    int found = 0;

    (void)arg;
    for (unsigned i = 0; i < n_owned; i++)
        if (is_mapped(&owned[i])) {
            fprintf(stderr, "a child has %s of its parent\n", owned[i].name);
            found = 1;
        }
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "/memfd:")) {
            fprintf(stderr, "a child has %s", line);
            found = 1;
        }
    if (maps)
        fclose(maps);
    return found;
}

static int touch(void *arg)
{
    *(volatile char *)arg = 7;
    return 0;
}

/* Memory of its own, as any process has it. */
static int use_library(void *arg)
{
    char from[BYTES], to[BYTES] = "";
    void *device, *pinned;

    (void)arg;
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0)
        return 1;
    memset(from, 3, sizeof(from));
    if (aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST) != 0 ||
        aclrtMallocHost(&pinned, BYTES) != 0 ||
        aclrtMemcpy(device, BYTES, from, BYTES, ACL_MEMCPY_HOST_TO_DEVICE) != 0 ||
        aclrtMemcpy(pinned, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST) != 0)
        return 2;
    memcpy(to, pinned, BYTES);
    if (memcmp(from, to, BYTES) != 0)
        return 3;
    return aclrtFree(device) != 0 || aclrtFreeHost(pinned) != 0 || aclrtResetDevice(0) != 0 ||
           aclFinalize() != 0;
}

/* Its own parent's library, used before: the child of a child. */
static int use_twice(void *arg)
{
    int status;
    pid_t pid;

    if (use_library(arg) != 0 || aclInit(NULL) != 0 || aclrtSetDevice(0) != 0)
        return 1;
    pid = fork_when_quiet();
    if (pid == 0)
        _exit(use_library(arg));
    return waitpid(pid, &status, 0) != pid || status != 0 || aclrtResetDevice(0) != 0 ||
           aclFinalize() != 0;
}

static int status_of(int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork_when_quiet();
    int status;

    if (pid == 0)
        _exit(fn(arg));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(a_child_has_none_of_it)
{
    make_all();
    ck_assert_int_eq(status_of(expect_nothing, NULL), 0);
    session_close();
}
END_TEST

START_TEST(touching_faults)
{
    make_all();
    for (unsigned i = 0; i < n_owned; i++) {
        int status = status_of(touch, owned[i].address);

        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%s: status 0x%x",
                      owned[i].name, (unsigned)status);
    }
    session_close();
}
END_TEST

START_TEST(a_child_begins_anew)
{
    void *pinned;

    make_all();
    OK(aclrtMallocHost(&pinned, BYTES));
    memset(pinned, 1, BYTES);
    ck_assert_int_eq(status_of(use_library, NULL), 0);
    ck_assert_int_eq(status_of(use_twice, NULL), 0);
    for (unsigned i = 0; i < BYTES; i++)
        ck_assert_int_eq(((char *)pinned)[i], 1);
    OK(aclrtFreeHost(pinned));
    session_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forked memory");
    TCase *t = suite_case(suite, "children", 60, npud_setup, npud_teardown);

    tcase_add_test(t, a_child_has_none_of_it);
    tcase_add_test(t, touching_faults);
    tcase_add_test(t, a_child_begins_anew);
    return run_suite(suite);
}
