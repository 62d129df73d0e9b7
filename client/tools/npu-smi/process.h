/*
 * The processes that use an NPU, and their memory. The library tells a program nothing of others,
 * so npuctl is asked, which npud answers if the user is an administrator.
 */
#pragma once

#include <stdbool.h>

struct processes;

/**
 * Asks for those of all NPUs. The caller has a session: if that is not among those which npuctl
 * tells of, npuctl has asked another npud. NULL: npud does not tell this user, or no memory.
 */
struct processes *processes_read(void);
void processes_free(struct processes *all);

/** The lines of the table for this NPU. NULL: one that says that they are not known. */
void processes_print(struct processes *all, int npu);
