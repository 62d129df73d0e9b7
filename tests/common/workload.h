/*
 * Two processes that do, step by step and one after the other, a bit of everything that npud keeps.
 * Each checks what it gets: neither may notice that npud has ended.
 */
#pragma once

#include <stdint.h>

#include "acl/acl.h"

/** Shared by both. */
struct workload {
    aclrtIpcEventHandle ipc[2]; /* of the first process, and of the second */
    char key[65];               /* of a notify of the first */
    uint32_t queue[3];          /* the third one is the second process's, and routed into */
    int32_t second;             /* its pid */
};
extern struct workload *workload;

/** main() of the actors; each goes step by step. */
int first_main(int fd, void *arg);
int second_main(int fd, void *arg);

/** Steps of each, in turn: the first process begins. */
#define WORKLOAD_STEPS 6
