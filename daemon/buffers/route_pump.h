/*
 * Moving messages along routes (router.h): in slices, between which everything else has its turn.
 * Control thread.
 */
#pragma once

#include <stdbool.h>

struct job;
struct relay;

/**
 * The last session leaves this source: take some of what is in its ring. True: that is all that its
 * destinations take; a survivor that goes on putting messages there is not waited for.
 */
bool route_pump_ending(struct relay *relay);

/** Take what is in the ring of a source that is about to go, as far as its destinations take it. */
void route_pump_empty(struct relay *relay);

/** The relay has a new ring. */
void route_pump_moved(struct relay *relay);

/** A relay's turn: one slice. */
bool route_pump_turn(struct job *job);
