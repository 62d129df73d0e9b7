/*
 * Asynchronous copies from and to memory that is registered with PINNED (registration.h): npud's
 * engine cannot reach it, so a thread of the library makes them when the stream gets there.
 */
#pragma once

#include <stddef.h>

struct place;
struct stream;

/**
 * Copy in the order of the stream; one of the places at least is PLACE_REGISTERED, and none is
 * pageable. The stream is locked. 0 or an ACL error.
 */
int registered_copy_launch(struct stream *s, const char *function, const struct place *to,
                           const struct place *from, size_t count);
