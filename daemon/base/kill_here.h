/*
 * Numbered places in npud where a test ends it with SIGKILL (tests/kill): between every two stores
 * of a change that the next npud must find either done or not begun. In a test build of npud
 * (NPUD_KILL_POINTS) only; nothing in every other build. Those of recovery begin with
 * RECOVERY_BEGINS, those of the end in order with NPUD_ENDS.
 */
#pragma once

#define KILL_PLACES(X)                                                                             \
    X(KEPT_COMMIT, "changes written down, not committed")                                          \
    X(KEPT_COMMITTED, "changes committed, not carried out")                                        \
    X(KEPT_APPLY, "some changes carried out")                                                      \
    X(KEPT_APPLIED, "changes carried out, not forgotten")                                          \
    X(KEPT_FREED, "cells of a commit given back")                                                  \
    X(KEPT_FILLED, "larger record filled, not in use")                                             \
    X(KEPT_GROWN, "larger record in use, beside the old one")                                      \
    X(KEPT_CELLS_FREED, "cells of a commit given back, keys with the keeper")                      \
    X(SLABS_TAKEN, "slabs of a large record taken, all but the first")                             \
    X(SLABS_EMPTIED, "pages of a slab given back, the slab taken")                                 \
    X(KEY_GIVEN, "key of a descriptor given out, the keeper has it not")                           \
    X(KEY_KEPT, "keeper has a descriptor that no record names")                                    \
    X(ANSWER_COMMITTED, "changes certain, answer not sent")                                        \
    X(ANSWER_SENT, "answer sent, request not taken")                                               \
    X(ANSWER_TAKEN, "request answered and taken")                                                  \
    X(REPEAT_SENT, "answer of the npud before sent again, request not taken")                      \
    X(REPEAT_TAKEN, "answer of the npud before sent again, and its request taken")                 \
    X(IPC_NUMBERED, "number of an opener given out, not committed")                                \
    X(IPC_GONE, "opener gone in the page, its records pending")                                    \
    X(IPC_LEFT, "records of an opener failed, its number set aside or free")                       \
    X(IPC_SWEPT, "records of an opener that has exited failed, its number set aside")              \
    X(IPC_REMEMBERED, "failure remembered, record pending in the page")                            \
    X(IPC_FAILED, "record failed in the page, waiters not told")                                   \
    X(RELEASE_PASSED, "fences of a destroyed object passed, the object is there")                  \
    X(EVENT_FD_TOLD, "client told of an event descriptor, which is there")                         \
    X(END_ANNOUNCED, "client told that its session ends, engines go on")                           \
    X(SESSION_HALTED, "session halted, its end not certain")                                       \
    X(CONNECTION_SHUT, "connection of an ended session to be shut, its record there")              \
    X(END_PIECE_CERTAIN, "one piece of a session ended")                                           \
    X(DEATH_AWAITED, "session halted, the death of its process awaited")                           \
    X(RING_MOVES, "queue has another ring, the old one has not ended")                             \
    X(RING_ENDED, "ring ended, its messages not noted")                                            \
    X(RING_MOVED, "messages of the old ring noted, none moved")                                    \
    X(REST_TAKEN_OUT, "message out of its ring, not in the new one")                               \
    X(REST_DONE, "message of a ring done, not noted")                                              \
    X(REST_NOTED, "message of a ring done, and noted")                                             \
    X(REST_OVER, "all messages of a ring done, their record there")                                \
    X(RING_NOTED, "messages of an ended ring noted, some sleepers woken, nothing certain")         \
    X(SLEEPERS_WOKEN, "some sleepers of an ended ring woken, the ring is there")                   \
    X(MESSAGE_TAKING, "message noted, not taken from its source")                                  \
    X(MESSAGE_TAKEN, "message taken from its source, not given to a route")                        \
    X(MESSAGE_KEPT, "message in a backlog, its record not committed")                              \
    X(MESSAGE_COPIED, "references to a message made, none put")                                    \
    X(MESSAGE_PUTTING, "message noted, not put into the ring")                                     \
    X(MESSAGE_PUT, "message in the ring, route not beyond it")                                     \
    X(MESSAGE_PASSED, "route beyond the message, npud still has it")                               \
    X(ROUTE_FROM, "first message of a route noted, the route not certain")                         \
    X(PEER_NUMBERED, "peer id given out, its session not certain")                                 \
    X(SEGMENT_DEAD, "clients told that a segment has gone, it is there")                           \
    X(SEGMENT_LEFT, "one mapping of a dead segment dropped")                                       \
    X(ALLOW_HALF, "newest segment of a queue noted, the one that is allowed not")                  \
    X(ALLOW_NOTED, "segment allowed, its readers not counted")                                     \
    X(QUEUE_ENDS, "end of a queue certain, nothing of it done")                                    \
    X(ATTACHMENT_ENDED, "one attachment of a queue that ends dropped")                             \
    X(QUEUE_RESTS, "ring of a destroyed queue ended, the queue is there")                          \
    X(TAKERS_WOKEN, "sleepers at one end of a ring woken")                                         \
    X(PARTY_LEFT, "others told that a member has left, not certain")                               \
    X(GRANTED, "grant made or changed, its process not told")                                      \
    X(GRANT_TOLD, "news of a grant stored, its threads not woken")                                 \
    X(ROUTE_BOUND, "parties told of a route, the route not certain")                               \
    X(ROUTE_UNBOUND, "route unbound, its parties not told")                                        \
    X(CHAIN_DROPPED, "members of a chain dropped, its head not")                                   \
    X(CHAIN_HELD, "head of a copied chain held, its members not")                                  \
    X(SLOT_REFERS, "slot refers to the data of a message, and is in no chain")                     \
    X(PEER_SWEPT, "what an exited process held swept in part")                                     \
    X(NOTIFY_RECORDED, "notify and streams changed, nobody let go")                                \
    X(NOTIFY_TAKEN, "bit of a notify taken, wait not retired")                                     \
    X(NOTIFY_LOOKED, "one wait for a counter over, its engine not told")                           \
    X(NOTIFY_DROPPED, "record of a notify dropped, nobody let go")                                 \
    X(NOTIFY_RESET, "notify reset, not answered")                                                  \
    X(NOTIFY_DESERTED, "waits for a notify are to fail, and none has")                             \
    X(NOTIFY_CLOSED, "waits for a closed notify failed, the notify is there")                      \
    X(TIME_KEPT, "time of a record kept, not told")                                                \
    X(TIME_TOLD, "time of a record told")                                                          \
    X(LEVEL_NOTED, "change of a level noted, not made")                                            \
    X(LEVEL_OVERWRITES, "change of another engine noted as made")                                  \
    X(LEVEL_CHANGED, "level changed, nobody woken")                                                \
    X(EVENT_CLEARED, "slot of a new event cleared, the event is not there")                        \
    X(EVENT_FREED, "all that waited for a destroyed event told, the event is there")               \
    X(TASK_READ, "task copied from its ring")                                                      \
    X(TASK_DONE, "task executed, not retired")                                                     \
    X(TASK_RETIRED, "task retired, done not published")                                            \
    X(STREAM_CLEARED, "slot of a new stream cleared, nothing of it stored")                        \
    X(GRAPH_BEGINS, "graph is to begin, its place noted")                                          \
    X(GRAPH_BEGUN, "graph begun, no task of it executed")                                          \
    X(GRAPH_TASK_READ, "task copied from the list of a graph")                                     \
    X(GRAPH_STEP, "task of a graph retired")                                                       \
    X(GRAPH_OVER, "graph retired, its memory in use")                                              \
    X(DONE_TOLD, "done published, npud's own not")                                                 \
    X(DONE_KEPT, "done published, nobody woken")                                                   \
    X(WAIT_NOTED, "wait has a time limit, and is on no list")                                      \
    X(WAIT_PARKED, "wait on its list, not begun")                                                  \
    X(COUNT_LOOKED, "waits for a counter looked at, the record not retired")                       \
    X(WAIT_COUNTED, "wait for a notify counted, its place not noted")                              \
    X(WAIT_OVER, "outcome of a wait kept, its engine not told")                                    \
    X(WORK_DONE, "slice done, progress not kept")                                                  \
    X(TICKET_TAKEN, "work has its place with a device, which is not noted")                        \
    X(TICKET_NOTED, "place of work noted, the device has not got it")                              \
    X(LANE_WRITTEN, "task in its lane, not given out")                                             \
    X(LANE_ISSUED, "task of a lane given out, its bell not rung")                                  \
    X(LANE_RUNG, "bell of a lane rung, its thread not woken")                                      \
    X(WORK_KEPT, "progress kept")                                                                  \
    X(SLICE_MADE, "slice of a reduction in kept memory, not noted")                                \
    X(SLICE_NOTED, "slice of a reduction noted, not in its destination")                           \
    X(SLICE_PUT, "slice of a reduction in its destination, progress not kept")                     \
    X(VALUE_NOTED, "value write noted, not made")                                                  \
    X(VALUE_WRITTEN, "value written")                                                              \
    X(VALUE_DESERTED, "waits for words that nobody is left to write are to fail, and none has")    \
    X(VALUE_TOLD, "one of them has failed, the others have not")                                   \
    X(CALLBACK_NOTED, "callback noted, not handed over")                                           \
    X(CALLBACK_GIVEN, "callback handed over, its thread not woken")                                \
    X(CALLBACK_HALF, "callback noted, its ordinal not")                                            \
    X(FAILURE_NOTED, "failure of a task noted, told to nobody")                                    \
    X(STREAM_FREED, "all that waited for a destroyed stream told, the stream is there")            \
    X(FAILURE_COUNTED, "failure counted, its exception not published")                             \
    X(FAILURE_TOLD, "exception published, failure not in the control block")                       \
    X(FAILURE_STORED, "failure in the control block, task not retired")                            \
    X(CONTEXT_STOPS, "context stopped, none of its streams marked")                                \
    X(STREAM_STOPS, "stream of a stopped context marked")                                          \
    X(RULE_ASKED, "rules asked about a task")                                                      \
    X(RULE_CLEARED, "streams that cleared rules hold let go, the rules are there")                 \
    X(HOLD_TAKEN, "stream held, nothing dropped")                                                  \
    X(HOLD_DROPS, "one task of a held stream dropped")                                             \
    X(HOLD_DROPPED, "all tasks of a held stream dropped")                                          \
    X(ABORT_TOLD, "abort told, stream still held")                                                 \
    X(ABORT_FREE, "stream not held any more")                                                      \
    X(DISCARD_BEGUN, "range of discarded tasks noted, without its end")                            \
    X(DISCARD_NOTED, "range of discarded tasks noted, not counted")                                \
    X(FAILURE_REMEMBERED, "failure of a record stored, the newest in the page is older")           \
    X(FAILURE_HALF, "place of a failure has its process, not its number")                          \
    X(SURVIVOR_PIECE, "one piece of what an exited process has left freed")                        \
    X(SEGMENT_UNMAPPED, "arena of an ended session unmapped, its record there")                    \
    X(STOP_WORK, "noted that work of the client is to end, not answered")                          \
    X(STOP_TASK, "task ended on request, done not published")                                      \
    X(SUMMARY_TAKEN, "summary of a doorbell taken, its words not looked at")                       \
    X(BELL_TAKEN, "word of a doorbell taken, its streams not watched")                             \
    X(COMMAND_BEGUN, "command of an administrator carried out, nothing certain")                   \
    X(COMMAND_CERTAIN, "command certain, not answered")                                            \
    X(COMMAND_ANSWERED, "command answered")                                                        \
    X(UPGRADE_NOTED, "upgrade noted, supervisor not asked")                                        \
    X(UPGRADE_ASKED, "supervisor asked for an upgrade")                                            \
    X(ALLOCATION_FREED, "allocation freed, its record there")                                      \
    X(ALLOCATION_IN_WORK, "allocation freed that work still uses")                                 \
    X(PAGES_PASSED_ON, "exporter has let go of memory, the next holder is charged, not certain")   \
    X(MEMORY_SHARED, "memory exported, not certain")                                               \
    X(MEMORY_IMPORTED, "memory imported, not certain")                                             \
    X(RECOVERY_BEGINS, "server let go, descriptors not fetched")                                   \
    X(FDS_FETCHED, "descriptors fetched, tables not mapped")                                       \
    X(TABLES_MAPPED, "tables mapped, last commit not carried out")                                 \
    X(LOG_CARRIED_OUT, "last commit carried out again, words of engines not")                      \
    X(WORDS_CARRIED_OUT, "words of an engine carried out again, not forgotten")                    \
    X(LOG_FORGOTTEN, "last commit forgotten, its keys with the keeper")                            \
    X(KEYS_DROPPED_AGAIN, "keys of the last commit dropped again")                                 \
    X(RECORD_RESTORED, "records of a kind restored up to here")                                    \
    X(KIND_RESTORED, "kinds restored up to here")                                                  \
    X(RECORDS_RESTORED, "records restored, nothing finished")                                      \
    X(REST_FINISHED, "message of an ended ring done by recovery")                                  \
    X(RESTS_FINISHED, "rings that move have another one, routes not looked at")                    \
    X(TAKES_COMMITTED, "takes from sources committed, puts not looked at")                         \
    X(PUT_FINISHED, "put of the npud before judged, its note there")                               \
    X(PUT_FORGOTTEN, "put of the npud before judged, its note gone")                               \
    X(TAKE_FINISHED, "message in hand has a record, not committed")                                \
    X(BACKLOGS_FILLED, "backlogs filled, nothing of npud swept")                                   \
    X(SLOT_TAKEN_BACK, "buffer on its way and in no ring taken back")                              \
    X(SEGMENT_SWEPT, "one segment swept for what npud had in hand")                                \
    X(NPUD_SWEPT, "all segments swept, messages not certain")                                      \
    X(MESSAGES_CERTAIN, "messages certain, routes do not go on")                                   \
    X(ROUTES_FINISHED, "routes finished, pools not")                                               \
    X(POOLS_FINISHED, "pools finished, queues not")                                                \
    X(QUEUES_FINISHED, "queues finished, grants not")                                              \
    X(GRANTS_FINISHED, "askers of grants told, sessions not")                                      \
    X(BUFFERS_FINISHED, "buffers finished, nothing else")                                          \
    X(IN_HAND_FORGOTTEN, "what was in hand judged and forgotten")                                  \
    X(OPENERS_AGAIN, "numbers of openers given out again")                                         \
    X(FAILURES_AGAIN, "failures of an IPC event told again")                                       \
    X(DONE_AGAIN, "done published again, task at the head not looked at")                          \
    X(SLICE_AGAIN, "slice of a reduction put again, progress not kept")                            \
    X(TASK_AGAIN, "task at the head restored, its callback not")                                   \
    X(CALLBACK_AGAIN, "callback handed over again")                                                \
    X(BELL_AGAIN, "doorbell set again")                                                            \
    X(FAILURE_AGAIN, "exception told again")                                                       \
    X(EVENT_FD_AGAIN, "one event descriptor waits again, or is told")                              \
    X(IDLE_PIECE, "one object of a session that is idle, or goes on, changed")                     \
    X(END_AGAIN, "session that ends halted again")                                                 \
    X(KIND_FINISHED, "one kind finished")                                                          \
    X(FDS_FORGOTTEN, "descriptors of no record dropped, recovery not certain")                     \
    X(RECOVERY_CERTAIN, "recovery certain, engines not started")                                   \
    X(ENGINES_STARTED, "engines run, sockets not open")                                            \
    X(SOCKETS_OPEN, "sockets open, no client heard")                                               \
    X(READY_TOLD, "systemd told, supervisor not")                                                  \
    X(SERVING_TOLD, "supervisor told, no client heard")                                            \
    X(NPUD_ENDS, "npud has been told to end, sessions go on")                                      \
    X(SOCKET_UNNAMED, "name of a socket removed, that of its lock not")                            \
    X(SOCKETS_REMOVED, "names of all sockets removed, nothing freed")                              \
    X(TABLES_FREED, "nothing is kept, runtime directory there")                                    \
    X(DIR_REMOVED, "runtime directory removed, the process there")

enum kill_place {
#define KILL_PLACE_ENUM(name, what) KILL_HERE_##name,
    KILL_PLACES(KILL_PLACE_ENUM)
#undef KILL_PLACE_ENUM
        KILL_PLACE_COUNT
};

#ifdef NPUD_KILL_POINTS
/** tests/kill/server/kill_here.c */
void kill_here(enum kill_place place);
#define KILL_HERE(name) kill_here(KILL_HERE_##name)
#else
#define KILL_HERE(name) ((void)0)
#endif
