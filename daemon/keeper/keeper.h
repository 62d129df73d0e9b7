/*
 * The keeper: keeps descriptors by key for one owner, npud, over the deaths of its servers.
 * daemon/base/keeper_message.h is the protocol.
 *
 * It has one owner at a time, and waits for nothing but its messages, at which it looks at most
 * once per KEEPER_REST_NS: while it answers a FETCH it waits for the asker to read, because the
 * asker is a server that is recovering, and no other process puts anything then. The answer ends
 * with the asker.
 */
#pragma once

/* What comes within this time after puts and drops wakes the keeper once. */
#define KEEPER_REST_NS 500000

/** Gives systemd signs of life, if it wants them: otherwise the keeper never wakes by itself.
 * Before keeper_serve(). */
void keeper_watch(void);

/** Serves the owner at the other end of this connection until the last copy of that end is closed,
 * and lets go of all. lease is the keeper's. 0, or -errno after a line in the log: the keeper is
 * not to go on. */
int keeper_serve(int lease);
