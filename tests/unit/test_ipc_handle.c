/* proto/ipc_handle: a damaged handle is recognised as such. */
#include "proto/wire/ipc_handle.h"

#include <string.h>

#include "unit.h"

static struct ipc_handle make_handle(uint64_t seed)
{
    struct ipc_handle h = {
        .magic = IPC_HANDLE_MAGIC,
        .version = IPC_HANDLE_VERSION,
        .kind = IPC_HANDLE_EVENT,
        .device = random_below(&seed, 16),
        .object = random_next(&seed),
        .instance = random_next(&seed),
    };

    for (unsigned i = 0; i < sizeof(h.secret); i++)
        h.secret[i] = (uint8_t)random_next(&seed);
    h.check = ipc_handle_check(&h);
    return h;
}

START_TEST(genuine_is_valid)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct ipc_handle h = make_handle(seed), copy;

        ck_assert(ipc_handle_valid(&h, IPC_HANDLE_EVENT));
        memcpy(&copy, &h, sizeof(h));
        ck_assert(ipc_handle_valid(&copy, IPC_HANDLE_EVENT));
    }
}
END_TEST

START_TEST(every_single_bit_counts)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ipc_handle h = make_handle(seed);
        uint8_t *bytes = (uint8_t *)&h;

        for (unsigned bit = 0; bit < 8 * sizeof(h); bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        ck_assert(ipc_handle_valid(&h, IPC_HANDLE_EVENT));
    }
}
END_TEST

START_TEST(every_value_of_every_byte_counts)
{
    struct ipc_handle h = make_handle(42);
    uint8_t *bytes = (uint8_t *)&h;

    for (unsigned i = 0; i < sizeof(h); i++) {
        uint8_t right = bytes[i];

        for (unsigned value = 0; value < 256; value++) {
            bytes[i] = (uint8_t)value;
            CHECK(ipc_handle_valid(&h, IPC_HANDLE_EVENT) == (value == right));
        }
        bytes[i] = right;
    }
}
END_TEST

/* A program that keeps half of the handle, or fills a buffer with something else. */
START_TEST(common_mistakes)
{
    struct ipc_handle h;

    memset(&h, 0, sizeof(h));
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
    memset(&h, 0xff, sizeof(h));
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
    h = make_handle(1);
    memset((uint8_t *)&h + 32, 0, 32);
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
    h = make_handle(1);
    memmove(&h, (uint8_t *)&h + 1, sizeof(h) - 1);
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
}
END_TEST

/* Consistent in itself, but not what is asked for. */
START_TEST(other_kinds_and_versions)
{
    struct ipc_handle h = make_handle(1);

    ck_assert(!ipc_handle_valid(&h, (enum ipc_handle_kind)2));
    ck_assert(!ipc_handle_valid(&h, (enum ipc_handle_kind)0));
    h.version++;
    h.check = ipc_handle_check(&h);
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
    h = make_handle(1);
    h.magic++;
    h.check = ipc_handle_check(&h);
    ck_assert(!ipc_handle_valid(&h, IPC_HANDLE_EVENT));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ipc_handle");
    TCase *t = suite_case(s, "check", 0, NULL, NULL);

    tcase_add_test(t, genuine_is_valid);
    tcase_add_test(t, every_single_bit_counts);
    tcase_add_test(t, every_value_of_every_byte_counts);
    tcase_add_test(t, common_mistakes);
    tcase_add_test(t, other_kinds_and_versions);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
