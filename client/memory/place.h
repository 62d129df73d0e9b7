/* What is at an address that a program gives: memory of which kind, and where in it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/memory/alloc.h"

enum place_kind {
    PLACE_PAGEABLE,
    PLACE_PINNED,
    PLACE_REGISTERED, /* of the program's own: no engine reaches it, registration.h */
    PLACE_DEVICE,
    PLACE_BUFFER,  /* a shared one */
    PLACE_MANAGED, /* client/memory/managed.c */
    PLACE_KINDS
};

/** What copies and fills must know of a kind. */
struct place_row {
    const char *name; /* for sentences */
    /* Both: it is what the copy needs. */
    bool host, device;
    /* The engine reaches it: what uses it is a task. Else the calling thread does it by hand. */
    bool engine;
};
extern const struct place_row place_rows[PLACE_KINDS];

struct place {
    enum place_kind kind;
    bool goes_on; /* the range ends in another mapping: place_walk() */
    void *address;
    struct memory memory; /* of kinds that engines reach */
    uint64_t changes;     /* session->memory_changes, of which that is */
    uint64_t offset;
};

static inline const struct place_row *place_row(const struct place *at)
{
    return &place_rows[at->kind];
}

/** The offset in npud's allocation, for tasks and requests. */
static inline uint64_t place_remote_offset(const struct place *at)
{
    return at->memory.remote_offset + at->offset;
}

/**
 * What is at address, where a call reads or writes `count` bytes. 0, or ACL_ERROR_RT_PARAM_INVALID
 * when they leave the allocation or the buffer, or it was freed. name: of the argument, for the
 * sentence.
 */
int place_find(struct session *s, const char *function, const void *address, size_t count,
               const char *name, struct place *at);

/**
 * Are `size` bytes there registered, so that devices reach them at their address? Host memory of
 * the program, or of aclrtMallocHost, or managed.
 */
bool place_is_registered(struct session *s, const struct place *at, uint64_t size);

/**
 * For calls that only name memory, and read or write nothing there: what place_find() is to be
 * asked for. A program may name all of an allocation by the pages that aclrtMemGetAddressRange()
 * has told it; else it is `count` itself.
 */
size_t place_named(struct session *s, const void *address, size_t count);

/** One piece of a range, or of two of the same size. 0, or an ACL error, which ends the walk. */
typedef int place_piece_fn(void *context, const struct place *to, const struct place *from,
                           uint64_t count);

/**
 * Call `piece` for `count` bytes at `to` and `from`, which place_find() has found (from: or NULL),
 * in pieces that cross no border of mappings. 0, what `piece` has returned, or
 * ACL_ERROR_RT_PARAM_INVALID: what was mapped there is gone meanwhile.
 */
int place_walk(struct session *s, const char *function, const struct place *to,
               const struct place *from, uint64_t count, place_piece_fn *piece, void *context);

/**
 * `bytes` further within the range that was found, to where more of it is. 0, or
 * ACL_ERROR_RT_PARAM_INVALID as place_walk().
 */
int place_move(struct session *s, const char *function, struct place *at, uint64_t bytes);

/** A task of an engine will use `size` bytes there: memory_populate(). */
static inline void place_populate(struct session *s, const struct place *at, uint64_t size)
{
    memory_populate(s, &at->memory, at->offset, size);
}

/**
 * May the devices of the two places reach each other, for `count` bytes? 0, or
 * ACL_ERROR_RT_DRV_INTERNAL_ERROR.
 */
int place_check_peer_devices(struct session *s, const char *function, const struct place *dst,
                             const struct place *src, uint64_t count);

/**
 * Where `size` bytes at address are, which must be memory that the device reaches at its address:
 * device memory within one mapping, or host memory that is registered, of whatever kind. 0,
 * ACL_ERROR_RT_PARAM_INVALID, or ACL_ERROR_RT_DRV_INTERNAL_ERROR without
 * aclrtDeviceEnablePeerAccess. name: of the argument, for the sentence.
 */
int place_find_device(struct session *s, const char *function, uint32_t device, const char *name,
                      const void *address, uint64_t size, struct place *at);

/**
 * Memory of the program, of any kind, that a call reads or writes by itself: do `size` bytes at
 * address stay within the allocation, if it is one of ours? 0, or ACL_ERROR_RT_PARAM_INVALID. name:
 * of the argument, for the sentence.
 */
int place_check(struct session *s, const char *function, const char *name, const void *address,
                size_t size);

/**
 * This thread has written `count` bytes at `to` by itself: npud is told if streams wait for a word
 * there, or the thread of this process that looks for them. 0, or an ACL error of the request.
 */
int place_tell_written(struct session *s, const char *function, const struct place *to,
                       size_t count);
/** The same for an address. */
int place_tell_written_at(struct session *s, const char *function, const void *address,
                          size_t size);
