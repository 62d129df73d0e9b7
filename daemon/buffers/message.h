/*
 * Messages that npud has taken from the source of a route and has not delivered to all destinations
 * (struct message in core/backlog.h). Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct chain;
struct message;
struct router;

/** Make memory for the next message. False: none. */
bool message_prepare(struct router *router);

/** The chain with this head, in the memory that was prepared. */
struct message *message_new(struct router *router, uint32_t ref, const struct chain *chain);

/** One route less has to deliver it. After the last one, what npud still has of it is freed. */
void message_done(struct router *router, struct message *m);

/** npud ends: free what was prepared. */
void message_free_spare(struct router *router);
