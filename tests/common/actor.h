/*
 * Actors: processes of a test that do, order by order, what the test asks of them. The test directs
 * and is no client of npud itself, so it knows which call of which process came before which.
 *
 * An actor is a fork of the test. Orders and answers are packets on a socket pair, whose contents
 * the test chooses. What all of its actors share it allocates first, with child_share().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct actor {
    pid_t pid; /* 0: not started, or reaped */
    int fd;    /* the test's end of the socket pair */
};

/**
 * Start an actor. main(fd, arg) runs in it: it takes orders from fd until the test closes its end,
 * and its result is the exit status. The actor dies with the test. Start actors before the test
 * uses the library.
 */
void actor_start(struct actor *a, int (*main)(int fd, void *arg), void *arg);

/** Send an order. False: the actor has ended. */
bool actor_tell(struct actor *a, const void *order, size_t size);
/** Has the actor answered? Waits up to ms for it. False also when it has ended. */
bool actor_answered(struct actor *a, int ms);
/**
 * Take its answer, and wait up to ms for it. Returns the size of the answer; 0: there is none,
 * because the actor has ended or does not answer.
 */
size_t actor_answer(struct actor *a, void *answer, size_t size, int ms);

/* For an actor whose orders all mean the same, "do the next step". */
/** Let it do the next step. */
void actor_next_step(struct actor *a);
/** Wait until it has done one. Fails at once when it has ended. */
void actor_await_step(struct actor *a);
/** In the actor: wait for the order, and say that the step is done. */
void step_await(int fd);
void step_done(int fd);

/** Stop it, as by Ctrl-Z, and let it go on. */
void actor_stop(struct actor *a);
void actor_continue(struct actor *a);

/** Close its socket, wait for its end, and assert that it exited with status 0. */
void actor_end(struct actor *a);
/** Kill it with SIGKILL, and reap it: its status, as of waitpid(). */
int actor_kill(struct actor *a);
/** It has died by SIGKILL, or is about to: reap it. */
void actor_reap_killed(struct actor *a);
/** Reap it if it has ended: then true, and its status. */
bool actor_reap_if_ended(struct actor *a, int *status);

/** The letter of its state in /proc, 'S' when it sleeps; 0: there is no such process. */
char actor_state(const struct actor *a);
