/*
 * Whether a session is heard, and its end: what modules of control call in session_life.c, which
 * calls them. A header of its own, so that they do not include each other in a circle. Control
 * thread.
 */
#pragma once

struct session;

/**
 * The client is gone, or must go: npud hears no more of it, and frees the session. At once if no
 * other of the user is ending and the step that runs has time left; but a thousand clients may end
 * at the same moment, and those that live have requests: then as a job.
 */
void session_end(struct session *session);
/**
 * Its process has ended, or closed its socket: counted once. Not if it has left before, has never
 * said Hello, or if npud has ended the session already.
 */
void session_note_death(struct session *session);

/**
 * No request of the session is read any more: its end has begun, an answer of it is kept, or its
 * job is looked up.
 */
void session_hear_no_more(struct session *session);
/** Requests of the session are read again, unless one of these still holds. */
void session_hear_again(struct session *session);
