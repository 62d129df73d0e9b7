/*
 * The program npud-executor, with a library that plays the vendor's (tests/vendor): what npud may
 * ask of it, work on its lanes, and the bad days of a library.
 *
 * Skipped under the emulator: it does not run programs that a test starts.
 */
#include "executor_process.h"

#include <dlfcn.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "daemon/base/pidfd.h"
#include "daemon/executor/acl_api.h"
#include "proto/util/reduce.h"
#include "tests/common/need.h"

#define KIB   UINT64_C(1024)
#define BYTES (64 * KIB)

static struct executor_process x;

static void fill(unsigned char *bytes, uint64_t n, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(random_next(&seed) >> 32);
}

/* --- the program --- */

/* Its exit status, without a socket. */
static int run(const char *first, const char *second)
{
    char *argv[] = {"npud-executor", (char *)first, (char *)second, NULL};
    const char *program = executor_program();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        close(EXECUTOR_SOCKET);
        executor_exec(program, -1, argv, NULL);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(the_program_is_for_npud)
{
    ck_assert_int_eq(run("--help", NULL), 0);
    ck_assert_int_eq(run("--version", NULL), 0);
    ck_assert_int_eq(run(NULL, NULL), 2);
    ck_assert_int_eq(run("acl", NULL), 2);
    ck_assert_int_eq(run("--unknown", NULL), 2);
    ck_assert_int_eq(run("acl", fake_library()), 2); /* no socket */
}
END_TEST

/* What npud is told at hello, if that path is not to be loaded. */
static void expect_refused(const char *kind, const char *path, bool nesting, const char *words)
{
    char *argv[] = {"npud-executor", (char *)kind, (char *)path, nesting ? "--nesting" : NULL,
                    NULL};
    struct told told;

    executor_spawn(&x, argv, NULL);
    told = executor_hello(&x, EXECUTOR_VERSION);
    ck_assert_int_ne(told.answer.code, 0);
    ck_assert_msg(strstr(told.answer.text, words), "%s", told.answer.text);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_INFO), ACL_ERROR_RT_PARAM_INVALID);
    executor_end(&x);
}

START_TEST(a_library_that_others_can_change_is_not_loaded)
{
    char folder[] = "/tmp/npud-test-executor-XXXXXX", path[64];
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/libx.so", folder);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    expect_refused("acl", path, false, "/tmp can be changed by others");
    expect_refused("acl", path, true, "file too short");
    expect_refused("acl", folder, true, "no regular file");
    expect_refused("acl", "libx.so", true, "the path of the library");
    expect_refused("acl", "./libx.so", true, "no absolute path");
    expect_refused("acl", "/does/not/exist", true, "No such file");
    expect_refused("opencl", fake_library(), true, "no library of the kind");
    close(fd);
    unlink(path);
    rmdir(folder);
}
END_TEST

/* Also where others can change it, which is refused before. */
START_TEST(npuds_own_library_is_for_nesting)
{
    struct stat st;

    if (stat(beside("../../libaclclient.so.1"), &st) != 0) {
        need_lacks(__func__, "libaclclient.so.1 beside it");
        return;
    }
    expect_refused("acl", beside("../../libaclclient.so.1"), false, "");
}
END_TEST

/* --- hello --- */

START_TEST(hello_is_first_and_once)
{
    executor_spawn(&x, NULL, NULL);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_INFO), ACL_ERROR_RT_PARAM_INVALID);
    TELL(&x, .op = EXECUTOR_LANE_BEGIN); /* without an answer */
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION + 1).answer.code,
                     ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_HELLO, .value = EXECUTOR_VERSION),
                     ACL_ERROR_RT_PARAM_INVALID); /* no files */
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, ACL_ERROR_RT_PARAM_INVALID);
    executor_end(&x);
}
END_TEST

START_TEST(files_that_are_too_small_are_not_mapped)
{
    struct executor_request hello = {.op = EXECUTOR_HELLO, .value = EXECUTOR_VERSION};
    int fds[2];

    executor_spawn(&x, NULL, NULL);
    fds[0] = x.ring_fd;
    fds[1] = memfd_new("small", sizeof(struct executor_page) - 1);
    ck_assert_int_eq(executor_ask_fds(&x, hello, fds, 2).answer.code, ACL_ERROR_RT_PARAM_INVALID);
    close(fds[1]);
    executor_end(&x);
}
END_TEST

START_TEST(a_message_of_another_size_ends_it)
{
    static const struct executor_request request[2];
    static const size_t sizes[] = {1, sizeof(*request) - 1, sizeof(*request) + 1,
                                   2 * sizeof(*request)};

    executor_spawn(&x, NULL, NULL);
    ck_assert_int_eq(fd_message_send(x.socket, request, sizes[_i], NULL, 0, 0), 0);
    ck_assert_int_eq(WEXITSTATUS(executor_await_death(&x)), 1);
}
END_TEST

START_TEST(numbers_of_requests_grow)
{
    START(&x, NULL);
    x.sent = 1;
    TELL(&x, .op = EXECUTOR_LIST);
    ck_assert_int_eq(WEXITSTATUS(executor_await_death(&x)), 1);
}
END_TEST

static unsigned fds_of(pid_t pid)
{
    char path[64];
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* What was not asked for is closed: descriptors of npud's never stay there. */
START_TEST(surplus_descriptors_are_closed)
{
    int fds[5] = {0, 1, 2, 0, 1};
    unsigned before;

    START(&x, NULL);
    before = fds_of(x.pid);
    for (uint32_t op = 0; op < EXECUTOR_REQUESTS + 2; op++) {
        struct executor_request request = {.op = op};

        if (op == EXECUTOR_HOST_ATTACH || op == EXECUTOR_LANE_BEGIN || op == EXECUTOR_MEMORY_FREE)
            executor_tell_fds(&x, request, fds, 5);
        else
            ck_assert_int_ne(executor_ask_fds(&x, request, fds, 5).answer.code, 0);
    }
    executor_settle(&x);
    ck_assert_uint_eq(fds_of(x.pid), before);
    executor_end(&x);
}
END_TEST

START_TEST(unknown_requests_are_answered)
{
    static const uint32_t ops[] = {0, EXECUTOR_REQUESTS, UINT32_MAX};

    START(&x, NULL);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(ASK(&x, .op = ops[i]), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    executor_end(&x);
}
END_TEST

/* --- devices --- */

START_TEST(a_device_is_described)
{
    struct executor_device_info info;
    struct executor_health health;
    struct told told;

    START(&x, NULL);
    told = executor_ask_fds(&x, (struct executor_request){.op = EXECUTOR_DEVICE_INFO}, NULL, 0);
    ck_assert_int_eq(told.answer.code, 0);
    ck_assert_uint_eq(told.size, sizeof(info));
    memcpy(&info, told.more, sizeof(info));
    ck_assert_str_eq(info.name, "Fake");
    ck_assert_uint_eq(info.memory, UINT64_C(1) << 30);
    ck_assert_uint_eq(info.capabilities, EXECUTOR_CAN_REGISTER | EXECUTOR_CAN_SET |
                                             EXECUTOR_CAN_REDUCE | EXECUTOR_CAN_WORD |
                                             EXECUTOR_CAN_ABORT | EXECUTOR_CAN_KERNEL |
                                             EXECUTOR_CAN_HEALTH);
    told = executor_ask_fds(&x, (struct executor_request){.op = EXECUTOR_HEALTH}, NULL, 0);
    ck_assert_uint_eq(told.size, sizeof(health));
    memcpy(&health, told.more, sizeof(health));
    ck_assert_int_eq(health.busy, 42);
    executor_end(&x);
}
END_TEST

START_TEST(devices_that_are_none_are_refused)
{
    static const uint32_t ops[] = {EXECUTOR_DEVICE_INFO, EXECUTOR_DEVICE_END, EXECUTOR_MEMORY_NEW,
                                   EXECUTOR_HEALTH};

    START(&x, NULL);
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t device = DEVICES_BEGUN; device != 0; device *= 16)
            ck_assert_int_eq(ASK(&x, .op = ops[i], .device = device, .handle = new_handle(&x)),
                             ACL_ERROR_RT_INVALID_DEVICEID);
    executor_end(&x);
}
END_TEST

START_TEST(an_ended_device_begins_anew)
{
    unsigned char *map;
    uint64_t pages, memory;

    START(&x, NULL);
    pages = new_pages(&x, BYTES, &map);
    for (int round = 0; round < 3; round++) {
        memory = new_memory(&x, 0, BYTES);
        fill(map, BYTES, (uint64_t)round + 1);
        ck_assert_int_eq(
            DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {pages}, .size = BYTES), 0);
        ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_END), 0);
        ck_assert_int_eq(
            DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {pages}, .size = BYTES),
            ACL_ERROR_RT_INVALID_HANDLE);
        ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_INFO), ACL_ERROR_RT_INVALID_DEVICEID);
        memory = new_memory(&x, 1, BYTES);
        ck_assert_int_eq(
            DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {pages}, .size = BYTES),
            ACL_ERROR_RT_INVALID_DEVICEID);
        ck_assert_int_eq(executor_begin_device(&x, 0), 0);
    }
    executor_end(&x);
}
END_TEST

