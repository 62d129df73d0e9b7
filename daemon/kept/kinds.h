/*
 * The kinds of kept records. A number is never used for anything else, and a record is only ever
 * changed by appending members. What a reader does not find in a record that is shorter than its
 * own is 0; what it finds beyond its own it leaves alone. Where that is not enough, the version
 * goes up: an npud reads no record of another version, and says so before it takes over
 * (kept_can_read()).
 *
 * X(NAME, number, version, what). In the order in which they are restored: a record names only
 * records of kinds above it.
 */
#pragma once

#define KEPT_KINDS(X)                                                                              \
    X(SERVER, 1, 1, "npud itself")                                                                 \
    X(RULE, 2, 1, "rule of fault injection")                                                       \
    X(DEVICE, 3, 1, "device")                                                                      \
    X(COMMANDS, 4, 1, "commands of administrators")                                                \
    X(SESSION, 8, 1, "session")                                                                    \
    X(ATTACH, 9, 1, "use of a device")                                                             \
    X(CONTEXT, 10, 1, "context")                                                                   \
    X(STREAMS, 11, 1, "streams of an arena segment")                                               \
    X(EVENTS, 12, 1, "events of an arena segment")                                                 \
    X(DISCARDS, 13, 1, "discarded tasks")                                                          \
    X(MEMORY, 14, 1, "allocation")                                                                 \
    X(SURVIVOR, 15, 1, "process that outlives its session")                                        \
    X(IPC_EVENT, 24, 1, "IPC event")                                                               \
    X(IPC_OPENER, 29, 1, "opener of an IPC event")                                                 \
    X(IPC_FAILURES, 25, 1, "failed records of an IPC event")                                       \
    X(IPC_OPEN, 26, 1, "open IPC event")                                                           \
    X(IPC_EXPORT, 27, 1, "exported IPC event")                                                     \
    X(IPC_LEFT, 28, 1, "opener that has left")                                                     \
    X(NOTIFY, 32, 1, "notify")                                                                     \
    X(NOTIFY_PIDS, 33, 1, "importers of a notify")                                                 \
    X(NOTIFY_OPEN, 34, 1, "open notify")                                                           \
    X(RELEASE, 40, 1, "destroyed object")                                                          \
    X(EVENT_FD, 41, 1, "event descriptor")                                                         \
    X(PEER, 48, 1, "peer")                                                                         \
    X(POOL, 49, 1, "pool")                                                                         \
    X(SEGMENT, 50, 1, "segment")                                                                   \
    X(SEGMENT_MAP, 51, 1, "mapped segment")                                                        \
    X(QUEUE, 56, 1, "queue")                                                                       \
    X(QUEUE_ATTACH, 57, 1, "attached queue")                                                       \
    X(GRANT, 58, 1, "grant")                                                                       \
    X(QUEUE_MAP, 59, 1, "segment that a queue's readers map")                                      \
    X(QUEUE_REST, 60, 1, "ring that ended")                                                        \
    X(RELAY, 64, 1, "routed queue")                                                                \
    X(ROUTE, 65, 1, "route")                                                                       \
    X(MESSAGE, 66, 1, "message that npud carries")                                                 \
    X(ROUTE_GAP, 67, 1, "messages that are not for a route")                                       \
    X(ANSWER, 120, 1, "answer on its way")

enum kept_kind {
#define KIND_NUMBER(name, number, version, what) KEPT_##name = (number),
    KEPT_KINDS(KIND_NUMBER)
#undef KIND_NUMBER
        KEPT_KIND_MAX = 128
};
