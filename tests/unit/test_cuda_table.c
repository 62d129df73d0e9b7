/*
 * daemon/executor/cuda: the table of CUDA over the fake of tests/gpu, which is strict about misuse:
 * each function, what is there when functions of the driver are not, errors, and processes that
 * share memory by descriptors.
 *
 * With NPUD_TEST_CUDA=libcuda.so.1 the cases of a real GPU run instead: those without a script.
 *
 * Skipped under the emulator: there the fake, which is loaded as the driver is, faults in its first
 * call, and why was not found.
 */
#include "daemon/executor/vendor.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/memfd.h"
#include "daemon/executor/cuda_api.h"
#include "daemon/executor/cuda_image.h"
#include "proto/util/fd_message.h"
#include "tests/common/child.h"
#include "unit.h"

#define KIB   UINT64_C(1024)
#define MIB   (KIB * KIB)
#define BYTES (64 * KIB)

static const char kernels[] = ".version 6.0\n"
                              ".target sm_50\n"
                              ".address_size 64\n"
                              ".visible .entry store(.param .u64 address, .param .u64 value)\n"
                              "{\n"
                              "    .reg .b64 %a, %v;\n"
                              "    ld.param.u64 %a, [address];\n"
                              "    ld.param.u64 %v, [value];\n"
                              "    st.global.u64 [%a], %v;\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry fault()\n"
                              "{\n"
                              "    .reg .b64 %a;\n"
                              "    mov.u64 %a, 16;\n"
                              "    st.global.u64 [%a], %a;\n"
                              "    ret;\n"
                              "}\n";

static const struct vendor *v = &vendor_cuda;
static struct vendor_library *library;
static struct vendor_lane *lane;

/* --- beginning --- */

static const char *real_library(void)
{
    return getenv("NPUD_TEST_CUDA");
}

/* The fake lies beside this program: BUILD/tests/gpu, or all in one folder. */
static const char *library_path(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
    char *slash;

    if (real_library())
        return real_library();
    ck_assert_int_gt(n, 0);
    path[n] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash, 64, "/libfake_cuda.so");
    if (access(path, R_OK) != 0)
        snprintf(slash, 64, "/../gpu/libfake_cuda.so");
    return path;
}

static int32_t try_open(char *why, size_t size)
{
    library = NULL;
    why[0] = '\0';
    return v->open(library_path(), false, &library, why, size);
}

static void open_library(void)
{
    char why[512];

    ck_assert_msg(try_open(why, sizeof(why)) == 0, "%s", why);
    ck_assert_int_eq(v->device_begin(library, 0), 0);
    ck_assert_int_eq(v->lane_new(library, 0, &lane), 0);
}

/* What a test leaves behind is given back at its end: nothing has leaked then. */
static struct vendor_memory made[16];
static void *binaries[4];
static unsigned n_made, n_binaries;

static struct vendor_memory keep_memory(int32_t code, struct vendor_memory memory)
{
    ck_assert_msg(code == 0, "%s", vendor_text());
    ck_assert_uint_ne(memory.address, 0);
    ck_assert_uint_lt(n_made, sizeof(made) / sizeof(made[0]));
    return made[n_made++] = memory;
}

static struct vendor_memory new_memory_on(uint32_t device, uint64_t size)
{
    struct vendor_memory memory;
    int32_t code = v->memory_new(library, device, size, &memory);

    ck_assert_uint_ge(memory.size, size);
    return keep_memory(code, memory);
}

static struct vendor_memory new_memory(uint64_t size)
{
    return new_memory_on(0, size);
}

static void free_memory(struct vendor_memory *memory)
{
    unsigned i = 0;

    while (made[i].of != memory->of)
        i++;
    v->memory_free(library, &made[i]);
    ck_assert_ptr_null(made[i].of);
}

/* What the fake still has. */
static unsigned count_left(void)
{
    void *fake = dlopen(library_path(), RTLD_NOW | RTLD_NOLOAD);
    unsigned (*left)(void);
    void *symbol = dlsym(fake, "fake_cuda_left");

    ck_assert_ptr_nonnull(symbol);
    memcpy(&left, &symbol, sizeof(left));
    return left();
}

static void finish(void)
{
    if (!library)
        return;
    for (unsigned i = 0; i < n_binaries; i++)
        v->binary_free(library, binaries[i]);
    for (unsigned i = 0; i < n_made; i++)
        v->memory_free(library, &made[i]);
    v->lane_free(lane);
    if (!real_library() && v->gone(library, 0) == 0)
        ck_assert_uint_eq(count_left(), 0);
    v->close(library);
}

static void *load_kernels(void)
{
    void *binary;

    ck_assert_msg(v->binary_load(library, 0, kernels, sizeof(kernels) - 1, 0, &binary) == 0, "%s",
                  vendor_text());
    return binaries[n_binaries++] = binary;
}

static void sync_well(void)
{
    ck_assert_msg(v->lane_sync(&lane) == 0, "%s", vendor_text());
    ck_assert_ptr_nonnull(lane);
}

