/*
 * Host memory of the program that it has registered: a table of ranges, and no more. Nothing about
 * the memory changes. MAPPED and PINNED mean the same: the address at which devices reach it is its
 * own, and tasks that name it are executed by a thread of the library, in the order of their stream
 * (client/memory/host_task.h), because npud's engine does not reach it.
 *
 * Memory of aclrtMallocHost and managed memory may be registered, too. An engine reaches it as it
 * did before.
 *
 * A registration ends with aclrtHostUnregister, or with its session: at aclFinalize, or when
 * aclInit finds that npud was lost.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

enum registration_kind {
    REGISTRATION_NONE,  /* the address is in no registered range */
    REGISTRATION_PART,  /* it is, but not all of the bytes are */
    REGISTRATION_WHOLE, /* all of them are in the same one */
};

/** Are `count` bytes at address in one registered range? */
enum registration_kind registration_look_up(struct session *s, const void *address, size_t count);
