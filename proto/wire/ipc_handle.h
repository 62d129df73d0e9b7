/*
 * The 64 bytes that name an exported object. A capability: a process that has them may open the
 * object.
 *
 * Programs treat them as opaque; npud alone decides if they are genuine. The layout is here because
 * the library reads the public half (which object on which device).
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define IPC_HANDLE_MAGIC   0x4855504eu /* "NPUH" */
#define IPC_HANDLE_VERSION 1

enum ipc_handle_kind {
    IPC_HANDLE_EVENT = 1,
};

struct ipc_handle {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /* enum ipc_handle_kind */
    uint32_t device;
    uint32_t reserved;
    uint64_t object;
    uint64_t instance; /* of the npud that made it */
    uint8_t secret[16];
    uint64_t reserved2;
    uint64_t check; /* of all before: tells a damaged handle from one whose object is gone. No
                       protection: that is `secret`. */
};

static_assert(sizeof(struct ipc_handle) == 64, "ACL_IPC_EVENT_HANDLE_SIZE");

/** FNV-1a over everything but `check`. */
static inline uint64_t ipc_handle_check(const struct ipc_handle *h)
{
    const uint8_t *p = (const uint8_t *)h;
    uint64_t x = UINT64_C(0xcbf29ce484222325);

    for (unsigned i = 0; i < sizeof(*h) - sizeof(h->check); i++)
        x = (x ^ p[i]) * UINT64_C(0x100000001b3);
    return x;
}

/** Well-formed and undamaged. Says nothing about whether the object exists, or the secret is right.
 */
static inline bool ipc_handle_valid(const struct ipc_handle *h, enum ipc_handle_kind kind)
{
    return h->magic == IPC_HANDLE_MAGIC && h->version == IPC_HANDLE_VERSION && h->kind == kind &&
           h->check == ipc_handle_check(h);
}
