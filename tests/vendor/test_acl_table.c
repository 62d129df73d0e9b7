/*
 * The table of the vendor's library (daemon/executor/acl.c) over npud's own, whose devices are
 * strict: what an executor does with a real one.
 */
#include <dlfcn.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/executor/vendor.h"
#include "proto/util/reduce.h"
#include "tests/common/harness.h"

#define V       (&vendor_acl)
#define MIB     (UINT64_C(1) << 20)
#define DONE(c) ck_assert_msg((c) == 0, "%s: %s", #c, vendor_text())

static struct vendor_library *library;
static struct vendor_lane *lane;
static struct vendor_memory memory, other;

/* What the test program is linked with; another handle of it would be the same library. */
static const char *library_path(void)
{
    Dl_info info;

    ck_assert_int_ne(dladdr((void *)aclInit, &info), 0);
    return info.dli_fname;
}

static void open_library(void)
{
    char why[256] = "";

    ck_assert_msg(V->open(library_path(), true, &library, why, sizeof(why)) == 0, "%s", why);
    DONE(V->device_begin(library, 0));
    DONE(V->thread_begin(library, 0));
    DONE(V->lane_new(library, 0, &lane));
}

static void set_up(void)
{
    npud_start((const char *const[]){"--set=sim.strict=yes", NULL});
}

static void set_up_open(void)
{
    set_up();
    open_library();
    DONE(V->memory_new(library, 0, 5000, &memory));
    DONE(V->memory_new(library, 0, MIB, &other));
}

static void tear_down(void)
{
    if (lane)
        V->lane_free(lane);
    V->memory_free(library, &memory);
    V->memory_free(library, &other);
    DONE(V->device_end(library, 0));
    V->close(library);
    npud_teardown();
}

static void write_device(uint64_t address, const void *bytes, uint64_t size)
{
    DONE(V->copy(lane, address, (uintptr_t)bytes, size, VENDOR_TO_DEVICE));
    DONE(V->lane_sync(&lane));
}

static void expect_device(uint64_t address, const void *bytes, uint64_t size)
{
    char found[4096];

    ck_assert_uint_le(size, sizeof(found));
    DONE(V->copy(lane, (uintptr_t)found, address, size, VENDOR_TO_HOST));
    DONE(V->lane_sync(&lane));
    ck_assert_mem_eq(found, bytes, size);
}

/* --- open --- */

START_TEST(a_library_of_npud_needs_leave)
{
    char why[256] = "";
    struct vendor_library *none;

    ck_assert_int_ne(V->open(library_path(), false, &none, why, sizeof(why)), 0);
    ck_assert_ptr_nonnull(strstr(why, "npud's own library"));
    ck_assert_ptr_null(none);
    ck_assert_int_ne(V->open("libacl.so", true, &none, why, sizeof(why)), 0);
    ck_assert_ptr_nonnull(strstr(why, "give the path"));
    ck_assert_int_ne(V->open("/nowhere/libacl.so", true, &none, why, sizeof(why)), 0);
    ck_assert_ptr_nonnull(strstr(why, "No such file"));
}
END_TEST

