/* daemon/user: what a uid may hold, by its exact edges. */
#include "daemon/base/user.h"

#include <errno.h>
#include <signal.h>

#include "unit.h"

static uint64_t limit[RESOURCE_COUNT];
static struct users users = {.limit = limit};
static struct user *user;

static void ref_user(void)
{
    for (int i = 0; i < RESOURCE_COUNT; i++)
        limit[i] = 10;
    user = user_ref(&users, 1000);
    ck_assert_ptr_nonnull(user);
}

static void unref_user(void)
{
    user_unref(user);
    ck_assert_uint_eq(HASH_COUNT(users.by_uid), 0);
}

static int charge_user(struct charge *c, enum resource resource, uint64_t amount)
{
    int r = user_charge(c, user, resource, amount);

    if (r == 0) {
        ck_assert_ptr_eq(c->user, user);
        ck_assert_int_eq(c->resource, resource);
        ck_assert_uint_eq(c->amount, amount);
    }
    return r;
}

START_TEST(limit_is_exact)
{
    struct charge all = {0}, one = {0};

    ck_assert_int_eq(charge_user(&all, RESOURCE_STREAMS, 10), 0);
    ck_assert_uint_eq(user->used[RESOURCE_STREAMS], 10);
    ck_assert_int_eq(charge_user(&one, RESOURCE_STREAMS, 1), -EDQUOT);
    ck_assert_ptr_null(one.user);
    ck_assert_uint_eq(user->used[RESOURCE_STREAMS], 10);
    user_uncharge(&all);
    ck_assert_uint_eq(user->used[RESOURCE_STREAMS], 0);
    ck_assert_int_eq(charge_user(&all, RESOURCE_STREAMS, 11), -EDQUOT);
    ck_assert_uint_eq(user->used[RESOURCE_STREAMS], 0);
    ck_assert_int_eq(charge_user(&one, RESOURCE_STREAMS, 1), 0);
    ck_assert_int_eq(charge_user(&all, RESOURCE_STREAMS, 9), 0);
    user_uncharge(&all);
    user_uncharge(&one);
}
END_TEST

START_TEST(room_comes_back_with_each_release)
{
    struct charge c[11] = {0};

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(charge_user(&c[i], RESOURCE_EVENTS, 1), 0);
    ck_assert_int_eq(charge_user(&c[10], RESOURCE_EVENTS, 1), -EDQUOT);
    user_uncharge(&c[4]);
    ck_assert_int_eq(charge_user(&c[10], RESOURCE_EVENTS, 2), -EDQUOT);
    ck_assert_int_eq(charge_user(&c[10], RESOURCE_EVENTS, 1), 0);
    ck_assert_int_eq(charge_user(&c[4], RESOURCE_EVENTS, 1), -EDQUOT);
    for (int i = 0; i < 11; i++)
        user_uncharge(&c[i]);
    ck_assert_uint_eq(user->used[RESOURCE_EVENTS], 0);
}
END_TEST

START_TEST(amounts_do_not_overflow)
{
    static const uint64_t amounts[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 9, UINT64_MAX - 10,
                                       UINT64_C(1) << 63};
    struct charge some = {0}, c = {0};

    ck_assert_int_eq(charge_user(&some, RESOURCE_DEVICE_MEMORY, 9), 0);
    for (unsigned i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++) {
        ck_assert_int_eq(charge_user(&c, RESOURCE_DEVICE_MEMORY, amounts[i]), -EDQUOT);
        ck_assert_uint_eq(user->used[RESOURCE_DEVICE_MEMORY], 9);
    }
    user_uncharge(&some);
    limit[RESOURCE_DEVICE_MEMORY] = UINT64_MAX;
    ck_assert_int_eq(charge_user(&some, RESOURCE_DEVICE_MEMORY, CHARGE_MAX + 1), -EDQUOT);
    ck_assert_int_eq(charge_user(&some, RESOURCE_DEVICE_MEMORY, CHARGE_MAX), 0);
    ck_assert_int_eq(charge_user(&c, RESOURCE_DEVICE_MEMORY, UINT64_MAX), -EDQUOT);
    ck_assert_int_eq(charge_user(&c, RESOURCE_DEVICE_MEMORY, UINT64_MAX - CHARGE_MAX), -EDQUOT);
    ck_assert_uint_eq(user->used[RESOURCE_DEVICE_MEMORY], CHARGE_MAX);
    limit[RESOURCE_DEVICE_MEMORY] = CHARGE_MAX;
    ck_assert_int_eq(charge_user(&c, RESOURCE_DEVICE_MEMORY, 1), -EDQUOT);
    user_uncharge(&some);
}
END_TEST

