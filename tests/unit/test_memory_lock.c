/* The lock of the table of memory: who looks all the time keeps nobody from changing it. */
#include "client/memory/memory_lock.h"

#include <stdlib.h>

#include "tests/common/moment.h"
#include "tests/common/suite.h"

static struct session *s;
static _Atomic int changed, looked;

static void set_up(void)
{
    s = calloc(1, sizeof(*s));
    pthread_rwlock_init(&s->memory_lock, NULL);
}

static void tear_down(void)
{
    free(s);
}

static void *change(void *arg)
{
    (void)arg;
    memory_lock_to_change(s);
    changed = 1;
    pthread_rwlock_unlock(&s->memory_lock);
    return NULL;
}

static void *look(void *arg)
{
    (void)arg;
    memory_lock_to_look(s);
    looked = 1;
    pthread_rwlock_unlock(&s->memory_lock);
    return NULL;
}

/* One that looks has the lock all the time, as many do in turn. */
START_TEST(a_change_that_waits_for_long_says_so)
{
    pthread_t changer, looker;

    memory_lock_to_look(s);
    ck_assert_int_eq(pthread_create(&changer, NULL, change, NULL), 0);
    while (s->memory_wanted == 0)
        wait_a_moment();
    ck_assert_int_eq(changed, 0);
    ck_assert_int_eq(pthread_create(&looker, NULL, look, NULL), 0);
    pthread_join(looker, NULL); /* not kept for ever, either */
    ck_assert_int_eq(looked, 1);
    ck_assert_int_eq(changed, 0);
    pthread_rwlock_unlock(&s->memory_lock);
    pthread_join(changer, NULL);
    ck_assert_int_eq(changed, 1);
    ck_assert_uint_eq(s->memory_wanted, 0);
    ck_assert_uint_eq(s->memory_changes, 1);
}
END_TEST

static void *let_pass(void *arg)
{
    (void)arg;
    memory_let_pass(s);
    looked = 1;
    return NULL;
}

/* Nobody wants it: there is nothing to wait for. And what wants it wakes those that wait. */
START_TEST(who_looks_lets_it_pass)
{
    pthread_t looker;

    memory_let_pass(s);
    s->memory_wanted = 1; /* and nobody says that it has it */
    ck_assert_int_eq(pthread_create(&looker, NULL, let_pass, NULL), 0);
    pthread_join(looker, NULL);
    ck_assert_int_eq(looked, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory lock");
    TCase *tc = suite_case(suite, "memory lock", 0, set_up, tear_down);

    tcase_add_test(tc, a_change_that_waits_for_long_says_so);
    tcase_add_test(tc, who_looks_lets_it_pass);
    return run_suite(suite);
}
