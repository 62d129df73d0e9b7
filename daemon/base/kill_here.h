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
    X(KEPT_FILLED, "larger record filled, not in use")                                             \
    X(KEPT_GROWN, "larger record in use, beside the old one")                                      \
    X(ANSWER_COMMITTED, "changes certain, answer not sent")                                        \
    X(ANSWER_SENT, "answer sent, request not taken")                                               \
    X(ANSWER_TAKEN, "request answered and taken")                                                  \
    X(IPC_NUMBERED, "number of an opener given out, not committed")                                \
    X(IPC_GONE, "opener gone in the page, its records pending")                                    \
    X(IPC_REMEMBERED, "failure remembered, record pending in the page")                            \
    X(IPC_FAILED, "record failed in the page, waiters not told")

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
