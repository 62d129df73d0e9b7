/*
 * One interleaving after the other. Actors are coroutines. Each atomic operation of the headers and
 * sources that are included after this file is a step: a place where another actor may go on, or
 * where one is killed. A run is what its plan says, and the same every time.
 *
 * What this cannot find is what takes two CPUs that see stores in different orders: tests/order.
 *
 * The test defines interleave_prepare(), interleave_judge(), interleave_died(),
 * interleave_swapped() and interleave_describe(). All system headers come before this file.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "proto/util/futex.h"

#include "unit.h"

#define ACTORS_MAX   6
#define SWITCHES_MAX 8
#define STACK        (64u << 10)
#define STEPS_MAX    100000

/** What a run goes by. */
struct plan {
    unsigned first;
    unsigned n; /* switches */
    struct {
        uint32_t step; /* of the run */
        unsigned to;   /* this actor goes on there, if it can */
    } at[SWITCHES_MAX];
    int victim;         /* the actor that is killed; -1: none */
    uint32_t kill_step; /* of the victim's own */
};

struct actor {
    void (*run)(void);
    uint32_t steps;
    bool done, dead;
    bool mortal;       /* it may be killed */
    unsigned safe;     /* > 0: what it does now is npud's work, and ends whether it dies or not */
    const void *futex; /* it sleeps on this word, until it is woken */
    bool (*awaits)(void *); /* it waits until this holds */
    void *awaits_arg;
};

static struct {
    struct actor actor[ACTORS_MAX];
    unsigned n, current;
    unsigned held; /* > 0: a lock is held, and the others have to wait for it */
    uint32_t steps;
    unsigned next_switch;
    bool running;
} cast;

static struct plan plan;
static ucontext_t scheduler, contexts[ACTORS_MAX];
static alignas(4096) unsigned char stacks[ACTORS_MAX][STACK];

/* What the operations of interleave_steps.h call. */
void interleave_step(void);
void interleave_wake(const void *word);
void interleave_lock(void);
void interleave_unlock(void);
void interleave_swapped(const void *word, uint64_t value); /* a swap was successful */

static void interleave_prepare(void); /* calls actor_add() */
static void interleave_judge(void);
static void interleave_died(unsigned actor);
static const char *interleave_describe(void);

static inline char *plan_text(void)
{
    static char text[512];
    int used = snprintf(text, sizeof(text), "%s: first %u, victim %d at %u, switches",
                        interleave_describe(), plan.first, plan.victim, plan.kill_step);

    for (unsigned i = 0; i < plan.n; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %u->%u", plan.at[i].step,
                         plan.at[i].to);
    return text;
}

#define SURE(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s; plan: %s", #condition, plan_text());                                 \
    } while (0)

static inline struct actor *actor_self(void)
{
    return &cast.actor[cast.current];
}

static inline bool actor_can_go_on(const struct actor *a)
{
    return !a->done && !a->dead && !a->futex && (!a->awaits || a->awaits(a->awaits_arg));
}

static inline void switch_to(unsigned to)
{
    unsigned from = cast.current;

    if (to == from)
        return;
    cast.current = to;
    swapcontext(&contexts[from], &contexts[to]);
}

/** Another actor must go on in place of the current one. The run is over if none can. */
static inline void switch_away(void)
{
    for (unsigned i = 0; i < cast.n; i++) {
        unsigned to = (plan.first + i) % cast.n;

        if (actor_can_go_on(&cast.actor[to])) {
            switch_to(to);
            return;
        }
    }
    swapcontext(&contexts[cast.current], &scheduler);
}

void interleave_step(void)
{
    struct actor *a = actor_self();

    if (!cast.running || cast.held > 0)
        return;
    SURE(++cast.steps < STEPS_MAX);
    a->steps++;
    if ((int)cast.current == plan.victim && a->steps >= plan.kill_step && a->mortal &&
        a->safe == 0) {
        a->dead = true;
        interleave_died(cast.current);
        switch_away();
    }
    if (cast.next_switch < plan.n && cast.steps >= plan.at[cast.next_switch].step) {
        unsigned to = plan.at[cast.next_switch++].to;

        if (to < cast.n && actor_can_go_on(&cast.actor[to]))
            switch_to(to);
    }
}

/**
 * Sleep until the word is woken, unless it has changed. As the system call: it can be killed there.
 */
static inline void actor_sleep(const _Atomic uint32_t *word, uint32_t seen)
{
    struct actor *a = actor_self();

    interleave_step();
    if (*word != seen)
        return;
    a->futex = (const void *)word;
    switch_away();
    interleave_step();
}

void interleave_wake(const void *word)
{
    for (unsigned i = 0; i < cast.n; i++)
        if (cast.actor[i].futex == word)
            cast.actor[i].futex = NULL;
}

/** Wait until it holds. */
static inline void actor_await(bool (*holds)(void *arg), void *arg)
{
    struct actor *a = actor_self();

    interleave_step();
    if (holds(arg))
        return;
    a->awaits = holds;
    a->awaits_arg = arg;
    switch_away();
    a->awaits = NULL;
}

static inline void actor_main(void)
{
    struct actor *a = actor_self();

    a->run();
    a->done = true;
    switch_away();
    abort();
}

void interleave_lock(void)
{
    interleave_step();
    cast.held++;
}

void interleave_unlock(void)
{
    cast.held--;
}