/* --- memory --- */

static unsigned list(uint64_t *handles, unsigned max)
{
    struct executor_request request = {.op = EXECUTOR_LIST};
    struct told told = executor_ask_fds(&x, request, NULL, 0);
    unsigned n = 0;

    while (told.answer.more > 0) {
        ck_assert_uint_eq(told.size, told.answer.more * sizeof(uint64_t));
        ck_assert_uint_le(n + told.answer.more, max);
        memcpy(handles + n, told.more, told.size);
        n += told.answer.more;
        request.value = told.answer.value;
        told = executor_ask_fds(&x, request, NULL, 0);
    }
    ck_assert_uint_eq(told.size, 0);
    return n;
}

START_TEST(all_memory_is_listed)
{
    static uint64_t handles[1000];
    uint64_t sum = 0;

    START(&x, NULL);
    ck_assert_uint_eq(list(handles, 1000), 0);
    for (unsigned i = 0; i < 600; i++) /* more than one answer has room for */
        sum += new_memory(&x, i % 2, KIB);
    ck_assert_uint_eq(list(handles, 1000), 600);
    for (unsigned i = 0; i < 600; i++) {
        sum -= handles[i];
        TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = handles[i]);
    }
    ck_assert_uint_eq(sum, 0);
    ck_assert_uint_eq(list(handles, 1000), 0);
    executor_end(&x);
}
END_TEST

/* Nothing of what others had there is seen. */
START_TEST(memory_is_cleared_when_it_is_made)
{
    uint64_t here, memory;
    unsigned char *map;

    START(&x, _i ? "FAKE_VENDOR_WITHOUT=aclrtMemsetAsync" : "FAKE_VENDOR_DIRTY=1",
          "FAKE_VENDOR_DIRTY=1");
    here = new_pages(&x, BYTES, &map);
    memory = new_memory(&x, 0, BYTES);
    memset(map, 1, BYTES);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {here},
                        .src = {memory, x.last_size - BYTES}, .size = BYTES),
                     0);
    for (uint64_t i = 0; i < BYTES; i++)
        CHECK(map[i] == 0);
    executor_end(&x);
}
END_TEST

START_TEST(handles_are_validated)
{
    static const uint64_t bad[] = {0, 1, UINT64_C(1) << 32 | EXECUTOR_HANDLES, UINT32_MAX,
                                   UINT64_MAX};
    uint64_t memory, all[4];

    START(&x, NULL);
    memory = new_memory(&x, 0, KIB);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(ASK(&x, .op = EXECUTOR_MEMORY_NEW, .handle = bad[i], .size = KIB),
                         ACL_ERROR_RT_PARAM_INVALID);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {bad[i]}, .size = 1),
                         ACL_ERROR_RT_INVALID_HANDLE);
        ck_assert_int_eq(ASK(&x, .op = EXECUTOR_MEMORY_EXPORT, .handle = bad[i]),
                         ACL_ERROR_RT_INVALID_HANDLE);
        TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = bad[i]);
    }
    /* Of the same slot, and of another time. */
    TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = memory + (UINT64_C(1) << 32));
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory + (UINT64_C(1) << 32)}, .size = 1),
                     ACL_ERROR_RT_INVALID_HANDLE);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_MEMORY_NEW, .handle = memory, .size = KIB),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    ck_assert_uint_eq(list(all, 4), 1);
    ck_assert_uint_eq(all[0], memory);
    /* An npud that comes later knows nothing of the first one: what it makes there is instead. */
    ck_assert_int_eq(
        ASK(&x, .op = EXECUTOR_MEMORY_NEW, .handle = memory + (UINT64_C(1) << 32), .size = KIB), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1),
                     ACL_ERROR_RT_INVALID_HANDLE);
    ck_assert_uint_eq(list(all, 4), 1);
    ck_assert_uint_eq(all[0], memory + (UINT64_C(1) << 32));
    executor_end(&x);
}
END_TEST

/* Without an answer: work with such pages fails. */
START_TEST(pages_that_cannot_be_mapped_are_none)
{
    struct executor_request request = {.op = EXECUTOR_HOST_ATTACH, .size = 2 * BYTES};
    int fd;

    START(&x, NULL);
    fd = memfd_new("small", BYTES);
    request.handle = new_handle(&x);
    executor_tell_fds(&x, request, &fd, 1);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {request.handle}, .size = 1),
                     ACL_ERROR_RT_INVALID_HANDLE);
    executor_tell_fds(&x, request, NULL, 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {request.handle}, .size = 1),
                     ACL_ERROR_RT_INVALID_HANDLE);
    close(fd);
    executor_end(&x);
}
END_TEST

/* What x has exported is imported by another one, which has the bytes also when x has ended. */
static void expect_shared(struct executor_process *other, struct told *token, uint64_t memory)
{
    uint64_t theirs = new_handle(other), mine_pages, their_pages;
    struct executor_request import = {
        .op = EXECUTOR_MEMORY_IMPORT, .device = 1, .handle = theirs, .size = x.last_size};
    unsigned char *mine, *their;

    mine_pages = new_pages(&x, BYTES, &mine);
    their_pages = new_pages(other, BYTES, &their);
    memcpy(import.token, token->answer.token, sizeof(import.token));
    ck_assert_int_eq(executor_ask_fds(other, import, &token->fd, token->fd >= 0).answer.code, 0);
    fill(mine, BYTES, 5);
    ck_assert_int_eq(
        DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {mine_pages}, .size = BYTES), 0);
    executor_end(&x);
    ck_assert_int_eq(DO(other, .op = EXECUTOR_COPY, .device = 1, .dst = {their_pages},
                        .src = {theirs}, .size = BYTES),
                     0);
    ck_assert_mem_eq(their, mine, BYTES);
}

static void share(const char *variable, bool by_descriptor)
{
    struct executor_process other;
    struct executor_request request = {.op = EXECUTOR_MEMORY_EXPORT};
    struct told token;
    unsigned before;

    START(&x, variable);
    START(&other, variable);
    request.handle = new_memory(&x, 0, BYTES);
    before = fds_of(x.pid);
    token = executor_ask_fds(&x, request, NULL, 0);
    ck_assert_int_eq(token.answer.code, 0);
    executor_settle(&x);
    ck_assert_uint_eq(fds_of(x.pid), before); /* what it has given away is npud's alone */
    ck_assert(by_descriptor == (token.fd >= 0));
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_MEMORY_ALLOW, .handle = request.handle,
                         .value = (uint64_t)other.pid),
                     0);
    expect_shared(&other, &token, request.handle);
    if (token.fd >= 0)
        close(token.fd);
    executor_end(&other);
}

