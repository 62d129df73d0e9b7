/*
 * Which waits for words of shared memory are told that nobody is left who could write: sessions at
 * random that come, wait, write, give names up, die, finalize and come back, against a model that
 * knows each of them and counts nothing (daemon/memory/sharer.h).
 */
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/control/session_idle.h"
#include "daemon/control/session_life.h"
#include "daemon/engine/value.h"
#include "daemon/memory/export.h"
#include "memory_at.h"
#include "npud.h"
#include "tests/common/effort.h"

static const char *const settings[] = {"engine.spin_us=0", "stream.depth=64", NULL};

#define BYTES    8192
#define SHARERS  5
#define NAMES    3
#define WAITS    4
#define ACTS     80
#define TOLD     ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define GIVEN_UP ACL_ERROR_RT_SYS_DMA

/* A wait of the model: its word never comes, unless it is written. */
struct wait {
    struct stream *stream; /* NULL: none */
    unsigned name;
    uint64_t word, position;
};

struct sharer_model {
    struct session *session; /* NULL: there is none */
    int pid;
    struct mem *name[NAMES];
    struct wait wait[WAITS];
    uint64_t came;
    bool finalized; /* and over, once no stream of it waits */
    bool over;
};

static struct {
    struct sharer_model sharer[SHARERS];
    struct memory_export *export; /* the maker's; NULL: it has gone */
    struct sharer_model *maker;
    struct pages *pages;
    uint64_t now, ended; /* ended 0: none has, or the maker has said that it knows */
    int ended_pid, pids;
    uint64_t words;
    unsigned seed;
} world;

static unsigned draw(unsigned n)
{
    return (unsigned)rand_r(&world.seed) % n;
}

/* --- the model --- */

static bool holds(const struct sharer_model *s)
{
    for (unsigned i = 0; i < NAMES; i++)
        if (s->name[i])
            return true;
    return false;
}

static unsigned count_waits(const struct sharer_model *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WAITS; i++)
        n += s->wait[i].stream != NULL;
    return n;
}

static bool all_wait(void)
{
    unsigned others = 0, over = 0;
    bool late = false;

    for (unsigned i = 0; i < SHARERS; i++) {
        const struct sharer_model *s = &world.sharer[i];

        if (!holds(s))
            continue;
        if (!s->over && count_waits(s) == 0)
            return false;
        over += s->over;
        others += !s->over;
        late |= s->came > world.ended;
    }
    return !late || (over > 0 && others <= 1);
}

static void note_end(const struct sharer_model *s, bool ended)
{
    unsigned others = 0;

    for (unsigned i = 0; i < SHARERS; i++)
        others += holds(&world.sharer[i]) && !world.sharer[i].over;
    if (!ended && others > 1)
        return;
    world.ended = ++world.now;
    world.ended_pid = s->pid;
}

static void come(struct sharer_model *s)
{
    s->came = ++world.now;
}

/* --- npud --- */

static void end_wait(struct wait *w, int error, int pid)
{
    AWAIT((npud_turn(), client_passed(w->stream, w->position))); /* an engine asks npud */
    ck_assert_msg(stream_error_code(client_error(w->stream)) == error, "%d, expected %d",
                  stream_error_code(client_error(w->stream)), error);
    ck_assert_int_eq(stream_error_pid(client_error(w->stream)), pid);
    stream_free(w->stream);
    w->stream = NULL;
}

/* What npud has to do by itself is done, and no engine is at it. */
static void settle(void)
{
    struct device *d = devices_get(server.devices, 0);

    for (unsigned i = 0; i < 3 || schedule_busy(&server.schedule); i++) {
        npud_turn();
        engine_lock(d->engine);
        engine_unlock(d->engine);
    }
}

static void tell_waits(void)
{
    for (unsigned i = 0; i < SHARERS; i++)
        for (unsigned k = 0; k < WAITS; k++)
            if (world.sharer[i].wait[k].stream)
                end_wait(&world.sharer[i].wait[k], TOLD, world.ended_pid);
}

/* Programs that have finalized are over when nothing of them waits. True: some are only now. */
static bool finish_finalized(void)
{
    bool any = false;

    for (unsigned i = 0; i < SHARERS; i++) {
        struct sharer_model *s = &world.sharer[i];

        if (!s->finalized || s->over || count_waits(s) > 0)
            continue;
        s->over = any = true;
    }
    return any;
}

static unsigned all_waits(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SHARERS; i++)
        n += count_waits(&world.sharer[i]);
    return n;
}

static bool anybody_holds(void)
{
    for (unsigned i = 0; i < SHARERS; i++)
        if (holds(&world.sharer[i]))
            return true;
    return false;
}

/* npud and the model say the same of all waits. */
static void compare(void)
{
    do {
        settle();
        finish_finalized();
        settle();
        if (world.ended != 0 && all_waits() > 0 && all_wait())
            tell_waits();
    } while (finish_finalized());
    settle();
    if (anybody_holds())
        ck_assert_uint_eq(atomic_load(&world.pages->values.n), all_waits());
}

/* --- acts --- */

static struct sharer_model *any_holder(void)
{
    struct sharer_model *s = &world.sharer[draw(SHARERS)];

    return holds(s) ? s : NULL;
}

static unsigned any_name(const struct sharer_model *s)
{
    unsigned i = draw(NAMES);

    while (!s->name[i])
        i = (i + 1) % NAMES;
    return i;
}

