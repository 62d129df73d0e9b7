/*
 * The kinds of events, and which function accepts which kind, as a table of calls. Used in the
 * process of the test and by actors.
 */
#pragma once

#include "gate.h"

enum kind { A, B_SYNC, B_MARK, B_EXT, B_DEV, C_SYNC, C_MARK, IPC, KINDS };

struct event_kind {
    const char *name;
    aclError (*create)(aclrtEvent *event, uint32_t flag);
    uint32_t flag;
};
extern const struct event_kind event_kinds[KINDS];

/** A new event of this kind. */
aclrtEvent event_of_kind(enum kind kind);

/* When a call is made: before any record, while one is outstanding, after it. */
enum moment { FRESH = 1, PENDING = 2, EXECUTED = 4, ANY = 7 };
extern const char *const moment_names[ANY];

struct event_call {
    const char *name;
    /* Called with an event and a stream that records and waits may go to. Asserts that outputs are
     * written on success and only then. */
    aclError (*call)(aclrtEvent event, aclrtStream stream);
    unsigned when; /* the moments that `expected` is for */
    int expected[KINDS];
};
extern const struct event_call event_calls[];
extern const int event_calls_n;

#define PARAM     ACL_ERROR_RT_PARAM_INVALID
#define NO        ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define INTERNAL  ACL_ERROR_RT_INTERNAL_ERROR
#define NOT_CAPT  ACL_ERROR_RT_STREAM_NOT_CAPTURED
#define UNTIMED   ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID
#define SYNC_TIME ACL_ERROR_RT_EVENT_SYNC_TIMEOUT
