/*
 * Kept records: npud's own tables, as plain records in a file that outlives its process. When npud
 * ends unexpectedly, or is replaced, the next one restores its tables from them (daemon/recovery).
 *
 * An object that is kept has a `struct kept` as a member. Its record has two parts:
 *
 *     kept part   what the object's write function writes, from the object's own members. Changed
 *                 in transactions: all that a step of the control thread has touched (kept_touch(),
 *                 kept_make(), kept_drop()) changes at once, in kept_commit(), at the end of the
 *                 step or before its answer is sent. A step that was cut short has changed nothing,
 *                 and its request is handled again.
 *     live part   behind it: words that their owner stores directly, an engine under its lock for
 *                 one, because they change with every task. Each single store leaves it valid, in
 *                 the order of the program (kept_order()); a few words at once: kept_words_begin().
 *
 * What a step changes elsewhere, in memory shared with clients or in the kernel, is done before the
 * commit only if doing it twice is the same as doing it once. What must not be done before the
 * change is certain comes after kept_commit().
 *
 * Descriptors are with the keeper, by key (kept_fds.h).
 *
 * Without a keeper (npud by hand, unit tests) nothing outlives npud: records are plain memory, live
 * parts work as they do, and the rest does nothing.
 *
 * Control thread, unless said otherwise. There is one kept memory in a process.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kept/kinds.h"
#include "daemon/kept/layout.h"

struct kept;

/**
 * Write the kept part of an object's record, from the object that `kept` is a member of. record:
 * room as the record was made with; all that is not written is garbage. Returns how many bytes it
 * has written: a multiple of 8.
 */
typedef size_t kept_write_fn(const struct kept *kept, void *record);

/** All zero: there is no record. */
struct kept {
    struct kept_cell *cell;
    kept_write_fn *write;
    struct kept *prev, *next; /* those that were touched in this step; prev NULL: it was not */
};

/* --- an object's record --- */

/**
 * Make the record, of `bytes` with its live part, which is zeroed, and touch it. False: no memory.
 * bytes: at most 1 MiB.
 */
bool kept_make(struct kept *kept, enum kept_kind kind, size_t bytes, kept_write_fn *write);

/** The object has changed: its record is written at the end of the step. Safe without a record. */
void kept_touch(struct kept *kept);

/** The record is that of another member: `from` has none then. */
void kept_move(struct kept *to, struct kept *from);

/** The object goes: its record is free at the end of the step. Safe without a record. */
void kept_drop(struct kept *kept);

/**
 * A word of a live part that only the control thread writes: it changes with the step, at its end,
 * and has its old value until then.
 */
void kept_set(_Atomic uint64_t *word, uint64_t value);

/** The record, for its live part. Constant but for kept_grow() and kept_enlarge(). Any thread. */
static inline void *kept_record(const struct kept *kept)
{
    return kept->cell->record;
}

/**
 * For a record that is all live, and grows where it is used: a larger one takes its place, or it is
 * made, by any thread under the object's lock, and not in a transaction. fill() stores all that it
 * is to have, into zeros. If npud ends meanwhile there is the old one, or the new one, or both:
 * then the smaller one is kept_discard()ed. False: no memory, and nothing has changed.
 */
bool kept_grow(struct kept *kept, enum kept_kind kind, size_t bytes,
               void (*fill)(void *arg, void *record), void *arg);

/**
 * The object's record gets more bytes, which are zero: a larger one takes its place, at once and
 * not in a transaction. What this step has changed so far changes there. `was`: its bytes so far.
 * Until this returns, no other thread stores into its live part. If npud ends meanwhile there are
 * both, with the same content: one of them is kept_discard()ed. False: no memory, and nothing has
 * changed.
 */
bool kept_enlarge(struct kept *kept, enum kept_kind kind, size_t was, size_t bytes);

/**
 * Order stores of this thread into live parts, and into what they go with: a SIGKILL is a cut in
 * the order of instructions, so that the compiler is all that must be held back.
 */
static inline void kept_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* --- transactions --- */

/** What was touched in this step is certain now, all of it, also if npud ends here. */
void kept_commit(void);
/** Is there anything to commit? */
bool kept_pending(void);

/**
 * A few words of live parts that change at once, for one thread. writer: the number of its engine,
 * or KEPT_CONTROL. Between begin and commit the words have their old values.
 */
#define KEPT_CONTROL (KEPT_WORD_LOGS - 1)
struct kept_words {
    struct kept_log_head *log; /* NULL: there is no kept memory */
    unsigned char *at;
    size_t used;
};
void kept_words_begin(struct kept_words *words, unsigned writer);
/** At most 64 of them. */
void kept_words_set(struct kept_words *words, _Atomic uint64_t *word, uint64_t value);
void kept_words_commit(struct kept_words *words);

/* --- the memory --- */

/** Is there anything that outlives npud? */
bool kept_outlives(void);

/** The file; -1: nothing outlives npud. It stays kept memory's own. */
int kept_file(void);

/** Records are plain memory of this process. */
void kept_begin_private(void);
/** A new file, empty, with the keeper under KEEPER_KEY_TABLES. 0 or -errno. */
int kept_begin(void);
/**
 * The file of the npud before, of which no thread is left: what it had committed is carried out.
 * 0, or, after a line in the log, -EINVAL: this npud cannot read it, or -errno: something that it
 * needs for that is short.
 */
int kept_begin_from(int fd);
/**
 * Forget it all, and close its descriptors: objects have dropped their records, or are forgotten
 * with them. What was not committed is lost, as when a process is killed.
 */
void kept_end(void);

/**
 * Could this npud read the file? Nothing is changed, and the npud whose it is may go on. False: why
 * says in words what stands against it.
 */
bool kept_can_read(int fd, char *why, size_t size);

/** What the thread is at (struct kept_in_hand). Any thread, for its own engine. */
static inline void kept_in_hand(struct kept_in_hand *in_hand, uint64_t session, uint64_t what)
{
    atomic_store_explicit(&in_hand->what, what, memory_order_relaxed);
    atomic_store_explicit(&in_hand->session, session, memory_order_relaxed);
}
/** The place for that. writer: as above. Constant; also without kept memory. */
struct kept_in_hand *kept_in_hand_of(unsigned writer);

/* --- restoring --- */

/** Look at all records there are. 0 or -ENOMEM. */
int kept_scan(void);
/** Call restore() for the records of a kind, the oldest first. False as soon as it says so. */
bool kept_each(enum kept_kind kind, bool (*restore)(void *arg, struct kept_cell *cell), void *arg);
/** How many records the scan has found. */
size_t kept_scanned(void);
/** The scan is over: its memory is freed. */
void kept_scan_end(void);

/** Read a record: what it does not have is 0. Returns how many bytes it has. */
size_t kept_read(const struct kept_cell *cell, void *record, size_t size);
/**
 * The restored object has this record. If an older npud made it smaller than `bytes`, it gets a
 * larger one, with the same content. False: no memory.
 */
bool kept_bind(struct kept *kept, struct kept_cell *cell, size_t bytes, kept_write_fn *write);
/** A record that nothing is restored from goes. */
void kept_discard(struct kept_cell *cell);
