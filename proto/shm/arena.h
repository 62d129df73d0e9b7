/*
 * The arena of a session: the memfds that it shares with npud alone.
 *
 *     session page    one, made at Hello: the doorbells (doorbell.h), the sleeping threads
 *                     (wait_slot.h), the threads that run callbacks (callback_shm.h)
 *     stream file     ARENA_STREAMS control blocks (one page), then as many rings
 *     event file      ARENA_EVENTS event slots
 *
 * Segments are made when a slot in them is first given out, and live as long as the session, so
 * that an address in the arena never dies before its session does. Slot s is in file s / ARENA_x
 * at index s % ARENA_x. All are sealed against shrinking and growing; pages appear when touched, so
 * an idle stream costs its 256 bytes of control block. npud touches no ring in which there was no
 * task. A file whose streams or events are all gone is renewed (RenewArena): other memory takes
 * its place, in which the control blocks are as they were. So after a peak the pages go.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/shm/doorbell.h"
#include "proto/shm/event_shm.h"
#include "proto/shm/stream_shm.h"

#define ARENA_STREAMS 16u
#define ARENA_EVENTS  1024u

#define SESSION_EVENTS_MAX     (256u * ARENA_EVENTS)
#define SESSION_IPC_EVENTS_MAX 65536u
#define MEM_EXPORTS_MAX        256u /* of one allocation: all of them go with it, in one step */
#define SESSION_NOTIFIES_MAX   65536u

static inline size_t arena_stream_file_size(uint32_t depth)
{
    return ARENA_STREAMS * (sizeof(struct stream_ctrl) + depth * sizeof(struct task));
}

static inline struct stream_ctrl *arena_stream_ctrl(void *map, uint32_t slot)
{
    return (struct stream_ctrl *)map + slot % ARENA_STREAMS;
}

static inline struct task *arena_stream_ring(void *map, uint32_t slot, uint32_t depth)
{
    struct task *rings = (struct task *)((struct stream_ctrl *)map + ARENA_STREAMS);

    return rings + (size_t)(slot % ARENA_STREAMS) * depth;
}

static inline size_t arena_event_file_size(void)
{
    return ARENA_EVENTS * sizeof(struct event_slot);
}

static inline struct event_slot *arena_event(void *map, uint32_t slot)
{
    return (struct event_slot *)map + slot % ARENA_EVENTS;
}
