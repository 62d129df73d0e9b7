/*
 * The kinds of kept records. A number is never used for anything else, and a record is only ever
 * changed by appending members. What a reader does not find in a record that is shorter than its
 * own is 0; what it finds beyond its own it leaves alone. Where that is not enough, the version
 * goes up: an npud reads no record of another version, and says so before it takes over
 * (kept_can_read()).
 *
 * X(NAME, number, version, LIVE or PLAIN: has it a live part or not?, restorer, what). In the order
 * in which they are restored: a record names only records of kinds above it.
 *
 * A restorer stands in the module that has written the record. It makes the object of the record
 * anew, as it was for the npud before, and joins it to what it belongs to. False: it cannot, and
 * recovery fails. Control thread, in recovery_run() only.
 */
#pragma once

#include <stdbool.h>

struct kept_cell;
struct server;

#define KEPT_KINDS(X)                                                                              \
    X(SERVER, 1, 1, LIVE, server_restore, "npud itself")                                           \
    X(RULE, 2, 1, LIVE, inject_restore_rule, "rule of fault injection")                            \
    X(DEVICE, 3, 1, LIVE, device_restore, "device")                                                \
    X(LIBRARY, 19, 1, PLAIN, library_restore, "library of a vendor")                               \
    X(EXECUTOR, 7, 1, LIVE, executor_restore, "executor")                                          \
    X(EXECUTOR_UID, 20, 1, PLAIN, executor_uid_restore, "uid of an executor that has ended")       \
    X(COMMANDS, 4, 1, PLAIN, commands_restore, "commands of administrators")                       \
    X(TRACE, 5, 1, PLAIN, trace_restore, "trace")                                                  \
    X(BATCH_JOB, 6, 1, PLAIN, batch_job_restore, "job of a scheduler")                             \
    X(SESSION, 8, 1, LIVE, session_restore, "session")                                             \
    X(TRACE_CLIENT, 18, 1, PLAIN, trace_restore_client, "ring of a trace")                         \
    X(ATTACH, 9, 1, LIVE, attach_restore, "use of a device")                                       \
    X(CONTEXT, 10, 1, LIVE, context_restore, "context")                                            \
    X(STREAMS, 11, 1, LIVE, streams_restore, "streams of an arena segment")                        \
    X(EVENTS, 12, 1, LIVE, events_restore, "events of an arena segment")                           \
    X(DISCARDS, 13, 1, LIVE, discards_restore, "discarded tasks")                                  \
    X(MEMORY, 14, 1, PLAIN, allocation_restore, "allocation")                                      \
    X(MEMORY_EXPORT, 16, 1, PLAIN, memory_export_restore, "exported memory")                       \
    X(MEMORY_PIDS, 17, 1, PLAIN, memory_export_restore_pids, "importers of memory")                \
    X(SURVIVOR, 15, 1, PLAIN, survivor_restore, "process that outlives its session")               \
    X(IPC_EVENT, 24, 1, LIVE, ipc_event_restore, "IPC event")                                      \
    X(IPC_OPENER, 29, 1, PLAIN, ipc_opener_restore, "opener of an IPC event")                      \
    X(IPC_FAILURES, 25, 1, LIVE, ipc_failures_restore, "failed records of an IPC event")           \
    X(IPC_OPEN, 26, 1, PLAIN, ipc_open_restore, "open IPC event")                                  \
    X(IPC_EXPORT, 27, 1, PLAIN, ipc_export_restore, "exported IPC event")                          \
    X(IPC_LEFT, 28, 1, PLAIN, ipc_left_restore, "opener that has left")                            \
    X(NOTIFY, 32, 1, LIVE, notify_restore, "notify")                                               \
    X(NOTIFY_PIDS, 33, 1, PLAIN, notify_pids_restore, "importers of a notify")                     \
    X(NOTIFY_OPEN, 34, 1, PLAIN, notify_open_restore, "open notify")                               \
    X(RELEASE, 40, 1, PLAIN, release_restore, "destroyed object")                                  \
    X(EVENT_FD, 41, 1, PLAIN, event_fd_restore, "event descriptor")                                \
    X(PEER, 48, 1, PLAIN, buffers_restore_peer, "peer")                                            \
    X(POOL, 49, 1, PLAIN, pool_restore, "pool")                                                    \
    X(SEGMENT, 50, 1, LIVE, segment_restore, "segment")                                            \
    X(SEGMENT_MAP, 51, 1, PLAIN, segment_map_restore, "mapped segment")                            \
    X(QUEUE, 56, 1, PLAIN, queue_restore, "queue")                                                 \
    X(QUEUE_ATTACH, 57, 1, PLAIN, queue_attach_restore, "attached queue")                          \
    X(GRANT, 58, 1, PLAIN, grant_restore, "grant")                                                 \
    X(QUEUE_MAP, 59, 1, LIVE, queue_map_restore, "segment that a queue's readers map")             \
    X(QUEUE_REST, 60, 1, LIVE, queue_rest_restore, "ring that ended")                              \
    X(QUEUE_SLEEPERS, 61, 1, PLAIN, queue_sleepers_restore, "sleepers of a ring, in 0.9.0")        \
    X(RELAY, 64, 1, LIVE, relay_restore, "routed queue")                                           \
    X(ROUTE, 65, 1, LIVE, route_restore, "route")                                                  \
    X(MESSAGE, 66, 1, PLAIN, message_restore, "message that npud carries")                         \
    X(ROUTE_GAP, 67, 1, PLAIN, route_gap_restore, "messages that are not for a route")             \
    X(ANSWER, 120, 1, PLAIN, answer_restore, "answer on its way")

enum kept_kind {
#define KIND_NUMBER(name, number, version, live, restore, what) KEPT_##name = (number),
    KEPT_KINDS(KIND_NUMBER)
#undef KIND_NUMBER
        KEPT_KIND_MAX = 128
};

#define KIND_RESTORER(name, number, version, live, restore, what)                                  \
    bool restore(struct server *server, struct kept_cell *cell);
KEPT_KINDS(KIND_RESTORER)
#undef KIND_RESTORER
