/* The processes that the supervisor starts: servers and the keeper. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/supervisor/executable.h"

/* The descriptor by which a child has its connection. */
#define CHILD_FD 3

enum child_state {
    CHILD_NONE,
    CHILD_STARTED,  /* not heard of yet */
    CHILD_PREPARED, /* waits for GO */
    CHILD_CANNOT,   /* waits for GO, and will refuse */
    CHILD_GOING,    /* has GO, and does not serve yet */
    CHILD_SERVING,
};

struct child {
    enum child_state state;
    pid_t pid;          /* 0: a server of an earlier supervisor, which is not ours to reap */
    int pidfd;          /* -1: none, and so for all descriptors */
    int socket;         /* our end of its connection: for a server, supervisor_message.h */
    int life, life_end; /* of a server; life_end until it is sent */
    struct executable *program; /* what it was started from; NULL: not known */
    bool can_read;              /* it has said so, or was not asked */
    bool killed;                /* by the supervisor: it is about to be gone */
    bool hung;                  /* and that was why */
    unsigned unanswered;        /* PINGs */
    uint32_t lease;             /* the number of the LEASE that it was sent last; 0: none */
    uint32_t kept;              /* the same, of the one whose keeper has all of it */
    uint64_t deadline_ns;       /* against hanging; 0: none */
};

#define CHILD_NULL_VALUE                                                                           \
    {                                                                                              \
        .pidfd = -1, .socket = -1, .life = -1, .life_end = -1                                      \
    }
#define CHILD_NULL ((struct child)CHILD_NULL_VALUE)

/** Starts a program with a connection as CHILD_FD and standard descriptors, and no other. 0, or
 * -errno after a line in the log. Whether it could be executed is told by its end. */
int child_start(struct child *child, struct executable *program, char *const *argv);

/** The errno by which a child could not be executed, from its status as of waitpid(2); 0: it
 * could. */
int child_exec_error(int status);

/** Kills it. It is gone when its pidfd says so. */
void child_kill(struct child *child);

/** It has ended: reaps it, and forgets it. Returns its status as of waitpid(2); that of a process
 * that is not ours is SIGKILL. */
int child_reap(struct child *child);

/** Kills it, waits for its end, and forgets it. */
void child_discard(struct child *child);
