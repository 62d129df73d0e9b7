/*
 * Random programs: the races that npu-check's model tells are those of a reference, which knows all
 * orders by brute force. Then each wait of a program without races is taken out.
 *
 * CHECK_SEED: the first seed; CHECK_COUNT: how many programs.
 *
 * Skipped under TSan: one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_rt.h"
#include "tests/common/effort.h"
#include "tests/common/suite.h"
#include "tests/unit/check_program.h"
#include "tests/unit/check_script.h"

#define WORDS  100u /* slot of the memory with the words */
#define BLOCK  8u
#define LEVELS 200u /* handles of events with a level */
#define COUNTS 10u  /* slots of count notifies */

struct trial {
    const struct program *p;
    struct script run;
    uint32_t place[PROGRAM_STEPS]; /* of each step */
    uint64_t ns[PROGRAM_STEPS];
    uint64_t ordinal[PROGRAM_STEPS];
    struct bits before[PROGRAM_STEPS];
};

/* --------------------------------------------------------------------------- a step as records */

static void be_process(struct trial *t, const struct step *s)
{
    t->run.process = s->stream < 0 ? 0 : t->p->process[s->stream];
}

/* Each process has all memories under the same name, process 0 has made them. */
static uint32_t slot_of(const struct step *s)
{
    return s->memory + 1u;
}

static uint64_t handle_of(int8_t stream)
{
    return (uint64_t)stream + 1;
}

static void tell_access(struct trial *t, const struct step *s)
{
    say_access(&t->run, s->stream < 0 ? 0 : handle_of(s->stream), slot_of(s), s->first * BLOCK,
               (s->last - s->first + 1u) * BLOCK, s->writes ? CHECK_WRITE : CHECK_READ);
}

static void tell_record(struct trial *t, const struct step *s)
{
    say_event_use(&t->run, CHECK_RECORD, handle_of(s->stream), s->object + 1u, s->round);
}

static void tell_wait(struct trial *t, const struct step *s)
{
    say_event_use(&t->run, CHECK_WAIT, handle_of(s->stream), s->object + 1u, s->round);
}

static void tell_notify(struct trial *t, const struct step *s)
{
    say_notify_use(&t->run, handle_of(s->stream), s->object,
                   s->kind == STEP_NOTIFY_WAIT ? TASK_NOTIFY_WAIT : TASK_NOTIFY_RECORD);
}

static void tell_count(struct trial *t, const struct step *s)
{
    if (s->kind == STEP_COUNT_WAIT)
        say_count_use(&t->run, handle_of(s->stream), COUNTS + s->object, TASK_COUNT_WAIT, 2,
                      ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, true);
    else
        say_count_use(&t->run, handle_of(s->stream), COUNTS + s->object, TASK_COUNT_RECORD, 1,
                      ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, false);
}

static void tell_value(struct trial *t, const struct step *s)
{
    if (s->kind == STEP_VALUE_SET)
        say_set(&t->run, handle_of(s->stream), WORDS, s->object * 8u, 8);
    else
        say_value(&t->run, handle_of(s->stream), WORDS, s->object * 8u,
                  s->kind == STEP_VALUE_WAIT ? TASK_VALUE_WAIT : TASK_VALUE_WRITE, s->round,
                  ACL_STREAM_WAIT_VALUE_GEQ);
}

static void tell_level(struct trial *t, const struct step *s)
{
    say_event_use(&t->run, s->kind == STEP_LEVEL_WAIT ? CHECK_WAIT : CHECK_RECORD,
                  handle_of(s->stream), LEVELS + s->object,
                  s->kind == STEP_LEVEL_WAIT ? 0 : s->round);
}

static void tell_callback(struct trial *t, const struct step *s)
{
    say_callback(&t->run, handle_of(s->stream), t->ordinal[s - t->p->step], s->block);
}

static void tell_sync(struct trial *t, const struct step *s)
{
    say_sync_since(&t->run, handle_of(s->stream), t->ns[s->since]);
}

static void tell_sync_event(struct trial *t, const struct step *s)
{
    t->run.process = s->object < 3 ? s->object % t->p->processes : 0;
    say_event_use(&t->run, CHECK_SYNC_EVENT, 0, s->object + 1u, s->round);
}

static void tell_called(struct trial *t, const struct step *s)
{
    say_called(&t->run, s->kind == STEP_BEGIN ? CHECK_CALLBACK_BEGIN : CHECK_CALLBACK_END,
               handle_of(s->stream), t->ordinal[s->since]);
}

static void tell_destroy(struct trial *t, const struct step *s)
{
    say_stream_gone(&t->run, handle_of(s->stream), 0);
}

