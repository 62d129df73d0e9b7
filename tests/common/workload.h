/*
 * Processes that do, step by step and one after the other, a bit of everything that npud keeps.
 * Each checks what it gets: none may notice that npud has ended. Two go through all steps; two
 * others, the victims, leave work in hand when they are ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

#define VICTIMS         2
#define VICTIM_MESSAGES 4 /* in its queue: the first is the first process's */

struct victim {
    aclrtIpcEventHandle ipc; /* all of them made by the first process */
    char key[65];
    char memory_key[65];
    uint32_t queue;
    int32_t pid;
};

/** Shared by all. */
struct workload {
    aclrtIpcEventHandle ipc[2]; /* of the first process, and of the second */
    char key[65];               /* of a notify of the first */
    char memory_key[65];        /* of memory of the first */
    uint32_t queue[3];          /* the third one is the second process's, and routed into */
    int32_t second;             /* its pid */
    uint32_t victims;           /* there are so many */
    bool injects;               /* the processes may give rules of injection */
    struct victim victim[VICTIMS];
};
extern struct workload *workload;

/** main() of the actors; each goes step by step. */
int first_main(int fd, void *arg);
int second_main(int fd, void *arg);
/** arg: its struct victim. It has one step, after the two others' first STEPS_BEFORE_VICTIMS. */
int victim_main(int fd, void *arg);

/** Steps of the first two, in turn: the first process begins. */
#define WORKLOAD_STEPS       7
#define STEPS_BEFORE_VICTIMS 2
/** With all four there is all that npud keeps. */
#define STEPS_BEFORE_DEATHS 3
/** The process whose session has ended exits: what it has left is there. */
#define STEPS_BEFORE_EXIT 5
