/*
 * The messages to the keeper, over the lease: the connection that makes a process its owner. One
 * is a header, then keys, with descriptors attached.
 *
 *     operation     keys        descriptors        what the keeper does
 *     PUT           one each    1 to 253           keeps them; a key that it had means the new one
 *     DROP          1 to 253    none               lets go of them; unknown keys are no error
 *     FETCH         none        the asker's socket answers there with all that it has
 *     FETCH         1 to 253    the asker's socket answers there with those of them that it has
 *
 * An answer is any number of GIVE (keys, and a descriptor for each), and END. A keeper that does
 * not know an operation closes what came with it: the asker of an answer sees its end.
 *
 * The keeper outlives an upgrade of npud: an old one works with a new npud. So operations are only
 * added, and what a message has behind its keys is ignored. END carries the version of the keeper.
 */
#pragma once

#include <stdint.h>

#include "proto/util/fd_message.h"

#define KEEPER_VERSION  1u
#define KEEPER_KEYS_MAX ((size_t)FD_MESSAGE_FDS)

enum keeper_operation {
    KEEPER_PUT = 1,
    KEEPER_DROP,
    KEEPER_FETCH,
    KEEPER_GIVE,
    KEEPER_END,
};

struct keeper_message {
    uint16_t operation;
    uint16_t n;       /* keys */
    uint32_t version; /* of the sender */
    uint64_t keys[KEEPER_KEYS_MAX];
};

#define KEEPER_HEADER offsetof(struct keeper_message, keys)

_Static_assert(KEEPER_HEADER == 8, "npuds and keepers of all versions have this header");
