/*
 * Descriptors that outlive npud: the keeper has a copy of each, under a key that records name it
 * by. npud itself names them by their numbers: which key a number has is known here.
 *
 * Order: kept_fd() before the record that names the key is committed, and the keeper lets go after
 * the commit in which no record names it any more. What the keeper has and no record names is let
 * go of at the next start.
 *
 * Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/keeper_link.h"
#include "daemon/kept/layout.h"

/** The descriptor outlives npud, from here on. Returns its key; 0: nothing does. */
uint64_t kept_fd(int fd);
/** Its key; 0: it has none, or fd is -1. */
uint64_t kept_key(int fd);
/** Close it. The keeper lets go of it when this step is committed. Nothing happens for -1. */
void kept_close(int fd);
/** The same, but it is closed elsewhere. */
void kept_fd_leave(int fd);
/** It has got another number. */
void kept_fd_moved(int from, int to);
/**
 * npud closes it and the keeper goes on having it, for a record that names it by the key that is
 * returned: the next npud has it again. 0: nothing outlives npud. A new keeper does not get it:
 * before that one is given anything, no record may name the key any more. It ends with
 * kept_key_leave().
 */
uint64_t kept_fd_part(int fd);
/** The keeper lets go of the key when this step is committed. Nothing happens for 0. */
void kept_key_leave(uint64_t key);
/** The descriptor with this key, which stays npud's. -1: npud has none. Looks at all of them. */
int kept_fd_of(uint64_t key);

/* --- restoring --- */

/** Get all that the keeper has. Their number or -errno. */
int kept_fds_fetch(void);
/** The descriptor with this key, which is the caller's then. -1: there is none. */
int kept_fd_take(uint64_t key);
/** What was not taken goes. Returns how many. */
unsigned kept_fds_forget_rest(void);

/* --- for kept.c --- */

/** False: no memory for the numbers of all descriptors that npud may have. */
bool kept_fds_begin(struct kept_head *head);
void kept_fds_end(void);
/** Under a key that is reserved. */
void kept_fds_put(uint64_t key, int fd);
/** The keeper has it already. */
void kept_fds_know(uint64_t key, int fd);
/** The keeper is to let go of this key, at the latest with kept_fds_flush(). */
void kept_fds_drop(uint64_t key);
void kept_fds_flush(void);
