/*
 * What an executor may, from before its library is loaded: npud says so by an argument,
 * --rights=UID:GROUP:LOCKED (docs/security.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rights {
    uint32_t uid;    /* its own, and its gid, with the uid above it; 0: it keeps npud's */
    uint32_t group;  /* that it is in besides, if the uid is its own; 0: none */
    uint64_t locked; /* bytes of memory that it may lock */
    int32_t parent;  /* of a sweep: npud, at whose end it ends; 0: it is an executor, which kills
                        nothing once nobody has the other end of its socket */
};

/** The value of --rights=. False: it is none. */
bool rights_read(struct rights *rights, const char *text);

/**
 * The process, which has one thread, has no more than these from now on. With a uid of its own it
 * is alone with it: whatever another executor has left running with that uid is killed, and has
 * ended, for which it waits a minute at most. It needs to see /proc. False: why says in words what
 * could not be; it may have npud's rights still, and is to load nothing.
 */
bool rights_take(const struct rights *rights, char *why, size_t why_size);
