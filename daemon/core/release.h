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

struct session;

struct fence {
    uint32_t stream;
    uint64_t position;
};

/** Fences that one session may have pending, over all its releases: bounds npud's memory. */
#define SESSION_FENCES_MAX 16384u

/**
 * Call free_object(object) when the streams have passed the fences: at once if they have already,
 * else later from the control thread, at the latest from release_flush(). With `all`, every stream
 * of the session is a fence, where it ends now. If it is refused, nothing has happened.
 */
enum cause release_when_passed(struct session *session, const struct fence *fences, size_t n,
                               bool all, void (*free_object)(void *object), void *object);

/** The session ends and its streams are gone: free what still waits. True: nothing does. */
bool release_flush(struct session *session);
