/* What is kept of a context of streams, and of what aborts have discarded in a slot of streams. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct context_record {
    /* kept */
    uint64_t session;
    uint32_t device;
    uint32_t number; /* the client's choice */
    uint64_t stop;   /* failure mode */
    /* live, under the lock of the device's engine: as in struct context */
    _Atomic uint64_t end;
};

#define DISCARDS_MAX 16 /* the oldest one is forgotten for one more */

struct discards_record {
    /* kept */
    uint64_t session;
    uint64_t slot;
    /* live, under the locks of the session's engines */
    struct discards_kept {
        uint64_t n; /* so many in all; number i is at i % DISCARDS_MAX */
        struct discard {
            uint64_t from, to; /* positions after from, up to `to` */
            int64_t code;      /* for streams that wait for one of these */
        } range[DISCARDS_MAX];
    } live;
};
