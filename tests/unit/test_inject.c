/* Rules of fault injection against engines that run, and the names of error codes. */
#include "daemon/engine/inject.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl_base.h"
#include "npud.h"
#include "proto/wire/error_name.h"
#include "proto/wire/npud.pb-c.h"

#define TASKS 300000

static const char *const settings[] = {"sim.devices=2", NULL};
static struct session *session;

static void start_session(void)
{
    npud_start(settings);
    session = npud_session(1);
}

static void end_session(void)
{
    session_free(session);
    npud_stop();
}

static uint64_t set_rule(Npud__Inject rule)
{
    uint64_t id = 0;

    ck_assert_int_eq(inject_set(&server, &rule, &id), 0);
    return id;
}

static void clear_rule(uint64_t id)
{
    ck_assert_int_eq(inject_clear(&server, id), 0);
}

static Npud__Inject rule_for(Npud__Inject__Action action)
{
    Npud__Inject rule = NPUD__INJECT__INIT;

    rule.action = action;
    rule.device = rule.stream = -1;
    rule.code = ACL_ERROR_RT_INTERNAL_ERROR;
    return rule;
}

static const struct task nop = {.op = TASK_NOP};

static uint32_t count_held(void)
{
    return atomic_load(&server.inject->order[0]->held.n);
}

/*
 * An engine that has nothing to do but to hold a task sleeps, which is what the watchdog takes for
 * well.
 */
START_TEST(engine_sleeps_while_it_holds_a_task)
{
    struct stream *s = npud_stream(session, 0);
    struct engine_stats stats;
    uint64_t position, id = set_rule(rule_for(NPUD__INJECT__ACTION__STALL));

    position = client_submit(s, nop);
    AWAIT(count_held() == 1);
    AWAIT((engine_get_stats(s->attach->device->engine, &stats), stats.asleep));
    AWAIT(engine_stuck_ms(s->attach->device->engine) == 0);
    clear_rule(id);
    client_wait(s, position);
    ck_assert_int_eq(stream_error_code(atomic_load(&s->ctrl->error)), 0);
}
END_TEST

/*
 * Clients are told to make tasks of everything while there are rules for a device, also those that
 * come later; not on the others.
 */
START_TEST(mode_follows_the_rules)
{
    Npud__Inject rule = rule_for(NPUD__INJECT__ACTION__FAIL);
    struct session *late;
    uint64_t first, second;

#define MODE(s, device) atomic_load(&(s)->attach[device]->bell->mode)
    ck_assert_uint_eq(MODE(session, 0), DOORBELL_FREE);
    rule.device = 1;
    first = set_rule(rule);
    ck_assert_uint_eq(MODE(session, 0), DOORBELL_FREE);
    ck_assert_uint_eq(MODE(session, 1), DOORBELL_STRICT);
    late = npud_session(2);
    ck_assert_uint_eq(MODE(late, 1), DOORBELL_STRICT);
    rule = rule_for(NPUD__INJECT__ACTION__LOSE_DEVICE);
    rule.device = 1;
    second = set_rule(rule);
    ck_assert_uint_eq(MODE(late, 1), ACL_ERROR_RT_LOST_HEARTBEAT);
    ck_assert_uint_eq(MODE(late, 0), DOORBELL_FREE);
    clear_rule(first);
    ck_assert_uint_eq(MODE(late, 1), ACL_ERROR_RT_LOST_HEARTBEAT);
    clear_rule(second);
    ck_assert_uint_eq(MODE(late, 1), DOORBELL_FREE);
    ck_assert_ptr_null(server.devices->device[1].inject);
    session_free(late);
}
END_TEST

static void *submit_tasks(void *arg)
{
    struct stream *s = arg;
    uint64_t position = 0;

    for (int i = 0; i < TASKS; i++) {
        while (atomic_load(&s->ctrl->tail) - atomic_load(&s->ctrl->done) >= s->depth)
            sched_yield();
        position = client_submit(s, nop);
    }
    client_wait(s, position);
    return NULL;
}

/*
 * Rules come and go, tasks are held and devices lost, while streams on both devices are busy: every
 * task is retired.
 */