static void act_import(void)
{
    struct sharer_model *s = &world.sharer[draw(SHARERS)];
    unsigned i = draw(NAMES);

    if (!world.export || s->name[i] || s->finalized) /* what it gets later counts as ever */
        return;
    if (!s->session) {
        s->pid = ++world.pids;
        s->session = npud_session(s->pid);
    }
    if (!holds(s))
        come(s);
    ck_assert_int_eq(memory_export_import(s->session,
                                          (struct export_name){.number = world.export->number},
                                          &s->name[i]),
                     0);
}

static void act_wait(void)
{
    struct sharer_model *s = any_holder();
    struct wait *w = s ? &s->wait[draw(WAITS)] : NULL;
    uint32_t n = atomic_load(&world.pages->values.n);

    if (!w || w->stream || s->finalized)
        return;
    w->name = any_name(s);
    w->word = 8 * (1 + world.words++ % 1000);
    w->stream = npud_stream(s->session, 0);
    w->position =
        client_submit(w->stream, (struct task){.op = TASK_VALUE_WAIT,
                                               .flags = 1,
                                               .object = s->name[w->name]->slot.number,
                                               .generation = slot_generation(s->name[w->name]),
                                               .value = {w->word, 7}});
    if (world.ended == 0 || !all_wait())
        AWAIT(atomic_load(&world.pages->values.n) == n + 1);
}

/* By the memory itself, as a thread of any holder does, which tells npud. */
static void act_write(void)
{
    struct sharer_model *s = any_holder(), *other = any_holder();
    struct wait *w = other ? &other->wait[draw(WAITS)] : NULL;
    _Atomic uint64_t *word;

    if (!s || !w || !w->stream)
        return;
    word = memory_at(s->name[any_name(s)], w->word);
    atomic_store(word, 7);
    value_written(s->name[any_name(s)], w->word, 8);
    end_wait(w, 0, 0);
    atomic_store(word, 0);
}

static void act_give_up(void)
{
    struct sharer_model *s = any_holder();
    unsigned i = s ? any_name(s) : 0;
    bool of_maker;

    if (!s)
        return;
    of_maker = world.export && s->name[i] == world.export->mem;
    allocation_free(s->name[i]);
    s->name[i] = NULL;
    if (of_maker)
        world.export = NULL;
    for (unsigned k = 0; k < WAITS; k++)
        if (s->wait[k].stream && s->wait[k].name == i)
            end_wait(&s->wait[k], GIVEN_UP, 0);
    if (!holds(s) && anybody_holds())
        note_end(s, false);
}

static void act_die(void)
{
    struct sharer_model *s = any_holder();
    int pid = s ? s->pid : 0;

    if (!s)
        return;
    if (s == world.maker)
        world.export = NULL;
    if (s == world.maker)
        world.maker = NULL;
    session_free(s->session);
    *s = (struct sharer_model){.pid = pid};
    if (anybody_holds())
        note_end(s, true);
}

static void act_finalize(void)
{
    struct sharer_model *s = any_holder();

    if (!s || s->finalized)
        return;
    ck_assert_int_eq(session_idle_begin(s->session), CAUSE_NONE);
    s->finalized = true;
    note_end(s, true);
}

static void act_come_back(void)
{
    struct sharer_model *s = any_holder();

    if (!s || !s->finalized)
        return;
    ck_assert(session_idle_end(s->session));
    s->finalized = s->over = false;
    come(s);
}

/* The maker says that it goes on alone, or expects others. */
static void act_say(void)
{
    if (!world.export)
        return;
    memory_export_free(world.export);
    world.export = NULL;
    for (unsigned i = 0; i < NAMES; i++)
        if (world.maker->name[i] && !world.maker->name[i]->imported) {
            ck_assert_int_eq(
                memory_export_new(world.maker->name[i], BYTES, true, true, &world.export), 0);
            world.ended = 0;
        }
}

static void (*const acts[])(void) = {
    act_import,  act_import,  act_import, act_wait, act_wait,     act_wait,      act_write,
    act_give_up, act_give_up, act_die,    act_say,  act_finalize, act_come_back,
};

static void begin_world(unsigned seed)
{
    struct sharer_model *maker = &world.sharer[0];

    memset(&world, 0, sizeof(world));
    world.seed = seed;
    world.pids = 100;
    maker->pid = ++world.pids;
    maker->session = npud_session(maker->pid);
    come(maker);
    ck_assert_int_eq(allocation_new(maker->session, devices_get(server.devices, 0), MEM_DEVICE,
                                    BYTES, &maker->name[0]),
                     0);
    world.maker = maker;
    world.pages = maker->name[0]->pages;
    ck_assert_int_eq(memory_export_new(maker->name[0], BYTES, true, true, &world.export), 0);
}

static void end_world(void)
{
    for (unsigned i = 0; i < SHARERS; i++)
        if (world.sharer[i].session)
            session_free(world.sharer[i].session);
    settle();
}

START_TEST(as_the_model_says)
{
    unsigned rounds = choose_effort(40, 3000), told = 0;

    for (unsigned round = 0; round < rounds; round++) {
        npud_start(settings);
        begin_world(1 + (unsigned)_i * 100000 + round);
        for (unsigned i = 0; i < ACTS && anybody_holds(); i++) {
            unsigned waits;

            acts[draw(sizeof(acts) / sizeof(acts[0]))]();
            waits = all_waits();
            if (anybody_holds())
                compare();
            told += waits > all_waits();
        }
        end_world();
        ck_assert_ptr_null(server.memory_exports->sharers);
        npud_stop();
    }
    ck_assert_uint_gt(told, rounds / 2); /* it has looked at something */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sharers");
    TCase *t = suite_case(s, "model", 300, NULL, NULL);

    tcase_add_loop_test(t, as_the_model_says, 0, 4);
    return run_suite(s);
}