START_TEST(a_device_says_what_it_is)
{
    struct executor_device_info info;
    struct executor_health health;
    const char *absent;
    unsigned known;
    uint32_t n;

    ck_assert_uint_eq(V->symbols(library, &known, &absent), known);
    ck_assert_str_eq(absent, "");
    DONE(V->device_count(library, &n));
    ck_assert_uint_eq(n, 2);
    DONE(V->device_info(library, 0, &info));
    ck_assert_str_eq(info.name, aclrtGetSocName());
    ck_assert_uint_gt(info.memory, 0);
    ck_assert_uint_eq(info.granularity, 2 * MIB);
    ck_assert_uint_eq(info.capabilities,
                      EXECUTOR_CAN_SHARE | EXECUTOR_CAN_REGISTER | EXECUTOR_CAN_SET |
                          EXECUTOR_CAN_REDUCE | EXECUTOR_CAN_WORD | EXECUTOR_CAN_ABORT |
                          EXECUTOR_CAN_KERNEL | EXECUTOR_CAN_PEER | EXECUTOR_CAN_HEALTH);
    DONE(V->health(library, 0, &health));
    ck_assert_int_eq(health.temperature, INT32_MIN);
    ck_assert_int_eq(V->device_begin(library, 99), ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_eq(V->thread_begin(library, 99), ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_eq(V->gone(library, 0), 0);
}
END_TEST

/* --- work --- */

START_TEST(work_is_done_in_order)
{
    const uint64_t word = UINT64_C(0x0102030405060708);
    unsigned char bytes[200];

    ck_assert_uint_eq(memory.size, 2 * MIB);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(7 * i);
    write_device(other.address, bytes, sizeof(bytes));
    DONE(V->copy(lane, memory.address, other.address, sizeof(bytes), VENDOR_ON_DEVICE));
    DONE(V->set(lane, memory.address + 8, 0x5a, 100));
    DONE(V->word_write(lane, memory.address, word));
    memcpy(bytes, &word, sizeof(word));
    memset(bytes + 8, 0x5a, 100);
    expect_device(memory.address, bytes, sizeof(bytes));
    DONE(V->word_wait(lane, memory.address, word));
    DONE(V->lane_sync(&lane));
}
END_TEST

START_TEST(reductions_are_those_of_the_library)
{
    const float a[3] = {1, 5, -2}, b[3] = {4, 2, -3}, sum[3] = {5, 7, -5}, most[3] = {4, 5, -2};

    write_device(memory.address, a, sizeof(a));
    write_device(other.address, b, sizeof(b));
    DONE(V->reduce(lane, memory.address, other.address, sizeof(a), REDUCE_SUM, ACL_FLOAT));
    expect_device(memory.address, sum, sizeof(sum));
    write_device(memory.address, a, sizeof(a));
    DONE(V->reduce(lane, memory.address, other.address, sizeof(a), REDUCE_MAX, ACL_FLOAT));
    expect_device(memory.address, most, sizeof(most));
    ck_assert_int_ne(V->reduce(lane, memory.address, other.address, 4, 99, ACL_FLOAT), 0);
    ck_assert_ptr_nonnull(strstr(vendor_text(), "kind is 99"));
}
END_TEST

START_TEST(pages_of_the_host_are_seen)
{
    const int fd = memfd_create("pages", MFD_CLOEXEC);
    char *pages, *again;
    uint64_t address;

    ck_assert_int_eq(ftruncate(fd, MIB), 0);
    pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    again = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    DONE(V->host_attach(library, pages, MIB));
    ck_assert_int_ne(V->host_attach(library, pages, MIB), 0);
    strcpy(again + 4096, "a client's");
    DONE(V->copy(lane, memory.address, (uintptr_t)pages + 4096, 16, VENDOR_TO_DEVICE));
    expect_device(memory.address, again + 4096, 16);
    DONE(V->host_address(library, pages, &address));
    DONE(V->word_write(lane, address, 77));
    DONE(V->lane_sync(&lane));
    ck_assert_uint_eq(*(uint64_t *)(void *)again, 77);
    V->host_detach(library, pages);
    DONE(V->host_attach(library, pages, MIB));
    V->host_detach(library, pages);
}
END_TEST

static void note_call(void *arg)
{
    sem_post(arg);
}

START_TEST(lanes_call)
{
    struct vendor_lane *second;
    sem_t called;

    sem_init(&called, 0, 0);
    DONE(V->lane_new(library, 0, &second));
    for (int i = 0; i < 20; i++) {
        DONE(V->lane_call(i % 2 ? second : lane, note_call, &called));
        sem_wait(&called);
    }
    V->lane_free(second);
    DONE(V->lane_call(lane, note_call, &called));
    sem_wait(&called);
}
END_TEST

/* --- failures --- */

static void fail_next(const char *kind, int32_t code)
{
    char arguments[128];
    int status;

    snprintf(arguments, sizeof(arguments), "inject fail --kind %s --count 1 --code %d", kind,
             (int)code);
    free(npuctl(arguments, &status));
    ck_assert_int_eq(status, 0);
}

START_TEST(a_lane_goes_on_after_an_error)
{
    const char zero[16] = "", set[16] = "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1";
    struct vendor_lane *const before = lane;

    write_device(memory.address, zero, sizeof(zero));
    fail_next("copy", 507013);
    DONE(V->copy(lane, other.address, memory.address, 16, VENDOR_ON_DEVICE));
    DONE(V->set(lane, memory.address, 1, 16));
    ck_assert_int_eq(V->lane_sync(&lane), 507013);
    ck_assert_ptr_nonnull(strstr(vendor_text(), "507013"));
    ck_assert_ptr_eq(lane, before);
    DONE(V->lane_sync(&lane));
    expect_device(memory.address, set, sizeof(set));
}
END_TEST

START_TEST(a_stop_lane_runs_nothing_behind_an_error)
{
    const char zero[24] = "";
    struct vendor_lane *stop;

    write_device(memory.address, zero, sizeof(zero));
    DONE(V->lane_new(library, 0, &stop));
    DONE(V->lane_stop(stop));
    DONE(V->lane_stop(stop));
    DONE(V->set(stop, other.address, 1, 16));
    DONE(V->lane_sync(&stop));
    fail_next("copy", 507013);
    DONE(V->word_wait(stop, memory.address + 16, 1));
    DONE(V->copy(stop, other.address, memory.address, 16, VENDOR_ON_DEVICE));
    DONE(V->set(stop, memory.address, 1, 16));
    DONE(V->word_write(lane, memory.address + 16, 1));
    ck_assert_int_eq(V->lane_sync(&stop), 507013);
    ck_assert_ptr_null(stop);
    /* Other lanes, and the thread, are as before. */
    expect_device(memory.address, zero, 16);
    DONE(V->lane_new(library, 0, &stop));
    V->lane_free(stop);
    ck_assert_int_eq(V->gone(library, 0), 0);
}
END_TEST

START_TEST(a_lane_goes_on_after_an_abort)
{
    const uint64_t zero = 0, one = 1;

    write_device(memory.address, &zero, sizeof(zero));
    DONE(V->word_wait(lane, memory.address, 1));
    DONE(V->set(lane, memory.address + 8, 1, 8));
    DONE(V->lane_abort(lane));
    DONE(V->lane_sync(&lane));
    DONE(V->word_write(lane, memory.address, 1));
    expect_device(memory.address, &one, sizeof(one));
}
END_TEST

START_TEST(a_lost_device_is_gone)
{
    int status;

    free(npuctl("inject lose-device --device 0", &status));
    ck_assert_int_eq(status, 0);
    V->set(lane, memory.address, 1, 16);
    ck_assert_int_eq(V->lane_sync(&lane), ACL_ERROR_RT_LOST_HEARTBEAT);
    ck_assert_ptr_null(lane);
    ck_assert_int_eq(V->gone(library, 0), ACL_ERROR_RT_LOST_HEARTBEAT);
    free(npuctl("inject clear", &status));
}
END_TEST

/* --- sharing --- */

struct share {
    struct vendor_token token;
    uint64_t size;
    pid_t importer;
};
static struct share *share;

static int import_shared(void *arg)
{
    struct vendor_memory imported;

    (void)arg;
    open_library();
    share->importer = getpid();
    turn_tell(&to_parent);
    turn_await(&to_child);
    DONE(V->memory_import(library, 0, share->size, &share->token, &imported));
    ck_assert(imported.imported);
    expect_device(imported.address, "exporter", 9);
    write_device(imported.address, "importer", 9);
    turn_tell(&to_parent);
    turn_await(&to_child);
    /* The exporter has given it back. */
    expect_device(imported.address, "importer", 9);
    ck_assert_int_ne(V->memory_export(library, &imported, &share->token), 0);
    V->memory_free(library, &imported);
    V->lane_free(lane);
    DONE(V->device_end(library, 0));
    V->close(library);
    return 0;
}

START_TEST(memory_is_shared_by_a_token)
{
    struct vendor_token token;
    pid_t child;

    share = child_share(sizeof(*share));
    turns_init();
    child = child_start(import_shared, NULL);
    open_library();
    DONE(V->memory_new(library, 0, 4096, &memory));
    DONE(V->memory_new(library, 0, 4096, &other));
    write_device(memory.address, "exporter", 9);
    ck_assert_int_ne(V->memory_allow(library, &other, &token, 1), 0);
    DONE(V->memory_export(library, &memory, &share->token));
    DONE(V->memory_export(library, &memory, &token));
    ck_assert_mem_eq(token.bytes, share->token.bytes, sizeof(token.bytes));
    ck_assert_int_eq(token.fd, -1);
    turn_await(&to_parent);
    DONE(V->memory_allow(library, &memory, &token, share->importer));
    share->size = memory.size;
    turn_tell(&to_child);
    turn_await(&to_parent);
    expect_device(memory.address, "importer", 9);
    V->memory_free(library, &memory);
    DONE(V->memory_new(library, 0, 4096, &memory));
    turn_tell(&to_child);
    child_expect_ok(child);
}
END_TEST

static void add_tests(Suite *s)
{
    TCase *t = suite_case(s, "open", 60, set_up, npud_teardown);

    tcase_add_test(t, a_library_of_npud_needs_leave);
    t = suite_case(s, "share", 60, set_up, tear_down);
    tcase_add_test(t, memory_is_shared_by_a_token);
    t = suite_case(s, "work", 60, set_up_open, tear_down);
    tcase_add_test(t, a_device_says_what_it_is);
    tcase_add_test(t, work_is_done_in_order);
    tcase_add_test(t, reductions_are_those_of_the_library);
    tcase_add_test(t, pages_of_the_host_are_seen);
    tcase_add_test(t, lanes_call);
    t = suite_case(s, "failures", 60, set_up_open, tear_down);
    tcase_add_test(t, a_lane_goes_on_after_an_error);
    tcase_add_test(t, a_stop_lane_runs_nothing_behind_an_error);
    tcase_add_test(t, a_lane_goes_on_after_an_abort);
    tcase_add_test(t, a_lost_device_is_gone);
}

int main(void)
{
    Suite *s = suite_create("acl_table");

    add_tests(s);
    return run_suite(s);
}