START_TEST(executors_share_memory)
{
    char folder[] = "/tmp/npud-test-executor-XXXXXX", variable[128], command[128];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(variable, sizeof(variable), "FAKE_VENDOR_SHARE=%s", folder);
    share(variable, false);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* With the table of CUDA, over the fake of tests/gpu. */
START_TEST(executors_share_memory_by_descriptors)
{
    setenv("NPUD_TEST_KIND", "cuda", 1);
    setenv("NPUD_TEST_LIBRARY", beside("../gpu/libfake_cuda.so"), 1);
    share("FAKE_CUDA_DEVICES=2", true);
}
END_TEST

START_TEST(what_was_not_exported_is_not_shared)
{
    struct executor_request import = {.op = EXECUTOR_MEMORY_IMPORT, .size = KIB};
    uint64_t memory;

    START(&x, NULL);
    memory = new_memory(&x, 0, BYTES);
    ck_assert_int_ne(ASK(&x, .op = EXECUTOR_MEMORY_EXPORT, .handle = memory), 0);
    ck_assert_int_ne(ASK(&x, .op = EXECUTOR_MEMORY_ALLOW, .handle = memory, .value = 1), 0);
    import.handle = new_handle(&x);
    ck_assert_int_ne(executor_ask_fds(&x, import, NULL, 0).answer.code, 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {import.handle}, .size = 1),
                     ACL_ERROR_RT_INVALID_HANDLE);
    executor_end(&x);
}
END_TEST

/* --- work --- */

/* What a library may lack: all is done in another way. */
static const char *const lacks[] = {
    "",
    "FAKE_VENDOR_WITHOUT=aclrtMemsetAsync,aclrtValueWrite",
    "FAKE_VENDOR_WITHOUT=aclrtHostRegisterV2,aclrtHostUnregister,aclrtResetDeviceForce",
    "FAKE_VENDOR_FLOOD=1",
    "FAKE_VENDOR_THREADS=20",
};
#define LACKS (sizeof(lacks) / sizeof(*lacks))

static void start_lacking(int i)
{
    START(&x, lacks[i][0] ? lacks[i] : NULL);
}

START_TEST(bytes_are_copied_in_all_ways)
{
    uint64_t rng = 7, here, a, b;
    unsigned char *map, copy[8 * KIB];

    start_lacking(_i);
    here = new_pages(&x, 2 * BYTES, &map);
    a = new_memory(&x, 0, BYTES);
    b = new_memory(&x, 1, BYTES);
    for (unsigned round = 0; round < 200; round++) {
        uint64_t n = random_below(&rng, sizeof(copy)), at[4];

        for (unsigned i = 0; i < 4; i++)
            at[i] = random_below(&rng, (uint32_t)(BYTES - sizeof(copy)));
        fill(map + at[0], n, round + 1);
        memcpy(copy, map + at[0], n);
        GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {a, at[1]}, .src = {here, at[0]}, .size = n);
        GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {b, at[2]}, .src = {a, at[1]}, .size = n);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .device = 1, .dst = {here, BYTES + at[3]},
                            .src = {b, at[2]}, .size = n),
                         0);
        ck_assert_mem_eq(map + BYTES + at[3], copy, n);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {here, at[2]},
                            .src = {here, BYTES + at[3]}, .size = n),
                         0);
        ck_assert_mem_eq(map + at[2], copy, n);
    }
    executor_end(&x);
}
END_TEST

/* Exactly the bytes that were asked for, also where the library cannot: in many pieces. */
START_TEST(memory_is_set)
{
    const uint64_t size = 300 * KIB + 5, at = 77;
    uint64_t here, memory;
    unsigned char *map;

    start_lacking(_i);
    here = new_pages(&x, size + KIB, &map);
    memory = new_memory(&x, 0, size + KIB);
    memset(map, 1, size + KIB);
    GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {memory}, .src = {here}, .size = size + KIB);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory, at}, .value = 0xffffff5a, .size = size);
    ck_assert_int_eq(
        DO(&x, .op = EXECUTOR_COPY, .dst = {here}, .src = {memory}, .size = size + KIB), 0);
    for (uint64_t i = 0; i < size + KIB; i++)
        CHECK(map[i] == (i < at || i >= at + size ? 1 : 0x5a));
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {here, 1}, .value = 9, .size = size), 0);
    for (uint64_t i = 0; i < size + KIB; i++)
        CHECK((map[i] == 9) == (i >= 1 && i < size + 1));
    executor_end(&x);
}
END_TEST

START_TEST(words_are_written_and_read)
{
    uint64_t here, memory, places[2], value;
    unsigned char *map;

    start_lacking(_i);
    places[0] = here = new_pages(&x, BYTES, &map);
    places[1] = memory = new_memory(&x, 0, BYTES);
    for (unsigned i = 0; i < 200; i++) {
        struct executor_place at = {places[i % 2], (uint64_t)i * 8};

        value = i * UINT64_C(0x123456789abcdef);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_WRITE, .dst = at, .size = value), 0);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_READ, .src = at), 0);
        ck_assert_uint_eq(atomic_load(&x.page->lane[0].value), value);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct executor_place at = {places[i], 4}, end = {places[i], i == 0 ? BYTES : x.last_size};

        end.offset -= 4;

        ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_WRITE, .dst = at), ACL_ERROR_RT_ADDR_UNALIGNED);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_READ, .src = at), ACL_ERROR_RT_ADDR_UNALIGNED);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_READ, .src = end), ACL_ERROR_RT_PARAM_INVALID);
    }
    executor_end(&x);
}
END_TEST

START_TEST(the_device_reduces)
{
    const uint32_t sum = REDUCE_SUM << 8 | ACL_FLOAT;
    uint64_t here, a, b;
    unsigned char *map;
    float *f;

    START(&x, NULL);
    here = new_pages(&x, BYTES, &map);
    a = new_memory(&x, 0, KIB);
    b = new_memory(&x, 0, KIB);
    f = (float *)(void *)map;
    for (unsigned i = 0; i < 256; i++)
        f[i] = (float)i;
    GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {a}, .src = {here}, .size = KIB);
    GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {b}, .src = {here}, .size = KIB);
    ck_assert_int_eq(
        DO(&x, .op = EXECUTOR_REDUCE, .value = sum, .dst = {a}, .src = {b}, .size = KIB), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {here}, .src = {a}, .size = KIB), 0);
    for (unsigned i = 0; i < 256; i++)
        ck_assert_float_eq(f[i], (float)(2 * i));
    /* Of pages of the host the lane's thread does it; npud does what is of the host alone. */
    ck_assert_int_eq(
        DO(&x, .op = EXECUTOR_REDUCE, .value = sum, .dst = {a}, .src = {here}, .size = KIB), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {here}, .src = {a}, .size = KIB), 0);
    for (unsigned i = 0; i < 256; i++)
        ck_assert_float_eq(f[i], (float)(4 * i));
    ck_assert_int_eq(
        DO(&x, .op = EXECUTOR_REDUCE, .value = sum, .dst = {here}, .src = {here}, .size = KIB),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    executor_end(&x);
}
END_TEST

/* --- kernels --- */

static uint64_t load_binary(const char *text, int32_t code)
{
    struct executor_request request = {
        .op = EXECUTOR_BINARY_LOAD, .handle = new_handle(&x), .size = strlen(text)};
    int fd = memfd_new_empty("binary");

    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(executor_ask_fds(&x, request, &fd, 1).answer.code, code);
    request.handle = code == 0 ? request.handle : new_handle(&x);
    request.size++;
    if (code != 0)
        ck_assert_int_eq(executor_ask_fds(&x, request, &fd, 1).answer.code,
                         ACL_ERROR_RT_PARAM_INVALID); /* more than there is */
    close(fd);
    return request.handle;
}

