/*
 * A server that lies: it stands between a client and the real npud, hands requests on as they are,
 * and damages one answer. One connection at a time, each until its client leaves. It also does what
 * an npud does that is killed again and again, and that is no lie: answers come more than once, and
 * connections end before they are answered; and what a newer one does: answers say more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIAR_KINDS   128 /* of requests */
#define LIAR_CHANGES 512 /* of fields of one answer, at most */
#define LIAR_TIMES   2   /* so many answers to requests of a kind can be damaged */
#define LIAR_ANSWERS (LIAR_KINDS * LIAR_TIMES)

/** Lies that every answer can be turned into; from LIE_FIELDS on, one field of it is changed. */
enum lie {
    LIE_NONE,
    LIE_ID,
    LIE_NO_BODY,
    LIE_OTHER_BODY,
    LIE_NO_FDS,
    LIE_FEWER_FDS,
    LIE_MORE_FDS,
    LIE_GARBAGE,
    LIE_TOO_LONG,
    LIE_ODD_ERROR,                 /* no code of the API */
    LIE_INTERRUPT,                 /* a code with a meaning in the library */
    LIE_SEEN_LAST = LIE_INTERRUPT, /* up to here, the client must have noticed */
    LIE_CUT,                       /* half of it is still an answer, perhaps */
    LIE_END,                       /* no answer, the connection ends */
    LIE_ERROR,                     /* an error that npud could have sent */
    LIE_FDS_SWAPPED,
    LIE_FDS_DEVICE,    /* /dev/null */
    LIE_FDS_SHORT,     /* sealed, one page */
    LIE_FDS_EMPTY,     /* sealed, nothing */
    LIE_FDS_UNSEALED,  /* as large as the right one, and cut to nothing a moment later */
    LIE_FDS_READ_ONLY, /* the right one, for reading */
    LIE_FDS_PIPE,      /* full: a writer waits */
    LIE_FDS_BLOCKING,  /* an eventfd at its end: a writer waits */
    LIE_BITS,          /* a few bits of the packet, by the seed */
    LIE_FIELDS,
};

/** An answer as npud has sent it. */
struct liar_answer {
    size_t size, n_fds;
    uint8_t data[1024];
};

/** Shared by test, client and server. */
struct liar {
    uint32_t answer; /* kind of the request * LIAR_TIMES + so many came before */
    uint32_t lie;
    uint64_t seed;
    bool newer;                  /* each answer has fields that the library does not know */
    uint32_t repeat;             /* each answer comes so many times more */
    _Atomic uint32_t unanswered; /* so many connections end before Hello is answered */
    _Atomic bool told; /* false: that answer does not exist, or cannot be changed like that */
    struct liar_answer honest[LIAR_ANSWERS];
    _Atomic uint32_t seen[LIAR_KINDS]; /* answers of the last connection, by kind of request */
    char what[160];                    /* the lie in words */
};

/** Can this answer be damaged in this way? As of the last connection without a lie. */
bool liar_can_tell(const struct liar *liar, uint32_t answer, uint32_t lie);

/** One of those that do harm most easily: make check tries them all. */
bool liar_is_gross(uint32_t lie);

/** Never returns. */
void liar_serve(int listener, const char *npud, struct liar *liar);
