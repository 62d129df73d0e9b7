/*
 * Host memory of the program that it has registered.
 *
 * PINNED: the range is remembered, no more. npud's engine cannot reach it, so a thread of the
 * library makes the asynchronous copies (client/memory/registered_copy.h).
 *
 * MAPPED: the pages of the range are exchanged for those of pinned memory of npud
 * (client/memory/shared_range.h), which stands at the addresses of the program's own. Copies are
 * tasks of the engine.
 *
 * A registration ends with aclrtHostUnregister, or with its session: at aclFinalize, or when
 * aclInit finds that npud was lost. Then the range has private pages again, with its contents.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/memory/alloc.h"

struct session;

/** What copies do with an address. */
enum registration_kind {
    REGISTRATION_NONE, /* the address is in no registered range */
    REGISTRATION_PART, /* it is, but not all of the bytes; or the range comes or goes */
    REGISTRATION_PINNED,
    REGISTRATION_MAPPED, /* pinned memory of npud's, at these addresses */
};

/**
 * Are `count` bytes at address in one registered range? memory: a copy of the pinned memory, for
 * REGISTRATION_MAPPED.
 */
enum registration_kind registration_look_up(struct session *s, const void *address, size_t count,
                                            struct memory *memory);