static void tell_free(struct trial *t, const struct step *s)
{
    say_memory_gone(&t->run, slot_of(s));
}

static void (*const tellers[STEP_KINDS])(struct trial *, const struct step *) = {
    [STEP_ACCESS] = tell_access,
    [STEP_RECORD] = tell_record,
    [STEP_WAIT] = tell_wait,
    [STEP_LEVEL_RECORD] = tell_level,
    [STEP_LEVEL_WAIT] = tell_level,
    [STEP_NOTIFY_RECORD] = tell_notify,
    [STEP_NOTIFY_WAIT] = tell_notify,
    [STEP_COUNT_RECORD] = tell_count,
    [STEP_COUNT_WAIT] = tell_count,
    [STEP_VALUE_WRITE] = tell_value,
    [STEP_VALUE_SET] = tell_value,
    [STEP_VALUE_WAIT] = tell_value,
    [STEP_CALLBACK] = tell_callback,
    [STEP_SYNC] = tell_sync,
    [STEP_SYNC_EVENT] = tell_sync_event,
    [STEP_BEGIN] = tell_called,
    [STEP_END] = tell_called,
    [STEP_DESTROY] = tell_destroy,
    [STEP_FREE] = tell_free,
};

static void tell_memories(struct trial *t)
{
    static const uint32_t slots[] = {1, 2, 3, WORDS};

    for (unsigned i = 0; i < 4; i++) {
        say_memory(&t->run, slots[i], t->run.process ? slots[i] : 0, t->run.process != 0);
        if (t->run.process == 0)
            say_export(&t->run, slots[i], slots[i]);
    }
}

/* What is there before the first step. */
static void tell_objects(struct trial *t)
{
    for (t->run.process = 0; t->run.process < t->p->processes; t->run.process++) {
        tell_memories(t);
        for (uint32_t i = 0; i < 3; i++) {
            say_event(&t->run, i + 1, CHECK_EVENT_PLAIN, 0);
            say_event(&t->run, i + 4, CHECK_EVENT_IPC, i + 1);
            say_notify(&t->run, i, i + 1, false);
            say_notify(&t->run, COUNTS + i, COUNTS + i, true);
            say_event(&t->run, LEVELS + i, CHECK_EVENT_LEVEL, 0);
        }
    }
}

static void tell_steps(struct trial *t)
{
    uint64_t ordinals[PROGRAM_STREAMS] = {0};

    for (uint32_t i = 0; i < t->p->n; i++) {
        const struct step *s = &t->p->step[i];

        if (s->kind == STEP_CALLBACK)
            t->ordinal[i] = ++ordinals[s->stream];
        if (!s->gone) {
            be_process(t, s);
            tellers[s->kind](t, s);
            t->place[i] = t->run.place;
        }
        t->ns[i] = t->run.ns;
    }
}

/* ---------------------------------------------------------------------------------- judgement */

static int find_step(const struct trial *t, uint32_t place)
{
    for (uint32_t i = 0; i < t->p->n; i++)
        if (!t->p->step[i].gone && t->place[i] == place)
            return (int)i;
    return -1;
}

static bool are_unordered(const struct trial *t, uint32_t a, uint32_t b)
{
    return !bit_is_set(&t->before[a], b) && !bit_is_set(&t->before[b], a);
}

static bool conflict_somewhere(const struct trial *t, uint32_t a, uint32_t b)
{
    for (unsigned m = 0; m < 3; m++)
        for (unsigned block = 0; block < PROGRAM_BLOCKS; block++)
            if (steps_conflict(t->p, a, b, m, block))
                return true;
    return false;
}

static bool is_race(const struct trial *t, uint32_t a, uint32_t b)
{
    return are_unordered(t, a, b) && conflict_somewhere(t, a, b);
}

/* A task that was given before the free, but comes after it. */
static bool is_late(const struct trial *t, uint32_t freed, uint32_t used)
{
    return t->p->step[freed].kind == STEP_FREE && bit_is_set(&t->before[used], freed) &&
           conflict_somewhere(t, freed, used);
}

/* Each finding is what it says. True: so it is. */
static bool are_races(const struct trial *t)
{
    for (size_t i = 0; i < t->run.findings.n; i++) {
        const struct finding *f = &t->run.findings.list[i];
        int a = find_step(t, f->first.place), b = find_step(t, f->second.place);

        if (a < 0 || b < 0 ||
            !(f->kind == FINDING_RACE ? is_race : is_late)(t, (uint32_t)a, (uint32_t)b)) {
            printf("steps %d and %d are told, and are no race\n", a, b);
            return false;
        }
    }
    return true;
}

