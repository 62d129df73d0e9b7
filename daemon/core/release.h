/*
 * Releases: objects that the client has destroyed, but that its streams may still touch. The client
 * names the places (fences) where they do; when every stream has passed its place, the object is
 * freed, by the control thread.
 *
 * A client that names too few loses nothing but the effect of its own tasks: engines look objects
 * up by slot and generation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/cause.h"

struct event_obj;
struct ipc_open;
struct kept_cell;
struct server;
struct session;

struct fence {
    uint32_t stream;
    uint64_t position;
};

/** Fences that one session may have pending, over all its releases: bounds npud's memory. */
#define SESSION_FENCES_MAX 16384u

/**
 * The client has destroyed the event, or has closed the handle of an IPC event. npud frees it when
 * the streams have passed the fences, a handle also not before nothing pins it: at once if they
 * have already, else later from the control thread, at the latest from release_flush(). With `all`,
 * every stream of the session is a fence, where it ends now. If that is refused, the object stays.
 */
enum cause release_event(struct session *session, struct event_obj *event,
                         const struct fence *fences, size_t n, bool all);
enum cause release_ipc_event(struct ipc_open *open, const struct fence *fences, size_t n, bool all);

/**
 * The same for a binary with kernels, with all streams as fences. It stays in use until then, and
 * so may be named once more: what frees it looks whether it is one still.
 */
enum cause release_binary(struct session *session, uint32_t slot);
/** The slot is one of an allocation of the session, or free. npud.c sets it. */
extern void (*release_free_binary)(struct session *session, uint32_t slot);

/** The session ends and its streams are gone: free what still waits. True: nothing does. */
bool release_flush(struct session *session);
/** Streams are there: each release waits for its next fence, or frees its object. */
void releases_finish_restoring(struct server *server);
