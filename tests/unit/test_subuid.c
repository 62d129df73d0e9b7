/* daemon/base/subuid and user: what subordinate uids hold counts for their owner. */
#include "daemon/base/subuid.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/core/user.h"
#include "unit.h"

static struct subuids subuids;
static uint64_t limit[RESOURCE_COUNT];
static struct users users = {.limit = limit, .subuids = &subuids};

static void read_text(const char *text)
{
    int fd = memfd_create("subuid", 0);
    char path[64];

    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    log_setup(LOG_CRIT);
    subuids_read(&subuids, path);
    close(fd);
}

static void forget_text(void)
{
    subuids_deinit(&subuids);
    ck_assert_uint_eq(HASH_COUNT(users.by_uid), 0);
}

START_TEST(a_range_is_exact)
{
    read_text("1000:100000:65536\n"
              "# a comment\n"
              "\n"
              "1001:165536:10\n"
              "root:4294967295:1\n");
    ck_assert_uint_eq(subuids_owner(&subuids, 99999), 99999);
    ck_assert_uint_eq(subuids_owner(&subuids, 100000), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 165535), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 165536), 1001);
    ck_assert_uint_eq(subuids_owner(&subuids, 165545), 1001);
    ck_assert_uint_eq(subuids_owner(&subuids, 165546), 165546);
    ck_assert_uint_eq(subuids_owner(&subuids, UINT32_MAX), 0);
    ck_assert_uint_eq(subuids_owner(&subuids, 1000), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 0), 0);
}
END_TEST

START_TEST(lines_that_are_wrong_are_left_out)
{
    read_text("1000:100000\n"
              "1000\n"
              ":100000:1\n"
              "1000:-1:10\n"
              "1000:1x:10\n"
              "1000:4294967295:2\n"
              "1000:99999999999999999999:1\n"
              "no such user here:300000:5\n"
              "1002:200000:0\n"
              "1003:200000:5");
    for (uid_t uid = 0; uid < 110000; uid += 500)
        ck_assert_uint_eq(subuids_owner(&subuids, uid), uid);
    ck_assert_uint_eq(subuids_owner(&subuids, UINT32_MAX), UINT32_MAX);
    ck_assert_uint_eq(subuids_owner(&subuids, 300000), 300000);
    ck_assert_uint_eq(subuids_owner(&subuids, 200004), 1003);
}
END_TEST

START_TEST(of_ranges_that_overlap_the_first_counts)
{
    read_text("1001:150:100\n"
              "1000:100:100\n"
              "1002:120:10\n");
    ck_assert_uint_eq(subuids_owner(&subuids, 100), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 125), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 199), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 200), 1001);
    ck_assert_uint_eq(subuids_owner(&subuids, 249), 1001);
    ck_assert_uint_eq(subuids_owner(&subuids, 250), 250);
}
END_TEST

START_TEST(owners_of_owners)
{
    read_text("1000:2000:10\n"
              "2005:3000:10\n"
              "5000:6000:1\n"
              "6000:5000:1\n");
    ck_assert_uint_eq(subuids_owner(&subuids, 3001), 1000);
    ck_assert_uint_eq(subuids_owner(&subuids, 5000), 5000);
    ck_assert_uint_eq(subuids_owner(&subuids, 6000), 6000);
}
END_TEST

START_TEST(no_file_is_no_range)
{
    subuids_read(&subuids, "/proc/self/no such file");
    ck_assert_uint_eq(subuids.n, 0);
    subuids_read(&subuids, "");
    ck_assert_uint_eq(subuids_owner(&subuids, 7), 7);
}
END_TEST

START_TEST(what_they_hold_counts_for_their_owner)
{
    struct charge a = {0}, b = {0}, c = {0}, files = {0};
    struct user *owner, *one, *two;

    read_text("1000:100000:65536\n");
    for (int i = 0; i < RESOURCE_COUNT; i++)
        limit[i] = 10;
    one = user_ref(&users, 100000);
    two = user_ref(&users, 100001);
    owner = user_ref(&users, 1000);
    ck_assert_ptr_ne(one, two); /* names are each their own */
    ck_assert_ptr_eq(user_find(&users, 100000), one);
    ck_assert_ptr_eq(one->payer, owner);
    ck_assert_ptr_eq(owner->payer, owner);
    ck_assert_int_eq(user_charge(&a, one, RESOURCE_STREAMS, 6), 0);
    ck_assert_int_eq(user_charge(&b, two, RESOURCE_STREAMS, 5), -EDQUOT);
    ck_assert_int_eq(user_charge(&b, two, RESOURCE_STREAMS, 3), 0);
    ck_assert_int_eq(user_charge(&c, owner, RESOURCE_STREAMS, 2), -EDQUOT);
    ck_assert_uint_eq(user_used(one, RESOURCE_STREAMS), 9);
    ck_assert_uint_eq(owner->used[RESOURCE_STREAMS], 9);
    ck_assert_int_eq(user_charge_files(&files, two, 3), 0);
    ck_assert_uint_eq(owner->used[RESOURCE_FDS], 3);
    ck_assert_uint_eq(owner->used[RESOURCE_MAPPINGS], 3);
    user_uncharge(&files);
    user_uncharge(&a);
    user_uncharge(&b);
    ck_assert_uint_eq(owner->used[RESOURCE_STREAMS], 0);
    user_unref(owner);
    user_unref(two);
    ck_assert_ptr_eq(user_find(&users, 1000), owner); /* held by the other one */
    user_unref(one);
}
END_TEST

/* Those that are there keep their payer; what was charged is given back where it was. */
START_TEST(a_new_file_counts_for_those_that_come)
{
    struct charge a = {0}, b = {0};
    struct user *before, *after;

    read_text("");
    for (int i = 0; i < RESOURCE_COUNT; i++)
        limit[i] = 10;
    before = user_ref(&users, 100000);
    ck_assert_int_eq(user_charge(&a, before, RESOURCE_STREAMS, 10), 0);
    subuids_deinit(&subuids);
    read_text("100000:200000:10\n1000:100000:10\n");
    after = user_ref(&users, 200001);
    ck_assert_ptr_eq(after->payer, user_find(&users, 1000));
    ck_assert_int_eq(user_charge(&b, after, RESOURCE_STREAMS, 10), 0);
    user_uncharge(&b);
    user_unref(after);
    ck_assert_ptr_eq(user_ref(&users, 100000)->payer, before);
    user_unref(before);
    user_uncharge(&a);
    user_unref(before);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("subuid");
    TCase *t = suite_case(s, "ranges", 0, NULL, forget_text);

    tcase_add_test(t, a_range_is_exact);
    tcase_add_test(t, lines_that_are_wrong_are_left_out);
    tcase_add_test(t, of_ranges_that_overlap_the_first_counts);
    tcase_add_test(t, owners_of_owners);
    tcase_add_test(t, no_file_is_no_range);
    tcase_add_test(t, what_they_hold_counts_for_their_owner);
    tcase_add_test(t, a_new_file_counts_for_those_that_come);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