static bool is_block_told(const struct trial *t, unsigned memory, unsigned block)
{
    for (size_t i = 0; i < t->run.findings.n; i++) {
        const struct finding *f = &t->run.findings.list[i];
        int a = find_step(t, f->first.place), b = find_step(t, f->second.place);

        if (steps_conflict(t->p, (uint32_t)a, (uint32_t)b, memory, block))
            return true;
    }
    return false;
}

/* Steps that race for the block. */
static bool find_race_of(const struct trial *t, unsigned memory, unsigned block, uint32_t *a,
                         uint32_t *b)
{
    for (*a = 0; *a < t->p->n; ++*a)
        for (*b = 0; *b < *a; ++*b)
            if (steps_conflict(t->p, *a, *b, memory, block) && are_unordered(t, *a, *b))
                return true;
    return false;
}

/* Each byte with a race has a finding. */
static bool are_told(const struct trial *t)
{
    uint32_t a, b;

    for (unsigned m = 0; m < 3; m++) {
        for (unsigned block = 0; block < PROGRAM_BLOCKS; block++) {
            if (!find_race_of(t, m, block, &a, &b) || is_block_told(t, m, block))
                continue;
            printf("memory %u, block %u: steps %u and %u are a race, and are not told\n", m, block,
                   b, a);
            return false;
        }
    }
    return true;
}

static void print_program(const struct program *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct step *s = &p->step[i];

        if (s->gone)
            continue;
        printf("%3u stream %d: %s", i, s->stream, step_name(s));
        if (s->kind == STEP_ACCESS)
            printf(" %s memory %u, %u to %u\n", s->writes ? "writes" : "reads", s->memory, s->first,
                   s->last);
        else
            printf(" %u, round %u, since %u%s\n", s->object, s->round, s->since,
                   s->block ? ", blocks" : "");
    }
}

static void run_trial(struct trial *t)
{
    script_start(&t->run, t->p->processes, false);
    t->run.model.kinds = 1u << FINDING_RACE | 1u << FINDING_USE_AFTER_FREE;
    tell_objects(t);
    for (uint32_t i = 0; i < t->p->streams; i++) {
        t->run.process = t->p->process[i];
        say_stream(&t->run, i + 1);
    }
    tell_steps(t);
    model_end(&t->run.model);
}

/* True: model and reference agree. *races: how many findings there are. */
static bool agree(const struct program *p, size_t *races)
{
    struct trial *t = calloc(1, sizeof(*t));
    bool fine = true;

    t->p = p;
    *races = 0;
    if (program_close(p, t->before)) {
        run_trial(t);
        *races = t->run.findings.n;
        fine = are_races(t) && are_told(t);
        script_free(&t->run);
    }
    free(t);
    return fine;
}

static unsigned count_from(const char *name, unsigned otherwise)
{
    const char *value = getenv(name);

    return value ? (unsigned)strtoul(value, NULL, 10) : otherwise;
}

static void expect_agreement(const struct program *p, uint64_t seed, bool clean, int without)
{
    size_t races;

    if (agree(p, &races))
        return;
    print_program(p);
    ck_abort_msg("CHECK_SEED=%lu CHECK_COUNT=1, %s, without step %d", seed, clean ? "clean" : "any",
                 without);
}

START_TEST(test_any)
{
    unsigned first = count_from("CHECK_SEED", 1),
             n = count_from("CHECK_COUNT", choose_effort(2000, 60000));
    size_t racy = 0, races;

    for (unsigned i = first; i < first + n; i++) {
        struct program p;

        program_make(&p, i, false);
        expect_agreement(&p, i, false, -1);
        racy += agree(&p, &races) && races > 0;
    }
    /* The programs are worth the work. */
    ck_assert(n < 100 || (racy > n / 2 && racy < n));
}
END_TEST

START_TEST(test_without_a_wait)
{
    unsigned first = count_from("CHECK_SEED", 1),
             n = count_from("CHECK_COUNT", choose_effort(500, 40000));
    size_t told = 0, races;

    for (unsigned i = first; i < first + n; i++) {
        struct program p, less;

        program_make(&p, i, true);
        expect_agreement(&p, i, true, -1);
        ck_assert(agree(&p, &races) && races == 0);
        for (uint32_t j = 0; j < p.n; j++) {
            less = p;
            if (!program_take_out(&less, j))
                continue;
            expect_agreement(&less, i, true, (int)j);
            agree(&less, &races);
            told += races > 0;
        }
    }
    ck_assert(n < 100 || told > n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check random");
    TCase *t = suite_case(suite, "random", choose_effort(120, 3000), NULL, NULL);

    tcase_add_test(t, test_any);
    tcase_add_test(t, test_without_a_wait);
    return run_suite(suite);
}