struct launch {
    struct executor_launch head;
    uint64_t address, value;
};

static uint64_t sum_of(const struct launch *launch)
{
    return executor_launch_sum(&launch->head, &launch->address,
                               launch->head.bytes < 16 ? launch->head.bytes : 16);
}

/* Arguments that the file has, and the memory has not. */
static void expect_too_long(uint64_t binary, const struct launch *launch)
{
    struct executor_request request = {
        .op = EXECUTOR_HOST_ATTACH, .handle = new_handle(&x), .size = sizeof(*launch) - 8};
    void *map;
    int fd;

    ck_assert_int_eq(memfd_map_new("pages", sizeof(*launch), &fd, &map), 0);
    memcpy(map, launch, sizeof(*launch));
    executor_tell_fds(&x, request, &fd, 1);
    close(fd);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {request.handle},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_PARAM_INVALID);
}

START_TEST(kernels_are_launched)
{
    const uint64_t at = BYTES - sizeof(struct launch);
    struct executor_request request = {.op = EXECUTOR_MEMORY_NEW, .size = KIB};
    uint64_t binary, here;
    unsigned char *map;
    struct launch *launch;

    START(&x, NULL);
    load_binary("no kernel", ACL_ERROR_RT_PARAM_INVALID);
    binary = load_binary("FAKE", 0);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_FUNCTION, .handle = binary, .name = "sub"),
                     ACL_ERROR_RT_KERNEL_LOOKUP);
    ck_assert_int_eq(
        ASK(&x, .op = EXECUTOR_FUNCTION, .handle = binary, .name = "add", .value = 300), 0);
    ck_assert_int_eq(
        ASK(&x, .op = EXECUTOR_FUNCTION, .handle = binary, .name = "add", .value = 300), 0);
    ck_assert_int_ne(
        ASK(&x, .op = EXECUTOR_FUNCTION, .handle = binary, .name = "add", .value = 1ull << 40), 0);
    here = new_pages(&x, BYTES, &map);
    request.handle = new_handle(&x);
    launch = (struct launch *)(void *)(map + at);
    *launch = (struct launch){{.blocks = {3, 1, 1}, .threads = {1, 1, 1}, .bytes = 16},
                              executor_ask_fds(&x, request, NULL, 0).answer.address,
                              14};
    GIVE(&x, 0, .op = EXECUTOR_WORD_WRITE, .dst = {request.handle}, .size = 1000);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at},
                        .size = sum_of(launch)),
                     0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_READ, .src = {request.handle}), 0);
    ck_assert_uint_eq(atomic_load(&x.page->lane[0].value), 1042);

    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 299}, .src = {here, at},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {here, 300}, .src = {here, at},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_INVALID_HANDLE);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at + 17},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_PARAM_INVALID);
    expect_too_long(binary, launch);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at},
                        .size = sum_of(launch) + 1),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at},
                        .size = sum_of(launch)),
                     0);
    launch->head.bytes = 17;
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_PARAM_INVALID);
    launch->head.bytes = UINT32_MAX;
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_LAUNCH, .dst = {binary, 300}, .src = {here, at},
                        .size = sum_of(launch)),
                     ACL_ERROR_RT_PARAM_INVALID);
    executor_end(&x);
}
END_TEST

/* --- tasks that cannot be --- */

/* Of memory with so many bytes, by number. */
static void bad_range(unsigned i, uint64_t bytes, uint64_t *offset, uint64_t *size)
{
    const uint64_t bad[][2] = {{0, bytes + 1},           {bytes, 1},
                               {bytes + 1, 0},           {1, bytes},
                               {UINT64_MAX, 1},          {1, UINT64_MAX},
                               {UINT64_MAX, UINT64_MAX}, {UINT64_MAX - bytes, 2 * bytes}};

    *offset = bad[i][0];
    *size = bad[i][1];
}
#define BAD_RANGES 8

START_TEST(ranges_are_within_their_memory)
{
    unsigned char *map;
    uint64_t here, memory, size;

    START(&x, NULL);
    memory = new_memory(&x, 0, BYTES);
    here = new_pages(&x, x.last_size, &map);
    for (unsigned i = 0; i < BAD_RANGES; i++) {
        struct executor_place m = {memory}, h = {here};

        bad_range(i, x.last_size, &m.offset, &size);
        h.offset = m.offset;
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = m, .size = size),
                         ACL_ERROR_RT_PARAM_INVALID);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = h, .size = size),
                         ACL_ERROR_RT_PARAM_INVALID);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = h, .src = {memory}, .size = size),
                         ACL_ERROR_RT_PARAM_INVALID);
    }
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory, x.last_size}), 0); /* no bytes */
    executor_end(&x);
}
END_TEST

START_TEST(tasks_are_validated)
{
    uint64_t memory;

    START(&x, NULL);
    memory = new_memory(&x, 0, KIB);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_NOP), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_NOP, .device = 255), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_OPS), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(DO(&x, .op = 255), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .device = 2, .dst = {memory}, .size = 1),
                     ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_ne(DO(&x, .op = EXECUTOR_SET, .device = 255, .dst = {memory}, .size = 1), 0);
    /* An entry that is of another number. */
    x.ring->entry[0][(x.issued[0] + 1) % EXECUTOR_DEPTH] =
        (struct executor_task){.number = x.issued[0]};
    atomic_store(&x.ring->bell[0].issued, ++x.issued[0]);
    atomic_store(&x.ring->bell[0].news, (uint32_t)x.issued[0]);
    futex_wake_all(&x.ring->bell[0].news);
    ck_assert_int_eq(await_task(&x, 0), ACL_ERROR_RT_INTERNAL_ERROR);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    TELL(&x, .op = EXECUTOR_LANE_BEGIN, .value = EXECUTOR_LANES);
    TELL(&x, .op = EXECUTOR_LANE_BEGIN, .value = UINT64_MAX);
    executor_settle(&x);
    executor_end(&x);
}
END_TEST

/* --- order and time --- */

/* The library says that it is at the call that the rule names, and waits to be let on. */
static int gate;

static void start_gated(const char *rule)
{
    char variable[64], fd[64];
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(variable, sizeof(variable), "FAKE_VENDOR_DO=%s:gate", rule);
    snprintf(fd, sizeof(fd), "FAKE_VENDOR_GATE=%d", fcntl(pair[1], F_DUPFD, EXECUTOR_SOCKET + 1));
    START(&x, variable, fd);
    gate = pair[0];
}

static void await_gate(void)
{
    char byte;

    ck_assert_int_eq(read(gate, &byte, 1), 1);
}

static void open_gate(void)
{
    ck_assert_int_eq(write(gate, "!", 1), 1);
}

/* The memory of the fake is unmapped when it is freed: to write there would be the end. */
START_TEST(memory_in_use_is_freed_later)
{
    uint64_t here, memory, handles[4];
    unsigned char *map;

    start_gated("aclrtMemcpyAsync:1");
    here = new_pages(&x, BYTES, &map);
    memory = new_memory(&x, 0, BYTES);
    GIVE(&x, 0, .op = EXECUTOR_COPY, .dst = {memory}, .src = {here}, .size = BYTES);
    await_gate();
    TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = memory);
    TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = here);
    ck_assert_uint_eq(list(handles, 4), 0);
    ck_assert_int_ne(ASK(&x, .op = EXECUTOR_DEVICE_END), 0); /* a lane is there */
    ck_assert(!is_over(&x, 0, 1));
    open_gate();
    ck_assert_int_eq(await_task(&x, 0), 0);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_END), 0);
    executor_end(&x);
}
END_TEST