START_TEST(zero_is_always_allowed)
{
    struct charge all = {0}, none = {0};

    ck_assert_int_eq(charge_user(&all, RESOURCE_FDS, 10), 0);
    ck_assert_int_eq(charge_user(&none, RESOURCE_FDS, 0), 0);
    ck_assert_uint_eq(user->used[RESOURCE_FDS], 10);
    user_uncharge(&none);
    ck_assert_uint_eq(user->used[RESOURCE_FDS], 10);
    user_uncharge(&all);
    limit[RESOURCE_FDS] = 0;
    ck_assert_int_eq(charge_user(&none, RESOURCE_FDS, 0), 0);
    ck_assert_int_eq(charge_user(&all, RESOURCE_FDS, 1), -EDQUOT);
    user_uncharge(&none);
}
END_TEST

START_TEST(release_is_safe_to_repeat)
{
    struct charge c = {0}, other = {0};

    user_uncharge(&c);
    ck_assert_int_eq(charge_user(&other, RESOURCE_SESSIONS, 3), 0);
    ck_assert_int_eq(charge_user(&c, RESOURCE_SESSIONS, 3), 0);
    user_uncharge(&c);
    user_uncharge(&c);
    ck_assert_uint_eq(user->used[RESOURCE_SESSIONS], 3);
    user_uncharge(&other);
}
END_TEST

START_TEST(resources_are_counted_apart)
{
    struct charge c[RESOURCE_COUNT] = {0};

    for (int i = 0; i < RESOURCE_COUNT; i++) {
        limit[i] = (uint64_t)i + 1;
        ck_assert_int_eq(charge_user(&c[i], (enum resource)i, limit[i] + 1), -EDQUOT);
        ck_assert_int_eq(charge_user(&c[i], (enum resource)i, limit[i]), 0);
    }
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        ck_assert_uint_eq(user->used[i], limit[i]);
        ck_assert_ptr_nonnull(resource_names[i]);
        user_uncharge(&c[i]);
        ck_assert_uint_eq(user->used[i], 0);
    }
}
END_TEST

START_TEST(uids_are_counted_apart)
{
    struct user *root = user_ref(&users, 0), *nobody = user_ref(&users, (uid_t)-2);
    struct charge mine = {0}, roots = {0}, nobodys = {0};

    ck_assert_ptr_ne(root, user);
    ck_assert_ptr_ne(nobody, user);
    ck_assert_ptr_ne(nobody, root);
    ck_assert_uint_eq(root->uid, 0);
    ck_assert_int_eq(charge_user(&mine, RESOURCE_STREAMS, 10), 0);
    ck_assert_int_eq(user_charge(&roots, root, RESOURCE_STREAMS, 10), 0);
    ck_assert_int_eq(user_charge(&nobodys, nobody, RESOURCE_STREAMS, 11), -EDQUOT);
    ck_assert_int_eq(user_charge(&nobodys, nobody, RESOURCE_STREAMS, 4), 0);
    user_uncharge(&mine);
    ck_assert_uint_eq(root->used[RESOURCE_STREAMS], 10);
    ck_assert_uint_eq(nobody->used[RESOURCE_STREAMS], 4);
    user_uncharge(&roots);
    user_uncharge(&nobodys);
    user_unref(root);
    user_unref(nobody);
    ck_assert_uint_eq(HASH_COUNT(users.by_uid), 1);
}
END_TEST

START_TEST(one_user_per_uid_until_the_last_reference)
{
    struct user *again = user_ref(&users, 1000);
    struct charge c = {0};

    ck_assert_ptr_eq(again, user);
    ck_assert_int_eq(charge_user(&c, RESOURCE_EVENTS, 5), 0);
    user_unref(again);
    ck_assert_ptr_eq(user_ref(&users, 1000), user);
    ck_assert_uint_eq(user->used[RESOURCE_EVENTS], 5);
    user_unref(user);
    user_uncharge(&c);
    user_unref(NULL);
    ck_assert_uint_eq(HASH_COUNT(users.by_uid), 1);
}
END_TEST

START_TEST(last_reference_with_a_balance_is_a_bug)
{
    struct charge c = {0};

    ck_assert_int_eq(charge_user(&c, RESOURCE_EVENTS, 1), 0);
    user_unref(user);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("user");
    TCase *t = suite_case(s, "charges", 0, ref_user, unref_user);

    tcase_add_test(t, limit_is_exact);
    tcase_add_test(t, room_comes_back_with_each_release);
    tcase_add_test(t, amounts_do_not_overflow);
    tcase_add_test(t, zero_is_always_allowed);
    tcase_add_test(t, release_is_safe_to_repeat);
    tcase_add_test(t, resources_are_counted_apart);
    tcase_add_test(t, uids_are_counted_apart);
    tcase_add_test(t, one_user_per_uid_until_the_last_reference);
    tcase_add_test_raise_signal(t, last_reference_with_a_balance_is_a_bug, SIGABRT);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
