/*
 * A case of the kill test of shared buffers and queues: one victim that dies at one point of one
 * role. See test_kill_share.c.
 */
#pragma once

#include "tests/common/share_cast.h"
#include "tests/kill/kill_switch.h"

/* The cast. */
enum {
    MANAGER, /* makes the queues, and goes on with everything */
    PEER,    /* of the victim: waits for it, or is stopped in the midst of what the victim meets */
    OWNER,   /* of buffers that the victim has; only in some roles, and dead when the victim acts */
    VICTIM,
};

/*
 * LINE is what it is all about; FEED is where the victim gets buffers of others from; the rest is
 * what the victim itself makes.
 */
enum { LINE, FEED, EXTRA, EXTRA_TOO };

#define DEPTH      4 /* of each */
#define ALL_RIGHTS 7

enum meanwhile {
    NOBODY_WAITS,
    PEER_TAKES, /* sleeps for a message in LINE */
    PEER_PUTS,  /* sleeps for room in LINE, which is full */
};

enum joining { JOINED, GRANTED, STRANGER };

typedef aclError (*order_fn)(const struct order *o, int64_t *value);

struct role {
    const char *name;
    order_fn prepare; /* before points count; NULL: nothing */
    order_fn act;
    enum meanwhile meanwhile;
    enum joining joining; /* the victim and LINE */
    /* messages of two buffers in FEED for prepare() to take, of which others have references */
    unsigned fed;
    unsigned filled;       /* messages in LINE */
    uint32_t rights;       /* of the others in LINE if the victim has made it; 0: the manager has */
    bool orphans;          /* what is in FEED is of OWNER, which dies */
    bool shared;           /* the peer has a reference, too */
    bool ends;             /* the victim destroys LINE */
    bool loses;            /* what the victim puts need not arrive, even if the call has returned */
    uint32_t stop_at;      /* the point where the peer stops, when ... */
    order_fn stopped;      /* ... told this, of LINE, before the victim acts */
    const char *sleeps_in; /* the function that does not return */
    const char *served_in; /* the function in which it sleeps until the manager does ... */
    order_fn serve;        /* ... this, to LINE; or the victim is granted LINE */
    bool varies;           /* whether it passes a point is not ours to say */
};
extern const struct role roles[];
extern const size_t n_roles;

/** Shared by all processes of the case. */
struct switches {
    struct kill_switch kill; /* the victim's */
    struct kill_switch stop; /* the peer's */
};
extern struct switches *switches;

/* What the peer can be stopped in, beside orders of the cast. */
aclError order_references(const struct order *o, int64_t *value);