static inline struct actor *actor_add(void (*run)(void))
{
    struct actor *a = &cast.actor[cast.n];
    ucontext_t *context = &contexts[cast.n];

    *a = (struct actor){.run = run};
    /* A system call, so only once: what the last run has left serves as well. */
    if (!context->uc_stack.ss_sp)
        getcontext(context);
    context->uc_stack.ss_sp = stacks[cast.n];
    context->uc_stack.ss_size = STACK;
    makecontext(context, actor_main, 0);
    cast.n++;
    return a;
}

/* --- runs --- */

/* Returns how many steps it took. */
static inline uint32_t interleave_run(void)
{
    cast.n = cast.held = cast.steps = cast.next_switch = 0;
    interleave_prepare();
    cast.running = true;
    cast.current = plan.first % cast.n;
    swapcontext(&scheduler, &contexts[cast.current]);
    cast.running = false;
    SURE(cast.held == 0);
    interleave_judge();
    return cast.steps;
}

/* Of a run without switches and without a death, in which this actor begins. */
static inline uint32_t interleave_length(unsigned first)
{
    plan = (struct plan){.first = first, .victim = -1};
    return interleave_run();
}

/* One switch anywhere, and a second one every `stride` steps, from `offset` on. */
static inline uint64_t pass_switches(uint32_t stride, uint32_t offset, uint64_t end)
{
    uint64_t runs = 0;

    for (unsigned first = 0; first < cast.n; first++) {
        uint32_t length = interleave_length(first);

        plan.n = 2;
        for (plan.at[0].to = 0; plan.at[0].to < cast.n; plan.at[0].to++)
            for (plan.at[1].to = 0; plan.at[1].to < cast.n; plan.at[1].to++)
                for (plan.at[0].step = 1; plan.at[0].step < length; plan.at[0].step++)
                    for (plan.at[1].step = plan.at[0].step + 1 + offset; plan.at[1].step < length;
                         plan.at[1].step += stride) {
                        interleave_run();
                        if (++runs % 64 == 0 && clock_ns() > end)
                            return runs;
                    }
    }
    return runs;
}

/* Each place of each victim's death, with one switch every `stride` steps, from `offset` on. */
static inline uint64_t pass_kills(uint32_t stride, uint32_t offset, uint64_t end)
{
    uint64_t runs = 0;

    for (int victim = 0; victim < (int)cast.n; victim++) {
        bool died = cast.actor[victim].mortal;
        uint32_t length = interleave_length(0);

        plan.n = 1;
        plan.victim = victim;
        for (plan.kill_step = 1; died; plan.kill_step++) {
            died = false;
            for (plan.at[0].to = 0; plan.at[0].to < cast.n; plan.at[0].to++)
                for (plan.at[0].step = 1 + offset; plan.at[0].step < length;
                     plan.at[0].step += stride) {
                    plan.first = plan.at[0].step / stride % cast.n;
                    interleave_run();
                    died |= cast.actor[victim].dead;
                    if (++runs % 64 == 0 && clock_ns() > end)
                        return runs;
                }
        }
    }
    return runs;
}

typedef uint64_t pass_fn(uint32_t stride, uint32_t offset, uint64_t end);

/*
 * Strides become finer from pass to pass, so that little time is spread over all of a run. They are
 * powers of two, so that each plan belongs to exactly one pass.
 */
static inline uint64_t explore_passes(pass_fn *pass, uint64_t end)
{
    uint32_t length = interleave_length(0), longest = 1;
    uint64_t runs = 0;

    while (longest < length)
        longest *= 2;
    for (uint32_t stride = longest; stride > 1 && clock_ns() < end; stride /= 2)
        runs += pass(stride, stride / 2, end);
    if (clock_ns() < end)
        runs += pass(longest, 0, end);
    return runs;
}

/*
 * The ways to explore. Each goes on until `end`, a time of clock_ns(), or until it has run all of
 * its plans, and returns the number of runs.
 */

/** All plans with two switches, without a death. */
static inline uint64_t explore_switches(uint64_t end)
{
    return explore_passes(pass_switches, end);
}

/** Each place of each mortal actor's death, with one switch. */
static inline uint64_t explore_kills(uint64_t end)
{
    return explore_passes(pass_kills, end);
}

/* A mortal actor, or -1. */
static inline int random_victim(uint64_t *rng)
{
    unsigned mortal[ACTORS_MAX], n = 0;

    for (unsigned i = 0; i < cast.n; i++)
        if (cast.actor[i].mortal)
            mortal[n++] = i;
    return n > 0 ? (int)mortal[random_below(rng, n)] : -1;
}

/**
 * Random plans with more switches, and a death if there is a mortal actor. They never run out, and
 * there are at least 64 of them.
 */
static inline uint64_t explore_random(uint64_t end)
{
    uint64_t rng = 88172645463325252u, runs = 0;
    uint32_t length = interleave_length(0);

    for (; runs == 0 || runs % 64 != 0 || clock_ns() < end; runs++) {
        uint32_t at = 0;

        plan.first = random_below(&rng, cast.n);
        plan.n = 1 + random_below(&rng, SWITCHES_MAX);
        for (unsigned i = 0; i < plan.n; i++) {
            at += 1 + random_below(&rng, 2 * length / plan.n);
            plan.at[i].step = at;
            plan.at[i].to = random_below(&rng, cast.n);
        }
        plan.victim = random_victim(&rng);
        plan.kill_step = 1 + random_below(&rng, length);
        interleave_run();
    }
    return runs;
}

/* From here on each atomic operation is a step. */
#include "tests/unit/interleave_steps.h"
