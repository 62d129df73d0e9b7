/*
 * A case of the kill test: one victim that dies at one point of one role, and the processes that
 * watch it. See test_kill.c.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/common/actor.h"
#include "tests/common/harness.h"
#include "tests/kill/kill_switch.h"

#define OBSERVERS 2
#define WAITERS   4 /* threads of each */

/*
 * IPC events: the victim's; the one under test, made by the victim or by the first observer; the
 * first observer's.
 */
enum { BASE, EVENT, FOREIGN, N_EVENTS };

/** Shared by all processes of the case. */
struct shared {
    struct kill_switch kill;
    aclrtIpcEventHandle handle[N_EVENTS];
    char export_key[65];       /* the first observer's, which a stream of its waits for */
    _Atomic uint64_t death_ns; /* when the parent had reaped it */
    _Atomic int32_t victim;
    /* from the death to a waiter's return, but for time without a CPU */
    _Atomic uint64_t slowest_ns;
};
extern struct shared *shared;

/** What the victim does when it dies. */
struct role {
    const char *name;
    void (*prepare)(void); /* before the points count */
    void (*act)(void);
    const char *sleeps_in; /* the function that does not return */
    bool shares;           /* it uses EVENT, which may be its own or another's */
    bool alone;            /* it has no events that others wait for */
    bool completes;        /* it may complete a record of EVENT */
    bool before_connect;
    bool notifies; /* it uses the first observer's notify */
    bool varies;   /* whether it sleeps on its way is up to the engine */
    bool launches; /* a kernel of the host, which devices that are away have not */
};
extern const struct role roles[];
extern const size_t n_roles;

struct kill_case {
    const struct role *role;
    bool victim_creates; /* EVENT */
    int observer;        /* which one this process is */
};

/** Each process has its own. */
extern aclrtEvent events[N_EVENTS];
void event_make(int i);
void event_open(int i);

/** main() of the actors, which go step by step; arg: struct kill_case. */
int victim_main(int fd, void *arg);
int observer_main(int fd, void *arg);
