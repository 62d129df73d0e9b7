/*
 * What engines write into a trace that begins, ends, and begins again, while sessions come and go.
 * The engines have no thread here; each turn is a call.
 */
#include <malloc.h>

#include "daemon/core/trace.h"
#include "engine_steps.h"
#include "npud.h"

static void begin(void)
{
    mallopt(M_PERTURB, 0x5a); /* what is freed can be read, and leads nowhere */
    npud_start((const char *const[]){"engine.spin_us=0", NULL});
}

static struct device *device(uint32_t index)
{
    return devices_get(server.devices, index);
}

static void run_engine(uint32_t index)
{
    for (unsigned i = 0; i < 4; i++)
        engine_turn(device(index)->engine);
}

static enum cause start_trace(struct server *s)
{
    return trace_start(s, 0, false);
}

static void change_trace(enum cause (*change)(struct server *server))
{
    ck_assert_int_eq(change(&server), CAUSE_NONE);
    npud_turn();
}

static void run_nop(struct stream *s)
{
    uint64_t position = client_submit(s, (struct task){.op = TASK_NOP});

    run_engine(s->attach->device->index);
    ck_assert(client_passed(s, position));
}

static unsigned count_releases(void)
{
    struct trace_event event;
    unsigned n = 0;

    for (unsigned i = 0; i < TRACE_OWN_MAX; i++)
        for (uint64_t k = 0; server.trace->own[i].ring && k < 100; k++)
            n += trace_read(server.trace->own[i].ring, TRACE_OWN_ENTRIES, k, &event) &&
                 event.kind == TRACE_RELEASE;
    return n;
}

/* s, of one device, waits for the next task of the other stream. */
static void park_behind(struct stream *s, const struct stream *other)
{
    client_submit(s, (struct task){.op = TASK_WAIT_POS,
                                   .object = other->slot.number,
                                   .wait.target = other->live->position + 1});
    run_engine(s->attach->device->index);
    ck_assert_int_eq(s->run, RUN_PARKED);
}

START_TEST(who_lets_go_is_told)
{
    struct session *session;
    struct stream *waits, *runs;

    begin();
    session = npud_session(1);
    waits = npud_stream(session, 0);
    runs = npud_stream(session, 1);
    change_trace(start_trace);
    park_behind(waits, runs);
    run_nop(runs);
    ck_assert_uint_eq(count_releases(), 1);
    session_free(session);
    npud_stop();
}
END_TEST

/*
 * A trace begins and ends at one device after the other. An engine that has not heard of it, and
 * lets a stream go on whose engine has, was at a stream of a session that is gone when the trace
 * before ran.
 */
START_TEST(an_engine_that_has_not_heard_tells_nothing)
{
    struct session *first, *session;
    struct stream *waits, *runs;

    begin();
    first = npud_session(1);
    change_trace(start_trace);
    run_nop(npud_stream(first, 1));
    change_trace(trace_stop);
    session_free(first);
    session = npud_session(2);
    waits = npud_stream(session, 0);
    runs = npud_stream(session, 1);
    park_behind(waits, runs);
    ck_assert_int_eq(trace_start(&server, 0, false), CAUSE_NONE);
    trace_tell_device(&server, 0);
    run_nop(runs);
    ck_assert_uint_eq(count_releases(), 0);
    npud_turn();
    session_free(session);
    npud_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace of engines");
    TCase *t = suite_case(s, "releases", 30, NULL, NULL);

    tcase_add_test(t, who_lets_go_is_told);
    tcase_add_test(t, an_engine_that_has_not_heard_tells_nothing);
    return run_suite(s);
}
