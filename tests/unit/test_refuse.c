/* daemon/core/refuse: each cause has an error and a sentence. */
#include "daemon/core/refuse.h"

#include <string.h>

#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "unit.h"

static const uint64_t limit[RESOURCE_COUNT] = {[RESOURCE_ROUTES] = 4711};
static struct users users = {.limit = limit};
static struct user user = {.users = &users, .uid = 1000, .payer = &user};

START_TEST(every_cause_has_an_error_and_a_sentence)
{
    for (int cause = CAUSE_NONE + 1; cause < CAUSE_COUNT; cause++) {
        char text[256] = "";
        int32_t error = refuse_text(text, sizeof(text), (enum cause)cause, &user, "");

        ck_assert_msg(error >= 100000, "cause %d: error %d", cause, error);
        ck_assert_msg(strlen(text) > 10 && strlen(text) < sizeof(text) - 30, "cause %d: %s", cause,
                      text);
        ck_assert_msg(!strchr(text, '#'), "cause %d: %s", cause, text);
    }
}
END_TEST

START_TEST(numbers_and_limits_stand_in_the_sentence)
{
    char text[256];

    refuse_text(text, sizeof(text), CAUSE_QUEUE_DEPTH, NULL, "no queue");
    ck_assert_str_eq(text, "no queue: a queue has a depth from 2 to 8192");
    refuse_text(text, sizeof(text), CAUSE_USER_ROUTES, &user, "no route");
    ck_assert_ptr_nonnull(strstr(text, "user 1000 has 0 of at most 4711 routes"));
}
END_TEST

START_TEST(a_sentence_that_does_not_fit_is_cut)
{
    char text[16];

    for (size_t size = 1; size <= sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        refuse_text(text, size, CAUSE_QUEUE_DEPTH, NULL, "no queue");
        ck_assert_uint_eq(strlen(text), size - 1);
        refuse_text(text, size, CAUSE_USER_ROUTES, &user, "");
        ck_assert_uint_eq(strlen(text), size - 1);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("refuse");
    TCase *t = suite_case(s, "sentences", 0, NULL, NULL);

    tcase_add_test(t, every_cause_has_an_error_and_a_sentence);
    tcase_add_test(t, numbers_and_limits_stand_in_the_sentence);
    tcase_add_test(t, a_sentence_that_does_not_fit_is_cut);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
