/*
 * The keeper, as npud's processes see it: a process that holds copies of descriptors by key, so
 * that the next server finds them when this one has died. daemon/base/keeper_message.h is the
 * protocol.
 *
 * The lease is the connection to the keeper. All processes of one npud have a copy of it; when the
 * last copy is closed, the keeper lets go of everything. Without a lease every call does nothing:
 * an npud that does not come back has no keeper.
 *
 * A put is in the socket when the call returns, so the keeper has it also if this process is killed
 * next. If the keeper dies, nothing is lost as long as this process lives: it gives everything to
 * the next keeper (keeper_link_replace()).
 *
 * One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEPER_KEY_TABLES       1u /* the kept tables */
#define KEEPER_KEY_CONTROL      2u /* the listening socket of clients, if npud made it itself */
#define KEEPER_KEY_ADMIN        3u /* the same for administrators */
#define KEEPER_KEY_CONTROL_LOCK 4u /* the locks beside them: daemon/base/socket_file.h */
#define KEEPER_KEY_ADMIN_LOCK   5u
#define KEEPER_KEY_CONFIG       6u /* the text of the configuration: daemon/kept/config_text.h */
/* Keys below are reserved: a server that takes everything leaves them as they are. */
#define KEEPER_KEY_FIRST 16u

#define KEEPER_SOURCES 4

/** Takes one descriptor, with its key. */
typedef void keeper_take(void *arg, uint64_t key, int fd);

/** Adopts the lease, also in place of an earlier one. -1: there is no keeper. 0 or -errno; the
 * descriptor is adopted in any case. */
int keeper_link_open(int fd);

/** Closes this process's copy of the lease. */
void keeper_link_close(void);

/** Is there a lease, and has the keeper not been found dead? */
bool keeper_link_is_open(void);

/** The lease, for a loop that watches for its hang-up; -1: none. It stays the link's. */
int keeper_link_fd(void);

/** The keeper has a copy of fd from here on; an earlier one under this key it lets go of. */
void keeper_put(uint64_t key, int fd);

/** The same for n descriptors. */
void keeper_put_all(const uint64_t *keys, const int *fds, size_t n);

/** The keeper lets go of these. */
void keeper_drop(const uint64_t *keys, size_t n);

/**
 * Takes copies of all that the keeper has, close-on-exec; what was put before is among it. Returns
 * how many, or -errno: then what was taken so far is not all.
 */
int keeper_fetch(keeper_take *take, void *arg);

/** A copy of one. *fd is the caller's, close-on-exec. 0, -ENOENT: the keeper has none, or
 * -errno. */
int keeper_peek(uint64_t key, int *fd);

/* --- when the keeper dies --- */

/** Calls take(to, key, fd) for every descriptor that must be with the keeper. fd stays its own. */
typedef void keeper_enumerate(void *arg, keeper_take *take, void *to);

/** What keeper_link_replace() gives to a new keeper; at most KEEPER_SOURCES of them. */
void keeper_link_add_source(keeper_enumerate *enumerate, void *arg);

/** lost(arg) is called once for each lease that is found dead: by a put or drop that fails, in that
 * call, or by keeper_link_lost(). */
void keeper_link_on_lost(void (*lost)(void *arg), void *arg);

/** The caller has seen the lease hang up. Puts and drops do nothing until there is a new one. */
void keeper_link_lost(void);

/** The lease of a new keeper, which gets all that the sources enumerate. 0 or -errno. */
int keeper_link_replace(int fd);