START_TEST(lanes_wait_for_no_other)
{
    uint64_t memory;

    start_gated("aclrtMemsetAsync:2");
    memory = new_memory(&x, 0, BYTES);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    await_gate();
    for (unsigned lane = 1; lane < EXECUTOR_LANES; lane++)
        GIVE(&x, lane, .op = EXECUTOR_SET, .device = lane % 2, .dst = {memory, lane}, .size = 1);
    for (unsigned lane = 1; lane < EXECUTOR_LANES; lane++)
        ck_assert_int_eq(await_task(&x, lane), 0);
    ck_assert(!is_over(&x, 0, 1));
    open_gate();
    ck_assert_int_eq(await_task(&x, 0), 0);
    AWAIT(atomic_load(&x.page->lane[0].busy_since) == 0);
    executor_end(&x);
}
END_TEST

/* A task waits for the message that brings its memory, and those of other lanes do not. */
START_TEST(a_task_waits_for_a_message)
{
    uint64_t memory, later;

    START(&x, NULL);
    memory = new_memory(&x, 0, KIB);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_NOP), 0); /* the lane begins */
    later = (uint64_t)(x.named + 1) << 32 | (x.named + 1);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {later}, .size = 1, .after = x.sent + 3);
    GIVE(&x, 1, .op = EXECUTOR_SET, .dst = {memory}, .size = 1); /* one message */
    ck_assert_int_eq(await_task(&x, 1), 0);
    executor_settle(&x); /* two */
    ck_assert(!is_over(&x, 0, x.issued[0]));
    ck_assert_uint_eq(new_memory(&x, 0, KIB), later);
    ck_assert_int_eq(await_task(&x, 0), 0);
    executor_end(&x);
}
END_TEST

/* The ring is mapped for reading only, and a thread sleeps on it. */
START_TEST(an_idle_lane_sleeps_and_is_woken)
{
    START(&x, NULL);
    for (unsigned round = 0; round < 200; round++) {
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_NOP), 0);
        AWAIT(atomic_load(&x.page->lane[0].asleep) == 1);
        if (round % 2)
            usleep(100); /* no wait for anything: it may have reached the kernel or not */
    }
    executor_end(&x);
}
END_TEST

START_TEST(npud_is_woken_when_it_awaits)
{
    struct pollfd p = {.events = POLLIN};
    uint64_t n;

    START(&x, NULL);
    for (unsigned round = 0; round < 100; round++) {
        p.fd = x.wake[round % 2];
        atomic_store(&x.ring->bell[0].awaited, 1);
        GIVE(&x, 0, .op = EXECUTOR_NOP, .device = round % 2);
        ck_assert_int_eq(poll(&p, 1, GUARD_NS / NSEC_PER_MSEC), 1);
        ck_assert(is_over(&x, 0, x.issued[0]));
        ck_assert_int_eq(read(p.fd, &n, sizeof(n)), sizeof(n));
        atomic_store(&x.ring->bell[0].awaited, 0);
        ck_assert_int_eq(DO(&x, .op = EXECUTOR_NOP, .device = round % 2), 0);
        executor_settle(&x);
        ck_assert_int_lt(read(p.fd, &n, sizeof(n)), 0);
    }
    executor_end(&x);
}
END_TEST

/* --- many tasks --- */

#define MANY       4000u
#define MANY_LANES 4u
#define LANE_WORDS 64u
#define LANE_BYTES (LANE_WORDS * sizeof(uint64_t))

/* What a lane's memory has to be, and what it is. */
struct lane_model {
    uint64_t memory, pages;
    uint64_t *map; /* two halves: what goes there, and what comes back */
    uint64_t words[LANE_WORDS];
};

static void model_init(struct lane_model *m, unsigned lane)
{
    unsigned char *map;

    m->memory = new_memory(&x, lane % 2, LANE_BYTES);
    m->pages = new_pages(&x, 2 * LANE_BYTES, &map);
    m->map = (uint64_t *)(void *)map;
    memset(m->words, 0, sizeof(m->words));
    GIVE(&x, lane, .op = EXECUTOR_SET, .device = lane % 2, .dst = {m->memory}, .size = LANE_BYTES);
    ck_assert_int_eq(await_task(&x, lane), 0);
}

/* Each task sets a word to its number, in one of three ways. */
static void model_step(struct lane_model *m, unsigned lane, uint64_t *rng)
{
    uint64_t number = x.issued[lane] + 1, word = random_below(rng, LANE_WORDS);
    struct executor_place at = {m->memory, word * 8};
    uint8_t device = lane % 2;

    /* Where npud's word is on its way, it is not written again before that is over. */
    switch (random_below(rng, 3)) {
    case 0:
        AWAIT(is_over(&x, lane, x.issued[lane]));
        m->map[word] = number;
        GIVE(&x, lane, .op = EXECUTOR_COPY, .device = device, .dst = at,
             .src = {m->pages, word * 8}, .size = 8);
        m->words[word] = number;
        break;
    case 1:
        GIVE(&x, lane, .op = EXECUTOR_WORD_WRITE, .device = device, .dst = at, .size = number);
        m->words[word] = number;
        break;
    default:
        GIVE(&x, lane, .op = EXECUTOR_SET, .device = device, .dst = at, .value = (uint8_t)number,
             .size = 8);
        m->words[word] = (uint8_t)number * UINT64_C(0x0101010101010101);
    }
}

static void model_check(struct lane_model *m, unsigned lane)
{
    GIVE(&x, lane, .op = EXECUTOR_COPY, .device = lane % 2, .dst = {m->pages, LANE_BYTES},
         .src = {m->memory}, .size = LANE_BYTES);
    ck_assert_int_eq(await_task(&x, lane), 0);
    ck_assert_mem_eq(m->map + LANE_WORDS, m->words, LANE_BYTES);
}

START_TEST(four_thousand_tasks_are_done_in_order)
{
    static struct lane_model model[MANY_LANES];
    uint64_t rng = 11;

    start_lacking(_i);
    for (unsigned lane = 0; lane < MANY_LANES; lane++)
        model_init(&model[lane], lane);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned lane = random_below(&rng, MANY_LANES);

        model_step(&model[lane], lane, &rng);
        if (random_below(&rng, 32) == 0)
            model_check(&model[lane], lane);
    }
    for (unsigned lane = 0; lane < MANY_LANES; lane++)
        model_check(&model[lane], lane);
    executor_end(&x);
}
END_TEST

/* --- ends of tasks --- */

START_TEST(a_late_error_is_its_tasks)
{
    uint64_t memory;
    int32_t codes[4];

    START(&x, _i ? "FAKE_VENDOR_DO=aclrtMemsetAsync:3:late=507015"
                 : "FAKE_VENDOR_DO=aclrtMemsetAsync:3:507015");
    memory = new_memory(&x, 0, KIB);
    for (unsigned i = 0; i < 4; i++) {
        GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
        codes[i] = await_task(&x, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(codes[i], i == 1 ? 507015 : 0);
    executor_end(&x);
}
END_TEST

/*
 * The first piece of a set fails late, the second at once: the next task hears of neither. Memory
 * is cleared by 32 pieces before.
 */
START_TEST(an_error_is_not_left_to_the_next_task)
{
    uint64_t memory;

    START(&x, "FAKE_VENDOR_WITHOUT=aclrtMemsetAsync",
          "FAKE_VENDOR_DO=aclrtMemcpyAsync:33:late=507015,aclrtMemcpyAsync:34:507018");
    memory = new_memory(&x, 0, 100 * KIB);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 100 * KIB), 507018);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 100 * KIB), 0);
    executor_end(&x);
}
END_TEST

/* A lane that goes with an error gets a new queue. */
START_TEST(an_error_that_stays_costs_the_queue)
{
    uint64_t memory;

    START(&x, "FAKE_VENDOR_DO=aclrtSynchronizeStream:2:507015,aclrtSynchronizeStream:3:507015");
    memory = new_memory(&x, 0, KIB);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 507015);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    executor_end(&x);
}
END_TEST

