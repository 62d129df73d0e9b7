/* Callbacks that stay registered (client/callback/callback_table.h): which run, in which order. */
#include "client/callback/callback_table.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"

#include "unit.h"

/* What client/callback/callback_table.c needs of the rest of the library. */
int error_store(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int error_no_memory(const char *function)
{
    (void)function;
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
}

static struct callback_table by_name = CALLBACK_TABLE(CALLBACK_BY_NAME);
static struct callback_table sorted = CALLBACK_TABLE(CALLBACK_SORTED);
static struct callback_table by_function = CALLBACK_TABLE(CALLBACK_BY_FUNCTION);

static void first_function(void)
{
}

static void second_function(void)
{
}

/* args is the name, so that a step tells whose it is. */
static void add_entry(struct callback_table *t, const char *name)
{
    ck_assert_int_eq(callback_table_set(t, "", name, first_function, (void *)(uintptr_t)name), 0);
}

static void remove_entry(struct callback_table *t, const char *name)
{
    ck_assert_int_eq(callback_table_set(t, "", name, NULL, NULL), 0);
}

/* The next step is that of this name; NULL: there is none. */
static void expect_step(struct callback_walk *walk, const char *name)
{
    struct callback_entry e;
    bool found = callback_walk_next(walk, &e);

    ck_assert_int_eq(found, name != NULL);
    if (name)
        ck_assert_str_eq(e.args, name);
}

static void expect_copy(struct callback_table *t, const char *names)
{
    char text[16] = "";
    struct callback_entry *copy;
    size_t n;

    copy = callback_table_copy(t, &n);
    ck_assert_ptr_nonnull(copy);
    for (size_t i = 0; i < n; i++)
        strcat(text, copy[i].args);
    free(copy);
    ck_assert_str_eq(text, names);
}

static void add_three(void)
{
    callback_table_forget(&by_name);
    add_entry(&by_name, "b");
    add_entry(&by_name, "c");
    add_entry(&by_name, "a");
}

START_TEST(a_walk_has_the_order_of_registration)
{
    struct callback_walk walk;

    add_three();
    walk = callback_walk_begin(&by_name);
    expect_step(&walk, "b");
    expect_step(&walk, "c");
    expect_step(&walk, "a");
    expect_step(&walk, NULL);
}
END_TEST

START_TEST(what_is_added_during_a_walk_is_not_called)
{
    struct callback_walk walk;

    add_three();
    walk = callback_walk_begin(&by_name);
    expect_step(&walk, "b");
    add_entry(&by_name, "d");
    remove_entry(&by_name, "b"); /* also if it is registered anew */
    add_entry(&by_name, "b");
    expect_step(&walk, "c");
    expect_step(&walk, "a");
    expect_step(&walk, NULL);
    expect_step(&walk, NULL);
}
END_TEST

START_TEST(what_is_removed_during_a_walk_is_not_called)
{
    struct callback_walk walk;

    add_three();
    walk = callback_walk_begin(&by_name);
    expect_step(&walk, "b");
    remove_entry(&by_name, "b");
    remove_entry(&by_name, "c");
    expect_step(&walk, "a");
    remove_entry(&by_name, "a");
    expect_step(&walk, NULL);
}
END_TEST

START_TEST(an_empty_table_is_walked)
{
    struct callback_walk walk;

    callback_table_forget(&by_name);
    walk = callback_walk_begin(&by_name);
    add_entry(&by_name, "a");
    expect_step(&walk, NULL);
}
END_TEST

/* A child that is forked in a callback has nothing registered, and begins anew. */
START_TEST(a_walk_ends_when_the_table_is_forgotten)
{
    static struct callback_table forgotten; /* the parent's, which nobody frees: no leak of ours */
    struct callback_walk walk;

    add_three();
    walk = callback_walk_begin(&by_name);
    expect_step(&walk, "b");
    forgotten = by_name;
    ck_assert_ptr_nonnull(forgotten.list);
    callback_table_forget(&by_name);
    expect_step(&walk, NULL);
    ck_assert(!callback_table_has(&by_name, "c", NULL));
    add_entry(&by_name, "c");
    walk = callback_walk_begin(&by_name);
    expect_step(&walk, "c");
    expect_step(&walk, NULL);
}
END_TEST

START_TEST(a_name_is_registered_once)
{
    add_three();
    ck_assert_int_eq(callback_table_set(&by_name, "", "c", second_function, NULL),
                     ACL_ERROR_RT_PARAM_INVALID);
    ck_assert(callback_table_has(&by_name, "c", NULL));
    remove_entry(&by_name, "c");
    remove_entry(&by_name, "c");
    ck_assert(!callback_table_has(&by_name, "c", NULL));
    expect_copy(&by_name, "ba");
}
END_TEST

START_TEST(a_sorted_table_has_the_order_of_names)
{
    callback_table_forget(&sorted);
    add_entry(&sorted, "b");
    add_entry(&sorted, "d");
    add_entry(&sorted, "a");
    add_entry(&sorted, "c");
    expect_copy(&sorted, "abcd");
    remove_entry(&sorted, "a");
    expect_copy(&sorted, "bcd");
}
END_TEST

START_TEST(functions_are_keys)
{
    struct callback_table *t = &by_function;

    callback_table_forget(t);
    ck_assert_int_eq(callback_table_add(t, "", "", first_function, (void *)(uintptr_t) "1"), 0);
    ck_assert_int_eq(callback_table_add(t, "", "", second_function, (void *)(uintptr_t) "2"), 0);
    ck_assert_int_eq(callback_table_add(t, "", "", second_function, NULL),
                     ACL_ERROR_RT_PARAM_INVALID);
    expect_copy(t, "12");
    ck_assert(callback_table_remove(t, "", first_function));
    ck_assert(!callback_table_remove(t, "", first_function));
    ck_assert(callback_table_has(t, "", second_function));
    expect_copy(t, "2");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("callback table");
    TCase *tc = suite_case(s, "callback table", 0, NULL, NULL);

    tcase_add_test(tc, a_walk_has_the_order_of_registration);
    tcase_add_test(tc, what_is_added_during_a_walk_is_not_called);
    tcase_add_test(tc, what_is_removed_during_a_walk_is_not_called);
    tcase_add_test(tc, an_empty_table_is_walked);
    tcase_add_test(tc, a_walk_ends_when_the_table_is_forgotten);
    tcase_add_test(tc, a_name_is_registered_once);
    tcase_add_test(tc, a_sorted_table_has_the_order_of_names);
    tcase_add_test(tc, functions_are_keys);
    return run_suite(s);
}
