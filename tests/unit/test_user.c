/* daemon/user: what a uid may hold, by its exact edges. */
#include "daemon/core/user.h"

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
    for (int i = 0; i < RESOURCE_COUNT; i++)
        ck_assert_uint_eq(users.used[i], 0);
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

/* npud.conf was read again, with less in it. */
START_TEST(a_lower_limit_holds_for_what_is_above)
{
    struct charge all = {0}, more = {0};

    ck_assert_int_eq(charge_user(&all, RESOURCE_STREAMS, 10), 0);
    limit[RESOURCE_STREAMS] = 4;
    ck_assert_int_eq(charge_user(&more, RESOURCE_STREAMS, 1), -EDQUOT);
    ck_assert_int_eq(charge_user(&more, RESOURCE_STREAMS, UINT64_MAX - 5), -EDQUOT);
    user_uncharge(&all);
    ck_assert_int_eq(charge_user(&more, RESOURCE_STREAMS, 4), 0);
    user_uncharge(&more);
}
END_TEST

START_TEST(a_file_is_a_descriptor_and_a_mapping)
{
    struct charge c = {0}, other = {0};

    ck_assert_int_eq(user_charge_files(&c, user, 4), 0);
    ck_assert_uint_eq(user->used[RESOURCE_FDS], 4);
    ck_assert_uint_eq(user->used[RESOURCE_MAPPINGS], 4);
    limit[RESOURCE_FDS] = 5;
    ck_assert_int_eq(user_charge_files(&other, user, 2), -EDQUOT);
    limit[RESOURCE_FDS] = 10;
    limit[RESOURCE_MAPPINGS] = 5;
    ck_assert_int_eq(user_charge_files(&other, user, 2), -ENOSPC);
    ck_assert_ptr_null(other.user);
    ck_assert_uint_eq(user->used[RESOURCE_FDS], 4);
    ck_assert_uint_eq(user->used[RESOURCE_MAPPINGS], 4);
    user_uncharge(&c);
    user_uncharge(&c);
    ck_assert_uint_eq(user->used[RESOURCE_FDS], 0);
    ck_assert_uint_eq(user->used[RESOURCE_MAPPINGS], 0);
}
END_TEST

START_TEST(a_charge_grows_and_shrinks)
{
    struct charge c = {0};

    ck_assert_int_eq(user_charge_more(&c, user, RESOURCE_TABLE_MEMORY, 6), 0);
    ck_assert_int_eq(user_charge_more(&c, user, RESOURCE_TABLE_MEMORY, 5), -EDQUOT);
    ck_assert_int_eq(user_charge_more(&c, user, RESOURCE_TABLE_MEMORY, 4), 0);
    ck_assert_uint_eq(c.amount, 10);
    user_uncharge_part(&c, 7);
    ck_assert_uint_eq(user->used[RESOURCE_TABLE_MEMORY], 3);
    limit[RESOURCE_TABLE_MEMORY] = UINT64_MAX;
    ck_assert_int_eq(user_charge_more(&c, user, RESOURCE_TABLE_MEMORY, CHARGE_MAX - 3), 0);
    ck_assert_int_eq(user_charge_more(&c, user, RESOURCE_TABLE_MEMORY, 1), -EDQUOT);
    user_uncharge(&c);
    ck_assert_uint_eq(user->used[RESOURCE_TABLE_MEMORY], 0);
}
END_TEST

/* Takes one after the other until there is no more; returns how many. */
static uint32_t take_all(struct charge *c, struct user *who)
{
    uint32_t n = 0;

    while (user_charge_more(c, who, RESOURCE_MAPPINGS, 1) == 0)
        n++;
    return n;
}

/*
 * Each of n users that take all they can leaves one part in n + 1 to those that come later, in
 * whatever order they take.
 */
START_TEST(a_greedy_user_leaves_room_for_others)
{
    struct user *greedy[9];
    struct charge c[9] = {{0}}, mine = {0};
    uint32_t n, left = 500;

    limit[RESOURCE_MAPPINGS] = UINT64_MAX;
    users.total[RESOURCE_MAPPINGS] = 1000;
    n = take_all(&mine, user);
    ck_assert_uint_eq(n, 1000); /* alone, by itself */
    user_uncharge(&mine);
    users_divide(&users);
    n = take_all(&mine, user);
    ck_assert_uint_eq(n, 500);
    for (uint32_t i = 0; i < 9; i++) {
        greedy[i] = user_ref(&users, i);
        n = take_all(&c[i], greedy[i]);
        ck_assert_uint_eq(n, left / 2);
        left -= n;
    }
    /* What one gives back goes to all. */
    user_uncharge(&mine);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t i = 0; i < 9; i++) {
            if (c[i].amount > 0)
                user_uncharge_part(&c[i], c[i].amount / 2);
            take_all(&c[i], greedy[i]);
        }
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_uint_ge(c[i].amount, 50);
        ck_assert_uint_le(c[i].amount, 250);
    }
    n = take_all(&mine, user);
    ck_assert_uint_ge(n, 45);
    user_uncharge(&mine);
    for (uint32_t i = 0; i < 9; i++) {
        user_uncharge(&c[i]);
        user_unref(greedy[i]);
    }
    users.total[RESOURCE_MAPPINGS] = 0;
    users.divided = false;
}
END_TEST

/* One that has more than others leave it is refused; it loses nothing. */
START_TEST(a_user_above_its_share_is_refused)
{
    struct user *late = user_ref(&users, 7);
    struct charge mine = {0}, theirs = {0};

    limit[RESOURCE_MAPPINGS] = 80;
    users.total[RESOURCE_MAPPINGS] = 100;
    users_divide(&users);
    ck_assert_uint_eq(take_all(&mine, user), 50);
    ck_assert_uint_eq(take_all(&theirs, late), 25);
    ck_assert_uint_eq(user_limit(user, RESOURCE_MAPPINGS), 37);
    ck_assert_int_eq(user_charge_more(&mine, user, RESOURCE_MAPPINGS, 1), -EDQUOT);
    ck_assert_uint_eq(user->used[RESOURCE_MAPPINGS], 50);
    user_uncharge_part(&mine, 20);
    ck_assert_uint_eq(take_all(&theirs, late), 10);
    ck_assert_uint_eq(take_all(&mine, user), 2);
    user_uncharge(&theirs);
    user_uncharge(&mine);
    user_unref(late);
    users.total[RESOURCE_MAPPINGS] = 0;
    users.divided = false;
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
    tcase_add_test(t, a_lower_limit_holds_for_what_is_above);
    tcase_add_test(t, a_file_is_a_descriptor_and_a_mapping);
    tcase_add_test(t, a_charge_grows_and_shrinks);
    tcase_add_test(t, a_greedy_user_leaves_room_for_others);
    tcase_add_test(t, a_user_above_its_share_is_refused);
    tcase_add_test_raise_signal(t, last_reference_with_a_balance_is_a_bug, SIGABRT);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