START_TEST(a_task_that_is_stuck_is_aborted)
{
    uint64_t memory;
    struct told told;

    START(&x, "FAKE_VENDOR_DO=aclrtMemsetAsync:3:stuck");
    memory = new_memory(&x, 0, KIB);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_LANE_ABORT, .value = 0), 0); /* does nothing */
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_LANE_ABORT, .value = 0), 0);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    await_busy(&x, 0);
    ck_assert_int_ne(ASK(&x, .op = EXECUTOR_LANE_ABORT, .value = EXECUTOR_LANES), 0);
    /* Of a task before, by an npud that has ended. */
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_LANE_ABORT, .size = x.issued[0] - 1), 0);
    ck_assert(!is_over(&x, 0, x.issued[0]));
    told = executor_ask_fds(
        &x, (struct executor_request){.op = EXECUTOR_LANE_ABORT, .size = x.issued[0]}, NULL, 0);
    ck_assert_int_eq(told.answer.code, 0);
    ck_assert(is_over(&x, 0, x.issued[0])); /* before the answer */
    ck_assert_int_eq(await_task(&x, 0), ACL_ERROR_RT_STREAM_ABORT);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    executor_end(&x);
}
END_TEST

/* It comes while the task is being given to the library, where there is nothing to abort yet. */
START_TEST(an_early_abort_is_not_lost)
{
    uint64_t memory;

    start_gated("aclrtMemsetAsync:2");
    memory = new_memory(&x, 0, KIB);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    await_gate();
    TELL(&x, .op = EXECUTOR_LANE_ABORT, .size = 1);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_LANE_ABORT, .size = 1),
                     ACL_ERROR_RT_PARAM_INVALID); /* twice */
    open_gate();
    ck_assert_uint_eq(executor_hear(&x).answer.number, x.sent - 1);
    ck_assert_int_eq(await_task(&x, 0), ACL_ERROR_RT_STREAM_ABORT);
    executor_end(&x);
}
END_TEST

/* Any code that a library may say: the process goes on, and what is said to be done is done. */
START_TEST(codes_at_random_harm_no_other_task)
{
    char seed[32];
    uint64_t here, memory, failed = 0;
    unsigned char *map;

    snprintf(seed, sizeof(seed), "FAKE_VENDOR_RANDOM=%d", _i + 1);
    START(&x, seed);
    here = new_pages(&x, 2 * KIB, &map);
    do
        memory = new_handle(&x);
    while (ASK(&x, .op = EXECUTOR_MEMORY_NEW, .handle = memory, .size = KIB) != 0);
    for (unsigned i = 0; i < 500; i++) {
        bool well;

        fill(map, KIB, i + 1);
        well = DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {here}, .size = KIB) == 0;
        well &= DO(&x, .op = EXECUTOR_COPY, .dst = {here, KIB}, .src = {memory}, .size = KIB) == 0;
        if (well)
            ck_assert_mem_eq(map, map + KIB, KIB);
        failed += !well;
    }
    ck_assert_uint_gt(failed, 0);
    ck_assert_uint_lt(failed, 500);
    executor_end(&x);
}
END_TEST

/* --- bad days --- */

/* A library that does this in the middle of a task ends the process, which is how npud hears. */
static const struct {
    const char *what;
    int signal, status;
} deaths[] = {{"exit", 0, 3}, {"abort", SIGABRT, 0}, {"segv", SIGSEGV, 0}};

START_TEST(a_library_that_dies_takes_the_process)
{
    char rule[64];
    uint64_t memory;
    int status;

    snprintf(rule, sizeof(rule), "FAKE_VENDOR_DO=aclrtMemsetAsync:3:%s", deaths[_i].what);
    START(&x, rule);
    memory = new_memory(&x, 0, KIB);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .size = 1), 0);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    status = executor_await_death(&x);
    if (deaths[_i].signal)
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == deaths[_i].signal);
    else
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == deaths[_i].status);
}
END_TEST

static bool has_hung_up(void)
{
    struct pollfd p = {.fd = x.socket};

    return poll(&p, 1, 0) == 1;
}

/* The thread that serves requests notices at its next one; or at once, where it was not yet back
 * from the one before, and then the task may not be told to be over. */
START_TEST(a_library_that_closes_the_socket_ends_the_process)
{
    struct executor_request request = {.op = EXECUTOR_LIST};
    uint64_t memory;
    int r;

    START(&x, "FAKE_VENDOR_DO=aclrtMemsetAsync:2:close");
    memory = new_memory(&x, 0, KIB);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    AWAIT(is_over(&x, 0, 1) || has_hung_up());
    request.number = ++x.sent;
    r = fd_message_send(x.socket, &request, sizeof(request), NULL, 0, 0);
    ck_assert(r == 0 || r == -EPIPE);
    ck_assert_int_eq(WEXITSTATUS(executor_await_death(&x)), 1);
}
END_TEST

/* The rest goes on, npud sees since when the call is under way, and may end the process. */
START_TEST(a_call_that_never_returns_holds_up_its_lane_only)
{
    uint64_t memory, since, before = clock_ns();

    START(&x, _i ? "FAKE_VENDOR_DO=aclrtSynchronizeStream:2:hang"
                 : "FAKE_VENDOR_DO=aclrtMemsetAsync:2:hang");
    memory = new_memory(&x, 0, KIB);
    GIVE(&x, 0, .op = EXECUTOR_SET, .dst = {memory}, .size = 1);
    await_busy(&x, 0);
    GIVE(&x, 1, .op = EXECUTOR_NOP);
    ck_assert_int_eq(await_task(&x, 1), 0);
    new_memory(&x, 0, KIB);
    since = atomic_load(&x.page->lane[0].busy_since);
    ck_assert(since >= before && since <= clock_ns());
    ck_assert(!is_over(&x, 0, 1));
    executor_end(&x);
}
END_TEST

START_TEST(a_start_that_fails_is_said)
{
    struct told told;

    executor_spawn(&x, NULL, (const char *[]){"FAKE_VENDOR_DO=aclInit:1:507033", NULL});
    told = executor_hello(&x, EXECUTOR_VERSION);
    ck_assert_int_eq(told.answer.code, 507033);
    ck_assert_ptr_nonnull(strstr(told.answer.text, "aclInit"));
    executor_end(&x);
}
END_TEST

/* All that the table knows: whether nothing works without it. */
static const struct {
    const char *name;
    bool required;
} functions[] = {
#define X(name, required) {#name, required},
    ACL_API(X)
#undef X
};
#define FUNCTIONS (sizeof(functions) / sizeof(*functions))

static bool fake_has(const char *function)
{
    void *fake = dlopen(fake_library(), RTLD_NOW | RTLD_LOCAL);

    ck_assert_ptr_nonnull(fake);
    return dlsym(fake, function);
}

static void expect_useful(void)
{
    uint64_t here, memory;
    unsigned char *map;

    ck_assert_int_eq(executor_begin_device(&x, 0), 0);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_INFO), 0);
    here = new_pages(&x, BYTES, &map);
    memory = new_memory(&x, 0, BYTES);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_SET, .dst = {memory}, .value = 7, .size = BYTES), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_WORD_WRITE, .dst = {memory}, .size = 42), 0);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {here}, .src = {memory}, .size = BYTES), 0);
    ck_assert_int_eq(map[0], 42);
    ck_assert_int_eq(map[1], 0);
    ck_assert_int_eq(map[BYTES - 1], 7);
    TELL(&x, .op = EXECUTOR_MEMORY_FREE, .handle = memory);
    executor_settle(&x);
}

