/*
 * Capabilities: handles of IPC events and keys of notifies. Both name an object by its number and a
 * random secret, hold in the npud that has made them (server->instance), and are good for the users
 * that [ipc] scope says (server->any_uid).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct session;

/** Are n bytes equal? In constant time: how many of a guess were right must not be measurable. */
bool capability_equal(const void *a, const void *b, size_t n);

/** May the session use a capability for an object that a session of this user has made? */
bool capability_in_scope(const struct session *session, uid_t maker);
