/*
 * What this process does, written down for npu-check while NPUD_CHECK names a directory
 * (docs/checking.md): makes of objects, accesses, and what orders them, as records in a file of its
 * own (proto/shm/check_file.h, which says when a record must be written).
 *
 * Rooms above call these where a call is known to be right, with names that a reader can follow:
 * handles, npud's slots, numbers of records, and after a look at checked_runs(), which is all that
 * it costs a process that is not checked. All are for any thread, in a call; they write nothing if
 * memory or the disk is short, and the file then says so.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/core/process.h"
#include "proto/shm/check_file.h"

/**
 * A public function that ends in another one, its long way, has no frame while that runs. The frame
 * of the long way is taken for it, so that a checked process says which function was called. A
 * frame that stayed would cost the short way two instructions, of the forty that free a buffer.
 * Neither may be cloned: the address of a clone is another one.
 */
struct checked_long_way {
    void (*way)(void), (*call)(void);
};

#define CHECKED_LONG_WAY(way_, call_)                                                              \
    /* Not the function of that name which a program may have put before this one. */              \
    static __typeof__(call_) own_##call_ __attribute__((alias(#call_)));                           \
    static const struct checked_long_way way_##_of_##call_                                         \
        __attribute__((used, section("checked_long_ways"))) = {(void (*)(void))(way_),             \
                                                               (void (*)(void))own_##call_}

/** Is this process checked? */
static inline bool checked_runs(void)
{
    return __builtin_expect(atomic_load_explicit(&process->checked, memory_order_relaxed), 0);
}

/**
 * Write a record of `size` bytes: kind and what follows the head are the caller's, the rest is
 * filled in here. The place is that of the call which the thread is in.
 */
void checked_write(struct check_record *r, size_t size) __attribute__((cold, noinline));

/** The same of a kind that has one more word, or none. */
void checked_text(enum check_kind kind, const char *text) __attribute__((cold));

/** A task comes into the ring of a stream, at this position. */
void checked_task(uint64_t stream, const struct task *task, uint64_t position)
    __attribute__((cold));

/** The same of a task of a graph: the last members of struct check_task. */
void checked_graph_task(uint64_t stream, const struct task *task, uint64_t position, uint32_t calls,
                        bool maybe) __attribute__((cold));

/** RECORD, RESET, WAIT, SYNC_EVENT, EMPTY_SYNC. stream: CHECK_NO_STREAM for the last two. */
void checked_event_use(enum check_kind kind, uint64_t stream, uint64_t event, uint64_t number)
    __attribute__((cold));

/** The calling thread knows that what the stream was given until `since_ns` is over. */
void checked_sync(uint64_t stream, uint64_t since_ns) __attribute__((cold));

/** When a wait begins, for checked_sync(); 0: the process is not checked. */
uint64_t checked_since(void);

/** CALLBACK_BEGIN, CALLBACK_END. */
void checked_callback(enum check_kind kind, uint64_t stream, uint64_t ordinal)
    __attribute__((cold));

/** NOTIFY, NOTIFY_GONE, NOTIFY_RESET. */
void checked_notify(enum check_kind kind, uint32_t slot, uint32_t generation, uint64_t identity,
                    bool counts, bool imported) __attribute__((cold));

/** OBJECT, OBJECT_GONE, EVENT_GONE. */
void checked_object(enum check_kind kind, enum check_object_type type, uint64_t object)
    __attribute__((cold));

/** REGISTER, UNREGISTER. */
void checked_range(enum check_kind kind, const void *address, uint64_t size) __attribute__((cold));

/** PUT, TAKE. */
void checked_handover(enum check_kind kind, uint64_t queue, uint64_t buffer) __attribute__((cold));

/** FAILED, IGNORED. */
void checked_failure(enum check_kind kind, uint64_t stream, int32_t code) __attribute__((cold));

/** The library refuses an address. start, whole: of the allocation; 0: it is not known. */
void checked_refused(enum check_refusal why, const void *address, uint64_t size, uint64_t start,
                     uint64_t whole) __attribute__((cold));

/** npud says in which directory this process has its file; "": it says nothing. */
void checked_offer(const char *directory);

/** A number that names an export by key in all processes. */
uint64_t checked_identity(const char *key) __attribute__((cold));