START_TEST(each_function_may_be_absent)
{
    const char *name = functions[_i].name;
    char without[128];
    struct told told;

    if (!fake_has(name))
        return;
    snprintf(without, sizeof(without), "FAKE_VENDOR_WITHOUT=%s", name);
    executor_spawn(&x, NULL, (const char *[]){without, NULL});
    told = executor_hello(&x, EXECUTOR_VERSION);
    if (functions[_i].required) {
        ck_assert_int_eq(told.answer.code, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        ck_assert_ptr_nonnull(strstr(told.answer.text, name));
    } else {
        ck_assert_int_eq(told.answer.code, 0);
        expect_useful();
    }
    executor_end(&x);
}
END_TEST

/* Addresses are npud's to judge: to the executor two pieces of memory are two. */
START_TEST(addresses_that_overlap_are_told)
{
    struct executor_request request = {.op = EXECUTOR_MEMORY_NEW, .size = KIB};
    uint64_t address[2];

    START(&x, "FAKE_VENDOR_OVERLAP=1");
    for (unsigned i = 0; i < 2; i++) {
        request.handle = new_handle(&x);
        address[i] = executor_ask_fds(&x, request, NULL, 0).answer.address;
    }
    ck_assert_uint_eq(address[0], address[1]);
    executor_end(&x);
}
END_TEST

START_TEST(a_terminal_does_not_end_it)
{
    static const int signals[] = {SIGINT, SIGHUP, SIGPIPE};
    int status;

    START(&x, NULL);
    for (unsigned i = 0; i < 3; i++)
        kill(x.pid, signals[i]);
    executor_settle(&x);
    kill(x.pid, SIGTERM);
    status = executor_reap(&x);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
END_TEST

static void add_program(Suite *suite)
{
    TCase *t = suite_case(suite, "program", 0, NULL, NULL);

    tcase_add_test(t, the_program_is_for_npud);
    tcase_add_test(t, a_library_that_others_can_change_is_not_loaded);
    tcase_add_test(t, npuds_own_library_is_for_nesting);
    tcase_add_test(t, hello_is_first_and_once);
    tcase_add_test(t, files_that_are_too_small_are_not_mapped);
    tcase_add_loop_test(t, a_message_of_another_size_ends_it, 0, 4);
    tcase_add_test(t, numbers_of_requests_grow);
    tcase_add_test(t, surplus_descriptors_are_closed);
    tcase_add_test(t, unknown_requests_are_answered);
    tcase_add_test(t, a_terminal_does_not_end_it);
}

/* --- rights --- */

#define UID 1900100000u /* of no other test: those that run beside this one have theirs */

/* A line of a file of its process, behind the name. */
static const char *line_of(pid_t pid, const char *file, const char *name)
{
    static char line[256];
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    do
        ck_assert_msg(fgets(line, sizeof(line), f), "%s: no %s", path, name);
    while (strncmp(line, name, strlen(name)) != 0);
    fclose(f);
    return line + strlen(name);
}

static void spawn_with(const char *rights)
{
    char path[PATH_MAX];
    char *argv[] = {"npud-executor", (char *)rights, library_kind(), path, "--nesting", NULL};

    snprintf(path, sizeof(path), "%s", fake_library());
    executor_spawn(&x, argv, NULL);
}

static void copy_to(const char *to, const char *from)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ssize_t n;

    ck_assert(in >= 0 && out >= 0);
    do
        n = sendfile(out, in, NULL, 1 << 20);
    while (n > 0);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(fchmod(out, 0755), 0); /* whatever the umask is */
    close(in);
    close(out);
}

static void open_to_all(void)
{
    char dir[] = "/tmp/npud-rights.XXXXXX", program[PATH_MAX], fake[PATH_MAX];

    snprintf(program, sizeof(program), "%s", executor_program());
    snprintf(fake, sizeof(fake), "%s", beside("../vendor/libfake_vendor.so"));
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chmod(dir, 0755), 0);
    snprintf(open_dir, sizeof(open_dir), "%s", dir);
    copy_to(in_open_dir("npud-executor"), program);
    copy_to(in_open_dir("libfake_vendor.so"), fake);
}

static void close_to_all(void)
{
    unlink(in_open_dir("npud-executor"));
    unlink(in_open_dir("libfake_vendor.so"));
    rmdir(open_dir);
    open_dir[0] = '\0';
}

static void become(uid_t uid)
{
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(uid, uid, uid), 0);
    ck_assert_int_eq(setresuid(uid, uid, uid), 0);
}

/* With so much memory, which the kernel takes a while to free at its end. */
static pid_t start_process_of(uid_t uid, size_t bytes)
{
    int ready[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        void *memory =
            mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        madvise(memory, bytes, MADV_NOHUGEPAGE);
        memset(memory, 1, bytes);
        setsid();
        become(uid);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not before: it goes with the uid */
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static const char *sweep_option(void)
{
    static char text[32];

    snprintf(text, sizeof(text), "--sweep=%d", (int)getpid());
    return text;
}

static void expect_killed(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

START_TEST(rights_that_are_none_are_refused)
{
    static const char *const wrong[] = {"--rights=1:2", "--rights=1:2:3x", "--rights=1:2:3:4"};

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(run(wrong[i], NULL), 2);
    ck_assert_int_eq(run(sweep_option(), NULL), 1); /* which uid? */
    ck_assert_int_eq(run(sweep_option(), "--rights=0:0:0"), 1);
}
END_TEST

START_TEST(limits_are_taken)
{
    unsigned long long soft, hard;

    spawn_with("--rights=0:0:65536");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(
        sscanf(line_of(x.pid, "limits", "Max core file size"), "%llu %llu", &soft, &hard), 2);
    ck_assert_uint_eq(hard, 0);
    ck_assert_int_eq(
        sscanf(line_of(x.pid, "limits", "Max locked memory"), "%llu %llu", &soft, &hard), 2);
    ck_assert_uint_eq(soft, 65536);
    ck_assert_uint_eq(hard, 65536);
    ck_assert_uint_eq(strtoul(line_of(x.pid, "status", "Uid:"), NULL, 10), geteuid());
    executor_end(&x);
}
END_TEST

/* More than npud has: it gets what there is. */
START_TEST(a_limit_beyond_npuds_is_npuds)
{
    struct rlimit own = {32768, 65536};
    unsigned long long soft, hard;

    if (geteuid() == 0)
        become(65534);
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &own), 0);
    spawn_with("--rights=0:0:1048576");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(
        sscanf(line_of(x.pid, "limits", "Max locked memory"), "%llu %llu", &soft, &hard), 2);
    ck_assert_uint_eq(soft, 65536);
    ck_assert_uint_eq(hard, 65536);
    executor_end(&x);
}
END_TEST

/* The library is not loaded with more than it is to have. */
START_TEST(without_its_uid_it_loads_nothing)
{
    struct told told;

    if (geteuid() == 0)
        become(65534);
    spawn_with("--rights=1900100000:0:0");
    told = executor_hello(&x, EXECUTOR_VERSION);
    ck_assert_int_eq(told.answer.code, ACL_ERROR_RT_NO_PERMISSION);
    ck_assert_msg(strstr(told.answer.text, "cannot have uid and gid 1900100000"), "%s",
                  told.answer.text);
    ck_assert_int_eq(ASK(&x, .op = EXECUTOR_DEVICE_INFO), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(run(sweep_option(), "--rights=1900100000:0:0"), 1);
    executor_end(&x);
}
END_TEST

/* Those of other uids, such as this program, are left alone. */
START_TEST(an_executor_is_alone_with_its_uid)
{
    pid_t left, other;
    int status;

    if (!need_root(__func__))
        return;
    left = start_process_of(UID, 0);
    other = start_process_of(UID + 2, 0);
    spawn_with("--rights=1900100000:1:0");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    expect_killed(left);
    ck_assert_str_eq(line_of(x.pid, "status", "Uid:"),
                     "\t1900100000\t1900100000\t1900100000\t1900100000\n");
    ck_assert_str_eq(line_of(x.pid, "status", "Gid:"),
                     "\t1900100000\t1900100000\t1900100000\t1900100000\n");
    ck_assert_str_eq(line_of(x.pid, "status", "Groups:"), "\t1 \n");
    ck_assert_uint_eq(strtoull(line_of(x.pid, "status", "CapPrm:"), NULL, 16), 0);
    ck_assert_uint_eq(strtoull(line_of(x.pid, "status", "NoNewPrivs:"), NULL, 10), 1);
    ck_assert_int_eq(run(sweep_option(), "--rights=1900100000:0:0"), 0);
    status = executor_reap(&x);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(waitpid(other, &status, WNOHANG), 0);
    kill(other, SIGKILL);
    expect_killed(other);
}
END_TEST

/* Not only killed: until then it may be in a system call that signals whoever has the uid. */
START_TEST(what_had_its_uid_has_ended)
{
    pid_t left;
    int pidfd;

    if (!need_root(__func__))
        return;
    left = start_process_of(UID, 256 << 20);
    pidfd = pidfd_open_process(left);
    ck_assert(pidfd_alive(pidfd));
    if (_i == 0) {
        ck_assert_int_eq(run(sweep_option(), "--rights=1900100000:0:0"), 0);
    } else {
        spawn_with("--rights=1900100000:0:0");
        ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    }
    ck_assert(!pidfd_alive(pidfd));
    expect_killed(left);
    if (_i == 1)
        executor_end(&x);
}
END_TEST

/* npud ended before it came so far: the uid may be another one's by now. */
START_TEST(what_nobody_waits_for_kills_nothing)
{
    char *argv[] = {"npud-executor", "--rights=1900100000:0:0", "acl", "/none", NULL};
    pid_t left, late;
    int pair[2];

    if (!need_root(__func__))
        return;
    left = start_process_of(UID, 0);
    ck_assert_int_eq(run("--sweep=1", "--rights=1900100000:0:0"), 1);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[0]);
    late = fork();
    if (late == 0)
        executor_exec(executor_program(), pair[1], argv, NULL);
    close(pair[1]);
    ck_assert_int_eq(waitpid(late, NULL, 0), late);
    ck_assert_int_eq(waitpid(left, NULL, WNOHANG), 0);
    kill(left, SIGKILL);
    expect_killed(left);
}
END_TEST

/* What is there by files that it is given needs no uid. */
START_TEST(work_is_done_with_any_uid)
{
    unsigned char *map;
    uint64_t memory, pages;

    if (!need_root(__func__))
        return;
    spawn_with("--rights=1900100000:0:0");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(executor_begin_device(&x, 0), 0);
    memory = new_memory(&x, 0, BYTES);
    pages = new_pages(&x, BYTES, &map);
    fill(map, BYTES, 7);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {memory}, .src = {pages}, .size = BYTES),
                     0);
    memset(map, 0, BYTES);
    ck_assert_int_eq(DO(&x, .op = EXECUTOR_COPY, .dst = {pages}, .src = {memory}, .size = BYTES),
                     0);
    ck_assert_uint_ne(map[0] | map[1] | map[2] | map[3], 0);
    munmap(map, BYTES);
    executor_end(&x);
}
END_TEST

