/*
 * The stage for tests of hand-overs: processes that use the library at random, die, stop and lose
 * their sessions at random, and a director that is no client itself.
 *
 * A life is one thread of a process on the stage. Each life notes in shared memory in which call of
 * the library it is, and since when. If nothing moves any more, the director prints what all lives
 * are doing and gives up. Nothing else depends on time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/common/actor.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define LIVES        4096u /* of one round */
#define THREADS      4u    /* of one process */
#define WITHOUT_END  (-1)
#define STATUS_BROKE 3 /* exit status of a process that has seen a wrong result */

enum ending {
    GOES_ON,
    SESSION_ENDED, /* by npuctl kill, which is on its way or has been */
    FINALIZED,     /* by itself, beside its other threads */
};

/** What is known of one thread of a process on the stage. */
struct life {
    _Atomic int32_t pid, tid;
    _Atomic(const char *) call; /* text of the call that it is in; NULL: in code of its own */
    _Atomic int64_t about;      /* what the call is about: the number of a queue, an event, ... */
    _Atomic int32_t limit_ms;   /* time limit of the call, or WITHOUT_END */
    _Atomic uint64_t since;     /* when the call began, or the process was continued */
    _Atomic uint64_t calls;
    _Atomic uint64_t moves;  /* hand-overs that it has completed */
    _Atomic uint32_t ending; /* enum ending */
    _Atomic uint32_t over;   /* the thread or its process has ended */
    _Atomic uint32_t stopped;
    char role[24];
};

/** Shared by the director and all on the stage. */
struct stage {
    _Atomic uint32_t hold; /* begin nothing new */
    _Atomic uint32_t stop; /* come to an end */
    _Atomic uint32_t lives;
    _Atomic uint32_t broke; /* what is wrong has been noted */
    char wrong[400];
    struct life life[LIVES];
};
extern struct stage *stage;

/** Map the stage. Before any process is started. */
void stage_open(void);
/**
 * Rounds, `least` or more, for as long as stage_main() was told. After each, npud has given its
 * descriptors back. Prints how many there were, and what npud's memory has grown by since the
 * second.
 */
void stage_run(unsigned least, void (*run_round)(void));
/**
 * main() of a program with one test, which runs for so many seconds in make check and in
 * check-long, or for HANDOVER_SECONDS.
 */
int stage_main(const char *name, const TTest *test, unsigned brief, unsigned full);
/** Forget all lives, which have ended. */
void stage_clear(void);
/** The seed of the run: from the environment (HANDOVER_SEED), or a new one. Printed. */
uint64_t stage_seed(void);
/** A new memory that all processes started from now on share. */
void *stage_share(size_t size);

/* --- on the stage --- */

/** The life that the calling thread leads. */
extern _Thread_local struct life *self;

/** Begin and end a life. */
void life_begin(uint32_t number);
void life_over(void);

void life_enters(const char *call, int64_t about, int32_t limit_ms);
aclError life_leaves(aclError r);

/** A call of the library, noted: what it is about, its time limit in ms, the call. */
#define CALL(about, limit_ms, call)                                                                \
    (life_enters(#call, (int64_t)(about), (limit_ms)), life_leaves(call))

/** Is its session ended, or about to be? What it sees from now on counts for less. */
static inline bool life_ends(void)
{
    return atomic_load(&self->ending) != GOES_ON;
}

/** Something is wrong: note it, and end the process. */
void broke(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
#define BROKE(...) broke(__FILE__, __LINE__, __VA_ARGS__)
#define HOLDS(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what))                                                                               \
            BROKE(__VA_ARGS__);                                                                    \
    } while (0)
/** A call that must succeed. */
#define WELL(about, call)                                                                          \
    do {                                                                                           \
        aclError w_ = CALL(about, 0, call);                                                        \
        HOLDS(w_ == 0, "%s: %d: %s", #call, w_, aclGetRecentErrMsg());                             \
    } while (0)

/**
 * Judge the result of a call. True: it went well. False: the session has ended, and the call says
 * so; anything else is wrong.
 */
bool life_judges(aclError r, const char *what);

/* --- the director --- */

/** One process on the stage. */
struct player {
    struct actor actor; /* it takes no orders: its socket is not used */
    uint32_t first, n;  /* its lives */
    bool stopped;
    uint64_t until; /* when it is to be continued */
    bool ended;     /* its session was */
    uint64_t seed;
};

/** Start a process with n threads. main runs in it; its result is the exit status. */
void player_start(struct player *p, const char *role, unsigned n, uint64_t seed,
                  int (*main)(struct player *p));
/** SIGKILL, and reap. False: it had ended by itself. */
bool player_kill(struct player *p);
/** Has it ended by itself? Then it is reaped. */
bool player_left(struct player *p);
void player_stop(struct player *p, uint64_t until);
void player_continue(struct player *p);
/** End its session by npuctl. False: it has none (yet, or any more). */
bool player_end_session(struct player *p);

/**
 * Look at all lives, continue each player whose time has come, and reap each that has ended by
 * itself: `left` is told of those (or NULL). `start` starts each that is not there (NULL: none).
 */
void players_look_after(struct player *players, unsigned n, void (*left)(struct player *p),
                        void (*start)(unsigned i));
/** Continue all that are there. */
void players_continue(struct player *players, unsigned n);
/** Have all been reaped? */
bool players_are_over(const struct player *players, unsigned n);

/** What the test has to say when something hangs; or NULL. */
extern void (*stage_tell)(void);
/** Print what all lives are doing, and what npud says. */
void stage_dump(void);
/** Abort if one of them has seen a wrong result, or if a call is far beyond its limit. */
void stage_look(void);
/** Wait for a condition. If nothing moves for long, print what all lives are doing, and abort. */
void stage_await(bool (*holds)(void *arg), void *arg, const char *what);
/** All that one may wait for within that time is done once. */
void stage_rest(unsigned ms);
