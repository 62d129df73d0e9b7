/*
 * Fault injection: rules by which tasks fail, are held, or lose their device, set with `npuctl
 * inject`. They belong to npud, not to a session, and end with it.
 *
 * The control thread sets and clears rules under the locks of all engines. While a rule may be for
 * tasks of a device, device->inject is set and its engine executes tasks through inject_execute();
 * without rules device->detour is all it looks at. Engines count under a lock of the rules' own,
 * because a rule may be for several devices.
 *
 * What a rule hits is the same in every run of a program that does the same: while there are rules,
 * clients make a task of every record, reset and wait (doorbell.h: STRICT). A rule counts tasks in
 * the order in which they are executed, which for tasks of several streams is the program's to fix.
 * A random rule does not even depend on that: it draws from its seed, which stream of its session
 * it is, and which of its tasks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/waitlist.h"
#include "daemon/core/cause.h"
#include "daemon/engine/run.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/rule_record.h"

struct server;
struct stream;
struct Npud__Inject;

#define INJECT_RULES_MAX 64

enum inject_action {
    INJECT_FAIL,
    INJECT_STALL,
    INJECT_LOSE_DEVICE,
};

/** What was asked for, with what was not given as it is taken. */
struct inject_spec {
    enum inject_action action;
    uint64_t ops;       /* bit per op that it is for */
    const char *kind;   /* their name; NULL: any */
    uint64_t session;   /* 0: any */
    int32_t device;     /* -1: any */
    int32_t stream;     /* id; -1: any */
    uint64_t nth;       /* hits none of the tasks before */
    uint64_t count;     /* hits that many; 0: no end */
    int32_t code;       /* that tasks fail with; 0: they are held */
    double probability; /* 0: always */
    uint64_t seed;
    bool at_once; /* lose-device: waits for no task */
};

struct inject_rule {
    uint64_t id;             /* 0: the place is free */
    struct inject_spec spec; /* constant */
    struct waitlist held;    /* streams that it holds */
    struct kept kept;
    struct rule_live *live; /* kept/rule_record.h */
};

/** The device that it has lost; -1: none. */
static inline int32_t inject_lost(const struct inject_rule *rule)
{
    return (int32_t)atomic_load_explicit(&rule->live->lost, memory_order_relaxed) - 1;
}

struct inject {
    pthread_mutex_t lock;
    /*
     * Never freed nor moved: a stream that is about to go on may still name the list that held it.
     */
    struct inject_rule rule[INJECT_RULES_MAX];
    struct inject_rule *order[INJECT_RULES_MAX]; /* the rules there are, as they were set */
    uint32_t n;
};

void inject_init(struct inject *inject);
/** No stream may be left. */
void inject_deinit(struct inject *inject);

/**
 * Set a rule, *id. Control thread. When the table is full, the oldest rule that is used up makes
 * room. If the rule loses a device at once, it is certain (kept_commit()) with all that the step
 * has changed before.
 */
enum cause inject_set(struct server *server, const struct Npud__Inject *in, uint64_t *id);

/** Clear a rule, or all of them (id 0): what it holds goes on, the device it has lost is back. */
enum cause inject_clear(struct server *server, uint64_t id);

/** Append the kinds of tasks to a sentence, as they are typed. */
void inject_append_kinds(char *text, size_t size);

/** Engine, in place of execute_task() while device->inject is set. */
enum run_result inject_execute(struct stream *stream, uint64_t now);
/** Recovery: if a rule holds the current task of stream, it does so again. Rules are there. */
bool inject_restore(struct inject *inject, struct stream *stream);

/** The rule whose list of held streams this is, or NULL. */
const struct inject_rule *inject_holder(const struct inject *inject, const struct waitlist *list);

/**
 * A rule in words: which tasks it is for ("copy tasks of session 3"), which of them it hits, what
 * then happens, and how it stands.
 */
void inject_describe_tasks(const struct inject_rule *rule, char *buf, size_t size);
void inject_describe_which(const struct inject_rule *rule, char *buf, size_t size);
void inject_describe_effect(const struct inject_rule *rule, char *buf, size_t size);
void inject_describe_state(const struct inject_rule *rule, char *buf, size_t size);
extern const char *const inject_action_names[];
