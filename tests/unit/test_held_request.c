/*
 * daemon/control/held_request: a request that lacks something waits until npud has looked at all
 * that may be free, and is refused only then. The clients are the test itself.
 */
#include "lack.h"
#include "npud.h"

#include "acl/acl_base.h"
#include "daemon/control/session_hear.h"
#include "requester.h"

#define USER  7001u
#define OTHER 7002u

enum last { LAST_IS_FREE, LAST_IS_USED, OWN_IS_FREE };

/*
 * Of many segments that take long, the last one that is looked at is free, or none. Guards against
 * a refusal after as much of a look as fits in one step, and against a step that looks at all.
 * Requests of others are answered meanwhile, those of the session in their order.
 */
START_TEST(a_search_goes_on_in_later_turns)
{
    struct session *keeper;
    struct segment *last;
    unsigned rounds, other_rounds;
    int asks, other;
    uint64_t bytes;
    size_t n;

    npud_start(NULL);
    keeper = npud_session_of(USER, 1);
    asks = open_as(USER);
    other = open_as(OTHER);
    add_used_segments(keeper);
    last = add_segment(_i == OWN_IS_FREE ? server.sessions->next : keeper, STRIDE, COUNT);
    bytes = last->size;
    if (_i == LAST_IS_USED)
        use_last_slot(last, keeper);
    config.limit[RESOURCE_MBUF_MEMORY] = user_used(keeper->user, RESOURCE_MBUF_MEMORY);
    ask_segment(asks, STRIDE, COUNT);
    ask_mem_info(asks);
    if (_i != OWN_IS_FREE)
        AWAIT((schedule_round(&server.schedule, server.base, false), server.sessions->next->held));
    ask_mem_info(other);
    ck_assert_int_eq(count_rounds(other, &other_rounds), 0);
    ck_assert_int_eq(count_rounds(asks, &rounds),
                     _i == LAST_IS_USED ? ACL_ERROR_RT_MEMORY_ALLOCATION : 0);
    if (_i != OWN_IS_FREE)
        ck_assert_uint_gt(rounds, other_rounds);
    ck_assert_int_eq(await_answer(asks, &n), 0);
    ck_assert_uint_eq(user_used(keeper->user, RESOURCE_MBUF_MEMORY), (SEGMENTS + 1) * bytes);
    close(other);
    close(asks);
    npud_turn();
    session_free(keeper);
    npud_turn();
    npud_stop();
}
END_TEST

/* --- what is being freed --- */

#define FREED 5

/* A client whose request sleeps. helps: it gets what is being closed. */
static int begin_to_lack(bool helps)
{
    int fd;

    npud_start(NULL);
    ck_assert_int_eq(deferred_close_start(), 0);
    fd = open_as(USER);
    atomic_store(&allowed, 0);
    for (int i = 0; i < FREED; i++)
        free_slowly();
    if (helps)
        use_up_descriptors();
    else
        limit_descriptors(3);
    ask_segment(fd, STRIDE, 16);
    npud_turn();
    ck_assert_ptr_nonnull(server.asleep);
    return fd;
}

/* The client is this process as well, and gets descriptors with the answer. */
static int32_t await_first_answer(int fd)
{
    size_t n;

    AWAIT((npud_turn(), !server.sessions || !server.sessions->held));
    give_descriptors_back();
    return read_answer(fd, &n);
}

static void end_lack(int fd)
{
    atomic_store(&allowed, UINT_MAX);
    close_all(&fd, 1);
    deferred_close_stop();
    npud_stop();
}

/* Guards against a refusal for lack of descriptors that are about to be closed. */
START_TEST(a_request_waits_for_what_is_being_closed)
{
    int fd = begin_to_lack(true);
    size_t n;

    ask_mem_info(fd); /* not read before the first one is answered */
    npud_turn();
    ck_assert_int_eq(read_answer(fd, &n), -1);
    ck_assert(server.asleep && !server.sessions->polled); /* and npud sleeps, too */
    atomic_store(&allowed, UINT_MAX);
    ck_assert_int_eq(await_first_answer(fd), 0);
    ck_assert_int_eq(await_answer(fd, &n), 0);
    end_lack(fd);
}
END_TEST

/* It waits for what was there when it began, and not for what comes after it, maybe for ever. */
START_TEST(a_request_is_refused_when_that_was_no_help)
{
    int fd = begin_to_lack(false);
    size_t n;

    limit_descriptors(-1);
    free_slowly();
    limit_descriptors(3);
    atomic_store(&allowed, (FREED - 1) * PIECES);
    AWAIT((npud_turn(), deferred_close_count() == FREED - 1));
    npud_turn();
    ck_assert_int_eq(read_answer(fd, &n), -1);
    atomic_store(&allowed, PIECES);
    ck_assert_int_eq(await_first_answer(fd), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    end_lack(fd);
}
END_TEST

enum end { CLIENT_LEAVES, NPUD_ENDS };

START_TEST(a_session_ends_asleep)
{
    int fd = begin_to_lack(true);

    give_descriptors_back();
    if (_i == CLIENT_LEAVES) {
        session_end(server.sessions);
        npud_turn();
        ck_assert_ptr_null(server.asleep);
        end_lack(fd);
        return;
    }
    server_end(&server);
    atomic_store(&allowed, UINT_MAX);
    deferred_close_stop();
    config_deinit(&config);
    close(fd);
    ck_assert_uint_eq(count_fds(), npud_fds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept requests");
    TCase *c = suite_case(suite, "all", 60, NULL, NULL);

    tcase_add_loop_test(c, a_search_goes_on_in_later_turns, 0, OWN_IS_FREE + 1);
    tcase_add_test(c, a_request_waits_for_what_is_being_closed);
    tcase_add_test(c, a_request_is_refused_when_that_was_no_help);
    tcase_add_loop_test(c, a_session_ends_asleep, 0, NPUD_ENDS + 1);
    return run_suite(suite);
}