START_TEST(rules_change_under_way)
{
    static const Npud__Inject__Action actions[] = {
        NPUD__INJECT__ACTION__STALL, NPUD__INJECT__ACTION__FAIL, NPUD__INJECT__ACTION__LOSE_DEVICE};
    struct stream *s[4];
    pthread_t thread[4];
    uint64_t rng = 1;
    bool busy = true;

    for (int i = 0; i < 4; i++) {
        s[i] = npud_stream(session, (uint32_t)i % 2);
        thread[i] = start_thread(submit_tasks, s[i]);
    }
    while (busy) {
        Npud__Inject rule = rule_for(actions[random_below(&rng, 3)]);

        rule.kind = random_below(&rng, 2) ? (char *)"nop" : (char *)"";
        rule.device = (int32_t)random_below(&rng, 2);
        rule.nth = 1 + random_below(&rng, 50);
        rule.probability = random_below(&rng, 2) ? 0.1 : 0;
        rule.seed = rng;
        set_rule(rule);
        burn_time(&rng, 20000);
        if (server.inject->n > 3)
            clear_rule(server.inject->order[random_below(&rng, server.inject->n)]->id);
        burn_time(&rng, 20000);
        if (random_below(&rng, 4) == 0)
            clear_rule(0);
        busy = false;
        for (int i = 0; i < 4; i++)
            busy |= atomic_load(&s[i]->ctrl->done) < TASKS;
    }
    clear_rule(0);
    for (int i = 0; i < 4; i++)
        thread_join(thread[i]);
}
END_TEST

/* A rule that has lost a device by a task gives back all it has lost. */
START_TEST(lost_by_a_task)
{
    Npud__Inject lose = rule_for(NPUD__INJECT__ACTION__LOSE_DEVICE);
    struct stream *s;

    lose.kind = (char *)"nop";
    lose.count = 2;
    set_rule(lose);
    for (uint32_t i = 0; i < 2; i++) {
        s = npud_stream(session, i);
        client_wait(s, client_submit(s, nop));
    }
    clear_rule(0);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(atomic_load(&server.devices->device[i].lost), 0);
}
END_TEST

#define LOSSES 300

/*
 * The device is back before its engine has looked: what was parked there has not come all the same.
 */
START_TEST(loss_of_a_moment)
{
    Npud__Inject lose = rule_for(NPUD__INJECT__ACTION__LOSE_DEVICE);
    struct stream *s = npud_stream(session, 0), *never = npud_stream(session, 1);
    struct stream *blocked = npud_stream(session, 0);
    struct task wait = {.op = TASK_WAIT_POS, .object = never->slot.number, .wait.target = 1};
    struct task callback = {.op = TASK_CALLBACK, .callback = {.block = 1}};
    uint64_t position;

    wait.wait.target += atomic_load(&never->live->done);
    lose.device = 0;
    for (int i = 0; i < LOSSES; i++) {
        callback.callback.ordinal++;
        client_submit(blocked, callback);
        position = client_submit(s, wait);
        AWAIT(atomic_load(&never->passed.n) == 1);
        AWAIT(atomic_load(&blocked->ctrl->callbacks) == callback.callback.ordinal);
        set_rule(lose);
        clear_rule(0);
        client_wait(s, position);
        ck_assert_int_eq(stream_error_code(atomic_exchange(&s->ctrl->error, 0)),
                         ACL_ERROR_RT_LOST_HEARTBEAT);
        /* Behind what the loss has put on the engine's list. */
        if (client_passed(blocked, atomic_load(&blocked->ctrl->tail) - 1))
            ck_assert_int_eq(stream_error_code(atomic_exchange(&blocked->ctrl->error, 0)),
                             ACL_ERROR_RT_LOST_HEARTBEAT);
        atomic_store(&blocked->ctrl->callbacks_done, callback.callback.ordinal);
        if (doorbell_raise(blocked->attach->bell, blocked->slot.number))
            eventfd_write(blocked->attach->fd, 1);
        client_wait(blocked, atomic_load(&blocked->ctrl->tail) - 1);
    }
}
END_TEST

START_TEST(names_of_errors)
{
    ck_assert_str_eq(error_name(507013), "ACL_ERROR_RT_SYS_DMA");
    ck_assert_str_eq(error_name(100000), "ACL_ERROR_INVALID_PARAM");
    ck_assert_ptr_null(error_name(0));
    ck_assert_ptr_null(error_name(123456));
    ck_assert_int_eq(error_name_find("ACL_ERROR_RT_SYS_DMA"), 507013);
    ck_assert_int_eq(error_name_find("rt_sys_dma"), 507013);
    ck_assert_int_eq(error_name_find("Sys_Dma"), 507013);
    ck_assert_int_eq(error_name_find("acl_error_ge_failure"), error_name_find("GE_FAILURE"));
    ck_assert_int_eq(error_name_find(""), 0);
    ck_assert_int_eq(error_name_find("SYS"), 0);
    ck_assert_int_eq(error_name_find("ACL_ERROR_RT_"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inject");
    TCase *tc = suite_case(suite, "inject", 60, start_session, end_session);

    tcase_add_test(tc, engine_sleeps_while_it_holds_a_task);
    tcase_add_test(tc, mode_follows_the_rules);
    tcase_add_test(tc, rules_change_under_way);
    tcase_add_test(tc, lost_by_a_task);
    tcase_add_test(tc, loss_of_a_moment);
    tc = suite_case(suite, "names", 0, NULL, NULL);
    tcase_add_test(tc, names_of_errors);
    return run_suite(suite);
}
