/*
 * Sessions that copy on a device, for tests in which what does the work of devices dies, lies or
 * hangs: each result is right, or there is an error that names the loss.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/common/harness.h"

#define KIT_BLOCK     4096u
#define KIT_LOSS      ACL_ERROR_RT_LOST_HEARTBEAT
#define KIT_NOT_BEGUN ACL_ERROR_RT_DEV_SETUP_ERROR

/** What a call has failed with, or 0. */
struct outcome {
    int code;
    const char *call; /* its text */
    char text[256];
};
extern struct outcome failed;

/** True if it went well; else `failed` has it. */
#define DID(call) kit_did(call, #call)
bool kit_did(int code, const char *call);

/** Of one process. */
struct kit {
    void *device[2];
    unsigned char *to, *from; /* pinned */
    aclrtStream stream;
};

/** On device 0. */
bool kit_open(struct kit *kit);
/** The same for a process that must have it. */
void kit_open_well(struct kit *kit);
/** A block that is numbered goes there and back. Other bytes than were copied fail the test. */
bool kit_round(struct kit *kit, unsigned number);
/** Reset the device, which may not even have been set. */
void kit_reset(void);
/** After a loss that this process was told of: after a reset all is new, and well. */
void kit_expect_new_life(void);

/* --- honest sessions beside others --- */

/** One that copies until it is stopped, and must never fail. It has copied when this returns. */
pid_t honest_start(void);
/** It has gone on, and does so until now. */
void honest_stop(pid_t pid);

/* --- sessions that are told of losses --- */

#define COPIERS 4

/**
 * COPIERS processes copy: right bytes, or a loss that is named, after which each begins anew. So
 * many times they go on for a while, and then disturb(arg) is called. Prints what they have seen.
 */
void copiers_run(unsigned times, void (*disturb)(void *arg), void *arg);
