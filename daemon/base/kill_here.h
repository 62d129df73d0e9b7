/*
 * Numbered places in npud where a test ends it with SIGKILL (tests/kill): between every two stores
 * of a change that the next npud must find either done or not begun. In a test build of npud
 * (NPUD_KILL_POINTS) only; nothing in every other build.
 */
#pragma once

#define KILL_PLACES(X)                                                                             \
    X(KEPT_COMMIT, "changes written down, not committed")                                          \
    X(KEPT_COMMITTED, "changes committed, not carried out")                                        \
    X(KEPT_APPLY, "some changes carried out")                                                      \
    X(KEPT_APPLIED, "changes carried out, not forgotten")                                          \
    X(KEPT_FREED, "cells of a commit given back")                                                  \
    X(ANSWER_COMMITTED, "changes certain, answer not sent")                                        \
    X(ANSWER_SENT, "answer sent, request not taken")                                               \
    X(ANSWER_TAKEN, "request answered and taken")                                                  \
    X(RING_MOVES, "queue has another ring, the old one has not ended")                             \
    X(RING_ENDED, "ring ended, its messages not noted")                                            \
    X(RING_MOVED, "messages of the old ring noted, none moved")                                    \
    X(REST_TAKEN_OUT, "message out of its ring, not in the new one")                               \
    X(REST_DONE, "message of a ring done, not noted")                                              \
    X(REST_NOTED, "message of a ring done, and noted")                                             \
    X(MESSAGE_TAKING, "message noted, not taken from its source")                                  \
    X(MESSAGE_TAKEN, "message taken from its source, not given to a route")                        \
    X(MESSAGE_KEPT, "message in a backlog, its record not committed")                              \
    X(MESSAGE_COPIED, "references to a message made, none put")                                    \
    X(MESSAGE_PUTTING, "message noted, not put into the ring")                                     \
    X(MESSAGE_PUT, "message in the ring, route not beyond it")                                     \
    X(MESSAGE_PASSED, "route beyond the message, npud still has it")

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
