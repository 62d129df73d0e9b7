/*
 * Attacks for test_state.c: one thing for which very many streams wait, or that holds very many
 * messages. Each is run in a process of the second user, until it is killed.
 */
#pragma once

/** A session gives up its own right to a full queue, again and again. */
void move_full_ring(void);

/** Queues end on which nearly all threads of the user sleep. */
void end_queues_of_sleepers(void);

/** Sessions end, all of whose buffers seem to be in full rings. */
void leave_buffers_beside_full_rings(void);

/** A session ends; of its queues, the destination of a route with a full backlog goes first. */
void leave_full_backlog(void);

/** Messages of a source with as many routes as the user may have queues. */
void send_to_all_routes(void);

/** A session ends, and leaves all routes to a few sources, which have thousands then. */
void leave_sources_of_many_routes(void);

/** A record is dropped for which nearly all streams of its session wait. */
void drop_counter(void);

/** All other streams of the session wait for an event, or a position, that one of them reaches. */
void raise_for_many(void);
void pass_for_many(void);

/**
 * Sessions that say that they are over, and have streams that wait for a notify: the only other one
 * that has it gives it up.
 */
void desert_notify(void);
