/*
 * Engines: one thread per device, which drains the rings of the streams on that device.
 *
 * One lock per engine guards all that the engine thread touches: it holds the lock whenever it is
 * not asleep. Others take it with engine_lock(), which the engine grants at its next turn (bounded:
 * one slice of a copy), or at once while it sleeps. That makes destroying an object free of
 * messages and acknowledgements: when the lock is held, the engine is not looking.
 *
 * Lock order: engines by device index, then any waitlist, then any inbox.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/step_meter.h"

struct attach;
struct device;
struct pages;
struct server;
struct stream;
struct task;

struct engine_stats {
    uint64_t tasks;   /* retired */
    uint64_t wakeups; /* times it was woken from sleep */
    bool asleep;
    struct step longest, waited;
};

struct engine;
struct job;

/** Make the engine of device. spin_ns: how long to look for work before sleeping, at most. NULL
 * after logging. */
struct engine *engine_new(struct device *device, uint64_t spin_ns);
/** Start its thread. 0 or -ENOMEM after logging. */
int engine_start(struct engine *engine);
/** Stop the thread and free. Safe on NULL. */
void engine_free(struct engine *engine);

void engine_lock(struct engine *engine);
void engine_unlock(struct engine *engine);
/** For assertions: has somebody the lock? */
bool engine_is_locked(struct engine *engine);
/** Those of all devices: for one look at all streams, or a change for all of them. */
void engines_lock(struct server *server);
void engines_unlock(struct server *server);

/** Listen to the doorbell of attach. 0 or -errno. Takes the lock. */
int engine_attach(struct engine *engine, struct attach *attach);
/**
 * Forget attach, whose streams are gone or forgotten already. Idempotent. Caller holds the lock.
 */
void engine_detach(struct engine *engine, struct attach *attach);

/** Take stream off every list of the engine and off whatever it waits for. Caller holds the lock.
 */
void engine_forget(struct engine *engine, struct stream *stream);

/**
 * The task at the head of stream is dropped: no stream is left waiting for what it has changed, and
 * it does not count as waiting any more. Caller holds the lock.
 */
void engine_drop_task(struct stream *stream);

/**
 * A forgotten stream, whose task is to be dropped later without the lock: a device that works for
 * it does so for nobody from now on. Caller holds the lock.
 */
void engine_leave_work(struct stream *stream);
/** It executes its graph no more, if it has one. Before its position changes. As above. */
void engine_leave_graph(struct stream *stream);
/**
 * This TASK_GRAPH is dropped, from task `from` of its list on: records of notifies in it are told
 * as dropped, of at most `max` tasks. Returns how many were looked at. Control thread.
 */
#define GRAPH_DROPS_MAX 65536u /* more is not told */
unsigned engine_drop_graph(struct stream *stream, const struct task *task, uint32_t from,
                           unsigned max);

/**
 * Look at all streams that wait for words of these pages, in steps for which their first holder
 * pays: those go on whose word has come, and if nobody is left to write there, the others fail.
 * Control thread.
 */
void engine_look_again(struct pages *pages);
/** The job of pages.ask: an engine asks for that. */
bool engine_answer_asked(struct job *job);

/** What stream was parked on has happened (stream->waiter says how). Any thread, under the lock of
 * the list it waited on. */
void engine_unpark(struct stream *stream);

/**
 * Engine thread, or while npud restores: wake the stream, which is about to park, at `deadline`
 * unless it is unparked before. 0 or -ENOMEM.
 */
int engine_set_timer(struct stream *stream, uint64_t deadline);
void engine_clear_timer(struct stream *stream);

/**
 * Let every parked stream of the device go on with the task that it is parked in. Engine thread, or
 * another that holds the lock. A wait that was fired already goes on by itself; the others are over
 * with result.
 */
void engine_unpark_all(struct engine *engine, int32_t result);

/** Call fn for every session's use of the engine's device. Under the lock. */
void engine_each_attach(struct engine *engine, void (*fn)(struct attach *attach));

/**
 * The mode (proto/shm/doorbell.h) of all sessions that use the device now or later. Caller holds
 * the lock.
 */
void engine_set_mode(struct engine *engine, uint32_t mode);

/**
 * A new eventfd that wakes the engine, for another process: the caller's, or -errno. The engine's
 * own is not given away: who has it could fill or empty its counter, and make npud's writes block.
 */
int engine_lend_wake(struct engine *engine);
/** The same with an eventfd of npud's own, which stays the caller's. 0 or -errno. */
int engine_watch_wake(struct engine *engine, int fd);
/** Close it. -1: nothing. The other process may still have it. */
void engine_end_wake(struct engine *engine, int fd);
/** Have it look at everything once. Any thread. */
void engine_wake(struct engine *engine);

/**
 * The device of attach is lost to its session, whose streams there wait for nothing any more: such
 * waits fail with code. Or it is back (0). Takes the lock.
 */
void engine_set_lost(struct attach *attach, int32_t code);

/** Recovery: streams go on where the npud before was. No engine runs yet. */
void engines_finish_restoring(struct server *server);

/** Milliseconds for which the engine has been busy with one turn; 0 when it sleeps or turns. For
 * the watchdog. Any thread. */
uint64_t engine_stuck_ms(struct engine *engine);

/** Engine thread: does it look at more streams, or sessions, than this one, which it runs? */
bool engine_has_others(const struct stream *stream);
/** Engine thread: the device works for the stream, which is about to park until that is over. */
void engine_begin_work(struct stream *stream, uint64_t now);
/** Engine thread: the device has moved bytes. */
void engine_count_work(struct engine *engine);
/** In how much of the last second, in percent, the device did work. Takes the lock. */
uint32_t engine_busy_percent(struct engine *engine);

void engine_get_stats(struct engine *engine, struct engine_stats *stats);
