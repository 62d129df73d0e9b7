/*
 * Helper processes: this program again, asleep unless told to play a game on memory that it shares
 * with the process that measures.
 *
 * Baselines are played by a pair of helpers, not by the measuring process and one: each side of a
 * contest has processes of its own, so that the scheduler places them as it would if there were no
 * other side. (With a process in common the other two end on different CPUs, and one side pays for
 * waking a halted CPU where the other does not: a factor of four either way.)
 */
#pragma once

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl.h"

#define IPC_EVENTS 4 /* per direction: see row_ipc.c */

enum game {
    GAME_SPIN,         /* both spin on shared memory */
    GAME_FUTEX,        /* both sleep on futexes */
    GAME_RELAY,        /* the same, but a third process wakes them: see relay.c */
    GAME_PACKET,       /* packets there and back, every second answer with a descriptor */
    GAME_PACKET_PLAIN, /* without */
    GAME_IPC,          /* both sleep in aclrtSynchronizeEvent */
    GAME_OVER,
};

/* Where a helper gets its orders. The first of a pair begins and takes the time. */
enum { SEAT_FIRST, SEAT_SECOND, SEATS };

struct seat {
    alignas(64) _Atomic uint32_t command;  /* futex: counts the games */
    uint32_t game, warm_up, rounds;        /* of the latest command */
    int32_t cpu;                           /* as for pin() */
    alignas(64) _Atomic uint32_t finished; /* futex: counts the games */
    uint64_t sleeps;                       /* voluntary context switches in the latest game */
    uint64_t ns;                           /* of its rounds, without warm-up */
};

struct page {
    struct seat seat[SEATS];
    alignas(64) _Atomic uint32_t ping;
    alignas(64) _Atomic uint32_t pong;
    alignas(64) _Atomic uint32_t relay_mode; /* enum relay_mode */
    alignas(64) _Atomic uint32_t relay_bell; /* futex: a relay that sleeps is woken here */
    alignas(64) _Atomic uint32_t relay_in[2];
    alignas(64) _Atomic uint32_t relay_out[2]; /* futexes: of the second, of the first */
    /* GAME_IPC */
    alignas(64) _Atomic uint32_t ready;   /* futex: the second is set up */
    alignas(64) _Atomic uint32_t handles; /* futex: the first has exported its events */
    aclrtIpcEventHandle handle[2][IPC_EVENTS];
};

struct helper {
    struct page *page;
    struct seat *seat;
    pid_t pid;
};

struct pair {
    struct page *page;
    struct helper first, second;
};

/** Shared memory for helpers, and the descriptor that they inherit. */
struct page *page_new(int *fd);
void page_free(struct page *page);

/**
 * fd: of the page. socket: inherited as well, for the packet games; else -1, and the helper is a
 * client of npud, for GAME_IPC alone.
 */
void helper_start(struct helper *helper, struct page *page, int seat, int fd, int socket);
void helper_command(struct helper *helper, enum game game, unsigned warm_up, unsigned rounds);
void helper_wait(struct helper *helper);
void helper_stop(struct helper *helper);

void pair_start(struct pair *pair);
/** Clients of the npud that the environment names at this moment: for GAME_IPC. */
void pair_start_ipc(struct pair *pair);
void pair_stop(struct pair *pair);

/** Nanoseconds per round. */
double pair_play(struct pair *pair, enum game game, unsigned warm_up, unsigned rounds);

/** What `bench --helper` does. */
int helper_main(char **argv);

/* --- raw primitives --- */

void futex_sleep(_Atomic uint32_t *word, uint32_t seen);
void futex_wake(_Atomic uint32_t *word);
void futex_wake_all(_Atomic uint32_t *word);

/** Store value in word and wake the threads that sleep on it. */
void tell(_Atomic uint32_t *word, uint32_t value);

/** Sleep until word, which counts up by ones, is value. */
void sleep_until(_Atomic uint32_t *word, uint32_t value);
/** Between two looks of a side that polls. */
void relax(void);

/** With one CPU, what this side polls for comes only when the other side has it. */
extern bool one_cpu;
static inline void let_other_run(void)
{
    if (__builtin_expect(one_cpu, 0))
        sched_yield();
}

/** Run the calling thread only on the nth of the CPUs that it began with; -1: on any of them. */
void pin(int nth);
int cpu_count(void);

/** Voluntary context switches of the calling thread so far. */
uint64_t sleeps_so_far(void);

/* --- relay.c --- */

enum relay_mode { RELAY_OFF, RELAY_SPINS, RELAY_SLEEPS, RELAY_END };

/** Fork the process that relays. */
pid_t relay_start(struct page *page);
void relay_stop(struct page *page, pid_t pid);
void relay_set(struct page *page, enum relay_mode mode);
void relay_play(struct page *page, unsigned rounds, bool first);

/* --- parts of helpers that live with their rows --- */

void packet_play(int socket, unsigned rounds, bool first, bool with_fd);
void ipc_setup(struct page *page, bool first);
void ipc_play(unsigned rounds, bool first);
