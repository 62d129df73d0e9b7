/* The parts of npud: everything that the server points to, in one place. */
#pragma once

struct server;

/** Give the server its parts, none of which is set up yet. There is one npud in a process. */
void npud_assemble(struct server *server);

/**
 * Set the parts up: the loop, the schedule, sessions, devices with their engines. Kept memory has
 * begun (kept/kept.h). 0, or a negative errno after a line in the log; npud_end() ends what has
 * been set up.
 */
int npud_begin(struct server *server);
/** The engines run from here on: what was restored goes on. 0, or a negative errno after a line in
 * the log. */
int npud_start_engines(struct server *server);

/**
 * End all sessions and all parts but the loop and the schedule, which other threads may still
 * use.
 */
void npud_end(struct server *server);
