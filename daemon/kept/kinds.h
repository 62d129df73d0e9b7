/*
 * The kinds of kept records. A number is never used for anything else, and a record is only ever
 * changed by appending members. What a reader does not find in a record that is shorter than its
 * own is 0; what it finds beyond its own it leaves alone. Where that is not enough, the version
 * goes up: an npud reads no record of another version, and says so before it takes over
 * (kept_can_read()).
 *
 * X(NAME, number, version, LIVE or PLAIN: has it a live part or not?, what). In the order in which
 * they are restored: a record names only records of kinds above it.
 */
#pragma once

#define KEPT_KINDS(X)                                                                              \
    X(SERVER, 1, 1, LIVE, "npud itself")                                                           \
    X(RULE, 2, 1, LIVE, "rule of fault injection")                                                 \
    X(DEVICE, 3, 1, LIVE, "device")                                                                \
    X(COMMANDS, 4, 1, PLAIN, "commands of administrators")                                         \
    X(TRACE, 5, 1, PLAIN, "trace")                                                                 \
    X(BATCH_JOB, 6, 1, PLAIN, "job of a scheduler")                                                \
    X(SESSION, 8, 1, LIVE, "session")                                                              \
    X(TRACE_CLIENT, 18, 1, PLAIN, "ring of a trace")                                               \
    X(ATTACH, 9, 1, LIVE, "use of a device")                                                       \
    X(CONTEXT, 10, 1, LIVE, "context")                                                             \
    X(STREAMS, 11, 1, LIVE, "streams of an arena segment")                                         \
    X(EVENTS, 12, 1, LIVE, "events of an arena segment")                                           \
    X(DISCARDS, 13, 1, LIVE, "discarded tasks")                                                    \
    X(MEMORY, 14, 1, PLAIN, "allocation")                                                          \
    X(MEMORY_SHARE, 16, 1, PLAIN, "exported memory")                                               \
    X(MEMORY_PIDS, 17, 1, PLAIN, "importers of memory")                                            \
    X(SURVIVOR, 15, 1, PLAIN, "process that outlives its session")                                 \
    X(IPC_EVENT, 24, 1, LIVE, "IPC event")                                                         \
    X(IPC_OPENER, 29, 1, PLAIN, "opener of an IPC event")                                          \
    X(IPC_FAILURES, 25, 1, LIVE, "failed records of an IPC event")                                 \
    X(IPC_OPEN, 26, 1, PLAIN, "open IPC event")                                                    \
    X(IPC_EXPORT, 27, 1, PLAIN, "exported IPC event")                                              \
    X(IPC_LEFT, 28, 1, PLAIN, "opener that has left")                                              \
    X(NOTIFY, 32, 1, LIVE, "notify")                                                               \
    X(NOTIFY_PIDS, 33, 1, PLAIN, "importers of a notify")                                          \
    X(NOTIFY_OPEN, 34, 1, PLAIN, "open notify")                                                    \
    X(RELEASE, 40, 1, PLAIN, "destroyed object")                                                   \
    X(EVENT_FD, 41, 1, PLAIN, "event descriptor")                                                  \
    X(PEER, 48, 1, PLAIN, "peer")                                                                  \
    X(POOL, 49, 1, PLAIN, "pool")                                                                  \
    X(SEGMENT, 50, 1, LIVE, "segment")                                                             \
    X(SEGMENT_MAP, 51, 1, PLAIN, "mapped segment")                                                 \
    X(QUEUE, 56, 1, PLAIN, "queue")                                                                \
    X(QUEUE_ATTACH, 57, 1, PLAIN, "attached queue")                                                \
    X(GRANT, 58, 1, PLAIN, "grant")                                                                \
    X(QUEUE_MAP, 59, 1, LIVE, "segment that a queue's readers map")                                \
    X(QUEUE_REST, 60, 1, LIVE, "ring that ended")                                                  \
    X(QUEUE_SLEEPERS, 61, 1, PLAIN, "sleepers of a ring that ended")                               \
    X(RELAY, 64, 1, LIVE, "routed queue")                                                          \
    X(ROUTE, 65, 1, LIVE, "route")                                                                 \
    X(MESSAGE, 66, 1, PLAIN, "message that npud carries")                                          \
    X(ROUTE_GAP, 67, 1, PLAIN, "messages that are not for a route")                                \
    X(ANSWER, 120, 1, PLAIN, "answer on its way")

enum kept_kind {
#define KIND_NUMBER(name, number, version, live, what) KEPT_##name = (number),
    KEPT_KINDS(KIND_NUMBER)
#undef KIND_NUMBER
        KEPT_KIND_MAX = 128
};
