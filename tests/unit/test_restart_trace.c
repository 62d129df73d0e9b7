/*
 * A trace over the end of npud: which it is, what it has of processes, and that all hear of it who
 * had not heard yet.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_clients.h"

#include <sys/resource.h>

#include "daemon/core/trace.h"

#define CLIENT 2000000

static struct trace *the_trace(void)
{
    return server.trace;
}

static void start(void)
{
    restart_start((const char *const[]){"sim.devices=2", NULL});
    connect_client_of(1000, CLIENT, -1);
}

static enum cause start_trace(struct server *s)
{
    return trace_start(s, 0, false);
}

static void change_trace(enum cause (*change)(struct server *server))
{
    ck_assert_int_eq(change(&server), CAUSE_NONE);
    kept_commit();
}

static void expect_heard(uint32_t number)
{
    ck_assert_uint_eq(atomic_load(&session_of(CLIENT)->page->trace), number);
    for (uint32_t i = 0; i < server.devices->n; i++)
        ck_assert((devices_get(server.devices, i)->trace != NULL) == (number != 0));
}

START_TEST(it_is_as_it_was)
{
    struct trace_event mark = {.kind = TRACE_MARK};
    uint64_t begun, from;
    uint32_t number;

    start();
    change_trace(start_trace);
    npud_turn();
    ck_assert_int_ge(trace_ring_of(session_of(CLIENT)), 0);
    trace_put_shared(session_of(CLIENT)->trace->ring, TRACE_CLIENT_ENTRIES, &mark, 1);
    change_trace(trace_stop);
    npud_turn();
    change_trace(start_trace);
    npud_turn();
    the_trace()->refused = 3;
    kept_touch(&the_trace()->kept);
    kept_commit();
    number = the_trace()->number;
    begun = the_trace()->begun_ns;
    from = the_trace()->own[TRACE_CONTROL].from;
    ck_assert_uint_gt(from, 0);
    restart_npud();
    ck_assert(the_trace()->on && the_trace()->number == number && the_trace()->begun_ns == begun);
    ck_assert_uint_eq(the_trace()->own[TRACE_CONTROL].from, from);
    ck_assert_uint_eq(the_trace()->refused, 3);
    ck_assert_uint_eq(the_trace()->n_clients, 1);
    ck_assert_ptr_eq(session_of(CLIENT)->trace, the_trace()->clients);
    ck_assert_uint_eq(the_trace()->clients->from, 1);
    expect_heard(number);
    change_trace(trace_stop);
    npud_turn();
    expect_heard(0);
    restart_npud();
    ck_assert(!the_trace()->on && the_trace()->ended_ns > begun);
    expect_heard(0);
    stop_all();
}
END_TEST

/* npud ends before it has told any. */
START_TEST(those_hear_that_have_not_heard)
{
    start();
    change_trace(start_trace);
    expect_heard(0);
    restart_npud();
    expect_heard(the_trace()->number);
    change_trace(trace_stop);
    expect_heard(the_trace()->number);
    restart_npud();
    expect_heard(0);
    stop_all();
}
END_TEST

/* Guards against sessions that end for a ring. */
START_TEST(a_ring_that_is_not_there_is_lost_alone)
{
    start();
    change_trace(start_trace);
    npud_turn();
    ck_assert_int_ge(trace_ring_of(session_of(CLIENT)), 0);
    kept_commit();
    kept_close(session_of(CLIENT)->trace->fd);
    kept_commit();
    restart_npud();
    ck_assert_uint_eq(the_trace()->n_clients, 0);
    ck_assert_uint_eq(the_trace()->refused, 1);
    ck_assert_ptr_null(session_of(CLIENT)->trace);
    ck_assert_int_ge(trace_ring_of(session_of(CLIENT)), 0);
    kept_commit();
    restart_npud();
    ck_assert_uint_eq(the_trace()->n_clients, 1);
    stop_all();
}
END_TEST

static enum cause start_larger(struct server *s)
{
    return trace_start(s, UINT64_C(32) << 20, false);
}

/* Those of the trace before are gone by then, and no npud looks for them. */
START_TEST(rings_that_cannot_be_had_are_no_fault)
{
    struct rlimit limit, none;

    start();
    change_trace(start_trace);
    npud_turn();
    change_trace(trace_stop);
    npud_turn();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(start_larger(&server), CAUSE_MEMORY);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    kept_commit();
    restart_npud();
    ck_assert(!the_trace()->on);
    change_trace(start_larger);
    npud_turn();
    expect_heard(the_trace()->number);
    restart_npud();
    expect_heard(the_trace()->number);
    stop_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: trace");
    TCase *t = suite_case(s, "trace", 60, NULL, NULL);

    tcase_add_test(t, it_is_as_it_was);
    tcase_add_test(t, those_hear_that_have_not_heard);
    tcase_add_test(t, a_ring_that_is_not_there_is_lost_alone);
    tcase_add_test(t, rings_that_cannot_be_had_are_no_fault);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
