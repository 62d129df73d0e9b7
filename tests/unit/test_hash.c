/* daemon/base/hash: the hash of npud's tables, whose key is each npud's own. */
#include "daemon/base/hash.h"

#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#define KEYS 64

/* From the paper: the key 00 01 .. 0f, and messages of the same bytes. */
START_TEST(siphash_is_the_known_one)
{
    uint8_t bytes[16];
    uint64_t k[2];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    k[0] = UINT64_C(0x0706050403020100);
    k[1] = UINT64_C(0x0f0e0d0c0b0a0908);
    ck_assert_uint_eq(hash_siphash(k, bytes, 0), UINT64_C(0x726fdb47dd0e0e31));
    ck_assert_uint_eq(hash_siphash(k, bytes, 15), UINT64_C(0xa129ca6149be45e5));
}
END_TEST

static void hash_in_child(unsigned hashes[KEYS])
{
    int fd[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        for (uint32_t i = 0; i < KEYS; i++)
            hashes[i] = hash_key(&i, sizeof(i));
        _exit(write(fd[1], hashes, KEYS * sizeof(*hashes)) < 0);
    }
    ck_assert_int_eq(read(fd[0], hashes, KEYS * sizeof(*hashes)), KEYS * sizeof(*hashes));
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* That all are equal by chance does not happen. */
START_TEST(each_npud_has_a_key_of_its_own)
{
    unsigned one[KEYS], other[KEYS], again = 0;

    hash_in_child(one);
    hash_in_child(other);
    for (unsigned i = 0; i < KEYS; i++)
        again += one[i] == other[i];
    ck_assert_uint_lt(again, KEYS / 2);
}
END_TEST

struct element {
    uint32_t id;
    UT_hash_handle hh;
};

START_TEST(tables_use_it)
{
    static struct element elements[KEYS];
    struct element *table = NULL, *found;

    for (uint32_t i = 0; i < KEYS; i++) {
        elements[i].id = i;
        HASH_ADD(hh, table, id, sizeof(elements[i].id), &elements[i]);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        HASH_FIND(hh, table, &i, sizeof(i), found);
        ck_assert_ptr_eq(found, &elements[i]);
        ck_assert_uint_eq(found->hh.hashv, hash_key(&i, sizeof(i)));
    }
    HASH_CLEAR(hh, table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *t = suite_case(suite, "keyed", 0, NULL, NULL);

    tcase_add_test(t, siphash_is_the_known_one);
    tcase_add_test(t, each_npud_has_a_key_of_its_own);
    tcase_add_test(t, tables_use_it);
    return run_suite(suite);
}