static void fill(unsigned char *bytes, uint64_t size, unsigned seed)
{
    uint64_t state = seed + 1;

    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)random_next(&state);
}

static uint64_t read_word(uint64_t address)
{
    uint64_t word = 0;

    ck_assert_int_eq(v->copy(lane, (uintptr_t)&word, address, sizeof(word), VENDOR_TO_HOST), 0);
    sync_well();
    return word;
}

/* --- all well --- */

START_TEST(devices_are_described)
{
    struct executor_device_info info;
    const char *absent;
    unsigned known, found;
    uint32_t n;

    open_library();
    found = v->symbols(library, &known, &absent);
    ck_assert_uint_ge(known, 45);
    ck_assert_uint_le(found, known);
    ck_assert_int_eq(found == known, absent[0] == '\0');
    ck_assert_int_eq(v->device_count(library, &n), 0);
    ck_assert_uint_ge(n, 1);
    ck_assert_int_eq(v->device_info(library, 0, &info), 0);
    ck_assert_uint_ne(info.name[0], 0);
    ck_assert_ptr_nonnull(strstr(info.version, "CUDA "));
    ck_assert_uint_ne(info.bus[0], 0);
    ck_assert_uint_gt(info.memory, 0);
    ck_assert_uint_le(info.free, info.memory);
    ck_assert_uint_eq(info.granularity % (4 * KIB), 0);
    ck_assert_uint_eq(info.capabilities & EXECUTOR_CAN_SET, EXECUTOR_CAN_SET);
    ck_assert_uint_eq(info.capabilities & (EXECUTOR_CAN_ABORT | EXECUTOR_CAN_REDUCE), 0);
    ck_assert_ptr_null(v->reduce);
    ck_assert_ptr_null(v->lane_abort);
    printf("# %s, %s, %s: capabilities %#lx, symbols %u of %u\n", info.name, info.version, info.bus,
           (unsigned long)info.capabilities, found, known);
    ck_assert_int_eq(v->device_info(library, n, &info), ACL_ERROR_RT_INVALID_DEVICEID);
}
END_TEST

START_TEST(bytes_go_there_and_back)
{
    static unsigned char out[BYTES], in[BYTES];
    struct vendor_memory a, b;

    open_library();
    a = new_memory(BYTES);
    b = new_memory(BYTES);
    for (uint64_t size = 1; size <= BYTES; size = size * 4 + 1) {
        fill(out, size, (unsigned)size);
        memset(in, 0, sizeof(in));
        ck_assert_int_eq(v->copy(lane, a.address, (uintptr_t)out, size, VENDOR_TO_DEVICE), 0);
        ck_assert_int_eq(v->copy(lane, b.address, a.address, size, VENDOR_ON_DEVICE), 0);
        ck_assert_int_eq(v->copy(lane, (uintptr_t)in, b.address, size, VENDOR_TO_HOST), 0);
        sync_well();
        ck_assert_int_eq(memcmp(in, out, size), 0);
    }
    ck_assert_int_eq(v->copy(lane, a.address, (uintptr_t)out, 0, VENDOR_TO_DEVICE), 0);
    ck_assert_int_eq(v->set(lane, b.address, 1, 0), 0);
    free_memory(&a);
    free_memory(&b);
}
END_TEST

START_TEST(memory_is_set_and_words_are_written)
{
    struct vendor_memory m;

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->set(lane, m.address, 0xa5, BYTES), 0);
    ck_assert_uint_eq(read_word(m.address + BYTES - 8), UINT64_C(0xa5a5a5a5a5a5a5a5));
    ck_assert_int_eq(v->word_write(lane, m.address + 8, UINT64_C(0x123456789abcdef0)), 0);
    ck_assert_uint_eq(read_word(m.address + 8), UINT64_C(0x123456789abcdef0));
    ck_assert_uint_eq(read_word(m.address + 16), UINT64_C(0xa5a5a5a5a5a5a5a5));
}
END_TEST

START_TEST(registered_pages_are_reached_both_ways)
{
    struct vendor_memory m;
    uint64_t *pages, address;
    void *map;
    int fd;

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(memfd_map_new("test", BYTES, &fd, &map), 0);
    pages = map;
    ck_assert_int_eq(v->host_attach(library, pages, BYTES), 0);
    ck_assert_int_ne(v->host_attach(library, pages, BYTES), 0);
    fill(map, BYTES, 7);
    ck_assert_int_eq(v->copy(lane, m.address, (uintptr_t)pages, BYTES, VENDOR_TO_DEVICE), 0);
    ck_assert_int_eq(
        v->copy(lane, (uintptr_t)pages, m.address + BYTES / 2, BYTES / 2, VENDOR_TO_HOST), 0);
    sync_well();
    ck_assert_int_eq(memcmp(pages, pages + BYTES / 16, BYTES / 2), 0);
    /* A word in registered pages is seen while the lane goes on, and ends the lane's wait. */
    ck_assert_int_eq(v->host_address(library, pages, &address), 0);
    ck_assert_int_eq(v->lane_stop(lane), 0);
    atomic_store((_Atomic uint64_t *)&pages[2], 0);
    ck_assert_int_eq(v->word_wait(lane, address + 16, 5), 0);
    ck_assert_int_eq(v->word_write(lane, address + 24, 77), 0);
    ck_assert_uint_ne(atomic_load((_Atomic uint64_t *)&pages[3]), 77);
    atomic_store((_Atomic uint64_t *)&pages[2], 6);
    AWAIT(atomic_load((_Atomic uint64_t *)&pages[3]) == 77);
    sync_well();
    v->host_detach(library, pages);
    ck_assert_int_eq(v->host_attach(library, pages, BYTES), 0);
    v->host_detach(library, pages);
}
END_TEST