static bool set_oom_adjust(const char *text)
{
    FILE *f = fopen("/proc/self/oom_score_adj", "we");
    bool well = f && fputs(text, f) >= 0;

    return f && fclose(f) == 0 && well;
}

/* npud may be among the last that the kernel ends for want of memory: executors are not. */
START_TEST(npuds_protection_is_not_inherited)
{
    ck_assert(set_oom_adjust("7"));
    spawn_with("--rights=0:0:0");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(atoi(line_of(x.pid, "oom_score_adj", "")), 7);
    executor_end(&x);
    if (!set_oom_adjust("-7")) {
        need_lacks(__func__, "CAP_SYS_RESOURCE");
        return;
    }
    spawn_with("--rights=0:0:0");
    ck_assert_int_eq(executor_hello(&x, EXECUTOR_VERSION).answer.code, 0);
    ck_assert_int_eq(atoi(line_of(x.pid, "oom_score_adj", "")), 0);
    executor_end(&x);
}
END_TEST

static void add_rights(Suite *suite)
{
    TCase *t = suite_case(suite, "rights", 0, NULL, NULL);

    /* Once, by the process that keeps its uid. */
    tcase_add_unchecked_fixture(t, open_to_all, close_to_all);

    tcase_add_test(t, rights_that_are_none_are_refused);
    tcase_add_test(t, limits_are_taken);
    tcase_add_test(t, a_limit_beyond_npuds_is_npuds);
    tcase_add_test(t, without_its_uid_it_loads_nothing);
    tcase_add_test(t, an_executor_is_alone_with_its_uid);
    tcase_add_loop_test(t, what_had_its_uid_has_ended, 0, 2);
    tcase_add_test(t, what_nobody_waits_for_kills_nothing);
    tcase_add_test(t, work_is_done_with_any_uid);
    tcase_add_test(t, npuds_protection_is_not_inherited);
}

static void add_memory(Suite *suite)
{
    TCase *t = suite_case(suite, "memory", 0, NULL, NULL);

    tcase_add_test(t, a_device_is_described);
    tcase_add_test(t, devices_that_are_none_are_refused);
    tcase_add_test(t, an_ended_device_begins_anew);
    tcase_add_test(t, all_memory_is_listed);
    tcase_add_loop_test(t, memory_is_cleared_when_it_is_made, 0, 2);
    tcase_add_test(t, handles_are_validated);
    tcase_add_test(t, pages_that_cannot_be_mapped_are_none);
    tcase_add_test(t, executors_share_memory);
    tcase_add_test(t, executors_share_memory_by_descriptors);
    tcase_add_test(t, what_was_not_exported_is_not_shared);
}

static void add_work(Suite *suite)
{
    TCase *t = suite_case(suite, "work", 0, NULL, NULL);

    tcase_add_loop_test(t, bytes_are_copied_in_all_ways, 0, LACKS);
    tcase_add_loop_test(t, memory_is_set, 0, LACKS);
    tcase_add_loop_test(t, words_are_written_and_read, 0, LACKS);
    tcase_add_test(t, the_device_reduces);
    tcase_add_test(t, kernels_are_launched);
    tcase_add_test(t, ranges_are_within_their_memory);
    tcase_add_test(t, tasks_are_validated);
    tcase_add_test(t, memory_in_use_is_freed_later);
    tcase_add_test(t, lanes_wait_for_no_other);
    tcase_add_test(t, a_task_waits_for_a_message);
    tcase_add_test(t, an_idle_lane_sleeps_and_is_woken);
    tcase_add_test(t, npud_is_woken_when_it_awaits);
    tcase_add_loop_test(t, four_thousand_tasks_are_done_in_order, 0, LACKS);
}

static void add_bad_days(Suite *suite)
{
    TCase *t = suite_case(suite, "bad days", 0, NULL, NULL);

    tcase_add_loop_test(t, a_late_error_is_its_tasks, 0, 2);
    tcase_add_test(t, an_error_is_not_left_to_the_next_task);
    tcase_add_test(t, an_error_that_stays_costs_the_queue);
    tcase_add_test(t, a_task_that_is_stuck_is_aborted);
    tcase_add_test(t, an_early_abort_is_not_lost);
    tcase_add_loop_test(t, codes_at_random_harm_no_other_task, 0, 4);
    tcase_add_loop_test(t, a_library_that_dies_takes_the_process, 0, 3);
    tcase_add_test(t, a_library_that_closes_the_socket_ends_the_process);
    tcase_add_loop_test(t, a_call_that_never_returns_holds_up_its_lane_only, 0, 2);
    tcase_add_test(t, a_start_that_fails_is_said);
    suite_add_cases(t, each_function_may_be_absent, FUNCTIONS);
    tcase_add_test(t, addresses_that_overlap_are_told);
}

int main(void)
{
    Suite *suite = suite_create("executor");

    add_program(suite);
    add_rights(suite);
    add_memory(suite);
    add_work(suite);
    add_bad_days(suite);
    return run_suite(suite);
}
