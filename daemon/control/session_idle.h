/*
 * A session whose program has finalized while a device was set: the session stays, with all that it
 * shares, and its program does nothing more by itself until it initialises the library again. So it
 * counts no longer among those that could end a wait of another session: at queues at once, and for
 * words of memory and notifies when its streams have done what they were given. Waits that only it
 * could have ended are told, as if it had ended.
 *
 * What says so stands in the attachments, sharers and open notifies; whatever the session gets
 * later counts as ever. npud goes through these in steps. session->idle_state is kept: the next
 * npud goes on with IDLE_BEGUN, and goes through all again, which changes nothing where it was.
 * Where npud was through, or at taking it back, the next one does nothing by itself: what the
 * session has got since is not to be touched, and who takes it back asks again.
 *
 * Control thread.
 */
#pragma once

#include <stdbool.h>

#include "daemon/core/cause.h"

struct server;
struct session;

/** Its program has finalized. CAUSE_NONE: npud is at it. */
enum cause session_idle_begin(struct session *session);

/**
 * Its program goes on. False: the step is over, and there is more of that; to be called again.
 */
bool session_idle_end(struct session *session);

/** The session ends, and its streams are gone. */
void session_idle_forget(struct session *session);

/** All objects are there: npud goes on where the one before was. */
void sessions_idle_finish_restoring(struct server *server);
