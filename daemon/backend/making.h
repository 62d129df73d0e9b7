/*
 * What a session has asked its executor for, one at a time: the request of the client waits, and is
 * made again when the executor has answered (core/backend.h). Between the files of the backends
 * "acl" and "cuda". Control thread.
 */
#pragma once

#include "daemon/backend/away.h"

/**
 * Memory that it makes or imports from another one, a binary that it
 * loads, or a function of a binary, which then is `origin`.
 */
struct making {
    struct asked asked;            /* first */
    struct backend_space *space;   /* NULL: it is not wanted any more */
    struct backend_memory *memory; /* NULL: none is to be made, or it is not wanted any more */
    struct backend_memory *origin; /* what is imported; NULL: nothing */
    char token[EXECUTOR_TOKEN_BYTES];
    int fd;          /* with the token; -1: none */
    uint64_t handle; /* of a binary: the one that is asked for */
    int result;
    bool over;
};

/** For new memory, with a handle of the session's executor. The caller asks. NULL: none is left. */
struct making *making_begin(struct backend_space *space, uint32_t device, uint64_t size);
/**
 * Have the session's executor make it, under a new handle in the request: 0 is never answered, but
 * -EINPROGRESS or -errno. fds stay the caller's.
 */
int making_ask(struct backend_space *space, struct executor_request *request, asked_fn *over,
               const int *fds, unsigned n);
/** With what it has. Its executor is not asked any more, or was not. */
void making_free(struct making *making);
/** The executor has answered: the client's request is made again, or nobody wants it any more. */
void making_end(struct making *making, int result);
/**
 * The request was made again. -EINPROGRESS; or the making is gone, with its result, and *memory is
 * what was made, if something was to be.
 */
int making_take(struct backend_space *space, struct backend_memory **memory);
/** The session goes, or asks for something else. Nothing, if there is none. */
void making_forget(struct backend_space *space);
/** The same, unless it is for this request to an executor. */
void making_forget_other(struct backend_space *space, uint32_t op);
/** Is it too early to ask for something new? The session is told when it is not any more. */
bool making_wait_for_list(struct backend_space *space);
