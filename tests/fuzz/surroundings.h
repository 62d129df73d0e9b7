/*
 * What npud asks the kernel, answered by the target: the same in every run. The linker leads the
 * calls of npud's own objects here (-Wl,--wrap, see mk/fuzz.mk); while `surroundings.on` is false
 * they go to libc as ever.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

extern struct surroundings {
    bool on;
    uint64_t now;    /* CLOCK_MONOTONIC */
    uint64_t tick;   /* how long a look at it takes, in ns; see cost_clock(), too */
    uint64_t random; /* state of what getrandom() answers */
    uint32_t fail;   /* the fail-th allocation or descriptor from now on is refused; 0: none */
    /* The process at the other end of a socket. */
    pid_t peer_pid;
    uid_t peer_uid;
    int (*find_process)(pid_t pid); /* what stands for its pidfd, or -1; NULL: there is none */
    int peer_death;                 /* stands for the pidfd: becomes readable when the peer dies */
    void (*meanwhile)(
        void); /* what another process does just when a stream has begun to wait; NULL: nothing */
} surroundings;

/** As at the beginning of every input. */
void surroundings_reset(void);