static void note_call(void *arg)
{
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

START_TEST(a_lane_calls_when_it_gets_there)
{
    static _Atomic unsigned calls;
    struct vendor_memory m;
    uint64_t address;
    _Atomic uint64_t *words;
    void *map;
    int fd;

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(memfd_map_new("test", BYTES, &fd, &map), 0);
    words = map;
    ck_assert_int_eq(v->host_attach(library, map, BYTES), 0);
    ck_assert_int_eq(v->host_address(library, map, &address), 0);
    ck_assert_int_eq(v->word_wait(lane, address, 1), 0);
    ck_assert_int_eq(v->lane_call(lane, note_call, &calls), 0);
    ck_assert_int_eq(v->set(lane, m.address, 9, 8), 0);
    ck_assert_uint_eq(atomic_load(&calls), 0);
    atomic_store(words, 1);
    AWAIT(atomic_load(&calls) == 1);
    ck_assert_uint_eq(read_word(m.address), UINT64_C(0x0909090909090909));
    v->host_detach(library, map);
}
END_TEST

START_TEST(kernels_run)
{
    struct vendor_launch launch = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    struct vendor_memory m;
    uint64_t arguments[2] = {0, 4711};
    void *binary, *function;

    open_library();
    m = new_memory(BYTES);
    arguments[0] = m.address + 24;
    launch.arguments = arguments;
    launch.bytes = sizeof(arguments);
    binary = load_kernels();
    ck_assert_int_eq(v->function(library, binary, "store", &function), 0);
    ck_assert_int_eq(v->launch(lane, function, &launch), 0);
    ck_assert_uint_eq(read_word(m.address + 24), 4711);
    launch.shared_bytes = 64 * 1024;
    arguments[1] = 4712;
    ck_assert_msg(v->launch(lane, function, &launch) == 0, "%s", vendor_text());
    ck_assert_uint_eq(read_word(m.address + 24), 4712);
    ck_assert_int_eq(v->function(library, binary, "none", &function),
                     ACL_ERROR_RT_SYMBOL_NOT_FOUND);
}
END_TEST

/* --- refusals that leave all as it was --- */

START_TEST(what_is_refused_breaks_nothing)
{
    static const struct vendor_launch none = {.blocks = {0, 1, 1}, .threads = {1, 1, 1}};
    static const struct vendor_launch huge = {
        .blocks = {1, 1, 1}, .threads = {1, 1, 1}, .shared_bytes = 1u << 30};
    struct vendor_memory m, other;
    void *binary, *function;
    char bytes[16] = "no PTX";

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->memory_new(library, 0, 0, &other), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(v->memory_new(library, 0, UINT64_MAX, &other), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_eq(v->memory_new(library, 0, UINT64_C(1) << 46, &other),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_ne(v->binary_load(library, 0, bytes, 7, 0, &binary), 0);
    ck_assert_ptr_nonnull(strstr(vendor_text(), "cuModuleLoadDataEx"));
    ck_assert_int_eq(v->binary_load(library, 0, "\177ELF", 4, 0, &binary),
                     ACL_ERROR_RT_PARAM_INVALID);
    binary = load_kernels();
    ck_assert_int_eq(v->function(library, binary, "fault", &function), 0);
    ck_assert_int_ne(v->launch(lane, function, &none), 0);
    ck_assert_int_ne(v->launch(lane, function, &huge), 0);
    ck_assert_int_eq(v->gone(library, 0), 0);
    ck_assert_int_eq(v->device_begin(library, EXECUTOR_DEVICES), ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_eq(v->set(lane, m.address, 3, 8), 0);
    ck_assert_uint_eq(read_word(m.address), UINT64_C(0x0303030303030303));
}
END_TEST

START_TEST(a_fault_of_a_kernel_is_for_good)
{
    static const struct vendor_launch one = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    struct vendor_lane *other;
    struct vendor_memory m, again;
    void *binary, *function;

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->lane_new(library, 0, &other), 0);
    binary = load_kernels();
    ck_assert_int_eq(v->function(library, binary, "fault", &function), 0);
    ck_assert_int_eq(v->launch(lane, function, &one), 0);
    ck_assert_int_eq(v->lane_sync(&lane), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_ptr_null(lane);
    ck_assert_int_eq(v->gone(library, 0), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_int_eq(v->set(other, m.address, 1, 1), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_int_eq(v->memory_new(library, 0, BYTES, &again), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_int_eq(v->lane_sync(&other), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_ptr_null(other);
    ck_assert_int_eq(v->lane_new(library, 0, &lane), ACL_ERROR_RT_AICORE_EXCEPTION);
    free_memory(&m);
    ck_assert_int_eq(v->device_begin(library, 0), ACL_ERROR_RT_AICORE_EXCEPTION);
}
END_TEST

/* --- processes --- */

static int sockets[2];

static void send_token(const struct vendor_token *token, uint64_t size)
{
    ck_assert_int_eq(fd_message_send(sockets[0], &size, sizeof(size), &token->fd, 1, 0), 0);
}

static struct vendor_memory receive_memory(void)
{
    struct vendor_token token = {.fd = -1};
    struct vendor_memory m;
    int fds[FD_MESSAGE_FDS];
    int32_t code;
    uint64_t size;
    size_t n;

    ck_assert_int_eq(fd_message_receive(sockets[1], &size, sizeof(size), fds, &n, 0), sizeof(size));
    ck_assert_uint_eq(n, 1);
    token.fd = fds[0];
    code = v->memory_import(library, 0, size, &token, &m);
    m = keep_memory(code, m);
    ck_assert(m.imported);
    ck_assert_uint_eq(m.size, (size + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
    close(token.fd);
    return m;
}

static int export_and_wait(void *arg)
{
    struct vendor_memory m;
    struct vendor_token token;

    (void)arg;
    open_library();
    m = new_memory(3 * MIB);
    ck_assert_int_eq(v->set(lane, m.address, 0x42, m.size), 0);
    sync_well();
    ck_assert_int_eq(v->memory_export(library, &m, &token), 0);
    ck_assert_int_eq(v->memory_allow(library, &m, &token, 1), 0);
    send_token(&token, 3 * MIB); /* as npud has asked for it */
    close(token.fd);
    turn_await(&to_child);
    if (read_word(m.address) != 77)
        return 1;
    ck_assert_int_eq(v->word_write(lane, m.address, 78), 0);
    sync_well();
    turn_tell(&to_parent);
    pause();
    return 0;
}

/* Both reach the same bytes; they stay when the one that made them is killed. */
START_TEST(memory_outlives_its_maker)
{
    struct vendor_memory m;
    pid_t pid;

    turns_init();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    pid = child_start(export_and_wait, NULL);
    open_library();
    m = receive_memory();
    ck_assert_uint_eq(read_word(m.address + 2 * MIB), UINT64_C(0x4242424242424242));
    ck_assert_int_eq(v->word_write(lane, m.address, 77), 0);
    sync_well();
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert_uint_eq(read_word(m.address), 78);
    child_kill(pid);
    ck_assert_uint_eq(read_word(m.address), 78);
    ck_assert_uint_eq(read_word(m.address + 2 * MIB), UINT64_C(0x4242424242424242));
    free_memory(&m);
}
END_TEST

START_TEST(what_is_no_memory_is_not_imported)
{
    struct vendor_token token = {.fd = -1};
    struct vendor_memory m;

    open_library();
    ck_assert_int_ne(v->memory_import(library, 0, 2 * MIB, &token, &m), 0);
    token.fd = memfd_new("test", 2 * MIB);
    ck_assert_int_ne(v->memory_import(library, 0, 2 * MIB, &token, &m), 0);
    ck_assert_int_ne(v->memory_import(library, 0, 1, &token, &m), 0);
    ck_assert_int_eq(v->gone(library, 0), 0);
}
END_TEST

/* Lanes do not wait for each other, and several threads have lanes. */
static void *use_lane(void *arg)
{
    struct vendor_memory *m = arg;
    struct vendor_lane *mine = NULL;
    uint64_t word;

    CHECK(v->thread_begin(library, 0) == 0);
    CHECK(v->lane_new(library, 0, &mine) == 0);
    for (uint64_t i = 1; i <= 200; i++) {
        CHECK(v->word_write(mine, m->address, i) == 0);
        CHECK(v->copy(mine, m->address + 8, m->address, 8, VENDOR_ON_DEVICE) == 0);
        CHECK(v->copy(mine, (uintptr_t)&word, m->address + 8, 8, VENDOR_TO_HOST) == 0);
        CHECK(v->lane_sync(&mine) == 0);
        CHECK(word == i);
    }
    v->lane_free(mine);
    return NULL;
}

START_TEST(threads_have_lanes)
{
    struct vendor_memory m[4];
    pthread_t thread[4];

    open_library();
    for (unsigned i = 0; i < 4; i++) {
        m[i] = new_memory(BYTES);
        thread[i] = start_thread(use_lane, &m[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        thread_join(thread[i]);
        free_memory(&m[i]);
    }
}
END_TEST

/* --- scripts of the fake --- */

START_TEST(the_fake_is_described_exactly)
{
    static const uint64_t all = EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD | EXECUTOR_CAN_REGISTER |
                                EXECUTOR_CAN_SET | EXECUTOR_CAN_WORD | EXECUTOR_CAN_KERNEL |
                                EXECUTOR_CAN_PEER | EXECUTOR_CAN_HEALTH;
    struct executor_device_info info;
    struct executor_health health;
    uint32_t n;

    open_library();
    ck_assert_int_eq(v->device_count(library, &n), 0);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(v->device_begin(library, 1), 0);
    ck_assert_int_eq(v->device_info(library, 1, &info), 0);
    ck_assert_str_eq(info.name, "Fake GPU 1");
    ck_assert_str_eq(info.version, "CUDA 12.8, driver 570.0.fake, compute 9.0");
    ck_assert_str_eq(info.bus, "0000:11:00.0");
    ck_assert_uint_eq(info.uuid[15], 0x41);
    ck_assert_uint_eq(info.memory, 1024 * MIB);
    ck_assert_uint_eq(info.free, info.memory); /* what it tried with is given back */
    ck_assert_uint_eq(info.granularity, 2 * MIB);
    ck_assert_uint_eq(info.capabilities, all);
    ck_assert_int_eq(v->health(library, 1, &health), 0);
    ck_assert_int_eq(health.temperature, 41);
    ck_assert_int_eq(health.power, 71000);
    ck_assert_int_eq(health.busy, 17);
    ck_assert_uint_eq(health.errors, 2);
}
END_TEST

START_TEST(devices_reach_each_other)
{
    struct vendor_memory here, there;

    open_library();
    ck_assert_int_eq(v->device_begin(library, 1), 0);
    here = new_memory(BYTES);
    there = new_memory_on(1, BYTES);
    ck_assert_int_eq(v->set(lane, here.address, 0x11, BYTES), 0);
    ck_assert_int_eq(v->copy(lane, there.address, here.address, BYTES, VENDOR_ON_DEVICE), 0);
    ck_assert_uint_eq(read_word(there.address + 8), UINT64_C(0x1111111111111111));
    free_memory(&there);
    ck_assert_uint_eq(read_word(here.address), UINT64_C(0x1111111111111111));
    ck_assert_int_eq(v->device_end(library, 1), 0);
    ck_assert_uint_eq(read_word(here.address), UINT64_C(0x1111111111111111));
    ck_assert_int_eq(v->memory_new(library, 1, BYTES, &there), ACL_ERROR_RT_CONTEXT_NULL);
}
END_TEST

START_TEST(devices_need_not_reach_each_other)
{
    struct executor_device_info info;

    setenv("FAKE_CUDA_PEERS", "0", 1);
    open_library();
    ck_assert_int_eq(v->device_info(library, 0, &info), 0);
    ck_assert_uint_eq(info.capabilities & EXECUTOR_CAN_PEER, 0);
    ck_assert_uint_ne(info.capabilities & EXECUTOR_CAN_SHARE, 0);
}
END_TEST

START_TEST(what_does_not_work_is_no_capability)
{
    struct executor_device_info info;

    setenv("FAKE_CUDA_LIES", "1", 1);
    open_library();
    ck_assert_int_eq(v->device_info(library, 0, &info), 0);
    ck_assert_uint_eq(info.capabilities & EXECUTOR_CAN_SET, 0);
    ck_assert_uint_ne(info.capabilities & EXECUTOR_CAN_WORD, 0);
}
END_TEST

/* A function that is absent, and the capabilities that go with it. */
static const struct absence {
    const char *name;
    uint64_t capabilities;
} absences[] = {
    {"cuGetErrorName", 0},
    {"cuGetErrorString", 0},
    {"cuDeviceGetAttribute", 0},
    {"cuDeviceGetUuid_v2", 0},
    {"cuDeviceGetPCIBusId", EXECUTOR_CAN_HEALTH},
    {"cuDeviceCanAccessPeer", EXECUTOR_CAN_PEER},
    {"cuDevicePrimaryCtxSetFlags_v2", 0},
    {"cuMemGetInfo_v2", 0},
#define NO_VMM (EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD | EXECUTOR_CAN_PEER)
    {"cuMemGetAllocationGranularity", NO_VMM},
    {"cuMemCreate", NO_VMM},
    {"cuMemRelease", NO_VMM},
    {"cuMemAddressReserve", NO_VMM},
    {"cuMemAddressFree", NO_VMM},
    {"cuMemMap", NO_VMM},
    {"cuMemUnmap", NO_VMM},
    {"cuMemSetAccess", NO_VMM},
    {"cuMemExportToShareableHandle", EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD},
    {"cuMemImportFromShareableHandle", EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD},
    {"cuMemHostRegister_v2", EXECUTOR_CAN_REGISTER},
    {"cuMemHostUnregister", EXECUTOR_CAN_REGISTER},
    {"cuMemHostGetDevicePointer_v2", 0},
    {"cuStreamWaitValue64_v2", 0},
    {"cuLaunchHostFunc", 0},
    {"cuMemsetD8Async", EXECUTOR_CAN_SET},
    {"cuStreamQuery", 0},
    {"cuStreamWriteValue64_v2", EXECUTOR_CAN_WORD},
    {"cuModuleLoadData", 0},
    {"cuModuleLoadDataEx", 0},
    {"cuModuleLoadData,cuModuleLoadDataEx", EXECUTOR_CAN_KERNEL},
    {"cuModuleUnload", EXECUTOR_CAN_KERNEL},
    {"cuModuleGetFunction", EXECUTOR_CAN_KERNEL},
    {"cuFuncSetAttribute", 0},
    {"cuLaunchKernel", EXECUTOR_CAN_KERNEL},
};
#define ABSENCES (sizeof(absences) / sizeof(absences[0]))

static const char *optional[] = {
#define NOT_THIS(name, arguments)
#define THIS(name, arguments) #name,
    CUDA_FUNCTIONS(NOT_THIS, THIS)};
static const char *needed[] = {CUDA_FUNCTIONS(THIS, NOT_THIS)};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

START_TEST(each_optional_function_has_its_absence)
{
    for (size_t i = 0; i < COUNT(optional); i++) {
        size_t j = 0;

        while (j < ABSENCES && strcmp(absences[j].name, optional[i]) != 0)
            j++;
        ck_assert_msg(j < ABSENCES, "no row for %s", optional[i]);
    }
}
END_TEST

/* The capability goes, the rest works, and its use is refused with a sentence. */
START_TEST(an_absent_function_is_an_absent_capability)
{
    const struct absence *a = &absences[_i];
    struct executor_device_info info;
    struct vendor_memory m;
    struct vendor_token token;
    const char *absent;
    unsigned known;
    char first[64];

    snprintf(first, sizeof(first), "%.*s", (int)strcspn(a->name, ","), a->name);
    setenv("FAKE_CUDA_WITHOUT", a->name, 1);
    open_library();
    ck_assert_uint_lt(v->symbols(library, &known, &absent), known);
    ck_assert_ptr_nonnull(strstr(absent, first));
    ck_assert_int_eq(v->device_info(library, 0, &info), 0);
    ck_assert_uint_eq(info.capabilities & a->capabilities, 0);
    ck_assert_uint_eq((info.capabilities | a->capabilities) & 0x3ff, 0x3ff & ~0x50u);
    m = new_memory(BYTES);
    ck_assert_int_eq(v->memory_export(library, &m, &token),
                     a->capabilities & EXECUTOR_CAN_FD ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : 0);
    if (token.fd >= 0)
        close(token.fd);
    ck_assert_int_eq(v->set(lane, m.address, 1, 1),
                     a->capabilities & EXECUTOR_CAN_SET ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : 0);
    ck_assert_int_eq(v->word_write(lane, m.address, 5),
                     a->capabilities & EXECUTOR_CAN_WORD ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : 0);
    if (a->capabilities & (EXECUTOR_CAN_WORD | EXECUTOR_CAN_SET))
        ck_assert_ptr_nonnull(strstr(vendor_text(), "does not have it"));
    if (!(a->capabilities & EXECUTOR_CAN_WORD))
        ck_assert_uint_eq(read_word(m.address), 5);
    sync_well();
}
END_TEST

START_TEST(without_a_needed_function_it_is_no_library)
{
    char why[512];

    setenv("FAKE_CUDA_WITHOUT", needed[_i], 1);
    ck_assert_int_eq(try_open(why, sizeof(why)), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    ck_assert_ptr_nonnull(strstr(why, needed[_i]));
}
END_TEST

START_TEST(a_library_that_cannot_be_opened_says_why)
{
    char why[512] = "";

    ck_assert_int_eq(v->open("/nowhere/libcuda.so.1", false, &library, why, sizeof(why)),
                     ACL_ERROR_RT_NO_DEVICE);
    ck_assert_ptr_nonnull(strstr(why, "/nowhere"));
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    ck_assert_int_eq(try_open(why, sizeof(why)), ACL_ERROR_RT_NO_DEVICE);
    ck_assert_ptr_nonnull(strstr(why, "cuInit: FAKE_ERROR_100"));
}
END_TEST

START_TEST(without_nvml_health_is_not_known)
{
    struct executor_device_info info;
    struct executor_health health;

    setenv("FAKE_NVML", "broken", 1);
    open_library();
    ck_assert_int_eq(v->health(library, 0, &health), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    ck_assert_int_eq(health.temperature, INT32_MIN);
    ck_assert_int_eq(v->device_info(library, 0, &info), 0);
    ck_assert_uint_eq(info.capabilities & EXECUTOR_CAN_HEALTH, 0);
    ck_assert_ptr_nonnull(strstr(info.version, "driver not known"));
}
END_TEST

/* What a step of several fails at, is undone: all memory is there as before. */
static const char *const steps[] = {"cuMemCreate:1:2", "cuMemAddressReserve:1:2", "cuMemMap:1:2",
                                    "cuMemSetAccess:1:2"};

START_TEST(memory_that_fails_halfway_is_given_back)
{
    struct vendor_memory m;

    setenv("FAKE_CUDA_FAIL", steps[_i], 1);
    open_library();
    ck_assert_int_eq(v->memory_new(library, 0, 1024 * MIB, &m), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_ptr_nonnull(strstr(vendor_text(), "out of memory"));
    m = new_memory(1024 * MIB);
    free_memory(&m);
    m = new_memory(1024 * MIB);
}
END_TEST

START_TEST(memory_without_descriptors_is_better_than_none)
{
    struct vendor_memory m;
    struct vendor_token token;

    setenv("FAKE_CUDA_FAIL", "cuMemCreate:1:801", 1);
    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->memory_export(library, &m, &token), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    ck_assert_int_eq(token.fd, -1);
}
END_TEST

/* Whichever task fails: the lane that is asked first says so, then all. */
START_TEST(a_task_that_fails_later_is_told_at_the_sync)
{
    struct vendor_memory m;

    setenv("FAKE_CUDA_FAULT", "2:214", 1);
    setenv("FAKE_CUDA_LATENCY_US", "2000", 1);
    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->set(lane, m.address, 1, 8), 0);
    sync_well();
    ck_assert_int_eq(v->set(lane, m.address, 2, 8), 0);
    ck_assert_int_eq(v->set(lane, m.address, 3, 8), 0);
    ck_assert_int_eq(v->lane_sync(&lane), ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR);
    ck_assert_ptr_null(lane);
    ck_assert_int_eq(v->gone(library, 0), ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR);
}
END_TEST

/* CUDA's "unknown error" is one call's or the context's. */
START_TEST(an_unknown_error_is_looked_into)
{
    struct vendor_memory m;

    setenv("FAKE_CUDA_FAIL", "cuMemCreate:1:999", 1);
    setenv("FAKE_CUDA_FAULT", "2:999", 1);
    open_library();
    ck_assert_int_eq(v->memory_new(library, 0, BYTES, &m), ACL_ERROR_RT_INTERNAL_ERROR);
    ck_assert_int_eq(v->gone(library, 0), 0);
    m = new_memory(BYTES);
    ck_assert_int_eq(v->set(lane, m.address, 1, 8), 0);
    sync_well();
    ck_assert_int_eq(v->set(lane, m.address, 1, 8), 0);
    ck_assert_int_eq(v->lane_sync(&lane), ACL_ERROR_RT_INTERNAL_ERROR);
    ck_assert_int_eq(v->gone(library, 0), ACL_ERROR_RT_INTERNAL_ERROR);
}
END_TEST

/* Of two devices the other one goes on. */
START_TEST(a_gone_device_leaves_its_neighbour)
{
    struct vendor_lane *other;
    struct vendor_memory m, there;

    setenv("FAKE_CUDA_FAULT", "1:700", 1);
    open_library();
    ck_assert_int_eq(v->device_begin(library, 1), 0);
    ck_assert_int_eq(v->lane_new(library, 1, &other), 0);
    there = new_memory_on(1, BYTES);
    m = new_memory(BYTES);
    ck_assert_int_eq(v->set(lane, m.address, 1, 8), 0);
    ck_assert_int_eq(v->lane_sync(&lane), ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_int_eq(v->gone(library, 1), 0);
    ck_assert_int_eq(v->set(other, there.address, 1, 8), 0);
    ck_assert_int_eq(v->lane_sync(&other), 0);
    v->lane_free(other);
}
END_TEST

/* Memory that is freed under a task breaks the context, as in the driver: npud must not. */
START_TEST(the_fake_finds_memory_that_is_freed_too_early)
{
    struct vendor_memory m;

    setenv("FAKE_CUDA_LATENCY_US", "20000", 1);
    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(v->set(lane, m.address, 1, 8), 0);
    free_memory(&m);
    ck_assert_int_eq(v->lane_sync(&lane), ACL_ERROR_RT_AICORE_EXCEPTION);
}
END_TEST

START_TEST(the_fake_finds_copies_to_nowhere)
{
    static const char bytes[16];
    struct vendor_memory m;

    open_library();
    m = new_memory(BYTES);
    /* A real driver may take such an address for one of the host. */
    ck_assert_int_eq(v->copy(lane, 4096, (uintptr_t)bytes, 16, VENDOR_TO_DEVICE),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_ptr_nonnull(strstr(vendor_text(), "cuMemcpyHtoDAsync_v2"));
    ck_assert_int_eq(v->copy(lane, m.address + 8, m.address, 16, VENDOR_ON_DEVICE),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(v->set(lane, m.address + m.size - 8, 1, 16), ACL_ERROR_RT_PARAM_INVALID);
}
END_TEST

/* Nothing is mapped at an address of the fake. */
START_TEST(the_fake_has_no_memory_at_its_addresses)
{
    struct vendor_memory m;
    int ends[2];

    open_library();
    m = new_memory(BYTES);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], (void *)(uintptr_t)m.address, 1), -1);
    ck_assert_int_eq(errno, EFAULT);
}
END_TEST

START_TEST(each_result_has_a_code)
{
    ck_assert_int_eq(cuda_code(CUDA_SUCCESS), 0);
    ck_assert(!cuda_is_fatal(CUDA_SUCCESS));
    for (int result = 1; result < 1000; result++) {
        ck_assert_int_ge(cuda_code(result), 107000);
        ck_assert_int_lt(cuda_code(result), 508000);
    }
    ck_assert_int_eq(cuda_code(2), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_eq(cuda_code(998), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    ck_assert(cuda_is_fatal(CUDA_ILLEGAL_ADDRESS) && !cuda_is_fatal(CUDA_OUT_OF_MEMORY));
}
END_TEST

/* --- binaries, without a library --- */

static bool is_taken(const void *file, uint64_t size)
{
    char *copy = cuda_image_copy(file, size);
    bool taken = copy && copy[size] == '\0' && memcmp(copy, file, size) == 0;

    free(copy);
    return taken;
}

START_TEST(binaries_are_no_longer_than_they_are)
{
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
        char rest[32];
    } fatbin = {0xba55ed50u, 1, 16, 32, ""};
    unsigned char elf[4096];
    FILE *self = fopen("/proc/self/exe", "r");

    ck_assert(is_taken("x", 1) && is_taken(kernels, sizeof(kernels)));
    ck_assert(!is_taken("x\0y", 3) && !is_taken("", 0) && !is_taken("\0", 1));
    ck_assert(is_taken(&fatbin, sizeof(fatbin)));
    ck_assert(!is_taken(&fatbin, sizeof(fatbin) - 1) && !is_taken(&fatbin, 15));
    fatbin.size = UINT64_MAX;
    ck_assert(!is_taken(&fatbin, sizeof(fatbin)));
    ck_assert_uint_eq(fread(elf, 1, sizeof(elf), self), sizeof(elf));
    fclose(self);
    ck_assert(!is_taken(elf, sizeof(elf)) && !is_taken(elf, 63) && !is_taken(elf, 4));
    memset(elf + 40, 0, 8); /* without sections */
    memset(elf + 60, 0, 2);
    ck_assert(is_taken(elf, sizeof(elf)) && !is_taken(elf, 65));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_table");
    TCase *t = suite_case(suite, "library", 120, NULL, finish);

    tcase_add_test(t, devices_are_described);
    tcase_add_test(t, bytes_go_there_and_back);
    tcase_add_test(t, memory_is_set_and_words_are_written);
    tcase_add_test(t, registered_pages_are_reached_both_ways);
    tcase_add_test(t, a_lane_calls_when_it_gets_there);
    tcase_add_test(t, kernels_run);
    tcase_add_test(t, what_is_refused_breaks_nothing);
    tcase_add_test(t, a_fault_of_a_kernel_is_for_good);
    tcase_add_test(t, memory_outlives_its_maker);
    tcase_add_test(t, what_is_no_memory_is_not_imported);
    tcase_add_test(t, threads_have_lanes);
    t = suite_case(suite, "no_library", 0, NULL, NULL);
    tcase_add_test(t, each_result_has_a_code);
    tcase_add_test(t, binaries_are_no_longer_than_they_are);
    tcase_add_test(t, each_optional_function_has_its_absence);
    if (real_library())
        return run_suite(suite);
    t = suite_case(suite, "fake", 120, NULL, finish);
    tcase_add_test(t, the_fake_is_described_exactly);
    tcase_add_test(t, devices_reach_each_other);
    tcase_add_test(t, devices_need_not_reach_each_other);
    tcase_add_test(t, what_does_not_work_is_no_capability);
    tcase_add_loop_test(t, an_absent_function_is_an_absent_capability, 0, (int)ABSENCES);
    tcase_add_loop_test(t, without_a_needed_function_it_is_no_library, 0, (int)COUNT(needed));
    tcase_add_test(t, a_library_that_cannot_be_opened_says_why);
    tcase_add_test(t, without_nvml_health_is_not_known);
    tcase_add_loop_test(t, memory_that_fails_halfway_is_given_back, 0, (int)COUNT(steps));
    tcase_add_test(t, memory_without_descriptors_is_better_than_none);
    tcase_add_test(t, a_task_that_fails_later_is_told_at_the_sync);
    tcase_add_test(t, an_unknown_error_is_looked_into);
    tcase_add_test(t, a_gone_device_leaves_its_neighbour);
    tcase_add_test(t, the_fake_finds_memory_that_is_freed_too_early);
    tcase_add_test(t, the_fake_finds_copies_to_nowhere);
    tcase_add_test(t, the_fake_has_no_memory_at_its_addresses);
    return run_suite(suite);
}
